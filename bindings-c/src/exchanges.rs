//! Collectives that move data: each blocking, and as lycaon_work in the background.
//!
//! Counts are elements. Buffers need no alignment beyond that of their element type.

use std::ffi::c_void;

use lycaon::{Group, Operation, Request, RequestCounts};

use crate::error::Outcome;
use crate::group::lycaon_group;
use crate::guard::{Place, array, guard, handle, rank};
use crate::prepare::{Elements, Pair, Prepared};
use crate::shapes::{gathered, same_count, same_size, shares, spread};
use crate::status::lycaon_status;
use crate::types::{self, dtype_number};
use crate::work::lycaon_work;

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn all_gather(
    group: &Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "output")?;
    let whole = elements.times(group.size(), "output")?;
    let written = whole.output(output.cast(), "output")?;
    let place = group.rank() * elements.bytes();
    let in_place = input.is_null() || input.addr() == output.addr() + place;
    let read = if in_place { None } else { Some(elements.input(input.cast(), "input")?) };
    let request = Request::new(Operation::AllGather, elements.dtype);
    Ok(Prepared::Collective(request, Pair::new(read, Some(written))?))
}

/// Every rank gets the contributions of all ranks, in rank order. `input` holds `count` elements,
/// `output` `count` times the size of the group. In place, the contribution is already in its place
/// of `output`: `input` is that place, or NULL.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_all_gather(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        all_gather(group, input, output, count, dtype)?.run(group)
    })
}

/// Starts lycaon_all_gather() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_all_gather(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_all_gather_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = all_gather(group, input, output, count, dtype)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn all_gather_v(
    group: &Group,
    input: *const c_void,
    output: *mut c_void,
    counts: *const u64,
    dtype: dtype_number,
) -> Outcome<Prepared> {
    let dtype = types::dtype(dtype)?;
    // SAFETY: the caller's promise.
    let counts = unsafe { array(counts, group.size(), "counts") }?.to_vec();
    let (before, own, whole) = shares(group, &counts, dtype)?;
    let written = whole.output(output.cast(), "output")?;
    let in_place = input.is_null() || input.addr() == output.addr() + before;
    let read = if in_place { None } else { Some(own.input(input.cast(), "input")?) };
    let request = Request::new(Operation::AllGather, dtype).counts(RequestCounts::All(counts));
    Ok(Prepared::Collective(request, Pair::new(read, Some(written))?))
}

/// As lycaon_all_gather(), with counts that differ by rank: `counts` holds as many as the group has
/// ranks, the same on every rank. `input` holds `counts[rank]` elements, `output` the sum of all.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_all_gather_v(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    counts: *const u64,
    dtype: dtype_number,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        all_gather_v(group, input, output, counts, dtype)?.run(group)
    })
}

/// Starts lycaon_all_gather_v() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_all_gather_v(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_all_gather_v_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    counts: *const u64,
    dtype: dtype_number,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = all_gather_v(group, input, output, counts, dtype)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn broadcast(
    group: &Group,
    buffer: *mut c_void,
    count: usize,
    dtype: dtype_number,
    root: i32,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "buffer")?;
    let root = rank(root, group.size(), "root")?;
    let request = Request::new(Operation::Broadcast, elements.dtype).root(root);
    let written = elements.output(buffer.cast(), "buffer")?;
    Ok(Prepared::Collective(request, Pair::new(None, Some(written))?))
}

/// Every rank gets the root's `count` elements in `buffer`.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_broadcast(
    group: *const lycaon_group,
    buffer: *mut c_void,
    count: usize,
    dtype: dtype_number,
    root: i32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        broadcast(group, buffer, count, dtype, root)?.run(group)
    })
}

/// Starts lycaon_broadcast() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_broadcast(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_broadcast_async(
    group: *const lycaon_group,
    buffer: *mut c_void,
    count: usize,
    dtype: dtype_number,
    root: i32,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = broadcast(group, buffer, count, dtype, root)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn gather(
    group: &Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    root: i32,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "output")?;
    let root = rank(root, group.size(), "root")?;
    let request = Request::new(Operation::Gather, elements.dtype).root(root);
    let pair = if root == group.rank() {
        let whole = elements.times(group.size(), "output")?;
        gathered(root * elements.bytes(), elements, whole, input, output)?
    } else {
        Pair::new(Some(elements.input(input.cast(), "input")?), None)?
    };
    Ok(Prepared::Collective(request, pair))
}

/// The root gets the contributions of all ranks, in rank order. `input` holds `count` elements,
/// `output` at the root `count` times the size of the group; elsewhere it is not looked at. In place
/// at the root, its contribution is already in its place of `output`: `input` is that place, or NULL.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_gather(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    root: i32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        gather(group, input, output, count, dtype, root)?.run(group)
    })
}

/// Starts lycaon_gather() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_gather(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_gather_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    root: i32,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = gather(group, input, output, count, dtype, root)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn gather_v(
    group: &Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    counts: *const u64,
    dtype: dtype_number,
    root: i32,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "input")?;
    let root = rank(root, group.size(), "root")?;
    let mut request = Request::new(Operation::Gather, elements.dtype).root(root);
    let pair = if root == group.rank() {
        // SAFETY: the caller's promise.
        let counts = unsafe { array(counts, group.size(), "counts") }?.to_vec();
        let (before, own, whole) = shares(group, &counts, elements.dtype)?;
        same_count("input", own, elements)?;
        request = request.counts(RequestCounts::AtRoot(counts));
        gathered(before, own, whole, input, output)?
    } else {
        request = request.counts(RequestCounts::AtRoot(Vec::new()));
        Pair::new(Some(elements.input(input.cast(), "input")?), None)?
    };
    Ok(Prepared::Collective(request, pair))
}

