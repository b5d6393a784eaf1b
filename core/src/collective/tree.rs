//! Binomial trees: broadcast, reduce, gather and scatter in ⌈log₂p⌉ steps.
//!
//! | algorithm | steps | bytes the root sends or receives |
//! |---|---|---|
//! | broadcast | ⌈log₂p⌉ | n·⌈log₂p⌉ |
//! | reduce | ⌈log₂p⌉ | n·⌈log₂p⌉ |
//! | gather, scatter (uniform counts) | ⌈log₂p⌉ | S·(p−1)/p |
//!
//! Ranks are counted from the root on: v = (rank − root) mod p. The parent of v is v without its
//! lowest bit; its children are v + 2ᵏ for all 2ᵏ below that bit, and child v + 2ᵏ is the root of
//! the subtree of ranks v + 2ᵏ to v + 2ᵏ⁺¹ − 1 (Thakur, Rabenseifner, Gropp 2005).
//!
//! **reduce.** *Order of summation*: a rank combines its own contribution and its children's
//! partial results, nearest child first, in one n-ary reduction, so the contributions stand in the
//! order root, root+1, …: for 8 ranks and root 0
//! `x0 op x1 op (x2 op x3) op (x4 op x5 op (x6 op x7))`, each bracket left to right. Types that
//! accumulate in a wider one are rounded once per rank on the way; an average is summed on the way
//! and divided at the root.
//!
//! **gather** and **scatter** carry the blocks of a subtree in one message; between the root and
//! its children in two if the ranks of the subtree wrap from p−1 to 0. Where counts differ by rank,
//! ranks inside of the tree do not know them, so there the direct algorithm is used.
//!
//! Long messages are cut into pieces that follow each other through the tree. Of gathered and
//! scattered blocks a piece is a part of each block, and then a message of its own at the root.

use std::ops::Range;

use super::Problem;
use super::build::{Blocks, Builder, Stage, bytes};
use super::cut::{Balanced, Limits, Pipe};
use super::plan::{Plan, Slot, Span};
use super::schedule::{Plans, log2_ceil};
use crate::call::Operation;

/// The place of a rank in the binomial tree.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Ranks counted from the root.
    at: usize,
    root: usize,
    size: usize,
}

impl Place {
    fn new(problem: &Problem) -> Self {
        let (rank, root, size) = (problem.rank, problem.root, problem.size);
        Place { at: (rank + size - root) % size, root, size }
    }

    /// The rank at a place.
    fn rank(&self, at: usize) -> usize {
        (at + self.root) % self.size
    }

    fn parent(&self) -> Option<usize> {
        (self.at != 0).then(|| self.at & (self.at - 1))
    }

    /// The places whose subtree this one's is, itself first.
    fn subtree(&self, at: usize) -> Range<usize> {
        let lowest = if at == 0 { self.size } else { at & at.wrapping_neg() };
        at..(at + lowest).min(self.size)
    }

    /// The places of the children, nearest first.
    fn children(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let end = self.subtree(self.at).end;
        let at = self.at;
        let count = log2_ceil(end - at);
        (0..count).map(move |k| at + (1 << k))
    }
}

/// A binomial tree.
#[derive(Debug)]
pub(super) struct Tree {
    problem: Problem,
    buffers: usize,
    pipe: Pipe,
}

impl Tree {
    /// Broadcast, reduce, or uniform gather or scatter.
    pub(super) fn new(problem: &Problem, limits: &Limits) -> Self {
        let rounds = log2_ceil(problem.size);
        let (buffers, steps) = match problem.operation {
            // Everything passes through the output.
            Operation::Broadcast => (0, rounds + 1),
            // One buffer per child and one for the result.
            Operation::Reduce => (rounds + 1, rounds + 3),
            // The blocks of a subtree, at most half of all.
            _ => (problem.size.div_ceil(2).next_power_of_two(), problem.size + 1),
        };
        let pipe = Pipe::new(limits, problem.dtype.size(), problem.uniform(), buffers, steps);
        Tree { problem: problem.clone(), buffers, pipe }
    }

    fn piece(&self, piece: u64) -> Range<u64> {
        Balanced::new(0..self.problem.uniform(), self.pipe.pieces).part(piece)
    }

    fn broadcast(&self, b: &mut Builder, piece: u64) {
        let place = Place::new(&self.problem);
        let range = self.piece(piece);
        if range.is_empty() {
            return;
        }
        let span = b.span(Slot::Output, range);
        if let Some(parent) = place.parent() {
            b.recv(place.rank(parent), span);
        }
        for child in place.children().rev() {
            b.send(place.rank(child), span);
        }
    }

    fn reduce(&self, b: &mut Builder, piece: u64) {
        let place = Place::new(&self.problem);
        let range = self.piece(piece);
        let count = range.end - range.start;
        if count == 0 {
            return;
        }
        let buffer =
            |b: &Builder, index| b.scratch(self.pipe.buffer(piece, self.buffers, index), count);
        let own = b.span(self.problem.own_slot(), range.clone());
        let mut sources = vec![own];
        for (index, child) in place.children().enumerate() {
            let received = buffer(b, index);
            b.recv(place.rank(child), received);
            sources.push(received);
        }
        match place.parent() {
            None => b.reduce(b.span(Slot::Output, range), sources, Stage::Last(place.size)),
            Some(parent) if sources.len() == 1 => {
                b.send(place.rank(parent), own);
            }
            Some(parent) => {
                let result = buffer(b, self.buffers - 1);
                b.reduce(result, sources, Stage::Partial);
                b.send(place.rank(parent), result);
            }
        }
    }

