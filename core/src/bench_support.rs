//! Doors into private parts for the benchmarks. Not part of the public interface.

pub mod arena;
pub mod messages;

use crate::dtype::{DType, Op};
use crate::sys::simd::Level;

/// The reduction kernel that this CPU gets.
pub fn reduce(dtype: DType, op: Op, divisor: u32, into: &mut [u8], sources: &[&[u8]]) {
    crate::reduce::reduce(dtype, op, divisor, into, sources);
}

/// The reduction kernel with the destination as its first source.
pub fn reduce_onto(dtype: DType, op: Op, divisor: u32, into: &mut [u8], sources: &[&[u8]]) {
    crate::reduce::reduce_in_place(dtype, op, divisor, into, &[], sources);
}

/// One of the SIMD levels of this CPU.
#[derive(Clone, Copy, Debug)]
pub struct SimdLevel(Level);

impl SimdLevel {
    /// All that this CPU has, least first.
    pub fn available() -> impl Iterator<Item = SimdLevel> {
        Level::ALL.iter().copied().filter(|level| level.is_available()).map(SimdLevel)
    }

    /// Its name.
    pub fn name(self) -> String {
        format!("{:?}", self.0).to_lowercase()
    }

    /// The reduction kernel of this level.
    pub fn reduce(self, dtype: DType, op: Op, divisor: u32, into: &mut [u8], sources: &[&[u8]]) {
        crate::reduce::reduce_at(self.0, dtype, op, divisor, into, sources);
    }
}
