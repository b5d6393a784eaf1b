//! A name for each way of failing, for those who translate errors into other languages.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{ArgumentError, Cause, ConfigError, Error, LinkKind, OperationError, StartError};
use crate::call::{Call, Operation, Signature};
use crate::dtype::{DType, Op};

macro_rules! kinds {
    ($($family:ident { $($kind:ident => $name:literal),* $(,)? })*) => {
        /// The kind of an error, without its fields.
        ///
        /// Unlike the error enums this one is exhaustive on purpose: a binding that maps each kind
        /// to a class or a status does not compile while one is missing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorKind {
            $($(
                #[doc = concat!("`", $name, "`, of the family [`", stringify!($family), "`].")]
                $kind,
            )*)*
        }

        impl ErrorKind {
            /// All kinds.
            pub const ALL: &[ErrorKind] = &[$($(ErrorKind::$kind,)*)*];

            /// The name, for example `rank_died`.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(ErrorKind::$kind => $name,)*)*
                }
            }
        }
    };
}

kinds! {
    ArgumentError {
        Unsupported => "unsupported",
        UnknownDType => "unknown_dtype",
        UnknownOp => "unknown_op",
        NoSuchRank => "no_such_rank",
        SelfMessage => "self_message",
        Length => "length",
        Ragged => "ragged",
        Indivisible => "indivisible",
        Counts => "counts",
        Overlap => "overlap",
        MissingBuffer => "missing_buffer",
        UnusedBuffer => "unused_buffer",
        TooLarge => "too_large",
        NotACollective => "not_a_collective",
        CountsForm => "counts_form",
        MissingOp => "missing_op",
        UnusedOp => "unused_op",
    }
    ConfigError {
        Value => "value",
        Missing => "missing",
        Conflict => "conflict",
        File => "file",
        Content => "content",
        TokenNeeded => "token_needed",
    }
    StartError {
        StartDeadline => "start_deadline",
        Unreachable => "unreachable",
        Authentication => "authentication",
        Disagreement => "disagreement",
        DuplicateRank => "duplicate_rank",
        RankFailed => "rank_failed",
        NoLink => "no_link",
        System => "system",
        SideChannel => "side_channel",
        StartInterrupted => "start_interrupted",
    }
    Cause {
        RankDied => "rank_died",
        RankLeft => "rank_left",
        LinkLost => "link_lost",
        Deadline => "deadline",
        Mismatch => "mismatch",
        Interrupted => "interrupted",
        Closed => "closed",
        Forked => "forked",
        Protocol => "protocol",
        Panicked => "panicked",
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Error {
    /// The kind of this error; for a failed operation, that of its cause.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Argument(error) => error.kind(),
            Error::Config(error) => error.kind(),
            Error::Start(error) => error.kind(),
            Error::Operation(error) => error.cause.kind(),
        }
    }
}

impl ArgumentError {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ArgumentError::Unsupported { .. } => ErrorKind::Unsupported,
            ArgumentError::UnknownDType { .. } => ErrorKind::UnknownDType,
            ArgumentError::UnknownOp { .. } => ErrorKind::UnknownOp,
            ArgumentError::NoSuchRank { .. } => ErrorKind::NoSuchRank,
            ArgumentError::SelfMessage { .. } => ErrorKind::SelfMessage,
            ArgumentError::Length { .. } => ErrorKind::Length,
            ArgumentError::Ragged { .. } => ErrorKind::Ragged,
            ArgumentError::Indivisible { .. } => ErrorKind::Indivisible,
            ArgumentError::Counts { .. } => ErrorKind::Counts,
            ArgumentError::Overlap => ErrorKind::Overlap,
            ArgumentError::MissingBuffer { .. } => ErrorKind::MissingBuffer,
            ArgumentError::UnusedBuffer { .. } => ErrorKind::UnusedBuffer,
            ArgumentError::TooLarge { .. } => ErrorKind::TooLarge,
            ArgumentError::NotACollective { .. } => ErrorKind::NotACollective,
            ArgumentError::CountsForm { .. } => ErrorKind::CountsForm,
            ArgumentError::MissingOp { .. } => ErrorKind::MissingOp,
            ArgumentError::UnusedOp { .. } => ErrorKind::UnusedOp,
        }
    }
}

