//! The arena: memory that all ranks of one host see.
//!
//! [`ArenaGroup`] is one rank's safe handle on it. It adds to the memory's rules
//! ([`crate::sys::board`]) the waiting, and the check that all ranks carry out the same call: every
//! operation begins with a card that every rank posts and every rank reads, so that a mismatch is
//! found everywhere before data is used.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::call::{Call, Operation, Signature};
use crate::collective::{Pause, Stopped, Waiter};
use crate::dtype::DType;
use crate::sys::board::{Board, NAME, Note};
pub(crate) use crate::sys::board::{Geometry, Lane, MAX_RANKS, Own, Peers};
use crate::sys::futex;
use crate::sys::shm::Mapping;

/// Looks at a flag before the first call of [`Waiter::pause`]: few, because with more ranks than
/// cores the one waited for may need this core.
const FIRST_LOOKS: u32 = 8;

/// Looks at a flag between two calls of [`Waiter::pause`] while it spins.
const LOOKS: u32 = 64;

/// Why an operation in the arena ended early. The arena is not usable afterwards.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ArenaError {
    /// The [`Waiter`] ended the wait and knows why; or an earlier operation had failed.
    #[error("the wait for the other ranks was stopped")]
    Stopped,
    /// Another rank carries out a different call.
    #[error("this rank is in {local}, rank {peer} of the arena in {remote}")]
    Mismatch {
        /// The other rank, as the arena counts.
        peer: usize,
        /// This rank's call.
        local: Signature,
        /// The other's.
        remote: Signature,
    },
    /// What another rank wrote is no call at all.
    #[error("rank {peer} of the arena has written what is no call")]
    Corrupt {
        /// The other rank, as the arena counts.
        peer: usize,
    },
}

impl From<Stopped> for ArenaError {
    fn from(_: Stopped) -> Self {
        ArenaError::Stopped
    }
}

/// What a rank puts on its card beside the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Posting {
    /// Slots of the others' lanes that this rank will read, at most.
    pub reads: [u32; 2],
    /// Bytes on the card itself.
    pub payload: usize,
    /// A length that the operation defines.
    pub bytes: u64,
}

/// One rank's handle on an arena.
#[derive(Debug)]
pub(crate) struct ArenaGroup {
    board: Board,
    signature: Signature,
    /// The digest of the current call and its number.
    digest: u32,
    /// The digest of the call alone, which is often that of the next one too.
    call_digest: u32,
    broken: bool,
}

impl ArenaGroup {
    /// The handle of `rank` on memory that all ranks have mapped.
    pub(crate) fn new(memory: Arc<Mapping>, base: usize, geometry: Geometry, rank: usize) -> Self {
        let call = Call::new(Operation::Barrier, DType::U8, 0);
        ArenaGroup {
            board: Board::new(memory, base, geometry, rank),
            signature: Signature { sequence: 0, call },
            digest: 0,
            call_digest: call.digest(),
            broken: false,
        }
    }

    /// The handles of all ranks on memory of this process: for ranks that are threads.
    pub(crate) fn in_process(geometry: Geometry) -> io::Result<Vec<ArenaGroup>> {
        let memory = Arc::new(Mapping::private(geometry.total())?);
        Ok((0..geometry.ranks)
            .map(|rank| ArenaGroup::new(memory.clone(), 0, geometry, rank))
            .collect())
    }

    /// The sizes.
    pub(crate) fn geometry(&self) -> &Geometry {
        self.board.geometry()
    }

    /// This rank.
    pub(crate) fn rank(&self) -> usize {
        self.board.rank()
    }

    fn enter(&mut self, signature: &Signature) {
        if self.signature.call != signature.call {
            self.call_digest = signature.call.digest();
        }
        self.signature = *signature;
        // Spread, so that neighbours in sequence differ in more than one bit.
        #[expect(clippy::cast_possible_truncation, reason = "a hash")]
        let sequence = (signature.sequence as u32).wrapping_mul(0x9e37_79b1);
        self.digest = self.call_digest.wrapping_add(sequence);
    }

    /// Begins an operation: posts the card, with what `fill` writes as payload.
    pub(crate) fn post(
        &mut self,
        signature: &Signature,
        posting: &Posting,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), ArenaError> {
        if self.broken || !self.board.complete() {
            return Err(ArenaError::Stopped);
        }
        self.enter(signature);
        let mut name = [0; NAME];
        name[..8].copy_from_slice(&signature.sequence.to_le_bytes());
        name[8..].copy_from_slice(&signature.call.encode());
        let payload = u32::try_from(posting.payload).expect("payloads of cards are small");
        let note = Note { name, reads: posting.reads, payload, bytes: posting.bytes };
        self.board.post(self.digest, &note, fill);
        Ok(())
    }

    /// An operation has failed: every later one fails at once.
    pub(crate) fn give_up(&mut self) {
        self.broken = true;
    }

