//! Everything about one peer: its rails, its lanes, and what frames do to them.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::frame::{Frame, HEADER, Subject};
use super::rail::{Fill, Payload, Rail, Sink};
use super::state::{
    Body, BuildLaneHasher, Held, Incoming, Key, LaneState, OutFrame, Outgoing, Shared, Stage,
    Violation, agree, find, insert, take,
};
use crate::call::Signature;
use crate::sys::buf::{ConstBuf, MutBuf};
use crate::transport::stream::Stream;
use crate::transport::{Envelope, Event, Lane, LinkCounters, Loss, PostId};

/// Reads per call and stream, so that one busy stream does not keep the others waiting.
const READS: usize = 8;
/// Eager messages from this size on are not written at once but with the next progress, together
/// with what was posted in the meantime: on sockets a write costs as much as copying such a message.
const GATHERED: usize = 4096;
/// Writes per call and stream, so that one busy peer does not keep the others waiting.
const WRITES: usize = 8;

/// One peer.
#[derive(Debug)]
pub(super) struct Peer<S> {
    pub rank: usize,
    pub rails: Vec<Rail<S>>,
    pub(super) lanes: HashMap<Lane, LaneState, BuildLaneHasher>,
    /// Large messages that were asked for and have parts that no rail has taken yet.
    pub(super) bulk: VecDeque<Key>,
    pub counters: LinkCounters,
    pub lost: Option<Loss>,
    pub(super) fault: Option<Violation>,
    /// Lanes that may have a large message the peer was not told about.
    unannounced: Vec<Lane>,
    /// This side has said that nothing more follows.
    pub(super) closing: bool,
    /// Which rail is the next to take something.
    turn: usize,
    /// Since when one rail has failed and others have not.
    pub(super) failing: Option<Instant>,
}

impl<S: Stream> Peer<S> {
    pub(super) fn new(rank: usize, streams: Vec<S>) -> Self {
        Peer {
            rank,
            rails: streams.into_iter().map(Rail::new).collect(),
            lanes: HashMap::default(),
            bulk: VecDeque::new(),
            counters: LinkCounters::default(),
            lost: None,
            fault: None,
            unannounced: Vec::new(),
            closing: false,
            turn: 0,
            failing: None,
        }
    }

    pub(super) fn post_send(
        &mut self,
        envelope: Envelope,
        data: ConstBuf,
        id: PostId,
        shared: &mut Shared,
    ) {
        let Envelope { lane, signature } = envelope;
        shared.forgotten.remove(&lane.group);
        let state = self.lanes.entry(lane).or_insert_with(|| LaneState::new(&shared.settings));
        let index = state.next_send;
        state.next_send += 1;
        if let Some(loss) = &self.lost {
            shared.events.push(Event::Lost { peer: self.rank, loss: loss.clone() });
            return;
        }
        let subject = Subject { lane, index, signature, len: data.len() as u64 };
        let asked = take(&mut state.cleared, index);
        let mut send = Outgoing {
            peer: self.rank,
            id: Some(id),
            subject,
            data,
            stage: Stage::Flowing,
            taken: 0,
            written: 0,
            reported: false,
        };
        if let Some(asked) = asked {
            let key = shared.add_send(send);
            return self.start_bulk(key, &asked, shared);
        }
        if data.len() > shared.settings.eager_limit {
            send.stage = Stage::Waiting;
            let key = shared.add_send(send);
            state.waiting.push_back((index, key));
            if !std::mem::replace(&mut state.listed, true) {
                self.unannounced.push(lane);
            }
        } else if !state.blocked.is_empty() || !state.credit.covers(subject.len) {
            send.stage = Stage::Blocked;
            let key = shared.add_send(send);
            state.blocked.push_back((index, key));
        } else {
            state.credit.take(subject.len);
            state.recent.push_back((index, (signature, false)));
            let header = Frame::Eager(subject).encode();
            // What follows at once, like the next piece of the same collective, shares a write.
            let rail = self.next_rail();
            let written = match data.len() {
                GATHERED.. => 0,
                _ => self.rails[rail].write_now(&header, data.bytes(), &mut self.counters),
            };
            if written == HEADER + data.len() {
                self.counters.messages_sent += 1;
                shared.events.push(Event::Sent(id));
            } else {
                let key = shared.add_send(send);
                let body = Body::Posted { key, from: 0, len: data.len() };
                self.rails[rail].queue.push_back(OutFrame { header, written, body });
            }
        }
    }

