//! The memory of an arena, with the rules that make it safe to look at.
//!
//! Every rank has an area that it alone writes and all others read. It holds
//!
//! * two **cards**, used in turn, one per operation: what the rank is doing, and a short payload;
//! * two **lanes**, rings of slots for data that does not fit on a card.
//!
//! The rules, which this module checks on every access:
//!
//! * A card is posted only after the cards of all ranks for the operation before were seen. So
//!   whoever posts card `t` has finished with everything of operation `t - 1`, and whoever has seen
//!   all cards `t` knows that nobody still reads anything of operation `t - 1`: cards and lane slots
//!   come in two banks, used in turn, and need no other protection from one operation to the next.
//! * Within an operation the slots of a lane are numbered from 0. A slot is readable once its
//!   number was published, until the reader releases it. It is written again only after all ranks
//!   have released it that said on their card that they would read it.
//! * Slices of the own area are exclusive and slices of others' areas are shared borrows of the
//!   [`Board`]; publishing, releasing and posting need it exclusively, so no slice outlives what
//!   made it valid.
//!
//! All processes that map the memory run this code; that they keep to its rules is what the unsafe
//! blocks below rely on, beside what they check themselves.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::sys::futex;
use crate::sys::shm::{Mapping, PAGE};

/// Most ranks that one arena joins.
pub(crate) const MAX_RANKS: usize = 64;

/// Payload that travels in the same cache line as a card's flag.
pub(crate) const IN_LINE: usize = 56;

/// Bytes that an operation may keep beside its flag to name itself.
pub(crate) const NAME: usize = 28;

const LINE: usize = 64;
/// Two lines: processors fetch lines in pairs.
const APART: usize = 128;
const HEAD: usize = 2 * LINE;

/// One of the two rings of slots of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What the rank contributes.
    In = 0,
    /// What it has reduced for others.
    Out = 1,
}

/// Sizes of an arena; the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Ranks, at most [`MAX_RANKS`].
    pub ranks: usize,
    /// Largest payload of a card.
    pub small: usize,
    /// Bytes of a slot of [`Lane::In`] and of [`Lane::Out`].
    pub slot: [usize; 2],
    /// Slots per lane and bank.
    pub depth: usize,
}

impl Geometry {
    /// Sizes for this many ranks within a bound on the staging memory of one rank.
    pub(crate) fn within(ranks: usize, staging: usize) -> Self {
        let small = 8192;
        let depth = 3;
        // Two banks of two lanes of `depth` slots; a slot larger than this leaves the caches.
        let slot = (staging / (4 * depth)).clamp(LINE, 256 << 10) / LINE * LINE;
        Geometry { ranks, small, slot: [slot, slot], depth }
    }

    fn card(&self) -> usize {
        (HEAD + self.small).next_multiple_of(APART)
    }

    fn control_stride(&self) -> usize {
        2 * self.card() + 4 * APART
    }

    /// Bytes of the part with the cards and counters, which is worth faulting in at start.
    pub(crate) fn control(&self) -> usize {
        (self.ranks * self.control_stride()).next_multiple_of(PAGE)
    }

    /// Bytes of one rank's lanes.
    pub(crate) fn lanes(&self) -> usize {
        (2 * self.depth * (self.slot[0] + self.slot[1])).next_multiple_of(PAGE)
    }

    /// Bytes of the whole.
    pub(crate) fn total(&self) -> usize {
        self.control() + self.ranks * self.lanes()
    }

    /// Whether the sizes make sense; checked before memory of strangers is used.
    pub(crate) fn is_valid(&self) -> bool {
        let lines = |bytes: usize| bytes.is_multiple_of(LINE) && bytes > 0 && bytes <= 1 << 30;
        (1..=MAX_RANKS).contains(&self.ranks)
            && lines(self.small)
            && self.slot.iter().all(|bytes| lines(*bytes))
            && (2..=64).contains(&self.depth)
            // A table of lengths fits on a card, and a share for every other rank into a slot.
            && self.small >= 8 * self.ranks
            && self.slot.iter().all(|bytes| *bytes >= LINE * (self.ranks - 1))
    }
}

