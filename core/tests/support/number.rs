//! The reference: what each operator means for each element type, one element at a time and in
//! rank order. It shares nothing with the library's kernels.

use half::{bf16, f16};
use lycaon::{DType, Op};
use num_complex::Complex;

/// An element as the reference sees it.
pub(crate) trait Number: Copy + std::fmt::Debug {
    const BYTES: usize;

    /// A value for a contribution to `op`, made of a hash.
    fn value(op: Op, hash: u64) -> Self;

    fn read(bytes: &[u8]) -> Self;

    fn write(self, bytes: &mut [u8]);

    /// What the contributions come to, from left to right.
    fn fold(op: Op, values: &[Self]) -> Self;

    /// Whether `got` is what the contributions come to in some order.
    fn near(op: Op, values: &[Self], got: Self) -> bool;

    /// What arrives when this is only moved.
    fn moved(self) -> Self {
        self
    }
}

/// Runs `$body` with `$T` as the type of `$dtype`.
macro_rules! with_number {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            lycaon::DType::Bool => with_number!(@ $T, $crate::support::number::Truth, $body),
            lycaon::DType::I8 => with_number!(@ $T, i8, $body),
            lycaon::DType::I16 => with_number!(@ $T, i16, $body),
            lycaon::DType::I32 => with_number!(@ $T, i32, $body),
            lycaon::DType::I64 => with_number!(@ $T, i64, $body),
            lycaon::DType::U8 => with_number!(@ $T, u8, $body),
            lycaon::DType::U16 => with_number!(@ $T, u16, $body),
            lycaon::DType::U32 => with_number!(@ $T, u32, $body),
            lycaon::DType::U64 => with_number!(@ $T, u64, $body),
            lycaon::DType::F16 => with_number!(@ $T, half::f16, $body),
            lycaon::DType::Bf16 => with_number!(@ $T, half::bf16, $body),
            lycaon::DType::F32 => with_number!(@ $T, f32, $body),
            lycaon::DType::F64 => with_number!(@ $T, f64, $body),
            lycaon::DType::Complex64 => with_number!(@ $T, num_complex::Complex<f32>, $body),
            lycaon::DType::Complex128 => with_number!(@ $T, num_complex::Complex<f64>, $body),
            dtype => panic!("the reference does not know {dtype}"),
        }
    };
    (@ $T:ident, $type:ty, $body:expr) => {{
        type $T = $type;
        $body
    }};
}
pub(crate) use with_number;

/// The operators that an element type has.
pub(crate) fn operators(dtype: DType) -> Vec<Op> {
    use Op::*;
    match dtype {
        DType::Bool => {
            vec![Sum, Prod, Min, Max, BitAnd, BitOr, BitXor, LogicalAnd, LogicalOr]
        }
        _ if dtype.is_integer() => {
            vec![Sum, Prod, Min, Max, BitAnd, BitOr, BitXor, LogicalAnd, LogicalOr]
        }
        _ if dtype.is_complex() => vec![Sum, Prod, Avg],
        _ => vec![Sum, Prod, Min, Max, Avg],
    }
}

/// Whether the order of the contributions may show in the result.
pub(crate) fn rounds(dtype: DType, op: Op) -> bool {
    (dtype.is_float() || dtype.is_complex()) && matches!(op, Op::Sum | Op::Prod | Op::Avg)
}

