//! scatter and all_to_all: a block of its own for every reader.
//!
//! The card begins with a table of the blocks' lengths, which the readers check against what they
//! expect; short blocks follow it.

use super::pump::{Cargo, pump, share_of};
use super::{ArenaError, Job, STREAM_FROM, offsets, piece, pieces};
use crate::call::Operation;
use crate::collective::Counts;
use crate::sys::buf::Buffers;
use crate::sys::stream_copy::copy_streaming;
use crate::transport::arena::{ArenaGroup, Lane, MAX_RANKS, Peers, Posting};

struct Exchange<'a, 'b> {
    buffers: &'a mut Buffers<'b>,
    rank: usize,
    ranks: usize,
    /// Bytes for each rank, and where they stand in the input; all 0 if this rank gives nothing.
    give: [usize; MAX_RANKS],
    give_at: [usize; MAX_RANKS + 1],
    /// Bytes from each rank, and where they go in the output.
    take: [usize; MAX_RANKS],
    take_at: [usize; MAX_RANKS + 1],
    /// The only rank that gives, in a scatter.
    root: Option<usize>,
    /// Whether the blocks for the others are on the card.
    on_card: bool,
    share: usize,
    element: usize,
}

impl Job<'_, '_> {
    pub(super) fn exchange(&mut self) -> Result<(), ArenaError> {
        let problem = self.problem;
        let (rank, ranks) = (problem.rank, problem.size);
        let scatter = problem.operation == Operation::Scatter;
        let root = scatter.then_some(problem.root);
        let (mut give, mut take) = ([0; MAX_RANKS], [0; MAX_RANKS]);
        match &problem.counts {
            Counts::Exchange { send, recv } => {
                for peer in 0..ranks {
                    give[peer] = self.bytes(send[peer]);
                    take[peer] = self.bytes(recv[peer]);
                }
            }
            Counts::Uniform(_) if root.is_none() => {
                give = self.bytes_by_rank();
                take = give;
            }
            _ if root == Some(rank) => {
                give = self.bytes_by_rank();
                take[rank] = give[rank];
            }
            _ => take[problem.root] = self.uniform(),
        }
        let mut exchange = Exchange {
            rank,
            ranks,
            give_at: offsets(&give[..ranks]),
            give,
            take_at: offsets(&take[..ranks]),
            take,
            root,
            on_card: false,
            share: self.share(),
            element: problem.dtype.size(),
            buffers: self.buffers,
        };
        let gives = root.is_none_or(|root| root == rank);
        let table = if gives { 8 * ranks } else { 0 };
        let others = exchange.give_at[ranks] - exchange.give[rank];
        exchange.on_card = table + others <= self.arena.geometry().small;
        let payload = table + if exchange.on_card { others } else { 0 };
        let posting =
            Posting { reads: [exchange.reads(), 0], payload, bytes: u64::from(exchange.on_card) };
        self.arena.post(self.signature, &posting, |card| exchange.fill_card(card, table))?;
        // The own block, unless it stays where it is.
        if exchange.give[rank] > 0 && !(scatter && problem.in_place) {
            let from = exchange.give_at[rank]..exchange.give_at[rank] + exchange.give[rank];
            let into = exchange.take_at[rank]..exchange.take_at[rank] + exchange.take[rank];
            let (input, output) = exchange.buffers.parts();
            output[into].copy_from_slice(&input[from]);
        }
        pump(self.arena, self.waiter, &mut exchange)
    }
}

impl Exchange<'_, '_> {
    fn fill_card(&mut self, card: &mut [u8], table: usize) {
        if table == 0 {
            return;
        }
        let (lengths, mut blocks) = card.split_at_mut(table);
        for (entry, len) in lengths.chunks_exact_mut(8).zip(self.give) {
            entry.copy_from_slice(&(len as u64).to_le_bytes());
        }
        if self.on_card {
            let input = self.buffers.parts().0;
            for peer in (0..self.ranks).filter(|peer| *peer != self.rank) {
                let start = self.give_at[peer];
                let (block, rest) = blocks.split_at_mut(self.give[peer]);
                block.copy_from_slice(&input[start..start + self.give[peer]]);
                blocks = rest;
            }
        }
    }

