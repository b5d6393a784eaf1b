//! Messages over streams.
//!
//! A [`Messenger`] joins this rank with its peers by one or several [`Stream`]s each (rails) and
//! makes a [`Transport`] of them. `docs/wire-protocol.md`, "Data links", describes the bytes.
//!
//! - Small messages (up to the eager limit) travel at once, with several rails on one after the
//!   other. If no receive is posted they are kept; how much may be kept is governed by credits per
//!   peer and lane, so a lane that nobody receives from never blocks another one, and memory is
//!   bounded.
//! - Large messages are driven by the receiver: posting the receive sends a clear-to-send, and the
//!   sender lets all rails take parts of it in turn, each as fast as it goes. The bytes go from the sender's buffer to the stream
//!   and from the stream to the receiver's buffer without a stop.
//! - Message and receive are matched by their number in the lane, and their signatures are
//!   compared before a byte reaches the buffer.

mod ending;
mod frame;
mod peer;
mod rail;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::peer::Peer;
use self::state::Shared;
use super::stream::Stream;
use super::{Capabilities, Envelope, Event, LinkCounters, Loss, PostId, Transport};
use crate::error::LinkKind;
use crate::sys::buf::{ConstBuf, MutBuf};
use crate::sys::poller::Poller;

/// Peers that nothing is expected from are looked at once in so many calls of `progress`.
const SCAN_EVERY: u32 = 64;
/// After so many calls without movement, the peers are told of large messages that wait for them.
const ANNOUNCE_AFTER: u32 = 1024;

/// How long to sleep at a time where nothing tells that there is something to do.
const NAP: Duration = Duration::from_micros(200);

/// How a [`Messenger`] cuts and bounds. Both sides of a link must use the same values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// What its links are called.
    pub kind: LinkKind,
    /// Messages up to this size travel at once.
    pub eager_limit: usize,
    /// Bytes of small messages that may wait for a receive, per peer and lane. At least twice the
    /// eager limit.
    pub credit_bytes: u64,
    /// Small messages that may wait for a receive, per peer and lane. At least 2.
    pub credit_messages: u64,
    /// Large messages travel in parts of at most this size.
    pub fragment: usize,
    /// Whether a thread can sleep on the streams.
    pub can_sleep: bool,
}

impl Settings {
    /// Good values for links of this kind.
    pub(crate) const fn new(kind: LinkKind) -> Self {
        let eager_limit = match kind {
            LinkKind::Tcp | LinkKind::Rdma => 64 * 1024,
            LinkKind::Shm | LinkKind::Memory => 16 * 1024,
        };
        Settings {
            kind,
            eager_limit,
            credit_bytes: 256 * 1024,
            credit_messages: 64,
            fragment: 1024 * 1024,
            can_sleep: true,
        }
    }
}

/// The message layer over streams; see the module documentation.
#[derive(Debug)]
pub(crate) struct Messenger<S> {
    capabilities: Capabilities,
    shared: Shared,
    peers: Vec<Option<Peer<S>>>,
    poller: Arc<Poller>,
    calls: u32,
    idle: u32,
    scan: bool,
    closed: bool,
    keep: Option<Box<dyn std::fmt::Debug + Send>>,
}

impl<S: Stream> Messenger<S> {
    /// A transport over `links`: for every rank of the job its streams, none for ranks that this
    /// transport does not reach (among them this rank itself). The streams have registered with
    /// `poller`.
    ///
    /// # Panics
    /// If the settings contradict each other.
    pub(crate) fn new(settings: Settings, poller: Arc<Poller>, links: Vec<Vec<S>>) -> Self {
        assert!(settings.credit_bytes >= 2 * settings.eager_limit as u64, "{settings:?}");
        assert!(settings.credit_messages >= 2 && settings.fragment > 0, "{settings:?}");
        let capabilities = Capabilities {
            kind: settings.kind,
            max_message: isize::MAX as u64,
            eager_limit: settings.eager_limit,
            rails: links.iter().map(Vec::len).max().unwrap_or(0),
            can_sleep: settings.can_sleep,
            frame: 1,
        };
        let shared = Shared::new(settings, links.len());
        let peers = links
            .into_iter()
            .enumerate()
            .map(|(rank, streams)| (!streams.is_empty()).then(|| Peer::new(rank, streams)))
            .collect();
        Messenger {
            capabilities,
            shared,
            peers,
            poller,
            calls: 0,
            idle: 0,
            scan: true,
            closed: false,
            keep: None,
        }
    }

    /// Keeps something alive as long as its streams: what they are woken by.
    pub(crate) fn keeping(mut self, guard: impl std::fmt::Debug + Send + 'static) -> Self {
        self.keep = Some(Box::new(guard));
        self
    }

