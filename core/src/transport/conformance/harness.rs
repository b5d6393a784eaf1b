//! Endpoints with the memory that tests lend to them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::call::{Call, Operation, Signature};
use crate::dtype::DType;
use crate::sys::buf::testing::Loan;
use crate::sys::poller::Poller;
use crate::transport::{Envelope, Event, Lane, LaneKind, Loss, PostId, Transport};

/// No test waits longer than this for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Connected endpoints.
pub(crate) struct Fabric {
    pub nodes: Vec<Node>,
    /// Breaks the link between two ranks as hard as the medium allows; `None` if it cannot be
    /// broken from outside.
    pub cut: Option<Box<dyn Fn(usize, usize)>>,
}

/// Makes fabrics of one kind.
pub(crate) type Factory = fn(size: usize) -> Fabric;

/// One endpoint with the memory that is lent to it.
pub(crate) struct Node {
    pub rank: usize,
    pub transport: Box<dyn Transport>,
    pub poller: Arc<Poller>,
    loans: HashMap<PostId, Loan>,
    done: HashMap<PostId, Loan>,
    /// Events that are no completions, in their order.
    pub news: Vec<Event>,
    sequences: HashMap<(usize, bool, Lane), u64>,
    next: u64,
}

impl Node {
    pub(crate) fn new(rank: usize, transport: Box<dyn Transport>, poller: Arc<Poller>) -> Self {
        Node {
            rank,
            transport,
            poller,
            loans: HashMap::new(),
            done: HashMap::new(),
            news: Vec::new(),
            sequences: HashMap::new(),
            next: 0,
        }
    }

    /// Posts with the signature of the next message on the lane.
    pub(crate) fn send(&mut self, peer: usize, lane: Lane, bytes: Vec<u8>) -> PostId {
        let signature = self.next_signature(peer, true, lane, bytes.len());
        self.send_as(peer, lane, signature, bytes)
    }

    pub(crate) fn recv(&mut self, peer: usize, lane: Lane, len: usize) -> PostId {
        let signature = self.next_signature(peer, false, lane, len);
        self.recv_as(peer, lane, signature, len)
    }

    pub(crate) fn send_as(
        &mut self,
        peer: usize,
        lane: Lane,
        signature: Signature,
        bytes: Vec<u8>,
    ) -> PostId {
        let (id, loan) = (self.name(), Loan::new(bytes));
        self.transport.post_send(peer, Envelope { lane, signature }, loan.to_send(), id);
        self.loans.insert(id, loan);
        id
    }

    pub(crate) fn recv_as(
        &mut self,
        peer: usize,
        lane: Lane,
        signature: Signature,
        len: usize,
    ) -> PostId {
        let (id, loan) = (self.name(), Loan::new(vec![0xEE; len]));
        self.transport.post_recv(peer, Envelope { lane, signature }, loan.to_recv(), id);
        self.loans.insert(id, loan);
        id
    }

    fn name(&mut self) -> PostId {
        self.next += 1;
        PostId(self.rank as u64 * 1_000_000_000 + self.next)
    }

    fn next_signature(&mut self, peer: usize, sends: bool, lane: Lane, len: usize) -> Signature {
        let sequence = self.sequences.entry((peer, sends, lane)).or_default();
        let operation = match lane.kind {
            LaneKind::Collective => Operation::AllGather,
            LaneKind::Message { .. } if sends => Operation::Send,
            LaneKind::Message { .. } => Operation::Recv,
        };
        *sequence += 1;
        signature(operation, DType::U8, len as u64, *sequence - 1)
    }

    /// One round of progress. Returns whether anything moved.
    pub(crate) fn poll(&mut self) -> bool {
        let mut events = Vec::new();
        let moved = self.transport.progress(&mut events);
        for event in events {
            match event {
                Event::Sent(id) | Event::Received(id) => {
                    let loan = self.loans.remove(&id);
                    let loan = loan.unwrap_or_else(|| panic!("{event:?} was not in flight"));
                    self.done.insert(id, loan);
                }
                other => self.news.push(other),
            }
        }
        moved
    }

