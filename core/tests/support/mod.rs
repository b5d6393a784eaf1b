//! What the tests of the public API share: cases with a reference to compare with, ranks as
//! threads, and ranks as processes.

// Every test file uses its own part of this.
#![allow(dead_code)]

pub(crate) mod case;
pub(crate) mod number;
pub(crate) mod processes;
pub(crate) mod sample;
pub(crate) mod threads;

/// A stream of numbers that depends on a seed alone: `SplitMix64` (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn chance(&mut self, one_in: u64) -> bool {
        self.next().is_multiple_of(one_in)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// The finaliser of `SplitMix64`.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number that differs by seed, rank and position.
pub(crate) fn hash(seed: u64, rank: usize, position: usize) -> u64 {
    mix(seed ^ mix(((rank as u64) << 48) ^ position as u64))
}