    /// The rail for a small message: they take turns, except that one with much to write is
    /// passed over. The order in a lane does not depend on it: messages are numbered.
    fn next_rail(&mut self) -> usize {
        let rails = self.rails.len();
        if rails == 1 {
            return 0;
        }
        let waiting = |rail: &Rail<S>| match &rail.stream {
            Some(_) => rail.queue.len(),
            None => usize::MAX,
        };
        let turns = (0..rails).map(|k| (self.turn + k) % rails);
        let chosen = turns.min_by_key(|rail| waiting(&self.rails[*rail])).unwrap_or(0);
        self.turn = (chosen + 1) % rails;
        chosen
    }

    /// A large message is wanted: checks by what, and lets the rails take it.
    fn start_bulk(&mut self, key: Key, asked: &Subject, shared: &mut Shared) {
        let send = shared.sends.get_mut(key);
        let (lane, signature) = (send.subject.lane, send.subject.signature);
        if !agree(lane, &asked.signature, &signature) {
            send.stage = Stage::Waiting;
            send.reported = true;
            let frame = Frame::Withdrawn(send.subject);
            if let Some(state) = self.lanes.get_mut(&lane) {
                insert(&mut state.waiting, asked.index, key);
            }
            self.report(lane, signature, asked.signature, shared);
            self.control(&frame);
        } else if asked.len != send.subject.len {
            let sent = send.subject.len;
            self.fault = Some(Violation::Length { signature, sent, posted: asked.len });
        } else {
            send.stage = Stage::Flowing;
            self.bulk.push_back(key);
            self.flush(shared);
        }
    }

    pub(super) fn post_recv(
        &mut self,
        envelope: Envelope,
        mut into: MutBuf,
        id: PostId,
        shared: &mut Shared,
    ) {
        let Envelope { lane, signature } = envelope;
        shared.forgotten.remove(&lane.group);
        let state = self.lanes.entry(lane).or_insert_with(|| LaneState::new(&shared.settings));
        let index = state.next_recv;
        state.next_recv += 1;
        let subject = Subject { lane, index, signature, len: into.len() as u64 };
        if let Some(held) = take(&mut state.held, index) {
            state.held_bytes -= held.subject.len;
            if !agree(lane, &signature, &held.subject.signature) {
                self.report(lane, signature, held.subject.signature, shared);
                self.control(&Frame::Refused(subject));
            } else if held.subject.len != subject.len {
                let (sent, posted) = (held.subject.len, subject.len);
                self.fault = Some(Violation::Length { signature, sent, posted });
            } else {
                into.bytes_mut().copy_from_slice(&held.bytes);
                shared.events.push(Event::Received(id));
                self.owe(lane, subject.len, shared);
            }
            return;
        }
        if let Some(loss) = &self.lost {
            shared.events.push(Event::Lost { peer: self.rank, loss: loss.clone() });
            return;
        }
        let key = shared.add_recv(Incoming {
            peer: self.rank,
            id: Some(id),
            subject,
            into,
            received: 0,
            reported: false,
        });
        state.posted.push_back((index, key));
        if let Some(waiting) = state.announced.take_if(|waiting| waiting.index <= index)
            && waiting.index == index
        {
            self.compare_announced(&waiting, key, shared);
        }
        if into.len() > shared.settings.eager_limit && !shared.recvs.get(key).reported {
            self.control(&Frame::Clear(subject));
            self.flush(shared);
        }
    }

