//! How the link to a peer ends: in order, by a loss, or because the peer broke the protocol.

use std::time::{Duration, Instant};

use super::frame::Frame;
use super::peer::Peer;
use super::rail::Rail;
use super::state::{OutFrame, Shared};
use crate::transport::stream::Stream;
use crate::transport::{Event, Loss};

/// Reads per stream once the link is known to be broken: more than any socket buffer holds.
const LAST_READS: usize = 4096;
/// How long rails that last are read after one has failed.
const LAST_WORDS: Duration = Duration::from_millis(100);

impl<S: Stream> Peer<S> {
    /// After reading and writing: whether the link has ended.
    pub(super) fn settle(&mut self, shared: &mut Shared) {
        if self.lost.is_some() {
            return;
        }
        if let Some(violation) = self.fault.take() {
            return self.lose(Loss::Protocol(violation.to_string()), shared);
        }
        if self.closing {
            // why: whoever has said goodbye does not mind how the other side goes, and a rail that
            // has ended must not keep the others from handing on what they have.
            if self.rails.iter().all(|rail| rail.stream.is_none()) {
                self.lose(Loss::Closed, shared);
            }
            return;
        }
        let failed = |rail: &Rail<S>| {
            rail.write_error.is_some()
                || rail.read_error.is_some()
                || (rail.stream.is_none() && !rail.close_seen)
        };
        if self.rails.iter().any(failed) {
            // why: what has arrived whole on any rail is delivered before the loss is reported.
            for rail in 0..self.rails.len() {
                self.receive_rail(rail, LAST_READS, shared);
            }
            if let Some(violation) = self.fault.take() {
                return self.lose(Loss::Protocol(violation.to_string()), shared);
            }
            // why: the rails of a process that has died do not end at the same moment, and small
            // messages that it had sent may still come over those that last.
            let lasts = |rail: &Rail<S>| rail.stream.is_some() && !failed(rail);
            if self.rails.iter().any(lasts) {
                let since = *self.failing.get_or_insert_with(Instant::now);
                if since.elapsed() < LAST_WORDS {
                    return;
                }
            }
        }
        if self.rails.iter().all(|rail| rail.stream.is_none() && rail.close_seen) {
            return self.lose(Loss::Closed, shared);
        }
        if self.rails.iter().any(failed) {
            let reads = self.rails.iter().find_map(|rail| rail.read_error.clone());
            let writes = || self.rails.iter().find_map(|rail| rail.write_error.clone());
            let reason = reads.or_else(writes).unwrap_or_else(|| {
                "the connection ended without a word of closing (the process has ended)".to_owned()
            });
            self.lose(Loss::Broken(reason), shared);
        }
    }

    /// Ends the link. What had arrived whole stays for receives that are posted later.
    pub(super) fn lose(&mut self, loss: Loss, shared: &mut Shared) {
        for rail in &mut self.rails {
            rail.stream = None;
            rail.queue.clear();
            rail.payload = None;
        }
        self.bulk.clear();
        for lane in self.lanes.values_mut() {
            lane.blocked.clear();
            lane.waiting.clear();
            lane.cleared.clear();
            lane.posted.clear();
        }
        shared.release(self.rank);
        self.lost = Some(loss.clone());
        shared.events.push(Event::Lost { peer: self.rank, loss });
    }

    /// Says that nothing more follows.
    pub(super) fn say_close(&mut self) {
        self.closing = true;
        for rail in &mut self.rails {
            if rail.stream.is_some() {
                rail.queue.push_back(OutFrame::control(&Frame::Close));
            }
        }
    }

    /// After `say_close`: ends every rail whose last byte was written. Returns whether the peer
    /// has ended its side too.
    pub(super) fn finish(&mut self) -> bool {
        for rail in &mut self.rails {
            if rail.queue.is_empty()
                && !rail.finished
                && let Some(stream) = &mut rail.stream
            {
                rail.finished = true;
                if let Err(error) = stream.finish() {
                    rail.write_error = Some(error.to_string());
                }
            }
        }
        self.rails.iter().all(|rail| rail.stream.is_none())
    }
}
