//! Data that differs by rank and by position, and what becomes of it, computed by plain means.
//!
//! A [`Series`] is an endless sequence of small numbers. It is made of blocks of [`PERIOD`] elements, each of
//! which is a stretch of one table, beginning at a place that depends on the block. So a buffer is
//! filled and compared at the speed of memory, and yet no element may stand elsewhere unnoticed.
//! The numbers are chosen so that every order of combining gives the same bits.

use half::{bf16, f16};
use lycaon::{DType, Op};

/// Elements of the table of a series; a prime, so that it does not line up with chunks.
const PERIOD: usize = 4093;

/// The data of all ranks for one run of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct World {
    pub(super) dtype: DType,
    pub(super) op: Option<Op>,
    pub(super) ranks: usize,
    /// Another seed, other data.
    pub(super) seed: u64,
}

/// A sequence of elements.
pub(super) struct Series {
    dtype: DType,
    seed: u64,
    /// Twice the table, so that any stretch of [`PERIOD`] elements is in one piece.
    table: Vec<u8>,
    tolerance: f64,
}

impl World {
    /// The sequence with this number: what a rank contributes.
    pub(super) fn series(&self, number: u64) -> Series {
        self.make(0.0, |at| (self.value(number, at) as f64, self.value(number, at)))
    }

    /// The sequences with numbers `0..count` combined by the operator.
    pub(super) fn combined(&self, count: usize) -> Series {
        let op = self.op.expect("the operation reduces");
        let exact = self.largest() * count as f64 <= self.precision() && op != Op::Avg;
        let epsilon = 1.0 / self.precision();
        let tolerance = if exact { 0.0 } else { epsilon * (4 + count) as f64 };
        self.make(tolerance, |at| {
            let values = (0..count as u64).map(|number| self.value(number, at));
            let result = match op {
                Op::Sum | Op::Avg => values.fold(0i64, i64::wrapping_add),
                Op::Prod => values.fold(1i64, i64::wrapping_mul),
                Op::Min => values.min().unwrap_or(0),
                Op::Max => values.max().unwrap_or(0),
                Op::BitAnd => values.fold(-1, |a, b| a & b),
                Op::BitOr => values.fold(0, |a, b| a | b),
                Op::BitXor => values.fold(0, |a, b| a ^ b),
                Op::LogicalAnd => values.fold(1, |a, b| i64::from(a != 0 && b != 0)),
                Op::LogicalOr => values.fold(0, |a, b| i64::from(a != 0 || b != 0)),
                _ => unreachable!("{op} was refused with the command line"),
            };
            let real = if op == Op::Avg { result as f64 / count as f64 } else { result as f64 };
            (real, result)
        })
    }

    fn make(&self, tolerance: f64, value: impl Fn(usize) -> (f64, i64)) -> Series {
        let mut table = Vec::with_capacity(2 * PERIOD * self.dtype.size());
        for at in 0..PERIOD {
            let (real, whole) = value(at);
            if self.dtype.is_complex() {
                // The imaginary part is that of the element before: it tells its place as well.
                let (before, _) = value((at + PERIOD - 1) % PERIOD);
                let imaginary = if self.op == Some(Op::Prod) { 0.0 } else { before };
                encode_complex(self.dtype, real, imaginary, &mut table);
            } else {
                encode(self.dtype, real, whole, &mut table);
            }
        }
        table.extend_from_within(..);
        Series { dtype: self.dtype, seed: self.seed, table, tolerance }
    }

    /// All whole numbers up to this one are exact in the type, with room to add.
    fn precision(&self) -> f64 {
        match self.dtype {
            DType::Bf16 => 256.0,
            DType::F16 => 2048.0,
            DType::F32 | DType::Complex64 => 16_777_216.0,
            DType::F64 | DType::Complex128 => 9_007_199_254_740_992.0,
            _ => f64::INFINITY,
        }
    }

    /// The largest number that a rank contributes.
    fn largest(&self) -> f64 {
        match (self.dtype, self.op) {
            (_, Some(Op::Prod)) => 1.0,
            (dtype, _) if dtype.is_integer() || dtype == DType::Bool => 127.0,
            (_, Some(Op::Sum | Op::Avg)) => {
                (self.precision().min(1e6) / self.ranks as f64).floor().max(1.0)
            }
            _ => self.precision().min(1e6),
        }
    }

