//! How two accumulated values become one.
//!
//! Every combination gives the same bits when its operands change places, NaN aside, which the
//! formats make one on the way out.

use crate::sys::simd::{Baseline, Isa};

/// A binary operation on accumulated values.
pub(super) trait Combine<T: Copy>: Copy {
    fn combine(left: T, right: T) -> T;

    /// Combines `L` values at once into the left ones.
    #[inline(always)]
    fn combine_all<I: Isa, const L: usize>(isa: I, left: &mut [T; L], right: &[T; L]) {
        let _ = isa;
        for i in 0..L {
            left[i] = Self::combine(left[i], right[i]);
        }
    }
}

/// Sum; integers wrap.
#[derive(Clone, Copy)]
pub(super) struct Add;

/// Product; integers wrap.
#[derive(Clone, Copy)]
pub(super) struct Mul;

/// Minimum, with NaN as the smallest and -0 below +0.
#[derive(Clone, Copy)]
pub(super) struct Min;

/// Maximum, with NaN as the largest and -0 below +0.
#[derive(Clone, Copy)]
pub(super) struct Max;

#[derive(Clone, Copy)]
pub(super) struct And;

#[derive(Clone, Copy)]
pub(super) struct Or;

#[derive(Clone, Copy)]
pub(super) struct Xor;

/// `Combine<$type> for $name` by an expression.
macro_rules! combine {
    ($($name:ident for $($type:ty),+: |$left:ident, $right:ident| $body:expr;)+) => {$($(
        impl Combine<$type> for $name {
            #[inline(always)]
            fn combine($left: $type, $right: $type) -> $type {
                $body
            }
        }
    )+)+};
}

combine! {
    Add for u8, u16, u32, u64: |left, right| left.wrapping_add(right);
    Add for f32, f64: |left, right| left + right;
    Mul for u8, u16, u32, u64: |left, right| left.wrapping_mul(right);
    Mul for f32, f64: |left, right| left * right;
    Min for i8, i16, i32, i64, u8, u16, u32, u64: |left, right| left.min(right);
    Max for i8, i16, i32, i64, u8, u16, u32, u64: |left, right| left.max(right);
    And for u8, u16, u32, u64: |left, right| left & right;
    Or for u8, u16, u32, u64: |left, right| left | right;
    Xor for u8: |left, right| left ^ right;
}

macro_rules! complex {
    ($($part:ty, $all:ident;)+) => {$(
        impl Combine<[$part; 2]> for Mul {
            #[inline(always)]
            fn combine(left: [$part; 2], right: [$part; 2]) -> [$part; 2] {
                let mut product = [left];
                Baseline.$all(&mut product, &[right]);
                product[0]
            }

            #[inline(always)]
            fn combine_all<I: Isa, const L: usize>(
                isa: I,
                left: &mut [[$part; 2]; L],
                right: &[[$part; 2]; L],
            ) {
                isa.$all(left, right);
            }
        }
    )+};
}

complex! { f32, mul_complex_f32; f64, mul_complex_f64; }

// The bare minimum instructions of the CPUs differ in NaN and zeros, so both are settled by hand:
// equal numbers differ at most in the sign of a zero, which `or` and `and` of the bits decide.
macro_rules! ordered {
    ($($type:ty),+) => {$(
        impl Combine<$type> for Min {
            #[inline(always)]
            fn combine(left: $type, right: $type) -> $type {
                let less = if left < right { left } else { right };
                let both = <$type>::from_bits(left.to_bits() | right.to_bits());
                let ordered = if left == right { both } else { less };
                if left.is_nan() | right.is_nan() { <$type>::NAN } else { ordered }
            }
        }

        impl Combine<$type> for Max {
            #[inline(always)]
            fn combine(left: $type, right: $type) -> $type {
                let more = if left > right { left } else { right };
                let both = <$type>::from_bits(left.to_bits() & right.to_bits());
                let ordered = if left == right { both } else { more };
                if left.is_nan() | right.is_nan() { <$type>::NAN } else { ordered }
            }
        }
    )+};
}

ordered!(f32, f64);
