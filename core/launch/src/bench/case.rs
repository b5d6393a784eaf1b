//! One operation with one size as one rank sees it: what nccl-tests calls its size and count, which
//! buffers it has, and how it is called.

use std::ops::Range;

use lycaon::{DType, Group, Op, Operation, Request};

use super::options::reduces;

/// Where input and output are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    OutOfPlace,
    InPlace,
}

/// One operation with one size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) operation: Operation,
    pub(super) dtype: DType,
    pub(super) op: Option<Op>,
    pub(super) root: Option<usize>,
    /// Elements: of the vector, or of one rank's block where the operation cuts or joins blocks.
    pub(super) count: usize,
    pub(super) rank: usize,
    pub(super) size: usize,
}

/// Whether the vector of an operation is made of one block for each rank.
pub(super) const fn in_blocks(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::AllGather
            | Operation::ReduceScatter
            | Operation::Gather
            | Operation::Scatter
            | Operation::AllToAll
    )
}

/// Whether an operation has a root.
const fn rooted(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Broadcast | Operation::Reduce | Operation::Gather | Operation::Scatter
    )
}

impl Case {
    /// The case that comes closest to `bytes` from below; at least one element for each rank, if
    /// there are any.
    pub(super) fn new(
        operation: Operation,
        dtype: DType,
        op: Op,
        root: usize,
        bytes: u64,
        (rank, size): (usize, usize),
    ) -> Self {
        let blocks = if in_blocks(operation) { size } else { 1 };
        let elements = bytes / dtype.size() as u64 / blocks as u64;
        let count = match operation {
            Operation::Barrier => 0,
            _ if bytes == 0 => 0,
            _ => usize::try_from(elements.max(1)).expect("sizes fit into memory"),
        };
        Case {
            operation,
            dtype,
            op: reduces(operation).then_some(op),
            root: rooted(operation).then_some(root),
            count,
            rank,
            size,
        }
    }

    /// What nccl-tests calls the size: bytes of the vector, or of all ranks' blocks together.
    pub(super) fn bytes(&self) -> u64 {
        let blocks = if in_blocks(self.operation) { self.size } else { 1 };
        (self.count * blocks * self.dtype.size()) as u64
    }

    /// Bytes that each rank has to send or receive for one byte of the size, at least.
    pub(super) fn bus_factor(&self) -> f64 {
        let n = self.size as f64;
        match self.operation {
            Operation::AllReduce => 2.0 * (n - 1.0) / n,
            operation if in_blocks(operation) => (n - 1.0) / n,
            _ => 1.0,
        }
    }

    /// What the library is asked about the choice of its algorithm: bytes of one contribution or of
    /// one block.
    pub(super) fn own_bytes(&self) -> u64 {
        (self.count * self.dtype.size()) as u64
    }

    /// Whether the operation can be called like this.
    pub(super) fn has(&self, form: Form) -> bool {
        !matches!(
            (self.operation, form),
            (Operation::Broadcast, Form::OutOfPlace)
                | (Operation::Barrier | Operation::SendRecv, Form::InPlace)
        )
    }

    fn is_root(&self) -> bool {
        self.root == Some(self.rank)
    }

    /// Elements of the input and the output that this rank gives.
    pub(super) fn buffers(&self, form: Form) -> (Option<usize>, Option<usize>) {
        let (one, all) = (self.count, self.count * self.size);
        let root = self.is_root();
        match (self.operation, form) {
            (Operation::AllReduce | Operation::Scan, Form::OutOfPlace) => (Some(one), Some(one)),
            (Operation::AllReduce | Operation::Scan | Operation::Broadcast, _) => (None, Some(one)),
            (Operation::AllGather, Form::OutOfPlace) => (Some(one), Some(all)),
            (Operation::ReduceScatter, Form::OutOfPlace) => (Some(all), Some(one)),
            (Operation::AllToAll, Form::OutOfPlace) => (Some(all), Some(all)),
            (Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll, _) => {
                (None, Some(all))
            }
            (Operation::Reduce, Form::OutOfPlace) => (Some(one), root.then_some(one)),
            (Operation::Reduce, Form::InPlace) if root => (None, Some(one)),
            (Operation::Gather, Form::OutOfPlace) => (Some(one), root.then_some(all)),
            (Operation::Gather, Form::InPlace) if root => (None, Some(all)),
            (Operation::Reduce | Operation::Gather, Form::InPlace) => (Some(one), None),
            (Operation::Scatter, Form::OutOfPlace) => (root.then_some(all), Some(one)),
            (Operation::Scatter, Form::InPlace) if root => (Some(all), None),
            (Operation::Scatter, Form::InPlace) => (None, Some(one)),
            (Operation::SendRecv, _) => (Some(one), Some(one)),
            _ => (None, None),
        }
    }

