//! One cable to a peer: an ordered stream of bytes over queue pairs.
//!
//! Bytes travel in *slots* of two classes, small and large, each class on a queue pair of its own,
//! so that where sends and receives have to cover the same number of frames they do so by
//! construction. A slot is sent only into a receive that the peer has said it has posted
//! (credits); the last small one is kept for saying so in turn. Slots are numbered, over all and
//! within their class: the first number puts them in order, the second shows what was lost.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::RdmaError;
use super::api::{
    Completion, Gid, Mtu, Path, Payload, QpDepth, QpRequest, QpType, RecvRequest, Reliability,
    SendRequest, Sge, Status, Transition,
};
use super::port::{CountedPair, Port, Share, Ticket};
use super::slot::{HEADER, Header, Kind};
use crate::transport::stream::Stream;

/// Bytes of a slot and slots per direction, by class.
const CLASSES: [(usize, u16); 2] = [(4096, 64), (128 << 10, 16)];
/// Fewer slots of a class than this are not enough to keep going.
const LEAST: u16 = 4;
/// Bytes that a send may carry inside of its request, if the device lets it: the headers of both
/// layers and a few numbers.
const INLINE: u32 = 220;
/// Small slots that data leave to credits and the end.
const RESERVE: u16 = 2;
/// How long the last word may take when a link is given up.
const LAST_WORD: Duration = Duration::from_millis(50);

/// Memory that a link needs.
pub(super) const SHARE: usize = {
    let [(small, few), (large, many)] = CLASSES;
    2 * (small * few as usize + large * many as usize)
};
/// Queue pairs that a link needs.
pub(super) const QUEUE_PAIRS: u32 = CLASSES.len() as u32;
/// Completions that a link may have waiting.
pub(super) const COMPLETIONS: u32 = 2 * (CLASSES[0].1 as u32 + CLASSES[1].1 as u32);

/// What both ends of a link have agreed on, and where this end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub kind: QpType,
    /// Sends and receives cover the same number of frames of so many bytes.
    pub frame: Option<u32>,
    /// Sends fill their last frame.
    pub pad: bool,
    pub mtu: Mtu,
    pub port: u8,
    pub lid: u16,
    pub gid: Gid,
    pub gid_index: u32,
}

/// What the peer has to know of an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Offer {
    /// Number, first packet and receives of each queue pair.
    pub pairs: Vec<(u32, u32, u16)>,
    pub lid: u16,
    pub gid: Gid,
}

/// One class of slots.
#[derive(Debug)]
struct Class {
    pair: CountedPair,
    psn: u32,
    /// Bytes of a slot.
    len: usize,
    /// Slots per direction.
    count: u16,
    /// Bytes that a send may carry inside of its request.
    inline: usize,
    /// Where its slots begin in the share: first those to send from, then those to receive into.
    at: usize,
    free: Vec<u16>,
    /// Receives that the peer has posted for what this side may send.
    credits: u16,
    /// Receives that this side has posted and not yet told.
    owed: u16,
    /// The numbers of the next slots.
    next_send: u32,
    next_recv: u32,
}

/// A slot that has arrived.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    class: usize,
    slot: u16,
    kind: Kind,
    len: usize,
}

/// Work requests and bytes, for tests and for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WireCounters {
    /// Sends that were posted.
    pub sends: u64,
    /// Their bytes, headers and padding included.
    pub bytes: u64,
    /// Those of them whose bytes were inside of the request.
    pub inline: u64,
}

/// One end of a cable.
#[derive(Debug)]
pub(crate) struct Link {
    /// Before the memory that they use.
    classes: Vec<Class>,
    share: Arc<Share>,
    port: Arc<Port>,
    inbox: u32,
    terms: Terms,
    /// Completions that were taken and not yet looked at.
    completions: VecDeque<Completion>,
    /// What has arrived, by its number; the first is the next one.
    arrived: VecDeque<Option<Arrived>>,
    next_send: u32,
    next_recv: u32,
    /// How much of the first one was read.
    taken: usize,
    failed: Option<String>,
    /// The peer has said that nothing more follows.
    peer_ended: bool,
    end: End,
    /// Classes over which the first message has come, and over which it was sent.
    proven: [bool; CLASSES.len()],
    wire: WireCounters,
}

/// How far this side is with ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    No,
    Wanted,
    Sent { slot: u16 },
    Done,
}

