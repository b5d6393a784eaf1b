//! Data that differ by rank and position, and what the operations must make of them.
//!
//! The contributions are windows of a table of noise, because copying is the one thing that is not
//! slow on an emulated processor. The table's length is prime, so that what belongs a slot, a chunk
//! or a block further on never looks like what belongs here.

use std::sync::OnceLock;

use lycaon::{Element, Op};

/// The element types that the rows use: one whose lengths are odd numbers of bytes, and one whose
/// sums are exact.
pub(crate) trait Value: Element {
    /// The operator that is exact for this type.
    const OP: Op;
    /// What no operation should leave behind.
    const UNTOUCHED: Self;
    /// The noise, of which every rank contributes a window.
    fn noise() -> &'static [Self];
    /// What the operator makes of two values.
    fn combine(self, other: Self) -> Self;
}

/// Spreads a place over 32 bits, so that neighbours differ in every byte.
fn mix(place: usize) -> u32 {
    let mixed = (place as u32).wrapping_add(0xc2b2_ae35).wrapping_mul(0x9e37_79b1);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b);
    mixed ^ mixed >> 13
}

impl Value for u8 {
    const OP: Op = Op::Max;
    const UNTOUCHED: Self = 0xa5;

    fn noise() -> &'static [Self] {
        static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
        NOISE.get_or_init(|| (0..65_521).map(|place| (mix(place) >> 11) as u8).collect())
    }

    fn combine(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Value for u32 {
    const OP: Op = Op::Sum;
    const UNTOUCHED: Self = 0xdead_beef;

    fn noise() -> &'static [Self] {
        static NOISE: OnceLock<Vec<u32>> = OnceLock::new();
        // Sums over a few ranks do not overflow.
        NOISE.get_or_init(|| (0..16_381).map(|place| mix(place) >> 4).collect())
    }

    fn combine(self, other: Self) -> Self {
        self + other
    }
}

/// Calls `each` with the parts of a rank's contribution, in order: where they begin, and what they
/// are.
fn windows<T: Value>(rank: usize, count: usize, salt: usize, mut each: impl FnMut(usize, &[T])) {
    let noise = T::noise();
    let mut from = mix(salt << 8 | rank) as usize % noise.len();
    let mut at = 0;
    while at < count {
        let len = (noise.len() - from).min(count - at);
        each(at, &noise[from..from + len]);
        at += len;
        from = 0;
    }
}

/// What a rank contributes.
pub(crate) fn contribution<T: Value>(rank: usize, count: usize, salt: usize) -> Vec<T> {
    let mut data = Vec::with_capacity(count);
    windows(rank, count, salt, |_, part| data.extend_from_slice(part));
    data
}

/// The reduction of what some ranks contribute.
pub(crate) fn reduction<T: Value>(
    ranks: impl IntoIterator<Item = usize>,
    count: usize,
    salt: usize,
) -> Vec<T> {
    let mut ranks = ranks.into_iter();
    let mut sum = contribution::<T>(ranks.next().expect("at least one rank"), count, salt);
    for rank in ranks {
        windows::<T>(rank, count, salt, |at, part| {
            for (value, other) in sum[at..].iter_mut().zip(part) {
                *value = value.combine(*other);
            }
        });
    }
    sum
}

/// Compares and says where the first difference is.
pub(crate) fn compare<T: Value>(what: &str, got: &[T], want: &[T]) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{what}: {} elements, expected {}", got.len(), want.len()));
    }
    if got == want {
        return Ok(());
    }
    let differ = got.iter().zip(want).filter(|(got, want)| got != want).count();
    match got.iter().zip(want).position(|(got, want)| got != want) {
        None => Ok(()),
        Some(at) => Err(format!(
            "{what}: element {at} of {} is {:?}, expected {:?}; {differ} differ",
            got.len(),
            got[at],
            want[at]
        )),
    }
}
