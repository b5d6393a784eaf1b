//! all_gather, gather and broadcast: contributions that go to their readers as they are.

use super::pump::{Cargo, pump};
use super::{ArenaError, Job, STREAM_FROM, offsets, piece, pieces};
use crate::call::Operation;
use crate::collective::Counts;
use crate::sys::buf::Buffers;
use crate::sys::stream_copy::copy_streaming;
use crate::transport::arena::{ArenaGroup, Lane, MAX_RANKS, Peers, Posting};

struct Gather<'a, 'b> {
    buffers: &'a mut Buffers<'b>,
    rank: usize,
    ranks: usize,
    /// Bytes of this rank's contribution.
    own: usize,
    /// Whether the contribution is in the output already.
    placed: bool,
    /// Whether this rank takes the others' contributions.
    receives: bool,
    /// Bytes of every contribution that this rank takes, and where they go.
    lengths: [usize; MAX_RANKS],
    places: [usize; MAX_RANKS + 1],
    /// Up to here a contribution is on the card.
    small: usize,
    slot: usize,
    /// Bytes of an element.
    element: usize,
}

impl Job<'_, '_> {
    pub(super) fn gather(&mut self) -> Result<(), ArenaError> {
        let problem = self.problem;
        let (rank, ranks, root) = (problem.rank, problem.size, problem.root);
        let mut lengths = [0; MAX_RANKS];
        let (own, receives) = match problem.operation {
            Operation::Broadcast => {
                lengths[root] = self.uniform();
                (if rank == root { lengths[root] } else { 0 }, rank != root)
            }
            Operation::Gather if rank != root => match problem.counts {
                Counts::Uniform(count) => (self.bytes(count), false),
                _ => unreachable!("a rank that is not the root knows its own count only"),
            },
            _ => {
                lengths = self.bytes_by_rank();
                (lengths[rank], true)
            }
        };
        let geometry = self.arena.geometry();
        let mut gather = Gather {
            rank,
            ranks,
            own,
            placed: self.in_place() || problem.operation == Operation::Broadcast,
            receives,
            places: offsets(&lengths[..ranks]),
            lengths,
            small: geometry.small,
            slot: geometry.slot[Lane::In as usize],
            element: problem.dtype.size(),
            buffers: self.buffers,
        };
        let gives = ranks > 1 && (problem.operation != Operation::Gather || rank != root);
        let payload = if gives && own <= gather.small { own } else { 0 };
        let posting = Posting { reads: [gather.reads(), 0], payload, bytes: gather.own as u64 };
        let source = gather.source(0..payload);
        self.arena.post(self.signature, &posting, |card| card.copy_from_slice(source))?;
        if !gives {
            // Nobody reads it; only its own place is filled.
            gather.place_own(0..own);
            gather.placed = true;
            gather.own = 0;
        }
        pump(self.arena, self.waiter, &mut gather)
    }
}

impl Gather<'_, '_> {
    /// A part of the own contribution.
    fn source(&mut self, range: std::ops::Range<usize>) -> &[u8] {
        let start = if self.placed { self.places[self.rank] } else { 0 };
        let (input, output) = self.buffers.parts();
        let source = if self.placed { output } else { input };
        &source[start + range.start..start + range.end]
    }

    /// Copies a part of the own contribution to its place in the output.
    fn place_own(&mut self, range: std::ops::Range<usize>) {
        if self.receives && !self.placed {
            let start = self.places[self.rank];
            let (input, output) = self.buffers.parts();
            let into = &mut output[start + range.start..start + range.end];
            copy(into, &input[range], self.places[self.ranks]);
        }
    }

    fn in_lane(&self, len: usize) -> u32 {
        if len <= self.small { 0 } else { pieces(len, self.slot) }
    }
}

fn copy(into: &mut [u8], from: &[u8], whole: usize) {
    if whole >= STREAM_FROM {
        copy_streaming(into, from);
    } else {
        into.copy_from_slice(from);
    }
}

impl Cargo for Gather<'_, '_> {
    fn writes(&self) -> u32 {
        if self.ranks == 1 { 0 } else { self.in_lane(self.own) }
    }

    fn reads(&self) -> u32 {
        if !self.receives {
            return 0;
        }
        let others = (0..self.ranks).filter(|peer| *peer != self.rank);
        others.map(|peer| self.in_lane(self.lengths[peer])).max().unwrap_or(0)
    }

    fn write(&mut self, number: u32, slot: &mut [u8]) {
        let range = piece(self.own, self.slot, number);
        slot[..range.len()].copy_from_slice(self.source(range.clone()));
        self.place_own(range);
    }

    fn greet(&mut self, arena: &mut ArenaGroup) -> Result<(), ArenaError> {
        if self.writes() == 0 {
            self.place_own(0..self.own);
        }
        if !self.receives {
            return Ok(());
        }
        for peer in (0..self.ranks).filter(|peer| *peer != self.rank) {
            let len = self.lengths[peer];
            let given = arena.posting(peer).bytes;
            if given != len as u64 {
                let element = self.element as u64;
                return Err(arena.count_mismatch(peer, len as u64 / element, given / element));
            }
            if len <= self.small {
                let start = self.places[peer];
                let into = &mut self.buffers.parts().1[start..start + len];
                into.copy_from_slice(arena.payload(peer, len));
            }
        }
        Ok(())
    }

    fn wants(&self, peer: usize, number: u32) -> bool {
        self.receives && number < self.in_lane(self.lengths[peer])
    }

    fn read(&mut self, number: u32, peers: &Peers<'_>) {
        // Each rank begins with its neighbour, so that not all read the same slot at once.
        for peer in (1..self.ranks).map(|step| (self.rank + step) % self.ranks) {
            if self.wants(peer, number) {
                let range = piece(self.lengths[peer], self.slot, number);
                let slot = &peers.slot(peer, Lane::In, number)[..range.len()];
                let start = self.places[peer];
                let into = &mut self.buffers.parts().1[start + range.start..start + range.end];
                copy(into, slot, self.places[self.ranks]);
            }
        }
    }
}