    /// Where in the output this rank's result stands, in elements.
    pub(super) fn result(&self, form: Form) -> Range<usize> {
        let one = self.count;
        match (self.operation, form) {
            (Operation::ReduceScatter, Form::InPlace) => self.rank * one..(self.rank + 1) * one,
            _ => 0..self.buffers(form).1.unwrap_or(0),
        }
    }

    /// Carries the operation out.
    pub(super) fn run(
        &self,
        group: &Group,
        input: Option<&[u8]>,
        output: Option<&mut [u8]>,
    ) -> lycaon::Result<()> {
        if self.operation == Operation::SendRecv {
            let (to, from) = ((self.rank + 1) % self.size, (self.rank + self.size - 1) % self.size);
            let input = input.unwrap_or_default();
            return group.send_recv_bytes(
                self.dtype,
                input,
                to,
                output.unwrap_or_default(),
                from,
                0,
            );
        }
        let mut request = Request::new(self.operation, self.dtype);
        (request.op, request.root) = (self.op, self.root);
        group.run(&request, input, output)
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::MEASURED;
    use super::*;

    fn case(operation: Operation, bytes: u64, rank: usize, size: usize) -> Case {
        Case::new(operation, DType::F32, Op::Sum, 1, bytes, (rank, size))
    }

    #[test]
    fn size_count_and_bandwidth_follow_nccl_tests() {
        for (operation, count, bytes, factor) in [
            (Operation::AllReduce, 256, 1024, 1.5),
            (Operation::AllGather, 64, 1024, 0.75),
            (Operation::ReduceScatter, 64, 1024, 0.75),
            (Operation::AllToAll, 64, 1024, 0.75),
            (Operation::Gather, 64, 1024, 0.75),
            (Operation::Scatter, 64, 1024, 0.75),
            (Operation::Broadcast, 256, 1024, 1.0),
            (Operation::Reduce, 256, 1024, 1.0),
            (Operation::SendRecv, 256, 1024, 1.0),
            (Operation::Scan, 256, 1024, 1.0),
            (Operation::Barrier, 0, 0, 1.0),
        ] {
            let case = case(operation, 1024, 0, 4);
            assert_eq!((case.count, case.bytes()), (count, bytes), "{operation}");
            assert_eq!(case.bus_factor(), factor, "{operation}");
        }
    }

    #[test]
    fn small_sizes_are_rounded_up_to_one_element_for_each_rank() {
        assert_eq!(case(Operation::AllGather, 8, 0, 4).bytes(), 16);
        assert_eq!(case(Operation::AllReduce, 1, 0, 4).bytes(), 4);
        assert_eq!(case(Operation::AllReduce, 11, 0, 4).bytes(), 8);
        assert_eq!(case(Operation::AllGather, 0, 0, 4).bytes(), 0);
    }

    /// Every form of every operation is one that the library accepts, on every rank.
    #[test]
    fn the_library_takes_the_buffers_of_every_form() {
        let size = 3;
        let groups = lycaon::in_process(size, &Default::default()).unwrap();
        let threads: Vec<_> = groups
            .into_iter()
            .map(|group| {
                std::thread::spawn(move || {
                    for operation in MEASURED {
                        for form in [Form::OutOfPlace, Form::InPlace] {
                            let case = case(operation, 240, group.rank(), size);
                            if !case.has(form) {
                                continue;
                            }
                            let (input, output) = case.buffers(form);
                            let input = input.map(|count| vec![0; count * 4]);
                            let mut output = output.map(|count| vec![0; count * 4]);
                            case.run(&group, input.as_deref(), output.as_deref_mut())
                                .unwrap_or_else(|error| panic!("{operation} {form:?}: {error}"));
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