/// As lycaon_gather(), with contributions that differ by rank: `count` elements are given here, and at
/// the root `counts` holds as many counts as the group has ranks; elsewhere it is not looked at.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_gather_v(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    counts: *const u64,
    dtype: dtype_number,
    root: i32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        gather_v(group, input, output, count, counts, dtype, root)?.run(group)
    })
}

/// Starts lycaon_gather_v() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_gather_v(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_gather_v_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    counts: *const u64,
    dtype: dtype_number,
    root: i32,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = gather_v(group, input, output, count, counts, dtype, root)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn scatter(
    group: &Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    root: i32,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "output")?;
    let root = rank(root, group.size(), "root")?;
    let request = Request::new(Operation::Scatter, elements.dtype).root(root);
    let pair = if root == group.rank() {
        let whole = elements.times(group.size(), "input")?;
        spread(root * elements.bytes(), elements, whole, input, output)?
    } else {
        Pair::new(None, Some(elements.output(output.cast(), "output")?))?
    };
    Ok(Prepared::Collective(request, pair))
}

/// Rank i gets block i of the root's `input`, which holds `count` elements for each rank and is not
/// looked at elsewhere. `output` holds `count` elements. At the root `output` NULL, or the root's own
/// block of `input`, leaves that block where it is.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_scatter(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    root: i32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        scatter(group, input, output, count, dtype, root)?.run(group)
    })
}

/// Starts lycaon_scatter() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_scatter(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_scatter_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    root: i32,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = scatter(group, input, output, count, dtype, root)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn scatter_v(
    group: &Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    counts: *const u64,
    dtype: dtype_number,
    root: i32,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "output")?;
    let root = rank(root, group.size(), "root")?;
    let mut request = Request::new(Operation::Scatter, elements.dtype).root(root);
    let pair = if root == group.rank() {
        // SAFETY: the caller's promise.
        let counts = unsafe { array(counts, group.size(), "counts") }?.to_vec();
        let (before, own, whole) = shares(group, &counts, elements.dtype)?;
        same_count("output", own, elements)?;
        request = request.counts(RequestCounts::AtRoot(counts));
        spread(before, own, whole, input, output)?
    } else {
        request = request.counts(RequestCounts::AtRoot(Vec::new()));
        Pair::new(None, Some(elements.output(output.cast(), "output")?))?
    };
    Ok(Prepared::Collective(request, pair))
}

/// As lycaon_scatter(), with blocks that differ by rank: `count` elements are received here, and at the
/// root `counts` holds as many counts as the group has ranks; elsewhere it is not looked at.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_scatter_v(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    counts: *const u64,
    dtype: dtype_number,
    root: i32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        scatter_v(group, input, output, count, counts, dtype, root)?.run(group)
    })
}

/// Starts lycaon_scatter_v() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_scatter_v(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_scatter_v_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    counts: *const u64,
    dtype: dtype_number,
    root: i32,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = scatter_v(group, input, output, count, counts, dtype, root)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn all_to_all(
    group: &Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "output")?;
    let whole = elements.times(group.size(), "output")?;
    let request = Request::new(Operation::AllToAll, elements.dtype);
    Ok(Prepared::Collective(request, same_size(whole, input, output)?))
}

/// Rank i gets block i of every rank's `input`, in rank order. Both buffers hold `count` elements for
/// each rank; `input` NULL or the same as `output` is in place (through a copy).
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_all_to_all(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        all_to_all(group, input, output, count, dtype)?.run(group)
    })
}

/// Starts lycaon_all_to_all() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_all_to_all(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_all_to_all_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = all_to_all(group, input, output, count, dtype)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn all_to_all_v(
    group: &Group,
    input: *const c_void,
    send_counts: *const u64,
    output: *mut c_void,
    recv_counts: *const u64,
    dtype: dtype_number,
) -> Outcome<Prepared> {
    let dtype = types::dtype(dtype)?;
    // SAFETY: the caller's promise.
    let send = unsafe { array(send_counts, group.size(), "send_counts") }?.to_vec();
    // SAFETY: the caller's promise.
    let recv = unsafe { array(recv_counts, group.size(), "recv_counts") }?.to_vec();
    let (_, _, sent) = shares(group, &send, dtype)?;
    let (_, _, received) = shares(group, &recv, dtype)?;
    let read = sent.input(input.cast(), "input")?;
    let written = received.output(output.cast(), "output")?;
    let request =
        Request::new(Operation::AllToAll, dtype).counts(RequestCounts::Exchange { send, recv });
    Ok(Prepared::Collective(request, Pair::new(Some(read), Some(written))?))
}

/// As lycaon_all_to_all(), with counts of its own for each pair: `send_counts` and `recv_counts` hold as
/// many as the group has ranks, and the blocks stand in `input` and `output` without gaps.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_all_to_all_v(
    group: *const lycaon_group,
    input: *const c_void,
    send_counts: *const u64,
    output: *mut c_void,
    recv_counts: *const u64,
    dtype: dtype_number,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        all_to_all_v(group, input, send_counts, output, recv_counts, dtype)?.run(group)
    })
}

/// Starts lycaon_all_to_all_v() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_all_to_all_v(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_all_to_all_v_async(
    group: *const lycaon_group,
    input: *const c_void,
    send_counts: *const u64,
    output: *mut c_void,
    recv_counts: *const u64,
    dtype: dtype_number,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started =
            all_to_all_v(group, input, send_counts, output, recv_counts, dtype)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}
