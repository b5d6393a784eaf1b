//! The kernels against a reference that takes one element at a time and knows nothing of blocks.

use half::{bf16, f16};
use num_complex::Complex;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRng, TestRunner};

use super::{normalise_bool, reduce, reduce_at, reduce_in_place};
use crate::dtype::{DType, Op};
use crate::sys::simd::Level;

/// The most elements that a pass of the loop takes at once, in bytes of any type.
const BLOCK: usize = 256;

pub(crate) fn pairs() -> Vec<(DType, Op)> {
    let ops = |dtype| Op::ALL.into_iter().map(move |op| (dtype, op));
    DType::ALL.into_iter().flat_map(ops).filter(|(dtype, op)| op.supports(*dtype)).collect()
}

fn levels() -> Vec<Level> {
    Level::ALL.iter().copied().filter(|level| level.is_available()).collect()
}

// ---------------------------------------------------------------------------------------------
// The reference.

/// One element of the reference's result.
fn expected_element(dtype: DType, op: Op, divisor: u32, operands: &[&[u8]]) -> Vec<u8> {
    macro_rules! integer {
        ($type:ty) => {{
            let read = |raw: &[u8]| <$type>::from_ne_bytes(raw.try_into().unwrap());
            let values: Vec<i128> = operands.iter().map(|raw| read(raw) as i128).collect();
            let first = values[0];
            let rest = values[1..].iter();
            // Wrapping to the type is the same at every step and at the end.
            let wrap = |value: i128| value as $type as i128;
            let result = match op {
                Op::Sum => values.iter().sum::<i128>(),
                Op::Prod => rest.fold(first, |a, b| wrap(a).wrapping_mul(*b)),
                Op::Min => *values.iter().min().unwrap(),
                Op::Max => *values.iter().max().unwrap(),
                Op::BitAnd => rest.fold(first, |a, b| a & b),
                Op::BitOr => rest.fold(first, |a, b| a | b),
                Op::BitXor => rest.fold(first, |a, b| a ^ b),
                Op::LogicalAnd => values.iter().all(|value| *value != 0).into(),
                Op::LogicalOr => values.iter().any(|value| *value != 0).into(),
                Op::Avg => unreachable!(),
            };
            (result as $type).to_ne_bytes().to_vec()
        }};
    }
    macro_rules! float {
        ($type:ty, $acc:ty, $nan:expr, $widen:expr, $narrow:expr) => {{
            let read = |raw: &[u8]| <$type>::from_ne_bytes(raw.try_into().unwrap());
            let values: Vec<$acc> = operands.iter().map(|raw| $widen(read(raw))).collect();
            let single = values.len() == 1 && !(op == Op::Avg && divisor != 1);
            let (first, rest) = (values[0], &values[1..]);
            let result = match op {
                _ if single => return operands[0].to_vec(),
                Op::Sum => rest.iter().fold(first, |a, b| a + b),
                Op::Prod => rest.iter().fold(first, |a, b| a * b),
                Op::Avg => rest.iter().fold(first, |a, b| a + b) / divisor as $acc,
                // `total_cmp` has -0 below +0, and NaN is dealt with first.
                Op::Min | Op::Max if values.iter().any(|value| value.is_nan()) => <$acc>::NAN,
                Op::Min => values.iter().copied().min_by(|a, b| a.total_cmp(b)).unwrap(),
                Op::Max => values.iter().copied().max_by(|a, b| a.total_cmp(b)).unwrap(),
                _ => unreachable!(),
            };
            if result.is_nan() {
                let quiet = $nan;
                quiet.to_ne_bytes().to_vec()
            } else {
                <$type>::to_ne_bytes($narrow(result)).to_vec()
            }
        }};
    }
    macro_rules! complex {
        ($type:ty) => {{
            const SIZE: usize = size_of::<$type>();
            let read = |raw: &[u8]| {
                let part =
                    |at: usize| <$type>::from_ne_bytes(raw[at..][..SIZE].try_into().unwrap());
                Complex::new(part(0), part(SIZE))
            };
            let values: Vec<_> = operands.iter().map(|raw| read(raw)).collect();
            let (first, rest) = (values[0], &values[1..]);
            let result = match op {
                _ if values.len() == 1 && !(op == Op::Avg && divisor != 1) => {
                    return operands[0].to_vec();
                }
                Op::Sum => rest.iter().fold(first, |a, b| a + b),
                Op::Prod => rest.iter().fold(first, |a, b| a * b),
                Op::Avg => rest.iter().fold(first, |a, b| a + b) / divisor as $type,
                _ => unreachable!(),
            };
            let quiet = |part: $type| if part.is_nan() { <$type>::NAN } else { part };
            [quiet(result.re).to_ne_bytes(), quiet(result.im).to_ne_bytes()].concat()
        }};
    }

    match dtype {
        DType::Bool => {
            let count = operands.iter().filter(|raw| raw[0] != 0).count();
            let result = match op {
                Op::Sum | Op::Max | Op::BitOr | Op::LogicalOr => count > 0,
                Op::Prod | Op::Min | Op::BitAnd | Op::LogicalAnd => count == operands.len(),
                Op::BitXor => count % 2 == 1,
                Op::Avg => unreachable!(),
            };
            vec![result.into()]
        }
        DType::I8 => integer!(i8),
        DType::I16 => integer!(i16),
        DType::I32 => integer!(i32),
        DType::I64 => integer!(i64),
        DType::U8 => integer!(u8),
        DType::U16 => integer!(u16),
        DType::U32 => integer!(u32),
        DType::U64 => integer!(u64),
        DType::F16 => float!(f16, f32, 0x7e00_u16, f16::to_f32, f16::from_f32),
        DType::Bf16 => float!(bf16, f32, 0x7fc0_u16, bf16::to_f32, bf16::from_f32),
        DType::F32 => float!(f32, f32, 0x7fc0_0000_u32, f32::from, f32::from),
        DType::F64 => float!(f64, f64, 0x7ff8_0000_0000_0000_u64, f64::from, f64::from),
        DType::Complex64 => complex!(f32),
        DType::Complex128 => complex!(f64),
    }
}

