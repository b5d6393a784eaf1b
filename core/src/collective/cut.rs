//! How messages are cut into pieces, and pieces are grouped into plans.
//!
//! Everything here follows from the size of the group, the element type, the counts and the
//! [`Limits`], which are the same on all ranks; so all ranks cut alike.

use std::ops::Range;

use super::build::bytes;

/// What the engine allows an algorithm to use. The same on all ranks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Limits {
    /// Bytes of one message of a pipeline: enough to hide the cost of a message, few enough to
    /// stay in the cache until they are reduced.
    pub chunk: usize,
    /// Most bytes of scratch memory of one plan. An algorithm that needs more for a single
    /// element per message takes what it needs for that.
    pub scratch: usize,
    /// A message of up to this many bytes travels at once; it is not worth cutting.
    pub eager: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { chunk: 128 << 10, scratch: 8 << 20, eager: 16 << 10 }
    }
}

/// Regions of scratch memory begin at multiples of this, one cache line.
pub(super) const ALIGN: usize = 64;

/// A plan has about this many steps at most, as long as it can still overlap anything.
pub(super) const STEPS: usize = 512;

/// With more pieces than this, pieces grow.
const PIECES: usize = 64;

/// By how much pieces that pass through scratch memory may exceed `Limits::chunk`.
const GROWTH: usize = 2;

/// Pieces of one message that are on their way at the same time: one arrives, one is reduced,
/// and the result of one leaves.
const DEPTH: usize = 3;

/// Pieces that one plan has at least, so that there is something to overlap.
const LEAST: u64 = 4;

/// A range in parts whose lengths differ by at most one; the longer ones come first.
#[derive(Clone, Debug)]
pub(super) struct Balanced {
    range: Range<u64>,
    parts: u64,
}

impl Balanced {
    pub(super) fn new(range: Range<u64>, parts: u64) -> Self {
        debug_assert!(parts > 0);
        Balanced { range, parts }
    }

    /// One of the parts.
    pub(super) fn part(&self, index: u64) -> Range<u64> {
        let len = self.range.end - self.range.start;
        let (base, longer) = (len / self.parts, len % self.parts);
        let start = self.range.start + index * base + index.min(longer);
        start..start + base + u64::from(index < longer)
    }
}

/// The size of the pieces that a message of `longest` elements is cut into, in bytes, before
/// scratch memory sets a bound: four pieces, but not smaller than is worth a message and not
/// larger than a chunk.
pub(super) fn piece_bytes(limits: &Limits, longest: usize) -> usize {
    let least = limits.eager.clamp(1, limits.chunk.max(1));
    longest.div_ceil(4).clamp(least, limits.chunk.max(1))
}

/// Bytes of a scratch region for `count` elements.
pub(super) fn region(count: u64, element: usize) -> usize {
    bytes(count, element).checked_next_multiple_of(ALIGN).expect("scratch memory is bounded")
}

/// The pieces of a pipelined algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pipe {
    /// How many pieces there are, at least one.
    pub pieces: u64,
    /// Elements of the longest message of a piece.
    pub grain: u64,
    /// Pieces that have scratch memory at the same time; piece `k` uses set `k % depth`.
    pub depth: u64,
    /// Bytes of one scratch buffer.
    pub stride: usize,
    per_plan: u64,
}

impl Pipe {
    /// Cuts messages of up to `longest` elements. A piece needs `buffers` scratch buffers of the
    /// size of its longest message, and about `steps` steps.
    pub(super) fn new(
        limits: &Limits,
        element: usize,
        longest: u64,
        buffers: usize,
        steps: usize,
    ) -> Self {
        let whole = bytes(longest, element);
        let mut piece = piece_bytes(limits, whole);
        let mut depth = DEPTH;
        if buffers == 0 {
            piece = piece.max(whole.div_ceil(PIECES));
        } else {
            piece = piece.max(whole.div_ceil(PIECES).min(limits.chunk.saturating_mul(GROWTH)));
            let bound = |depth: usize| limits.scratch / buffers.saturating_mul(depth);
            if bound(depth) < piece {
                depth -= 1;
            }
            let bound = bound(depth);
            piece = piece.min(if bound < ALIGN { bound } else { bound - bound % ALIGN });
        }
        let grain = (piece / element).max(1) as u64;
        let pieces = longest.div_ceil(grain).max(1);
        let grain = longest.div_ceil(pieces);
        let per_plan = ((STEPS / steps.max(1)) as u64).max(LEAST);
        Pipe { pieces, grain, depth: depth as u64, stride: region(grain, element), per_plan }
    }