impl ConfigError {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ConfigError::Value { .. } => ErrorKind::Value,
            ConfigError::Missing { .. } => ErrorKind::Missing,
            ConfigError::Conflict { .. } => ErrorKind::Conflict,
            ConfigError::File { .. } => ErrorKind::File,
            ConfigError::Content { .. } => ErrorKind::Content,
            ConfigError::TokenNeeded { .. } => ErrorKind::TokenNeeded,
        }
    }
}

impl StartError {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StartError::Deadline { .. } => ErrorKind::StartDeadline,
            StartError::Unreachable { .. } => ErrorKind::Unreachable,
            StartError::Authentication { .. } => ErrorKind::Authentication,
            StartError::Disagreement { .. } => ErrorKind::Disagreement,
            StartError::DuplicateRank { .. } => ErrorKind::DuplicateRank,
            StartError::RankFailed { .. } => ErrorKind::RankFailed,
            StartError::NoLink { .. } => ErrorKind::NoLink,
            StartError::System { .. } => ErrorKind::System,
            StartError::SideChannel { .. } => ErrorKind::SideChannel,
            StartError::Interrupted { .. } => ErrorKind::StartInterrupted,
        }
    }
}

impl Cause {
    /// The kind of this cause.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Cause::RankDied { .. } => ErrorKind::RankDied,
            Cause::RankLeft { .. } => ErrorKind::RankLeft,
            Cause::LinkLost { .. } => ErrorKind::LinkLost,
            Cause::Deadline { .. } => ErrorKind::Deadline,
            Cause::Mismatch { .. } => ErrorKind::Mismatch,
            Cause::Interrupted { .. } => ErrorKind::Interrupted,
            Cause::Closed => ErrorKind::Closed,
            Cause::Forked { .. } => ErrorKind::Forked,
            Cause::Protocol { .. } => ErrorKind::Protocol,
            Cause::Panicked { .. } => ErrorKind::Panicked,
        }
    }
}

