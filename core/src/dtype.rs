//! Element types and reduction operators, and which of them go together.

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};
use num_complex::Complex;
use serde::{Deserialize, Serialize};

use crate::error::ArgumentError;

/// The type of one element of a buffer.
///
/// The numbers are part of the wire protocol and of the C ABI: they are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum DType {
    /// One byte, 0 or 1. Any other non-zero byte is read as 1.
    Bool = 0,
    /// Signed 8-bit integer.
    I8 = 1,
    /// Signed 16-bit integer.
    I16 = 2,
    /// Signed 32-bit integer.
    I32 = 3,
    /// Signed 64-bit integer.
    I64 = 4,
    /// Unsigned 8-bit integer.
    U8 = 5,
    /// Unsigned 16-bit integer.
    U16 = 6,
    /// Unsigned 32-bit integer.
    U32 = 7,
    /// Unsigned 64-bit integer.
    U64 = 8,
    /// IEEE 754 binary16. Sums and products are accumulated in `f32` and rounded once.
    F16 = 9,
    /// bfloat16. Sums and products are accumulated in `f32` and rounded once.
    Bf16 = 10,
    /// IEEE 754 binary32.
    F32 = 11,
    /// IEEE 754 binary64.
    F64 = 12,
    /// Two `f32`: real and imaginary part.
    Complex64 = 13,
    /// Two `f64`: real and imaginary part.
    Complex128 = 14,
}

impl DType {
    /// All element types, in the order of their numbers.
    pub const ALL: [DType; 15] = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
        DType::Complex64,
        DType::Complex128,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::Bf16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 | DType::Complex64 => 8,
            DType::Complex128 => 16,
        }
    }

    /// The short name that [`FromStr`] reads, for example `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::Complex64 => "complex64",
            DType::Complex128 => "complex128",
        }
    }

    /// The type with this number, if there is one.
    pub const fn from_number(number: u8) -> Option<DType> {
        if (number as usize) < Self::ALL.len() { Some(Self::ALL[number as usize]) } else { None }
    }

    /// Signed or unsigned integer; not bool.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            DType::I8
                | DType::I16
                | DType::I32
                | DType::I64
                | DType::U8
                | DType::U16
                | DType::U32
                | DType::U64
        )
    }

    /// A real floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16 | DType::F32 | DType::F64)
    }

    /// A complex type.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::Complex64 | DType::Complex128)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        DType::ALL
            .into_iter()
            .find(|dtype| dtype.name() == text)
            .ok_or_else(|| ArgumentError::UnknownDType { name: text.to_owned() })
    }
}

/// How contributions are combined.
///
/// The numbers are part of the wire protocol and of the C ABI: they are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum Op {
    /// Sum. Integers wrap; for bool it is logical or.
    Sum = 0,
    /// Product. Integers wrap; for bool it is logical and.
    Prod = 1,
    /// Minimum. NaN propagates; -0 is smaller than +0. Not for complex types.
    Min = 2,
    /// Maximum. NaN propagates; +0 is larger than -0. Not for complex types.
    Max = 3,
    /// Sum divided by the number of contributions. Floating-point and complex types only.
    Avg = 4,
    /// Bitwise and. Integers and bool.
    BitAnd = 5,
    /// Bitwise or. Integers and bool.
    BitOr = 6,
    /// Bitwise exclusive or. Integers and bool.
    BitXor = 7,
    /// Logical and: 1 if every contribution is non-zero, else 0. Integers and bool.
    LogicalAnd = 8,
    /// Logical or: 1 if any contribution is non-zero, else 0. Integers and bool.
    LogicalOr = 9,
}

impl Op {
    /// All operators, in the order of their numbers.
    pub const ALL: [Op; 10] = [
        Op::Sum,
        Op::Prod,
        Op::Min,
        Op::Max,
        Op::Avg,
        Op::BitAnd,
        Op::BitOr,
        Op::BitXor,
        Op::LogicalAnd,
        Op::LogicalOr,
    ];

    /// The short name that [`FromStr`] reads, for example `sum`.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Sum => "sum",
            Op::Prod => "prod",
            Op::Min => "min",
            Op::Max => "max",
            Op::Avg => "avg",
            Op::BitAnd => "band",
            Op::BitOr => "bor",
            Op::BitXor => "bxor",
            Op::LogicalAnd => "land",
            Op::LogicalOr => "lor",
        }
    }

    /// The operator with this number, if there is one.
    pub const fn from_number(number: u8) -> Option<Op> {
        if (number as usize) < Self::ALL.len() { Some(Self::ALL[number as usize]) } else { None }
    }

    /// Whether this operator is defined for `dtype`.
    pub const fn supports(self, dtype: DType) -> bool {
        match self {
            Op::Sum | Op::Prod => true,
            Op::Min | Op::Max => !dtype.is_complex(),
            Op::Avg => dtype.is_float() || dtype.is_complex(),
            Op::BitAnd | Op::BitOr | Op::BitXor | Op::LogicalAnd | Op::LogicalOr => {
                dtype.is_integer() || matches!(dtype, DType::Bool)
            }
        }
    }

    /// `Ok` if this operator is defined for `dtype`, else an error that says what is.
    pub fn check(self, dtype: DType) -> Result<(), ArgumentError> {
        if self.supports(dtype) {
            Ok(())
        } else {
            Err(ArgumentError::Unsupported { op: self, dtype })
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Op {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        Op::ALL
            .into_iter()
            .find(|op| op.name() == text)
            .ok_or_else(|| ArgumentError::UnknownOp { name: text.to_owned() })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that can be an element of a buffer. Sealed: the list is that of [`DType`].
pub trait Element:
    sealed::Sealed + Copy + Default + Send + Sync + fmt::Debug + PartialEq + 'static
{
    /// The element type that this Rust type stands for.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
        const _: () = assert!(size_of::<$rust>() == DType::$dtype.size());
    )*};
}

elements! {
    bool => Bool,
    i8 => I8,
    i16 => I16,
    i32 => I32,
    i64 => I64,
    u8 => U8,
    u16 => U16,
    u32 => U32,
    u64 => U64,
    f16 => F16,
    bf16 => Bf16,
    f32 => F32,
    f64 => F64,
    Complex<f32> => Complex64,
    Complex<f64> => Complex128,
}