pub(crate) fn expected(dtype: DType, op: Op, divisor: u32, sources: &[&[u8]]) -> Vec<u8> {
    let size = dtype.size();
    (0..sources[0].len() / size)
        .flat_map(|i| {
            let operands: Vec<&[u8]> = sources.iter().map(|s| &s[i * size..][..size]).collect();
            expected_element(dtype, op, divisor, &operands)
        })
        .collect()
}

// ---------------------------------------------------------------------------------------------
// Data.

/// A small generator of its own, so that data depends on a seed only.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Values at which floating-point code goes wrong, and some ordinary ones.
const SPECIAL: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1.5,
    -3.25,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    6.0e-8,    // the smallest of binary16
    -6.0e-8,   //
    3.0e-5,    // subnormal in binary16
    6.1e-5,    // around the smallest normal of binary16
    65504.0,   // the largest of binary16
    -65504.0,  //
    65519.0,   // rounds to it
    1.0e-45,   // the smallest of f32
    9.2e-41,   // the smallest of bfloat16
    1.2e-38,   // around the smallest normal of f32
    3.402e38,  // near the largest of f32
    -3.402e38, //
    5.0e-324,  // the smallest of f64
    f64::MAX,  //
    f64::MIN,  //
];

/// The bytes of a special value in the type's format, or in that of its parts.
fn special(dtype: DType, which: usize) -> Vec<u8> {
    let value = SPECIAL[which % SPECIAL.len()];
    match dtype {
        DType::F16 => f16::from_f64(value).to_ne_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(value).to_ne_bytes().to_vec(),
        DType::F32 => (value as f32).to_ne_bytes().to_vec(),
        DType::F64 => value.to_ne_bytes().to_vec(),
        DType::Complex64 => {
            let other = SPECIAL[(which / SPECIAL.len()) % SPECIAL.len()];
            [(value as f32).to_ne_bytes(), (other as f32).to_ne_bytes()].concat()
        }
        DType::Complex128 => {
            let other = SPECIAL[(which / SPECIAL.len()) % SPECIAL.len()];
            [value.to_ne_bytes(), other.to_ne_bytes()].concat()
        }
        _ => {
            let value = [0, 1, u64::MAX, 1 << (8 * dtype.size() - 1)][which % 4];
            value.to_le_bytes()[..dtype.size()].to_vec()
        }
    }
}

