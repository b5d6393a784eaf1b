//! Everything that can go wrong, one enum per family.
//!
//! [`Error`] joins the families: [`ArgumentError`] (the call makes no sense; nothing was sent and
//! the group goes on), [`ConfigError`] (the environment or a builder value is wrong),
//! [`StartError`] (the group could not be formed) and [`OperationError`] (an operation failed; the
//! group is poisoned). `docs/errors.md` says what state each of them leaves behind.

mod kind;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call::{Operation, Signature};
use crate::dtype::{DType, Op};

pub use kind::ErrorKind;

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error of this library.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call makes no sense; nothing was sent and the group goes on.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// The environment, a hostfile or a builder value is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The group could not be formed.
    #[error(transparent)]
    Start(#[from] StartError),
    /// An operation failed; the group is poisoned.
    #[error(transparent)]
    Operation(#[from] OperationError),
}

/// A call that makes no sense. It is found before anything is sent, and the group goes on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// The operator is not defined for the element type.
    #[error("{op} is not defined for {dtype}{}", unsupported_hint(*.op, *.dtype))]
    Unsupported {
        /// The operator.
        op: Op,
        /// The element type.
        dtype: DType,
    },
    /// No element type has this name.
    #[error("unknown element type {name:?}; known are {}", names(&DType::ALL))]
    UnknownDType {
        /// What was given.
        name: String,
    },
    /// No operator has this name.
    #[error("unknown operator {name:?}; known are {}", names(&Op::ALL))]
    UnknownOp {
        /// What was given.
        name: String,
    },
    /// A rank that is not in the group.
    #[error("{what} {rank} is not in the group, whose ranks are 0 to {}", .size - 1)]
    NoSuchRank {
        /// What the rank was given as: `root`, `destination`, `source`.
        what: &'static str,
        /// The rank.
        rank: usize,
        /// The size of the group.
        size: usize,
    },
    /// A message to oneself.
    #[error("{what} is this rank itself ({rank}); copy the buffer instead")]
    SelfMessage {
        /// `destination` or `source`.
        what: &'static str,
        /// The rank.
        rank: usize,
    },
    /// A buffer has the wrong length.
    #[error("{what} holds {actual} elements where the call needs {expected}")]
    Length {
        /// Which buffer.
        what: &'static str,
        /// Elements needed.
        expected: u64,
        /// Elements given.
        actual: u64,
    },
    /// A buffer's bytes are no whole number of elements.
    #[error("{what} holds {bytes} bytes, no whole number of {dtype} elements")]
    Ragged {
        /// Which buffer.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// The element type.
        dtype: DType,
    },
    /// A buffer cannot be cut into equal blocks.
    #[error(
        "{what} holds {count} elements, which {size} ranks cannot share equally; pad it or use the form with counts"
    )]
    Indivisible {
        /// Which buffer.
        what: &'static str,
        /// Its elements.
        count: u64,
        /// The size of the group.
        size: usize,
    },
    /// A list of counts has not one entry per rank.
    #[error("{what} has {actual} entries for a group of {size}")]
    Counts {
        /// Which list.
        what: &'static str,
        /// Its entries.
        actual: usize,
        /// The size of the group.
        size: usize,
    },
    /// Input and output overlap without being the same buffer.
    #[error("input and output overlap; use the in-place form or separate buffers")]
    Overlap,
    /// A buffer that this rank has to give is missing.
    #[error("rank {rank} must give {what}")]
    MissingBuffer {
        /// This rank.
        rank: usize,
        /// Which buffer.
        what: &'static str,
    },
    /// A buffer was given that this rank has no use for.
    #[error("rank {rank} gave {what} where only other ranks have one; leave it out")]
    UnusedBuffer {
        /// This rank.
        rank: usize,
        /// Which buffer.
        what: &'static str,
    },
    /// A number of elements that no memory can hold.
    #[error("{what} would hold more elements than a 64-bit count of bytes can express")]
    TooLarge {
        /// Which buffer.
        what: &'static str,
    },
    /// A request for something that is no collective.
    #[error("{operation} is no collective; use send, recv, send_recv or split")]
    NotACollective {
        /// The operation.
        operation: Operation,
    },
    /// Counts by rank in a form that the operation does not have.
    #[error("{operation} takes {takes}; counts of the form {given} were given")]
    CountsForm {
        /// The operation.
        operation: Operation,
        /// The form it takes.
        takes: &'static str,
        /// The form given: `All`, `AtRoot` or `Exchange`.
        given: &'static str,
    },
    /// A reduction without an operator.
    #[error("{operation} needs an operator; known are {}", names(&Op::ALL))]
    MissingOp {
        /// The operation.
        operation: Operation,
    },
    /// An operator for an operation that does not reduce.
    #[error("{operation} takes no operator, {op} was given; leave it out")]
    UnusedOp {
        /// The operation.
        operation: Operation,
        /// The operator.
        op: Op,
    },
}

