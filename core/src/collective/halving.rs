//! all_gather and reduce_scatter in about log₂(p) steps with the fewest possible bytes.
//!
//! | algorithm | steps | bytes each rank sends and receives |
//! |---|---|---|
//! | all_gather | ⌈log₂p⌉ | S·(p−1)/p |
//! | reduce_scatter, p a power of two | log₂p | S·(p−1)/p |
//!
//! (Thakur, Rabenseifner, Gropp 2005.) **all_gather** by recursive doubling where p is a power of
//! two: in round k rank r exchanges all the blocks it has, an aligned group of 2ᵏ, with rank
//! r xor 2ᵏ. Else by the algorithm of Bruck, Ho, Kipnis, Upfal and Weathersby (1997): in round k
//! rank r sends the blocks it has, those of ranks r to r+2ᵏ−1 modulo p, to rank r−2ᵏ, in the last
//! round only as many as are missing there. Blocks stand at their places in the output from the
//! start, nothing is rotated at the end; blocks on both sides of the wrap from p−1 to 0 travel as
//! two messages.
//!
//! **reduce_scatter** by recursive halving: rank r begins with all blocks; in each round it is in a
//! group half as large, sends what it has of the other half's blocks to its partner there (p/2
//! away, then p/4, …) and combines what it keeps with what it receives. Where p is no power of two
//! the direct algorithm is used instead (see [`effective`](super::schedule::effective)).
//!
//! *Order of summation*: partners combine with the lower rank's partial result first, the farthest
//! partners first: for 4 ranks `(x0 op x2) op (x1 op x3)`. Types that accumulate in a wider one
//! are rounded at each round; an average is summed on the way and divided in the last.
//!
//! Long blocks are cut into pieces. The first round then sends the piece of each block as a message
//! of its own; where the blocks are not cut, and in all later rounds, it is one message.

use std::ops::Range;

use super::Problem;
use super::build::{Blocks, Builder, Stage, bytes};
use super::cut::{Limits, Pipe};
use super::plan::{Plan, Slot, Span};
use super::schedule::Plans;

/// Logarithmic all_gather.
#[derive(Debug)]
pub(super) struct Gathering {
    problem: Problem,
}

impl Gathering {
    pub(super) fn new(problem: &Problem) -> Self {
        Gathering { problem: problem.clone() }
    }

    /// The places of `count` blocks from `first` on, modulo the number of blocks.
    fn places(&self, blocks: &Blocks, first: usize, count: usize) -> [Range<u64>; 2] {
        let size = self.problem.size;
        let first = first % size;
        let before = count.min(size - first);
        [
            blocks.start(first)..blocks.start(first + before),
            blocks.start(0)..blocks.start(count - before),
        ]
    }
}

impl Plans for Gathering {
    fn plans(&self) -> u64 {
        1
    }

    fn plan(&self, _index: u64) -> Plan {
        let (rank, size) = (self.problem.rank, self.problem.size);
        let blocks = Blocks::of(&self.problem);
        let mut b = Builder::new(&self.problem);
        let own = self.problem.own_block(&b, &blocks);
        let mut distance = 1;
        while distance < size {
            let count = distance.min(size - distance);
            let (to, from, mine, theirs) = if size.is_power_of_two() {
                let (partner, first) = (rank ^ distance, rank & !(distance - 1));
                (partner, partner, first, first ^ distance)
            } else {
                let (to, from) = ((rank + size - distance) % size, (rank + distance) % size);
                (to, from, rank, rank + distance)
            };
            for range in self.places(&blocks, theirs, count) {
                if !range.is_empty() {
                    b.recv(from, b.span(Slot::Output, range));
                }
            }
            for range in self.places(&blocks, mine, count) {
                if !range.is_empty() {
                    let span = if distance == 1 { own } else { b.span(Slot::Output, range) };
                    b.send(to, span);
                }
            }
            if distance == 1 {
                b.copy(own, b.span(Slot::Output, blocks.range(rank)));
            }
            distance *= 2;
        }
        b.finish()
    }
}

/// Recursive halving, for powers of two.
#[derive(Debug)]
pub(super) struct Halving {
    problem: Problem,
    blocks: Blocks,
    pipe: Pipe,
}

