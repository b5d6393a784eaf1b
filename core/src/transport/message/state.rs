//! What the message layer keeps about posts, lanes and frames to be written.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::Settings;
use super::frame::{Frame, FrameError, HEADER, Subject};
use crate::call::{Operation, Signature};
use crate::sys::buf::{ConstBuf, MutBuf};
use crate::transport::{Event, Lane, LaneKind, PostId};

/// Index into a [`Slab`].
pub(super) type Key = usize;

/// Entries with stable keys.
#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<Key>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Slab { entries: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, value: T) -> Key {
        match self.free.pop() {
            Some(key) => {
                self.entries[key] = Some(value);
                key
            }
            None => {
                self.entries.push(Some(value));
                self.entries.len() - 1
            }
        }
    }

    pub(super) fn remove(&mut self, key: Key) -> T {
        self.free.push(key);
        self.entries[key].take().expect("a key is removed once")
    }

    pub(super) fn get(&self, key: Key) -> &T {
        self.entries[key].as_ref().expect("keys in use are live")
    }

    pub(super) fn get_mut(&mut self, key: Key) -> &mut T {
        self.entries[key].as_mut().expect("keys in use are live")
    }

    pub(super) fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<Key> {
        self.entries.iter().position(|entry| entry.as_ref().is_some_and(&wanted))
    }

    /// Removes everything that `gone` holds for.
    pub(super) fn drop_where(&mut self, gone: impl Fn(&T) -> bool) {
        for (key, entry) in self.entries.iter_mut().enumerate() {
            if entry.as_ref().is_some_and(&gone) {
                *entry = None;
                self.free.push(key);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

/// A posted send that has not completed.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub peer: usize,
    /// `None` once it was cancelled.
    pub id: Option<PostId>,
    pub subject: Subject,
    pub data: ConstBuf,
    pub stage: Stage,
    /// Bytes handed out to rails.
    pub taken: usize,
    /// Bytes that the streams have accepted.
    pub written: usize,
    /// A mismatch was reported.
    pub reported: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Small, and the lane's credits are used up.
    Blocked,
    /// Large, and not asked for yet.
    Waiting,
    /// On its way.
    Flowing,
}

/// A posted receive that has not completed.
#[derive(Debug)]
pub(super) struct Incoming {
    pub peer: usize,
    /// `None` once it was cancelled: what arrives is discarded.
    pub id: Option<PostId>,
    /// The call of this side; `len` is the length of the buffer.
    pub subject: Subject,
    pub into: MutBuf,
    pub received: u64,
    /// A mismatch was reported.
    pub reported: bool,
}

/// State shared by the peers of a transport.
#[derive(Debug)]
pub(super) struct Shared {
    pub settings: Settings,
    pub sends: Slab<Outgoing>,
    pub recvs: Slab<Incoming>,
    pub events: Vec<Event>,
    /// Groups whose lanes are gone.
    pub forgotten: HashSet<u64>,
    /// Posts in flight, by peer.
    pub live: Vec<usize>,
}

impl Shared {
    pub(super) fn new(settings: Settings, peers: usize) -> Self {
        Shared {
            settings,
            sends: Slab::new(),
            recvs: Slab::new(),
            events: Vec::new(),
            forgotten: HashSet::new(),
            live: vec![0; peers],
        }
    }

    pub(super) fn add_send(&mut self, send: Outgoing) -> Key {
        self.live[send.peer] += 1;
        self.sends.insert(send)
    }

    pub(super) fn remove_send(&mut self, key: Key) -> Outgoing {
        let send = self.sends.remove(key);
        self.live[send.peer] -= 1;
        send
    }

    pub(super) fn add_recv(&mut self, recv: Incoming) -> Key {
        self.live[recv.peer] += 1;
        self.recvs.insert(recv)
    }

    pub(super) fn remove_recv(&mut self, key: Key) -> Incoming {
        let recv = self.recvs.remove(key);
        self.live[recv.peer] -= 1;
        recv
    }

    /// Lets go of everything posted to `peer`.
    pub(super) fn release(&mut self, peer: usize) {
        self.sends.drop_where(|send| send.peer == peer);
        self.recvs.drop_where(|recv| recv.peer == peer);
        self.live[peer] = 0;
    }
}

/// A small message that arrived before its receive was posted.
#[derive(Debug)]
pub(super) struct Held {
    pub subject: Subject,
    pub bytes: Vec<u8>,
}

/// What the sender may still send without being asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Credit {
    pub bytes: u64,
    pub messages: u64,
}

impl Credit {
    pub(super) fn covers(&self, bytes: u64) -> bool {
        self.messages > 0 && self.bytes >= bytes
    }

    pub(super) fn take(&mut self, bytes: u64) {
        self.bytes -= bytes;
        self.messages -= 1;
    }

    pub(super) fn give(&mut self, bytes: u64, messages: u64) {
        self.bytes += bytes;
        self.messages += messages;
    }
}

/// Both directions of one lane. Entries are ordered by message index.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    pub next_send: u64,
    pub credit: Credit,
    pub blocked: VecDeque<(u64, Key)>,
    pub waiting: VecDeque<(u64, Key)>,
    /// The peer asks for messages that are not posted yet.
    pub cleared: VecDeque<(u64, Subject)>,
    /// Small messages that the peer is not known to have consumed, and whether a mismatch was
    /// reported for them.
    pub recent: VecDeque<(u64, (Signature, bool))>,
    /// Up to which message the peer was told that one is waiting.
    pub announced_to: u64,
    /// It is in the peer's list of lanes to be looked at for announcements.
    pub listed: bool,

    pub next_recv: u64,
    pub posted: VecDeque<(u64, Key)>,
    pub held: VecDeque<(u64, Held)>,
    pub held_bytes: u64,
    /// Consumed and not yet returned to the sender.
    pub owed: Credit,
    /// A large message that waits at the sender.
    pub announced: Option<Subject>,
}