/// The longer part of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Names the operation.
    pub name: [u8; NAME],
    /// Slots of each lane of the others that the rank will read, at most.
    pub reads: [u32; 2],
    /// Length of the payload on the card.
    pub payload: u32,
    /// A length, as the operation needs it.
    pub bytes: u64,
}

impl Note {
    const LEN: usize = 60;

    fn encode(&self, start: u64) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&start.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.reads[0].to_le_bytes());
        bytes[20..24].copy_from_slice(&self.reads[1].to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload.to_le_bytes());
        bytes[28..28 + NAME].copy_from_slice(&self.name);
        bytes
    }

    fn decode(bytes: &[u8]) -> (u64, Note) {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let name = bytes[28..28 + NAME].try_into().expect("the length of a name");
        (long(0), Note { name, reads: [word(16), word(20)], payload: word(24), bytes: long(8) })
    }
}

/// What this rank knows of another in the current operation.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    start: u64,
    reads: [u32; 2],
}

/// One rank's handle on the memory.
#[derive(Debug)]
pub(crate) struct Board {
    memory: Arc<Mapping>,
    base: usize,
    geometry: Geometry,
    rank: usize,
    /// Number of the current operation; 0 is none.
    op: u32,
    /// Ranks whose cards of this operation were seen, and whose notes were read.
    seen: u64,
    noted: u64,
    everybody: u64,
    /// Where this operation's slot numbers begin in this rank's counters.
    start: u64,
    reads: [u32; 2],
    published: [u32; 2],
    released: [u32; 2],
    known: [Known; MAX_RANKS],
}

impl Board {
    /// A handle for `rank` on the area that begins at `base` (a multiple of [`PAGE`]).
    ///
    /// # Panics
    /// If the geometry is not valid or the area does not fit into the memory. Every rank has at
    /// most one handle; the caller sees to that.
    pub(crate) fn new(memory: Arc<Mapping>, base: usize, geometry: Geometry, rank: usize) -> Board {
        assert!(geometry.is_valid() && rank < geometry.ranks, "rank {rank} of {geometry:?}");
        assert!(base.is_multiple_of(PAGE) && base + geometry.total() <= memory.len());
        let everybody = u64::MAX >> (MAX_RANKS - geometry.ranks);
        Board {
            memory,
            base,
            geometry,
            rank,
            op: 0,
            seen: everybody,
            noted: 0,
            everybody,
            start: 0,
            reads: [0; 2],
            published: [0; 2],
            released: [0; 2],
            known: [Known::default(); MAX_RANKS],
        }
    }

    /// The sizes.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// This rank.
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Whether every rank was seen in the current operation, so that the next one may be posted.
    pub(crate) fn complete(&self) -> bool {
        self.seen == self.everybody
    }

    fn control_at(&self, rank: usize) -> usize {
        debug_assert!(rank < self.geometry.ranks);
        self.base + rank * self.geometry.control_stride()
    }

    fn card_at(&self, rank: usize) -> usize {
        self.control_at(rank) + (self.op % 2) as usize * self.geometry.card()
    }

    /// Where a payload of this length stands on a card.
    fn payload_at(&self, rank: usize, len: usize) -> Range<usize> {
        let offset = if len <= IN_LINE { LINE - IN_LINE } else { HEAD };
        let start = self.card_at(rank) + offset;
        start..start + len
    }

    fn counter(&self, rank: usize, which: usize) -> &AtomicU64 {
        assert!(rank < self.geometry.ranks);
        self.memory.word(self.control_at(rank) + 2 * self.geometry.card() + which * APART)
    }

