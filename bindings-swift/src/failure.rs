//! Errors of the core as values of the bridge.

use std::time::Duration;

use lycaon::Signature;
use lycaon::error::{
    ArgumentError, Cause, ConfigError, Error, ErrorKind, LinkKind, OperationError, StartError,
};

use crate::bridge::ffi::{CallParts, Place, Problem};

/// An error on its way to Swift. It never changes.
pub struct Failure {
    text: String,
    // Boxed, since it is the rare half of every result.
    error: Option<Box<Error>>,
}

// Swift hands errors from task to task.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Failure>();
};

/// A failure of the kind with this name, with made-up fields.
pub(crate) fn sample_failure(kind: &str) -> Option<Failure> {
    let kind = ErrorKind::ALL.iter().find(|known| known.name() == kind)?;
    Some(kind.sample().into())
}

/// The names of all kinds.
pub(crate) fn sample_names() -> Vec<String> {
    ErrorKind::ALL.iter().map(|kind| kind.name().to_owned()).collect()
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        Failure { text: error.to_string(), error: Some(Box::new(error)) }
    }
}

/// The fields of an error whose kind is known.
macro_rules! fields {
    ($error:expr, $pattern:pat => $problem:expr) => {
        match $error {
            $pattern => $problem,
            other => unreachable!("an error of another kind: {other}"),
        }
    };
}

impl Failure {
    /// What only this binding can notice.
    pub(crate) fn internal(text: String) -> Self {
        Failure { text, error: None }
    }

    pub(crate) fn message(&self) -> String {
        self.text.clone()
    }

