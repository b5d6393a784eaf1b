//! all_reduce and reduce of data that does not fit on the cards.
//!
//! The data is cut into chunks, a chunk into one block per rank. Each rank copies the blocks of the
//! others into its slot, reduces its own block of the chunk out of the others' slots and its own
//! buffer, publishes the result, and copies the results of the others. These stages run one chunk
//! apart, so that ranks seldom wait for one another.

use std::ops::Range;

use super::pump::share_of;
use super::{ArenaError, Job, STREAM_FROM};
use crate::reduce::{reduce, reduce_in_place};
use crate::sys::stream_copy::copy_streaming;
use crate::transport::arena::{Lane, MAX_RANKS, Own, Peers, Posting};

/// Bytes that are reduced and copied on while they are in the first-level cache.
const STRIP: usize = 16 << 10;

/// Blocks do not get smaller than this for the sake of overlap.
const SMALLEST_BLOCK: usize = 16 << 10;

/// Chunks that a message has at least, if its blocks stay large enough.
const CHUNKS: usize = 4;

/// How a message is cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    len: usize,
    ranks: usize,
    block: usize,
    chunks: u32,
}

impl Cut {
    /// `largest`: bytes that a block may have, whole lines.
    fn new(len: usize, ranks: usize, largest: usize) -> Cut {
        let fewest = len.div_ceil(ranks * largest);
        let overlapped = CHUNKS.min(len / (ranks * SMALLEST_BLOCK));
        let chunks = fewest.max(overlapped).max(1);
        // Whole lines, so that no two ranks write to one line and no element is cut.
        let block = len.div_ceil(chunks * ranks).next_multiple_of(64);
        let chunks = u32::try_from(len.div_ceil(block * ranks)).expect("fewer than 2^32 chunks");
        Cut { len, ranks, block, chunks }
    }

    /// The block of a rank in a chunk, as a range of the message.
    fn block(&self, chunk: u32, rank: usize) -> Range<usize> {
        let start = (chunk as usize * self.ranks + rank) * self.block;
        start.min(self.len)..(start + self.block).min(self.len)
    }

    /// Where the block of `rank` stands in the slot of `writer`.
    fn staged(&self, chunk: u32, rank: usize, writer: usize) -> Range<usize> {
        let start = share_of(rank, writer) * self.block;
        start..start + self.block(chunk, rank).len()
    }
}

impl Job<'_, '_> {
    pub(super) fn all_reduce(&mut self) -> Result<(), ArenaError> {
        let (len, size) = (self.uniform(), self.problem.size);
        if len <= self.arena.geometry().small || size == 1 {
            return self.reduce_cards(len, size, Some((0..len, 0..len)));
        }
        self.reduce_chunks(len, None)
    }

    pub(super) fn reduce(&mut self) -> Result<(), ArenaError> {
        let (len, size) = (self.uniform(), self.problem.size);
        let root = self.problem.root;
        if len <= self.arena.geometry().small || size == 1 {
            let result = (root == self.problem.rank).then_some((0..len, 0..len));
            return self.reduce_cards(len, size, result);
        }
        self.reduce_chunks(len, Some(root))
    }

    /// `root`: who alone gets the result.
    fn reduce_chunks(&mut self, len: usize, root: Option<usize>) -> Result<(), ArenaError> {
        let (rank, size) = (self.problem.rank, self.problem.size);
        let largest = self.share().min(self.arena.geometry().slot[Lane::Out as usize]);
        let cut = Cut::new(len, size, largest);
        let receives = root.is_none_or(|root| root == rank);
        let gives = root != Some(rank);
        let reads = [cut.chunks, if receives { cut.chunks } else { 0 }];
        self.arena.post(self.signature, &Posting { reads, ..Posting::default() }, |_| ())?;
        for step in 0..cut.chunks + 2 {
            if step < cut.chunks {
                self.arena.wait_open(Lane::In, step, self.waiter)?;
                self.copy_in(&cut, step);
                self.arena.publish(Lane::In);
            }
            if step == 0 {
                self.arena.wait_notes(self.waiter)?;
            }
            if let Some(chunk) = step.checked_sub(1).filter(|chunk| *chunk < cut.chunks) {
                for peer in (0..size).filter(|peer| *peer != rank) {
                    self.arena.wait_ready(peer, Lane::In, chunk, self.waiter)?;
                }
                if gives {
                    self.arena.wait_open(Lane::Out, chunk, self.waiter)?;
                }
                self.reduce_block(&cut, chunk, receives, gives);
                if gives {
                    self.arena.publish(Lane::Out);
                }
                self.arena.release(Lane::In);
            }
            if let Some(chunk) = step.checked_sub(2).filter(|_| receives) {
                self.copy_out(&cut, chunk)?;
            }
        }
        Ok(())
    }

