//! How messages travel.

use super::{Bytes, Posted, Stage, State};
use crate::transport::verbs::api::*;

/// Where a message has ended.
enum Fate {
    /// It has arrived, or vanished without a word.
    Gone,
    /// The sender is told that it has not arrived.
    Refused(Status),
    /// It waits for a receive.
    Waits,
}

fn completion(id: u64, status: Status, qp: u32, bytes: u32) -> Completion {
    Completion { id, status, qp, bytes, vendor: 0 }
}

impl State {
    /// Lets some of what is on its way arrive; with `all`, everything.
    pub(super) fn travel(&mut self, all: bool) {
        let busy: Vec<u32> = self.busy.iter().copied().collect();
        for pair in busy {
            if !all && self.dice(4) == 1 {
                continue;
            }
            let most = if all || self.seed == 0 { u64::MAX } else { 1 + self.dice(8) };
            for _ in 0..most {
                if !self.transmit(pair) {
                    break;
                }
            }
        }
    }

    /// Sends the first message of a queue pair. Returns whether another one may follow.
    pub(super) fn transmit(&mut self, number: u32) -> bool {
        let Some(pair) = self.pairs.get_mut(&number) else {
            self.busy.remove(&number);
            return false;
        };
        let (device, kind, deaf, peer) = (pair.device, pair.kind, pair.deaf, pair.peer);
        let Some(posted) = pair.sends.pop_front() else {
            self.busy.remove(&number);
            return false;
        };
        let bytes = match &posted.bytes {
            Bytes::Inline(bytes) => bytes.clone(),
            Bytes::Region(sge) => self.read(*sge),
        };
        let frames = self.frames(device, bytes.len() as u32);
        match self.deliver((number, device, kind), deaf, peer, &bytes) {
            Fate::Waits => {
                let pair = self.pairs.get_mut(&number).expect("looked at above");
                pair.sends.push_front(posted);
                return false;
            }
            Fate::Refused(status) => {
                let Posted { id, .. } = posted;
                self.complete(number, false, completion(id, status, number, 0), frames);
                self.fail(number);
                return false;
            }
            Fate::Gone => {}
        }
        let sent = &mut self.devices[device].sent;
        sent.messages += 1;
        sent.bytes += bytes.len() as u64;
        // Where it cannot be asked for silence, everything completes.
        if posted.signaled || !self.devices[device].quirks.unsignaled {
            let done = completion(posted.id, Status::SUCCESS, number, 0);
            self.complete(number, false, done, frames);
        } else if let Some(pair) = self.pairs.get_mut(&number) {
            pair.sending -= frames;
        }
        true
    }

    fn deliver(
        &mut self,
        (number, device, kind): (u32, usize, QpType),
        deaf: bool,
        peer: u32,
        bytes: &[u8],
    ) -> Fate {
        let reliable = kind == QpType::Rc;
        let lost = match reliable {
            true => Fate::Refused(Status::RETRY_EXCEEDED),
            false => Fate::Gone,
        };
        let other = self.devices[device].other;
        let cut = |at: usize| {
            let state: &super::DeviceState = &self.devices[at];
            state.silent || state.port != PortState::ACTIVE
        };
        if cut(device) || other.is_none_or(cut) {
            return lost;
        }
        if deaf {
            return Fate::Gone;
        }
        let losing = &mut self.devices[device].lose;
        if *losing > 0 && !reliable {
            *losing -= 1;
            return Fate::Gone;
        }
        let Some(target) = self.pairs.get(&peer) else { return lost };
        if target.stage < Stage::Receiving {
            return if reliable { Fate::Waits } else { Fate::Gone };
        }
        if target.stage == Stage::Failed || target.peer != number || target.kind != kind {
            return lost;
        }
        assert_eq!(Some(target.device), other, "the way to the peer was checked when it was made");
        let (to, ready, id) = (target.device, target.ready, target.number);
        let Some(receive) = target.receives.front().copied() else {
            if reliable {
                return Fate::Waits;
            }
            self.violation(format!("{} bytes were sent where no receive was posted", bytes.len()));
            return Fate::Gone;
        };
        let target = self.pairs.get_mut(&id).expect("looked at above");
        target.receives.pop_front();
        let len = bytes.len() as u32;
        let frames = self.frames(to, receive.into.len);
        let matching = self.frames(to, len) == frames
            && self.frames(device, len) == self.frames(device, receive.into.len);
        let mut status = Status::SUCCESS;
        if len > receive.into.len || !matching {
            self.violation(format!("{len} bytes met a receive of {}", receive.into.len));
            status = Status::LOCAL_LENGTH;
        }
        match self.regions.get(&receive.into.lkey) {
            Some(region) if !self.devices[to].quirks.register_first || region.born < ready => {}
            _ => {
                self.violation("memory was registered too late, or is gone".to_owned());
                status = Status::LOCAL_PROTECTION;
            }
        }
        if status == Status::SUCCESS {
            let mut bytes = bytes.to_vec();
            let corrupt = &mut self.devices[device].corrupt;
            if *corrupt > 0 && !bytes.is_empty() {
                *corrupt -= 1;
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x10;
            }
            let memory = &self.regions[&receive.into.lkey].memory;
            memory.write((receive.into.address - memory.address()) as usize, &bytes);
        }
        self.complete(id, true, completion(receive.id, status, id, len), frames);
        if status != Status::SUCCESS {
            self.fail(id);
        }
        Fate::Gone
    }

    fn read(&mut self, sge: Sge) -> Vec<u8> {
        let mut bytes = vec![0; sge.len as usize];
        match self.regions.get(&sge.lkey) {
            Some(region) => {
                let at = (sge.address - region.memory.address()) as usize;
                region.memory.read(at, &mut bytes);
            }
            None => self.violation("a message was sent from memory that is gone".to_owned()),
        }
        bytes
    }

    /// A queue pair has failed: everything posted to it is flushed.
    pub(super) fn fail(&mut self, number: u32) {
        let Some(pair) = self.pairs.get_mut(&number) else { return };
        pair.stage = Stage::Failed;
        let sends: Vec<u64> = pair.sends.drain(..).map(|posted| posted.id).collect();
        let receives: Vec<u64> = pair.receives.drain(..).map(|posted| posted.id).collect();
        self.busy.remove(&number);
        for (ids, receive) in [(sends, false), (receives, true)] {
            for id in ids {
                self.complete(number, receive, completion(id, Status::FLUSHED, number, 0), 0);
            }
        }
    }

    /// Takes completions of a queue: in order within a queue pair and direction, in no order
    /// across them.
    pub(super) fn take(&mut self, ring: u32, most: usize, into: &mut Vec<Completion>) -> usize {
        let mut count = 0;
        while count < most {
            let lanes: Vec<(u32, bool)> = match self.rings.get(&ring) {
                Some(ring) => ring.waiting.keys().copied().collect(),
                None => return count,
            };
            if lanes.is_empty() || self.dice(5) == 1 {
                break;
            }
            let lane = lanes[self.dice(lanes.len() as u64) as usize];
            let ring = self.rings.get_mut(&ring).expect("looked at above");
            let waiting = ring.waiting.get_mut(&lane).expect("one of its lanes");
            let (completion, frames) = waiting.pop_front().expect("lanes are not empty");
            if waiting.is_empty() {
                ring.waiting.remove(&lane);
            }
            if let Some(pair) = self.pairs.get_mut(&lane.0) {
                match lane.1 {
                    true => pair.receiving = pair.receiving.saturating_sub(frames),
                    false => pair.sending = pair.sending.saturating_sub(frames),
                }
            }
            into.push(completion);
            count += 1;
        }
        count
    }
}