    /// The kind with its fields.
    ///
    /// The match over the kinds is exhaustive: a kind that the core gains does not compile here
    /// before it has a variant.
    pub(crate) fn problem(&self) -> Problem {
        use ArgumentError as A;
        use ConfigError as C;
        use StartError as S;
        let Some(error) = &self.error else { return Problem::Internal };
        let error = error.as_ref();
        match error.kind() {
            ErrorKind::Unsupported => fields!(error, Error::Argument(A::Unsupported { op, dtype })
                => Problem::Unsupported { op: *op as u8, dtype: *dtype as u8 }),
            ErrorKind::UnknownDType => fields!(error, Error::Argument(A::UnknownDType { name })
                => Problem::UnknownDType { name: name.clone() }),
            ErrorKind::UnknownOp => fields!(error, Error::Argument(A::UnknownOp { name })
                => Problem::UnknownOp { name: name.clone() }),
            ErrorKind::NoSuchRank => {
                fields!(error, Error::Argument(A::NoSuchRank { what, rank, size })
                => Problem::NoSuchRank { what: text(what), rank: wide(*rank), size: wide(*size) })
            }
            ErrorKind::SelfMessage => fields!(error, Error::Argument(A::SelfMessage { what, rank })
                => Problem::SelfMessage { what: text(what), rank: wide(*rank) }),
            ErrorKind::Length => {
                fields!(error, Error::Argument(A::Length { what, expected, actual })
                => Problem::Length { what: text(what), expected: *expected, actual: *actual })
            }
            ErrorKind::Ragged => fields!(error, Error::Argument(A::Ragged { what, bytes, dtype })
                => Problem::Ragged { what: text(what), bytes: *bytes, dtype: *dtype as u8 }),
            ErrorKind::Indivisible => {
                fields!(error, Error::Argument(A::Indivisible { what, count, size })
                => Problem::Indivisible { what: text(what), count: *count, size: wide(*size) })
            }
            ErrorKind::Counts => fields!(error, Error::Argument(A::Counts { what, actual, size })
                => Problem::Counts { what: text(what), actual: wide(*actual), size: wide(*size) }),
            ErrorKind::Overlap => Problem::Overlap,
            ErrorKind::MissingBuffer => {
                fields!(error, Error::Argument(A::MissingBuffer { rank, what })
                => Problem::MissingBuffer { rank: wide(*rank), what: text(what) })
            }
            ErrorKind::UnusedBuffer => {
                fields!(error, Error::Argument(A::UnusedBuffer { rank, what })
                => Problem::UnusedBuffer { rank: wide(*rank), what: text(what) })
            }
            ErrorKind::TooLarge => fields!(error, Error::Argument(A::TooLarge { what })
                => Problem::TooLarge { what: text(what) }),
            ErrorKind::NotACollective => {
                fields!(error, Error::Argument(A::NotACollective { operation })
                => Problem::NotACollective { operation: *operation as u8 })
            }
            ErrorKind::CountsForm => {
                fields!(error, Error::Argument(A::CountsForm { operation, takes, given })
                => Problem::CountsForm { operation: *operation as u8, takes: text(takes), given: text(given) })
            }
            ErrorKind::MissingOp => fields!(error, Error::Argument(A::MissingOp { operation })
                => Problem::MissingOp { operation: *operation as u8 }),
            ErrorKind::UnusedOp => fields!(error, Error::Argument(A::UnusedOp { operation, op })
                => Problem::UnusedOp { operation: *operation as u8, op: *op as u8 }),

            ErrorKind::Value => fields!(error, Error::Config(C::Value { name, value, expected })
                => Problem::Value { name: name.clone(), value: value.clone(), expected: text(expected) }),
            ErrorKind::Missing => fields!(error, Error::Config(C::Missing { missing, present })
                => Problem::Missing { missing: missing.clone(), present: present.clone() }),
            ErrorKind::Conflict => fields!(error, Error::Config(C::Conflict { first, second, why })
                => Problem::Conflict { first: first.clone(), second: second.clone(), why: text(why) }),
            ErrorKind::File => fields!(error, Error::Config(C::File { path, reason })
                => Problem::File { path: path.clone(), reason: reason.clone() }),
            ErrorKind::Content => fields!(error, Error::Config(C::Content { path, place, reason })
                => Problem::Content { path: path.clone(), place: place.clone(), reason: reason.clone() }),
            ErrorKind::TokenNeeded => fields!(error, Error::Config(C::TokenNeeded { address })
                => Problem::TokenNeeded { address: address.clone() }),

            ErrorKind::StartDeadline => {
                fields!(error, Error::Start(S::Deadline { rank, within, waiting_for })
                => Problem::StartDeadline {
                    rank: wide(*rank), within: nanoseconds(*within), waiting_for: waiting_for.clone(),
                })
            }
            ErrorKind::Unreachable => fields!(error,
            Error::Start(S::Unreachable { rank, action, address, local, tried, reason })
            => Problem::Unreachable {
                rank: wide(*rank), action: action.clone(), address: address.clone(),
                local: local.clone(), tried: nanoseconds(*tried), reason: reason.clone(),
            }),
            ErrorKind::Authentication => {
                fields!(error, Error::Start(S::Authentication { rank, peer })
                => Problem::Authentication { rank: wide(*rank), peer: peer.clone() })
            }
            ErrorKind::Disagreement => fields!(error,
            Error::Start(S::Disagreement { what, first, first_value, second, second_value })
            => Problem::Disagreement {
                what: what.clone(), first: wide(*first), first_value: first_value.clone(),
                second: wide(*second), second_value: second_value.clone(),
            }),
            ErrorKind::DuplicateRank => {
                fields!(error, Error::Start(S::DuplicateRank { rank, first, second })
                => Problem::DuplicateRank { rank: wide(*rank), first: first.clone(), second: second.clone() })
            }
            ErrorKind::RankFailed => fields!(error, Error::Start(S::RankFailed { rank, reason })
                => Problem::RankFailed { rank: wide(*rank), reason: reason.clone() }),
            ErrorKind::NoLink => fields!(error, Error::Start(S::NoLink { first, second, reason })
                => Problem::NoLink { first: wide(*first), second: wide(*second), reason: reason.clone() }),
            ErrorKind::System => fields!(error, Error::Start(S::System { rank, action, reason })
                => Problem::System { rank: wide(*rank), action: action.clone(), reason: reason.clone() }),
            ErrorKind::SideChannel => fields!(error, Error::Start(S::SideChannel { rank, reason })
                => Problem::SideChannel { rank: wide(*rank), reason: reason.clone() }),
            ErrorKind::StartInterrupted => fields!(error, Error::Start(S::Interrupted { rank })
                => Problem::StartInterrupted { rank: wide(*rank) }),

            ErrorKind::RankDied => fields!(cause(error), Cause::RankDied { rank, how }
                => Problem::RankDied { rank: wide(*rank), how: how.clone() }),
            ErrorKind::RankLeft => fields!(cause(error), Cause::RankLeft { rank }
                => Problem::RankLeft { rank: wide(*rank) }),
            ErrorKind::LinkLost => {
                fields!(cause(error), Cause::LinkLost { first, second, link, reason }
                => Problem::LinkLost {
                    first: wide(*first), second: wide(*second), link: link_number(*link), reason: reason.clone(),
                })
            }
            ErrorKind::Deadline => {
                fields!(cause(error), Cause::Deadline { rank, operation, peer, waited }
                => Problem::Deadline {
                    rank: wide(*rank), operation: parts(operation), peer: peer.map(wide),
                    waited: nanoseconds(*waited),
                })
            }
            ErrorKind::Mismatch => {
                fields!(cause(error), Cause::Mismatch { first, first_call, second, second_call }
                => Problem::Mismatch {
                    first: wide(*first), first_call: parts(first_call), second: wide(*second),
                    second_call: parts(second_call),
                })
            }
            ErrorKind::Interrupted => fields!(cause(error), Cause::Interrupted { rank, operation }
                => Problem::Interrupted { rank: wide(*rank), operation: parts(operation) }),
            ErrorKind::Closed => Problem::Closed,
            ErrorKind::Forked => fields!(cause(error), Cause::Forked { owner }
                => Problem::Forked { owner: *owner }),
            ErrorKind::Protocol => fields!(cause(error), Cause::Protocol { rank, peer, what }
                => Problem::Violation { rank: wide(*rank), peer: wide(*peer), what: what.clone() }),
            ErrorKind::Panicked => fields!(cause(error), Cause::Panicked { rank, message }
                => Problem::Panicked { rank: wide(*rank), message: message.clone() }),
        }
    }

