//! Who tells a fabric that something went wrong elsewhere.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bootstrap::control::Control;
use crate::error::Cause;

/// Which groups a failure concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every group that has this rank of the job.
    Rank(usize),
    /// Every group that has both of these ranks of the job.
    Pair(usize, usize),
    /// The group with this id.
    Group(u64),
    /// All groups.
    Job,
}

impl Scope {
    /// The scope that belongs to a cause that was found in `group`.
    pub(crate) fn of(cause: &Cause, group: u64) -> Scope {
        match cause {
            Cause::RankDied { rank, .. } | Cause::RankLeft { rank } => Scope::Rank(*rank),
            Cause::LinkLost { first, second, .. } => Scope::Pair(*first, *second),
            Cause::Protocol { rank, peer, .. } => Scope::Pair(*rank, *peer),
            Cause::Deadline { .. } | Cause::Mismatch { .. } | Cause::Interrupted { .. } => {
                Scope::Group(group)
            }
            Cause::Closed | Cause::Forked { .. } | Cause::Panicked { .. } => Scope::Job,
        }
    }

    /// Whether a group is concerned.
    pub(crate) fn concerns(&self, group: u64, members: &[usize]) -> bool {
        match self {
            Scope::Rank(rank) => members.contains(rank),
            Scope::Pair(first, second) => members.contains(first) && members.contains(second),
            Scope::Group(id) => *id == group,
            Scope::Job => true,
        }
    }
}

/// A failure with the groups it concerns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Announcement {
    pub(crate) scope: Scope,
    pub(crate) cause: Arc<Cause>,
}

/// The failures of a job as they become known, the same list of first causes on every rank.
pub(crate) trait Watch: Send + Sync {
    /// How many announcements there are. One atomic load: it stands in the hot path.
    fn announcements(&self) -> usize;

    /// The announcements from the `from`-th on.
    fn since(&self, from: usize) -> Vec<Announcement>;

    /// Tells everybody, waits a bounded time for the verdict on what came first, and returns it.
    fn report(&self, scope: Scope, cause: Cause) -> Arc<Cause>;

    /// Whether a rank of the job has said goodbye.
    fn departed(&self, rank: usize) -> bool;

    /// Calls `wake` whenever an announcement is added.
    fn on_announcement(&self, wake: Box<dyn Fn() + Send + Sync>);

    /// Says goodbye and stops watching. Bounded and idempotent.
    fn close(&self);
}

/// The watch of ranks that are threads of one process: a list they share.
pub(crate) struct LocalWatch {
    shared: Arc<LocalShared>,
    rank: usize,
}

#[derive(Default)]
struct LocalShared {
    count: AtomicUsize,
    state: Mutex<LocalState>,
}

#[derive(Default)]
struct LocalState {
    announcements: Vec<Announcement>,
    departed: Vec<usize>,
    wakers: Vec<Box<dyn Fn() + Send + Sync>>,
}

impl LocalWatch {
    /// Watches for all ranks of a job.
    pub(crate) fn for_job(size: usize) -> Vec<LocalWatch> {
        let shared = Arc::new(LocalShared::default());
        (0..size).map(|rank| LocalWatch { shared: Arc::clone(&shared), rank }).collect()
    }

    fn state(&self) -> MutexGuard<'_, LocalState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for LocalWatch {
    fn announcements(&self) -> usize {
        self.shared.count.load(Ordering::Acquire)
    }

    fn since(&self, from: usize) -> Vec<Announcement> {
        self.state().announcements.get(from..).unwrap_or_default().to_vec()
    }

    fn report(&self, scope: Scope, cause: Cause) -> Arc<Cause> {
        let mut state = self.state();
        // The link of a rank that has gone breaks as a consequence.
        let (scope, cause) = match scope {
            Scope::Pair(a, b) => match [a, b].into_iter().find(|r| state.departed.contains(r)) {
                Some(rank) => (Scope::Rank(rank), Cause::RankLeft { rank }),
                None => (scope, cause),
            },
            _ => (scope, cause),
        };
        if let Some(known) = state.announcements.iter().find(|known| known.scope == scope) {
            return Arc::clone(&known.cause);
        }
        let cause = Arc::new(cause);
        state.announcements.push(Announcement { scope, cause: Arc::clone(&cause) });
        self.shared.count.store(state.announcements.len(), Ordering::Release);
        for wake in &state.wakers {
            wake();
        }
        cause
    }

    fn departed(&self, rank: usize) -> bool {
        self.state().departed.contains(&rank)
    }

    fn on_announcement(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.state().wakers.push(wake);
    }

    fn close(&self) {
        let mut state = self.state();
        if !state.departed.contains(&self.rank) {
            state.departed.push(self.rank);
        }
    }
}

/// The watch of a rank that is a process: its control connection.
pub(crate) struct ControlWatch {
    control: Control,
}

impl ControlWatch {
    pub(crate) fn new(control: Control) -> Self {
        ControlWatch { control }
    }
}

impl Watch for ControlWatch {
    fn announcements(&self) -> usize {
        usize::from(self.control.failed())
    }

    fn since(&self, from: usize) -> Vec<Announcement> {
        let cause = self.control.failure();
        cause
            .map(|cause| Announcement { scope: Scope::Job, cause })
            .into_iter()
            .skip(from)
            .collect()
    }

    fn report(&self, _scope: Scope, cause: Cause) -> Arc<Cause> {
        self.control.report(cause)
    }

    fn departed(&self, rank: usize) -> bool {
        self.control.departed(rank)
    }

    fn on_announcement(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.control.on_failure(wake);
    }

    fn close(&self) {
        self.control.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LinkKind;

    #[test]
    fn the_first_cause_of_a_scope_wins_on_every_rank() {
        let watches = LocalWatch::for_job(3);
        let first = watches[1].report(
            Scope::Rank(2),
            Cause::RankDied { rank: 2, how: "connection reset".to_owned() },
        );
        let second =
            watches[0].report(Scope::Rank(2), Cause::RankDied { rank: 2, how: "other".to_owned() });
        assert_eq!(first, second);
        assert_eq!(watches[2].announcements(), 1);
        assert_eq!(watches[2].since(0)[0].cause, first);
        assert!(watches[2].since(1).is_empty());
        watches[0].close();
        let lost = Cause::LinkLost {
            first: 0,
            second: 1,
            link: LinkKind::Tcp,
            reason: "end of stream".to_owned(),
        };
        let verdict = watches[1].report(Scope::Pair(0, 1), lost);
        assert_eq!(*verdict, Cause::RankLeft { rank: 0 });
    }

    #[test]
    fn scopes_concern_the_groups_they_name() {
        assert!(Scope::Rank(3).concerns(9, &[1, 3]));
        assert!(!Scope::Rank(2).concerns(9, &[1, 3]));
        assert!(Scope::Pair(1, 3).concerns(9, &[1, 2, 3]));
        assert!(!Scope::Pair(1, 3).concerns(9, &[1, 2]));
        assert!(Scope::Group(9).concerns(9, &[0]));
        assert!(!Scope::Group(8).concerns(9, &[0]));
        assert!(Scope::Job.concerns(9, &[]));
    }
}
