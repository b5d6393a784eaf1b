//! Ring algorithms: all_reduce, reduce_scatter and all_gather with messages to neighbours only.
//!
//! | algorithm | steps | bytes each rank sends and receives |
//! |---|---|---|
//! | reduce_scatter | p−1 | S·(p−1)/p |
//! | all_gather | p−1 | S·(p−1)/p |
//! | all_reduce | 2·(p−1) | 2·n·(p−1)/p |
//!
//! (p ranks, n bytes of one contribution, S bytes of all blocks.) The bytes are the fewest
//! possible and every message goes to a neighbour, so a ring of cables is enough; the price is the
//! number of steps (Thakur, Rabenseifner, Gropp, *Optimization of collective communication
//! operations in MPICH*, 2005; Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms for
//! clusters of workstations*, 2009).
//!
//! **Reduce-scatter.** In step s rank r sends the partial result of block r−1−s to its right
//! neighbour, receives that of block r−2−s from its left one, and adds its own contribution. Block
//! j sets out from rank j+1 and comes home to rank j after p−1 hops. **All-gather.** In step s
//! rank r passes block r−s on. all_reduce is the one after the other, on equal parts of the
//! message.
//!
//! **Order of summation** of block j: `((x(j+1) op x(j+2)) op …) op x(j)`, ranks modulo p, one
//! reduction per hop, so types that accumulate in a wider one are rounded at each hop. An average
//! is summed on the way and divided in the last reduction.
//!
//! **Both directions.** From three ranks on, when half a block is worth a message of its own, the
//! second half of each block travels the other way round: rank r is then rank −r of a mirrored
//! ring, and the order of block j is `((x(j−1) op x(j−2)) op …) op x(j)`. Links are used in both
//! directions at once, which halves the time where they are full duplex.
//!
//! **Pipeline.** Blocks are cut into chunks that follow each other through the steps. A chunk that
//! arrives in step s uses one of two scratch buffers, by the parity of s; so a receive waits only
//! for messages that come earlier in every rank's order, and no cycle of full buffers can form.

use std::ops::Range;

use super::build::{Blocks, Builder, Stage, bytes};
use super::cut::{ALIGN, Balanced, Limits, STEPS, piece_bytes, region};
use super::plan::{Plan, Slot, Span};
use super::schedule::Plans;
use super::{Counts, Problem};
use crate::call::Operation;

/// A ring algorithm.
#[derive(Debug)]
pub(super) struct Ring {
    problem: Problem,
    blocks: Option<Blocks>,
    longest: u64,
    lanes: usize,
    chunks: u64,
    plans: u64,
    stride: usize,
}

impl Ring {
    /// all_reduce, reduce_scatter or all_gather.
    pub(super) fn new(problem: &Problem, limits: &Limits) -> Self {
        let (element, size) = (problem.dtype.size(), problem.size);
        let (blocks, longest) = match (&problem.counts, problem.operation) {
            (Counts::Uniform(count), Operation::AllReduce) => (None, count.div_ceil(size as u64)),
            _ => {
                let blocks = Blocks::of(problem);
                let longest = blocks.longest();
                (Some(blocks), longest)
            }
        };
        let lanes = if size > 2 && bytes(longest, element) / 2 >= limits.eager.max(element) {
            2
        } else {
            1
        };
        let lane = longest.div_ceil(lanes as u64);
        // As many chunks as the steps of a plan allow, but two at least to overlap.
        let per_hop = if problem.operation == Operation::AllReduce { 5 } else { 3 };
        let most = (STEPS / (per_hop * (size - 1) * lanes)).max(2);
        let mut piece = piece_bytes(limits, bytes(lane, element));
        let (chunks, plans) = if problem.operation == Operation::AllGather {
            ((bytes(lane, element) / piece.max(1)).clamp(1, most) as u64, 1)
        } else {
            // Two buffers for each chunk in each direction.
            let bound = limits.scratch / (4 * lanes);
            piece = piece.min(if bound < ALIGN { bound } else { bound - bound % ALIGN });
            let grain = (piece / element).max(1);
            let buffers = 2 * lanes * region(grain as u64, element);
            let most = most.min((limits.scratch / buffers).max(1)) as u64;
            let chunks = lane.div_ceil(grain as u64).max(1);
            let plans = chunks.div_ceil(most);
            (chunks.div_ceil(plans), plans)
        };
        let mut ring =
            Ring { problem: problem.clone(), blocks, longest, lanes, chunks, plans, stride: 0 };
        ring.stride = region(ring.grain(), element);
        ring
    }

    /// Elements of the longest chunk: each cut may round up by one.
    fn grain(&self) -> u64 {
        let size = self.problem.size as u64;
        let of_plan = match (&self.blocks, &self.problem.counts) {
            (None, Counts::Uniform(count)) => count.div_ceil(self.plans).div_ceil(size),
            _ => self.longest.div_ceil(self.plans),
        };
        of_plan.div_ceil(self.lanes as u64).div_ceil(self.chunks)
    }

