//! Which groups a failure concerns, and the list of failures of a job.
//!
//! A group is a number here, and the ranks it is made of.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Cause;

/// Which groups a failure concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Scope {
    /// Every group that has this rank of the job.
    Rank(usize),
    /// Every group that has both of these ranks of the job; the order means nothing.
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
            // After a panic the state of all that its process does is in doubt.
            Cause::RankDied { rank, .. }
            | Cause::RankLeft { rank }
            | Cause::Panicked { rank, .. } => Scope::Rank(*rank),
            Cause::LinkLost { first, second, .. } => Scope::Pair(*first, *second),
            Cause::Protocol { rank, peer, .. } => Scope::Pair(*rank, *peer),
            Cause::Deadline { .. }
            | Cause::Mismatch { .. }
            | Cause::Interrupted { .. }
            | Cause::Closed
            | Cause::Forked { .. } => Scope::Group(group),
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

    /// Ranks whose end would explain a failure of this scope.
    pub(crate) fn suspects(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, second) = match *self {
            Scope::Rank(rank) => (Some(rank), None),
            Scope::Pair(first, second) => (Some(first), Some(second)),
            Scope::Group(_) | Scope::Job => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The same scope always in the same form.
    fn ordered(self) -> Scope {
        match self {
            Scope::Pair(first, second) => Scope::Pair(first.min(second), first.max(second)),
            other => other,
        }
    }
}

/// A failure with the groups it concerns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Announcement {
    pub(crate) scope: Scope,
    pub(crate) cause: Arc<Cause>,
}

/// The failures of a job in the order in which they became known. Nothing is ever taken out, and
/// the first cause of a scope stays.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    list: Vec<Announcement>,
}

impl Failures {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Those from the `from`-th on.
    pub(crate) fn since(&self, from: usize) -> Vec<Announcement> {
        self.list.get(from..).unwrap_or_default().to_vec()
    }

    /// What is known already that explains a failure of this scope: the end of a rank explains
    /// that of its links, and what concerns all groups explains everything.
    pub(crate) fn verdict(&self, scope: Scope) -> Option<Arc<Cause>> {
        let scope = scope.ordered();
        let explains = |known: &Scope| {
            *known == scope
                || *known == Scope::Job
                || matches!(known, Scope::Rank(rank) if scope.suspects().any(|one| one == *rank))
        };
        self.list.iter().find(|known| explains(&known.scope)).map(|known| Arc::clone(&known.cause))
    }

    /// Adds one, unless it is explained already. Returns whether it is new.
    pub(crate) fn add(&mut self, scope: Scope, cause: Arc<Cause>) -> bool {
        let new = self.verdict(scope).is_none();
        if new {
            self.list.push(Announcement { scope: scope.ordered(), cause });
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LinkKind;

    fn died(rank: usize) -> Arc<Cause> {
        Arc::new(Cause::RankDied { rank, how: format!("test {rank}") })
    }

    fn lost(first: usize, second: usize) -> Arc<Cause> {
        let reason = "reset".to_owned();
        Arc::new(Cause::LinkLost { first, second, link: LinkKind::Tcp, reason })
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

    #[test]
    fn the_first_cause_of_a_scope_stays() {
        let mut failures = Failures::default();
        assert!(failures.add(Scope::Pair(2, 1), lost(1, 2)));
        assert!(!failures.add(Scope::Pair(1, 2), lost(2, 1)), "the same pair");
        assert!(failures.add(Scope::Pair(1, 3), lost(1, 3)), "another pair");
        assert_eq!(failures.verdict(Scope::Pair(1, 2)), Some(lost(1, 2)));
        assert!(failures.add(Scope::Rank(2), died(2)), "a death after its link");
        assert!(!failures.add(Scope::Pair(2, 4), lost(2, 4)), "a death explains its links");
        assert_eq!(failures.verdict(Scope::Pair(4, 2)), Some(died(2)));
        assert!(failures.verdict(Scope::Rank(1)).is_none());
        assert!(failures.add(Scope::Group(7), lost(0, 1)));
        assert!(failures.verdict(Scope::Group(8)).is_none());
        assert!(failures.add(Scope::Job, died(0)));
        assert!(!failures.add(Scope::Group(8), died(5)), "nothing is left to fail");
        assert_eq!(failures.len(), 5);
        let scopes = failures.since(3).into_iter().map(|one| one.scope).collect::<Vec<_>>();
        assert_eq!(scopes, [Scope::Group(7), Scope::Job]);
        assert!(failures.since(5).is_empty() && failures.since(99).is_empty());
    }
}
