//! Choosing machine code for this CPU at run time.
//!
//! A [`Kernel`] is written once, in safe code that the compiler vectorises. [`dispatch`] runs the
//! copy that was compiled for the best [`Level`] this CPU has. No level changes a result: fused
//! multiply-add is never used, and every conversion rounds alike.

#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::atomic::{AtomicU8, Ordering};

/// A set of vector instructions that kernels are compiled for, from the least to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Level {
    /// What every CPU of the target has: SSE2 on x86-64, NEON on aarch64.
    Baseline = 0,
    /// AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2 = 1,
    /// AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512 = 2,
}

impl Level {
    /// All levels of this target, least first.
    pub(crate) const ALL: &[Level] = &[
        Level::Baseline,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512,
    ];

    /// The best level of this CPU. Asked of the CPU once.
    #[inline]
    pub(crate) fn detected() -> Level {
        const UNKNOWN: u8 = u8::MAX;
        static CACHE: AtomicU8 = AtomicU8::new(UNKNOWN);

        #[cold]
        fn detect() -> Level {
            let best = Level::ALL.iter().copied().rev().find(|level| level.is_available());
            let best = best.unwrap_or(Level::Baseline);
            CACHE.store(best as u8, Ordering::Relaxed);
            best
        }

        let known = CACHE.load(Ordering::Relaxed);
        match Level::ALL.get(usize::from(known)) {
            Some(level) => *level,
            None => detect(),
        }
    }

    /// Whether this CPU and its operating system can run code of this level.
    pub(crate) fn is_available(self) -> bool {
        match self {
            Level::Baseline => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c"),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                Level::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }
}

/// Work that is compiled once per level.
pub(crate) trait Kernel {
    /// Does the work. Implementations are `#[inline(always)]`, and so is all that they call in
    /// their loops: only what is inlined here is compiled for the level.
    fn run<I: Isa>(self, isa: I);
}

/// Operations of a level that the compiler does not find by itself. A value of the type is the
/// proof that the CPU has the level.
pub(crate) trait Isa: Copy {
    /// binary16 to `f32`, exactly.
    fn widen_f16<const L: usize>(self, raw: &[[u8; 2]; L], values: &mut [f32; L]);

    /// `f32` to binary16, to nearest even. Every NaN becomes the quiet NaN `0x7e00`.
    fn narrow_f16<const L: usize>(self, values: &[f32; L], raw: &mut [[u8; 2]; L]);

    /// Multiplies complex numbers (real part first) into the left ones.
    fn mul_complex_f32<const L: usize>(self, left: &mut [[f32; 2]; L], right: &[[f32; 2]; L]);

    /// Multiplies complex numbers (real part first) into the left ones.
    fn mul_complex_f64<const L: usize>(self, left: &mut [[f64; 2]; L], right: &[[f64; 2]; L]);
}

/// Runs `kernel` at the best level of this CPU.
#[inline]
pub(crate) fn dispatch<K: Kernel>(kernel: K) {
    // SAFETY: `detected` only returns levels that are available.
    unsafe { run(Level::detected(), kernel) }
}

/// Runs `kernel` at the level given.
///
/// # Panics
/// If this CPU does not have it.
pub(crate) fn dispatch_at<K: Kernel>(level: Level, kernel: K) {
    assert!(level.is_available(), "this CPU does not have {level:?}");
    // SAFETY: checked in the line above.
    unsafe { run(level, kernel) }
}

/// # Safety
/// The CPU has `level`.
#[inline]
unsafe fn run<K: Kernel>(level: Level, kernel: K) {
    match level {
        Level::Baseline => run_baseline(kernel),
        // SAFETY: the contract of this function.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::run_avx2(kernel) },
        // SAFETY: the contract of this function.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::run_avx512(kernel) },
    }
}

#[inline(never)]
fn run_baseline<K: Kernel>(kernel: K) {
    kernel.run(Baseline);
}

/// [`Level::Baseline`], which needs no proof.
#[derive(Clone, Copy)]
pub(crate) struct Baseline;

impl Isa for Baseline {
    #[inline(always)]
    fn widen_f16<const L: usize>(self, raw: &[[u8; 2]; L], values: &mut [f32; L]) {
        for i in 0..L {
            values[i] = f16_to_f32(u16::from_ne_bytes(raw[i]));
        }
    }

    #[inline(always)]
    fn narrow_f16<const L: usize>(self, values: &[f32; L], raw: &mut [[u8; 2]; L]) {
        for i in 0..L {
            raw[i] = f32_to_f16(values[i]).to_ne_bytes();
        }
    }

    #[inline(always)]
    fn mul_complex_f32<const L: usize>(self, left: &mut [[f32; 2]; L], right: &[[f32; 2]; L]) {
        for i in 0..L {
            let (l, r) = (left[i], right[i]);
            left[i] = [l[0] * r[0] - l[1] * r[1], l[0] * r[1] + l[1] * r[0]];
        }
    }

    #[inline(always)]
    fn mul_complex_f64<const L: usize>(self, left: &mut [[f64; 2]; L], right: &[[f64; 2]; L]) {
        for i in 0..L {
            let (l, r) = (left[i], right[i]);
            left[i] = [l[0] * r[0] - l[1] * r[1], l[0] * r[1] + l[1] * r[0]];
        }
    }
}

/// Branch-free, so that it vectorises, and without subnormal `f32` on the way, which are slow.
#[inline(always)]
fn f16_to_f32(half: u16) -> f32 {
    let magnitude = u32::from(half & 0x7fff);
    // An exponent of 0 counts units of 2^-24, which is the last place of 0.5.
    let small = (f32::from_bits(0x3f00_0000 | magnitude) - 0.5).to_bits();
    // Moves the bias from 15 to 127; for infinity and NaN the exponent goes on to 255.
    let normal = (magnitude << 13) + (112 << 23);
    let normal = if magnitude >= 0x7c00 { normal + (112 << 23) } else { normal };
    let bits = if magnitude < 0x0400 { small } else { normal };
    f32::from_bits(bits | (u32::from(half & 0x8000) << 16))
}

/// Branch-free like [`f16_to_f32`].
#[inline(always)]
fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Below 2^-14 the addition itself rounds to units of 2^-24.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    // Moves the bias and rounds; a carry out of the fraction is right in the exponent too.
    let even = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0x0fff + even) >> 13;
    let finite = if magnitude < 0x3880_0000 { small } else { normal };
    // From 65520 on, half way to the power of two after the largest number, it is infinity.
    let ordered = if magnitude >= 0x477f_f000 { 0x7c00 } else { finite } | sign;
    (if magnitude > 0x7f80_0000 { 0x7e00 } else { ordered }) as u16
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    /// All of binary16 and back, and `f32` around every rounding edge.
    struct Conversions;