    /// Where a piece of the blocks of some places stands in the buffer of all blocks, in the
    /// order of the places, joined where they touch.
    fn runs(&self, place: Place, piece: u64, places: Range<usize>) -> Vec<Range<u64>> {
        let blocks = Blocks::of(&self.problem);
        let part = self.piece(piece);
        let mut runs: Vec<Range<u64>> = Vec::new();
        for at in places {
            let range = blocks.slice(place.rank(at), part.start, part.end);
            match runs.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => runs.push(range),
            }
        }
        runs
    }

    /// The messages between a child of the root and the root: places in the root's buffer, and
    /// in the packed subtree that begins at `base`.
    fn root_messages(
        &self,
        b: &Builder,
        place: Place,
        piece: u64,
        child: usize,
        base: usize,
    ) -> Vec<(Range<u64>, Span)> {
        let mut offset = base;
        self.runs(place, piece, place.subtree(child))
            .into_iter()
            .map(|run| {
                let packed = b.scratch(offset, run.end - run.start);
                offset += packed.len;
                (run, packed)
            })
            .collect()
    }

    /// The packed blocks of the subtree of `at`, in this rank's packed subtree at `base`.
    fn packed(&self, place: Place, piece: u64, base: usize, at: usize) -> Span {
        let part = self.piece(piece);
        let element = self.problem.dtype.size();
        let width = bytes(part.end - part.start, element);
        let places = place.subtree(at);
        Span::new(Slot::Scratch, base + (at - place.at) * width, places.len() * width)
    }

    fn gather(&self, b: &mut Builder, piece: u64) {
        let place = Place::new(&self.problem);
        let part = self.piece(piece);
        if part.is_empty() {
            return;
        }
        let Some(parent) = place.parent() else {
            for child in place.children() {
                for (run, _) in self.root_messages(b, place, piece, child, 0) {
                    b.recv(place.rank(child), b.span(Slot::Output, run));
                }
            }
            if !self.problem.in_place {
                let start = Blocks::of(&self.problem).start(self.problem.root);
                let result = b.span(Slot::Output, start + part.start..start + part.end);
                b.copy(b.span(Slot::Input, part), result);
            }
            return;
        };
        let own = b.span(Slot::Input, part);
        if place.subtree(place.at).len() == 1 {
            b.send(place.rank(parent), own);
            return;
        }
        let base = self.pipe.buffer(piece, self.buffers, 0);
        for child in place.children() {
            b.recv(place.rank(child), self.packed(place, piece, base, child));
        }
        b.copy(own, Span::new(Slot::Scratch, base, own.len));
        if parent == 0 {
            for (_, packed) in self.root_messages(b, place, piece, place.at, base) {
                b.send(place.rank(parent), packed);
            }
        } else {
            b.send(place.rank(parent), self.packed(place, piece, base, place.at));
        }
    }

    fn scatter(&self, b: &mut Builder, piece: u64) {
        let place = Place::new(&self.problem);
        let part = self.piece(piece);
        if part.is_empty() {
            return;
        }
        let result = b.span(Slot::Output, part.clone());
        let Some(parent) = place.parent() else {
            for child in place.children().rev() {
                for (run, _) in self.root_messages(b, place, piece, child, 0) {
                    b.send(place.rank(child), b.span(Slot::Input, run));
                }
            }
            if !self.problem.in_place {
                let start = Blocks::of(&self.problem).start(self.problem.root);
                b.copy(b.span(Slot::Input, start + part.start..start + part.end), result);
            }
            return;
        };
        if place.subtree(place.at).len() == 1 {
            b.recv(place.rank(parent), result);
            return;
        }
        let base = self.pipe.buffer(piece, self.buffers, 0);
        if parent == 0 {
            for (_, packed) in self.root_messages(b, place, piece, place.at, base) {
                b.recv(place.rank(parent), packed);
            }
        } else {
            b.recv(place.rank(parent), self.packed(place, piece, base, place.at));
        }
        for child in place.children().rev() {
            b.send(place.rank(child), self.packed(place, piece, base, child));
        }
        b.copy(Span::new(Slot::Scratch, base, result.len), result);
    }
}

impl Plans for Tree {
    fn plans(&self) -> u64 {
        self.pipe.plans()
    }

    fn plan(&self, index: u64) -> Plan {
        let mut b = Builder::new(&self.problem);
        for piece in self.pipe.of_plan(index) {
            match self.problem.operation {
                Operation::Broadcast => self.broadcast(&mut b, piece),
                Operation::Reduce => self.reduce(&mut b, piece),
                Operation::Gather => self.gather(&mut b, piece),
                Operation::Scatter => self.scatter(&mut b, piece),
                other => unreachable!("{other} has no root"),
            }
        }
        b.finish()
    }
}
