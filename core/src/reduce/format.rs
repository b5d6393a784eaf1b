//! How the bytes of an element become a value to accumulate, and back.
//!
//! Arithmetic leaves it open which of two NaNs comes out, and CPUs differ. Formats therefore store
//! every NaN as the one quiet NaN without sign and payload, so that results are the same bits on
//! every CPU and in every order.

use std::marker::PhantomData;

use crate::sys::simd::{Baseline, Isa};

/// Elements of `N` bytes and the values they are accumulated in.
pub(super) trait Format<const N: usize>: Copy {
    type Acc: Copy;

    /// Any value, to fill memory with.
    const FILL: Self::Acc;

    fn load(self, raw: [u8; N]) -> Self::Acc;

    fn store(self, value: Self::Acc) -> [u8; N];

    /// Loads `L` elements at once.
    #[inline(always)]
    fn load_all<I: Isa, const L: usize>(
        self,
        isa: I,
        raw: &[[u8; N]; L],
        values: &mut [Self::Acc; L],
    ) {
        let _ = isa;
        for i in 0..L {
            values[i] = self.load(raw[i]);
        }
    }

    /// Stores `L` elements at once.
    #[inline(always)]
    fn store_all<I: Isa, const L: usize>(
        self,
        isa: I,
        values: &[Self::Acc; L],
        raw: &mut [[u8; N]; L],
    ) {
        let _ = isa;
        for i in 0..L {
            raw[i] = self.store(values[i]);
        }
    }
}

/// Integers and floating-point numbers that are accumulated as they are.
#[derive(Clone, Copy)]
pub(super) struct Native<T>(PhantomData<T>);

impl<T> Native<T> {
    pub(super) const fn new() -> Self {
        Native(PhantomData)
    }
}

/// Integers of which only matters whether they are zero; 1 and 0 come out.
#[derive(Clone, Copy)]
pub(super) struct Truth<T>(PhantomData<T>);

impl<T> Truth<T> {
    pub(super) const fn new() -> Self {
        Truth(PhantomData)
    }
}

macro_rules! integers {
    ($($type:ty, $size:literal;)+) => {$(
        impl Format<$size> for Native<$type> {
            type Acc = $type;

            const FILL: $type = 0;

            #[inline(always)]
            fn load(self, raw: [u8; $size]) -> $type {
                <$type>::from_ne_bytes(raw)
            }

            #[inline(always)]
            fn store(self, value: $type) -> [u8; $size] {
                value.to_ne_bytes()
            }
        }
    )+};
}

integers! { u8, 1; u16, 2; u32, 4; u64, 8; i8, 1; i16, 2; i32, 4; i64, 8; }

macro_rules! truths {
    ($($type:ty, $size:literal;)+) => {$(
        impl Format<$size> for Truth<$type> {
            type Acc = $type;

            const FILL: $type = 0;

            #[inline(always)]
            fn load(self, raw: [u8; $size]) -> $type {
                (<$type>::from_ne_bytes(raw) != 0) as $type
            }

            #[inline(always)]
            fn store(self, value: $type) -> [u8; $size] {
                value.to_ne_bytes()
            }
        }
    )+};
}

truths! { u8, 1; u16, 2; u32, 4; u64, 8; }

macro_rules! floats {
    ($($type:ty, $bits:ty, $size:literal;)+) => {$(
        impl Format<$size> for Native<$type> {
            type Acc = $type;

            const FILL: $type = 0.0;

            #[inline(always)]
            fn load(self, raw: [u8; $size]) -> $type {
                <$type>::from_ne_bytes(raw)
            }

            #[inline(always)]
            fn store(self, value: $type) -> [u8; $size] {
                const NAN: $bits = <$type>::NAN.to_bits();
                (if value.is_nan() { NAN } else { value.to_bits() }).to_ne_bytes()
            }
        }

        /// Real and imaginary part.
        impl Format<{ 2 * $size }> for Native<[$type; 2]> {
            type Acc = [$type; 2];

            const FILL: [$type; 2] = [0.0; 2];

            #[inline(always)]
            fn load(self, raw: [u8; 2 * $size]) -> [$type; 2] {
                let (parts, _) = raw.as_chunks::<$size>();
                [<$type>::from_ne_bytes(parts[0]), <$type>::from_ne_bytes(parts[1])]
            }

            #[inline(always)]
            fn store(self, value: [$type; 2]) -> [u8; 2 * $size] {
                let mut raw = [0; 2 * $size];
                let (parts, _) = raw.as_chunks_mut::<$size>();
                parts[0] = Native::<$type>::new().store(value[0]);
                parts[1] = Native::<$type>::new().store(value[1]);
                raw
            }
        }
    )+};
}

floats! { f32, u32, 4; f64, u64, 8; }