    /// Whether there is something to write.
    pub(super) fn has_output(&self) -> bool {
        self.lost.is_none() && self.rails.iter().any(|rail| rail.has_output(&self.bulk))
    }

    /// Writes what the streams take. Returns whether anything was written.
    pub(super) fn flush(&mut self, shared: &mut Shared) -> bool {
        let rails = self.rails.len();
        let mut moved = false;
        for _ in 0..WRITES {
            let mut more = false;
            let first = self.turn;
            for at in (0..rails).map(|k| (first + k) % rails) {
                let flushed =
                    self.rails[at].flush(shared, &mut self.bulk, rails, &mut self.counters);
                if flushed.took {
                    self.turn = (at + 1) % rails;
                }
                moved |= flushed.moved;
                more |= flushed.more;
            }
            if !more {
                break;
            }
        }
        moved
    }

    /// Reads what has arrived. Returns whether anything had.
    pub(super) fn receive(&mut self, shared: &mut Shared) -> bool {
        let mut moved = false;
        for rail in 0..self.rails.len() {
            moved |= self.receive_rail(rail, READS, shared);
        }
        moved
    }

    pub(super) fn receive_rail(&mut self, at: usize, reads: usize, shared: &mut Shared) -> bool {
        let mut moved = false;
        for _ in 0..reads {
            if self.fault.is_some() {
                break;
            }
            match self.rails[at].fill(shared, &mut self.counters) {
                Fill::Nothing => break,
                Fill::Some { more } => {
                    moved = true;
                    if let Err(violation) = self.parse(at, shared) {
                        self.fault = Some(violation);
                    }
                    if !more {
                        break;
                    }
                }
                Fill::End => {
                    moved = true;
                    let rail = &mut self.rails[at];
                    if rail.is_torn() && rail.read_error.is_none() {
                        rail.read_error = Some("it ended in the middle of a message".to_owned());
                    }
                    rail.stream = None;
                    rail.queue.clear();
                    break;
                }
            }
        }
        moved
    }

    /// Tells the peer of large messages it has not asked for, so that it notices if it waits for
    /// something else. Only when both sides seem to wait: it is not needed for the transfer.
    pub(super) fn announce(&mut self, shared: &Shared) {
        for lane in std::mem::take(&mut self.unannounced) {
            let Some(state) = self.lanes.get_mut(&lane) else { continue };
            state.listed = false;
            let Some(&(index, key)) = state.waiting.front() else { continue };
            let send = shared.sends.get(key);
            if index >= state.announced_to && send.id.is_some() && !send.reported {
                state.announced_to = index + 1;
                let frame = Frame::Announce(send.subject);
                self.control(&frame);
            }
        }
    }

    /// Announces that the caller is about to sleep. Returns `false` if there is something to do.
    pub(super) fn prepare_sleep(&mut self, shared: &mut Shared) -> bool {
        if self.lost.is_some() {
            return true;
        }
        self.announce(shared);
        if self.has_output() {
            self.flush(shared);
        }
        let mut quiet = self.fault.is_none();
        for rail in &mut self.rails {
            quiet &= rail.write_error.is_none() && rail.read_error.is_none();
            let output = rail.has_output(&self.bulk);
            if let Some(stream) = &mut rail.stream {
                match stream.prepare_sleep(output) {
                    Ok(sleepy) => quiet &= sleepy,
                    Err(error) => {
                        rail.read_error = Some(error.to_string());
                        quiet = false;
                    }
                }
            }
        }
        quiet
    }

