//! The levels of x86-64.

use std::arch::x86_64::{
    __m128i, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128,
    _mm256_addsub_pd, _mm256_addsub_ps, _mm256_blendv_ps, _mm256_cmp_ps, _mm256_cvtph_ps,
    _mm256_cvtps_ph, _mm256_loadu_pd, _mm256_loadu_ps, _mm256_movedup_pd, _mm256_movehdup_ps,
    _mm256_moveldup_ps, _mm256_mul_pd, _mm256_mul_ps, _mm256_permute_pd, _mm256_permute_ps,
    _mm256_set1_ps, _mm256_storeu_pd, _mm256_storeu_ps,
};
use std::arch::x86_64::{
    __m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm512_cmp_ps_mask, _mm512_cvtph_ps,
    _mm512_cvtps_ph, _mm512_loadu_ps, _mm512_mask_blend_ps, _mm512_set1_ps, _mm512_storeu_ps,
};

use super::{Baseline, Isa, Kernel};

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

/// Proof of [`super::Level::Avx2`]; made by [`run_avx2`] and [`run_avx512`] only.
#[derive(Clone, Copy)]
struct Avx2(());

/// Proof of [`super::Level::Avx512`]; made by [`run_avx512`] only.
#[derive(Clone, Copy)]
struct Avx512(());

#[target_feature(enable = "avx2,f16c")]
pub(super) fn run_avx2<K: Kernel>(kernel: K) {
    kernel.run(Avx2(()));
}

#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn run_avx512<K: Kernel>(kernel: K) {
    kernel.run(Avx512(()));
}

impl Isa for Avx2 {
    #[inline(always)]
    fn widen_f16<const L: usize>(self, raw: &[[u8; 2]; L], values: &mut [f32; L]) {
        let (raw, raw_rest) = raw.as_chunks::<8>();
        let (values, values_rest) = values.as_chunks_mut::<8>();
        for (raw, values) in raw.iter().zip(values) {
            // SAFETY: `self` proves F16C.
            unsafe { widen_8(raw, values) };
        }
        for (raw, value) in raw_rest.iter().zip(values_rest) {
            Baseline.widen_f16(&[*raw], std::array::from_mut(value));
        }
    }

    #[inline(always)]
    fn narrow_f16<const L: usize>(self, values: &[f32; L], raw: &mut [[u8; 2]; L]) {
        let (values, values_rest) = values.as_chunks::<8>();
        let (raw, raw_rest) = raw.as_chunks_mut::<8>();
        for (values, raw) in values.iter().zip(raw) {
            // SAFETY: `self` proves F16C.
            unsafe { narrow_8(values, raw) };
        }
        for (value, raw) in values_rest.iter().zip(raw_rest) {
            Baseline.narrow_f16(&[*value], std::array::from_mut(raw));
        }
    }

    #[inline(always)]
    fn mul_complex_f32<const L: usize>(self, left: &mut [[f32; 2]; L], right: &[[f32; 2]; L]) {
        let (left, left_rest) = left.as_chunks_mut::<4>();
        let (right, right_rest) = right.as_chunks::<4>();
        for (left, right) in left.iter_mut().zip(right) {
            // SAFETY: `self` proves AVX.
            unsafe { mul_complex_f32_4(left, right) };
        }
        for (left, right) in left_rest.iter_mut().zip(right_rest) {
            Baseline.mul_complex_f32(std::array::from_mut(left), &[*right]);
        }
    }

    #[inline(always)]
    fn mul_complex_f64<const L: usize>(self, left: &mut [[f64; 2]; L], right: &[[f64; 2]; L]) {
        let (left, left_rest) = left.as_chunks_mut::<2>();
        let (right, right_rest) = right.as_chunks::<2>();
        for (left, right) in left.iter_mut().zip(right) {
            // SAFETY: `self` proves AVX.
            unsafe { mul_complex_f64_2(left, right) };
        }
        for (left, right) in left_rest.iter_mut().zip(right_rest) {
            Baseline.mul_complex_f64(std::array::from_mut(left), &[*right]);
        }
    }
}

impl Isa for Avx512 {
    #[inline(always)]
    fn widen_f16<const L: usize>(self, raw: &[[u8; 2]; L], values: &mut [f32; L]) {
        if !L.is_multiple_of(16) {
            return Avx2(()).widen_f16(raw, values);
        }
        for (raw, values) in raw.as_chunks().0.iter().zip(values.as_chunks_mut().0) {
            // SAFETY: `self` proves AVX-512 F.
            unsafe { widen_16(raw, values) };
        }
    }