    /// Waits until all ranks have posted their cards, and checks that they are in the same call.
    pub(crate) fn wait_cards(
        &mut self,
        waiter: &mut (impl Waiter + ?Sized),
    ) -> Result<(), ArenaError> {
        let rank = self.rank();
        for peer in (0..self.geometry().ranks).filter(|peer| *peer != rank) {
            let board = &self.board;
            wait(board.card_word(peer), |value| board.is_card(value), peer, waiter)?;
            let remote = self.board.see(peer).expect("the card was there and stays");
            if remote != self.digest {
                return Err(self.mismatch(peer));
            }
        }
        Ok(())
    }

    /// Waits for the cards and reads their longer parts, which is needed before lanes are used.
    pub(crate) fn wait_notes(
        &mut self,
        waiter: &mut (impl Waiter + ?Sized),
    ) -> Result<(), ArenaError> {
        self.wait_cards(waiter)?;
        let rank = self.rank();
        for peer in (0..self.geometry().ranks).filter(|peer| *peer != rank) {
            self.board.note(peer);
        }
        Ok(())
    }

    /// What a peer has put on its card.
    pub(crate) fn posting(&mut self, peer: usize) -> Posting {
        let note = self.board.note(peer);
        Posting { reads: note.reads, payload: note.payload as usize, bytes: note.bytes }
    }

    fn mismatch(&mut self, peer: usize) -> ArenaError {
        let name = self.board.note(peer).name;
        let sequence = u64::from_le_bytes(name[..8].try_into().expect("8 bytes"));
        let call = Call::decode(name[8..].try_into().expect("the length of a call"));
        match call.map(|call| Signature { sequence, call }) {
            Some(remote) if remote != self.signature => {
                ArenaError::Mismatch { peer, local: self.signature, remote }
            }
            _ => ArenaError::Corrupt { peer },
        }
    }

    /// The same call, but with element counts that do not fit: what this rank expects of the peer
    /// and what the peer gives.
    pub(crate) fn count_mismatch(&self, peer: usize, expected: u64, given: u64) -> ArenaError {
        let with = |count| {
            let call = Call { count, ..self.signature.call };
            Signature { call, ..self.signature }
        };
        ArenaError::Mismatch { peer, local: with(expected), remote: with(given) }
    }

    /// The payload of a peer's card that has been waited for.
    pub(crate) fn payload(&self, peer: usize, len: usize) -> &[u8] {
        self.board.payload(peer, len)
    }

    /// Waits until the next slot of the own lane may be written.
    pub(crate) fn wait_open(
        &self,
        lane: Lane,
        number: u32,
        waiter: &mut (impl Waiter + ?Sized),
    ) -> Result<(), Stopped> {
        for peer in 0..self.geometry().ranks {
            if let Some((word, value)) = self.board.gate(peer, lane, number) {
                wait(word, |now| now >= value, peer, waiter)?;
            }
        }
        Ok(())
    }

    /// Waits until a slot of a peer's lane may be read.
    pub(crate) fn wait_ready(
        &self,
        peer: usize,
        lane: Lane,
        number: u32,
        waiter: &mut (impl Waiter + ?Sized),
    ) -> Result<(), Stopped> {
        let (word, value) = self.board.ready(peer, lane, number);
        wait(word, |now| now >= value, peer, waiter)
    }

    /// The own lanes for writing and the others' for reading.
    pub(crate) fn split(&mut self) -> (Own<'_>, Peers<'_>) {
        self.board.split()
    }

    /// The next slot of the own lane is written; the others may read it.
    pub(crate) fn publish(&mut self, lane: Lane) {
        self.board.publish(lane);
    }

    /// The next slot of the others' lanes is read and may be written again.
    pub(crate) fn release(&mut self, lane: Lane) {
        self.board.release(lane);
    }
}

/// Waits until `ready` is true of a word.
#[inline]
fn wait(
    word: &AtomicU64,
    ready: impl Fn(u64) -> bool,
    peer: usize,
    waiter: &mut (impl Waiter + ?Sized),
) -> Result<(), Stopped> {
    for _ in 0..FIRST_LOOKS {
        if ready(futex::read(word)) {
            return Ok(());
        }
        std::hint::spin_loop();
    }
    wait_long(word, ready, peer, waiter)
}

#[cold]
#[inline(never)]
fn wait_long(
    word: &AtomicU64,
    ready: impl Fn(u64) -> bool,
    peer: usize,
    waiter: &mut (impl Waiter + ?Sized),
) -> Result<(), Stopped> {
    loop {
        let pause = waiter.pause(peer);
        let seen = futex::read(word);
        // What a rank had published before it ended still counts.
        let pause = match pause {
            Err(Stopped) if !ready(seen) => return Err(Stopped),
            Err(Stopped) => Pause::Spin,
            Ok(pause) => pause,
        };
        if !ready(seen) {
            match pause {
                Pause::Yield => std::thread::yield_now(),
                Pause::Sleep(longest) => futex::sleep(word, seen, longest),
                Pause::Spin => {
                    for _ in 0..LOOKS {
                        std::hint::spin_loop();
                        if ready(futex::read(word)) {
                            break;
                        }
                    }
                }
            }
        }
        if ready(futex::read(word)) {
            waiter.moved();
            return Ok(());
        }
    }
}