/// binary16, accumulated in `f32`.
#[derive(Clone, Copy)]
pub(super) struct F16;

impl Format<2> for F16 {
    type Acc = f32;

    const FILL: f32 = 0.0;

    #[inline(always)]
    fn load(self, raw: [u8; 2]) -> f32 {
        let mut value = [0.0];
        Baseline.widen_f16(&[raw], &mut value);
        value[0]
    }

    #[inline(always)]
    fn store(self, value: f32) -> [u8; 2] {
        let mut raw = [[0; 2]];
        Baseline.narrow_f16(&[value], &mut raw);
        raw[0]
    }

    #[inline(always)]
    fn load_all<I: Isa, const L: usize>(self, isa: I, raw: &[[u8; 2]; L], values: &mut [f32; L]) {
        isa.widen_f16(raw, values);
    }

    #[inline(always)]
    fn store_all<I: Isa, const L: usize>(self, isa: I, values: &[f32; L], raw: &mut [[u8; 2]; L]) {
        isa.narrow_f16(values, raw);
    }
}

/// bfloat16, accumulated in `f32`.
#[derive(Clone, Copy)]
pub(super) struct Bf16;

impl Format<2> for Bf16 {
    type Acc = f32;

    const FILL: f32 = 0.0;

    #[inline(always)]
    fn load(self, raw: [u8; 2]) -> f32 {
        f32::from_bits(u32::from(u16::from_ne_bytes(raw)) << 16)
    }

    /// To nearest even: what is cut off and one half of the last place carry into it.
    #[inline(always)]
    fn store(self, value: f32) -> [u8; 2] {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
        let bits = if value.is_nan() { 0x7fc0_0000 } else { rounded };
        ((bits >> 16) as u16).to_ne_bytes()
    }
}

/// Order-preserving integers for 16-bit floating-point numbers, for minimum and maximum. Numbers
/// up to `INFINITY` keep their order, -0 is below +0, and every NaN is `NAN`.
#[derive(Clone, Copy)]
pub(super) struct Key<const INFINITY: u16, const NAN: i16>;

impl<const INFINITY: u16, const NAN: i16> Key<INFINITY, NAN> {
    /// The largest or smallest key, which no number has.
    const CHECKED: i16 = {
        assert!(NAN == i16::MIN || NAN == i16::MAX);
        NAN
    };

    /// The quiet NaN is the one above infinity with the first bit of the fraction set.
    const QUIET: u16 = INFINITY | (INFINITY & INFINITY.wrapping_neg()) >> 1;

    /// Turns the order of negative numbers round; its own inverse.
    #[inline(always)]
    fn turn(bits: i16) -> i16 {
        bits ^ ((bits >> 15) & 0x7fff)
    }
}

impl<const INFINITY: u16, const NAN: i16> Format<2> for Key<INFINITY, NAN> {
    type Acc = i16;

    const FILL: i16 = 0;

    #[inline(always)]
    fn load(self, raw: [u8; 2]) -> i16 {
        let bits = i16::from_ne_bytes(raw);
        if bits & 0x7fff > INFINITY as i16 { Self::CHECKED } else { Self::turn(bits) }
    }

    #[inline(always)]
    fn store(self, value: i16) -> [u8; 2] {
        let number = Self::turn(value);
        (if value == NAN { Self::QUIET as i16 } else { number }).to_ne_bytes()
    }
}

/// Another format, divided by the number of contributions on the way out.
#[derive(Clone, Copy)]
pub(super) struct Divided<F, T> {
    format: F,
    divisor: T,
}

impl<F, T> Divided<F, T> {
    pub(super) const fn new(format: F, divisor: T) -> Self {
        Divided { format, divisor }
    }
}

impl<const N: usize, F> Format<N> for Divided<F, F::Acc>
where
    F: Format<N>,
    F::Acc: std::ops::Div<Output = F::Acc>,
{
    type Acc = F::Acc;

    const FILL: F::Acc = F::FILL;

    #[inline(always)]
    fn load(self, raw: [u8; N]) -> F::Acc {
        self.format.load(raw)
    }

    #[inline(always)]
    fn store(self, value: F::Acc) -> [u8; N] {
        self.format.store(value / self.divisor)
    }

    #[inline(always)]
    fn load_all<I: Isa, const L: usize>(
        self,
        isa: I,
        raw: &[[u8; N]; L],
        values: &mut [F::Acc; L],
    ) {
        self.format.load_all(isa, raw, values);
    }

    #[inline(always)]
    fn store_all<I: Isa, const L: usize>(
        self,
        isa: I,
        values: &[F::Acc; L],
        raw: &mut [[u8; N]; L],
    ) {
        let mut quotients = *values;
        for value in &mut quotients {
            *value = *value / self.divisor;
        }
        self.format.store_all(isa, &quotients, raw);
    }
}
