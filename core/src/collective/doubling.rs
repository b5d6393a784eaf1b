//! Recursive doubling: all_reduce and scan in about log₂(p) steps with whole contributions.
//!
//! | algorithm | steps | bytes the busiest rank sends |
//! |---|---|---|
//! | all_reduce, p a power of two | log₂p | n·log₂p |
//! | all_reduce, else | ⌊log₂p⌋ + 2 | n·(⌊log₂p⌋ + 1) |
//! | scan | ⌈log₂p⌉ | n·⌈log₂p⌉ |
//!
//! **all_reduce** (Thakur, Rabenseifner, Gropp 2005). If p is no power of two, let p' be the next
//! lower one. The first 2·(p−p') ranks pair up: the even one of a pair folds its contribution into
//! the odd one's and waits for the result; p' ranks stay. In round k each of them exchanges its
//! partial result with the one 2ᵏ away, and both combine them, the lower ranks' partial result
//! first. The partial results cover neighbouring ranks, and all ranks combine the same ones in the
//! same order, so the results are bitwise equal everywhere.
//!
//! *Order of summation*: a balanced tree over the ranks in their order: for 4 ranks
//! `(x0 op x1) op (x2 op x3)`, for 3 `(x0 op x1) op x2`, for 6
//! `((x0 op x1) op (x2 op x3)) op (x4 op x5)`. Types that accumulate in a wider one are rounded
//! at each node of the tree.
//!
//! **scan** (Hillis and Steele 1986). In round k rank r sends what it has, the reduction of the
//! 2ᵏ ranks up to itself, to rank r+2ᵏ and puts what it receives in front of its own.
//!
//! *Order of summation*: `after round k` a rank holds `(what came from r−2ᵏ) op (what it had)`;
//! for rank 3 `(x0 op x1) op (x2 op x3)`, for rank 2 `x0 op (x1 op x2)`. The order is fixed, but
//! grouped differently on different ranks: with floating-point numbers the result of rank r need
//! not be that of rank r−1 combined with x(r).
//!
//! An average is summed on the way and divided in the last reduction. A long message is cut into
//! pieces that go through the rounds one after the other; each round has a receive buffer of its
//! own, so that all receives of a piece are posted at once.

use super::Problem;
use super::build::{Builder, Stage};
use super::cut::{Balanced, Limits, Pipe};
use super::plan::{Plan, Slot, Span};
use super::schedule::{Plans, log2_ceil, log2_floor};
use crate::call::Operation;

/// Recursive doubling.
#[derive(Debug)]
pub(super) struct Doubling {
    problem: Problem,
    buffers: usize,
    pipe: Pipe,
}

impl Doubling {
    /// all_reduce or scan.
    pub(super) fn new(problem: &Problem, limits: &Limits) -> Self {
        // all_reduce: one receive buffer per round and one for folding. scan: one per round and
        // one for the sum on the way to an average.
        let buffers = match problem.operation {
            Operation::AllReduce => log2_floor(problem.size) + 1,
            _ => log2_ceil(problem.size) + 1,
        };
        let pipe = Pipe::new(limits, problem.dtype.size(), problem.uniform(), buffers, 3 * buffers);
        Doubling { problem: problem.clone(), buffers, pipe }
    }

    fn buffer(&self, b: &Builder, piece: u64, index: usize, count: u64) -> Span {
        b.scratch(self.pipe.buffer(piece, self.buffers, index), count)
    }

    fn all_reduce(&self, b: &mut Builder, piece: u64) {
        let (rank, size) = (self.problem.rank, self.problem.size);
        let range = Balanced::new(0..self.problem.uniform(), self.pipe.pieces).part(piece);
        let count = range.end - range.start;
        if count == 0 {
            return;
        }
        let own = b.span(self.problem.own_slot(), range.clone());
        let output = b.span(Slot::Output, range);
        let rounds = log2_floor(size);
        let folded = size - (1 << rounds);
        if rank < 2 * folded && rank % 2 == 0 {
            b.send(rank + 1, own);
            b.recv(rank + 1, output);
            return;
        }
        // The ranks that stay, counted without the others.
        let place = if rank < 2 * folded { rank / 2 } else { rank - folded };
        let at = |place: usize| if place < folded { 2 * place + 1 } else { place + folded };
        let partner = |round: usize| at(place ^ (1 << round));

        let fold = rank < 2 * folded;
        if fold {
            b.recv(rank - 1, self.buffer(b, piece, rounds, count));
        }
        for round in 0..rounds {
            b.recv(partner(round), self.buffer(b, piece, round, count));
        }
        let mut partial = own;
        if fold {
            let sources = vec![self.buffer(b, piece, rounds, count), own];
            b.reduce(output, sources, Stage::Partial);
            partial = output;
        }
        for round in 0..rounds {
            b.send(partner(round), partial);
            let received = self.buffer(b, piece, round, count);
            let sources = if place & (1 << round) == 0 {
                vec![partial, received]
            } else {
                vec![received, partial]
            };
            let stage = if round + 1 == rounds { Stage::Last(size) } else { Stage::Partial };
            b.reduce(output, sources, stage);
            partial = output;
        }
        if fold {
            b.send(rank - 1, output);
        }
    }

    fn scan(&self, b: &mut Builder, piece: u64) {
        let (rank, size) = (self.problem.rank, self.problem.size);
        let range = Balanced::new(0..self.problem.uniform(), self.pipe.pieces).part(piece);
        let count = range.end - range.start;
        if count == 0 {
            return;
        }
        let own = b.span(self.problem.own_slot(), range.clone());
        let output = b.span(Slot::Output, range);
        let rounds = log2_ceil(size);
        for round in 0..rounds {
            if rank >= 1 << round {
                b.recv(rank - (1 << round), self.buffer(b, piece, round, count));
            }
        }
        // An average is divided in the output, while its sum may have to travel on.
        let divides = self.problem.op == Some(crate::dtype::Op::Avg);
        let sum = if divides { self.buffer(b, piece, rounds, count) } else { output };
        let mut partial = own;
        for round in 0..rounds {
            let distance = 1 << round;
            if rank + distance < size {
                b.send(rank + distance, partial);
            }
            if rank < distance {
                continue;
            }
            let sources = vec![self.buffer(b, piece, round, count), partial];
            let last = rank < 2 * distance;
            if !(last && divides) {
                b.reduce(sum, sources, Stage::Partial);
            } else if rank + 2 * distance >= size {
                b.reduce(output, sources, Stage::Last(rank + 1));
            } else if partial == sum {
                // The one that overwrites a source comes second.
                b.reduce(output, sources.clone(), Stage::Last(rank + 1));
                b.reduce(sum, sources, Stage::Partial);
            } else {
                b.reduce(sum, sources.clone(), Stage::Partial);
                b.reduce(output, sources, Stage::Last(rank + 1));
            }
            partial = sum;
        }
        if rank == 0 {
            b.reduce(output, vec![own], Stage::Last(1));
        }
    }
}

impl Plans for Doubling {
    fn plans(&self) -> u64 {
        self.pipe.plans()
    }

    fn plan(&self, index: u64) -> Plan {
        let mut b = Builder::new(&self.problem);
        for piece in self.pipe.of_plan(index) {
            match self.problem.operation {
                Operation::AllReduce => self.all_reduce(&mut b, piece),
                Operation::Scan => self.scan(&mut b, piece),
                other => unreachable!("{other} has no recursive doubling of reductions"),
            }
        }
        b.finish()
    }
}
