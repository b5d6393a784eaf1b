//! What has happened: the flight recorder and counters that can be read from any thread.
//!
//! The library also logs with the `tracing` crate, under targets that begin with `lycaon`: dropped
//! strangers and the like as warnings, failed operations (which the caller gets as errors) at info
//! level, the flight recorder of a group whose operation has failed at debug level. It installs no subscriber:
//! a Rust program brings its own, and without one nothing is written. The program `lycaon` and the
//! Python module write to stderr, as much as `LYCAON_LOG` says (`off`, `error`, `warn`, `info`,
//! `debug`; `warn` if it is not set).

mod recorder;

pub use recorder::{Outcome, Record};
pub(crate) use recorder::{Recorder, Ticket};

use crate::error::LinkKind;

/// How far a group has come. Reading it never waits for an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Operations that this rank has begun.
    pub started: u64,
    /// Operations that have completed.
    pub completed: u64,
    /// Operations that have failed.
    pub failed: u64,
    /// Payload bytes that this process has sent over its links, for all groups.
    pub bytes_sent: u64,
    /// Payload bytes that this process has received over its links, for all groups.
    pub bytes_received: u64,
}

/// The link between this rank and another one of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The other rank, in this group.
    pub peer: usize,
    /// What joins the two.
    pub kind: LinkKind,
    /// Where it leads, for example the two addresses of a TCP link.
    pub detail: String,
    /// Payload bytes sent over it.
    pub bytes_sent: u64,
    /// Payload bytes received over it.
    pub bytes_received: u64,
    /// Messages sent over it.
    pub messages_sent: u64,
    /// Messages received over it.
    pub messages_received: u64,
}