    fn value(&self, number: u64, at: usize) -> i64 {
        let random = mix(self.seed ^ mix(number ^ mix(at as u64)));
        if self.dtype == DType::Bool {
            // Rarely false for an and, rarely true for an or: else all results are alike.
            let rare = random.is_multiple_of(self.ranks as u64 + 1);
            return i64::from(match self.op {
                Some(Op::Prod | Op::Min | Op::BitAnd | Op::LogicalAnd) => !rare,
                Some(Op::Sum | Op::Max | Op::BitOr | Op::LogicalOr) => rare,
                _ => random & 1 == 1,
            });
        }
        let bit = 1 << (random % 7);
        match self.op {
            // Powers of two that f16 holds, and signs.
            Some(Op::Prod) if self.dtype.is_integer() => 1 + (random % 5) as i64,
            Some(Op::Prod) => {
                let sign = if random & 1 == 1 { -1 } else { 1 };
                if number < 8 { sign * (1 + (random >> 1 & 1) as i64) } else { sign }
            }
            Some(Op::BitAnd) => 127 & !bit,
            Some(Op::BitOr) => bit,
            Some(Op::LogicalAnd) => {
                (!random.is_multiple_of(self.ranks as u64 + 1)) as i64 * (1 + bit)
            }
            Some(Op::LogicalOr) => random.is_multiple_of(self.ranks as u64 + 1) as i64 * bit,
            _ => {
                let largest = self.largest() as u64;
                if matches!(self.dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64) {
                    (random % (largest + 1)) as i64
                } else {
                    (random % (2 * largest + 1)) as i64 - largest as i64
                }
            }
        }
    }
}

impl Series {
    /// The pieces of the table that make up `count` elements from `start` on.
    fn pieces(&self, start: usize, count: usize) -> impl Iterator<Item = &[u8]> {
        let (mut at, end) = (start, start + count);
        let size = self.dtype.size();
        std::iter::from_fn(move || {
            if at == end {
                return None;
            }
            let (block, inside) = (at / PERIOD, at % PERIOD);
            let shift = (mix(self.seed ^ block as u64) % PERIOD as u64) as usize;
            let length = (PERIOD - inside).min(end - at);
            at += length;
            Some(&self.table[(shift + inside) * size..][..length * size])
        })
    }

    /// Writes the elements from `start` on.
    pub(super) fn fill(&self, mut into: &mut [u8], start: usize) {
        for piece in self.pieces(start, into.len() / self.dtype.size()) {
            let (head, rest) = into.split_at_mut(piece.len());
            head.copy_from_slice(piece);
            into = rest;
        }
    }

    /// How many elements are not those from `start` on.
    pub(super) fn wrong(&self, mut data: &[u8], start: usize) -> u64 {
        let size = self.dtype.size();
        let mut wrong = 0;
        for piece in self.pieces(start, data.len() / size) {
            let (head, rest) = data.split_at(piece.len());
            if head != piece {
                let pairs = head.chunks_exact(size).zip(piece.chunks_exact(size));
                wrong += pairs.filter(|(is, should)| !self.equal(is, should)).count() as u64;
            }
            data = rest;
        }
        wrong
    }

