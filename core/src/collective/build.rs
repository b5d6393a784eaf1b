//! Builds a plan from a sequence of actions and finds out by itself what has to wait for what.
//!
//! The algorithms are written like a program that runs one action after the other. The builder
//! remembers which bytes of the output and of the scratch memory each step reads and writes, and
//! makes a later step wait for an earlier one exactly if they touch a common byte and at least one
//! of them writes it. So steps that do not concern each other overlap, a buffer is never
//! overwritten while it is being sent, and no algorithm can forget a dependency. The input is
//! never written and needs no bookkeeping.

use std::ops::Range;

use crate::dtype::{DType, Op};

use super::plan::{Action, Plan, Slot, Span};
use super::{Counts, Problem};

/// Copies are cut into parts of at least this size, so that the engine can look after its
/// messages in between.
const COPY: usize = 256 << 10;

/// A copy has no more parts than this, however large it is.
const COPY_PARTS: usize = 256;

/// What a step does with a range of bytes.
#[derive(Clone, Copy, Debug)]
struct Access {
    start: usize,
    end: usize,
    step: u32,
    write: bool,
}

/// Builds one plan.
#[derive(Debug)]
pub(super) struct Builder {
    plan: Plan,
    element: usize,
    dtype: DType,
    op: Option<Op>,
    output: Vec<Access>,
    scratch: Vec<Access>,
}

/// How far a reduction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Other contributions follow elsewhere: an average is only summed.
    Partial,
    /// The last one, over this many contributions in all: an average is divided.
    Last(usize),
}

