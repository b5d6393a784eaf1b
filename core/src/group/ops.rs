//! The typed, blocking operations.

use std::ops::Range;

use crate::call::Operation;
use crate::dtype::{DType, Element, Op};
use crate::error::{ArgumentError, Result};
use crate::sys::buf::{Buffers, as_bytes, as_bytes_mut};

use super::core::Message;
use super::{Group, Request, RequestCounts};

pub(super) fn wide(counts: &[usize]) -> Vec<u64> {
    counts.iter().map(|count| *count as u64).collect()
}

/// Collectives.
///
/// All ranks of the group call the same operation with the same element type, operator, root and
/// counts; else all of them fail with [`Cause::Mismatch`](crate::error::Cause::Mismatch). Lengths
/// are in elements. All methods may be called from any thread and block until the result is there
/// or the deadline has passed. Empty buffers and groups of one are ordinary.
impl Group {
    /// Reduces the data of all ranks; every rank gets the result in place of its data.
    ///
    /// The result is bitwise equal on all ranks. Direct, two-step and shared-memory algorithms sum
    /// in rank order.
    ///
    /// ```
    /// # fn main() -> lycaon::Result<()> {
    /// let group = lycaon::init()?; // a group of one, unless a launcher set the environment
    /// let mut data = [1.0f32, 2.0, 3.0];
    /// group.all_reduce(&mut data, lycaon::Op::Sum)?;
    /// assert_eq!(data[2], 3.0 * group.size() as f32);
    /// # Ok(())
    /// # }
    /// ```
    pub fn all_reduce<T: Element>(&self, data: &mut [T], op: Op) -> Result<()> {
        self.run(
            &Request::new(Operation::AllReduce, T::DTYPE).op(op),
            None,
            Some(as_bytes_mut(data)),
        )
    }

    /// As [`all_reduce`](Group::all_reduce), from `input` into `output` of the same length.
    pub fn all_reduce_into<T: Element>(&self, input: &[T], output: &mut [T], op: Op) -> Result<()> {
        let request = Request::new(Operation::AllReduce, T::DTYPE).op(op);
        self.run(&request, Some(as_bytes(input)), Some(as_bytes_mut(output)))
    }

    /// Every rank gets the inputs of all ranks, in rank order. `output` is `size` times as long as
    /// `input`.
    pub fn all_gather<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<()> {
        let request = Request::new(Operation::AllGather, T::DTYPE);
        self.run(&request, Some(as_bytes(input)), Some(as_bytes_mut(output)))
    }

    /// As [`all_gather`](Group::all_gather), with this rank's contribution already at its place in
    /// `data`, whose length is a multiple of `size`.
    pub fn all_gather_in_place<T: Element>(&self, data: &mut [T]) -> Result<()> {
        self.run(&Request::new(Operation::AllGather, T::DTYPE), None, Some(as_bytes_mut(data)))
    }

