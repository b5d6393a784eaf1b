//! Whether a group can still be used, and if not, why.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Cause;
use crate::fabric::Watch;
use crate::sys::owner;

/// The error state of one group: the first cause, if there is one.
pub(crate) struct Health {
    group: u64,
    members: Arc<[usize]>,
    watch: Option<Arc<dyn Watch>>,
    /// Announcements that have been looked at.
    seen: AtomicUsize,
    poisoned: AtomicBool,
    cause: Mutex<Option<Arc<Cause>>>,
    owner: owner::Owner,
}

impl Health {
    pub(crate) fn new(group: u64, members: Arc<[usize]>, watch: Option<Arc<dyn Watch>>) -> Self {
        Health {
            group,
            members,
            watch,
            seen: AtomicUsize::new(0),
            poisoned: AtomicBool::new(false),
            cause: Mutex::new(None),
            owner: owner::Owner::this(),
        }
    }

    /// Ranks of the job by rank of the group.
    pub(crate) fn members(&self) -> &[usize] {
        &self.members
    }

    /// Whether this process is a forked child of the one that has the group. Nothing of the group
    /// may be touched then: its locks may be held by threads that exist in the parent only.
    pub(crate) fn is_forked(&self) -> bool {
        self.owner.if_not_us().is_some()
    }

    /// The first cause, if the group has failed. Two loads when it has not.
    pub(crate) fn failure(&self) -> Option<Arc<Cause>> {
        if let Some(owner) = self.owner.if_not_us() {
            return Some(Arc::new(Cause::Forked { owner }));
        }
        if !self.poisoned.load(Ordering::Acquire) {
            let watch = self.watch.as_ref()?;
            let known = watch.announcements();
            let seen = self.seen.load(Ordering::Acquire);
            if known == seen {
                return None;
            }
            let concerning = watch
                .since(seen)
                .into_iter()
                .find(|announced| announced.scope.concerns(self.group, &self.members));
            match concerning {
                Some(announced) => {
                    self.poison(announced.cause);
                }
                None => {
                    self.seen.store(known, Ordering::Release);
                    return None;
                }
            }
        }
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Marks the group as failed. Returns the first cause, which may be an earlier one.
    pub(crate) fn poison(&self, cause: Arc<Cause>) -> Arc<Cause> {
        let mut first = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = Arc::clone(first.get_or_insert(cause));
        self.poisoned.store(true, Ordering::Release);
        cause
    }
}
