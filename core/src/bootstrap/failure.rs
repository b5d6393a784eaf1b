//! What a failure is called, by whom and when.

use super::wire::Failure;
use crate::error::{Cause, StartError};

/// What a failure is for a rank whose group has started.
pub(super) fn as_cause(failure: &Failure) -> Cause {
    match failure {
        Failure::Cause(cause) => cause.clone(),
        Failure::Start { rank, error } => Cause::RankDied {
            rank: *rank,
            how: format!("it failed while the group was forming: {error}"),
        },
    }
}

/// Without rank 0's verdict: a link lost to a rank that said goodbye is that rank's leaving.
pub(super) fn explained(cause: Cause, departed: impl Fn(usize) -> bool, me: usize) -> Cause {
    match cause {
        Cause::LinkLost { first, second, .. } if first == me && departed(second) => {
            Cause::RankLeft { rank: second }
        }
        Cause::LinkLost { first, second, .. } if second == me && departed(first) => {
            Cause::RankLeft { rank: first }
        }
        other => other,
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
        Failure::Cause(Cause::RankDied { rank, how }) => {
            StartError::RankFailed { rank: *rank, reason: how.clone() }
        }
        Failure::Cause(cause) => {
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
        let cause = as_cause(&failure).to_string();
        assert!(cause.starts_with("rank 2 died (it failed while the group was forming"), "{cause}");
        let left = Failure::Cause(Cause::RankLeft { rank: 4 });
        assert!(as_start_error(&left, 1).to_string().starts_with("rank 4 failed"));
    }

    #[test]
    fn a_link_to_a_rank_that_left_is_explained() {
        let reason = "reset".to_owned();
        let lost = Cause::LinkLost { first: 1, second: 0, link: LinkKind::Tcp, reason };
        let left = Cause::RankLeft { rank: 0 };
        assert_eq!(explained(lost.clone(), |rank| rank == 0, 1), left);
        assert_eq!(explained(lost.clone(), |rank| rank == 2, 1), lost);
    }
}
