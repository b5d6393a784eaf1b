//! Reduction kernels: several sources combined, element by element, into one destination.
//!
//! Operands are plain bytes of any alignment. They are combined from left to right in the order
//! given, so the same order gives the same bits: at every SIMD level, for every length and wherever
//! an element stands. What the operators mean is said at [`Op`]; beyond that, every NaN that comes
//! out of an operation is the quiet NaN without sign and payload. A single contribution is not
//! operated on and keeps its NaNs.

mod combine;
mod fold;
mod format;
#[cfg(test)]
pub(crate) mod tests;

use combine::{Add, And, Max, Min, Mul, Or, Xor};
use fold::{Operands, fold};
use format::{Bf16, Divided, F16, Key, Native, Truth};

use crate::dtype::{DType, Op};
use crate::sys::simd::Level;

/// The bits of infinity; all above it is NaN.
const F16_INFINITY: u16 = 0x7c00;
const BF16_INFINITY: u16 = 0x7f80;

/// `into` = ((s0 op s1) op s2) … with the sources in their order.
///
/// [`Op::Avg`] divides by `divisor` after the last addition and before the one rounding; a divisor
/// of 1 divides nothing. The other operators ignore it.
///
/// # Panics
/// If there is no source, a length differs or is no multiple of the element, `op` is not defined
/// for `dtype`, or an average has the divisor 0.
pub(crate) fn reduce(dtype: DType, op: Op, divisor: u32, into: &mut [u8], sources: &[&[u8]]) {
    assert!(!sources.is_empty(), "a reduction without a source");
    let mut operands = Operands { into, before: sources, own: false, after: &[] };
    operands.reduce(None, dtype, op, divisor);
}

/// Like [`reduce`], with the old content of `into` as the source between `before` and `after`.
///
/// # Panics
/// As [`reduce`] does, but both lists may be empty.
pub(crate) fn reduce_in_place(
    dtype: DType,
    op: Op,
    divisor: u32,
    into: &mut [u8],
    before: &[&[u8]],
    after: &[&[u8]],
) {
    let mut operands = Operands { into, before, own: true, after };
    operands.reduce(None, dtype, op, divisor);
}

/// Makes every byte that is not 0 a 1.
pub(crate) fn normalise_bool(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = u8::from(*byte != 0);
    }
}

/// [`reduce`] at a level chosen by hand, also for short lengths.
///
/// # Panics
/// As [`reduce`] does, and if this CPU does not have the level.
pub(crate) fn reduce_at(
    level: Level,
    dtype: DType,
    op: Op,
    divisor: u32,
    into: &mut [u8],
    sources: &[&[u8]],
) {
    assert!(!sources.is_empty(), "a reduction without a source");
    let mut operands = Operands { into, before: sources, own: false, after: &[] };
    operands.reduce(Some(level), dtype, op, divisor);
}