    fn operation(&self) -> Option<&OperationError> {
        match self.error.as_deref() {
            Some(Error::Operation(error)) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn place(&self) -> Option<Place> {
        self.operation().map(|error| Place {
            rank: wide(error.rank),
            peer: error.peer.map(wide),
            link: error.link.map_or(0, link_number),
            elapsed: nanoseconds(error.elapsed),
        })
    }

    pub(crate) fn call(&self) -> Option<CallParts> {
        self.operation().and_then(|error| error.operation.as_ref()).map(parts)
    }
}

fn cause(error: &Error) -> &Cause {
    fields!(error, Error::Operation(error) => &error.cause)
}

pub(crate) fn parts(signature: &Signature) -> CallParts {
    let call = &signature.call;
    CallParts {
        operation: call.operation as u8,
        sequence: signature.sequence,
        dtype: call.dtype as u8,
        op: call.op.map(|op| op as u8),
        root: call.root,
        count: call.count,
        text: signature.to_string(),
    }
}

/// The kinds of link by their numbers in Swift: 0 is no link.
pub(crate) const LINKS: [(u8, LinkKind); 3] =
    [(1, LinkKind::Memory), (2, LinkKind::Shm), (3, LinkKind::Tcp)];

/// 255 is a kind that this version has no number for.
pub(crate) fn link_number(link: LinkKind) -> u8 {
    LINKS.iter().find(|(_, known)| *known == link).map_or(u8::MAX, |(number, _)| *number)
}

fn text(text: &str) -> String {
    text.to_owned()
}

pub(crate) fn wide(rank: usize) -> u64 {
    rank as u64
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_fields() {
        for kind in ErrorKind::ALL {
            let failure = sample_failure(kind.name()).expect("a kind of the core");
            assert_eq!(failure.message(), kind.sample().to_string());
            // The match inside panics if kind and fields do not belong together.
            assert!(!matches!(failure.problem(), Problem::Internal), "{kind}");
            let failed = matches!(kind.sample(), Error::Operation(_));
            assert_eq!(failure.place().is_some(), failed, "{kind}");
            assert_eq!(failure.call().is_some(), failed, "{kind}");
        }
        assert_eq!(sample_names().len(), ErrorKind::ALL.len());
    }

    #[test]
    fn fields_arrive() {
        let failure = sample_failure("mismatch").expect("a kind of the core");
        let Problem::Mismatch { first: 0, first_call, second: 1, second_call } = failure.problem()
        else {
            panic!("not a mismatch");
        };
        assert_eq!((first_call.operation, first_call.sequence, first_call.op), (0, 41, Some(0)));
        assert_eq!((second_call.operation, second_call.count, second_call.op), (1, 8, None));
        let place = failure.place().expect("an operation failed");
        assert_eq!((place.rank, place.peer, place.link), (1, Some(2), 3));
        assert_eq!(place.elapsed, 1_500_000_000);
    }

    #[test]
    fn what_is_no_error_of_the_core_is_internal() {
        let failure = Failure::internal("text".to_owned());
        assert!(matches!(failure.problem(), Problem::Internal));
        assert!(failure.place().is_none() && failure.call().is_none());
        assert!(sample_failure("no such kind").is_none());
    }
}
