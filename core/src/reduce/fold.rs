//! The loop: blocks of elements, all operands of a block combined in registers, one store.

use std::marker::PhantomData;

use super::combine::Combine;
use super::format::Format;
use crate::sys::simd::{Baseline, Isa, Kernel, Level, dispatch, dispatch_at};

/// What is combined into what: `before`, then the destination's old content if `own`, then
/// `after`. There is at least one operand, and all have the length of `into`.
pub(super) struct Operands<'a> {
    pub(super) into: &'a mut [u8],
    pub(super) before: &'a [&'a [u8]],
    pub(super) own: bool,
    pub(super) after: &'a [&'a [u8]],
}

/// The operands with elements of `N` bytes. `W` elements at a time fill the registers, the rest
/// goes `V` elements at a time, which fill one small register, and then one by one.
struct Fold<'a, 'b, F, C, const N: usize, const W: usize, const V: usize> {
    operands: &'b mut Operands<'a>,
    format: F,
    combine: PhantomData<C>,
}

/// Up to this many bytes, finding the level costs more than it saves.
const SHORT: usize = 16;

/// Combines the operands at the best level of the CPU or the one given.
#[inline(always)]
pub(super) fn fold<F, C, const N: usize, const W: usize, const V: usize>(
    level: Option<Level>,
    operands: &mut Operands<'_>,
    format: F,
    combine: C,
) where
    F: Format<N>,
    C: Combine<F::Acc>,
{
    let is_short = operands.into.len() <= SHORT;
    match level {
        None if is_short => short(operands, format, combine),
        None => dispatch(Fold::<F, C, N, W, V> { operands, format, combine: PhantomData }),
        Some(level) => {
            dispatch_at(level, Fold::<F, C, N, W, V> { operands, format, combine: PhantomData });
        }
    }
}

/// A few elements, one by one. Not inlined, so that the function that finds the loop needs no
/// stack of its own.
#[inline(never)]
fn short<F, C, const N: usize>(operands: &mut Operands<'_>, format: F, _: C)
where
    F: Format<N>,
    C: Combine<F::Acc>,
{
    if let Operands { into, before: [left, right], own: false, after: [] } = operands {
        let (into, _) = into.as_chunks_mut::<N>();
        let (left, right) = (left.as_chunks::<N>().0, right.as_chunks::<N>().0);
        for ((into, left), right) in into.iter_mut().zip(left).zip(right) {
            *into = format.store(C::combine(format.load(*left), format.load(*right)));
        }
        return;
    }
    let mut fold = Fold::<F, C, N, 1, 1> { operands, format, combine: PhantomData };
    fold.pass::<Baseline, 1>(Baseline, 0);
}

impl<F, C, const N: usize, const W: usize, const V: usize> Kernel for Fold<'_, '_, F, C, N, W, V>
where
    F: Format<N>,
    C: Combine<F::Acc>,
{
    #[inline(always)]
    fn run<I: Isa>(mut self, isa: I) {
        let done = self.pass::<I, W>(isa, 0);
        let done = self.pass::<I, V>(isa, done);
        self.pass::<I, 1>(isa, done);
    }
}

impl<F, C, const N: usize, const W: usize, const V: usize> Fold<'_, '_, F, C, N, W, V>
where
    F: Format<N>,
    C: Combine<F::Acc>,
{
    /// All whole blocks of `L` elements from element `start` on. Returns where it stopped.
    #[inline(always)]
    fn pass<I: Isa, const L: usize>(&mut self, isa: I, start: usize) -> usize {
        let Operands { into, before, own, after } = &mut *self.operands;
        let format = self.format;
        let (into, _) = into.as_chunks_mut::<N>();
        let (blocks, _) = into[start..].as_chunks_mut::<L>();
        let mut at = start;
        for block in blocks {
            let mut acc = [F::FILL; L];
            match before.split_first() {
                Some((first, rest)) => {
                    format.load_all(isa, part(first, at), &mut acc);
                    for source in rest {
                        Self::accumulate(isa, format, &mut acc, part(source, at));
                    }
                    if *own {
                        Self::accumulate(isa, format, &mut acc, block);
                    }
                }
                None => format.load_all(isa, block, &mut acc),
            }
            for source in *after {
                Self::accumulate(isa, format, &mut acc, part(source, at));
            }
            format.store_all(isa, &acc, block);
            at += L;
        }
        at
    }

    #[inline(always)]
    fn accumulate<I: Isa, const L: usize>(
        isa: I,
        format: F,
        acc: &mut [F::Acc; L],
        raw: &[[u8; N]; L],
    ) {
        let mut values = [F::FILL; L];
        format.load_all(isa, raw, &mut values);
        C::combine_all(isa, acc, &values);
    }
}

/// `L` elements from element `at` on.
#[inline(always)]
fn part<const N: usize, const L: usize>(source: &[u8], at: usize) -> &[[u8; N]; L] {
    let (elements, _) = source.as_chunks::<N>();
    elements[at..].first_chunk().expect("all operands have the length of the destination")
}