    #[inline(always)]
    fn narrow_f16<const L: usize>(self, values: &[f32; L], raw: &mut [[u8; 2]; L]) {
        if !L.is_multiple_of(16) {
            return Avx2(()).narrow_f16(values, raw);
        }
        for (values, raw) in values.as_chunks().0.iter().zip(raw.as_chunks_mut().0) {
            // SAFETY: `self` proves AVX-512 F.
            unsafe { narrow_16(values, raw) };
        }
    }

    #[inline(always)]
    fn mul_complex_f32<const L: usize>(self, left: &mut [[f32; 2]; L], right: &[[f32; 2]; L]) {
        // AVX-512 adds and subtracts in turn only with the product fused, which rounds otherwise.
        Avx2(()).mul_complex_f32(left, right);
    }

    #[inline(always)]
    fn mul_complex_f64<const L: usize>(self, left: &mut [[f64; 2]; L], right: &[[f64; 2]; L]) {
        // AVX-512 adds and subtracts in turn only with the product fused, which rounds otherwise.
        Avx2(()).mul_complex_f64(left, right);
    }
}

#[inline]
#[target_feature(enable = "avx,f16c")]
fn widen_8(raw: &[[u8; 2]; 8], values: &mut [f32; 8]) {
    // SAFETY: 16 bytes are read and 32 written, of any alignment, inside of the arrays.
    unsafe {
        let raw = _mm_loadu_si128(raw.as_ptr().cast::<__m128i>());
        _mm256_storeu_ps(values.as_mut_ptr(), _mm256_cvtph_ps(raw));
    }
}

#[inline]
#[target_feature(enable = "avx,f16c")]
fn narrow_8(values: &[f32; 8], raw: &mut [[u8; 2]; 8]) {
    // SAFETY: 32 bytes are read and 16 written, of any alignment, inside of the arrays.
    unsafe {
        let values = _mm256_loadu_ps(values.as_ptr());
        let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(values, values);
        let values = _mm256_blendv_ps(values, _mm256_set1_ps(f32::NAN), nan);
        let halves = _mm256_cvtps_ph::<NEAREST>(values);
        _mm_storeu_si128(raw.as_mut_ptr().cast::<__m128i>(), halves);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn widen_16(raw: &[[u8; 2]; 16], values: &mut [f32; 16]) {
    // SAFETY: 32 bytes are read and 64 written, of any alignment, inside of the arrays.
    unsafe {
        let raw = _mm256_loadu_si256(raw.as_ptr().cast::<__m256i>());
        _mm512_storeu_ps(values.as_mut_ptr(), _mm512_cvtph_ps(raw));
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn narrow_16(values: &[f32; 16], raw: &mut [[u8; 2]; 16]) {
    // SAFETY: 64 bytes are read and 32 written, of any alignment, inside of the arrays.
    unsafe {
        let values = _mm512_loadu_ps(values.as_ptr());
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values);
        let values = _mm512_mask_blend_ps(nan, values, _mm512_set1_ps(f32::NAN));
        let halves = _mm512_cvtps_ph::<NEAREST>(values);
        _mm256_storeu_si256(raw.as_mut_ptr().cast::<__m256i>(), halves);
    }
}

#[inline]
#[target_feature(enable = "avx")]
fn mul_complex_f32_4(left: &mut [[f32; 2]; 4], right: &[[f32; 2]; 4]) {
    // SAFETY: 32 bytes are read and written, of any alignment, inside of the arrays.
    unsafe {
        let l = _mm256_loadu_ps(left.as_ptr().cast::<f32>());
        let r = _mm256_loadu_ps(right.as_ptr().cast::<f32>());
        let swapped = _mm256_permute_ps::<0b10_11_00_01>(r);
        let by_real = _mm256_mul_ps(_mm256_moveldup_ps(l), r);
        let by_imaginary = _mm256_mul_ps(_mm256_movehdup_ps(l), swapped);
        let product = _mm256_addsub_ps(by_real, by_imaginary);
        _mm256_storeu_ps(left.as_mut_ptr().cast::<f32>(), product);
    }
}

#[inline]
#[target_feature(enable = "avx")]
fn mul_complex_f64_2(left: &mut [[f64; 2]; 2], right: &[[f64; 2]; 2]) {
    // SAFETY: 32 bytes are read and written, of any alignment, inside of the arrays.
    unsafe {
        let l = _mm256_loadu_pd(left.as_ptr().cast::<f64>());
        let r = _mm256_loadu_pd(right.as_ptr().cast::<f64>());
        let swapped = _mm256_permute_pd::<0b0101>(r);
        let by_real = _mm256_mul_pd(_mm256_movedup_pd(l), r);
        let by_imaginary = _mm256_mul_pd(_mm256_permute_pd::<0b1111>(l), swapped);
        let product = _mm256_addsub_pd(by_real, by_imaginary);
        _mm256_storeu_pd(left.as_mut_ptr().cast::<f64>(), product);
    }
}
