//! The message layer between two threads, without a group around it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::call::{Call, Operation, Signature};
use crate::collective::plan::{Slot, Span};
use crate::dtype::DType;
use crate::error::LinkKind;
use crate::sys::buf::Buffers;
use crate::sys::poller::Poller;
use crate::transport::message::Settings;
use crate::transport::tcp::{self, Link, Listener, Request};
use crate::transport::{Envelope, Event, Lane, LaneKind, PostId, Transport, memory};

const PATIENCE: Duration = Duration::from_secs(60);

/// One side of a pair.
pub struct Endpoint {
    peer: usize,
    transport: Box<dyn Transport>,
    poller: Arc<Poller>,
    sequence: [u64; 2],
    events: Vec<Event>,
    /// Idle turns before the thread sleeps; `None`: never.
    pub spins: Option<u32>,
}

impl Endpoint {
    fn new(rank: usize, transport: Box<dyn Transport>, poller: Arc<Poller>) -> Self {
        let (peer, sequence, events) = (1 - rank, [0; 2], Vec::new());
        Endpoint { peer, transport, poller, sequence, events, spins: None }
    }

    /// Two threads of one process.
    pub fn memory_pair() -> [Endpoint; 2] {
        let (ends, _) = memory::fabric(2, &memory::Options::default()).expect("a poller");
        let mut ends = ends.into_iter();
        [0, 1].map(|rank| {
            let end = ends.next().expect("two of them");
            Endpoint::new(rank, Box::new(end.transport), end.poller)
        })
    }

    /// Two ends of a TCP link over the loopback.
    pub fn tcp_pair(rails: usize) -> [Endpoint; 2] {
        let at: SocketAddr = ([127, 0, 0, 1], 0).into();
        let listeners = [0, 1].map(|_| Listener::bind(&[at]).expect("a port"));
        let joined = std::thread::scope(|scope| {
            let threads = [0, 1].map(|me| {
                let peers = [(1 - me, listeners[1 - me].candidates().to_vec())];
                let listener = &listeners[me];
                scope.spawn(move || {
                    let deadline = Instant::now() + PATIENCE;
                    let (key, job) = (&[1; 32], &b"bench"[..]);
                    let request = Request { me, peers: &peers, key, job, rails, deadline };
                    tcp::establish(listener, &request, &mut || false).expect("a link")
                })
            });
            threads.map(|thread| thread.join().expect("a link"))
        });
        let mut joined: Vec<Vec<Link>> = joined.into_iter().collect();
        joined.reverse();
        [0, 1].map(|rank| {
            let poller = Poller::new().expect("a poller");
            let links = joined.pop().expect("two of them");
            let settings = Settings::new(LinkKind::Tcp);
            let transport = tcp::transport(&poller, settings, 2, links).expect("registered");
            Endpoint::new(rank, Box::new(transport), poller)
        })
    }

    /// Sends, and waits until the bytes may be overwritten.
    pub fn send(&mut self, bytes: &[u8]) {
        let buffers = Buffers::new(bytes, &mut []);
        let data = buffers.span(Span::new(Slot::Input, 0, bytes.len()));
        let (envelope, id) = self.envelope(Operation::Send, bytes.len());
        self.transport.post_send(self.peer, envelope, data, id);
        self.wait(1);
    }

    /// Receives.
    pub fn recv(&mut self, into: &mut [u8]) {
        let len = into.len();
        let mut buffers = Buffers::new(&[], into);
        let place = buffers.span_mut(Span::new(Slot::Output, 0, len));
        let (envelope, id) = self.envelope(Operation::Recv, len);
        self.transport.post_recv(self.peer, envelope, place, id);
        self.wait(1);
    }

    /// Sends and receives at the same time.
    pub fn exchange(&mut self, bytes: &[u8], into: &mut [u8]) {
        let (sends, receives) = (bytes.len(), into.len());
        let mut buffers = Buffers::new(bytes, into);
        let data = buffers.span(Span::new(Slot::Input, 0, sends));
        let place = buffers.span_mut(Span::new(Slot::Output, 0, receives));
        let (envelope, id) = self.envelope(Operation::Recv, receives);
        self.transport.post_recv(self.peer, envelope, place, id);
        let (envelope, id) = self.envelope(Operation::Send, sends);
        self.transport.post_send(self.peer, envelope, data, id);
        self.wait(2);
    }

    /// Ends the link in order; both sides call it at the same time.
    pub fn close(&mut self) {
        self.transport.close(PATIENCE);
    }

    fn envelope(&mut self, operation: Operation, len: usize) -> (Envelope, PostId) {
        let direction = usize::from(operation == Operation::Recv);
        let sequence = self.sequence[direction];
        self.sequence[direction] += 1;
        let signature = Signature { sequence, call: Call::new(operation, DType::U8, len as u64) };
        let lane = Lane { group: 0, kind: LaneKind::Message { tag: 0 } };
        (Envelope { lane, signature }, PostId(2 * sequence + direction as u64))
    }

    /// Waits for so many completions: the borrows of the calls above end here.
    fn wait(&mut self, completions: usize) {
        let (mut done, mut idle) = (0, 0);
        while done < completions {
            if self.transport.progress(&mut self.events) {
                idle = 0;
                for event in self.events.drain(..) {
                    assert!(matches!(event, Event::Sent(_) | Event::Received(_)), "{event:?}");
                    done += 1;
                }
                continue;
            }
            idle += 1;
            if self.spins.is_some_and(|spins| idle > spins) && self.transport.prepare_sleep() {
                self.poller.wait(PATIENCE).expect("a wait");
            } else {
                std::thread::yield_now();
            }
        }
    }
}