/// `len` elements, and `shift` bytes before them so that they are not aligned: arbitrary bits with
/// ordinary numbers and special values between.
fn bytes(dtype: DType, seed: u64, len: usize, shift: usize) -> Vec<u8> {
    let mut bits = Bits(seed);
    let mut bytes = vec![0xa5; shift];
    for _ in 0..len {
        let choice = bits.next();
        let small = (choice >> 8) as i16 as f64 / 64.0;
        match choice % 8 {
            0 | 1 => bytes.extend(special(dtype, (choice >> 8) as usize % 1024)),
            2 | 3 => {
                let raw = [bits.next().to_ne_bytes(), bits.next().to_ne_bytes()].concat();
                bytes.extend(&raw[..dtype.size()]);
            }
            _ => match dtype {
                DType::F16 => bytes.extend(f16::from_f64(small).to_ne_bytes()),
                DType::Bf16 => bytes.extend(bf16::from_f64(small).to_ne_bytes()),
                DType::F32 => bytes.extend((small as f32).to_ne_bytes()),
                DType::F64 => bytes.extend(small.to_ne_bytes()),
                DType::Complex64 => {
                    bytes.extend((small as f32).to_ne_bytes());
                    bytes.extend((1.0 - small as f32).to_ne_bytes());
                }
                DType::Complex128 => {
                    bytes.extend(small.to_ne_bytes());
                    bytes.extend((1.0 - small).to_ne_bytes());
                }
                _ => {
                    let raw = choice >> 8;
                    bytes.extend(raw.to_ne_bytes().repeat(2)[..dtype.size()].iter());
                }
            },
        }
    }
    bytes
}

// ---------------------------------------------------------------------------------------------
// The tests.

/// Every entry point gives the bytes of the reference, at every level and wherever the
/// destination's own content stands.
fn check(dtype: DType, op: Op, divisor: u32, len: usize, shift: usize, seed: u64, count: usize) {
    let what = || format!("{op} of {count} × {len} × {dtype}, shift {shift}, seed {seed}");
    let buffers: Vec<Vec<u8>> = (0..count)
        .map(|k| bytes(dtype, seed.wrapping_mul(31).wrapping_add(k as u64), len, (shift + k) % 17))
        .collect();
    let sources: Vec<&[u8]> =
        buffers.iter().enumerate().map(|(k, buffer)| &buffer[(shift + k) % 17..]).collect();
    let expected = expected(dtype, op, divisor, &sources);
    let size = len * dtype.size();
    // A margin on both sides shows writes outside of the destination.
    let check = |run: &dyn Fn(&mut [u8]), old: &[u8], how: &str| {
        let mut into = vec![0x5a; shift + size + 64];
        into[shift..][..size].copy_from_slice(old);
        run(&mut into[shift..][..size]);
        assert!(into[shift..][..size] == expected[..], "{how}: {}", what());
        assert!(into[..shift].iter().all(|byte| *byte == 0x5a), "{how} wrote before: {}", what());
        assert!(
            into[shift + size..].iter().all(|byte| *byte == 0x5a),
            "{how} wrote behind: {}",
            what()
        );
    };

    let garbage = vec![0x7f; size];
    check(&|into| reduce(dtype, op, divisor, into, &sources), &garbage, "reduce");
    for level in levels() {
        let run = |into: &mut [u8]| reduce_at(level, dtype, op, divisor, into, &sources);
        check(&run, &garbage, &format!("{level:?}"));
    }
    // With many sources the ends and the middle are enough.
    for own in (0..count).filter(|own| count <= 4 || [0, count / 2, count - 1].contains(own)) {
        let (before, after) = (&sources[..own], &sources[own + 1..]);
        let run = |into: &mut [u8]| reduce_in_place(dtype, op, divisor, into, before, after);
        check(&run, sources[own], &format!("in place at {own}"));
    }
}

/// The lengths named by the kernels' structure, in elements.
fn edges(dtype: DType) -> Vec<usize> {
    let (block, half) = (BLOCK / dtype.size(), BLOCK / 2 / dtype.size());
    let mut edges = vec![0, 1, 2, 3, 7, 15, 16, 17, 31];
    edges.extend([half - 1, half, half + 1, block - 1, block, block + 1, 3 * block + half + 3]);
    edges
}