    pub(super) fn cancel_send(&mut self, key: Key, shared: &mut Shared) {
        let send = shared.sends.get_mut(key);
        let (lane, stage) = (send.subject.lane, send.stage);
        match stage {
            Stage::Waiting => {
                if !send.reported {
                    // why: the peer may still ask for it; the entry stays so that this is no
                    // surprise.
                    send.id = None;
                    send.data = ConstBuf::empty();
                    return;
                }
                if let Some(state) = self.lanes.get_mut(&lane) {
                    state.waiting.retain(|(_, waiting)| *waiting != key);
                }
            }
            Stage::Blocked => {
                if let Some(state) = self.lanes.get_mut(&lane) {
                    state.blocked.retain(|(_, blocked)| *blocked != key);
                }
            }
            Stage::Flowing => {
                self.bulk.retain(|flowing| *flowing != key);
                for rail in &mut self.rails {
                    rail.detach(key, shared);
                }
            }
        }
        shared.remove_send(key);
    }

    pub(super) fn cancel_recv(&mut self, key: Key, shared: &mut Shared) {
        let recv = shared.recvs.get_mut(key);
        recv.id = None;
        recv.into = MutBuf::empty();
        let Subject { lane, index, .. } = recv.subject;
        let state = self.lanes.get(&lane);
        if state.is_none_or(|state| find(&state.posted, index).is_none()) {
            shared.remove_recv(key);
        }
    }

    pub(super) fn forget_group(&mut self, group: u64, shared: &mut Shared) {
        let gone = self.lanes.extract_if(|lane, _| lane.group == group);
        let gone: Vec<LaneState> = gone.map(|(_, state)| state).collect();
        for state in gone {
            for (_, key) in state.posted {
                for rail in &mut self.rails {
                    if let Some(payload) = &mut rail.payload
                        && matches!(payload.sink, Sink::Posted(owner) if owner == key)
                    {
                        payload.sink = Sink::Discard;
                    }
                }
                shared.remove_recv(key);
            }
            for (_, key) in state.waiting.into_iter().chain(state.blocked) {
                shared.remove_send(key);
            }
        }
    }

    pub(super) fn unexpected(&self) -> Vec<Envelope> {
        let mut envelopes = Vec::new();
        for (lane, state) in &self.lanes {
            let held = state.held.iter().map(|(_, held)| held.subject);
            let waiting = state.announced.filter(|waiting| waiting.index >= state.next_recv);
            envelopes.extend(
                held.chain(waiting)
                    .map(|subject| Envelope { lane: *lane, signature: subject.signature }),
            );
        }
        envelopes
    }

