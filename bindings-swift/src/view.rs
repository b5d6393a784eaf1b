//! What can be read of a group at any time: progress, links, the flight recorder.

use std::time::Duration;

use lycaon::error::OperationError;
use lycaon::trace::{LinkInfo, Outcome, Record};
use lycaon::{Group, Operation};

use crate::bridge::ffi::{CallParts, ProgressParts};
use crate::failure::{Failure, link_number, nanoseconds, parts, wide};

/// A second handle to a group: reading through it never waits for an operation.
pub(crate) struct View(Group);

/// What Swift shows of a link.
pub(crate) struct LinkParts(LinkInfo);

/// What Swift shows of an operation in the flight recorder.
pub(crate) struct RecordParts(Record);

/// A view of the group that a handle stands for.
///
/// The bridge has no unsafe functions. Its only caller is `Group` in Swift, whose handle lives as
/// long as the object that calls.
pub(crate) fn view(handle: usize) -> View {
    let group: *const Group = std::ptr::with_exposed_provenance(handle);
    // SAFETY: the handle is that of a `Group` of Swift, which holds it until its `deinit`.
    View(unsafe { &*group }.clone())
}

pub(crate) fn version_text() -> String {
    lycaon::VERSION.to_owned()
}

impl View {
    pub(crate) fn member(&self, rank: u64) -> u64 {
        let at = usize::try_from(rank).ok();
        at.and_then(|at| self.0.members().get(at)).map_or(u64::MAX, |member| wide(*member))
    }

    pub(crate) fn timeout_nanoseconds(&self) -> u64 {
        nanoseconds(self.0.timeout())
    }

    pub(crate) fn set_timeout(&self, nanoseconds: u64) {
        self.0.set_timeout(Duration::from_nanos(nanoseconds));
    }

    pub(crate) fn progress(&self) -> ProgressParts {
        let progress = self.0.progress();
        ProgressParts {
            started: progress.started,
            completed: progress.completed,
            failed: progress.failed,
            bytes_sent: progress.bytes_sent,
            bytes_received: progress.bytes_received,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        let cause = self.0.failure()?;
        let error = OperationError {
            rank: self.0.rank(),
            operation: None,
            peer: None,
            link: None,
            elapsed: Duration::ZERO,
            cause,
        };
        Some(error.into())
    }

    pub(crate) fn links(&self) -> Vec<LinkParts> {
        self.0.links().into_iter().map(LinkParts).collect()
    }

    pub(crate) fn records(&self) -> Vec<RecordParts> {
        self.0.flight_recorder().into_iter().map(RecordParts).collect()
    }

    pub(crate) fn algorithm_for(&self, operation: u8, bytes: u64) -> String {
        Operation::from_number(operation)
            .map_or_else(String::new, |known| self.0.algorithm(known, bytes).name().to_owned())
    }
}

impl LinkParts {
    pub(crate) fn peer(&self) -> u64 {
        wide(self.0.peer)
    }

    pub(crate) fn kind(&self) -> u8 {
        link_number(self.0.kind)
    }

    pub(crate) fn detail(&self) -> String {
        self.0.detail.clone()
    }

    pub(crate) fn bytes_sent(&self) -> u64 {
        self.0.bytes_sent
    }

    pub(crate) fn bytes_received(&self) -> u64 {
        self.0.bytes_received
    }

    pub(crate) fn messages_sent(&self) -> u64 {
        self.0.messages_sent
    }

    pub(crate) fn messages_received(&self) -> u64 {
        self.0.messages_received
    }
}

impl RecordParts {
    pub(crate) fn call(&self) -> CallParts {
        parts(&self.0.signature)
    }

    pub(crate) fn peer(&self) -> Option<u64> {
        self.0.peer.map(wide)
    }

    pub(crate) fn tag(&self) -> Option<u32> {
        self.0.tag
    }

    pub(crate) fn algorithm(&self) -> Option<String> {
        self.0.algorithm.map(|algorithm| algorithm.name().to_owned())
    }

    pub(crate) fn began(&self) -> u64 {
        nanoseconds(self.0.began)
    }

    pub(crate) fn took(&self) -> u64 {
        nanoseconds(self.0.took)
    }

    pub(crate) fn outcome(&self) -> u8 {
        match self.0.outcome {
            Outcome::Completed => 1,
            Outcome::Failed(_) => 2,
            // The enum of the core may grow; what is not over is still running.
            _ => 0,
        }
    }

    pub(crate) fn error(&self) -> Option<String> {
        match &self.0.outcome {
            Outcome::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }
}
