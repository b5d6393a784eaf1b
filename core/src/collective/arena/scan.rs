//! scan: every rank reduces the contributions of the ranks up to itself.

use super::pump::{Cargo, pump};
use super::{ArenaError, Job, piece, pieces};
use crate::dtype::{DType, Op};
use crate::reduce::{reduce, reduce_in_place};
use crate::sys::buf::Buffers;
use crate::transport::arena::{ArenaGroup, Lane, MAX_RANKS, Peers, Posting};

struct Scan<'a, 'b> {
    buffers: &'a mut Buffers<'b>,
    rank: usize,
    ranks: usize,
    len: usize,
    slot: usize,
    in_place: bool,
    dtype: DType,
    op: Op,
    divisor: u32,
}

impl Job<'_, '_> {
    pub(super) fn scan(&mut self) -> Result<(), ArenaError> {
        let (len, rank, ranks) = (self.uniform(), self.problem.rank, self.problem.size);
        if len <= self.arena.geometry().small || ranks == 1 {
            return self.reduce_cards(len, rank + 1, Some((0..len, 0..len)));
        }
        let mut cargo = Scan {
            rank,
            ranks,
            len,
            slot: self.slot(),
            in_place: self.in_place(),
            dtype: self.problem.dtype,
            op: self.op(),
            divisor: self.divisor(rank + 1),
            buffers: self.buffers,
        };
        let posting = Posting { reads: [cargo.reads(), 0], ..Posting::default() };
        self.arena.post(self.signature, &posting, |_| ())?;
        if rank == 0 {
            // A reduction of one contribution is not always a copy: truth values become 0 and 1.
            let (input, output) = cargo.buffers.parts();
            if cargo.in_place {
                reduce_in_place(cargo.dtype, cargo.op, 1, output, &[], &[]);
            } else {
                reduce(cargo.dtype, cargo.op, 1, output, &[input]);
            }
        }
        pump(self.arena, self.waiter, &mut cargo)
    }
}

impl Cargo for Scan<'_, '_> {
    fn writes(&self) -> u32 {
        if self.rank + 1 < self.ranks { pieces(self.len, self.slot) } else { 0 }
    }

    fn reads(&self) -> u32 {
        if self.rank > 0 { pieces(self.len, self.slot) } else { 0 }
    }

    fn write(&mut self, number: u32, slot: &mut [u8]) {
        let range = piece(self.len, self.slot, number);
        let (input, output) = self.buffers.parts();
        let source = if self.in_place { output } else { input };
        slot[..range.len()].copy_from_slice(&source[range]);
    }

    fn greet(&mut self, _: &mut ArenaGroup) -> Result<(), ArenaError> {
        Ok(())
    }

    fn wants(&self, peer: usize, _: u32) -> bool {
        peer < self.rank
    }

    fn read(&mut self, number: u32, peers: &Peers<'_>) {
        let range = piece(self.len, self.slot, number);
        let mut sources: [&[u8]; MAX_RANKS] = [&[]; MAX_RANKS];
        for (peer, source) in sources[..self.rank].iter_mut().enumerate() {
            *source = &peers.slot(peer, Lane::In, number)[..range.len()];
        }
        let (input, output) = self.buffers.parts();
        let into = &mut output[range.clone()];
        if self.in_place {
            let before = &sources[..self.rank];
            reduce_in_place(self.dtype, self.op, self.divisor, into, before, &[]);
        } else {
            sources[self.rank] = &input[range];
            reduce(self.dtype, self.op, self.divisor, into, &sources[..=self.rank]);
        }
    }
}
