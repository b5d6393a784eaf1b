//! A collective call in bytes: what the typed methods and the bindings of other languages are made
//! of. Everything that can be wrong with a call is found here, before anything is sent.

use crate::call::{Call, Operation, fnv1a};
use crate::collective::{Counts, Problem};
use crate::dtype::{DType, Op};
use crate::error::ArgumentError;

/// What a call says, without its buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation; a collective.
    pub operation: Operation,
    /// The element type.
    pub dtype: DType,
    /// The operator, for reductions.
    pub op: Option<Op>,
    /// The root, for rooted operations.
    pub root: Option<usize>,
    /// Counts by rank, in elements, where they differ.
    pub counts: Option<RequestCounts>,
}

/// Counts that differ by rank, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestCounts {
    /// all_gather, reduce_scatter: one entry per rank, the same list on every rank.
    All(Vec<u64>),
    /// gather, scatter: one entry per rank at the root; other ranks pass an empty list and their
    /// count is the length of their buffer.
    AtRoot(Vec<u64>),
    /// all_to_all: elements sent to and received from each rank.
    Exchange {
        /// Elements sent to each rank.
        send: Vec<u64>,
        /// Elements received from each rank.
        recv: Vec<u64>,
    },
}

impl Request {
    /// A request without operator, root and counts.
    pub const fn new(operation: Operation, dtype: DType) -> Self {
        Request { operation, dtype, op: None, root: None, counts: None }
    }

    /// Sets the operator.
    #[must_use]
    pub const fn op(mut self, op: Op) -> Self {
        self.op = Some(op);
        self
    }

    /// Sets the root.
    #[must_use]
    pub const fn root(mut self, root: usize) -> Self {
        self.root = Some(root);
        self
    }

    /// Sets counts by rank.
    #[must_use]
    pub fn counts(mut self, counts: RequestCounts) -> Self {
        self.counts = Some(counts);
        self
    }
}

/// A request that has been checked against its buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) problem: Problem,
    pub(crate) call: Call,
}

/// Lengths in bytes of the buffers given; `None` where none was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) input: Option<usize>,
    pub(super) output: Option<usize>,
}

/// Checks a request. The conventions for buffers are those of [`Problem`].
pub(super) fn check(
    request: &Request,
    rank: usize,
    size: usize,
    given: Given,
) -> Result<Checked, ArgumentError> {
    let checker = Checker { request, rank, size, given };
    checker.form()?;
    checker.operator()?;
    let root = checker.root()?;
    let at_root = rank == root;
    let (counts, in_place) = match request.operation {
        Operation::AllReduce | Operation::Scan => checker.same_length()?,
        Operation::AllGather => checker.all_gather()?,
        Operation::ReduceScatter => checker.reduce_scatter()?,
        Operation::Broadcast => {
            let count = checker.need(given.output, "buffer")?;
            checker.none(given.input, "input")?;
            (Counts::Uniform(count), true)
        }
        Operation::Reduce if at_root => checker.same_length()?,
        Operation::Reduce => {
            checker.none(given.output, "output")?;
            (Counts::Uniform(checker.need(given.input, "input")?), false)
        }
        Operation::Gather => checker.gather(at_root)?,
        Operation::Scatter => checker.scatter(at_root)?,
        Operation::AllToAll => checker.all_to_all()?,
        Operation::Barrier => (Counts::Uniform(0), false),
        Operation::Send | Operation::Recv | Operation::SendRecv | Operation::Split => {
            return Err(ArgumentError::NotACollective { operation: request.operation });
        }
    };
    let (count, layout) = match (&counts, &request.counts) {
        (_, Some(RequestCounts::AtRoot(_))) => (0, Call::COUNTS_AT_ROOT),
        (_, Some(RequestCounts::Exchange { .. })) => (0, Call::COUNTS_EXCHANGED),
        (Counts::Uniform(count), _) => (*count, 0),
        (Counts::ByRank(counts), _) => {
            let bytes: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
            (counts.iter().sum(), fnv1a(&bytes) | 1 << 31)
        }
        (Counts::Exchange { send, .. }, _) => (send[0], 0),
    };
    let rooted = request.root.map(|root| u32::try_from(root).expect("a checked rank"));
    Ok(Checked {
        call: Call {
            operation: request.operation,
            dtype: request.dtype,
            op: request.op,
            root: rooted,
            count,
            layout,
        },
        problem: Problem {
            operation: request.operation,
            rank,
            size,
            dtype: request.dtype,
            op: request.op,
            root,
            counts,
            in_place,
        },
    })
}