    /// How many plans the pieces fill.
    pub(super) fn plans(&self) -> u64 {
        self.pieces.div_ceil(self.per_plan)
    }

    /// The pieces of a plan.
    pub(super) fn of_plan(&self, plan: u64) -> Range<u64> {
        plan * self.per_plan..((plan + 1) * self.per_plan).min(self.pieces)
    }

    /// Where scratch buffer `index` of `buffers` of a piece begins.
    pub(super) fn buffer(&self, piece: u64, buffers: usize, index: usize) -> usize {
        ((piece % self.depth) as usize * buffers + index) * self.stride
    }

    /// Elements `from..to` of a block that belong to a piece, for blocks cut at the grain.
    pub(super) fn bounds(&self, piece: u64) -> (u64, u64) {
        (piece * self.grain, piece.saturating_add(1).saturating_mul(self.grain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_worth_one_piece_is_not_cut_and_a_long_one_is_cut_at_the_chunk() {
        let limits = Limits::default();
        let pieces = |kib: u64| Pipe::new(&limits, 4, kib * 256, 1, 5).pieces;
        assert_eq!([1, 16, 17, 32, 64, 512, 1024].map(pieces), [1, 1, 2, 2, 4, 4, 8]);
        let huge = Pipe::new(&limits, 4, 8 << 20, 1, 5);
        assert_eq!((huge.pieces, huge.grain * 4), (128, 256 << 10));
        assert_eq!((huge.plans(), huge.of_plan(1)), (2, 102..128));
        let unbounded = Pipe::new(&limits, 4, 1 << 40, 0, 5);
        assert_eq!(unbounded.pieces, 64);
    }

    #[test]
    fn nothing_is_one_empty_piece() {
        let pipe = Pipe::new(&Limits::default(), 4, 0, 3, 5);
        assert_eq!((pipe.pieces, pipe.grain, pipe.plans(), pipe.stride), (1, 0, 1, 0));
        assert_eq!(pipe.of_plan(0), 0..1);
    }

    proptest! {
        #[test]
        fn balanced_parts_cover_the_range(start in 0..1_u64 << 40, len in 0..1_u64 << 40, parts in 1..100_u64) {
            let cut = Balanced::new(start..start + len, parts);
            let mut end = start;
            for index in 0..parts {
                let part = cut.part(index);
                prop_assert_eq!(part.start, end);
                prop_assert!(part.end - part.start <= len.div_ceil(parts));
                prop_assert!(part.end - part.start >= len / parts);
                end = part.end;
            }
            prop_assert_eq!(end, start + len);
        }

        #[test]
        fn pieces_keep_the_limits(
            chunk in 1..1_usize << 20, scratch in 1..1_usize << 24, eager in 0..1_usize << 16,
            log in 0..5_u32, longest in 0..1_u64 << 50, buffers in 0..40_usize, steps in 1..2000_usize,
        ) {
            let element = 1_usize << log;
            let limits = Limits { chunk, scratch, eager };
            let pipe = Pipe::new(&limits, element, longest, buffers, steps);
            prop_assert!(pipe.grain * pipe.pieces >= longest);
            prop_assert!(pipe.pieces == 1 || pipe.grain * (pipe.pieces - 1) < longest);
            prop_assert!(pipe.depth >= 2);
            let used = pipe.depth as usize * buffers * pipe.stride;
            prop_assert!(used <= scratch.max(DEPTH * buffers * ALIGN), "{} of {}", used, scratch);
            let last = pipe.of_plan(pipe.plans() - 1);
            prop_assert!(last.start < last.end && last.end == pipe.pieces);
        }
    }
}
