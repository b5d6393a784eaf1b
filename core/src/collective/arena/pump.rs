//! Moving data through the lane of contributions, slot by slot.

use super::{ArenaError, Job};
use crate::collective::Waiter;
use crate::transport::arena::{ArenaGroup, Lane, Peers};

/// What an operation does with the slots.
pub(super) trait Cargo {
    /// Slots that this rank writes.
    fn writes(&self) -> u32;

    /// Slots that this rank reads of the others, at most.
    fn reads(&self) -> u32;

    /// Fills a slot.
    fn write(&mut self, number: u32, slot: &mut [u8]);

    /// All cards are there.
    fn greet(&mut self, arena: &mut ArenaGroup) -> Result<(), ArenaError>;

    /// Whether slot `number` of `peer` holds something for this rank.
    fn wants(&self, peer: usize, number: u32) -> bool;

    /// Takes slot `number` of all peers of which this rank wants it.
    fn read(&mut self, number: u32, peers: &Peers<'_>);
}

/// Runs an operation whose card is posted: writes one slot ahead of reading.
pub(super) fn pump(
    arena: &mut ArenaGroup,
    waiter: &mut dyn Waiter,
    cargo: &mut dyn Cargo,
) -> Result<(), ArenaError> {
    let (rank, ranks) = (arena.rank(), arena.geometry().ranks);
    let writes = cargo.writes();
    if writes > 0 {
        // The first slot needs nobody's leave, and the others may wait for it.
        cargo.write(0, arena.split().0.slot(Lane::In, 0));
        arena.publish(Lane::In);
    }
    // As many as the card says, even if some turn out to be empty: the writers count on it.
    let reads = cargo.reads();
    arena.wait_notes(waiter)?;
    cargo.greet(arena)?;
    for number in 0..writes.max(reads) {
        let ahead = number + 1;
        if ahead < writes {
            arena.wait_open(Lane::In, ahead, waiter)?;
            cargo.write(ahead, arena.split().0.slot(Lane::In, ahead));
            arena.publish(Lane::In);
        }
        if number < reads {
            for peer in (0..ranks).filter(|peer| *peer != rank && cargo.wants(*peer, number)) {
                arena.wait_ready(peer, Lane::In, number, waiter)?;
            }
            cargo.read(number, &arena.split().1);
            arena.release(Lane::In);
        }
    }
    Ok(())
}

impl Job<'_, '_> {
    /// Bytes of a slot of contributions.
    pub(super) fn slot(&self) -> usize {
        self.arena.geometry().slot[Lane::In as usize]
    }

    /// Bytes that each rank gets of a slot that holds something for every other: whole lines.
    pub(super) fn share(&self) -> usize {
        self.slot() / (self.problem.size - 1).max(1) / 64 * 64
    }
}

/// The place of `peer` among the shares of `writer`'s slot.
pub(super) fn share_of(peer: usize, writer: usize) -> usize {
    if peer < writer { peer } else { peer - 1 }
}