impl Builder {
    /// An empty plan for `problem`.
    pub(super) fn new(problem: &Problem) -> Self {
        Builder {
            plan: Plan::default(),
            element: problem.dtype.size(),
            dtype: problem.dtype,
            op: problem.op,
            output: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The finished plan.
    pub(super) fn finish(self) -> Plan {
        self.plan
    }

    /// A range of elements of a buffer.
    pub(super) fn span(&self, slot: Slot, elements: Range<u64>) -> Span {
        Span::new(
            slot,
            bytes(elements.start, self.element),
            bytes(elements.end - elements.start, self.element),
        )
    }

    /// `count` elements of scratch memory from byte `offset` on.
    pub(super) fn scratch(&self, offset: usize, count: u64) -> Span {
        Span::new(Slot::Scratch, offset, bytes(count, self.element))
    }

    /// Sends a range to a rank.
    pub(super) fn send(&mut self, peer: usize, from: Span) -> u32 {
        self.send_after(peer, from, &[])
    }

    /// Sends a range to a rank, not before some earlier steps are done.
    pub(super) fn send_after(&mut self, peer: usize, from: Span, after: &[u32]) -> u32 {
        self.push(Action::Send { peer, from }, &[from], None, after)
    }

    /// Receives a range from a rank.
    pub(super) fn recv(&mut self, peer: usize, into: Span) -> u32 {
        self.push(Action::Recv { peer, into }, &[], Some(into), &[])
    }

    /// Combines ranges in the order given. One source alone is copied, unless the operator
    /// changes even a single contribution.
    pub(super) fn reduce(&mut self, into: Span, sources: Vec<Span>, stage: Stage) {
        if into.len == 0 {
            return;
        }
        let op = self.op.expect("a reduction has an operator");
        let (op, divisor) = match (op, stage) {
            (Op::Avg, Stage::Partial) => (Op::Sum, 1),
            (Op::Avg, Stage::Last(contributions)) => {
                (Op::Avg, u32::try_from(contributions).expect("a group has fewer than 2^32 ranks"))
            }
            (op, _) => (op, 1),
        };
        // Logical operators give 0 or 1, and bool is made 0 or 1, from one contribution too.
        let normalises = matches!(op, Op::LogicalAnd | Op::LogicalOr) || self.dtype == DType::Bool;
        if let [source] = sources[..]
            && divisor == 1
            && !normalises
        {
            self.copy(source, into);
            return;
        }
        let reads = sources.clone();
        let action = Action::Reduce { op, divisor, dtype: self.dtype, into, sources };
        self.push(action, &reads, Some(into), &[]);
    }

    /// Copies a range, in parts if it is long. A range onto itself is left alone.
    pub(super) fn copy(&mut self, from: Span, into: Span) {
        debug_assert_eq!(from.len, into.len);
        if from == into || from.len == 0 {
            return;
        }
        let part = COPY.max(from.len.div_ceil(COPY_PARTS)).next_multiple_of(self.element);
        let mut done = 0;
        while done < from.len {
            let len = part.min(from.len - done);
            let source = Span::new(from.slot, from.offset + done, len);
            let target = Span::new(into.slot, into.offset + done, len);
            self.push(Action::Copy { from: source, into: target }, &[source], Some(target), &[]);
            done += len;
        }
    }

    fn push(&mut self, action: Action, reads: &[Span], write: Option<Span>, after: &[u32]) -> u32 {
        let mut after = after.to_vec();
        for read in reads {
            let earlier = self.accesses(read.slot);
            after.extend(overlapping(earlier, read).filter(|a| a.write).map(|a| a.step));
        }
        if let Some(write) = &write {
            after.extend(overlapping(self.accesses(write.slot), write).map(|a| a.step));
        }
        after.sort_unstable();
        after.dedup();
        let step = self.plan.push(action, after);
        if let Some(write) = &write {
            self.record(write, step, true);
        }
        for read in reads {
            if write.as_ref() != Some(read) {
                self.record(read, step, false);
            }
        }
        step
    }

    fn accesses(&self, slot: Slot) -> &[Access] {
        match slot {
            Slot::Input => &[],
            Slot::Output => &self.output,
            Slot::Scratch => &self.scratch,
        }
    }

    fn record(&mut self, span: &Span, step: u32, write: bool) {
        let (start, end) = (span.offset, span.offset + span.len);
        let accesses = match span.slot {
            Slot::Input => {
                debug_assert!(!write, "a plan writes to its input");
                return;
            }
            Slot::Output => &mut self.output,
            Slot::Scratch => {
                self.plan.scratch = self.plan.scratch.max(end);
                &mut self.scratch
            }
        };
        if start == end {
            return;
        }
        if write {
            // Whoever has to wait for these will wait for this step, which waits for them.
            accesses.retain(|access| access.start < start || access.end > end);
        }
        accesses.push(Access { start, end, step, write });
    }
}

fn overlapping<'a>(accesses: &'a [Access], span: &'a Span) -> impl Iterator<Item = &'a Access> {
    let (start, end) = (span.offset, span.offset + span.len);
    accesses.iter().filter(move |access| access.start < end && start < access.end)
}

/// Elements in bytes. A buffer of the caller has fewer than 2^63 bytes, and so has every range.
pub(super) fn bytes(elements: u64, element: usize) -> usize {
    usize::try_from(elements)
        .ok()
        .and_then(|elements| elements.checked_mul(element))
        .expect("a buffer has no more bytes than an address can count")
}

/// Where the blocks of the ranks stand in a buffer that holds one block per rank, in elements.
#[derive(Clone, Debug)]
pub(super) enum Blocks {
    /// Every block has this length.
    Uniform(u64),
    /// The first element of each block, and the end of the last.
    ByRank(Vec<u64>),
}

impl Blocks {
    /// The blocks of a problem whose counts this rank knows.
    pub(super) fn of(problem: &Problem) -> Self {
        match &problem.counts {
            Counts::Uniform(count) => Blocks::Uniform(*count),
            Counts::ByRank(counts) => Blocks::by_rank(counts),
            Counts::Exchange { recv, .. } => Blocks::by_rank(recv),
        }
    }

    /// Blocks with these lengths.
    pub(super) fn by_rank(counts: &[u64]) -> Self {
        let mut starts = Vec::with_capacity(counts.len() + 1);
        let mut end = 0_u64;
        starts.push(end);
        for count in counts {
            end = end.checked_add(*count).expect("a buffer has fewer than 2^64 elements");
            starts.push(end);
        }
        Blocks::ByRank(starts)
    }

    /// Where a rank's block begins; for `rank == size` where the last one ends.
    pub(super) fn start(&self, rank: usize) -> u64 {
        match self {
            Blocks::Uniform(count) => {
                count.checked_mul(rank as u64).expect("a buffer has fewer than 2^64 elements")
            }
            Blocks::ByRank(starts) => starts[rank],
        }
    }

    /// A rank's block.
    pub(super) fn range(&self, rank: usize) -> Range<u64> {
        self.start(rank)..self.start(rank + 1)
    }

    /// Length of a rank's block.
    pub(super) fn len(&self, rank: usize) -> u64 {
        let range = self.range(rank);
        range.end - range.start
    }

    /// Length of the longest block.
    pub(super) fn longest(&self) -> u64 {
        match self {
            Blocks::Uniform(count) => *count,
            Blocks::ByRank(starts) => {
                starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
            }
        }
    }

    /// Elements `from..to` of every block, as far as a block has them.
    pub(super) fn slice(&self, rank: usize, from: u64, to: u64) -> Range<u64> {
        let block = self.range(rank);
        let len = block.end - block.start;
        block.start + from.min(len)..block.start + to.min(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Operation;

    fn problem(dtype: DType, op: Op) -> Problem {
        Problem {
            operation: Operation::AllReduce,
            rank: 0,
            size: 2,
            dtype,
            op: Some(op),
            root: 0,
            counts: Counts::Uniform(8),
            in_place: false,
        }
    }

    fn after(plan: &Plan) -> Vec<Vec<u32>> {
        plan.steps.iter().map(|step| step.after.clone()).collect()
    }

    #[test]
    fn steps_wait_for_what_they_read_and_for_what_they_overwrite() {
        let mut b = Builder::new(&problem(DType::U8, Op::Sum));
        let (input, output) = (b.span(Slot::Input, 0..8), b.span(Slot::Output, 0..8));
        b.recv(1, b.scratch(0, 8)); // 0
        b.send(1, input); // 1
        b.reduce(output, vec![b.scratch(0, 8), input], Stage::Last(2)); // 2: reads what 0 wrote
        b.send(1, b.span(Slot::Output, 0..4)); // 3: reads what 2 wrote
        b.recv(1, b.span(Slot::Output, 4..8)); // 4: overwrites what 2 wrote, not what 3 sends
        b.recv(1, b.scratch(4, 4)); // 5: overwrites what 2 read and 0 wrote
        b.recv(1, b.span(Slot::Output, 2..6)); // 6: overwrites parts of 2, 3 and 4
        let plan = b.finish();
        assert_eq!(
            after(&plan),
            [vec![], vec![], vec![0], vec![2], vec![2], vec![0, 2], vec![2, 3, 4]]
        );
        assert_eq!(plan.scratch, 8);
    }

    #[test]
    fn an_average_is_divided_once_and_a_logical_result_is_normalised() {
        let of = |dtype, op, sources: usize, stage| {
            let mut b = Builder::new(&problem(dtype, op));
            let sources = (0..sources).map(|s| b.scratch(s * 8, 1)).collect();
            b.reduce(b.span(Slot::Output, 0..1), sources, stage);
            b.finish().steps[0].action.clone()
        };
        let kind = |action| match action {
            Action::Reduce { op, divisor, .. } => Some((op, divisor)),
            _ => None,
        };
        assert_eq!(kind(of(DType::F32, Op::Avg, 2, Stage::Partial)), Some((Op::Sum, 1)));
        assert_eq!(kind(of(DType::F32, Op::Avg, 2, Stage::Last(7))), Some((Op::Avg, 7)));
        assert_eq!(kind(of(DType::F32, Op::Max, 2, Stage::Last(7))), Some((Op::Max, 1)));
        assert_eq!(kind(of(DType::F32, Op::Sum, 1, Stage::Last(7))), None);
        assert_eq!(kind(of(DType::Bool, Op::Sum, 1, Stage::Last(7))), Some((Op::Sum, 1)));
        assert_eq!(
            kind(of(DType::I32, Op::LogicalAnd, 1, Stage::Last(1))),
            Some((Op::LogicalAnd, 1))
        );
    }

    #[test]
    fn a_long_copy_has_bounded_parts_that_cover_it() {
        for len in [1_u64, 100, (COPY as u64) + 1, 1 << 33] {
            let mut b = Builder::new(&problem(DType::Complex128, Op::Sum));
            b.copy(b.span(Slot::Input, 0..len), b.span(Slot::Output, 0..len));
            let plan = b.finish();
            assert!(plan.steps.len() <= COPY_PARTS);
            let mut end = 0;
            for step in &plan.steps {
                let Action::Copy { from, into } = &step.action else { panic!("{step:?}") };
                assert_eq!((from.offset, from.len), (into.offset, into.len));
                assert_eq!(from.offset, end);
                assert_eq!(from.offset % 16, 0);
                end += from.len;
            }
            assert_eq!(end as u64, len * 16);
        }
    }

    #[test]
    fn blocks_know_their_places() {
        let blocks = Blocks::by_rank(&[3, 0, 5]);
        assert_eq!((blocks.range(0), blocks.range(1), blocks.range(2)), (0..3, 3..3, 3..8));
        assert_eq!((blocks.longest(), blocks.start(3)), (5, 8));
        assert_eq!((blocks.slice(0, 2, 4), blocks.slice(2, 2, 4)), (2..3, 5..7));
        assert_eq!(blocks.slice(1, 2, 4), 3..3);
        let uniform = Blocks::Uniform(4);
        assert_eq!((uniform.range(2), uniform.len(1), uniform.start(3)), (8..12, 4, 12));
    }
}
