//! The limit on open files.

use rustix::process::{Resource, Rlimit};

use super::start::LaunchError;

/// The limit on open files, raised while a job of many ranks runs.
pub(super) struct Descriptors {
    before: Rlimit,
    needed: u64,
}

impl Descriptors {
    pub(super) fn allow(ranks: usize) -> Result<Self, LaunchError> {
        let before = rustix::process::getrlimit(Resource::Nofile);
        let needed = 3 * ranks as u64 + 64;
        match before.maximum {
            Some(allowed) if allowed < needed => {
                Err(LaunchError::Descriptors { ranks, needed, allowed })
            }
            _ => Ok(Self { before, needed }),
        }
    }

    /// why: after the guardian has started, so that the ranks have the limit they would have had.
    pub(super) fn apply(&self) {
        if self.before.current.is_some_and(|current| current < self.needed) {
            let raised = Rlimit { current: Some(self.needed), maximum: self.before.maximum };
            // why: if it is refused, the missing descriptor is reported when it is missed.
            let _ = rustix::process::setrlimit(Resource::Nofile, raised);
        }
    }
}