impl ErrorKind {
    /// An error of this kind with made-up fields, for tests of translations.
    #[doc(hidden)]
    pub fn sample(self) -> Error {
        let text = |text: &str| text.to_owned();
        let waited = Duration::from_millis(1500);
        let mut call = Call::new(Operation::AllReduce, DType::F32, 1024);
        call.op = Some(Op::Sum);
        let operation = Signature { sequence: 41, call };
        let second_call =
            Signature { sequence: 41, call: Call::new(Operation::AllGather, DType::I64, 8) };
        let failed = |cause| {
            Error::Operation(OperationError {
                rank: 1,
                operation: Some(operation),
                peer: Some(2),
                link: Some(LinkKind::Tcp),
                elapsed: waited,
                cause: Arc::new(cause),
            })
        };
        match self {
            ErrorKind::Unsupported => {
                ArgumentError::Unsupported { op: Op::BitAnd, dtype: DType::F32 }.into()
            }
            ErrorKind::UnknownDType => ArgumentError::UnknownDType { name: text("f31") }.into(),
            ErrorKind::UnknownOp => ArgumentError::UnknownOp { name: text("sun") }.into(),
            ErrorKind::NoSuchRank => {
                ArgumentError::NoSuchRank { what: "root", rank: 7, size: 3 }.into()
            }
            ErrorKind::SelfMessage => {
                ArgumentError::SelfMessage { what: "destination", rank: 1 }.into()
            }
            ErrorKind::Length => {
                ArgumentError::Length { what: "output", expected: 8, actual: 6 }.into()
            }
            ErrorKind::Ragged => {
                ArgumentError::Ragged { what: "input", bytes: 7, dtype: DType::F32 }.into()
            }
            ErrorKind::Indivisible => {
                ArgumentError::Indivisible { what: "input", count: 7, size: 3 }.into()
            }
            ErrorKind::Counts => {
                ArgumentError::Counts { what: "counts", actual: 2, size: 3 }.into()
            }
            ErrorKind::Overlap => ArgumentError::Overlap.into(),
            ErrorKind::MissingBuffer => {
                ArgumentError::MissingBuffer { rank: 1, what: "input" }.into()
            }
            ErrorKind::UnusedBuffer => {
                ArgumentError::UnusedBuffer { rank: 1, what: "output" }.into()
            }
            ErrorKind::TooLarge => ArgumentError::TooLarge { what: "output" }.into(),
            ErrorKind::NotACollective => {
                ArgumentError::NotACollective { operation: Operation::Send }.into()
            }
            ErrorKind::CountsForm => ArgumentError::CountsForm {
                operation: Operation::Barrier,
                takes: "no counts",
                given: "All",
            }
            .into(),
            ErrorKind::MissingOp => ArgumentError::MissingOp { operation: Operation::Scan }.into(),
            ErrorKind::UnusedOp => {
                ArgumentError::UnusedOp { operation: Operation::Broadcast, op: Op::Sum }.into()
            }
            ErrorKind::Value => ConfigError::Value {
                name: text("LYCAON_RANK"),
                value: text("two"),
                expected: "a rank (0, 1, …)",
            }
            .into(),
            ErrorKind::Missing => ConfigError::Missing {
                missing: text("LYCAON_SIZE"),
                present: text("LYCAON_RANK=1"),
            }
            .into(),
            ErrorKind::Conflict => ConfigError::Conflict {
                first: text("LYCAON_RANK=3"),
                second: text("LYCAON_SIZE=3"),
                why: "ranks go from 0 to size - 1",
            }
            .into(),
            ErrorKind::File => {
                ConfigError::File { path: text("/hosts.json"), reason: text("not found") }.into()
            }
            ErrorKind::Content => ConfigError::Content {
                path: text("/hosts.json"),
                place: text("line 3"),
                reason: text("no address"),
            }
            .into(),
            ErrorKind::TokenNeeded => {
                ConfigError::TokenNeeded { address: text("10.0.0.1:4000") }.into()
            }
            ErrorKind::StartDeadline => StartError::Deadline {
                rank: 1,
                within: waited,
                waiting_for: text("no word from rank 2"),
            }
            .into(),
            ErrorKind::Unreachable => StartError::Unreachable {
                rank: 1,
                action: text("connect to"),
                address: text("10.0.0.1:4000"),
                local: text("10.0.0.2 (en5)"),
                tried: waited,
                reason: text("no route to host"),
            }
            .into(),
            ErrorKind::Authentication => {
                StartError::Authentication { rank: 1, peer: text("10.0.0.3:5000") }.into()
            }
            ErrorKind::Disagreement => StartError::Disagreement {
                what: text("size"),
                first: 0,
                first_value: text("3"),
                second: 1,
                second_value: text("4"),
            }
            .into(),
            ErrorKind::DuplicateRank => StartError::DuplicateRank {
                rank: 1,
                first: text("host a, process 1"),
                second: text("host b, process 2"),
            }
            .into(),
            ErrorKind::RankFailed => {
                StartError::RankFailed { rank: 2, reason: text("out of memory") }.into()
            }
            ErrorKind::NoLink => {
                StartError::NoLink { first: 1, second: 2, reason: text("tcp: refused") }.into()
            }
            ErrorKind::System => StartError::System {
                rank: 1,
                action: text("make shared memory"),
                reason: text("too many open files"),
            }
            .into(),
            ErrorKind::SideChannel => {
                StartError::SideChannel { rank: 1, reason: text("no answer") }.into()
            }
            ErrorKind::StartInterrupted => StartError::Interrupted { rank: 1 }.into(),
            ErrorKind::RankDied => {
                failed(Cause::RankDied { rank: 2, how: text("its connection closed") })
            }
            ErrorKind::RankLeft => failed(Cause::RankLeft { rank: 2 }),
            ErrorKind::LinkLost => failed(Cause::LinkLost {
                first: 1,
                second: 2,
                link: LinkKind::Tcp,
                reason: text("connection reset"),
            }),
            ErrorKind::Deadline => {
                failed(Cause::Deadline { rank: 1, operation, peer: Some(2), waited })
            }
            ErrorKind::Mismatch => {
                failed(Cause::Mismatch { first: 0, first_call: operation, second: 1, second_call })
            }
            ErrorKind::Interrupted => failed(Cause::Interrupted { rank: 1, operation }),
            ErrorKind::Closed => failed(Cause::Closed),
            ErrorKind::Forked => failed(Cause::Forked { owner: 4711 }),
            ErrorKind::Protocol => {
                failed(Cause::Protocol { rank: 1, peer: 2, what: text("a frame of no kind") })
            }
            ErrorKind::Panicked => failed(Cause::Panicked { rank: 1, message: text("bug") }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_sample_is_of_its_kind() {
        for kind in ErrorKind::ALL {
            assert_eq!(kind.sample().kind(), *kind);
        }
    }

    #[test]
    fn names_are_distinct() {
        let names: HashSet<&str> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), ErrorKind::ALL.len());
    }
}