#[test]
fn every_type_and_operator_at_every_edge() {
    for (dtype, op) in pairs() {
        for (i, len) in edges(dtype).into_iter().enumerate() {
            for count in 1..=9 {
                check(
                    dtype,
                    op,
                    count as u32,
                    len,
                    (i + count) % 9,
                    (i * 16 + count) as u64,
                    count,
                );
            }
        }
    }
}

#[test]
fn every_type_and_operator_in_large() {
    for (dtype, op) in pairs() {
        for count in [1, 2, 3, 8] {
            check(dtype, op, 3, 40_000 / dtype.size() + 1, 1, count as u64, count);
        }
    }
}

#[test]
fn any_data_length_alignment_and_divisor() {
    let config = Config { cases: 400, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(Default::default()));
    let input = (
        select(pairs()),
        prop_oneof![Just(1_u32), 2_u32..10, any::<u32>().prop_map(|d| d.max(1))],
        0_usize..700,
        0_usize..64,
        any::<u64>(),
        1_usize..=9,
    );
    runner
        .run(&input, |((dtype, op), divisor, len, shift, seed, count)| {
            check(dtype, op, divisor, len, shift, seed, count);
            Ok(())
        })
        .unwrap();
}

/// All orders of `items`.
fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, first) in items.iter().enumerate() {
        let rest: Vec<usize> =
            items.iter().enumerate().filter(|(j, _)| *j != i).map(|p| *p.1).collect();
        for mut tail in permutations(&rest) {
            tail.insert(0, *first);
            all.push(tail);
        }
    }
    all
}

#[test]
fn minimum_and_maximum_do_not_depend_on_the_order() {
    let choices = SPECIAL.len();
    for (dtype, op) in pairs() {
        if !matches!(op, Op::Min | Op::Max) {
            continue;
        }
        // Element i holds the i-th triple of special values.
        let triples = choices * choices * choices;
        let columns: Vec<Vec<u8>> = [1, choices, choices * choices]
            .into_iter()
            .map(|step| (0..triples).flat_map(|i| special(dtype, i / step % choices)).collect())
            .collect();
        let in_order: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
        let expected = expected(dtype, op, 1, &in_order);
        for order in permutations(&[0, 1, 2]) {
            let sources: Vec<&[u8]> = order.iter().map(|k| in_order[*k]).collect();
            for level in levels() {
                let mut into = vec![0; expected.len()];
                reduce_at(level, dtype, op, 1, &mut into, &sources);
                assert!(into == expected, "{op} of {dtype} in order {order:?} at {level:?}");
            }
        }
    }
}

/// NaNs of any sign and payload, in every place, for every operator: one quiet NaN comes out.
#[test]
fn any_nan_comes_out_as_the_one_quiet_nan() {
    fn nans(dtype: DType) -> Vec<Vec<u8>> {
        match dtype {
            DType::F16 => [0x7e00_u16, 0x7c01, 0xfe00, 0xffff, 0xfd55]
                .map(|bits| bits.to_ne_bytes().to_vec())
                .into(),
            DType::Bf16 => [0x7fc0_u16, 0x7f81, 0xffc0, 0xffff, 0xff95]
                .map(|bits| bits.to_ne_bytes().to_vec())
                .into(),
            DType::F32 => [0x7fc0_0000_u32, 0x7f80_0001, 0xffc0_0000, u32::MAX, 0xff81_2345]
                .map(|bits| bits.to_ne_bytes().to_vec())
                .into(),
            _ => [0x7ff8 << 48, (0x7ff0 << 48) | 1, 0xfff8 << 48, u64::MAX, (0xfff1 << 48) | 77]
                .map(|bits: u64| bits.to_ne_bytes().to_vec())
                .into(),
        }
    }
    for (dtype, op) in pairs().into_iter().filter(|(dtype, _)| dtype.is_float()) {
        let quiet = nans(dtype).remove(0);
        let len = 83;
        for nan in nans(dtype) {
            for place in 0..3 {
                let mut buffers: Vec<Vec<u8>> =
                    [2, 6, 7].map(|which| special(dtype, which).repeat(len)).into();
                buffers[place] = nan.repeat(len);
                let sources: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
                for level in levels() {
                    let mut into = vec![0; len * dtype.size()];
                    reduce_at(level, dtype, op, 3, &mut into, &sources);
                    assert_eq!(into, quiet.repeat(len), "{op} of {dtype} at {level:?}");
                }
            }
        }
    }
}