    /// As [`all_gather`](Group::all_gather), where rank `i` contributes `counts[i]` elements. All
    /// ranks pass the same counts.
    pub fn all_gather_v<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        counts: &[usize],
    ) -> Result<()> {
        let request =
            Request::new(Operation::AllGather, T::DTYPE).counts(RequestCounts::All(wide(counts)));
        self.run(&request, Some(as_bytes(input)), Some(as_bytes_mut(output)))
    }

    /// Reduces the inputs of all ranks; rank `i` gets the `i`-th of `size` equal blocks of the
    /// result. `input` is `size` times as long as `output`.
    pub fn reduce_scatter<T: Element>(&self, input: &[T], output: &mut [T], op: Op) -> Result<()> {
        let request = Request::new(Operation::ReduceScatter, T::DTYPE).op(op);
        self.run(&request, Some(as_bytes(input)), Some(as_bytes_mut(output)))
    }

    /// As [`reduce_scatter`](Group::reduce_scatter), in place: returns the range of `data` that
    /// holds this rank's block of the result; the rest of `data` is unspecified afterwards.
    pub fn reduce_scatter_in_place<T: Element>(
        &self,
        data: &mut [T],
        op: Op,
    ) -> Result<Range<usize>> {
        let request = Request::new(Operation::ReduceScatter, T::DTYPE).op(op);
        self.run(&request, None, Some(as_bytes_mut(data)))?;
        let block = data.len() / self.size();
        Ok(self.rank() * block..(self.rank() + 1) * block)
    }

    /// As [`reduce_scatter`](Group::reduce_scatter), where rank `i` gets `counts[i]` elements. All
    /// ranks pass the same counts.
    pub fn reduce_scatter_v<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        counts: &[usize],
        op: Op,
    ) -> Result<()> {
        let request = Request::new(Operation::ReduceScatter, T::DTYPE)
            .op(op)
            .counts(RequestCounts::All(wide(counts)));
        self.run(&request, Some(as_bytes(input)), Some(as_bytes_mut(output)))
    }

    /// Every rank gets the root's data.
    pub fn broadcast<T: Element>(&self, data: &mut [T], root: usize) -> Result<()> {
        let request = Request::new(Operation::Broadcast, T::DTYPE).root(root);
        self.run(&request, None, Some(as_bytes_mut(data)))
    }

    /// Reduces the data of all ranks; the root gets the result in place of its data, the data of
    /// the others stays as it is.
    pub fn reduce<T: Element>(&self, data: &mut [T], op: Op, root: usize) -> Result<()> {
        let request = Request::new(Operation::Reduce, T::DTYPE).op(op).root(root);
        if self.rank() == root {
            self.run(&request, None, Some(as_bytes_mut(data)))
        } else {
            self.run(&request, Some(as_bytes(data)), None)
        }
    }

    /// As [`reduce`](Group::reduce), from `input` into the `output` that only the root gives.
    pub fn reduce_into<T: Element>(
        &self,
        input: &[T],
        output: Option<&mut [T]>,
        op: Op,
        root: usize,
    ) -> Result<()> {
        let request = Request::new(Operation::Reduce, T::DTYPE).op(op).root(root);
        self.at_root(root, output.is_some(), "output")?;
        self.run(&request, Some(as_bytes(input)), output.map(as_bytes_mut))
    }

    /// The root gets the inputs of all ranks, in rank order, in the `output` that only it gives.
    pub fn gather<T: Element>(
        &self,
        input: &[T],
        output: Option<&mut [T]>,
        root: usize,
    ) -> Result<()> {
        let request = Request::new(Operation::Gather, T::DTYPE).root(root);
        self.at_root(root, output.is_some(), "output")?;
        self.run(&request, Some(as_bytes(input)), output.map(as_bytes_mut))
    }

    /// As [`gather`](Group::gather), where rank `i` contributes `counts[i]` elements; only the root
    /// gives output and counts.
    pub fn gather_v<T: Element>(
        &self,
        input: &[T],
        output: Option<(&mut [T], &[usize])>,
        root: usize,
    ) -> Result<()> {
        self.at_root(root, output.is_some(), "output and counts")?;
        let counts = output.as_ref().map_or_else(Vec::new, |(_, counts)| wide(counts));
        let request = Request::new(Operation::Gather, T::DTYPE)
            .root(root)
            .counts(RequestCounts::AtRoot(counts));
        self.run(&request, Some(as_bytes(input)), output.map(|(output, _)| as_bytes_mut(output)))
    }

    /// Rank `i` gets the `i`-th of `size` equal blocks of the `input` that only the root gives.
    pub fn scatter<T: Element>(
        &self,
        input: Option<&[T]>,
        output: &mut [T],
        root: usize,
    ) -> Result<()> {
        let request = Request::new(Operation::Scatter, T::DTYPE).root(root);
        self.at_root(root, input.is_some(), "input")?;
        self.run(&request, input.map(as_bytes), Some(as_bytes_mut(output)))
    }

    /// As [`scatter`](Group::scatter), where rank `i` gets `counts[i]` elements; only the root
    /// gives input and counts.
    pub fn scatter_v<T: Element>(
        &self,
        input: Option<(&[T], &[usize])>,
        output: &mut [T],
        root: usize,
    ) -> Result<()> {
        self.at_root(root, input.is_some(), "input and counts")?;
        let counts = input.as_ref().map_or_else(Vec::new, |(_, counts)| wide(counts));
        let request = Request::new(Operation::Scatter, T::DTYPE)
            .root(root)
            .counts(RequestCounts::AtRoot(counts));
        self.run(&request, input.map(|(input, _)| as_bytes(input)), Some(as_bytes_mut(output)))
    }

    /// Rank `i` gets the `i`-th block of every rank's input, in rank order. Both buffers hold
    /// `size` equal blocks.
    pub fn all_to_all<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<()> {
        let request = Request::new(Operation::AllToAll, T::DTYPE);
        self.run(&request, Some(as_bytes(input)), Some(as_bytes_mut(output)))
    }

    /// As [`all_to_all`](Group::all_to_all), in place of the data (which is copied for it).
    pub fn all_to_all_in_place<T: Element>(&self, data: &mut [T]) -> Result<()> {
        self.run(&Request::new(Operation::AllToAll, T::DTYPE), None, Some(as_bytes_mut(data)))
    }

    /// As [`all_to_all`](Group::all_to_all), with `send_counts[i]` elements going to rank `i` and
    /// `recv_counts[i]` coming from it.
    pub fn all_to_all_v<T: Element>(
        &self,
        input: &[T],
        send_counts: &[usize],
        output: &mut [T],
        recv_counts: &[usize],
    ) -> Result<()> {
        let request = Request::new(Operation::AllToAll, T::DTYPE)
            .counts(RequestCounts::Exchange { send: wide(send_counts), recv: wide(recv_counts) });
        self.run(&request, Some(as_bytes(input)), Some(as_bytes_mut(output)))
    }

    /// Rank `i` gets the reduction of the data of ranks `0..=i`, in place of its data.
    pub fn scan<T: Element>(&self, data: &mut [T], op: Op) -> Result<()> {
        self.run(&Request::new(Operation::Scan, T::DTYPE).op(op), None, Some(as_bytes_mut(data)))
    }

    /// As [`scan`](Group::scan), from `input` into `output` of the same length.
    pub fn scan_into<T: Element>(&self, input: &[T], output: &mut [T], op: Op) -> Result<()> {
        let request = Request::new(Operation::Scan, T::DTYPE).op(op);
        self.run(&request, Some(as_bytes(input)), Some(as_bytes_mut(output)))
    }

    /// Returns when every rank has called it.
    pub fn barrier(&self) -> Result<()> {
        self.run(&Request::new(Operation::Barrier, DType::U8), None, None)
    }

    pub(super) fn at_root(
        &self,
        root: usize,
        given: bool,
        what: &'static str,
    ) -> Result<(), ArgumentError> {
        match (self.rank() == root, given) {
            (true, false) => Err(ArgumentError::MissingBuffer { rank: root, what }),
            (false, true) if root < self.size() => {
                Err(ArgumentError::UnusedBuffer { rank: self.rank(), what })
            }
            _ => Ok(()),
        }
    }
}