    /// Takes frames out of the buffer of a rail.
    fn parse(&mut self, at: usize, shared: &mut Shared) -> Result<(), Violation> {
        loop {
            let rail = &mut self.rails[at];
            if rail.payload.is_some() {
                if !rail.drain_buffer(shared, &mut self.counters) {
                    return Ok(());
                }
                let payload = rail.payload.take().expect("just seen");
                self.arrived(payload.sink, shared)?;
            } else if let Some(header) = rail.next_header() {
                if rail.close_seen {
                    return Err(Violation::AfterClose);
                }
                let frame = Frame::decode(&header)?;
                self.handle(at, frame, shared)?;
            } else {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, at: usize, frame: Frame, shared: &mut Shared) -> Result<(), Violation> {
        match frame {
            Frame::Eager(subject) => {
                let sink = self.on_eager(subject, shared)?;
                let remaining = usize::try_from(subject.len).expect("below the eager limit");
                self.rails[at].expect(Payload { sink, at: 0, remaining });
            }
            Frame::Data { lane, index, total, offset, len } => {
                let sink = self.on_data(lane, index, total, shared)?;
                let too_large = |_| Violation::Unasked { index };
                let offset = usize::try_from(offset).map_err(too_large)?;
                let remaining = usize::try_from(len).map_err(too_large)?;
                self.rails[at].expect(Payload { sink, at: offset, remaining });
            }
            Frame::Clear(subject) => self.on_clear(&subject, shared)?,
            Frame::Announce(subject) => self.on_announce(subject, shared),
            Frame::Credit { lane, bytes, messages } => {
                self.on_credit(lane, bytes, messages, shared)?;
            }
            Frame::Refused(subject) => self.on_refused(&subject, shared),
            Frame::Withdrawn(subject) => self.on_withdrawn(&subject, shared),
            Frame::Close => self.rails[at].close_seen = true,
        }
        Ok(())
    }

    fn on_eager(&mut self, subject: Subject, shared: &mut Shared) -> Result<Sink, Violation> {
        let Subject { lane, index, signature, len } = subject;
        let limit = shared.settings.eager_limit;
        if len > limit as u64 {
            return Err(Violation::TooLong { len, limit });
        }
        if shared.forgotten.contains(&lane.group) {
            return Ok(Sink::Discard);
        }
        let state = self.lanes.entry(lane).or_insert_with(|| LaneState::new(&shared.settings));
        let Some(position) = find(&state.posted, index) else {
            if index < state.next_recv || find(&state.held, index).is_some() {
                return Err(Violation::Repeated { index });
            }
            let full = state.held_bytes + len > shared.settings.credit_bytes
                || state.held.len() as u64 >= shared.settings.credit_messages;
            if full {
                return Err(Violation::NoCredit { index });
            }
            let bytes = vec![0; usize::try_from(len).expect("below the eager limit")];
            return Ok(Sink::Held(Held { subject, bytes }));
        };
        let key = state.posted[position].1;
        let recv = shared.recvs.get_mut(key);
        let (posted, local) = (recv.subject.len, recv.subject.signature);
        if recv.id.is_none() {
            state.posted.remove(position);
            shared.remove_recv(key);
            self.owe(lane, len, shared);
            return Ok(Sink::Discard);
        }
        if !agree(lane, &local, &signature) {
            // why: the buffer stays borrowed, and the entry with it, until it is cancelled.
            state.posted.remove(position);
            let known = std::mem::replace(&mut recv.reported, true);
            let refusal = Frame::Refused(recv.subject);
            if !known {
                self.report(lane, local, signature, shared);
                self.control(&refusal);
            }
            return Ok(Sink::Discard);
        }
        if posted != len {
            return Err(Violation::Length { signature, sent: len, posted });
        }
        self.owe(lane, len, shared);
        Ok(Sink::Posted(key))
    }

    fn on_data(
        &mut self,
        lane: Lane,
        index: u64,
        total: u64,
        shared: &mut Shared,
    ) -> Result<Sink, Violation> {
        if shared.forgotten.contains(&lane.group) {
            return Ok(Sink::Discard);
        }
        let key = self
            .lanes
            .get(&lane)
            .and_then(|state| find(&state.posted, index).map(|at| state.posted[at].1))
            .ok_or(Violation::Unasked { index })?;
        let subject = &shared.recvs.get(key).subject;
        if subject.len <= shared.settings.eager_limit as u64 {
            return Err(Violation::Unasked { index });
        }
        if subject.len != total {
            let signature = subject.signature;
            return Err(Violation::Length { signature, sent: total, posted: subject.len });
        }
        Ok(Sink::Posted(key))
    }

    fn on_clear(&mut self, asked: &Subject, shared: &mut Shared) -> Result<(), Violation> {
        let Subject { lane, index, signature: remote, len } = *asked;
        if shared.forgotten.contains(&lane.group) {
            return Ok(());
        }
        let state = self.lanes.entry(lane).or_insert_with(|| LaneState::new(&shared.settings));
        if index >= state.next_send {
            let fresh = insert(&mut state.cleared, index, *asked);
            return if fresh { Ok(()) } else { Err(Violation::Repeated { index }) };
        }
        if let Some(at) = find(&state.waiting, index) {
            let key = state.waiting[at].1;
            if shared.sends.get(key).reported {
                return Ok(());
            }
            state.waiting.remove(at);
            if !state.waiting.is_empty() && !std::mem::replace(&mut state.listed, true) {
                self.unannounced.push(lane);
            }
            if shared.sends.get(key).id.is_none() {
                shared.remove_send(key);
                return Ok(());
            }
            self.start_bulk(key, asked, shared);
            return Ok(());
        }
        // A small message where the receiver expects a large one: it will see the same.
        let local = if let Some(at) = find(&state.blocked, index) {
            let send = shared.sends.get_mut(state.blocked[at].1);
            let known = std::mem::replace(&mut send.reported, true);
            (send.subject.signature, known, send.subject.len)
        } else if let Some(at) = find(&state.recent, index) {
            let (signature, known) = &mut state.recent[at].1;
            (*signature, std::mem::replace(known, true), 0)
        } else {
            return Err(Violation::NotWaiting { index });
        };
        let (signature, known, sent) = local;
        if agree(lane, &remote, &signature) {
            return Err(Violation::Length { signature, sent, posted: len });
        }
        if !known {
            self.report(lane, signature, remote, shared);
            self.control(&Frame::Withdrawn(Subject { signature, len: sent, ..*asked }));
        }
        Ok(())
    }

    fn on_announce(&mut self, waiting: Subject, shared: &mut Shared) {
        if shared.forgotten.contains(&waiting.lane.group) {
            return;
        }
        let state =
            self.lanes.entry(waiting.lane).or_insert_with(|| LaneState::new(&shared.settings));
        if waiting.index >= state.next_recv {
            state.announced = Some(waiting);
        } else if let Some(at) = find(&state.posted, waiting.index) {
            let key = state.posted[at].1;
            self.compare_announced(&waiting, key, shared);
        }
    }

    /// A large message waits for this receive: either the peer was asked for it already, or the
    /// two do not belong together.
    fn compare_announced(&mut self, waiting: &Subject, key: Key, shared: &mut Shared) {
        let recv = shared.recvs.get_mut(key);
        if recv.id.is_none() || recv.reported {
            return;
        }
        let Subject { lane, signature, len, .. } = recv.subject;
        if !agree(lane, &signature, &waiting.signature) {
            recv.reported = true;
            let frame = Frame::Refused(recv.subject);
            self.report(lane, signature, waiting.signature, shared);
            self.control(&frame);
        } else if len != waiting.len {
            self.fault = Some(Violation::Length { signature, sent: waiting.len, posted: len });
        }
    }

    fn on_credit(
        &mut self,
        lane: Lane,
        bytes: u64,
        messages: u64,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        let Some(state) = self.lanes.get_mut(&lane) else { return Ok(()) };
        let settings = &shared.settings;
        if bytes > settings.credit_bytes - state.credit.bytes
            || messages > settings.credit_messages - state.credit.messages
        {
            return Err(Violation::TooMuchCredit);
        }
        state.credit.give(bytes, messages);
        let consumed = usize::try_from(messages).expect("at most the window");
        let mut unblocked = Vec::new();
        state.recent.drain(..consumed.min(state.recent.len()));
        while let Some(&(index, key)) = state.blocked.front() {
            let send = shared.sends.get_mut(key);
            if !state.credit.covers(send.subject.len) {
                break;
            }
            state.credit.take(send.subject.len);
            state.recent.push_back((index, (send.subject.signature, send.reported)));
            state.blocked.pop_front();
            send.stage = Stage::Flowing;
            unblocked.push(OutFrame {
                header: Frame::Eager(send.subject).encode(),
                written: 0,
                body: Body::Posted { key, from: 0, len: send.data.len() },
            });
        }
        for frame in unblocked {
            let rail = self.next_rail();
            self.rails[rail].queue.push_back(frame);
        }
        Ok(())
    }

    fn on_refused(&mut self, refused: &Subject, shared: &mut Shared) {
        let Some(state) = self.lanes.get_mut(&refused.lane) else { return };
        let index = refused.index;
        let posted = find(&state.waiting, index)
            .map(|at| state.waiting[at].1)
            .or_else(|| find(&state.blocked, index).map(|at| state.blocked[at].1));
        let (local, known) = if let Some(key) = posted {
            let send = shared.sends.get_mut(key);
            (send.subject.signature, std::mem::replace(&mut send.reported, true))
        } else if let Some(at) = find(&state.recent, index) {
            let (signature, known) = &mut state.recent[at].1;
            (*signature, std::mem::replace(known, true))
        } else {
            return;
        };
        if !known {
            self.report(refused.lane, local, refused.signature, shared);
        }
    }

    fn on_withdrawn(&mut self, withdrawn: &Subject, shared: &mut Shared) {
        let Some(state) = self.lanes.get(&withdrawn.lane) else { return };
        let Some(at) = find(&state.posted, withdrawn.index) else { return };
        let recv = shared.recvs.get_mut(state.posted[at].1);
        if recv.id.is_some() && !std::mem::replace(&mut recv.reported, true) {
            let local = recv.subject.signature;
            self.report(withdrawn.lane, local, withdrawn.signature, shared);
        }
    }

    /// A payload has arrived, whole or in part.
    fn arrived(&mut self, sink: Sink, shared: &mut Shared) -> Result<(), Violation> {
        match sink {
            Sink::Discard => {}
            Sink::Posted(key) => {
                let recv = shared.recvs.get(key);
                let Subject { lane, index, len, .. } = recv.subject;
                if recv.received > len {
                    return Err(Violation::Repeated { index });
                }
                if recv.received == len {
                    let recv = shared.remove_recv(key);
                    let state = self.lanes.get_mut(&lane).expect("it has a posted receive");
                    take(&mut state.posted, index);
                    self.counters.messages_received += 1;
                    shared.events.extend(recv.id.map(Event::Received));
                }
            }
            Sink::Held(held) => {
                self.counters.messages_received += 1;
                self.hold_or_deliver(held, shared)?;
            }
        }
        Ok(())
    }

    /// A small message that nobody had asked for when it began to arrive.
    fn hold_or_deliver(&mut self, held: Held, shared: &mut Shared) -> Result<(), Violation> {
        let Subject { lane, index, len, .. } = held.subject;
        if shared.forgotten.contains(&lane.group) {
            return Ok(());
        }
        let state = self.lanes.entry(lane).or_insert_with(|| LaneState::new(&shared.settings));
        if find(&state.posted, index).is_none() {
            state.held_bytes += len;
            insert(&mut state.held, index, held);
            return Ok(());
        }
        // The receive was posted while the message was arriving.
        if let Sink::Posted(key) = self.on_eager(held.subject, shared)? {
            let recv = shared.recvs.get_mut(key);
            recv.into.bytes_mut().copy_from_slice(&held.bytes);
            recv.received = len;
            self.counters.messages_received -= 1;
            self.arrived(Sink::Posted(key), shared)?;
        }
        Ok(())
    }

    /// Notes that a small message no longer needs the lane's buffers, and tells the sender when
    /// half of the window has come together.
    fn owe(&mut self, lane: Lane, bytes: u64, shared: &Shared) {
        let Some(state) = self.lanes.get_mut(&lane) else { return };
        state.owed.give(bytes, 1);
        let settings = &shared.settings;
        if state.owed.bytes >= settings.credit_bytes / 2
            || state.owed.messages >= settings.credit_messages / 2
        {
            let owed = std::mem::take(&mut state.owed);
            self.control(&Frame::Credit { lane, bytes: owed.bytes, messages: owed.messages });
        }
    }

    fn report(&self, lane: Lane, local: Signature, remote: Signature, shared: &mut Shared) {
        shared.events.push(Event::Mismatch { peer: self.rank, lane, local, remote });
    }

    fn control(&mut self, frame: &Frame) {
        let rail = &mut self.rails[0];
        if rail.stream.is_some() && rail.write_error.is_none() {
            rail.queue.push_back(OutFrame::control(frame));
        }
    }
}