impl Link {
    /// Makes the queue pairs. The memory is registered before.
    pub(super) fn create(
        port: &Arc<Port>,
        share: Arc<Share>,
        inbox: u32,
        terms: Terms,
    ) -> Result<Link, RdmaError> {
        port.clear(inbox);
        let mut classes = Vec::with_capacity(CLASSES.len());
        let mut at = 0;
        for (len, wanted) in CLASSES {
            let frames = terms.frame.map_or(1, |frame| len as u32 / frame);
            let depth = u32::from(wanted) * frames;
            // Large slots are never that small.
            let inline = if port.device.quirks.inline && classes.is_empty() { INLINE } else { 0 };
            let request = QpRequest {
                kind: terms.kind,
                depth: QpDepth { send: depth, recv: depth, inline },
                signal_all: !port.device.quirks.unsignaled,
            };
            let mut pair = port.create_qp(&request)?;
            let granted = pair.pair().depth()?;
            let count = wanted
                .min(u16::try_from(granted.send.min(granted.recv) / frames).unwrap_or(u16::MAX));
            if count < LEAST {
                return Err(RdmaError::Budget {
                    device: port.device.name().to_owned(),
                    what: "places in a queue",
                    limit: granted.send.min(granted.recv),
                    used: 0,
                    wanted: u32::from(LEAST) * frames,
                });
            }
            let remote = super::api::System::HERE == super::api::System::Darwin;
            pair.pair().modify(&Transition::Init { port: terms.port, remote })?;
            let mut random = [0; 4];
            getrandom::fill(&mut random)
                .map_err(|error| RdmaError::Random { reason: error.to_string() })?;
            classes.push(Class {
                pair,
                psn: u32::from_le_bytes(random) & 0xff_ffff,
                len,
                count,
                inline: granted.inline.min(inline) as usize,
                at,
                free: (0..count).rev().collect(),
                credits: 0,
                owed: 0,
                next_send: 0,
                next_recv: 0,
            });
            at += 2 * len * usize::from(wanted);
        }
        Ok(Link {
            classes,
            share,
            port: Arc::clone(port),
            inbox,
            terms,
            completions: VecDeque::new(),
            arrived: VecDeque::new(),
            next_send: 0,
            next_recv: 0,
            taken: 0,
            failed: None,
            peer_ended: false,
            end: End::No,
            proven: [false; CLASSES.len()],
            wire: WireCounters::default(),
        })
    }

    /// Gives the queue pairs up. What they used is free for others.
    pub(super) fn give_up(mut self) -> (Arc<Share>, u32) {
        self.failed = Some("given up".to_owned());
        (Arc::clone(&self.share), self.inbox)
    }

    pub(super) fn offer(&self) -> Offer {
        let pairs = self.classes.iter().map(|c| (c.pair.number(), c.psn, c.count)).collect();
        Offer { pairs, lid: self.terms.lid, gid: self.terms.gid }
    }

    /// Connects to the peer and posts all receives.
    pub(super) fn connect(&mut self, peer: &Offer) -> Result<(), RdmaError> {
        let terms = self.terms;
        if peer.pairs.len() != self.classes.len() {
            return Err(RdmaError::Offer { pairs: peer.pairs.len() });
        }
        for (class, (number, psn, receives)) in self.classes.iter_mut().zip(&peer.pairs) {
            let path = Path {
                kind: terms.kind,
                port: terms.port,
                mtu: terms.mtu,
                number: *number,
                psn: *psn,
                lid: peer.lid,
                gid: peer.gid,
                gid_index: u8::try_from(terms.gid_index).unwrap_or(u8::MAX),
                // Frames are those of a cable: nothing is routed.
                hop_limit: if peer.gid.is_link_local() || terms.frame.is_some() { 1 } else { 64 },
                min_rnr_timer: 12,
            };
            let reliability = (terms.kind == QpType::Rc).then_some(Reliability {
                timeout: 14,
                retries: 7,
                rnr_retries: 7,
            });
            let pair = class.pair.pair();
            pair.modify(&Transition::ReadyToReceive(path)).map_err(|error| {
                let (own, peer) = (terms.gid, peer.gid);
                RdmaError::Path { own, index: terms.gid_index, peer, error }
            })?;
            pair.modify(&Transition::ReadyToSend { psn: class.psn, reliability })?;
            class.credits = *receives;
        }
        for class in 0..self.classes.len() {
            for slot in 0..self.classes[class].count {
                self.post_receive(class, slot)?;
            }
            self.classes[class].owed = 0;
        }
        Ok(())
    }

