//! Reductions and the barrier: each blocking, and as lycaon_work in the background.
//!
//! Counts are elements. Buffers need no alignment beyond that of their element type.

use std::ffi::c_void;

use lycaon::{Group, Operation, Request, RequestCounts};

use crate::error::Outcome;
use crate::group::lycaon_group;
use crate::guard::{Place, array, guard, handle, rank};
use crate::prepare::{Elements, Pair, Prepared};
use crate::shapes::{same_size, scattered, shares};
use crate::status::lycaon_status;
use crate::types::{self, dtype_number, op_number};
use crate::work::lycaon_work;

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn all_reduce(
    _: &Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "output")?;
    let request = Request::new(Operation::AllReduce, elements.dtype).op(types::op(op)?);
    Ok(Prepared::Collective(request, same_size(elements, input, output)?))
}

/// Every rank gets the reduction of the contributions of all ranks. `input` and `output` hold `count`
/// elements; `input` NULL or the same as `output` is in place.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_all_reduce(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        all_reduce(group, input, output, count, dtype, op)?.run(group)
    })
}

/// Starts lycaon_all_reduce() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_all_reduce(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_all_reduce_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = all_reduce(group, input, output, count, dtype, op)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn reduce_scatter(
    group: &Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "output")?;
    let whole = elements.times(group.size(), "input")?;
    let request = Request::new(Operation::ReduceScatter, elements.dtype).op(types::op(op)?);
    let place = group.rank() * elements.bytes();
    let pair = scattered(place, elements, whole, input, output)?;
    Ok(Prepared::Collective(request, pair))
}

/// Rank i gets block i of the reduction of all contributions. `output` holds `count` elements,
/// `input` `count` times the size of the group. In place, `output` is the block of this rank in
/// `input`, whose other blocks are left undefined.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_reduce_scatter(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        reduce_scatter(group, input, output, count, dtype, op)?.run(group)
    })
}

/// Starts lycaon_reduce_scatter() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_reduce_scatter(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_reduce_scatter_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = reduce_scatter(group, input, output, count, dtype, op)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn reduce_scatter_v(
    group: &Group,
    input: *const c_void,
    output: *mut c_void,
    counts: *const u64,
    dtype: dtype_number,
    op: op_number,
) -> Outcome<Prepared> {
    let dtype = types::dtype(dtype)?;
    // SAFETY: the caller's promise.
    let counts = unsafe { array(counts, group.size(), "counts") }?.to_vec();
    let (before, own, whole) = shares(group, &counts, dtype)?;
    let request = Request::new(Operation::ReduceScatter, dtype)
        .op(types::op(op)?)
        .counts(RequestCounts::All(counts));
    Ok(Prepared::Collective(request, scattered(before, own, whole, input, output)?))
}

/// As lycaon_reduce_scatter(), with blocks that differ by rank: `counts` holds as many as the group
/// has ranks, the same on every rank. `output` holds `counts[rank]` elements, `input` the sum of all.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_reduce_scatter_v(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    counts: *const u64,
    dtype: dtype_number,
    op: op_number,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        reduce_scatter_v(group, input, output, counts, dtype, op)?.run(group)
    })
}

/// Starts lycaon_reduce_scatter_v() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_reduce_scatter_v(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_reduce_scatter_v_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    counts: *const u64,
    dtype: dtype_number,
    op: op_number,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = reduce_scatter_v(group, input, output, counts, dtype, op)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn reduce(
    group: &Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
    root: i32,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "input")?;
    let root = rank(root, group.size(), "root")?;
    let request = Request::new(Operation::Reduce, elements.dtype).op(types::op(op)?).root(root);
    let pair = if root == group.rank() {
        same_size(elements, input, output)?
    } else {
        Pair::new(Some(elements.input(input.cast(), "input")?), None)?
    };
    Ok(Prepared::Collective(request, pair))
}

/// The root gets the reduction of all contributions of `count` elements. At the root `input` NULL or
/// the same as `output` is in place; elsewhere `output` is not looked at.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_reduce(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
    root: i32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        reduce(group, input, output, count, dtype, op, root)?.run(group)
    })
}

/// Starts lycaon_reduce() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_reduce(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_reduce_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
    root: i32,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = reduce(group, input, output, count, dtype, op, root)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn scan(
    _: &Group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "output")?;
    let request = Request::new(Operation::Scan, elements.dtype).op(types::op(op)?);
    Ok(Prepared::Collective(request, same_size(elements, input, output)?))
}

/// Rank i gets the reduction of the contributions of ranks 0 to i. `input` and `output` hold `count`
/// elements; `input` NULL or the same as `output` is in place.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_scan(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        scan(group, input, output, count, dtype, op)?.run(group)
    })
}

/// Starts lycaon_scan() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_scan(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_scan_async(
    group: *const lycaon_group,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: dtype_number,
    op: op_number,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = scan(group, input, output, count, dtype, op)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn barrier(_: &Group) -> Outcome<Prepared> {
    let request = Request::new(Operation::Barrier, lycaon::DType::U8);
    Ok(Prepared::Collective(request, Pair::default()))
}

/// Nobody returns before everybody has called.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_barrier(group: *const lycaon_group) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        barrier(group)?.run(group)
    })
}

/// Starts lycaon_barrier() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_barrier(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_barrier_async(
    group: *const lycaon_group,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = barrier(group)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}