    fn slot_at(&self, rank: usize, lane: Lane, number: u32) -> Range<usize> {
        let Geometry { depth, slot, .. } = self.geometry;
        let bank = (self.op % 2) as usize * depth * (slot[0] + slot[1]);
        let lane_start = if lane == Lane::In { 0 } else { depth * slot[0] };
        let len = slot[lane as usize];
        let start = self.base
            + self.geometry.control()
            + rank * self.geometry.lanes()
            + bank
            + lane_start
            + number as usize % depth * len;
        start..start + len
    }

    /// Begins the next operation: posts this rank's card with what `fill` writes into its payload.
    ///
    /// # Panics
    /// If not all cards of the operation before were seen (see [`Board::complete`]), or if the
    /// payload is too long.
    #[inline]
    pub(crate) fn post(&mut self, digest: u32, note: &Note, fill: impl FnOnce(&mut [u8])) {
        assert!(self.complete(), "an operation begins before the one before is complete");
        let len = note.payload as usize;
        assert!(len <= self.geometry.small, "a payload of {len} bytes does not fit on a card");
        let used = self.published.iter().chain(&self.released).max().copied().unwrap_or(0);
        self.start += u64::from(used);
        self.op = self.op.wrapping_add(1);
        self.reads = note.reads;
        self.published = [0; 2];
        self.released = [0; 2];
        self.seen = 1 << self.rank;
        self.noted = 1 << self.rank;
        let card = self.card_at(self.rank);
        // SAFETY: the rank's own card of the operation before the last. Everybody has posted for
        // the last one, and so has let go of this one; nobody reads it before it is published.
        let details = unsafe { self.memory.bytes_mut(card + LINE..card + LINE + Note::LEN) };
        details.copy_from_slice(&note.encode(self.start));
        // SAFETY: as above; the ranges of details and payload do not overlap.
        fill(unsafe { self.memory.bytes_mut(self.payload_at(self.rank, len)) });
        futex::publish(self.memory.word(card), self.flag() | u64::from(digest) << 32);
    }

    /// The low half of a card's word in the current operation.
    fn flag(&self) -> u64 {
        u64::from(self.op << 1)
    }

    /// The word to watch until [`Board::see`] finds the peer's card.
    #[inline]
    pub(crate) fn card_word(&self, peer: usize) -> &AtomicU64 {
        assert!(peer < self.geometry.ranks);
        self.memory.word(self.card_at(peer))
    }

    /// Whether a value of [`Board::card_word`] says that the card is there.
    #[inline]
    pub(crate) fn is_card(&self, value: u64) -> bool {
        value & 0xffff_fffe == self.flag()
    }

    /// Looks for the peer's card and returns its digest.
    #[inline]
    pub(crate) fn see(&mut self, peer: usize) -> Option<u32> {
        let value = futex::read(self.card_word(peer));
        if !self.is_card(value) {
            return None;
        }
        self.seen |= 1 << peer;
        Some((value >> 32) as u32)
    }

    fn assert_seen(&self, peer: usize) {
        assert!(self.seen & 1 << peer != 0, "the card of rank {peer} was not seen yet");
    }

    /// The longer part of a peer's card, which has been seen.
    pub(crate) fn note(&mut self, peer: usize) -> Note {
        self.assert_seen(peer);
        let card = self.card_at(peer);
        // SAFETY: the card was seen, so its writer is done with it until this rank's next `post`.
        let details = unsafe { self.memory.bytes(card + LINE..card + LINE + Note::LEN) };
        let (start, note) = Note::decode(details);
        self.known[peer] = Known { start, reads: note.reads };
        self.noted |= 1 << peer;
        note
    }

    /// The payload of a peer's card, which has been seen. `len` is the length it was posted with.
    #[inline]
    pub(crate) fn payload(&self, peer: usize, len: usize) -> &[u8] {
        self.assert_seen(peer);
        assert!(len <= self.geometry.small, "a card holds no payload of {len} bytes");
        // SAFETY: as for `note`; `post` needs `self` exclusively, so the slice is gone by then.
        unsafe { self.memory.bytes(self.payload_at(peer, len)) }
    }

