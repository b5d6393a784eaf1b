//! What has happened: counters, links and the flight recorder.

use std::ffi::{CString, c_char};
use std::ptr;

use lycaon::trace::Outcome as Ending;

use crate::error::text;
use crate::group::lycaon_group;
use crate::guard::{Place, guard, handle};
use crate::status::lycaon_status;
use crate::types::{lycaon_algorithm, lycaon_dtype, lycaon_link_kind, lycaon_op, lycaon_operation};

/// How far a group has come.
#[repr(C)]
pub struct lycaon_progress {
    /// Operations that this rank has begun.
    pub started: u64,
    /// Operations that have completed.
    pub completed: u64,
    /// Operations that have failed.
    pub failed: u64,
    /// Payload bytes that this process has sent over its links, for all groups.
    pub bytes_sent: u64,
    /// Payload bytes that this process has received over its links, for all groups.
    pub bytes_received: u64,
}

/// Reads the counters of a group. Never waits; any thread at any time.
///
/// # Safety
/// `group` is a group that has not been freed; `progress` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_progress(
    group: *const lycaon_group,
    progress: *mut lycaon_progress,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (group, place) =
            unsafe { (handle(group, "group")?, Place::new(progress, "progress")?) };
        let now = group.group.progress();
        place.set(lycaon_progress {
            started: now.started,
            completed: now.completed,
            failed: now.failed,
            bytes_sent: now.bytes_sent,
            bytes_received: now.bytes_received,
        })
    })
}

/// The link between this rank and another one of its group.
#[repr(C)]
pub struct lycaon_link {
    /// The other rank, in this group.
    pub peer: i32,
    /// What joins the two.
    pub kind: lycaon_link_kind,
    /// Where it leads, for example the two addresses of a TCP link. Never NULL.
    pub detail: *const c_char,
    /// Payload bytes sent over it.
    pub bytes_sent: u64,
    /// Payload bytes received over it.
    pub bytes_received: u64,
    /// Messages sent over it.
    pub messages_sent: u64,
    /// Messages received over it.
    pub messages_received: u64,
}

/// A copy of the links of a group, in rank order. It does not change and may be read by any number
/// of threads.
pub struct lycaon_links {
    links: Vec<lycaon_link>,
    _texts: Vec<CString>,
}

fn narrow(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// The links of a group to its other ranks, with their counters. The result must be freed.
///
/// # Safety
/// As for lycaon_group_progress(); `links` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_links(
    group: *const lycaon_group,
    links: *mut *mut lycaon_links,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (group, place) = unsafe { (handle(group, "group")?, Place::new(links, "links")?) };
        let known = group.group.links();
        let texts: Vec<CString> = known.iter().map(|link| text(&link.detail)).collect();
        let links = known
            .iter()
            .zip(&texts)
            .map(|(link, detail)| lycaon_link {
                peer: narrow(link.peer),
                kind: link.kind.into(),
                detail: detail.as_ptr(),
                bytes_sent: link.bytes_sent,
                bytes_received: link.bytes_received,
                messages_sent: link.messages_sent,
                messages_received: link.messages_received,
            })
            .collect();
        place.set(Box::into_raw(Box::new(lycaon_links { links, _texts: texts })))
    })
}

/// How many links these are.
///
/// # Safety
/// `links` comes from lycaon_group_links() and has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_links_count(links: *const lycaon_links) -> usize {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { handle(links, "links") }?.links.len()))
}

/// One of them, valid as long as `links`; NULL if there are not so many.
///
/// # Safety
/// As for lycaon_links_count().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_links_at(
    links: *const lycaon_links,
    index: usize,
) -> *const lycaon_link {
    guard(|| {
        // SAFETY: the caller's promise.
        let links = unsafe { handle(links, "links") }?;
        Ok(links.links.get(index).map_or(ptr::null(), ptr::from_ref))
    })
}

/// Frees what lycaon_group_links() returned; NULL is allowed.
///
/// # Safety
/// As for lycaon_links_count(), and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_links_free(links: *mut lycaon_links) {
    guard(|| {
        if !links.is_null() {
            // SAFETY: the pointer came from a box, and nobody else has it any more.
            drop(unsafe { Box::from_raw(links) });
        }
        Ok(())
    });
}