    fn ticket(&self, class: usize, receive: bool, slot: u16) -> u64 {
        Ticket { inbox: self.inbox, class: class as u8, receive, slot }.encode()
    }

    fn send_at(&self, class: usize, slot: u16) -> usize {
        let Class { at, len, .. } = self.classes[class];
        at + len * usize::from(slot)
    }

    fn recv_at(&self, class: usize, slot: u16) -> usize {
        let Class { at, len, .. } = self.classes[class];
        at + len * usize::from(CLASSES[class].1 + slot)
    }

    fn post_receive(&mut self, class: usize, slot: u16) -> Result<(), RdmaError> {
        let id = self.ticket(class, true, slot);
        let (address, lkey) = (self.share.address(self.recv_at(class, slot)), self.share.lkey());
        let class = &mut self.classes[class];
        let into = Sge { address, len: class.len as u32, lkey };
        class.pair.pair().post_recv(&[RecvRequest { id, into }])?;
        class.owed += 1;
        Ok(())
    }

    /// Sends one slot, whose bytes after the header are `parts` from `skip` on, `len` of them.
    fn send(
        &mut self,
        class: usize,
        kind: Kind,
        parts: &[IoSlice<'_>],
        mut skip: usize,
        len: usize,
    ) -> Result<u16, RdmaError> {
        let credits = [0, 1].map(|class| std::mem::take(&mut self.classes[class].owed));
        let chosen = &mut self.classes[class];
        let slot = chosen.free.pop().expect("looked at before");
        chosen.credits -= 1;
        let place = chosen.next_send;
        chosen.next_send = place.wrapping_add(1);
        let header = Header { kind, sequence: self.next_send, place, len: len as u32, credits };
        self.next_send = self.next_send.wrapping_add(1);
        let inline = chosen.inline;
        let mut on_wire = HEADER + len;
        if let Some(frame) = self.terms.frame
            && self.terms.pad
        {
            on_wire = on_wire.next_multiple_of(frame as usize);
        }
        let mut small = [0; INLINE as usize];
        let is_inline = on_wire <= inline;
        let at = self.send_at(class, slot);
        let mut put = |place: usize, bytes: &[u8]| {
            if is_inline {
                small[place..place + bytes.len()].copy_from_slice(bytes);
            } else {
                self.share.write(at + place, bytes);
            }
        };
        put(0, &header.encode());
        let mut filled = 0;
        for part in parts {
            if skip >= part.len() {
                skip -= part.len();
                continue;
            }
            let bytes = &part[skip..];
            let bytes = &bytes[..bytes.len().min(len - filled)];
            put(HEADER + filled, bytes);
            filled += bytes.len();
            skip = 0;
            if filled == len {
                break;
            }
        }
        debug_assert_eq!(filled, len);
        let (address, lkey) = (self.share.address(at), self.share.lkey());
        let payload = match is_inline {
            true => Payload::Inline(&small[..on_wire]),
            false => Payload::Region(Sge { address, len: on_wire as u32, lkey }),
        };
        let request = SendRequest { id: self.ticket(class, false, slot), payload, signaled: true };
        self.classes[class].pair.pair().post_send(&[request])?;
        self.wire.sends += 1;
        self.wire.inline += u64::from(is_inline);
        self.wire.bytes += on_wire as u64;
        Ok(slot)
    }

    /// The class for the next slot when so many bytes are left.
    fn class_for(&self, rest: usize) -> usize {
        let [small, large] = [0, 1].map(|class| self.classes[class].len - HEADER);
        match self.terms.frame {
            _ if rest >= large => 1,
            _ if rest <= small => 0,
            None => 1,
            // The last frame need not be full, but it has to be there.
            Some(frame) => usize::from(large - rest < frame as usize),
        }
    }

    fn may_send(&self, class: usize, reserve: u16) -> bool {
        let Class { credits, ref free, .. } = self.classes[class];
        credits > reserve && !free.is_empty()
    }

    /// Notes what has completed.
    fn pump(&mut self) -> io::Result<()> {
        if let Some(failed) = &self.failed {
            return Err(io::Error::other(failed.clone()));
        }
        let mut completions = std::mem::take(&mut self.completions);
        let result = self
            .port
            .collect(self.inbox, &mut completions)
            .and_then(|()| completions.drain(..).try_for_each(|one| self.note(&one)));
        completions.clear();
        self.completions = completions;
        result.map_err(|text| {
            let text = format!("{}: {text}", self.port.device.name());
            self.failed = Some(text.clone());
            io::Error::other(text)
        })
    }

    fn note(&mut self, completion: &Completion) -> Result<(), String> {
        let Ticket { class, receive, slot, .. } = Ticket::decode(completion.id);
        let at = usize::from(class);
        if completion.status != Status::SUCCESS {
            let what = if receive { "receive" } else { "send" };
            let kind = self.terms.kind;
            return Err(format!(
                "{kind} queue pair {}: a {what} failed: {} (vendor {:#x})",
                completion.qp, completion.status, completion.vendor
            ));
        }
        if at >= self.classes.len() || slot >= self.classes[at].count {
            return Err(format!("a completion names slot {slot} of class {class}, which is none"));
        }
        if !receive {
            self.classes[at].free.push(slot);
            if at == 0 && self.end == (End::Sent { slot }) {
                self.end = End::Done;
            }
            return Ok(());
        }
        let mut bytes = [0; HEADER];
        self.share.read(self.recv_at(at, slot), &mut bytes);
        let header = Header::decode(&bytes).ok_or_else(|| {
            format!("a message of {} bytes has no header of ours", completion.bytes)
        })?;
        let len = header.len as usize;
        if len > self.classes[at].len - HEADER || HEADER + len > completion.bytes as usize {
            return Err(format!(
                "a message of {} bytes says that {len} bytes follow its header",
                completion.bytes
            ));
        }
        let expected = self.classes[at].next_recv;
        if header.place != expected {
            let lost = header.place.wrapping_sub(expected);
            return Err(format!(
                "{lost} messages were lost on the way: number {} came where {expected} was due",
                header.place
            ));
        }
        self.classes[at].next_recv = expected.wrapping_add(1);
        for (class, credits) in self.classes.iter_mut().zip(header.credits) {
            class.credits = class
                .credits
                .checked_add(credits)
                .ok_or_else(|| "more credits came than there are slots".to_owned())?;
        }
        let ahead = header.sequence.wrapping_sub(self.next_recv) as usize;
        let most: usize = self.classes.iter().map(|class| usize::from(class.count)).sum();
        if ahead >= most {
            return Err(format!(
                "message {} came when {} was due",
                header.sequence, self.next_recv
            ));
        }
        while self.arrived.len() <= ahead {
            self.arrived.push_back(None);
        }
        self.arrived[ahead] = Some(Arrived { class: at, slot, kind: header.kind, len });
        Ok(())
    }

    /// Deals with everything that is next and is no data. Returns what data are next.
    fn next_data(&mut self) -> io::Result<Option<Arrived>> {
        while let Some(Some(next)) = self.arrived.front().copied() {
            match next.kind {
                Kind::Data if self.taken < next.len => return Ok(Some(next)),
                Kind::Data | Kind::Credit => {}
                Kind::End => self.peer_ended = true,
                Kind::Proof => self.proven[next.class] = true,
            }
            self.done_with(next)?;
        }
        Ok(None)
    }

    /// The first arrived slot was read: its receive is posted anew.
    fn done_with(&mut self, arrived: Arrived) -> io::Result<()> {
        self.arrived.pop_front();
        self.next_recv = self.next_recv.wrapping_add(1);
        self.taken = 0;
        if self.failed.is_some() {
            return Ok(());
        }
        self.post_receive(arrived.class, arrived.slot).map_err(|error| self.fail(&error))?;
        self.give_credits()
    }

    fn fail(&mut self, error: &RdmaError) -> io::Error {
        let text = error.to_string();
        self.failed = Some(text.clone());
        io::Error::other(text)
    }

    /// Tells the peer of receives if it may soon need to know and no data go that way.
    fn give_credits(&mut self) -> io::Result<()> {
        let due = self.classes.iter().any(|class| class.owed >= class.count / 2);
        if due && self.may_send(0, 0) {
            self.send(0, Kind::Credit, &[], 0, 0).map_err(|error| self.fail(&error))?;
        }
        self.say_end()
    }

    fn say_end(&mut self) -> io::Result<()> {
        if self.end == End::Wanted && self.may_send(0, 0) {
            let slot = self.send(0, Kind::End, &[], 0, 0).map_err(|error| self.fail(&error))?;
            self.end = End::Sent { slot };
        }
        Ok(())
    }

    /// Sends a full slot of each class, filled with what only these two ends know.
    pub(super) fn send_proof(&mut self, secret: u64) -> io::Result<()> {
        for class in 0..self.classes.len() {
            let bytes = proof(secret, class, self.classes[class].len - HEADER);
            let len = bytes.len();
            self.send(class, Kind::Proof, &[IoSlice::new(&bytes)], 0, len)
                .map_err(|error| self.fail(&error))?;
        }
        Ok(())
    }

    /// Whether the peer's proof has come whole; an error if it is another one's.
    pub(super) fn check_proof(&mut self, secret: u64) -> io::Result<bool> {
        self.pump()?;
        while let Some(Some(next)) = self.arrived.front().copied()
            && next.kind == Kind::Proof
        {
            let mut bytes = vec![0; next.len];
            self.share.read(self.recv_at(next.class, next.slot) + HEADER, &mut bytes);
            if bytes != proof(secret, next.class, self.classes[next.class].len - HEADER) {
                return Err(io::Error::other(
                    "the first message is not the one that the peer sends: the cable leads elsewhere, or bytes were changed on the way",
                ));
            }
            self.proven[next.class] = true;
            self.done_with(next)?;
        }
        Ok(self.proven.iter().all(|proven| *proven))
    }

    /// What was posted so far.
    pub(super) fn wire(&self) -> WireCounters {
        self.wire
    }
}

/// A place for completions that nobody looks at any more.
struct Unused {
    port: Arc<Port>,
    inbox: u32,
}

impl Drop for Unused {
    fn drop(&mut self) {
        self.port.close_inbox(self.inbox);
    }
}

fn proof(secret: u64, class: usize, len: usize) -> Vec<u8> {
    let mut state = secret ^ (class as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        bytes.extend_from_slice(&(state ^ state >> 29).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

impl Stream for Link {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.pump()?;
        if self.end != End::No {
            // Nothing follows the end. The reading side tells of it.
            return Err(ErrorKind::WouldBlock.into());
        }
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let mut sent = 0;
        while sent < total {
            let class = self.class_for(total - sent);
            let reserve = if class == 0 { RESERVE } else { 0 };
            if !self.may_send(class, reserve) {
                break;
            }
            let len = (total - sent).min(self.classes[class].len - HEADER);
            self.send(class, Kind::Data, parts, sent, len).map_err(|error| self.fail(&error))?;
            sent += len;
        }
        if sent == 0 && total > 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(sent) }
    }

    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let pumped = self.pump();
        let mut read = 0;
        'parts: for part in parts.iter_mut() {
            let mut at = 0;
            while at < part.len() {
                // What has arrived is read before an error is reported.
                let Some(next) = self.next_data()? else { break 'parts };
                let n = (next.len - self.taken).min(part.len() - at);
                let from = self.recv_at(next.class, next.slot) + HEADER + self.taken;
                self.share.read(from, &mut part[at..at + n]);
                self.taken += n;
                at += n;
                read += n;
                if self.taken == next.len {
                    self.done_with(next)?;
                }
            }
        }
        if read > 0 {
            return Ok(read);
        }
        pumped?;
        self.next_data()?;
        if self.peer_ended && self.end == End::No {
            // why: whoever reads the end lets go of the link, and the peer waits for ours.
            self.end = End::Wanted;
        }
        self.give_credits()?;
        if self.peer_ended && self.end == End::Done {
            return Ok(0);
        }
        Err(ErrorKind::WouldBlock.into())
    }

    fn prepare_sleep(&mut self, for_write: bool) -> io::Result<bool> {
        self.pump()?;
        let readable = matches!(self.arrived.front(), Some(Some(_)));
        let writable =
            for_write && self.end == End::No && self.may_send(0, RESERVE) && self.may_send(1, 0);
        let ended = self.peer_ended && matches!(self.end, End::No | End::Done);
        if readable || writable || ended {
            return Ok(false);
        }
        self.port.arm().map_err(io::Error::other)
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.end == End::No {
            self.end = End::Wanted;
            self.say_end()?;
        }
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _inbox = Unused { port: Arc::clone(&self.port), inbox: self.inbox };
        // The peer reads the end of the stream, as it does from a socket that is closed.
        if self.failed.is_some() || self.classes.iter().all(|class| class.next_send == 0) {
            return;
        }
        let until = Instant::now() + LAST_WORD;
        let mut result = self.finish();
        while result.is_ok()
            && matches!(self.end, End::Wanted | End::Sent { .. })
            && Instant::now() < until
        {
            result = self.pump().and_then(|()| self.next_data().map(drop));
            std::thread::yield_now();
        }
    }
}