    fn assert_noted(&self, peer: usize) {
        assert!(self.noted & 1 << peer != 0, "the note of rank {peer} was not read yet");
    }

    /// The word to watch, and the value it must reach, before slot `number` of this rank's lane
    /// may be written, as far as it depends on `peer`; `None` if it does not.
    pub(crate) fn gate(&self, peer: usize, lane: Lane, number: u32) -> Option<(&AtomicU64, u64)> {
        let previous = number.checked_sub(self.depth())?;
        if peer == self.rank {
            return None;
        }
        self.assert_noted(peer);
        let Known { start, reads } = self.known[peer];
        let needed = (previous + 1).min(reads[lane as usize]);
        if needed == 0 {
            return None;
        }
        Some((self.counter(peer, 2 + lane as usize), start.wrapping_add(needed.into()) << 1))
    }

    /// The word to watch, and the value it must reach, before slot `number` of the peer's lane may
    /// be read.
    pub(crate) fn ready(&self, peer: usize, lane: Lane, number: u32) -> (&AtomicU64, u64) {
        self.assert_noted(peer);
        let target = self.known[peer].start.wrapping_add(u64::from(number) + 1);
        (self.counter(peer, lane as usize), target << 1)
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most 64 as checked by `is_valid`")]
    fn depth(&self) -> u32 {
        self.geometry.depth as u32
    }

    /// The own area for writing and the others' for reading.
    pub(crate) fn split(&mut self) -> (Own<'_>, Peers<'_>) {
        (Own(self), Peers(self))
    }

    /// The next slot of the own lane is written; the others may read it.
    pub(crate) fn publish(&mut self, lane: Lane) {
        self.published[lane as usize] += 1;
        let value = self.start + u64::from(self.published[lane as usize]);
        futex::publish(self.counter(self.rank, lane as usize), value << 1);
    }

    /// The next slot of the others' lanes is read and may be written again.
    pub(crate) fn release(&mut self, lane: Lane) {
        self.released[lane as usize] += 1;
        let value = self.start + u64::from(self.released[lane as usize]);
        futex::publish(self.counter(self.rank, 2 + lane as usize), value << 1);
    }
}

/// The own lanes, for writing.
pub(crate) struct Own<'a>(&'a Board);

impl Own<'_> {
    /// The next slot of a lane.
    ///
    /// # Panics
    /// If `number` is not the next one, or if somebody has not released what was in it.
    pub(crate) fn slot(&mut self, lane: Lane, number: u32) -> &mut [u8] {
        let board = self.0;
        assert_eq!(number, board.published[lane as usize], "slots are written in order");
        for peer in 0..board.geometry.ranks {
            if let Some((word, value)) = board.gate(peer, lane, number) {
                assert!(futex::read(word) >= value, "rank {peer} still reads slot {number}");
            }
        }
        // SAFETY: a slot of the own area that is not published, and whose former content all its
        // readers have released as just checked; for the first `depth` slots, the rules on cards
        // say the same. `Own` is unique and its slot borrows it exclusively.
        unsafe { board.memory.bytes_mut(board.slot_at(board.rank, lane, number)) }
    }
}

/// The other ranks' lanes, for reading.
#[derive(Clone, Copy)]
pub(crate) struct Peers<'a>(&'a Board);