/// How far an operation in the flight recorder has come.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lycaon_state {
    /// It has not ended.
    Running = 0,
    /// It has completed.
    Completed = 1,
    /// It has failed.
    Failed = 2,
}

/// One operation in the flight recorder.
#[repr(C)]
pub struct lycaon_record {
    /// Its number in the group; of a message, its number on its tag between the two ranks.
    pub sequence: u64,
    /// What was called.
    pub operation: lycaon_operation,
    /// The element type.
    pub dtype: lycaon_dtype,
    /// The operator of a reduction, else LYCAON_OP_NONE.
    pub op: lycaon_op,
    /// The root of a rooted operation, else -1.
    pub root: i32,
    /// Elements of one rank's contribution, or of one block.
    pub count: u64,
    /// The other rank of a message, else -1.
    pub peer: i32,
    /// The tag of a message, else -1.
    pub tag: i64,
    /// How it was carried out.
    pub algorithm: lycaon_algorithm,
    /// How far it has come.
    pub state: lycaon_state,
    /// When it began, in nanoseconds since the group was formed.
    pub began_ns: u64,
    /// How long it took, or has taken so far, in nanoseconds.
    pub took_ns: u64,
    /// Why it failed; NULL unless it has.
    pub error: *const c_char,
    /// All of it in one line. Never NULL.
    pub text: *const c_char,
}

/// A copy of the flight recorder of a group. It does not change and may be read by any number of
/// threads.
pub struct lycaon_records {
    records: Vec<lycaon_record>,
    _texts: Vec<CString>,
}

/// The last operations of a group, oldest first. Never waits; any thread at any time, also after the
/// group has failed. The result must be freed.
///
/// # Safety
/// As for lycaon_group_progress(); `records` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_flight_recorder(
    group: *const lycaon_group,
    records: *mut *mut lycaon_records,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (group, place) = unsafe { (handle(group, "group")?, Place::new(records, "records")?) };
        let mut texts = Vec::new();
        let mut keep = |line: &str| {
            let line = text(line);
            let first = line.as_ptr();
            texts.push(line);
            first
        };
        let nanoseconds =
            |duration: std::time::Duration| duration.as_nanos().try_into().unwrap_or(u64::MAX);
        let mut records = Vec::new();
        for record in group.group.flight_recorder() {
            let call = record.signature.call;
            let (state, error) = match &record.outcome {
                Ending::Completed => (lycaon_state::Completed, ptr::null()),
                Ending::Failed(error) => (lycaon_state::Failed, keep(error)),
                _ => (lycaon_state::Running, ptr::null()),
            };
            records.push(lycaon_record {
                sequence: record.signature.sequence,
                operation: call.operation.into(),
                dtype: call.dtype.into(),
                op: call.op.map_or(lycaon_op::None, Into::into),
                root: call.root.map_or(-1, |root| i32::try_from(root).unwrap_or(i32::MAX)),
                count: call.count,
                peer: record.peer.map_or(-1, narrow),
                tag: record.tag.map_or(-1, i64::from),
                algorithm: record.algorithm.map_or(lycaon_algorithm::None, Into::into),
                state,
                began_ns: nanoseconds(record.began),
                took_ns: nanoseconds(record.took),
                error,
                text: keep(&record.to_string()),
            });
        }
        place.set(Box::into_raw(Box::new(lycaon_records { records, _texts: texts })))
    })
}

/// How many operations these are.
///
/// # Safety
/// `records` comes from lycaon_group_flight_recorder() and has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_records_count(records: *const lycaon_records) -> usize {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { handle(records, "records") }?.records.len()))
}

/// One of them, valid as long as `records`; NULL if there are not so many.
///
/// # Safety
/// As for lycaon_records_count().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_records_at(
    records: *const lycaon_records,
    index: usize,
) -> *const lycaon_record {
    guard(|| {
        // SAFETY: the caller's promise.
        let records = unsafe { handle(records, "records") }?;
        Ok(records.records.get(index).map_or(ptr::null(), ptr::from_ref))
    })
}

/// Frees what lycaon_group_flight_recorder() returned; NULL is allowed.
///
/// # Safety
/// As for lycaon_records_count(), and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_records_free(records: *mut lycaon_records) {
    guard(|| {
        if !records.is_null() {
            // SAFETY: the pointer came from a box, and nobody else has it any more.
            drop(unsafe { Box::from_raw(records) });
        }
        Ok(())
    });
}
