//! What a failure is called, by whom and when.

use super::scope::Scope;
use super::wire::Failure;
use crate::error::{Cause, StartError};

/// What a failure is for a rank whose group has started. A start that failed anywhere leaves no
/// group to anybody.
pub(super) fn as_cause(failure: &Failure) -> (Scope, Cause) {
    match failure {
        Failure::Cause { scope, cause } => (*scope, cause.clone()),
        Failure::Start { rank, error } => {
            let how = format!("it failed while the group was forming: {error}");
            (Scope::Job, Cause::RankDied { rank: *rank, how })
        }
    }
}

/// A link lost to a rank that said goodbye is that rank's leaving. `me` has seen it.
pub(crate) fn explained(
    scope: Scope,
    cause: Cause,
    departed: impl Fn(usize) -> bool,
    me: usize,
) -> (Scope, Cause) {
    match &cause {
        Cause::LinkLost { .. } => {
            match scope.suspects().find(|rank| *rank != me && departed(*rank)) {
                Some(rank) => (Scope::Rank(rank), Cause::RankLeft { rank }),
                None => (scope, cause),
            }
        }
        _ => (scope, cause),
    }
}

/// What a failure is for rank `me`, whose group is still forming.
pub(super) fn as_start_error(failure: &Failure, me: usize) -> StartError {
    match failure {
        Failure::Start { rank, error } if *rank == me => error.clone(),
        Failure::Start { rank, error } => match error {
            // These name the ranks that they are about, and read the same everywhere.
            StartError::Deadline { .. }
            | StartError::Disagreement { .. }
            | StartError::DuplicateRank { .. }
            | StartError::NoLink { .. }
            | StartError::RankFailed { .. } => error.clone(),
            StartError::Unreachable { .. }
            | StartError::Authentication { .. }
            | StartError::System { .. }
            | StartError::SideChannel { .. }
            | StartError::Interrupted { .. } => {
                let text = error.to_string();
                let own = format!("rank {rank}: ");
                let reason = text.strip_prefix(&own).unwrap_or(&text).to_owned();
                StartError::RankFailed { rank: *rank, reason }
            }
        },
        Failure::Cause { cause: Cause::RankDied { rank, how }, .. } => {
            StartError::RankFailed { rank: *rank, reason: how.clone() }
        }
        Failure::Cause { cause, .. } => {
            let rank = match cause {
                Cause::RankLeft { rank }
                | Cause::Deadline { rank, .. }
                | Cause::Interrupted { rank, .. }
                | Cause::Protocol { rank, .. }
                | Cause::Panicked { rank, .. } => *rank,
                Cause::LinkLost { first, .. } | Cause::Mismatch { first, .. } => *first,
                Cause::Closed | Cause::Forked { .. } | Cause::RankDied { .. } => me,
            };
            StartError::RankFailed { rank, reason: cause.to_string() }
        }
    }
}

/// `rank 3`, `ranks 2, 3`, `ranks 1, 2, 3, 4 and 12 more`.
pub(super) fn ranks(of: impl Iterator<Item = usize>) -> String {
    let all: Vec<String> = of.map(|rank| rank.to_string()).collect();
    match all.len() {
        1 => format!("rank {}", all[0]),
        0..=8 => format!("ranks {}", all.join(", ")),
        count => format!("ranks {} and {} more", all[..8].join(", "), count - 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LinkKind;

    #[test]
    fn ranks_are_listed_but_not_without_end() {
        assert_eq!(ranks([3].into_iter()), "rank 3");
        assert_eq!(ranks([2, 3].into_iter()), "ranks 2, 3");
        assert_eq!(ranks(0..20), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more");
    }

    #[test]
    fn a_rank_s_own_trouble_is_quoted_elsewhere_and_kept_at_home() {
        let error = StartError::Interrupted { rank: 2 };
        let failure = Failure::Start { rank: 2, error: error.clone() };
        assert_eq!(as_start_error(&failure, 2), error);
        let text = as_start_error(&failure, 1).to_string();
        assert_eq!(
            text,
            "rank 2 failed while the group was forming: interrupted while the group was forming"
        );
        let (scope, cause) = as_cause(&failure);
        assert_eq!(scope, Scope::Job);
        let cause = cause.to_string();
        assert!(cause.starts_with("rank 2 died (it failed while the group was forming"), "{cause}");
        let left = Failure::Cause { scope: Scope::Rank(4), cause: Cause::RankLeft { rank: 4 } };
        assert!(as_start_error(&left, 1).to_string().starts_with("rank 4 failed"));
    }

    #[test]
    fn a_link_to_a_rank_that_left_is_explained() {
        let reason = "reset".to_owned();
        let lost = Cause::LinkLost { first: 1, second: 0, link: LinkKind::Tcp, reason };
        let pair = Scope::Pair(0, 1);
        let left = (Scope::Rank(0), Cause::RankLeft { rank: 0 });
        assert_eq!(explained(pair, lost.clone(), |rank| rank == 0, 1), left);
        assert_eq!(explained(pair, lost.clone(), |rank| rank == 2, 1), (pair, lost.clone()));
        assert_eq!(explained(pair, lost.clone(), |rank| rank == 1, 1), (pair, lost));
    }
}