macro_rules! integers {
    ($($T:ty),*) => {$(
        impl Number for $T {
            const BYTES: usize = size_of::<$T>();

            fn value(op: Op, hash: u64) -> Self {
                let zero = match op {
                    Op::LogicalAnd => hash >> 60 < 2,
                    Op::LogicalOr => hash >> 60 < 13,
                    _ => false,
                };
                match op {
                    _ if zero => 0,
                    Op::Prod => hash as $T | 1,
                    _ => hash as $T,
                }
            }

            fn read(bytes: &[u8]) -> Self {
                <$T>::from_ne_bytes(bytes.try_into().unwrap())
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }

            fn fold(op: Op, values: &[Self]) -> Self {
                let all = values.iter().copied();
                match op {
                    Op::Sum => all.fold(0, <$T>::wrapping_add),
                    Op::Prod => all.fold(1, <$T>::wrapping_mul),
                    Op::Min => all.min().unwrap(),
                    Op::Max => all.max().unwrap(),
                    Op::BitAnd => all.fold(!0, |a, b| a & b),
                    Op::BitOr => all.fold(0, |a, b| a | b),
                    Op::BitXor => all.fold(0, |a, b| a ^ b),
                    Op::LogicalAnd => all.fold(1, |a, b| <$T>::from(a != 0 && b != 0)),
                    Op::LogicalOr => all.fold(0, |a, b| <$T>::from(a != 0 || b != 0)),
                    op => panic!("{op} of integers"),
                }
            }

            fn near(op: Op, values: &[Self], got: Self) -> bool {
                Self::fold(op, values) == got
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// A bool as a byte that need not be 0 or 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth(u8);

impl Number for Truth {
    const BYTES: usize = 1;

    fn value(op: Op, hash: u64) -> Self {
        let one_in =
            if matches!(op, Op::Prod | Op::Min | Op::BitAnd | Op::LogicalAnd) { 8 } else { 2 };
        if hash.is_multiple_of(one_in) {
            Truth(0)
        } else {
            Truth(if hash >> 62 == 0 { 0x82 } else { 1 })
        }
    }

    fn read(bytes: &[u8]) -> Self {
        Truth(bytes[0])
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[0] = self.0;
    }

    fn fold(op: Op, values: &[Self]) -> Self {
        let mut all = values.iter().map(|value| value.0 != 0);
        Truth(u8::from(match op {
            Op::Sum | Op::Max | Op::BitOr | Op::LogicalOr => all.any(|value| value),
            Op::Prod | Op::Min | Op::BitAnd | Op::LogicalAnd => all.all(|value| value),
            Op::BitXor => all.fold(false, |a, b| a ^ b),
            op => panic!("{op} of bools"),
        }))
    }

    fn near(op: Op, values: &[Self], got: Self) -> bool {
        Self::fold(op, values).0 == got.0
    }

    fn moved(self) -> Self {
        Truth(u8::from(self.0 != 0))
    }
}

/// NaN wins, and -0 is smaller than +0.
fn smaller<T: PartialOrd + Copy>(a: T, b: T, a_is_negative: bool) -> T {
    if a.partial_cmp(&a).is_none() {
        return a;
    }
    if b.partial_cmp(&b).is_none() {
        return b;
    }
    if a < b || (a == b && a_is_negative) { a } else { b }
}

/// ±(0.75 … 1.25): neither sums nor products of some tens of them leave the range of any type.
fn moderate(hash: u64) -> f64 {
    let part = (hash >> 12) as f64 / (1u64 << 52) as f64;
    let size = 0.75 + 0.5 * part;
    if hash & 1 == 0 { size } else { -size }
}

/// Whether a sum or product of real numbers, in whatever order and rounded to `epsilon` at each
/// step, may come out as `got`. Each of the n - 1 steps adds half an epsilon of what the magnitudes
/// come to at most; twice that is allowed.
fn real_near(op: Op, values: &[f64], got: f64, epsilon: f64) -> bool {
    let n = values.len() as f64;
    let (exact, size) = match op {
        Op::Sum => (values.iter().sum::<f64>(), values.iter().map(|v| v.abs()).sum::<f64>()),
        Op::Avg => {
            (values.iter().sum::<f64>() / n, values.iter().map(|v| v.abs()).sum::<f64>() / n)
        }
        Op::Prod => {
            let product = values.iter().product::<f64>();
            (product, product.abs())
        }
        op => panic!("{op} does not round"),
    };
    (got - exact).abs() <= (n + 1.0) * epsilon * size
}

macro_rules! floats {
    ($($T:ty: $wide:ty, $epsilon:expr, $to_wide:expr, $from_wide:expr, $from_f64:expr, $to_f64:expr;)*) => {$(
        impl Number for $T {
            const BYTES: usize = size_of::<$T>();

            fn value(_: Op, hash: u64) -> Self {
                $from_f64(moderate(hash))
            }

            fn read(bytes: &[u8]) -> Self {
                <$T>::from_ne_bytes(bytes.try_into().unwrap())
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }

            fn fold(op: Op, values: &[Self]) -> Self {
                let (first, rest) = values.split_first().unwrap();
                let first: $wide = $to_wide(*first);
                let rest = rest.iter().map(|value| -> $wide { $to_wide(*value) });
                $from_wide(match op {
                    Op::Sum => rest.fold(first, |a, b| a + b),
                    Op::Avg => rest.fold(first, |a, b| a + b) / values.len() as $wide,
                    Op::Prod => rest.fold(first, |a, b| a * b),
                    Op::Min => rest.fold(first, |a, b| smaller(a, b, a.is_sign_negative())),
                    Op::Max => rest.fold(first, |a, b| -smaller(-a, -b, a.is_sign_positive())),
                    op => panic!("{op} of floats"),
                })
            }

            fn near(op: Op, values: &[Self], got: Self) -> bool {
                if !rounds(DType::F64, op) {
                    return Self::fold(op, values).to_ne_bytes() == got.to_ne_bytes();
                }
                let values: Vec<f64> = values.iter().map(|value| $to_f64(*value)).collect();
                real_near(op, &values, $to_f64(got), $epsilon)
            }
        }
    )*};
}

floats! {
    f16: f32, 2f64.powi(-10), f16::to_f32, f16::from_f32, f16::from_f64, f16::to_f64;
    bf16: f32, 2f64.powi(-7), bf16::to_f32, bf16::from_f32, bf16::from_f64, bf16::to_f64;
    f32: f32, f64::from(f32::EPSILON), std::convert::identity, std::convert::identity, |v| v as f32, f64::from;
    f64: f64, f64::EPSILON, std::convert::identity, std::convert::identity, std::convert::identity, std::convert::identity;
}

macro_rules! complexes {
    ($($part:ty),*) => {$(
        impl Number for Complex<$part> {
            const BYTES: usize = 2 * size_of::<$part>();

            fn value(op: Op, hash: u64) -> Self {
                let again = super::mix(hash);
                Complex::new(<$part>::value(op, hash), <$part>::value(op, again))
            }

            fn read(bytes: &[u8]) -> Self {
                let (re, im) = bytes.split_at(size_of::<$part>());
                Complex::new(<$part>::read(re), <$part>::read(im))
            }

            fn write(self, bytes: &mut [u8]) {
                let (re, im) = bytes.split_at_mut(size_of::<$part>());
                self.re.write(re);
                self.im.write(im);
            }

            fn fold(op: Op, values: &[Self]) -> Self {
                let (first, rest) = values.split_first().unwrap();
                let sum = |a: Self, b: &Self| Complex::new(a.re + b.re, a.im + b.im);
                let n = values.len() as $part;
                match op {
                    Op::Sum => rest.iter().fold(*first, sum),
                    Op::Avg => {
                        let total = rest.iter().fold(*first, sum);
                        Complex::new(total.re / n, total.im / n)
                    }
                    Op::Prod => rest.iter().fold(*first, |a, b| {
                        Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
                    }),
                    op => panic!("{op} of complex numbers"),
                }
            }

            fn near(op: Op, values: &[Self], got: Self) -> bool {
                let wide = |z: &Self| Complex::new(f64::from(z.re), f64::from(z.im));
                let n = values.len() as f64;
                let sum: Complex<f64> = values.iter().map(wide).sum();
                let size: f64 = values.iter().map(|z| wide(z).norm()).sum();
                let (exact, size) = match op {
                    Op::Sum => (sum, size),
                    Op::Avg => (sum / n, size / n),
                    Op::Prod => {
                        let product: Complex<f64> = values.iter().map(wide).product();
                        (product, product.norm())
                    }
                    op => panic!("{op} of complex numbers"),
                };
                // A product of two has four roundings.
                let epsilon = f64::from(<$part>::EPSILON);
                (wide(&got) - exact).norm() <= 4.0 * (n + 1.0) * epsilon * size
            }
        }
    )*};
}

complexes!(f32, f64);
