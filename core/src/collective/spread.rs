//! Data that is only moved: direct all_gather, broadcast, gather, scatter and all_to_all, the
//! two-step and the ring broadcast, and the barriers.
//!
//! | algorithm | how | steps | bytes the busiest rank sends or receives |
//! |---|---|---|---|
//! | all_gather, direct | everybody sends its block to everybody | 1 | S·(p−1)/p |
//! | gather, scatter, direct | every block goes straight to or from the root | 1 | S·(p−1)/p |
//! | all_to_all, direct | every block goes straight to its rank | 1 | S·(p−1)/p |
//! | broadcast, direct | the root sends everything to everybody | 1 | n·(p−1) |
//! | broadcast, two-step | the root deals parts out to the others, who pass them on to each other | 2 | n |
//! | broadcast, ring | each rank passes piece after piece to its right neighbour | p−1 + pieces−1 | n |
//! | barrier, direct | everybody tells everybody | 1 | 0 |
//! | barrier, log | dissemination: in round k tell the rank 2ᵏ to the right | ⌈log₂p⌉ | 0 |
//!
//! Every byte goes from the buffer of its sender into that of its receiver without a stop in
//! between. The direct algorithms send one message per pair, empty or not. Each rank begins with
//! its neighbour and goes round, so that not all hit one rank at once.
//!
//! The two-step broadcast is scatter and all-gather (van de Geijn; Thakur, Rabenseifner, Gropp
//! 2005), except that the root, which needs no data back, keeps no part for itself: it sends every
//! byte once. The ring is a pipelined chain. The dissemination barrier is that of Hensgen, Finkel
//! and Manber (1988): after round k a rank has heard, directly or not, from the 2ᵏ⁺¹ − 1 ranks to
//! its left.

use std::ops::Range;

use super::build::{Blocks, Builder};
use super::cut::{Balanced, Limits, Pipe};
use super::plan::{Plan, Slot, Span};
use super::schedule::Plans;
use super::{Counts, Problem};
use crate::call::Operation;

/// One message per pair of ranks, straight from buffer to buffer, in a single plan.
#[derive(Debug)]
pub(super) struct Straight {
    problem: Problem,
}

impl Straight {
    /// Direct all_gather, broadcast, gather, scatter, all_to_all or barrier.
    pub(super) fn new(problem: &Problem) -> Self {
        Straight { problem: problem.clone() }
    }

    fn right(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.problem.rank, self.problem.size);
        (1..size).map(move |d| (rank + d) % size)
    }

    fn left(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.problem.rank, self.problem.size);
        (1..size).map(move |d| (rank + size - d) % size)
    }

    fn all_gather(&self, b: &mut Builder) {
        let (blocks, rank) = (Blocks::of(&self.problem), self.problem.rank);
        for source in self.left() {
            b.recv(source, b.span(Slot::Output, blocks.range(source)));
        }
        let own = self.problem.own_block(b, &blocks);
        for receiver in self.right() {
            b.send(receiver, own);
        }
        b.copy(own, b.span(Slot::Output, blocks.range(rank)));
    }

    fn gather(&self, b: &mut Builder) {
        let (blocks, root) = (Blocks::of(&self.problem), self.problem.root);
        let own = self.problem.own_block(b, &blocks);
        if self.problem.rank != root {
            b.send(root, own);
            return;
        }
        for source in self.left() {
            b.recv(source, b.span(Slot::Output, blocks.range(source)));
        }
        b.copy(own, b.span(Slot::Output, blocks.range(root)));
    }

    fn scatter(&self, b: &mut Builder) {
        let (blocks, root) = (Blocks::of(&self.problem), self.problem.root);
        let result = b.span(Slot::Output, 0..blocks.len(self.problem.rank));
        if self.problem.rank != root {
            b.recv(root, result);
            return;
        }
        for receiver in self.right() {
            b.send(receiver, b.span(Slot::Input, blocks.range(receiver)));
        }
        if !self.problem.in_place {
            b.copy(b.span(Slot::Input, blocks.range(root)), result);
        }
    }

    fn broadcast(&self, b: &mut Builder) {
        let all = b.span(Slot::Output, 0..self.problem.uniform());
        if self.problem.rank == self.problem.root {
            for receiver in self.right() {
                b.send(receiver, all);
            }
        } else {
            b.recv(self.problem.root, all);
        }
    }

    fn all_to_all(&self, b: &mut Builder) {
        let (send, recv) = match &self.problem.counts {
            Counts::Exchange { send, recv } => (Blocks::by_rank(send), Blocks::by_rank(recv)),
            Counts::Uniform(_) | Counts::ByRank(_) => {
                (Blocks::of(&self.problem), Blocks::of(&self.problem))
            }
        };
        for (source, receiver) in self.left().zip(self.right()) {
            b.recv(source, b.span(Slot::Output, recv.range(source)));
            b.send(receiver, b.span(Slot::Input, send.range(receiver)));
        }
        let rank = self.problem.rank;
        b.copy(b.span(Slot::Input, send.range(rank)), b.span(Slot::Output, recv.range(rank)));
    }

    fn barrier(&self, b: &mut Builder) {
        let nothing = Span::new(Slot::Output, 0, 0);
        for (source, receiver) in self.left().zip(self.right()) {
            b.recv(source, nothing);
            b.send(receiver, nothing);
        }
    }
}