fn unsupported_hint(op: Op, dtype: DType) -> &'static str {
    match op {
        Op::Avg => "; sum and divide, or convert to a floating-point type",
        Op::Min | Op::Max => ": complex numbers have no order",
        _ if dtype.is_float() || dtype.is_complex() => "; it needs integers or bool",
        _ => "",
    }
}

fn names<T: fmt::Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The environment, a hostfile or a builder value is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value is not what it must be.
    #[error("{name}={value:?} is not {expected}")]
    Value {
        /// The variable or builder field.
        name: String,
        /// What was given.
        value: String,
        /// What would be right, for example `a rank (0, 1, …)`.
        expected: &'static str,
    },
    /// A variable is missing while others of its family are set.
    #[error(
        "{missing} is not set although {present} is; set it, or start the program with `lycaon launch`"
    )]
    Missing {
        /// What is missing.
        missing: String,
        /// What is set and makes it necessary.
        present: String,
    },
    /// Two values contradict each other.
    #[error("{first} and {second} contradict each other: {why}")]
    Conflict {
        /// One value, as `NAME=value`.
        first: String,
        /// The other one.
        second: String,
        /// In which way.
        why: &'static str,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// The operating system's answer.
        reason: String,
    },
    /// A file's content is wrong.
    #[error("{path}, {place}: {reason}")]
    Content {
        /// The file.
        path: String,
        /// Line or field.
        place: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// Without a token only this machine may take part.
    #[error(
        "rendezvous {address} can be reached from other machines, so a token is needed: set LYCAON_TOKEN to the same secret on every rank"
    )]
    TokenNeeded {
        /// The rendezvous.
        address: String,
    },
}

/// The group could not be formed.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StartError {
    /// The start-up deadline passed.
    #[error("rank {rank}: the group did not form within {within:?}: {waiting_for}")]
    Deadline {
        /// The rank that gave up.
        rank: usize,
        /// The deadline.
        within: Duration,
        /// What was still missing, for example `no word from ranks 2, 3`.
        waiting_for: String,
    },
    /// The rendezvous address could not be listened on or reached.
    #[error("rank {rank}: cannot {action} {address} (local {local}, tried {tried:?}): {reason}")]
    Unreachable {
        /// The rank.
        rank: usize,
        /// `listen on`, `connect to`, `resolve`.
        action: String,
        /// The address.
        address: String,
        /// Local address and interface, as far as known.
        local: String,
        /// For how long it was tried.
        tried: Duration,
        /// The operating system's answer.
        reason: String,
    },
    /// The token's keyed hash was wrong, or one side has a token and the other none.
    #[error(
        "rank {rank}: {peer} did not prove that it knows the job's token; give every rank the same LYCAON_TOKEN"
    )]
    Authentication {
        /// The rank.
        rank: usize,
        /// The other side.
        peer: String,
    },
    /// Two ranks differ in something that must be equal.
    #[error(
        "rank {first} has {what} {first_value}, rank {second} has {second_value}; they must be equal"
    )]
    Disagreement {
        /// What differs: `lycaon`, `protocol version`, `size`, `configuration`, …
        what: String,
        /// One rank.
        first: usize,
        /// Its value.
        first_value: String,
        /// Another rank.
        second: usize,
        /// Its value.
        second_value: String,
    },
    /// Two processes claim one rank.
    #[error("two processes claim rank {rank}: {first} and {second}")]
    DuplicateRank {
        /// The rank.
        rank: usize,
        /// Where the first one is.
        first: String,
        /// Where the second one is.
        second: String,
    },
    /// A rank failed or went away while the group was forming.
    #[error("rank {rank} failed while the group was forming: {reason}")]
    RankFailed {
        /// The rank that failed first.
        rank: usize,
        /// Its own words, or how it was lost.
        reason: String,
    },
    /// No link that both sides accept joins two ranks.
    #[error("no link joins ranks {first} and {second}: {reason}")]
    NoLink {
        /// One rank.
        first: usize,
        /// The other one.
        second: usize,
        /// What was tried, with the answer to each.
        reason: String,
    },
    /// The operating system refused something.
    #[error("rank {rank}: {action}: {reason}")]
    System {
        /// The rank.
        rank: usize,
        /// What was asked for.
        action: String,
        /// The answer.
        reason: String,
    },
    /// The caller's own all-gather function failed.
    #[error("rank {rank}: the all-gather function given by the program failed: {reason}")]
    SideChannel {
        /// The rank.
        rank: usize,
        /// Its own words, or what was wrong with its answer.
        reason: String,
    },
    /// The wait was interrupted by the program.
    #[error("rank {rank}: interrupted while the group was forming")]
    Interrupted {
        /// The rank.
        rank: usize,
    },
}

