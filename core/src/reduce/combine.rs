//! How two accumulated values become one.
//!
//! Every combination gives the same bits when its operands change places, NaN aside, which the
//! formats make one on the way out.

/// A binary operation on accumulated values.
pub(super) trait Combine<T>: Copy {
    fn combine(left: T, right: T) -> T;
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
    Mul for [f32; 2], [f64; 2]: |left, right| [
        left[0] * right[0] - left[1] * right[1],
        left[0] * right[1] + left[1] * right[0],
    ];
    Min for i8, i16, i32, i64, u8, u16, u32, u64: |left, right| left.min(right);
    Max for i8, i16, i32, i64, u8, u16, u32, u64: |left, right| left.max(right);
    And for u8, u16, u32, u64: |left, right| left & right;
    Or for u8, u16, u32, u64: |left, right| left | right;
    Xor for u8: |left, right| left ^ right;
}

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