    fn equal(&self, is: &[u8], should: &[u8]) -> bool {
        if is == should {
            return true;
        }
        let part = if self.dtype.is_complex() { self.dtype.size() / 2 } else { self.dtype.size() };
        let near = |is: f64, should: f64| {
            // why: also true for the two zeros, whose sign depends on the order.
            (is - should).abs() <= self.tolerance * should.abs()
        };
        let number = |bytes: &[u8]| decode(self.dtype, bytes);
        is.chunks_exact(part).zip(should.chunks_exact(part)).all(|(is, should)| {
            matches!((number(is), number(should)), (Some(is), Some(should)) if near(is, should))
        })
    }
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn encode(dtype: DType, real: f64, whole: i64, into: &mut Vec<u8>) {
    match dtype {
        DType::Bool => into.push(u8::from(whole != 0)),
        DType::F16 => into.extend(f16::from_f64(real).to_le_bytes()),
        DType::Bf16 => into.extend(bf16::from_f64(real).to_le_bytes()),
        DType::F32 => into.extend((real as f32).to_ne_bytes()),
        DType::F64 => into.extend(real.to_ne_bytes()),
        // Integers wrap: the lowest bytes are right for each width.
        _ => into.extend(&whole.to_le_bytes()[..dtype.size()]),
    }
}

fn encode_complex(dtype: DType, real: f64, imaginary: f64, into: &mut Vec<u8>) {
    for part in [real, imaginary] {
        if dtype == DType::Complex64 {
            into.extend((part as f32).to_ne_bytes());
        } else {
            into.extend(part.to_ne_bytes());
        }
    }
}

/// A number or a part of one, for types that may differ in their last bit.
fn decode(dtype: DType, bytes: &[u8]) -> Option<f64> {
    Some(match dtype {
        DType::F16 => f16::from_le_bytes(bytes.try_into().ok()?).to_f64(),
        DType::Bf16 => bf16::from_le_bytes(bytes.try_into().ok()?).to_f64(),
        DType::F32 | DType::Complex64 => f32::from_ne_bytes(bytes.try_into().ok()?).into(),
        DType::F64 | DType::Complex128 => f64::from_ne_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(dtype: DType, op: Option<Op>, ranks: usize) -> World {
        World { dtype, op, ranks, seed: 5 }
    }

    fn filled(series: &Series, start: usize, count: usize) -> Vec<u8> {
        let mut data = vec![0; count * series.dtype.size()];
        series.fill(&mut data, start);
        data
    }

    #[test]
    fn what_was_filled_is_found_right_wherever_it_is_cut() {
        for dtype in DType::ALL {
            let series = world(dtype, None, 3).series(1);
            let whole = filled(&series, 0, 3 * PERIOD);
            for (start, count) in [(0, 1), (7, PERIOD), (PERIOD - 1, 2), (PERIOD, 0), (1, 9000)] {
                let part = &whole[start * dtype.size()..][..count * dtype.size()];
                assert_eq!(filled(&series, start, count), part, "{dtype}");
                assert_eq!(series.wrong(part, start), 0, "{dtype}");
            }
        }
    }

    #[test]
    fn other_ranks_places_and_seeds_have_other_data() {
        for dtype in DType::ALL {
            let world = world(dtype, None, 3);
            let series = world.series(1);
            let count = 2 * PERIOD;
            let half = count as u64 / 4;
            let other = World { seed: 6, ..world };
            let wrong = |data: Vec<u8>| series.wrong(&data, 0);
            assert!(wrong(filled(&world.series(2), 0, count)) > half, "{dtype}: rank");
            assert!(wrong(filled(&other.series(1), 0, count)) > half, "{dtype}: seed");
            for shift in [1, 64, 4096, PERIOD, PERIOD + 1] {
                let shifted = wrong(filled(&series, shift, count));
                assert!(shifted > half, "{dtype}: shifted by {shift}: {shifted} wrong");
            }
        }
    }

    #[test]
    fn a_single_wrong_element_is_counted() {
        for dtype in DType::ALL {
            let world = world(dtype, Some(Op::Sum), 4);
            let series = world.combined(4);
            let mut data = filled(&series, 3, 10_000);
            let at = 9_000 * dtype.size() + dtype.size() - 1;
            data[at] ^= 1;
            assert_eq!(series.wrong(&data, 3), 1, "{dtype}");
        }
    }

    /// Every order gives what is expected: as the ranks are, backwards, and in pairs.
    #[test]
    fn the_library_itself_agrees_for_every_type_and_operator() {
        for dtype in DType::ALL {
            for op in Op::ALL.into_iter().filter(|op| op.supports(dtype)) {
                let ranks = 3;
                let world = world(dtype, Some(op), ranks);
                let groups = lycaon::in_process(ranks, &Default::default()).unwrap();
                let threads: Vec<_> = groups
                    .into_iter()
                    .map(|group| {
                        std::thread::spawn(move || {
                            let mut data = filled(&world.series(group.rank() as u64), 11, 5000);
                            let request =
                                lycaon::Request::new(lycaon::Operation::AllReduce, dtype).op(op);
                            group.run(&request, None, Some(&mut data)).unwrap();
                            world.combined(ranks).wrong(&data, 11)
                        })
                    })
                    .collect();
                for thread in threads {
                    assert_eq!(thread.join().unwrap(), 0, "{dtype} {op}");
                }
            }
        }
    }

    #[test]
    fn results_of_reductions_are_not_all_alike() {
        for dtype in DType::ALL {
            for op in Op::ALL.into_iter().filter(|op| op.supports(dtype)) {
                for ranks in [2, 5, 16] {
                    let data = filled(&world(dtype, Some(op), ranks).combined(ranks), 0, PERIOD);
                    let size = dtype.size();
                    let first = &data[..size];
                    let others = data.chunks_exact(size).filter(|other| *other != first).count();
                    assert!(others > PERIOD / 20, "{dtype} {op} {ranks}: {others}");
                }
            }
        }
    }
}
