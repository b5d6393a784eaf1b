//! One stream to a peer: what waits to be written to it and what has been read from it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};

use super::frame::{Frame, HEADER};
use super::state::{Body, Key, OutFrame, Shared, Stage};
use crate::transport::stream::Stream;
use crate::transport::{Event, LinkCounters};

/// Bytes of the read buffer: a small message needs one read.
const BUFFER: usize = 64 * 1024;
/// How much is read into the buffer when much of it would be payload, which had better go straight
/// to its destination.
const TAIL: usize = 4 * 1024;
/// From this size on a payload is worth a read of its own.
const DIRECT: usize = 16 * 1024;
/// Frames put into one write.
const GATHER: usize = 16;
/// Parts of large messages are put into the queue while less than this is in it.
const AHEAD: usize = 256 * 1024;
/// A large message is not cut into smaller parts than this for the sake of more rails.
const LEAST_SHARE: usize = 32 * 1024;

/// One stream with its buffers.
#[derive(Debug)]
pub(super) struct Rail<S> {
    /// Gone once it has ended.
    pub stream: Option<S>,
    pub queue: VecDeque<OutFrame>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    pub payload: Option<Payload>,
    /// The last payload was worth a read of its own; the next one probably is, too.
    large: bool,
    /// The peer has said that nothing more follows.
    pub close_seen: bool,
    /// Why nothing more can be read, if it is an error.
    pub read_error: Option<String>,
    /// Why nothing more can be written.
    pub write_error: Option<String>,
    /// `finish` was called.
    pub finished: bool,
}

/// The payload that is being read.
#[derive(Debug)]
pub(super) struct Payload {
    pub sink: Sink,
    /// Where the next byte goes.
    pub at: usize,
    pub remaining: usize,
}

/// Where a payload goes.
#[derive(Debug)]
pub(super) enum Sink {
    /// Into a posted buffer, unless the receive was cancelled.
    Posted(Key),
    /// Into memory of its own, because nobody has asked for it yet.
    Held(super::state::Held),
    /// Nowhere.
    Discard,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// Some bytes; `more` if there may be more at once.
    Some { more: bool },
    /// Nothing now.
    Nothing,
    /// Nothing more ever; `read_error` says why unless it was a proper end.
    End,
}

/// What [`Rail::flush`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flushed {
    /// A part of a large message was taken.
    pub took: bool,
    /// Something was written.
    pub moved: bool,
    /// All that was tried was written: there may be room for more.
    pub more: bool,
}

