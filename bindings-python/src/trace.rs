//! What can be read of a group from any thread at any time.

use lycaon::trace;
use pyo3::prelude::*;

/// How far a group has come.
#[pyclass(frozen, get_all, module = "lycaon")]
pub(crate) struct Progress {
    /// Operations that this rank has begun.
    started: u64,
    /// Operations that have completed.
    completed: u64,
    /// Operations that have failed.
    failed: u64,
    /// Payload bytes that this process has sent, for all groups.
    bytes_sent: u64,
    /// Payload bytes that this process has received, for all groups.
    bytes_received: u64,
}

impl From<trace::Progress> for Progress {
    fn from(of: trace::Progress) -> Self {
        Progress {
            started: of.started,
            completed: of.completed,
            failed: of.failed,
            bytes_sent: of.bytes_sent,
            bytes_received: of.bytes_received,
        }
    }
}

#[pymethods]
impl Progress {
    fn __repr__(&self) -> String {
        format!(
            "Progress(started={}, completed={}, failed={}, bytes_sent={}, bytes_received={})",
            self.started, self.completed, self.failed, self.bytes_sent, self.bytes_received
        )
    }
}

/// The link between this rank and another one.
#[pyclass(frozen, get_all, module = "lycaon")]
pub(crate) struct Link {
    /// The other rank.
    peer: usize,
    /// What joins the two: ``shm`` or ``tcp``.
    kind: &'static str,
    /// Where it leads, for example two addresses.
    detail: String,
    bytes_sent: u64,
    bytes_received: u64,
    messages_sent: u64,
    messages_received: u64,
}

impl From<trace::LinkInfo> for Link {
    fn from(of: trace::LinkInfo) -> Self {
        Link {
            peer: of.peer,
            kind: of.kind.name(),
            detail: of.detail,
            bytes_sent: of.bytes_sent,
            bytes_received: of.bytes_received,
            messages_sent: of.messages_sent,
            messages_received: of.messages_received,
        }
    }
}

#[pymethods]
impl Link {
    fn __repr__(&self) -> String {
        format!("Link(peer={}, kind='{}', detail='{}')", self.peer, self.kind, self.detail)
    }
}

/// One operation in the flight recorder.
#[pyclass(frozen, get_all, module = "lycaon")]
pub(crate) struct Record {
    operation: &'static str,
    /// Its number: of the collective in its group, or of the message on its tag.
    sequence: u64,
    dtype: &'static str,
    /// Elements.
    count: u64,
    op: Option<&'static str>,
    root: Option<u32>,
    /// The other rank of a message.
    peer: Option<usize>,
    tag: Option<u32>,
    algorithm: Option<String>,
    /// Seconds from the start of the group to that of the operation.
    began: f64,
    /// Seconds that it took, or has taken so far.
    took: f64,
    /// ``running``, ``completed`` or ``failed``.
    outcome: &'static str,
    /// The error of one that failed.
    error: Option<String>,
    /// All of it as one line.
    text: String,
}

impl From<trace::Record> for Record {
    fn from(of: trace::Record) -> Self {
        let text = of.to_string();
        let call = of.signature.call;
        let (outcome, error) = match of.outcome {
            trace::Outcome::Running => ("running", None),
            trace::Outcome::Completed => ("completed", None),
            trace::Outcome::Failed(error) => ("failed", Some(error)),
            _ => ("unknown", None),
        };
        Record {
            operation: call.operation.name(),
            sequence: of.signature.sequence,
            dtype: call.dtype.name(),
            count: call.count,
            op: call.op.map(lycaon::Op::name),
            root: call.root,
            peer: of.peer,
            tag: of.tag,
            algorithm: of.algorithm.map(|algorithm| algorithm.to_string()),
            began: of.began.as_secs_f64(),
            took: of.took.as_secs_f64(),
            outcome,
            error,
            text,
        }
    }
}

#[pymethods]
impl Record {
    fn __repr__(&self) -> String {
        format!("<lycaon.Record {}>", self.text.trim_start())
    }
}
