//! Messages between two ranks.

use std::ffi::c_void;

use lycaon::Group;

use crate::error::Outcome;
use crate::group::lycaon_group;
use crate::guard::{Place, guard, handle, rank};
use crate::prepare::{Elements, Pair, Prepared};
use crate::status::lycaon_status;
use crate::types::dtype_number;
use crate::work::lycaon_work;

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn send(
    group: &Group,
    data: *const c_void,
    count: usize,
    dtype: dtype_number,
    to: i32,
    tag: u32,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "data")?;
    let to = rank(to, group.size(), "destination")?;
    let pair = Pair::new(Some(elements.input(data.cast(), "data")?), None)?;
    Ok(Prepared::Message { dtype: elements.dtype, to: Some(to), from: None, tag, pair })
}

/// Sends `count` elements to rank `to`. It may return before they have arrived. Messages of one tag
/// between two ranks arrive in order.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_send(
    group: *const lycaon_group,
    data: *const c_void,
    count: usize,
    dtype: dtype_number,
    to: i32,
    tag: u32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        send(group, data, count, dtype, to, tag)?.run(group)
    })
}

/// Starts lycaon_send() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_send(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_send_async(
    group: *const lycaon_group,
    data: *const c_void,
    count: usize,
    dtype: dtype_number,
    to: i32,
    tag: u32,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = send(group, data, count, dtype, to, tag)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
#[inline(always)]
unsafe fn recv(
    group: &Group,
    data: *mut c_void,
    count: usize,
    dtype: dtype_number,
    from: i32,
    tag: u32,
) -> Outcome<Prepared> {
    let elements = Elements::new(count, dtype, "data")?;
    let from = rank(from, group.size(), "source")?;
    let pair = Pair::new(None, Some(elements.output(data.cast(), "data")?))?;
    Ok(Prepared::Message { dtype: elements.dtype, to: None, from: Some(from), tag, pair })
}

/// Receives `count` elements from rank `from`, which sends as many of the same type.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_recv(
    group: *const lycaon_group,
    data: *mut c_void,
    count: usize,
    dtype: dtype_number,
    from: i32,
    tag: u32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        recv(group, data, count, dtype, from, tag)?.run(group)
    })
}

/// Starts lycaon_recv() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_recv(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_recv_async(
    group: *const lycaon_group,
    data: *mut c_void,
    count: usize,
    dtype: dtype_number,
    from: i32,
    tag: u32,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = recv(group, data, count, dtype, from, tag)?.start(group)?;
        place.set(lycaon_work::new(started))
    })
}

/// # Safety
/// As for the exported functions.
// What a message both ways has to say.
#[allow(clippy::too_many_arguments)]
#[inline(always)]
unsafe fn send_recv(
    group: &Group,
    data: *const c_void,
    send_count: usize,
    to: i32,
    into: *mut c_void,
    recv_count: usize,
    from: i32,
    dtype: dtype_number,
    tag: u32,
) -> Outcome<Prepared> {
    let sent = Elements::new(send_count, dtype, "data")?;
    let received = Elements::of(recv_count, sent.dtype, "into")?;
    let to = rank(to, group.size(), "destination")?;
    let from = rank(from, group.size(), "source")?;
    let read = sent.input(data.cast(), "data")?;
    let written = received.output(into.cast(), "into")?;
    let pair = Pair::new(Some(read), Some(written))?;
    Ok(Prepared::Message { dtype: sent.dtype, to: Some(to), from: Some(from), tag, pair })
}

/// Sends `send_count` elements to rank `to` and receives `recv_count` from rank `from` at the same
/// time. The other sides may do the same, or send and receive.
///
/// # Safety
/// `group` is a group that has not been freed; the buffers are as long as said, valid during the
/// call, and what is written is touched by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_send_recv(
    group: *const lycaon_group,
    data: *const c_void,
    send_count: usize,
    to: i32,
    into: *mut c_void,
    recv_count: usize,
    from: i32,
    dtype: dtype_number,
    tag: u32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let group = &handle(group, "group")?.group;
        send_recv(group, data, send_count, to, into, recv_count, from, dtype, tag)?.run(group)
    })
}

/// Starts lycaon_send_recv() in the background. `work` gets a handle that must be freed.
///
/// # Safety
/// As for lycaon_send_recv(), but the buffers stay valid and untouched until the operation has ended;
/// lists of counts are copied. `work` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_send_recv_async(
    group: *const lycaon_group,
    data: *const c_void,
    send_count: usize,
    to: i32,
    into: *mut c_void,
    recv_count: usize,
    from: i32,
    dtype: dtype_number,
    tag: u32,
    work: *mut *mut lycaon_work,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let (group, place) = (&handle(group, "group")?.group, Place::new(work, "work")?);
        let started = send_recv(group, data, send_count, to, into, recv_count, from, dtype, tag)?
            .start(group)?;
        place.set(lycaon_work::new(started))
    })
}