    /// Copies what the others need of a chunk into the own slot.
    fn copy_in(&mut self, cut: &Cut, chunk: u32) {
        let (rank, in_place) = (self.problem.rank, self.in_place());
        let (input, output) = self.buffers.parts();
        let source = if in_place { output } else { input };
        let (mut own, _) = self.arena.split();
        let slot = own.slot(Lane::In, chunk);
        for peer in (0..cut.ranks).filter(|peer| *peer != rank) {
            let block = &source[cut.block(chunk, peer)];
            slot[cut.staged(chunk, peer, rank)].copy_from_slice(block);
        }
    }

    /// Reduces the own block of a chunk into the output (if this rank gets the result) and into
    /// the slot for the others (if somebody else does).
    fn reduce_block(&mut self, cut: &Cut, chunk: u32, receives: bool, gives: bool) {
        let problem = self.problem;
        let (op, divisor) = (self.op(), self.divisor(cut.ranks));
        let block = cut.block(chunk, problem.rank);
        let in_place = self.in_place();
        let stream = !in_place && cut.len >= STREAM_FROM;
        let (input, output) = self.buffers.parts();
        let (mut own, peers): (Own<'_>, Peers<'_>) = self.arena.split();
        let mut slot = if gives { Some(own.slot(Lane::Out, chunk)) } else { None };
        let mut staged: [&[u8]; MAX_RANKS] = [&[]; MAX_RANKS];
        for (peer, source) in staged[..cut.ranks].iter_mut().enumerate() {
            if peer != problem.rank {
                let range = cut.staged(chunk, problem.rank, peer);
                *source = &peers.slot(peer, Lane::In, chunk)[range];
            }
        }
        let mut at = 0;
        while at < block.len() {
            let strip = at..(at + STRIP).min(block.len());
            let place = block.start + strip.start..block.start + strip.end;
            let mut sources: [&[u8]; MAX_RANKS] = [&[]; MAX_RANKS];
            for (peer, source) in sources[..cut.ranks].iter_mut().enumerate() {
                *source = match (peer == problem.rank, in_place) {
                    (false, _) => &staged[peer][strip.clone()],
                    (true, false) => &input[place.clone()],
                    (true, true) => &[],
                };
            }
            let sources = &sources[..cut.ranks];
            match &mut slot {
                _ if in_place => {
                    let into = &mut output[place];
                    let (before, after) = (&sources[..problem.rank], &sources[problem.rank + 1..]);
                    reduce_in_place(problem.dtype, op, divisor, into, before, after);
                    if let Some(slot) = &mut slot {
                        slot[strip.clone()].copy_from_slice(into);
                    }
                }
                None => reduce(problem.dtype, op, divisor, &mut output[place], sources),
                Some(slot) => {
                    let into = &mut slot[strip.clone()];
                    reduce(problem.dtype, op, divisor, into, sources);
                    if receives && stream {
                        copy_streaming(&mut output[place], into);
                    } else if receives {
                        output[place].copy_from_slice(into);
                    }
                }
            }
            at = strip.end;
        }
    }

    /// Copies the others' results of a chunk into the output.
    fn copy_out(&mut self, cut: &Cut, chunk: u32) -> Result<(), ArenaError> {
        let rank = self.problem.rank;
        let stream = !self.in_place() && cut.len >= STREAM_FROM;
        // Each rank begins with its neighbour, so that not all read the same slot at once.
        for peer in (1..cut.ranks).map(|step| (rank + step) % cut.ranks) {
            self.arena.wait_ready(peer, Lane::Out, chunk, self.waiter)?;
            let block = cut.block(chunk, peer);
            let slot = &self.arena.split().1.slot(peer, Lane::Out, chunk)[..block.len()];
            let into = &mut self.buffers.parts().1[block];
            if stream {
                copy_streaming(into, slot);
            } else {
                into.copy_from_slice(slot);
            }
        }
        self.arena.release(Lane::Out);
        Ok(())
    }
}