/// Messages between two ranks, over any topology.
///
/// Messages with one tag between two ranks arrive in the order in which they were sent; tags are
/// independent of one another. Sender and receiver must agree on element type and length. Small
/// messages are buffered, so that `send` may return before the receiver has asked; large ones wait
/// for it.
impl Group {
    /// Sends data to a rank.
    pub fn send<T: Element>(&self, data: &[T], to: usize, tag: u32) -> Result<()> {
        self.send_bytes(T::DTYPE, as_bytes(data), to, tag)
    }

    /// Receives data from a rank; the message has exactly the length of `data`.
    pub fn recv<T: Element>(&self, data: &mut [T], from: usize, tag: u32) -> Result<()> {
        self.recv_bytes(T::DTYPE, as_bytes_mut(data), from, tag)
    }

    /// Sends to one rank and receives from another (or the same) at the same time, so that rings
    /// of ranks do not wait for one another.
    pub fn send_recv<T: Element>(
        &self,
        data: &[T],
        to: usize,
        into: &mut [T],
        from: usize,
        tag: u32,
    ) -> Result<()> {
        self.send_recv_bytes(T::DTYPE, as_bytes(data), to, as_bytes_mut(into), from, tag)
    }

    /// As [`send`](Group::send), for a type known at run time.
    pub fn send_bytes(&self, dtype: DType, data: &[u8], to: usize, tag: u32) -> Result<()> {
        let core = self.core();
        core.check_peer("destination", to)?;
        whole("data", data.len(), dtype)?;
        core.usable()?;
        let message = Message { peer: to, tag, dtype };
        core.message(core.prepare(Some(message), None, Buffers::new(data, &mut [])), dtype)
    }

    /// As [`recv`](Group::recv), for a type known at run time.
    pub fn recv_bytes(&self, dtype: DType, into: &mut [u8], from: usize, tag: u32) -> Result<()> {
        let core = self.core();
        core.check_peer("source", from)?;
        whole("data", into.len(), dtype)?;
        core.usable()?;
        let message = Message { peer: from, tag, dtype };
        core.message(core.prepare(None, Some(message), Buffers::new(&[], into)), dtype)
    }

    /// As [`send_recv`](Group::send_recv), for a type known at run time.
    pub fn send_recv_bytes(
        &self,
        dtype: DType,
        data: &[u8],
        to: usize,
        into: &mut [u8],
        from: usize,
        tag: u32,
    ) -> Result<()> {
        let core = self.core();
        core.check_peer("destination", to)?;
        core.check_peer("source", from)?;
        whole("data", data.len(), dtype)?;
        whole("into", into.len(), dtype)?;
        core.usable()?;
        let send = Message { peer: to, tag, dtype };
        let recv = Message { peer: from, tag, dtype };
        core.message(core.prepare(Some(send), Some(recv), Buffers::new(data, into)), dtype)
    }
}

/// A buffer of bytes holds whole elements.
pub(super) fn whole(what: &'static str, bytes: usize, dtype: DType) -> Result<(), ArgumentError> {
    if bytes.is_multiple_of(dtype.size()) {
        Ok(())
    } else {
        Err(ArgumentError::Ragged { what, bytes: bytes as u64, dtype })
    }
}