impl<'a> Peers<'a> {
    /// A published slot.
    ///
    /// # Panics
    /// If it is not published, already released, or beyond what this rank said it would read.
    pub(crate) fn slot(&self, peer: usize, lane: Lane, number: u32) -> &'a [u8] {
        let board = self.0;
        assert_ne!(peer, board.rank, "the own lanes are for writing");
        assert!(
            (board.released[lane as usize]..board.reads[lane as usize]).contains(&number),
            "slot {number} is not among those that this rank reads"
        );
        let (word, value) = board.ready(peer, lane, number);
        assert!(futex::read(word) >= value, "rank {peer} has not published slot {number}");
        // SAFETY: published, and its writer waits for this rank's `release` before it writes the
        // slot again (or for its next card); both need the board exclusively, which this borrows.
        unsafe { board.memory.bytes(board.slot_at(peer, lane, number)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry { ranks: 2, small: 256, slot: [128, 64], depth: 2 };

    fn pair() -> [Board; 2] {
        let memory = Arc::new(Mapping::private(GEOMETRY.total()).unwrap());
        [0, 1].map(|rank| Board::new(memory.clone(), 0, GEOMETRY, rank))
    }

    fn note(payload: u32, reads: u32) -> Note {
        Note { name: [7; NAME], reads: [reads, 0], payload, bytes: 9 }
    }

    #[test]
    fn cards_carry_payloads_of_every_length() {
        let [mut a, mut b] = pair();
        for len in [0, 1, IN_LINE, IN_LINE + 1, 256] {
            b.post(99, &note(0, 0), |bytes| assert!(bytes.is_empty()));
            assert_eq!(b.see(0), None);
            a.post(len as u32, &note(len as u32, 0), |bytes| {
                bytes.iter_mut().zip(1..).for_each(|(byte, i)| *byte = (i * 3 % 256) as u8);
            });
            assert_eq!((b.see(0), a.see(1)), (Some(len as u32), Some(99)));
            assert_eq!(b.note(0), note(len as u32, 0));
            let expected: Vec<u8> = (1..=len).map(|i| (i * 3 % 256) as u8).collect();
            assert_eq!(b.payload(0, len), expected);
        }
    }

    #[test]
    fn slots_are_gated_by_the_readers_and_only_by_them() {
        let [mut a, mut b] = pair();
        a.post(1, &note(0, 0), |_| ());
        b.post(1, &note(0, 3), |_| ());
        for board in [&mut a, &mut b] {
            let peer = 1 - board.rank();
            assert!(board.see(peer).is_some());
            board.note(peer);
        }
        for number in 0..2 {
            a.split().0.slot(Lane::In, number).fill(number as u8 + 1);
            a.publish(Lane::In);
        }
        let (word, value) = a.gate(1, Lane::In, 2).unwrap();
        assert!(futex::read(word) < value);
        assert_eq!(b.split().1.slot(0, Lane::In, 0), [1; 128]);
        b.release(Lane::In);
        let (word, value) = a.gate(1, Lane::In, 2).unwrap();
        assert!(futex::read(word) >= value);
        a.split().0.slot(Lane::In, 2).fill(3);
        a.publish(Lane::In);
        assert_eq!(b.split().1.slot(0, Lane::In, 2), [3; 128]);
        // B reads nothing beyond slot 2: A waits for its three releases and no more.
        let (_, value) = a.gate(1, Lane::In, 4).unwrap();
        assert_eq!(a.gate(1, Lane::In, 100).unwrap().1, value);
        // Nobody waits for A, which reads nothing.
        assert!(b.gate(0, Lane::In, 100).is_none());
    }

    #[test]
    #[should_panic(expected = "still reads")]
    fn writing_over_an_unread_slot_panics() {
        let [mut a, mut b] = pair();
        a.post(1, &note(0, 9), |_| ());
        b.post(1, &note(0, 9), |_| ());
        a.see(1);
        a.note(1);
        for number in 0..3 {
            a.split().0.slot(Lane::In, number).fill(0);
            a.publish(Lane::In);
        }
    }

    #[test]
    #[should_panic(expected = "before the one before is complete")]
    fn posting_twice_without_looking_panics() {
        let [mut a, _] = pair();
        a.post(1, &note(0, 0), |_| ());
        a.post(2, &note(0, 0), |_| ());
    }

    #[test]
    #[should_panic(expected = "has not published")]
    fn reading_what_is_not_there_panics() {
        let [mut a, mut b] = pair();
        a.post(1, &note(0, 1), |_| ());
        b.post(1, &note(0, 1), |_| ());
        a.see(1);
        a.note(1);
        a.split().1.slot(1, Lane::In, 0);
    }
}