impl Plans for Straight {
    fn plans(&self) -> u64 {
        1
    }

    fn plan(&self, _index: u64) -> Plan {
        let mut b = Builder::new(&self.problem);
        match self.problem.operation {
            Operation::AllGather => self.all_gather(&mut b),
            Operation::Gather => self.gather(&mut b),
            Operation::Scatter => self.scatter(&mut b),
            Operation::Broadcast => self.broadcast(&mut b),
            Operation::AllToAll => self.all_to_all(&mut b),
            Operation::Barrier => self.barrier(&mut b),
            other => unreachable!("{other} is not a movement of blocks"),
        }
        b.finish()
    }
}

/// The dissemination barrier.
#[derive(Debug)]
pub(super) struct Dissemination {
    problem: Problem,
}

impl Dissemination {
    pub(super) fn new(problem: &Problem) -> Self {
        Dissemination { problem: problem.clone() }
    }
}

impl Plans for Dissemination {
    fn plans(&self) -> u64 {
        1
    }

    fn plan(&self, _index: u64) -> Plan {
        let (rank, size) = (self.problem.rank, self.problem.size);
        let nothing = Span::new(Slot::Output, 0, 0);
        let mut b = Builder::new(&self.problem);
        let mut heard = Vec::new();
        let mut distance = 1;
        while distance < size {
            let next = b.recv((rank + size - distance) % size, nothing);
            b.send_after((rank + distance) % size, nothing, &heard);
            heard.push(next);
            distance *= 2;
        }
        b.finish()
    }
}

/// A broadcast in pieces that every rank passes on.
#[derive(Debug)]
pub(super) struct Relay {
    problem: Problem,
    chain: bool,
    pipe: Pipe,
}

impl Relay {
    /// The pipelined chain from the root to the right.
    pub(super) fn ring(problem: &Problem, limits: &Limits) -> Self {
        let pipe = Pipe::new(limits, problem.dtype.size(), problem.uniform(), 0, 2);
        Relay { problem: problem.clone(), chain: true, pipe }
    }

    /// Scatter and all-gather among all ranks but the root.
    pub(super) fn two_step(problem: &Problem, limits: &Limits) -> Self {
        let others = problem.size - 1;
        let longest = problem.uniform().div_ceil(others as u64);
        let pipe = Pipe::new(limits, problem.dtype.size(), longest, 0, 2 * others);
        Relay { problem: problem.clone(), chain: false, pipe }
    }

    fn piece(&self, piece: u64) -> Range<u64> {
        Balanced::new(0..self.problem.uniform(), self.pipe.pieces).part(piece)
    }

    fn pass_along(&self, b: &mut Builder, piece: u64) {
        let (rank, size, root) = (self.problem.rank, self.problem.size, self.problem.root);
        let range = self.piece(piece);
        if range.is_empty() {
            return;
        }
        let span = b.span(Slot::Output, range);
        if rank != root {
            b.recv((rank + size - 1) % size, span);
        }
        let next = (rank + 1) % size;
        if next != root {
            b.send(next, span);
        }
    }

    /// The part of a piece that `rank`, not the root, gets from the root and passes on.
    fn part(&self, piece: u64, rank: usize) -> Option<Range<u64>> {
        let (size, root) = (self.problem.size, self.problem.root);
        let index = (rank + size - root) % size - 1;
        let range = Balanced::new(self.piece(piece), (size - 1) as u64).part(index as u64);
        (!range.is_empty()).then_some(range)
    }

    fn deal(&self, b: &mut Builder, piece: u64) {
        let (rank, size, root) = (self.problem.rank, self.problem.size, self.problem.root);
        let right = (1..size).map(|d| (rank + d) % size);
        if rank == root {
            for receiver in right {
                if let Some(range) = self.part(piece, receiver) {
                    b.send(receiver, b.span(Slot::Output, range));
                }
            }
            return;
        }
        let own = self.part(piece, rank);
        if let Some(range) = own.clone() {
            b.recv(root, b.span(Slot::Output, range));
        }
        for source in (1..size).map(|d| (rank + size - d) % size).filter(|s| *s != root) {
            if let Some(range) = self.part(piece, source) {
                b.recv(source, b.span(Slot::Output, range));
            }
        }
        if let Some(range) = own {
            for receiver in right.filter(|r| *r != root) {
                b.send(receiver, b.span(Slot::Output, range.clone()));
            }
        }
    }
}

impl Plans for Relay {
    fn plans(&self) -> u64 {
        self.pipe.plans()
    }

    fn plan(&self, index: u64) -> Plan {
        let mut b = Builder::new(&self.problem);
        for piece in self.pipe.of_plan(index) {
            if self.chain {
                self.pass_along(&mut b, piece);
            } else {
                self.deal(&mut b, piece);
            }
        }
        b.finish()
    }
}