    fn takes_from(&self, peer: usize) -> bool {
        peer != self.rank && self.root.is_none_or(|root| root == peer)
    }
}

impl Cargo for Exchange<'_, '_> {
    fn writes(&self) -> u32 {
        if self.on_card {
            return 0;
        }
        let others = (0..self.ranks).filter(|peer| *peer != self.rank);
        others.map(|peer| pieces(self.give[peer], self.share)).max().unwrap_or(0)
    }

    /// An upper bound: a peer's blocks may turn out to be on its card.
    fn reads(&self) -> u32 {
        let givers = (0..self.ranks).filter(|peer| self.takes_from(*peer));
        givers.map(|peer| pieces(self.take[peer], self.share)).max().unwrap_or(0)
    }

    fn write(&mut self, number: u32, slot: &mut [u8]) {
        let input = self.buffers.parts().0;
        for peer in (0..self.ranks).filter(|peer| *peer != self.rank) {
            let range = piece(self.give[peer], self.share, number);
            let start = share_of(peer, self.rank) * self.share;
            let block = &input[self.give_at[peer] + range.start..self.give_at[peer] + range.end];
            slot[start..start + range.len()].copy_from_slice(block);
        }
    }

    fn greet(&mut self, arena: &mut ArenaGroup) -> Result<(), ArenaError> {
        for peer in 0..self.ranks {
            if !self.takes_from(peer) {
                continue;
            }
            let posting = arena.posting(peer);
            let table = 8 * self.ranks;
            if posting.payload < table {
                return Err(ArenaError::Corrupt { peer });
            }
            let (lengths, blocks) = arena.payload(peer, posting.payload).split_at(table);
            let given = |rank: usize| {
                let entry = &lengths[8 * rank..8 * rank + 8];
                u64::from_le_bytes(entry.try_into().expect("8 bytes"))
            };
            let expected = self.take[peer] as u64;
            if given(self.rank) != expected {
                let element = self.element as u64;
                let (expected, given) = (expected / element, given(self.rank) / element);
                return Err(arena.count_mismatch(peer, expected, given));
            }
            if posting.bytes == 0 {
                continue;
            }
            let before: u64 = (0..self.rank).filter(|rank| *rank != peer).map(given).sum();
            let start = usize::try_from(before).map_err(|_| ArenaError::Corrupt { peer })?;
            let len = self.take[peer];
            let block = blocks
                .get(start..)
                .and_then(|rest| rest.get(..len))
                .ok_or(ArenaError::Corrupt { peer })?;
            let into = self.take_at[peer]..self.take_at[peer] + len;
            self.buffers.parts().1[into].copy_from_slice(block);
            // Nothing is left to read from this peer's lane.
            self.take[peer] = 0;
        }
        Ok(())
    }

    fn wants(&self, peer: usize, number: u32) -> bool {
        self.takes_from(peer) && number < pieces(self.take[peer], self.share)
    }

    fn read(&mut self, number: u32, peers: &Peers<'_>) {
        let whole = self.take_at[self.ranks];
        // Each rank begins with its neighbour, so that not all read the same slot at once.
        for peer in (1..self.ranks).map(|step| (self.rank + step) % self.ranks) {
            if self.wants(peer, number) {
                let range = piece(self.take[peer], self.share, number);
                let start = share_of(self.rank, peer) * self.share;
                let slot = &peers.slot(peer, Lane::In, number)[start..start + range.len()];
                let place = self.take_at[peer] + range.start..self.take_at[peer] + range.end;
                let into = &mut self.buffers.parts().1[place];
                if whole >= STREAM_FROM {
                    copy_streaming(into, slot);
                } else {
                    into.copy_from_slice(slot);
                }
            }
        }
    }
}