    /// Progress, and sleep if there is nothing to do.
    pub(crate) fn poll_or_sleep(&mut self, at_most: Duration) {
        if !self.poll() && self.transport.prepare_sleep() {
            // Nothing wakes the sleeper of a transport that has to be polled.
            let blind = !self.transport.capabilities().can_sleep;
            let at_most = if blind { at_most.min(Duration::from_micros(200)) } else { at_most };
            self.poller.wait(at_most).expect("waiting");
        }
    }

    pub(crate) fn is_done(&self, id: PostId) -> bool {
        self.done.contains_key(&id)
    }

    /// The bytes of a completed post.
    pub(crate) fn take(&mut self, id: PostId) -> Vec<u8> {
        let loan = self.done.remove(&id).unwrap_or_else(|| panic!("{id:?} is not done"));
        loan.bytes().to_vec()
    }

    /// The bytes of a post that has not completed.
    pub(crate) fn peek(&self, id: PostId) -> &[u8] {
        self.loans[&id].bytes()
    }

    /// Sleeps until the post has completed.
    pub(crate) fn wait(&mut self, id: PostId) -> Vec<u8> {
        let start = Instant::now();
        while !self.is_done(id) {
            assert!(start.elapsed() < PATIENCE, "rank {}: {id:?} never completed", self.rank);
            // why: a peer that has nothing left to do may have closed already.
            let bad = |event: &Event| !matches!(event, Event::Lost { loss: Loss::Closed, .. });
            assert!(!self.news.iter().any(bad), "rank {}: {:?}", self.rank, self.news);
            self.poll_or_sleep(PATIENCE);
        }
        self.take(id)
    }

    pub(crate) fn close(&mut self) {
        self.transport.close(Duration::from_secs(10));
    }
}

impl Fabric {
    /// Polls all nodes from this thread until something holds.
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut(&mut [Node]) -> bool) {
        let start = Instant::now();
        while !holds(&mut self.nodes) {
            assert!(start.elapsed() < PATIENCE, "never happened: {what}");
            for node in &mut self.nodes {
                node.poll();
            }
        }
    }

    /// Polls so often that whatever can move has moved.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 300 {
            quiet += 1;
            for node in &mut self.nodes {
                if node.poll() {
                    quiet = 0;
                }
            }
        }
    }

    pub(crate) fn received(&mut self, rank: usize, id: PostId) -> Vec<u8> {
        self.until("receive", |nodes| nodes[rank].is_done(id));
        self.nodes[rank].take(id)
    }

    /// Closes all nodes at the same time, as processes do.
    pub(crate) fn close(self) {
        let threads: Vec<_> = self
            .nodes
            .into_iter()
            .map(|mut node| std::thread::spawn(move || node.close()))
            .collect();
        let start = Instant::now();
        for thread in threads {
            thread.join().expect("closing");
        }
        assert!(start.elapsed() < Duration::from_secs(9), "close ran into its time-out");
    }
}

pub(crate) fn signature(op: Operation, dtype: DType, count: u64, sequence: u64) -> Signature {
    Signature { sequence, call: Call::new(op, dtype, count) }
}

/// A lane for messages with a tag.
pub(crate) const fn tagged(tag: u32) -> Lane {
    Lane { group: 0, kind: LaneKind::Message { tag } }
}

/// The lane of a group's collectives.
pub(crate) const fn collective(group: u64) -> Lane {
    Lane { group, kind: LaneKind::Collective }
}

/// Bytes that differ by sender, lane, message and position.
pub(crate) fn contents(from: usize, lane: Lane, index: u64, len: usize) -> Vec<u8> {
    let tag = match lane.kind {
        LaneKind::Collective => 7,
        LaneKind::Message { tag } => u64::from(tag) + 11,
    };
    let mut state =
        ((from as u64 + 1) * 0x9e37_79b9) ^ (lane.group << 40) ^ (tag << 20) ^ (index << 3);
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend((next() >> 7).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
