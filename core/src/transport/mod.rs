//! Bytes between two ranks.
//!
//! A transport joins this rank with some of the others by *links* and moves two-sided messages
//! over them. Per peer and [`Lane`] messages are first in, first out; lanes are independent of one
//! another, so that a message nobody asks for yet never holds up another lane. A send never
//! overruns the receiver, and a receive may be posted before or after the message was sent.
//! Everything is non-blocking: posting starts a transfer, [`Transport::progress`] moves it on and
//! reports what has completed. The caller decides how to wait (see `fabric`): it polls for a while,
//! then sleeps on the file descriptors that transports have registered with the shared poller.
//!
//! Posted buffers stay borrowed until their completion was reported or [`Transport::cancel`]
//! returned.

pub(crate) mod arena;
#[cfg(test)]
mod conformance;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod shm;
pub(crate) mod stream;
pub(crate) mod tcp;
#[allow(dead_code)]
pub(crate) mod verbs;

use crate::call::Signature;
use crate::error::LinkKind;
use crate::sys::buf::{ConstBuf, MutBuf};

/// One of the independent message streams between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    /// The group; 0 is the whole job.
    pub group: u64,
    /// What for.
    pub kind: LaneKind,
}

/// What a lane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneKind {
    /// The collectives of a group.
    Collective,
    /// Messages with this tag.
    Message {
        /// The tag.
        tag: u32,
    },
}

/// What every message carries besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The stream it belongs to.
    pub lane: Lane,
    /// The call it belongs to. A receive whose posted signature differs from the message's (for
    /// messages between two ranks: in sequence, dtype or count) is reported as
    /// [`Event::Mismatch`].
    pub signature: Signature,
}

/// A name given by the poster; it comes back in the [`Event`]. Unique per fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PostId(pub u64);

/// What `progress` reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The bytes of a send may be overwritten. (Not: they have arrived.)
    Sent(PostId),
    /// A message has arrived whole in its buffer.
    Received(PostId),
    /// A message met a receive of a different call.
    Mismatch {
        /// The sender (rank of the job).
        peer: usize,
        /// The stream.
        lane: Lane,
        /// What this rank has posted.
        local: Signature,
        /// What the message belongs to.
        remote: Signature,
    },
    /// The link is gone. Everything that had arrived whole was reported before; what is still
    /// posted to this peer will not complete and its buffers are released. Reported once, and
    /// again for whatever is posted later.
    Lost {
        /// The other side (rank of the job).
        peer: usize,
        /// In which way.
        loss: Loss,
    },
}

/// How a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The other side closed it in order.
    Closed,
    /// It broke; the operating system's answer.
    Broken(String),
    /// The other side sent what the protocol does not allow.
    Protocol(String),
}

/// What a transport can do. Data, so that nobody has to ask for a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// What its links are called.
    pub kind: LinkKind,
    /// Largest single message in bytes.
    pub max_message: u64,
    /// Messages up to this size travel at once; larger ones wait until the receive is posted.
    pub eager_limit: usize,
    /// Cables or sockets per link.
    pub rails: usize,
    /// A thread may sleep on its file descriptors. If not, it has to be polled.
    pub can_sleep: bool,
    /// Message sizes on the wire are rounded up to this many bytes (1: they are not).
    pub frame: usize,
}

/// Bytes and messages that have passed a link, counted at this side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkCounters {
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Bytes on the wire that are no payload, sent.
    pub overhead_sent: u64,
}

/// The contract of the module documentation. `peer` is always a rank of the job.
pub(crate) trait Transport: Send {
    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// Starts sending `data`. Never blocks.
    fn post_send(&mut self, peer: usize, envelope: Envelope, data: ConstBuf, id: PostId);

    /// Starts receiving exactly `into.len()` bytes. Never blocks.
    fn post_recv(&mut self, peer: usize, envelope: Envelope, into: MutBuf, id: PostId);

    /// Moves everything on as far as it goes without blocking and appends what has completed.
    /// Returns whether any byte moved.
    fn progress(&mut self, events: &mut Vec<Event>) -> bool;

    /// Prepares for the caller to sleep on the poller: after this, anything that could let
    /// `progress` do something makes a registered file descriptor ready. Returns `false` if there
    /// is something to do already.
    fn prepare_sleep(&mut self) -> bool;

    /// Lets go of a posted buffer that has not completed. What still arrives for it is discarded.
    fn cancel(&mut self, id: PostId);

    /// Envelopes of messages that have arrived from `peer` and that no receive has asked for; for
    /// diagnosis.
    fn unexpected(&self, peer: usize) -> Vec<Envelope>;

    /// Forgets a group's lanes: nothing more will be posted to them.
    fn forget_group(&mut self, group: u64);

    /// What has passed the link to `peer`.
    fn counters(&self, peer: usize) -> LinkCounters;

    /// Hands on what is still buffered for sending, tells every peer that nothing more will come,
    /// and waits for their word of the same, at most for `patience`. Later posts are reported lost.
    fn close(&mut self, patience: std::time::Duration);
}