    fn peer(&mut self, rank: usize) -> (&mut Peer<S>, &mut Shared) {
        let kind = self.capabilities.kind;
        let peer = self.peers.get_mut(rank).and_then(Option::as_mut);
        (peer.unwrap_or_else(|| panic!("no {kind} link to rank {rank}")), &mut self.shared)
    }

    /// Moves everything on once; with `all`, also where nothing is expected.
    fn turn(&mut self, all: bool) -> bool {
        let mut moved = false;
        for peer in self.peers.iter_mut().flatten() {
            if peer.lost.is_some() {
                continue;
            }
            if peer.has_output() {
                moved |= peer.flush(&mut self.shared);
            }
            if all || self.shared.live[peer.rank] > 0 {
                moved |= peer.receive(&mut self.shared);
                if peer.has_output() {
                    moved |= peer.flush(&mut self.shared);
                }
            }
            peer.settle(&mut self.shared);
        }
        moved
    }

    #[cfg(test)]
    pub(crate) fn posts_in_flight(&self) -> usize {
        self.shared.sends.len() + self.shared.recvs.len()
    }
}

impl<S: Stream> Transport for Messenger<S> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn post_send(&mut self, peer: usize, envelope: Envelope, data: ConstBuf, id: PostId) {
        let (peer, shared) = self.peer(peer);
        peer.post_send(envelope, data, id, shared);
    }

    fn post_recv(&mut self, peer: usize, envelope: Envelope, into: MutBuf, id: PostId) {
        let (peer, shared) = self.peer(peer);
        peer.post_recv(envelope, into, id, shared);
    }

    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        self.calls = self.calls.wrapping_add(1);
        let all = std::mem::take(&mut self.scan) || self.calls.is_multiple_of(SCAN_EVERY);
        let mut moved = self.turn(all);
        moved |= !self.shared.events.is_empty();
        events.append(&mut self.shared.events);
        self.idle = if moved { 0 } else { self.idle.saturating_add(1) };
        if self.idle == ANNOUNCE_AFTER {
            for peer in self.peers.iter_mut().flatten() {
                if peer.lost.is_none() {
                    peer.announce(&self.shared);
                }
            }
        }
        moved
    }

    fn prepare_sleep(&mut self) -> bool {
        // why: whatever ends the sleep may have come from a peer that nothing is expected from.
        self.scan = true;
        let mut quiet = true;
        for peer in self.peers.iter_mut().flatten() {
            quiet &= peer.prepare_sleep(&mut self.shared);
        }
        quiet && self.shared.events.is_empty()
    }

    fn cancel(&mut self, id: PostId) {
        if let Some(key) = self.shared.sends.find(|send| send.id == Some(id)) {
            let rank = self.shared.sends.get(key).peer;
            let (peer, shared) = self.peer(rank);
            peer.cancel_send(key, shared);
        }
        if let Some(key) = self.shared.recvs.find(|recv| recv.id == Some(id)) {
            let rank = self.shared.recvs.get(key).peer;
            let (peer, shared) = self.peer(rank);
            peer.cancel_recv(key, shared);
        }
    }

    fn unexpected(&self, peer: usize) -> Vec<Envelope> {
        self.peers.get(peer).and_then(Option::as_ref).map_or_else(Vec::new, Peer::unexpected)
    }

    fn forget_group(&mut self, group: u64) {
        self.shared.forgotten.insert(group);
        for peer in self.peers.iter_mut().flatten() {
            peer.forget_group(group, &mut self.shared);
        }
    }

    fn counters(&self, peer: usize) -> LinkCounters {
        let peer = self.peers.get(peer).and_then(Option::as_ref);
        peer.map_or_else(LinkCounters::default, |peer| peer.counters)
    }

    fn close(&mut self, patience: Duration) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let deadline = Instant::now() + patience;
        for peer in self.peers.iter_mut().flatten() {
            peer.say_close();
        }
        loop {
            self.turn(true);
            let mut ended = true;
            for peer in self.peers.iter_mut().flatten() {
                ended &= peer.finish();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if ended || left.is_zero() {
                break;
            }
            let mut quiet = true;
            for peer in self.peers.iter_mut().flatten() {
                quiet &= peer.prepare_sleep(&mut self.shared);
            }
            let most = if self.capabilities.can_sleep { left } else { left.min(NAP) };
            if quiet && let Err(error) = self.poller.wait(most) {
                tracing::warn!(%error, "waiting for the peers' end of the links failed");
                break;
            }
        }
        for peer in self.peers.iter_mut().flatten() {
            if peer.lost.is_none() {
                peer.lose(Loss::Closed, &mut self.shared);
            }
        }
    }
}
