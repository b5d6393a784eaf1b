//! The groups that are open, so that they can be closed in order when the interpreter exits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use lycaon::Group;
use pyo3::prelude::*;

static OPEN: Mutex<BTreeMap<u64, Entry>> = Mutex::new(BTreeMap::new());

/// The number of the next group.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The process that used the registry first; 0 before that.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// How often, and at what distance, a forked child tries to lock.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

struct Entry {
    group: Group,
    /// The process that made it: a forked child has no business with its parent's groups.
    owner: u32,
}

/// `None` in a forked child if a thread of its parent held the lock at the fork. That thread is not
/// in the child, so the lock stays held there; in the child alone it is held for microseconds.
fn lock() -> Option<MutexGuard<'static, BTreeMap<u64, Entry>>> {
    let this = std::process::id();
    let first = match FIRST.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => this,
        Err(first) => first,
    };
    if first == this {
        return Some(OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    }
    for _ in 0..TRIES {
        match OPEN.try_lock() {
            Ok(open) => return Some(open),
            Err(TryLockError::Poisoned(open)) => return Some(open.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
    None
}

/// Notes a new group. Its number takes it out again. A child that cannot note it does without:
/// the group then closes when it is dropped, not at exit.
pub(crate) fn add(group: &Group) -> u64 {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    if let Some(mut open) = lock() {
        open.insert(number, Entry { group: group.clone(), owner: std::process::id() });
    }
    number
}

/// Forgets a group; the caller drops the handle without the GIL.
pub(crate) fn remove(number: u64) -> Option<Group> {
    lock()?.remove(&number).map(|entry| entry.group)
}

/// Closes all groups, the youngest first: sub-groups before what they are part of. The interpreter
/// calls it at exit; operations under way fail, and nothing waits for other ranks.
#[pyfunction]
#[pyo3(name = "_close_all")]
pub(crate) fn close_all(py: Python<'_>) {
    // Operations in the background give their buffers back with the GIL.
    py.detach(|| {
        while let Some((_, entry)) = { lock().and_then(|mut open| open.pop_last()) } {
            if entry.owner == std::process::id() {
                entry.group.close();
            } else {
                std::mem::forget(entry.group);
            }
        }
    });
}
