//! Who tells a fabric that something went wrong elsewhere.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bootstrap::control::Control;
use crate::bootstrap::failure::explained;
use crate::bootstrap::scope::Failures;
pub(crate) use crate::bootstrap::scope::{Announcement, Scope};
use crate::error::Cause;

/// The failures of a job as they become known, the same list of first causes on every rank.
pub(crate) trait Watch: Send + Sync {
    /// How many announcements there are. One atomic load: it stands in the hot path.
    fn announcements(&self) -> usize;

    /// The announcements from the `from`-th on.
    fn since(&self, from: usize) -> Vec<Announcement>;

    /// Tells everybody, waits a bounded time for the verdict on what came first in that scope, and
    /// returns it.
    fn report(&self, scope: Scope, cause: Cause) -> Arc<Cause>;

    /// Whether a rank of the job has said goodbye.
    fn departed(&self, rank: usize) -> bool;

    /// Whether nobody tells of deaths any more, so that each rank has to look for itself.
    fn is_alone(&self) -> bool;

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
    failures: Failures,
    departed: Vec<usize>,
    wakers: Vec<Arc<dyn Fn() + Send + Sync>>,
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
        self.state().failures.since(from)
    }

    fn report(&self, scope: Scope, cause: Cause) -> Arc<Cause> {
        let (verdict, wakers) = {
            let mut state = self.state();
            if let Some(known) = state.failures.verdict(scope) {
                return known;
            }
            // The link of a rank that has gone breaks as a consequence.
            let departed = |rank| state.departed.contains(&rank);
            let (scope, cause) = explained(scope, cause, departed, self.rank);
            state.failures.add(scope, Arc::new(cause));
            self.shared.count.store(state.failures.len(), Ordering::Release);
            let verdict = state.failures.verdict(scope);
            (verdict.expect("it has just been added"), state.wakers.clone())
        };
        for wake in &wakers {
            wake();
        }
        verdict
    }

    fn departed(&self, rank: usize) -> bool {
        self.state().departed.contains(&rank)
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn on_announcement(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let wake: Arc<dyn Fn() + Send + Sync> = wake.into();
        let late = {
            let mut state = self.state();
            state.wakers.push(Arc::clone(&wake));
            state.failures.len() > 0
        };
        if late {
            wake();
        }
    }

    fn close(&self) {
        let mut state = self.state();
        if !state.departed.contains(&self.rank) {
            state.departed.push(self.rank);
        }
    }
}

/// The watch of a rank that is a process.
impl Watch for Control {
    fn announcements(&self) -> usize {
        Control::announcements(self)
    }

    fn since(&self, from: usize) -> Vec<Announcement> {
        Control::since(self, from)
    }

    fn report(&self, scope: Scope, cause: Cause) -> Arc<Cause> {
        Control::report(self, scope, cause)
    }

    fn departed(&self, rank: usize) -> bool {
        Control::departed(self, rank)
    }

    fn is_alone(&self) -> bool {
        Control::is_alone(self)
    }

    fn on_announcement(&self, wake: Box<dyn Fn() + Send + Sync>) {
        Control::on_announcement(self, wake);
    }

    fn close(&self) {
        Control::close(self);
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
    fn every_announcement_wakes_and_one_group_s_failure_is_not_another_s() {
        let watches = LocalWatch::for_job(4);
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        watches[3].on_announcement(Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        }));
        let died = |rank| Cause::RankDied { rank, how: "test".to_owned() };
        watches[0].report(Scope::Group(7), died(1));
        watches[0].report(Scope::Group(7), died(2));
        watches[1].report(Scope::Group(8), died(2));
        assert_eq!(woken.load(Ordering::SeqCst), 2, "one for each that is new");
        let count = Arc::clone(&woken);
        watches[2].on_announcement(Box::new(move || {
            count.fetch_add(10, Ordering::SeqCst);
        }));
        assert_eq!(woken.load(Ordering::SeqCst), 12, "whoever comes late is woken at once");
        let scopes: Vec<_> = watches[3].since(0).into_iter().map(|one| one.scope).collect();
        assert_eq!(scopes, [Scope::Group(7), Scope::Group(8)]);
    }
}
