//! The groups that are open, so that they can be closed in order when the interpreter exits.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lycaon::Group;
use pyo3::prelude::*;

static OPEN: Mutex<Registry> = Mutex::new(Registry { next: 0, groups: BTreeMap::new() });

struct Registry {
    next: u64,
    groups: BTreeMap<u64, Entry>,
}

struct Entry {
    group: Group,
    /// The process that made it: a forked child has no business with its parent's groups.
    owner: u32,
}

fn lock() -> MutexGuard<'static, Registry> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a new group. Its number takes it out again.
pub(crate) fn add(group: &Group) -> u64 {
    let mut open = lock();
    let number = open.next;
    open.next += 1;
    let entry = Entry { group: group.clone(), owner: std::process::id() };
    open.groups.insert(number, entry);
    number
}

/// Forgets a group; the caller drops the handle without the GIL.
pub(crate) fn remove(number: u64) -> Option<Group> {
    lock().groups.remove(&number).map(|entry| entry.group)
}

/// Closes all groups, the youngest first: sub-groups before what they are part of. The interpreter
/// calls it at exit; operations under way fail, and nothing waits for other ranks.
#[pyfunction]
#[pyo3(name = "_close_all")]
pub(crate) fn close_all(py: Python<'_>) {
    // Operations in the background give their buffers back with the GIL.
    py.detach(|| {
        while let Some((_, entry)) = { lock().groups.pop_last() } {
            if entry.owner == std::process::id() {
                entry.group.close();
            } else {
                std::mem::forget(entry.group);
            }
        }
    });
}
