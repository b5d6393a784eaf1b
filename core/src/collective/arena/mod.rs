//! Algorithms over memory that all ranks of one host see.
//!
//! Short data travels on the ranks' cards: every rank posts its own and reads the others', one
//! synchronisation per operation. Long data goes through the lanes, slot by slot, so that staging
//! stays in the caches and memory is read once and written once. Reductions add up in rank order at
//! every size, so the way that was taken does not show in the bits of the result.
//!
//! Every operation reads every rank's card before it returns. That synchronises the ranks, and it
//! finds calls that do not match on all of them, whatever the operation, its root and its size.

mod all_reduce;
mod exchange;
mod gather;
mod pump;
mod reduce_scatter;
mod scan;
mod small;
#[cfg(test)]
mod tests;

use crate::call::{Operation, Signature};
use crate::collective::{Counts, Problem, Waiter};
use crate::dtype::Op;
use crate::sys::buf::Buffers;
pub(crate) use crate::transport::arena::ArenaError;
use crate::transport::arena::{ArenaGroup, MAX_RANKS};

/// Outputs from this size on are written past the caches where they are not read again.
const STREAM_FROM: usize = 8 << 20;

/// One call on its way.
struct Job<'a, 'b> {
    arena: &'a mut ArenaGroup,
    signature: &'a Signature,
    problem: &'a Problem,
    buffers: &'a mut Buffers<'b>,
    waiter: &'a mut dyn Waiter,
}

/// Carries out one operation. The buffers are as the table at [`Problem`] says.
///
/// After an error every later call fails with [`ArenaError::Stopped`].
pub(crate) fn run(
    arena: &mut ArenaGroup,
    signature: &Signature,
    problem: &Problem,
    buffers: &mut Buffers,
    waiter: &mut dyn Waiter,
) -> Result<(), ArenaError> {
    assert_eq!(problem.size, arena.geometry().ranks, "the arena belongs to another group");
    assert_eq!(problem.rank, arena.rank(), "the arena belongs to another rank");
    let mut job = Job { arena, signature, problem, buffers, waiter };
    let result = match problem.operation {
        Operation::AllReduce => job.all_reduce(),
        Operation::Reduce => job.reduce(),
        Operation::Scan => job.scan(),
        Operation::ReduceScatter => job.reduce_scatter(),
        Operation::AllGather | Operation::Gather | Operation::Broadcast => job.gather(),
        Operation::Scatter | Operation::AllToAll => job.exchange(),
        Operation::Barrier => job.barrier(),
        Operation::Send | Operation::Recv | Operation::SendRecv | Operation::Split => {
            unreachable!("{} is no operation of an arena", problem.operation)
        }
    };
    if result.is_err() {
        arena.give_up();
    }
    result
}

impl Job<'_, '_> {
    /// The operator of a reduction.
    fn op(&self) -> Op {
        self.problem.op.expect("a reduction has an operator")
    }

    /// Whether this rank's contribution stands in the output. In a rooted operation only the root
    /// can have it there.
    fn in_place(&self) -> bool {
        let rooted = matches!(
            self.problem.operation,
            Operation::Reduce | Operation::Gather | Operation::Scatter | Operation::Broadcast
        );
        self.problem.in_place && (!rooted || self.problem.rank == self.problem.root)
    }

    /// What an average over all ranks is divided by.
    fn divisor(&self, contributions: usize) -> u32 {
        u32::try_from(contributions).expect("an arena has few ranks")
    }

    /// Bytes of a number of elements.
    fn bytes(&self, count: u64) -> usize {
        usize::try_from(count).expect("the buffers exist") * self.problem.dtype.size()
    }

    /// Bytes per rank, where all ranks know them.
    fn bytes_by_rank(&self) -> [usize; MAX_RANKS] {
        let mut bytes = [0; MAX_RANKS];
        for (rank, len) in bytes[..self.problem.size].iter_mut().enumerate() {
            *len = match &self.problem.counts {
                Counts::Uniform(count) => self.bytes(*count),
                Counts::ByRank(counts) => self.bytes(counts[rank]),
                Counts::Exchange { .. } => unreachable!("only all_to_all exchanges"),
            };
        }
        bytes
    }

    /// Bytes of a uniform count.
    fn uniform(&self) -> usize {
        match self.problem.counts {
            Counts::Uniform(count) => self.bytes(count),
            _ => unreachable!("{} has one count", self.problem.operation),
        }
    }
}

/// Where each block of consecutive blocks begins, and the end of the last.
fn offsets(lengths: &[usize]) -> [usize; MAX_RANKS + 1] {
    let mut offsets = [0; MAX_RANKS + 1];
    for (rank, len) in lengths.iter().enumerate() {
        offsets[rank + 1] = offsets[rank] + len;
    }
    offsets
}

/// The part of `0..len` that is the `number`-th piece.
fn piece(len: usize, piece: usize, number: u32) -> std::ops::Range<usize> {
    let start = (number as usize * piece).min(len);
    start..(start + piece).min(len)
}

/// How many pieces a length has.
fn pieces(len: usize, piece: usize) -> u32 {
    u32::try_from(len.div_ceil(piece)).expect("fewer than 2^32 slots")
}