    /// A chunk of block `block`, in elements of the buffer of all blocks.
    fn chunk(&self, plan: u64, block: usize, lane: usize, chunk: u64) -> Range<u64> {
        let range = match &self.blocks {
            None => {
                let all = Balanced::new(0..self.problem.uniform(), self.plans).part(plan);
                Balanced::new(all, self.problem.size as u64).part(block as u64)
            }
            Some(blocks) => {
                let width = self.longest.div_ceil(self.plans);
                blocks.slice(block, plan * width, (plan + 1).saturating_mul(width))
            }
        };
        let lane = Balanced::new(range, self.lanes as u64).part(lane as u64);
        Balanced::new(lane, self.chunks).part(chunk)
    }

    /// Where this rank's own chunk stands before the operation.
    fn own(&self, b: &Builder, range: Range<u64>) -> Span {
        match (&self.blocks, self.problem.operation) {
            (Some(blocks), Operation::AllGather) if !self.problem.in_place => {
                let start = blocks.start(self.problem.rank);
                b.span(Slot::Input, range.start - start..range.end - start)
            }
            (_, Operation::AllGather) => b.span(Slot::Output, range),
            _ => b.span(self.problem.own_slot(), range),
        }
    }

    /// Where a finished chunk of this rank's own block goes.
    fn result(&self, b: &Builder, range: Range<u64>) -> Span {
        match &self.blocks {
            Some(blocks) if !self.problem.in_place => {
                let start = blocks.start(self.problem.rank);
                b.span(Slot::Output, range.start - start..range.end - start)
            }
            _ => b.span(Slot::Output, range),
        }
    }

    fn buffer(&self, b: &Builder, step: usize, lane: usize, chunk: u64, count: u64) -> Span {
        let index = ((step % 2) * self.lanes + lane) as u64 * self.chunks + chunk;
        let index = usize::try_from(index).expect("a plan has a bounded number of chunks");
        b.scratch(index * self.stride, count)
    }

    /// Calls `hop` for every step, chunk and direction, in the order in which messages travel.
    fn hops(&self, mut hop: impl FnMut(usize, u64, Lane)) {
        for step in 0..self.problem.size - 1 {
            for chunk in 0..self.chunks {
                for index in 0..self.lanes {
                    hop(step, chunk, Lane::new(&self.problem, index));
                }
            }
        }
    }

    fn reduce_scatter(&self, b: &mut Builder, plan: u64) {
        let last = self.problem.size - 2;
        self.hops(|step, chunk, lane| {
            let out = self.chunk(plan, lane.block(1 + step), lane.index, chunk);
            let back = self.chunk(plan, lane.block(2 + step), lane.index, chunk);
            let count = back.end - back.start;
            let partial = self.buffer(b, step, lane.index, chunk, count);
            if count > 0 {
                b.recv(lane.from, partial);
            }
            if !out.is_empty() {
                let count = out.end - out.start;
                let from = match step {
                    0 => self.own(b, out),
                    _ => self.buffer(b, step - 1, lane.index, chunk, count),
                };
                b.send(lane.to, from);
            }
            let sources = vec![partial, self.own(b, back.clone())];
            if step < last {
                b.reduce(partial, sources, Stage::Partial);
            } else {
                b.reduce(self.result(b, back), sources, Stage::Last(self.problem.size));
            }
        });
    }

    fn all_gather(&self, b: &mut Builder, plan: u64) {
        let own_is_ready = self.problem.operation == Operation::AllReduce;
        self.hops(|step, chunk, lane| {
            let out = self.chunk(plan, lane.block(step), lane.index, chunk);
            let back = self.chunk(plan, lane.block(1 + step), lane.index, chunk);
            if !back.is_empty() {
                b.recv(lane.from, b.span(Slot::Output, back));
            }
            if !out.is_empty() {
                let from = match step {
                    0 if !own_is_ready => self.own(b, out),
                    _ => b.span(Slot::Output, out),
                };
                b.send(lane.to, from);
            }
        });
    }
}

/// One direction of the ring.
#[derive(Clone, Copy, Debug)]
struct Lane {
    index: usize,
    rank: usize,
    size: usize,
    to: usize,
    from: usize,
}

impl Lane {
    /// Direction 0 sends to the right. Direction 1 is the same on the mirrored ring.
    fn new(problem: &Problem, index: usize) -> Self {
        let (rank, size) = (problem.rank, problem.size);
        let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
        let (to, from) = if index == 0 { (right, left) } else { (left, right) };
        Lane { index, rank, size, to, from }
    }

    /// The block `back` places before this rank's own, in this direction; `back ≤ size`.
    fn block(&self, back: usize) -> usize {
        match self.index {
            0 => (self.rank + self.size - back) % self.size,
            _ => (self.rank + back) % self.size,
        }
    }
}

impl Plans for Ring {
    fn plans(&self) -> u64 {
        self.plans
    }

    fn plan(&self, index: u64) -> Plan {
        let mut b = Builder::new(&self.problem);
        match self.problem.operation {
            Operation::AllReduce => {
                self.reduce_scatter(&mut b, index);
                self.all_gather(&mut b, index);
            }
            Operation::ReduceScatter => self.reduce_scatter(&mut b, index),
            Operation::AllGather => {
                self.all_gather(&mut b, index);
                let blocks = Blocks::of(&self.problem);
                let own = self.problem.own_block(&b, &blocks);
                b.copy(own, b.span(Slot::Output, blocks.range(self.problem.rank)));
            }
            other => unreachable!("{other} has no ring"),
        }
        b.finish()
    }
}