impl LaneState {
    pub(super) fn new(settings: &Settings) -> Self {
        LaneState {
            credit: Credit { bytes: settings.credit_bytes, messages: settings.credit_messages },
            ..LaneState::default()
        }
    }
}

/// Position of the entry for message `index`. Mostly it is the first.
pub(super) fn find<T>(entries: &VecDeque<(u64, T)>, index: u64) -> Option<usize> {
    match entries.front() {
        None => None,
        Some((first, _)) if *first == index => Some(0),
        Some(_) => entries.binary_search_by_key(&index, |(index, _)| *index).ok(),
    }
}

/// Removes and returns the entry for message `index`.
pub(super) fn take<T>(entries: &mut VecDeque<(u64, T)>, index: u64) -> Option<T> {
    let at = find(entries, index)?;
    entries.remove(at).map(|(_, value)| value)
}

/// Inserts at the place of `index`; `false` if there is one already.
pub(super) fn insert<T>(entries: &mut VecDeque<(u64, T)>, index: u64, value: T) -> bool {
    if entries.back().is_none_or(|(last, _)| *last < index) {
        entries.push_back((index, value));
        return true;
    }
    match entries.binary_search_by_key(&index, |(index, _)| *index) {
        Ok(_) => false,
        Err(at) => {
            entries.insert(at, (index, value));
            true
        }
    }
}

/// Whether a receive and a message belong to the same call.
pub(super) fn agree(lane: Lane, recv: &Signature, send: &Signature) -> bool {
    match lane.kind {
        LaneKind::Collective => recv == send,
        LaneKind::Message { .. } => {
            let (to, from) = (&recv.call, &send.call);
            recv.sequence == send.sequence
                && to.dtype == from.dtype
                && to.count == from.count
                && to.layout == from.layout
                && matches!(to.operation, Operation::Recv | Operation::SendRecv)
                && matches!(from.operation, Operation::Send | Operation::SendRecv)
        }
    }
}

/// What the peer did against the protocol.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum Violation {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a message of {len} bytes came unasked; the limit for that is {limit}")]
    TooLong { len: u64, limit: usize },
    #[error("message {index} of a lane came unasked and no credit was left for it")]
    NoCredit { index: u64 },
    #[error("credits beyond the window of the lane were returned")]
    TooMuchCredit,
    #[error("message {index} of a lane came twice")]
    Repeated { index: u64 },
    #[error("part of message {index} of a lane came, which was not asked for")]
    Unasked { index: u64 },
    #[error("message {index} of a lane was asked for, which does not wait")]
    NotWaiting { index: u64 },
    #[error("{signature}: a message of {sent} bytes met a receive of {posted} bytes")]
    Length { signature: Signature, sent: u64, posted: u64 },
    #[error("a frame came after the last one")]
    AfterClose,
}

/// A frame on its way to the stream.
#[derive(Debug)]
pub(super) struct OutFrame {
    pub header: [u8; HEADER],
    /// Bytes of header and body that the stream has accepted.
    pub written: usize,
    pub body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    None,
    /// A range of a posted send.
    Posted {
        key: Key,
        from: usize,
        len: usize,
    },
    /// What was left of a cancelled send.
    Copied {
        bytes: Vec<u8>,
        /// It is the end of a whole message.
        message: bool,
    },
}

impl OutFrame {
    pub(super) fn control(frame: &Frame) -> Self {
        OutFrame { header: frame.encode(), written: 0, body: Body::None }
    }

    pub(super) fn body_len(&self) -> usize {
        match &self.body {
            Body::None => 0,
            Body::Posted { len, .. } => *len,
            Body::Copied { bytes, .. } => bytes.len(),
        }
    }

    /// The bytes of header and body that are still to be written.
    pub(super) fn rest<'a>(&'a self, sends: &'a Slab<Outgoing>) -> (&'a [u8], &'a [u8]) {
        let header = &self.header[self.written.min(HEADER)..];
        let from = self.written.saturating_sub(HEADER);
        let body = match &self.body {
            Body::None => &[][..],
            Body::Posted { key, from, len } => &sends.get(*key).data.bytes()[*from..*from + *len],
            Body::Copied { bytes, .. } => bytes,
        };
        (header, &body[from..])
    }
}

/// Hashes lanes: a few multiplications instead of a keyed hash; group numbers and tags are not
/// chosen by strangers.
#[derive(Debug, Default)]
pub(super) struct LaneHasher(u64);

pub(super) type BuildLaneHasher = BuildHasherDefault<LaneHasher>;

impl LaneHasher {
    fn mix(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    }
}

impl Hasher for LaneHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.mix(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0xff51_afd7_ed55_8ccd)
    }
}
