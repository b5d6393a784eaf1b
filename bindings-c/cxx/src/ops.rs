//! The operations: typed ones for the types that cxx has slices of, and all of them on bytes.

use lycaon::error::ArgumentError;
use lycaon::{DType, Op, Operation, Request};

use crate::Group;
use crate::ffi;
use crate::guard::{Result, guard};

// Enumerations of C++ may hold any number.

pub(crate) fn op(op: ffi::Op) -> lycaon::Result<Op> {
    let unknown = || ArgumentError::UnknownOp { name: op.repr.to_string() };
    Ok(Op::from_number(op.repr).ok_or_else(unknown)?)
}

fn dtype(dtype: ffi::DType) -> lycaon::Result<DType> {
    let unknown = || ArgumentError::UnknownDType { name: dtype.repr.to_string() };
    Ok(DType::from_number(dtype.repr).ok_or_else(unknown)?)
}

macro_rules! typed {
    ($($type:ty: $all_reduce:ident $all_gather:ident $broadcast:ident $send:ident $recv:ident;)*) => {
        impl Group {
            $(
                pub(crate) fn $all_reduce(&self, data: &mut [$type], how: ffi::Op) -> Result<()> {
                    guard(|| self.0.all_reduce(data, op(how)?))
                }

                pub(crate) fn $all_gather(
                    &self,
                    input: &[$type],
                    output: &mut [$type],
                ) -> Result<()> {
                    guard(|| self.0.all_gather(input, output))
                }

                pub(crate) fn $broadcast(&self, data: &mut [$type], root: usize) -> Result<()> {
                    guard(|| self.0.broadcast(data, root))
                }

                pub(crate) fn $send(&self, data: &[$type], to: usize, tag: u32) -> Result<()> {
                    guard(|| self.0.send(data, to, tag))
                }

                pub(crate) fn $recv(&self, data: &mut [$type], from: usize, tag: u32) -> Result<()> {
                    guard(|| self.0.recv(data, from, tag))
                }
            )*
        }
    };
}

typed! {
    f32: all_reduce_f32 all_gather_f32 broadcast_f32 send_f32 recv_f32;
    f64: all_reduce_f64 all_gather_f64 broadcast_f64 send_f64 recv_f64;
    i32: all_reduce_i32 all_gather_i32 broadcast_i32 send_i32 recv_i32;
    i64: all_reduce_i64 all_gather_i64 broadcast_i64 send_i64 recv_i64;
}

impl Group {
    pub(crate) fn all_reduce(&self, of: ffi::DType, data: &mut [u8], how: ffi::Op) -> Result<()> {
        guard(|| {
            let request = Request::new(Operation::AllReduce, dtype(of)?).op(op(how)?);
            self.0.run(&request, None, Some(data))
        })
    }

    pub(crate) fn all_gather(&self, of: ffi::DType, input: &[u8], output: &mut [u8]) -> Result<()> {
        guard(|| {
            let request = Request::new(Operation::AllGather, dtype(of)?);
            self.0.run(&request, Some(input), Some(output))
        })
    }

    pub(crate) fn reduce_scatter(
        &self,
        of: ffi::DType,
        input: &[u8],
        output: &mut [u8],
        how: ffi::Op,
    ) -> Result<()> {
        guard(|| {
            let request = Request::new(Operation::ReduceScatter, dtype(of)?).op(op(how)?);
            self.0.run(&request, Some(input), Some(output))
        })
    }

    pub(crate) fn broadcast(&self, of: ffi::DType, data: &mut [u8], root: usize) -> Result<()> {
        guard(|| {
            let request = Request::new(Operation::Broadcast, dtype(of)?).root(root);
            self.0.run(&request, None, Some(data))
        })
    }

    /// In place at the root; the data of the others stays as it is.
    pub(crate) fn reduce(
        &self,
        of: ffi::DType,
        data: &mut [u8],
        how: ffi::Op,
        root: usize,
    ) -> Result<()> {
        guard(|| {
            let request = Request::new(Operation::Reduce, dtype(of)?).op(op(how)?).root(root);
            if self.0.rank() == root {
                self.0.run(&request, None, Some(data))
            } else {
                self.0.run(&request, Some(data), None)
            }
        })
    }

    /// The output of ranks that are not the root is not looked at.
    pub(crate) fn gather(
        &self,
        of: ffi::DType,
        input: &[u8],
        output: &mut [u8],
        root: usize,
    ) -> Result<()> {
        guard(|| {
            let request = Request::new(Operation::Gather, dtype(of)?).root(root);
            self.0.run(&request, Some(input), (self.0.rank() == root).then_some(output))
        })
    }

    /// The input of ranks that are not the root is not looked at.
    pub(crate) fn scatter(
        &self,
        of: ffi::DType,
        input: &[u8],
        output: &mut [u8],
        root: usize,
    ) -> Result<()> {
        guard(|| {
            let request = Request::new(Operation::Scatter, dtype(of)?).root(root);
            self.0.run(&request, (self.0.rank() == root).then_some(input), Some(output))
        })
    }

    pub(crate) fn all_to_all(&self, of: ffi::DType, input: &[u8], output: &mut [u8]) -> Result<()> {
        guard(|| {
            let request = Request::new(Operation::AllToAll, dtype(of)?);
            self.0.run(&request, Some(input), Some(output))
        })
    }

    pub(crate) fn scan(&self, of: ffi::DType, data: &mut [u8], how: ffi::Op) -> Result<()> {
        guard(|| {
            let request = Request::new(Operation::Scan, dtype(of)?).op(op(how)?);
            self.0.run(&request, None, Some(data))
        })
    }

    pub(crate) fn send(&self, of: ffi::DType, data: &[u8], to: usize, tag: u32) -> Result<()> {
        guard(|| self.0.send_bytes(dtype(of)?, data, to, tag))
    }

    pub(crate) fn recv(
        &self,
        of: ffi::DType,
        data: &mut [u8],
        from: usize,
        tag: u32,
    ) -> Result<()> {
        guard(|| self.0.recv_bytes(dtype(of)?, data, from, tag))
    }

    pub(crate) fn send_recv(
        &self,
        of: ffi::DType,
        data: &[u8],
        to: usize,
        into: &mut [u8],
        from: usize,
        tag: u32,
    ) -> Result<()> {
        guard(|| self.0.send_recv_bytes(dtype(of)?, data, to, into, from, tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_core() {
        for (at, dtype) in DType::ALL.into_iter().enumerate() {
            let number = ffi::DType { repr: u8::try_from(at).expect("few") };
            assert_eq!(super::dtype(number).expect("known"), dtype);
        }
        assert_eq!(ffi::DType::Complex128.repr, DType::Complex128 as u8);
        assert_eq!(ffi::DType::Bf16.repr, DType::Bf16 as u8);
        for at in Op::ALL {
            assert_eq!(super::op(ffi::Op { repr: at as u8 }).expect("known"), at);
        }
        assert_eq!(ffi::Op::LogicalOr.repr, Op::LogicalOr as u8);
        assert!(super::op(ffi::Op { repr: 99 }).is_err());
        assert!(super::dtype(ffi::DType { repr: 99 }).is_err());
    }
}