impl Halving {
    pub(super) fn new(problem: &Problem, limits: &Limits) -> Self {
        debug_assert!(problem.size.is_power_of_two());
        let blocks = Blocks::of(problem);
        // p/2 blocks arrive in the first round, p/4 in the second, …
        let (element, buffers) = (problem.dtype.size(), problem.size - 1);
        let steps = 3 * problem.size;
        let pipe = Pipe::new(limits, element, blocks.longest(), buffers, steps);
        Halving { problem: problem.clone(), blocks, pipe }
    }

    fn slice(&self, piece: u64, rank: usize) -> Range<u64> {
        let (from, to) = self.pipe.bounds(piece);
        self.blocks.slice(rank, from, to)
    }

    /// Elements of a piece in the blocks of a group of ranks.
    fn width(&self, piece: u64, ranks: Range<usize>) -> u64 {
        ranks.map(|rank| self.slice(piece, rank)).map(|range| range.end - range.start).sum()
    }

    /// The ranges of a piece in the blocks of a group of ranks, joined where they touch.
    fn runs(&self, piece: u64, ranks: Range<usize>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for range in ranks.map(|rank| self.slice(piece, rank)).filter(|range| !range.is_empty()) {
            match runs.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => runs.push(range),
            }
        }
        runs
    }

    fn halve(&self, b: &mut Builder, piece: u64) {
        let (rank, size) = (self.problem.rank, self.problem.size);
        let element = self.problem.dtype.size();
        let own = self.problem.own_slot();
        let mut half = size / 2;
        // What this rank has after a round: the blocks of its group one after the other.
        let mut have: Option<Span> = None;
        let mut used = 0;
        while half > 0 {
            let keep = rank & !(half - 1)..(rank & !(half - 1)) + half;
            let give = keep.start ^ half..(keep.start ^ half) + half;
            let partner = rank ^ half;
            let received =
                b.scratch(self.pipe.buffer(piece, size - 1, used), self.width(piece, keep.clone()));
            used += half;
            // Pairs of what this rank has and what it receives, and the place of the result.
            let mut pairs = Vec::new();
            match have {
                None => {
                    let mut offset = received.offset;
                    for run in self.runs(piece, keep.clone()) {
                        let into = b.scratch(offset, run.end - run.start);
                        offset += into.len;
                        b.recv(partner, into);
                        pairs.push((b.span(own, run), into));
                    }
                    for run in self.runs(piece, give) {
                        b.send(partner, b.span(own, run));
                    }
                }
                Some(have) => {
                    if received.len > 0 {
                        b.recv(partner, received);
                    }
                    let given = bytes(self.width(piece, give.clone()), element);
                    let (kept, sent) = if keep.start < give.start {
                        (have.offset, have.offset + received.len)
                    } else {
                        (have.offset + given, have.offset)
                    };
                    if given > 0 {
                        b.send(partner, Span::new(Slot::Scratch, sent, given));
                    }
                    pairs.push((Span::new(Slot::Scratch, kept, received.len), received));
                }
            }
            for (mine, theirs) in pairs {
                let sources =
                    if rank & half == 0 { vec![mine, theirs] } else { vec![theirs, mine] };
                if half > 1 {
                    b.reduce(theirs, sources, Stage::Partial);
                } else {
                    b.reduce(self.result(b, piece), sources, Stage::Last(size));
                }
            }
            have = Some(received);
            half /= 2;
        }
    }

    fn result(&self, b: &Builder, piece: u64) -> Span {
        let range = self.slice(piece, self.problem.rank);
        let start = match self.problem.in_place {
            true => 0,
            false => self.blocks.start(self.problem.rank),
        };
        b.span(Slot::Output, range.start - start..range.end - start)
    }
}

impl Plans for Halving {
    fn plans(&self) -> u64 {
        self.pipe.plans()
    }

    fn plan(&self, index: u64) -> Plan {
        let mut b = Builder::new(&self.problem);
        for piece in self.pipe.of_plan(index) {
            self.halve(&mut b, piece);
        }
        b.finish()
    }
}
