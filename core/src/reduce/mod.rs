//! Stand-in.
use crate::dtype::{DType, Op};
pub(crate) fn reduce(dtype: DType, op: Op, divisor: u32, into: &mut [u8], sources: &[&[u8]]) {
    into.copy_from_slice(sources[0]);
    reduce_in_place(dtype, op, divisor, into, &[], &sources[1..]);
}
pub(crate) fn reduce_in_place(
    dtype: DType,
    op: Op,
    _divisor: u32,
    into: &mut [u8],
    before: &[&[u8]],
    after: &[&[u8]],
) {
    assert!(op == Op::Sum);
    if let Some((first, rest)) = before.split_first() {
        let mut all = rest.to_vec();
        let own = into.to_vec();
        all.push(&own);
        all.extend(after);
        into.copy_from_slice(first);
        return reduce_in_place(dtype, op, 1, into, &[], &all);
    }
    for source in after {
        for (a, b) in into.chunks_exact_mut(4).zip(source.chunks_exact(4)) {
            let b: [u8; 4] = b.try_into().unwrap();
            let a: &mut [u8; 4] = a.try_into().unwrap();
            *a = if dtype == DType::F32 {
                (f32::from_le_bytes(*a) + f32::from_le_bytes(b)).to_le_bytes()
            } else {
                i32::from_le_bytes(*a).wrapping_add(i32::from_le_bytes(b)).to_le_bytes()
            };
        }
    }
}