impl Operands<'_> {
    #[inline(always)]
    fn reduce(&mut self, level: Option<Level>, dtype: DType, op: Op, divisor: u32) {
        let len = self.into.len();
        // The sizes are powers of two; a division would cost more than a short reduction.
        if len & (dtype.size() - 1) != 0 {
            broken_element(dtype, len);
        }
        for source in self.before {
            if source.len() != len {
                different_length(source.len(), len);
            }
        }
        for source in self.after {
            if source.len() != len {
                different_length(source.len(), len);
            }
        }
        let count = self.before.len() + usize::from(self.own) + self.after.len();
        if count == 1 && is_identity(dtype, op, divisor) {
            if let [source] = self.before {
                self.into.copy_from_slice(source);
            }
            return;
        }
        self.route(level, dtype, op, divisor);
    }

    /// Finds the loop. Types that differ only in their name share one.
    #[inline(never)]
    fn route(&mut self, level: Option<Level>, dtype: DType, op: Op, divisor: u32) {
        /// Elements of `$size` bytes, accumulated in `$acc` bytes: 256 bytes at a time are four
        /// AVX-512 or eight AVX2 registers, then 16 bytes.
        macro_rules! go {
            ($size:literal in $acc:literal, $format:expr, $combine:expr) => {
                go!($size in $acc by 256, $format, $combine)
            };
            ($size:literal in $acc:literal by $block:literal, $format:expr, $combine:expr) => {
                fold::<_, _, $size, { $block / $acc }, { 16 / $size }>(
                    level, self, $format, $combine,
                )
            };
        }
        macro_rules! integer {
            ($size:literal, $type:ty, $unsigned:ty) => {
                match op {
                    Op::Sum => go!($size in $size, Native::<$unsigned>::new(), Add),
                    Op::Prod => go!($size in $size, Native::<$unsigned>::new(), Mul),
                    Op::Min => go!($size in $size, Native::<$type>::new(), Min),
                    Op::Max => go!($size in $size, Native::<$type>::new(), Max),
                    Op::BitAnd => go!(1 in 1, Native::<u8>::new(), And),
                    Op::BitOr => go!(1 in 1, Native::<u8>::new(), Or),
                    Op::BitXor => go!(1 in 1, Native::<u8>::new(), Xor),
                    Op::LogicalAnd => go!($size in $size, Truth::<$unsigned>::new(), And),
                    Op::LogicalOr => go!($size in $size, Truth::<$unsigned>::new(), Or),
                    Op::Avg => undefined(dtype, op),
                }
            };
        }
        macro_rules! average {
            ($size:literal in $acc:literal, $format:expr, $type:ty) => {{
                if divisor == 0 {
                    zero_divisor(dtype);
                }
                go!($size in $acc, Divided::new($format, divisor as $type), Add)
            }};
        }
        // Minimum and maximum need more registers per element, so their block is their own.
        macro_rules! float {
            ($size:literal, $type:ty, $block:literal) => {
                match op {
                    Op::Sum => go!($size in $size, Native::<$type>::new(), Add),
                    Op::Prod => go!($size in $size, Native::<$type>::new(), Mul),
                    Op::Min => go!($size in $size by $block, Native::<$type>::new(), Min),
                    Op::Max => go!($size in $size by $block, Native::<$type>::new(), Max),
                    Op::Avg => average!($size in $size, Native::<$type>::new(), $type),
                    _ => undefined(dtype, op),
                }
            };
        }
        macro_rules! half {
            ($format:expr, $infinity:ident) => {
                match op {
                    Op::Sum => go!(2 in 4, $format, Add),
                    Op::Prod => go!(2 in 4, $format, Mul),
                    Op::Min => go!(2 in 2, Key::<$infinity, { i16::MIN }>, Min),
                    Op::Max => go!(2 in 2, Key::<$infinity, { i16::MAX }>, Max),
                    Op::Avg => average!(2 in 4, $format, f32),
                    _ => undefined(dtype, op),
                }
            };
        }
        macro_rules! complex {
            ($size:literal, $part_size:literal, $part:ty) => {
                match op {
                    Op::Sum => go!($part_size in $part_size, Native::<$part>::new(), Add),
                    Op::Prod => go!($size in $size, Native::<[$part; 2]>::new(), Mul),
                    Op::Avg => average!($part_size in $part_size, Native::<$part>::new(), $part),
                    _ => undefined(dtype, op),
                }
            };
        }

        match dtype {
            DType::Bool => match op {
                Op::Sum | Op::Max | Op::BitOr | Op::LogicalOr => {
                    go!(1 in 1, Truth::<u8>::new(), Or)
                }
                Op::Prod | Op::Min | Op::BitAnd | Op::LogicalAnd => {
                    go!(1 in 1, Truth::<u8>::new(), And)
                }
                Op::BitXor => go!(1 in 1, Truth::<u8>::new(), Xor),
                Op::Avg => undefined(dtype, op),
            },
            DType::I8 => integer!(1, i8, u8),
            DType::I16 => integer!(2, i16, u16),
            DType::I32 => integer!(4, i32, u32),
            DType::I64 => integer!(8, i64, u64),
            DType::U8 => integer!(1, u8, u8),
            DType::U16 => integer!(2, u16, u16),
            DType::U32 => integer!(4, u32, u32),
            DType::U64 => integer!(8, u64, u64),
            DType::F16 => half!(F16, F16_INFINITY),
            DType::Bf16 => half!(Bf16, BF16_INFINITY),
            DType::F32 => float!(4, f32, 128),
            DType::F64 => float!(8, f64, 256),
            DType::Complex64 => complex!(8, 4, f32),
            DType::Complex128 => complex!(16, 8, f64),
        }
    }
}

/// Whether a single contribution comes out as it is.
#[inline(never)]
fn is_identity(dtype: DType, op: Op, divisor: u32) -> bool {
    op.supports(dtype)
        && dtype != DType::Bool
        && match op {
            Op::LogicalAnd | Op::LogicalOr => false,
            Op::Avg => divisor == 1,
            _ => true,
        }
}

// The checks of a call have been made long before. What follows are bugs of the caller.

#[cold]
#[inline(never)]
fn undefined(dtype: DType, op: Op) -> ! {
    panic!("{op} of {dtype} is not defined and should have been refused at the call")
}

#[cold]
#[inline(never)]
fn broken_element(dtype: DType, len: usize) -> ! {
    panic!("{len} bytes are no whole number of {dtype} elements")
}

#[cold]
#[inline(never)]
fn different_length(source: usize, into: usize) -> ! {
    panic!("a source of {source} bytes for a destination of {into}")
}

#[cold]
#[inline(never)]
fn zero_divisor(dtype: DType) -> ! {
    panic!("an average of {dtype} with the divisor 0")
}