struct Checker<'a> {
    request: &'a Request,
    rank: usize,
    size: usize,
    given: Given,
}

impl Checker<'_> {
    /// Whether the operation is a collective and takes counts of the form given.
    fn form(&self) -> Result<(), ArgumentError> {
        let operation = self.request.operation;
        let takes = match operation {
            Operation::AllGather | Operation::ReduceScatter => Some("All"),
            Operation::Gather | Operation::Scatter => Some("AtRoot"),
            Operation::AllToAll => Some("Exchange"),
            Operation::AllReduce
            | Operation::Broadcast
            | Operation::Reduce
            | Operation::Scan
            | Operation::Barrier => None,
            Operation::Send | Operation::Recv | Operation::SendRecv | Operation::Split => {
                return Err(ArgumentError::NotACollective { operation });
            }
        };
        let given = match self.request.counts {
            None => return Ok(()),
            Some(RequestCounts::All(_)) => "All",
            Some(RequestCounts::AtRoot(_)) => "AtRoot",
            Some(RequestCounts::Exchange { .. }) => "Exchange",
        };
        if takes == Some(given) {
            return Ok(());
        }
        let takes = match takes {
            Some("All") => "counts of the form All",
            Some("AtRoot") => "counts of the form AtRoot",
            Some(_) => "counts of the form Exchange",
            None => "no counts",
        };
        Err(ArgumentError::CountsForm { operation, takes, given })
    }

    fn operator(&self) -> Result<(), ArgumentError> {
        let operation = self.request.operation;
        match (self.reduces(), self.request.op) {
            (true, Some(op)) => op.check(self.request.dtype),
            (true, None) => Err(ArgumentError::MissingOp { operation }),
            (false, Some(op)) => Err(ArgumentError::UnusedOp { operation, op }),
            (false, None) => Ok(()),
        }
    }

    fn reduces(&self) -> bool {
        matches!(
            self.request.operation,
            Operation::AllReduce | Operation::ReduceScatter | Operation::Reduce | Operation::Scan
        )
    }

    fn root(&self) -> Result<usize, ArgumentError> {
        let root = self.request.root.unwrap_or(0);
        if root < self.size {
            Ok(root)
        } else {
            Err(ArgumentError::NoSuchRank { what: "root", rank: root, size: self.size })
        }
    }

    /// Elements of a buffer.
    fn elements(&self, bytes: usize, what: &'static str) -> Result<u64, ArgumentError> {
        let dtype = self.request.dtype;
        if bytes.is_multiple_of(dtype.size()) {
            Ok((bytes / dtype.size()) as u64)
        } else {
            Err(ArgumentError::Ragged { what, bytes: bytes as u64, dtype })
        }
    }

    fn need(&self, bytes: Option<usize>, what: &'static str) -> Result<u64, ArgumentError> {
        match bytes {
            Some(bytes) => self.elements(bytes, what),
            None => Err(ArgumentError::MissingBuffer { rank: self.rank, what }),
        }
    }

    fn none(&self, bytes: Option<usize>, what: &'static str) -> Result<(), ArgumentError> {
        match bytes {
            Some(bytes) if bytes > 0 => Err(ArgumentError::UnusedBuffer { rank: self.rank, what }),
            _ => Ok(()),
        }
    }

    fn length(what: &'static str, expected: u64, actual: u64) -> Result<(), ArgumentError> {
        if expected == actual {
            Ok(())
        } else {
            Err(ArgumentError::Length { what, expected, actual })
        }
    }

    fn share(&self, what: &'static str, count: u64) -> Result<u64, ArgumentError> {
        let size = self.size as u64;
        if count.is_multiple_of(size) {
            Ok(count / size)
        } else {
            Err(ArgumentError::Indivisible { what, count, size: self.size })
        }
    }

    fn list<'l>(
        &self,
        what: &'static str,
        counts: &'l [u64],
    ) -> Result<(&'l [u64], u64), ArgumentError> {
        if counts.len() != self.size {
            return Err(ArgumentError::Counts { what, actual: counts.len(), size: self.size });
        }
        let total = counts
            .iter()
            .try_fold(0u64, |sum, count| sum.checked_add(*count))
            .ok_or(ArgumentError::TooLarge { what })?;
        Ok((counts, total))
    }

    fn same_length(&self) -> Result<(Counts, bool), ArgumentError> {
        let count = self.need(self.given.output, "output")?;
        match self.given.input {
            None => Ok((Counts::Uniform(count), true)),
            Some(bytes) => {
                Self::length("output", self.elements(bytes, "input")?, count)?;
                Ok((Counts::Uniform(count), false))
            }
        }
    }

    fn all_gather(&self) -> Result<(Counts, bool), ArgumentError> {
        let whole = self.need(self.given.output, "output")?;
        let own = self.given.input.map(|bytes| self.elements(bytes, "input")).transpose()?;
        let counts = match &self.request.counts {
            Some(RequestCounts::All(counts)) => {
                let (counts, total) = self.list("counts", counts)?;
                Self::length("output", total, whole)?;
                if let Some(own) = own {
                    Self::length("input", counts[self.rank], own)?;
                }
                Counts::ByRank(counts.to_vec())
            }
            _ => match own {
                Some(own) => {
                    let total = own
                        .checked_mul(self.size as u64)
                        .ok_or(ArgumentError::TooLarge { what: "output" })?;
                    Self::length("output", total, whole)?;
                    Counts::Uniform(own)
                }
                None => Counts::Uniform(self.share("buffer", whole)?),
            },
        };
        Ok((counts, own.is_none()))
    }

    fn reduce_scatter(&self) -> Result<(Counts, bool), ArgumentError> {
        let output = self.need(self.given.output, "output")?;
        let input = self.given.input.map(|bytes| self.elements(bytes, "input")).transpose()?;
        let whole = input.unwrap_or(output);
        let what = if input.is_some() { "input" } else { "buffer" };
        let (counts, own) = match &self.request.counts {
            Some(RequestCounts::All(counts)) => {
                let (counts, total) = self.list("counts", counts)?;
                Self::length(what, total, whole)?;
                (Counts::ByRank(counts.to_vec()), counts[self.rank])
            }
            _ => {
                let own = self.share(what, whole)?;
                (Counts::Uniform(own), own)
            }
        };
        if input.is_some() {
            Self::length("output", own, output)?;
        }
        Ok((counts, input.is_none()))
    }

    fn gather(&self, at_root: bool) -> Result<(Counts, bool), ArgumentError> {
        if !at_root {
            self.none(self.given.output, "output")?;
            return Ok((Counts::Uniform(self.need(self.given.input, "input")?), false));
        }
        let whole = self.need(self.given.output, "output")?;
        let own = self.given.input.map(|bytes| self.elements(bytes, "input")).transpose()?;
        let counts = match &self.request.counts {
            Some(RequestCounts::AtRoot(counts)) => {
                let (counts, total) = self.list("counts", counts)?;
                Self::length("output", total, whole)?;
                if let Some(own) = own {
                    Self::length("input", counts[self.rank], own)?;
                }
                Counts::ByRank(counts.to_vec())
            }
            _ => {
                let share = self.share("output", whole)?;
                if let Some(own) = own {
                    Self::length("input", share, own)?;
                }
                Counts::Uniform(share)
            }
        };
        Ok((counts, own.is_none()))
    }

    fn scatter(&self, at_root: bool) -> Result<(Counts, bool), ArgumentError> {
        if !at_root {
            self.none(self.given.input, "input")?;
            return Ok((Counts::Uniform(self.need(self.given.output, "output")?), false));
        }
        let whole = self.need(self.given.input, "input")?;
        let own = self.given.output.map(|bytes| self.elements(bytes, "output")).transpose()?;
        let counts = match &self.request.counts {
            Some(RequestCounts::AtRoot(counts)) => {
                let (counts, total) = self.list("counts", counts)?;
                Self::length("input", total, whole)?;
                if let Some(own) = own {
                    Self::length("output", counts[self.rank], own)?;
                }
                Counts::ByRank(counts.to_vec())
            }
            _ => {
                let share = self.share("input", whole)?;
                if let Some(own) = own {
                    Self::length("output", share, own)?;
                }
                Counts::Uniform(share)
            }
        };
        Ok((counts, own.is_none()))
    }

    fn all_to_all(&self) -> Result<(Counts, bool), ArgumentError> {
        let output = self.need(self.given.output, "output")?;
        let input = match self.given.input {
            Some(bytes) => self.elements(bytes, "input")?,
            None => output,
        };
        match &self.request.counts {
            Some(RequestCounts::Exchange { send, recv }) => {
                let (send, sent) = self.list("send counts", send)?;
                let (recv, received) = self.list("receive counts", recv)?;
                Self::length("input", sent, input)?;
                Self::length("output", received, output)?;
                // What one sends to oneself is also what one receives from oneself.
                Self::length("receive count of this rank", send[self.rank], recv[self.rank])?;
                Ok((Counts::Exchange { send: send.to_vec(), recv: recv.to_vec() }, false))
            }
            _ => {
                Self::length("output", input, output)?;
                let block = self.share("input", input)?;
                let each = vec![block; self.size];
                Ok((Counts::Exchange { send: each.clone(), recv: each }, false))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32_request(operation: Operation) -> Request {
        Request::new(operation, DType::F32)
    }

    fn given(input: Option<usize>, output: Option<usize>) -> Given {
        Given { input, output }
    }

    #[test]
    fn uniform_counts_follow_from_the_buffers() {
        let request = f32_request(Operation::AllGather);
        let checked = check(&request, 1, 3, given(Some(8), Some(24))).expect("fits");
        assert_eq!(checked.problem.counts, Counts::Uniform(2));
        assert_eq!(checked.call.count, 2);
        assert!(!checked.problem.in_place);
        let checked = check(&request, 1, 3, given(None, Some(24))).expect("fits");
        assert_eq!(checked.problem.counts, Counts::Uniform(2));
        assert!(checked.problem.in_place);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let request = f32_request(Operation::AllGather);
        assert_eq!(
            check(&request, 1, 3, given(Some(8), Some(20))),
            Err(ArgumentError::Length { what: "output", expected: 6, actual: 5 })
        );
        assert_eq!(
            check(&request, 1, 3, given(Some(7), Some(24))),
            Err(ArgumentError::Ragged { what: "input", bytes: 7, dtype: DType::F32 })
        );
        assert_eq!(
            check(&request, 1, 3, given(None, Some(16))),
            Err(ArgumentError::Indivisible { what: "buffer", count: 4, size: 3 })
        );
        let counted = request.clone().counts(RequestCounts::All(vec![1, 2]));
        assert_eq!(
            check(&counted, 1, 3, given(Some(8), Some(24))),
            Err(ArgumentError::Counts { what: "counts", actual: 2, size: 3 })
        );
        let rooted = f32_request(Operation::Broadcast).root(3);
        assert_eq!(
            check(&rooted, 0, 3, given(None, Some(4))),
            Err(ArgumentError::NoSuchRank { what: "root", rank: 3, size: 3 })
        );
        let gather = f32_request(Operation::Gather).root(0);
        assert_eq!(
            check(&gather, 0, 3, given(Some(4), None)),
            Err(ArgumentError::MissingBuffer { rank: 0, what: "output" })
        );
        assert_eq!(
            check(&gather, 1, 3, given(Some(4), Some(12))),
            Err(ArgumentError::UnusedBuffer { rank: 1, what: "output" })
        );
        let reduce = f32_request(Operation::AllReduce).op(Op::BitAnd);
        assert!(matches!(
            check(&reduce, 0, 2, given(None, Some(4))),
            Err(ArgumentError::Unsupported { .. })
        ));
    }

    const COLLECTIVES: [Operation; 10] = [
        Operation::AllReduce,
        Operation::AllGather,
        Operation::ReduceScatter,
        Operation::Broadcast,
        Operation::Reduce,
        Operation::Gather,
        Operation::Scatter,
        Operation::AllToAll,
        Operation::Scan,
        Operation::Barrier,
    ];

    fn takes_an_op(operation: Operation) -> bool {
        matches!(
            operation,
            Operation::AllReduce | Operation::ReduceScatter | Operation::Reduce | Operation::Scan
        )
    }

    #[test]
    fn what_is_no_collective_is_refused() {
        for operation in Operation::ALL.into_iter().filter(|other| !COLLECTIVES.contains(other)) {
            let expected = Err(ArgumentError::NotACollective { operation });
            let request = f32_request(operation);
            assert_eq!(check(&request, 0, 2, given(Some(8), Some(8))), expected);
            assert_eq!(check(&request.op(Op::Sum), 0, 2, given(None, None)), expected);
        }
    }

    #[test]
    fn counts_of_another_form_are_refused() {
        let forms = [
            ("All", RequestCounts::All(vec![1, 1])),
            ("AtRoot", RequestCounts::AtRoot(vec![1, 1])),
            ("Exchange", RequestCounts::Exchange { send: vec![1, 1], recv: vec![1, 1] }),
        ];
        for operation in COLLECTIVES {
            let (takes, input, output) = match operation {
                Operation::AllGather => ("counts of the form All", 4, 8),
                Operation::ReduceScatter => ("counts of the form All", 8, 4),
                Operation::Gather => ("counts of the form AtRoot", 4, 8),
                Operation::Scatter => ("counts of the form AtRoot", 8, 4),
                Operation::AllToAll => ("counts of the form Exchange", 8, 8),
                _ => ("no counts", 8, 8),
            };
            for (name, counts) in &forms {
                let mut request = f32_request(operation).counts(counts.clone());
                if takes_an_op(operation) {
                    request = request.op(Op::Sum);
                }
                let answer = check(&request, 0, 2, given(Some(input), Some(output)));
                if takes.ends_with(name) {
                    assert!(answer.is_ok(), "{operation}: {answer:?}");
                } else {
                    let expected = ArgumentError::CountsForm { operation, takes, given: name };
                    assert_eq!(answer, Err(expected));
                }
            }
        }
    }

    #[test]
    fn an_operator_is_given_to_reductions_and_to_nothing_else() {
        for operation in COLLECTIVES {
            let (request, expected) = if takes_an_op(operation) {
                (f32_request(operation), ArgumentError::MissingOp { operation })
            } else {
                let op = Op::Max;
                (f32_request(operation).op(op), ArgumentError::UnusedOp { operation, op })
            };
            assert_eq!(check(&request, 0, 2, given(Some(8), Some(8))), Err(expected));
        }
    }

    #[test]
    fn lists_of_counts_that_differ_give_calls_that_differ() {
        let of = |counts: &[u64]| {
            let request =
                f32_request(Operation::AllGather).counts(RequestCounts::All(counts.to_vec()));
            check(&request, 0, 3, given(None, Some(24))).expect("fits").call
        };
        assert_eq!(of(&[1, 2, 3]), of(&[1, 2, 3]));
        assert_ne!(of(&[1, 2, 3]), of(&[1, 3, 2]));
        assert_eq!(of(&[1, 2, 3]).count, 6);
    }
}