impl<S: Stream> Rail<S> {
    pub(super) fn new(stream: S) -> Self {
        Rail {
            stream: Some(stream),
            queue: VecDeque::new(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            payload: None,
            large: false,
            close_seen: false,
            read_error: None,
            write_error: None,
            finished: false,
        }
    }

    /// Bytes that were read and not yet looked at.
    fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The next header, if it has arrived whole.
    pub(super) fn next_header(&mut self) -> Option<[u8; HEADER]> {
        let header = *self.buffered().first_chunk()?;
        self.start += HEADER;
        Some(header)
    }

    /// A payload follows.
    pub(super) fn expect(&mut self, payload: Payload) {
        self.large = payload.remaining >= DIRECT;
        self.payload = Some(payload);
    }

    /// Whether the stream ends in the middle of a frame.
    pub(super) fn is_torn(&self) -> bool {
        self.payload.is_some() || self.start != self.end
    }

    /// Moves buffered bytes to the payload being read. Returns whether it is whole.
    pub(super) fn drain_buffer(
        &mut self,
        shared: &mut Shared,
        counters: &mut LinkCounters,
    ) -> bool {
        let Some(payload) = &mut self.payload else { return false };
        let n = payload.remaining.min(self.end - self.start);
        let bytes = &self.buffer[self.start..self.start + n];
        if let Some(place) = destination(&mut payload.sink, payload.at, n, shared) {
            place.copy_from_slice(bytes);
        }
        self.start += n;
        account(payload, n, shared, counters);
        payload.remaining == 0
    }

    /// Reads once.
    pub(super) fn fill(&mut self, shared: &mut Shared, counters: &mut LinkCounters) -> Fill {
        let Some(stream) = &mut self.stream else { return Fill::Nothing };
        let remaining = self.payload.as_ref().map_or(0, |payload| payload.remaining);
        let place = match &mut self.payload {
            Some(payload) => destination(&mut payload.sink, payload.at, remaining, shared),
            None => None,
        };
        let (result, wanted, direct) = match place {
            Some(place) => {
                debug_assert_eq!(self.start, self.end, "the buffer goes first");
                (self.start, self.end) = (0, 0);
                let tail = if self.large { TAIL } else { BUFFER };
                let wanted = place.len() + tail;
                let mut parts = [IoSliceMut::new(place), IoSliceMut::new(&mut self.buffer[..tail])];
                (read(stream, &mut parts), wanted, remaining)
            }
            None => {
                if self.start > 0 {
                    self.buffer.copy_within(self.start..self.end, 0);
                    (self.start, self.end) = (0, self.end - self.start);
                }
                let discard = self.payload.is_some();
                let limit =
                    if self.large && !discard { TAIL.max(self.end + HEADER) } else { BUFFER };
                let space = &mut self.buffer[self.end..limit];
                let wanted = space.len();
                (read(stream, &mut [IoSliceMut::new(space)]), wanted, 0)
            }
        };
        match result {
            Ok(0) => Fill::End,
            Ok(n) => {
                let direct = n.min(direct);
                if let Some(payload) = &mut self.payload {
                    account(payload, direct, shared, counters);
                }
                self.end += n - direct;
                Fill::Some { more: n == wanted }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Fill::Nothing,
            Err(error) => {
                self.read_error = Some(error.to_string());
                Fill::End
            }
        }
    }

    /// Whether something waits to be written.
    pub(super) fn has_output(&self, bulk: &VecDeque<Key>) -> bool {
        self.stream.is_some()
            && self.write_error.is_none()
            && (!self.queue.is_empty() || !bulk.is_empty())
    }

    /// Writes a frame and its body at once if nothing waits before it. Returns how much was
    /// written.
    pub(super) fn write_now(
        &mut self,
        header: &[u8; HEADER],
        body: &[u8],
        counters: &mut LinkCounters,
    ) -> usize {
        let Some(stream) = &mut self.stream else { return 0 };
        if !self.queue.is_empty() || self.write_error.is_some() {
            return 0;
        }
        let parts = [IoSlice::new(header), IoSlice::new(body)];
        let parts = if body.is_empty() { &parts[..1] } else { &parts[..] };
        match write(stream, parts) {
            Ok(n) => {
                counters.overhead_sent += n.min(HEADER) as u64;
                counters.bytes_sent += n.saturating_sub(HEADER) as u64;
                n
            }
            Err(error) => {
                self.failed_to_write(&error);
                0
            }
        }
    }

    /// Writes once as much as the stream takes, and takes parts of large
    /// messages if it has none.
    pub(super) fn flush(
        &mut self,
        shared: &mut Shared,
        bulk: &mut VecDeque<Key>,
        rails: usize,
        counters: &mut LinkCounters,
    ) -> Flushed {
        let mut flushed = Flushed::default();
        if self.write_error.is_some() || self.stream.is_none() {
            return flushed;
        }
        flushed.took = self.pull(shared, bulk, rails);
        let Some(stream) = &mut self.stream else { return flushed };
        let mut parts = [IoSlice::new(&[]); 2 * GATHER];
        let (mut used, mut total) = (0, 0);
        for frame in self.queue.iter().take(GATHER) {
            let (header, body) = frame.rest(&shared.sends);
            for part in [header, body] {
                if !part.is_empty() {
                    parts[used] = IoSlice::new(part);
                    used += 1;
                    total += part.len();
                }
            }
        }
        if total == 0 {
            return flushed;
        }
        match write(stream, &parts[..used]) {
            Ok(0) => {}
            Ok(n) => {
                flushed.moved = true;
                self.advance(n, shared, counters);
                flushed.more = n == total;
            }
            Err(error) => self.failed_to_write(&error),
        }
        flushed
    }

    fn failed_to_write(&mut self, error: &io::Error) {
        self.write_error = Some(error.to_string());
        self.queue.clear();
    }

    /// Takes parts of large messages into the queue. Returns whether there was one.
    fn pull(&mut self, shared: &mut Shared, bulk: &mut VecDeque<Key>, rails: usize) -> bool {
        let mut ahead = self.queue.iter().map(OutFrame::body_len).sum::<usize>();
        // why: with several rails a message is cut so that every rail gets some of it, and a rail
        // takes the next part only when it has handed on the last one: so a fast rail takes more.
        let enough = if rails == 1 { AHEAD } else { 1 };
        let mut took = false;
        while ahead < enough
            && let Some(&key) = bulk.front()
        {
            took = true;
            let send = shared.sends.get_mut(key);
            let total = send.data.len();
            let share = total.div_ceil(rails).max(LEAST_SHARE);
            let len = shared.settings.fragment.min(share).min(total - send.taken);
            let from = send.taken;
            let frame = Frame::Data {
                lane: send.subject.lane,
                index: send.subject.index,
                total: total as u64,
                offset: from as u64,
                len: len as u64,
            };
            send.taken += len;
            if send.taken == total {
                bulk.pop_front();
            }
            let body = Body::Posted { key, from, len };
            self.queue.push_back(OutFrame { header: frame.encode(), written: 0, body });
            ahead += len;
        }
        took
    }

    /// Accounts for `n` written bytes.
    fn advance(&mut self, mut n: usize, shared: &mut Shared, counters: &mut LinkCounters) {
        while n > 0 {
            let frame = self.queue.front_mut().expect("only queued bytes are written");
            let header = n.min(HEADER.saturating_sub(frame.written));
            let body = (n - header).min(HEADER + frame.body_len() - frame.written - header);
            counters.overhead_sent += header as u64;
            counters.bytes_sent += body as u64;
            frame.written += header + body;
            n -= header + body;
            if frame.written < HEADER + frame.body_len() {
                continue;
            }
            let frame = self.queue.pop_front().expect("just looked at");
            match frame.body {
                Body::None => {}
                Body::Copied { message, .. } => counters.messages_sent += u64::from(message),
                Body::Posted { key, len, .. } => {
                    let send = shared.sends.get_mut(key);
                    send.written += len;
                    if send.written == send.data.len() {
                        let send = shared.remove_send(key);
                        debug_assert_eq!(send.stage, Stage::Flowing);
                        counters.messages_sent += 1;
                        shared.events.extend(send.id.map(Event::Sent));
                    }
                }
            }
        }
    }

    /// Lets go of a posted send: what has not begun is dropped if it may be, the rest is copied.
    pub(super) fn detach(&mut self, key: Key, shared: &Shared) {
        self.queue.retain_mut(|frame| {
            let Body::Posted { key: owner, from, len } = frame.body else { return true };
            if owner != key {
                return true;
            }
            let send = shared.sends.get(key);
            let small = send.subject.len <= shared.settings.eager_limit as u64;
            if frame.written == 0 && !small {
                return false;
            }
            let bytes = send.data.bytes()[from..from + len].to_vec();
            frame.body = Body::Copied { bytes, message: small };
            true
        });
    }
}

/// The place for the next `n` bytes of a payload, unless they are discarded.
fn destination<'a>(
    sink: &'a mut Sink,
    at: usize,
    n: usize,
    shared: &'a mut Shared,
) -> Option<&'a mut [u8]> {
    match sink {
        Sink::Posted(key) => {
            let recv = shared.recvs.get_mut(*key);
            recv.id?;
            Some(&mut recv.into.bytes_mut()[at..at + n])
        }
        Sink::Held(held) => Some(&mut held.bytes[at..at + n]),
        Sink::Discard => None,
    }
}

/// Notes that `n` bytes of the payload are there.
fn account(payload: &mut Payload, n: usize, shared: &mut Shared, counters: &mut LinkCounters) {
    payload.at += n;
    payload.remaining -= n;
    counters.bytes_received += n as u64;
    if let Sink::Posted(key) = payload.sink {
        shared.recvs.get_mut(key).received += n as u64;
    }
}

/// A read that a signal does not end.
fn read<S: Stream>(stream: &mut S, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    loop {
        match stream.read(parts) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// A write that a signal does not end; 0 if nothing fits.
fn write<S: Stream>(stream: &mut S, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        match stream.write(parts) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            result => return result,
        }
    }
}