    fn expected(value: f32) -> u16 {
        if value.is_nan() { 0x7e00 } else { f16::from_f32(value).to_bits() }
    }

    fn narrow<I: Isa>(isa: I, values: &[f32; 32]) -> [u16; 32] {
        let mut raw = [[0; 2]; 32];
        isa.narrow_f16(values, &mut raw);
        // One at a time goes another way than many at once.
        for (value, raw) in values.iter().zip(&raw) {
            let mut one = [[0; 2]];
            isa.narrow_f16(&[*value], &mut one);
            assert_eq!(one[0], *raw, "{value:?}");
        }
        raw.map(u16::from_ne_bytes)
    }

    impl Kernel for Conversions {
        fn run<I: Isa>(self, isa: I) {
            for base in (0..=u16::MAX).step_by(8) {
                let halves: [u16; 8] = std::array::from_fn(|i| base + i as u16);
                let mut values = [0.0; 8];
                isa.widen_f16(&halves.map(u16::to_ne_bytes), &mut values);
                for (bits, value) in halves.iter().zip(values) {
                    let expected = f16::from_bits(*bits).to_f32();
                    assert_eq!(value.is_nan(), expected.is_nan(), "{bits:#06x}");
                    if !value.is_nan() {
                        assert_eq!(value.to_bits(), expected.to_bits(), "{bits:#06x}");
                    }
                }
            }
            // Every binary16 number, the middle to its neighbour, and one `f32` step to each side.
            for bits in 0..=u16::MAX {
                let here = f16::from_bits(bits).to_f32();
                let next = f16::from_bits(bits.wrapping_add(1)).to_f32();
                let middle = (here + next) / 2.0;
                let mut values = [0.0; 32];
                for (k, centre) in [here, middle].into_iter().enumerate() {
                    for step in 0..16 {
                        let bits = centre.to_bits().wrapping_add(step).wrapping_sub(8);
                        values[k * 16 + step as usize] = f32::from_bits(bits);
                    }
                }
                assert_eq!(narrow(isa, &values), values.map(expected), "around {bits:#06x}");
            }
            // A coarse walk over all of `f32`.
            for base in (0..=u32::MAX).step_by(0x0012_3457) {
                let values = std::array::from_fn(|i| f32::from_bits(base ^ (i as u32 * 0x1003)));
                assert_eq!(narrow(isa, &values), values.map(expected), "around {base:#010x}");
            }
        }
    }

    #[test]
    fn conversions_agree_with_the_half_crate_at_every_level() {
        for level in Level::ALL.iter().copied().filter(|level| level.is_available()) {
            dispatch_at(level, Conversions);
        }
    }

    #[test]
    fn the_best_available_level_is_detected() {
        let best = Level::ALL.iter().copied().filter(|level| level.is_available()).max();
        assert_eq!(Some(Level::detected()), best);
        assert_eq!(Some(Level::detected()), best, "the cached answer differs");
    }
}