#[test]
fn half_precision_is_rounded_once() {
    // In steps of binary16 and bfloat16 the small ones would be lost one by one.
    let run = |dtype, values: &[f64], op, divisor| {
        let buffers: Vec<Vec<u8>> = values
            .iter()
            .map(|value| match dtype {
                DType::F16 => f16::from_f64(*value).to_ne_bytes().to_vec(),
                _ => bf16::from_f64(*value).to_ne_bytes().to_vec(),
            })
            .collect();
        let sources: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        let mut into = [0; 2];
        reduce(dtype, op, divisor, &mut into, &sources);
        match dtype {
            DType::F16 => f16::from_ne_bytes(into).to_f64(),
            _ => bf16::from_ne_bytes(into).to_f64(),
        }
    };
    assert_eq!(run(DType::F16, &[2048.0, 1.0, 1.0], Op::Sum, 1), 2050.0);
    assert_eq!(run(DType::Bf16, &[256.0, 1.0, 1.0], Op::Sum, 1), 258.0);
    // Beyond the largest number on the way, but not at the end.
    assert_eq!(run(DType::F16, &[65504.0, 65504.0], Op::Avg, 2), 65504.0);
    assert_eq!(run(DType::F16, &[65504.0, 65504.0, -65504.0], Op::Sum, 1), 65504.0);
    assert_eq!(run(DType::F16, &[65504.0, 65504.0], Op::Sum, 1), f64::INFINITY);
    assert_eq!(run(DType::Bf16, &[3.0e38, 3.0e38], Op::Sum, 1), f64::INFINITY);
}

#[test]
fn nothing_but_the_destination_is_an_operand_of_itself() {
    let mut into = 5.0_f32.to_ne_bytes();
    reduce_in_place(DType::F32, Op::Sum, 1, &mut into, &[], &[]);
    assert_eq!(f32::from_ne_bytes(into), 5.0);
    reduce_in_place(DType::F32, Op::Avg, 2, &mut into, &[], &[]);
    assert_eq!(f32::from_ne_bytes(into), 2.5);
    let mut into = [0, 1, 7, 255];
    reduce_in_place(DType::Bool, Op::Sum, 1, &mut into, &[], &[]);
    assert_eq!(into, [0, 1, 1, 1]);
    let mut into = [0, 1, 7, 255];
    reduce_in_place(DType::U8, Op::LogicalAnd, 1, &mut into, &[], &[]);
    assert_eq!(into, [0, 1, 1, 1]);
}

#[test]
fn booleans_become_zero_and_one() {
    for len in [0, 1, 2, 3, 63, 64, 65, 300] {
        let mut values: Vec<u8> = (0..len).map(|i| (i * 37 % 256) as u8).collect();
        let expected: Vec<u8> = values.iter().map(|value| u8::from(*value != 0)).collect();
        normalise_bool(&mut values);
        assert_eq!(values, expected);
    }
}

fn refusal(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(run).expect_err("was not refused");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().unwrap().to_string(),
    }
}

#[test]
fn misuse_is_refused_with_a_reason() {
    for dtype in DType::ALL {
        for op in Op::ALL.into_iter().filter(|op| !op.supports(dtype)) {
            for count in [1, 2] {
                let text = refusal(move || {
                    let source = [0; 16];
                    reduce(dtype, op, 1, &mut [0; 16], &[source.as_slice(); 2][..count]);
                });
                assert_eq!(
                    text,
                    format!(
                        "{op} of {dtype} is not defined and should have been refused at the call"
                    )
                );
            }
        }
    }
    let text = refusal(|| reduce(DType::F32, Op::Sum, 1, &mut [0; 8], &[&[0; 8], &[0; 4]]));
    assert_eq!(text, "a source of 4 bytes for a destination of 8");
    let text = refusal(|| reduce(DType::F32, Op::Sum, 1, &mut [0; 6], &[&[0; 6]]));
    assert_eq!(text, "6 bytes are no whole number of f32 elements");
    let text = refusal(|| reduce(DType::F32, Op::Sum, 1, &mut [0; 8], &[]));
    assert_eq!(text, "a reduction without a source");
    let text = refusal(|| reduce(DType::F32, Op::Avg, 0, &mut [0; 8], &[&[0; 8], &[0; 8]]));
    assert_eq!(text, "an average of f32 with the divisor 0");
}
