//! reduce_scatter: every rank reduces its own block out of the others' slots.

use super::pump::{Cargo, pump, share_of};
use super::{ArenaError, Job, offsets, piece, pieces};
use crate::dtype::{DType, Op};
use crate::reduce::{reduce, reduce_in_place};
use crate::sys::buf::Buffers;
use crate::transport::arena::{ArenaGroup, Lane, MAX_RANKS, Peers, Posting};

/// Shares do not get smaller than this for the sake of overlap.
const SMALLEST_SHARE: usize = 16 << 10;

/// Slots that a message takes at least, if shares stay large enough.
const SLOTS: usize = 4;

struct ReduceScatter<'a, 'b> {
    buffers: &'a mut Buffers<'b>,
    rank: usize,
    ranks: usize,
    lengths: [usize; MAX_RANKS],
    places: [usize; MAX_RANKS + 1],
    share: usize,
    in_place: bool,
    dtype: DType,
    op: Op,
    divisor: u32,
}

impl Job<'_, '_> {
    pub(super) fn reduce_scatter(&mut self) -> Result<(), ArenaError> {
        let (rank, ranks, in_place) = (self.problem.rank, self.problem.size, self.in_place());
        let lengths = self.bytes_by_rank();
        let places = offsets(&lengths[..ranks]);
        let whole = places[ranks];
        if whole <= self.arena.geometry().small || ranks == 1 {
            let block = places[rank]..places[rank] + lengths[rank];
            let into = if in_place { block.clone() } else { 0..lengths[rank] };
            return self.reduce_cards(whole, ranks, Some((block, into)));
        }
        let longest = lengths.iter().max().copied().unwrap_or(0);
        let overlapped = (longest / SLOTS).max(SMALLEST_SHARE).next_multiple_of(64);
        let mut cargo = ReduceScatter {
            rank,
            ranks,
            lengths,
            places,
            share: self.share().min(overlapped),
            in_place,
            dtype: self.problem.dtype,
            op: self.op(),
            divisor: self.divisor(ranks),
            buffers: self.buffers,
        };
        let posting = Posting { reads: [cargo.reads(), 0], ..Posting::default() };
        self.arena.post(self.signature, &posting, |_| ())?;
        pump(self.arena, self.waiter, &mut cargo)
    }
}

impl Cargo for ReduceScatter<'_, '_> {
    fn writes(&self) -> u32 {
        let others = (0..self.ranks).filter(|peer| *peer != self.rank);
        others.map(|peer| pieces(self.lengths[peer], self.share)).max().unwrap_or(0)
    }

    fn reads(&self) -> u32 {
        pieces(self.lengths[self.rank], self.share)
    }

    fn write(&mut self, number: u32, slot: &mut [u8]) {
        let (input, output) = self.buffers.parts();
        let source = if self.in_place { output } else { input };
        for peer in (0..self.ranks).filter(|peer| *peer != self.rank) {
            let range = piece(self.lengths[peer], self.share, number);
            let start = share_of(peer, self.rank) * self.share;
            let block = &source[self.places[peer] + range.start..self.places[peer] + range.end];
            slot[start..start + range.len()].copy_from_slice(block);
        }
    }

    fn greet(&mut self, _: &mut ArenaGroup) -> Result<(), ArenaError> {
        Ok(())
    }

    fn wants(&self, _: usize, number: u32) -> bool {
        number < self.reads()
    }

    fn read(&mut self, number: u32, peers: &Peers<'_>) {
        let range = piece(self.lengths[self.rank], self.share, number);
        let place = self.places[self.rank] + range.start..self.places[self.rank] + range.end;
        let mut sources: [&[u8]; MAX_RANKS] = [&[]; MAX_RANKS];
        for (peer, source) in sources[..self.ranks].iter_mut().enumerate() {
            if peer != self.rank {
                let start = share_of(self.rank, peer) * self.share;
                *source = &peers.slot(peer, Lane::In, number)[start..start + range.len()];
            }
        }
        let (input, output) = self.buffers.parts();
        if self.in_place {
            let (before, after) = (&sources[..self.rank], &sources[self.rank + 1..self.ranks]);
            let into = &mut output[place];
            reduce_in_place(self.dtype, self.op, self.divisor, into, before, after);
        } else {
            sources[self.rank] = &input[place];
            let into = &mut output[range];
            reduce(self.dtype, self.op, self.divisor, into, &sources[..self.ranks]);
        }
    }
}
