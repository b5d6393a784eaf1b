//! How the buffers of collectives lie to one another, and which calls are in place.

use std::ffi::c_void;

use lycaon::error::ArgumentError;
use lycaon::{DType, Group};

use crate::error::Outcome;
use crate::prepare::{Elements, Pair};

/// Input and output of the same length; in place if there is one buffer.
#[inline]
pub(crate) fn same_size(
    elements: Elements,
    input: *const c_void,
    output: *mut c_void,
) -> Outcome<Pair> {
    let written = elements.output(output.cast(), "output")?;
    let in_place = input.is_null() || input == output.cast_const();
    let read = if in_place { None } else { Some(elements.input(input.cast(), "input")?) };
    Pair::new(read, Some(written))
}

/// What lies before this rank's share, its share, and all of it, for counts by rank.
pub(crate) fn shares(
    group: &Group,
    counts: &[u64],
    dtype: DType,
) -> Outcome<(usize, Elements, Elements)> {
    const WHAT: &str = "sum of counts";
    let too_large = || ArgumentError::TooLarge { what: WHAT };
    let sum = |counts: &[u64]| -> Outcome<Elements> {
        let sum = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
        let sum = sum.and_then(|sum| usize::try_from(sum).ok()).ok_or_else(too_large)?;
        Elements::of(sum, dtype, WHAT)
    };
    let rank = group.rank();
    Ok((sum(&counts[..rank])?.bytes(), sum(&counts[rank..=rank])?, sum(counts)?))
}

/// The count given for this rank is the one in the list.
pub(crate) fn same_count(what: &'static str, listed: Elements, given: Elements) -> Outcome<()> {
    if listed.bytes() == given.bytes() {
        return Ok(());
    }
    let size = given.dtype.size() as u64;
    Err(ArgumentError::Length {
        what,
        expected: listed.bytes() as u64 / size,
        actual: given.bytes() as u64 / size,
    }
    .into())
}

/// At the root of a gather: in place if the contribution is already where it belongs, or not given.
#[inline]
pub(crate) fn gathered(
    before: usize,
    own: Elements,
    whole: Elements,
    input: *const c_void,
    output: *mut c_void,
) -> Outcome<Pair> {
    let written = whole.output(output.cast(), "output")?;
    let in_place = input.is_null() || input.addr() == output.addr() + before;
    let read = if in_place { None } else { Some(own.input(input.cast(), "input")?) };
    Pair::new(read, Some(written))
}

/// At the root of a scatter: its own block stays where it is if the output is NULL or that block.
#[inline]
pub(crate) fn spread(
    before: usize,
    own: Elements,
    whole: Elements,
    input: *const c_void,
    output: *mut c_void,
) -> Outcome<Pair> {
    let read = whole.input(input.cast(), "input")?;
    let in_place = output.is_null() || output.addr() == input.addr() + before;
    let written = if in_place { None } else { Some(own.output(output.cast(), "output")?) };
    Pair::new(Some(read), written)
}

/// A reduce-scatter: in place if the output is this rank's block of the input, which is then
/// written, too.
#[inline]
pub(crate) fn scattered(
    before: usize,
    own: Elements,
    whole: Elements,
    input: *const c_void,
    output: *mut c_void,
) -> Outcome<Pair> {
    if !input.is_null() && output.addr() == input.addr() + before {
        // The pointer to the whole has the right to write if that to its part has: it is made from
        // the caller's output.
        let first = output.cast::<u8>().wrapping_sub(before);
        return Pair::new(None, Some(whole.output(first, "input")?));
    }
    let read = whole.input(input.cast(), "input")?;
    let written = own.output(output.cast(), "output")?;
    Pair::new(Some(read), Some(written))
}
