//! What the message layer does with a peer that does not keep to the protocol.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex};

use super::frame::{Frame, HEADER, Subject};
use super::*;
use crate::call::{Call, Operation, Signature};
use crate::dtype::DType;
use crate::sys::buf::testing::Loan;
use crate::transport::{Lane, LaneKind};

/// A peer whose bytes are written down beforehand, and who writes down what it gets.
#[derive(Clone, Debug, Default)]
struct Script {
    says: Arc<Mutex<VecDeque<u8>>>,
    hears: Arc<Mutex<Vec<u8>>>,
}

impl Stream for Script {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut hears = self.hears.lock().unwrap();
        parts.iter().for_each(|part| hears.extend_from_slice(part));
        Ok(parts.iter().map(|part| part.len()).sum())
    }

    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut says = self.says.lock().unwrap();
        let mut read = 0;
        for place in parts.iter_mut().flat_map(|part| part.iter_mut()) {
            let Some(byte) = says.pop_front() else { break };
            *place = byte;
            read += 1;
        }
        if read == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(read) }
    }

    fn prepare_sleep(&mut self, _: bool) -> io::Result<bool> {
        Ok(true)
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const LANE: Lane = Lane { group: 4, kind: LaneKind::Message { tag: 2 } };

fn subject(operation: Operation, index: u64, len: u64) -> Subject {
    let signature = Signature { sequence: index, call: Call::new(operation, DType::U8, len) };
    Subject { lane: LANE, index, signature, len }
}

fn envelope(subject: &Subject) -> Envelope {
    Envelope { lane: LANE, signature: subject.signature }
}

struct Bed {
    script: Script,
    messenger: Messenger<Script>,
    events: Vec<Event>,
}

impl Bed {
    fn new() -> Self {
        let script = Script::default();
        let links = vec![Vec::new(), vec![script.clone()]];
        let settings = Settings::new(LinkKind::Memory);
        let messenger = Messenger::new(settings, Poller::new().unwrap(), links);
        Bed { script, messenger, events: Vec::new() }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.script.says.lock().unwrap().extend(bytes);
        self.messenger.prepare_sleep();
        for _ in 0..100 {
            self.messenger.progress(&mut self.events);
        }
    }

    fn said(&self) -> Vec<Frame> {
        let hears = self.script.hears.lock().unwrap();
        let headers = hears.chunks_exact(HEADER);
        headers.filter_map(|header| Frame::decode(header.try_into().unwrap()).ok()).collect()
    }

    #[track_caller]
    fn violation(&self, part: &str) {
        match &self.events[..] {
            [Event::Lost { peer: 1, loss: Loss::Protocol(text) }] => {
                assert!(text.contains(part), "{part:?} is not in {text:?}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(self.messenger.posts_in_flight(), 0);
    }
}

#[test]
fn bytes_that_are_no_frame_end_the_link() {
    let mut bed = Bed::new();
    bed.hear(&[b'x'; 200]);
    bed.violation("begins with [78, 78]");
    let mut bed = Bed::new();
    let mut header = Frame::Eager(subject(Operation::Send, 0, 0)).encode();
    header[20] ^= 1;
    bed.hear(&header);
    bed.violation("check");
}

#[test]
fn impossible_messages_end_the_link() {
    let eager = |index, len| Frame::Eager(subject(Operation::Send, index, len)).encode();
    let clear = |index, len| Frame::Clear(subject(Operation::Recv, index, len)).encode();
    let data =
        Frame::Data { lane: LANE, index: 0, total: 1 << 40, offset: 1 << 39, len: 7 }.encode();
    let credit = Frame::Credit { lane: LANE, bytes: 1, messages: 0 }.encode();
    let close = Frame::Close.encode();
    let cases: [(Vec<u8>, &str); 7] = [
        (eager(0, 1 << 20).to_vec(), "came unasked; the limit"),
        ([eager(0, 0), eager(0, 0)].concat(), "message 0 of a lane came twice"),
        (data.to_vec(), "part of message 0 of a lane came, which was not asked for"),
        ([clear(0, 1 << 20), clear(0, 1 << 20)].concat(), "came twice"),
        ((0..65).flat_map(|index| eager(index, 0)).collect(), "no credit was left"),
        ([close, eager(0, 0)].concat(), "after the last one"),
        ([eager(1, 0), credit].concat(), "credits beyond the window"),
    ];
    for (bytes, part) in cases {
        let mut bed = Bed::new();
        bed.hear(&bytes);
        bed.violation(part);
    }
}

#[test]
fn lengths_that_contradict_equal_calls_end_the_link() {
    let mut bed = Bed::new();
    let posted = subject(Operation::Recv, 0, 10);
    let place = Loan::new(vec![1; 10]);
    bed.messenger.post_recv(1, envelope(&posted), place.to_recv(), PostId(1));
    let mut sent = subject(Operation::Send, 0, 10);
    sent.len = 11;
    bed.hear(&Frame::Eager(sent).encode());
    bed.violation("a message of 11 bytes met a receive of 10 bytes");
    assert_eq!(place.bytes(), [1; 10]);
}

#[test]
fn parts_are_put_together_whatever_their_order() {
    let mut bed = Bed::new();
    let len = 100_000;
    let posted = subject(Operation::Recv, 0, len);
    let place = Loan::new(vec![0; 100_000]);
    bed.messenger.post_recv(1, envelope(&posted), place.to_recv(), PostId(9));
    assert_eq!(bed.said(), [Frame::Clear(posted)]);
    let content: Vec<u8> = (0..100_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    for (offset, part) in [(60_000, 40_000), (0, 10_000), (10_000, 50_000)] {
        assert!(bed.events.is_empty());
        let (at, n) = (offset as u64, part as u64);
        let frame = Frame::Data { lane: LANE, index: 0, total: len, offset: at, len: n };
        bed.hear(&[&frame.encode()[..], &content[offset..offset + part]].concat());
    }
    assert_eq!(bed.events, [Event::Received(PostId(9))]);
    assert!(place.bytes() == content);
    assert_eq!(bed.messenger.posts_in_flight(), 0);
    let frame = Frame::Data { lane: LANE, index: 0, total: len, offset: 0, len: 5 };
    bed.events.clear();
    bed.hear(&frame.encode());
    bed.violation("not asked for");
}

#[test]
fn a_waiting_large_message_is_announced_once_and_only_to_sleepers() {
    let mut bed = Bed::new();
    let sent = subject(Operation::Send, 0, 1 << 20);
    let data = Loan::new(vec![3; 1 << 20]);
    bed.messenger.post_send(1, envelope(&sent), data.to_send(), PostId(1));
    bed.messenger.progress(&mut bed.events);
    assert!(bed.said().is_empty());
    for _ in 0..3 {
        assert!(bed.messenger.prepare_sleep());
    }
    assert_eq!(bed.said(), [Frame::Announce(sent)]);
    bed.hear(&Frame::Clear(subject(Operation::Recv, 0, 1 << 20)).encode());
    assert_eq!(bed.events, [Event::Sent(PostId(1))]);
    let counters = bed.messenger.counters(1);
    assert_eq!((counters.bytes_sent, counters.overhead_sent), (1 << 20, 2 * HEADER as u64));
}