/// What joins one pair of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LinkKind {
    /// Threads of one process.
    Memory,
    /// Shared memory of one host.
    Shm,
    /// RDMA: verbs over Thunderbolt, Ethernet or InfiniBand.
    Rdma,
    /// TCP sockets.
    Tcp,
}

impl LinkKind {
    /// The name used in messages and in `LYCAON_LINKS`.
    pub const fn name(self) -> &'static str {
        match self {
            LinkKind::Memory => "memory",
            LinkKind::Shm => "shm",
            LinkKind::Rdma => "rdma",
            LinkKind::Tcp => "tcp",
        }
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An operation failed. The group is poisoned: every later call returns the same cause at once.
#[derive(Clone, Debug, thiserror::Error)]
pub struct OperationError {
    /// This rank, in the group of the operation.
    pub rank: usize,
    /// The operation that failed here, with its number; `None` if the call was refused because the
    /// group had failed before.
    pub operation: Option<Signature>,
    /// The rank that was waited for, if it was one.
    pub peer: Option<usize>,
    /// The link to it.
    pub link: Option<LinkKind>,
    /// How long the operation had run.
    pub elapsed: Duration,
    /// What went wrong first, anywhere in the group.
    pub cause: Arc<Cause>,
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}: ", self.rank)?;
        match &self.operation {
            Some(operation) => {
                write!(f, "{operation} failed after {:.1?}", self.elapsed)?;
                if let Some(peer) = self.peer {
                    write!(f, ", waiting for rank {peer}")?;
                    if let Some(link) = self.link {
                        write!(f, " over {link}")?;
                    }
                }
                f.write_str(": ")?;
            }
            None => f.write_str("the group can no longer be used: ")?,
        }
        write!(f, "{}", self.cause)
    }
}

/// What went wrong first. It travels to every rank. Ranks in it are those of the whole job.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cause {
    /// A process ended without closing its group.
    #[error("rank {rank} died ({how})")]
    RankDied {
        /// The rank.
        rank: usize,
        /// How it was noticed.
        how: String,
    },
    /// A rank closed the group while others still needed it.
    #[error("rank {rank} has left the group")]
    RankLeft {
        /// The rank.
        rank: usize,
    },
    /// A link broke while both processes live.
    #[error("the {link} link between ranks {first} and {second} broke: {reason}")]
    LinkLost {
        /// One rank.
        first: usize,
        /// The other one.
        second: usize,
        /// The kind of link.
        link: LinkKind,
        /// The operating system's answer.
        reason: String,
    },
    /// Nothing moved for as long as the deadline allows.
    #[error("rank {rank} saw no progress for {waited:.1?} in {operation}{}; the deadline can be set with LYCAON_TIMEOUT", waiting_for(*.peer))]
    Deadline {
        /// The rank that gave up.
        rank: usize,
        /// What it was waiting in.
        operation: Signature,
        /// The rank it was waiting for, if one can be named.
        peer: Option<usize>,
        /// For how long nothing moved.
        waited: Duration,
    },
    /// Two ranks called different things at the same place of the order.
    #[error(
        "ranks called different things: rank {first} is in {first_call}, rank {second} in {second_call}"
    )]
    Mismatch {
        /// One rank.
        first: usize,
        /// What it called.
        first_call: Signature,
        /// Another rank.
        second: usize,
        /// What that one called.
        second_call: Signature,
    },
    /// The program asked for an end of waiting, for example by Ctrl-C.
    #[error("rank {rank} was interrupted in {operation}")]
    Interrupted {
        /// The rank.
        rank: usize,
        /// What it was waiting in.
        operation: Signature,
    },
    /// This process closed the group itself.
    #[error("the group was closed by this process")]
    Closed,
    /// This process is a fork of the one that owns the group.
    #[error(
        "the group belongs to process {owner}, and this is its forked child; start a group of its own in the child"
    )]
    Forked {
        /// The process id of the owner.
        owner: u32,
    },
    /// A peer sent what the protocol does not allow.
    #[error("rank {peer} sent rank {rank} what the protocol does not allow: {what}")]
    Protocol {
        /// The rank that received it.
        rank: usize,
        /// The sender.
        peer: usize,
        /// What it was.
        what: String,
    },
    /// This library's own thread panicked: a bug to report.
    #[error("an internal thread of rank {rank} panicked: {message}")]
    Panicked {
        /// The rank.
        rank: usize,
        /// The panic message.
        message: String,
    },
}

fn waiting_for(peer: Option<usize>) -> String {
    peer.map_or_else(String::new, |peer| format!(", waiting for rank {peer}"))
}
