//! Shared memory between the processes of one host.
//!
//! One rank, the leader, creates a segment and hands it to the others ([`host`]). It holds an
//! [arena](super::arena) and, between every two ranks, a ring of bytes in each direction
//! ([`stream`]). The segment has no name anywhere: it vanishes with the last process that maps it.

pub(crate) mod host;
mod layout;
pub(crate) mod stream;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) use self::host::{Offer, ShmHost, attach};
use self::layout::Layout;
pub(crate) use self::layout::{DEFAULT_STAGING, Settings};
use self::stream::Bell;
pub(crate) use self::stream::RingStream;
use super::arena::ArenaGroup;
use crate::sys::doorbell::Doorbell;
use crate::sys::ring::{Reader, Writer};
use crate::sys::shm::Mapping;

/// What a rank's word in the segment says; 0 before it joins.
const JOINED: u64 = 1;
const LEFT: u64 = 2;

/// Why shared memory could not be set up. Other transports can still be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ShmError {
    /// The operating system refused something.
    #[error("shared memory: {what} failed: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// Time was up.
    #[error("shared memory: after {waited:?} the ranks {missing:?} of this host had not joined")]
    Missing {
        /// Who had not joined, as the host counts its ranks.
        missing: Vec<usize>,
        /// How long was waited.
        waited: std::time::Duration,
    },
    /// The leader did not answer in time.
    #[error(
        "shared memory: the leading rank of this host did not hand over the segment within {waited:?}; last: {last}"
    )]
    NoLeader {
        /// How long was tried.
        waited: std::time::Duration,
        /// The last answer.
        last: io::Error,
    },
    /// The other side is of another build or configuration.
    #[error("shared memory: {what} is {theirs} at the leading rank and {ours} at this one")]
    Differs {
        /// What differs.
        what: &'static str,
        /// The leader's.
        theirs: u64,
        /// This rank's.
        ours: u64,
    },
    /// What came is no segment.
    #[error("shared memory: the leading rank of this host sent {what}")]
    Protocol {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The staging memory is too small for so many ranks.
    #[error(
        "shared memory: {ranks} ranks on one host need at least {least} bytes of staging per rank, {staging} are allowed; raise the limit or use TCP"
    )]
    Budget {
        /// Ranks of the host.
        ranks: usize,
        /// Bytes needed per rank.
        least: usize,
        /// Bytes allowed per rank.
        staging: usize,
    },
    /// More ranks on one host than an arena joins.
    #[error("shared memory: {ranks} ranks on one host, at most {most} can share memory")]
    TooMany {
        /// Ranks of the host.
        ranks: usize,
        /// The limit.
        most: usize,
    },
    /// The caller did not want it any more.
    #[error("shared memory: setting it up was stopped")]
    Stopped,
}

impl ShmError {
    fn system(what: &'static str) -> impl FnOnce(io::Error) -> ShmError {
        move |source| ShmError::System { what, source }
    }
}

/// One rank's part in a segment.
#[derive(Debug)]
pub(crate) struct Segment {
    memory: Arc<Mapping>,
    layout: Layout,
    rank: usize,
    bell: Arc<Bell>,
    bells: Vec<Arc<Doorbell>>,
    /// Whether the arena and the rings are still to be had: each has one user per rank.
    arena: bool,
    rings: bool,
}

impl Segment {
    fn new(
        memory: Mapping,
        layout: Layout,
        rank: usize,
        bells: Vec<Doorbell>,
    ) -> Result<Segment, ShmError> {
        memory.hold(rank).map_err(ShmError::system("locking this rank's byte of the segment"))?;
        memory.word(layout.presence_at(rank)).store(JOINED, Ordering::Release);
        let bells: Vec<_> = bells.into_iter().map(Arc::new).collect();
        // A failure shows at the first use; ranks of other processes are not affected.
        memory.populate(0..layout.geometry.control());
        memory.advise_huge(layout.geometry.control()..memory.len());
        Ok(Segment {
            memory: Arc::new(memory),
            layout,
            rank,
            bell: Arc::new(Bell::new(bells[rank].clone())),
            bells,
            arena: true,
            rings: layout.ring > 0,
        })
    }

    /// This rank, as the host counts.
    #[cfg(test)]
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Ranks of the host.
    pub(crate) fn ranks(&self) -> usize {
        self.layout.geometry.ranks
    }

    /// Bytes of staging per rank that the segment may come to use.
    #[cfg(test)]
    pub(crate) fn staging(&self) -> usize {
        self.layout.staging()
    }

    /// This rank's handle on the arena; `None` the second time.
    pub(crate) fn take_arena(&mut self) -> Option<ArenaGroup> {
        std::mem::take(&mut self.arena)
            .then(|| ArenaGroup::new(self.memory.clone(), 0, self.layout.geometry, self.rank))
    }

    /// The streams to the other ranks, by rank (`None` for this one); `None` the second time, or if
    /// the segment has no rings.
    pub(crate) fn take_streams(&mut self) -> Option<Vec<Option<RingStream>>> {
        let take = std::mem::take(&mut self.rings);
        take.then(|| (0..self.ranks()).map(|peer| self.stream(peer)).collect())
    }

    fn stream(&self, peer: usize) -> Option<RingStream> {
        let capacity = self.layout.ring;
        let at = |from, to| self.layout.ring_at(from, to);
        (peer != self.rank).then(|| {
            RingStream::new(
                Writer::new(self.memory.clone(), at(self.rank, peer), capacity),
                Reader::new(self.memory.clone(), at(peer, self.rank), capacity),
                self.bell.clone(),
                self.bells[peer].clone(),
            )
        })
    }

    /// What becomes readable when one of the streams can be read or written after its
    /// `prepare_sleep`. One for all streams; to be registered once, for reading, for as long as
    /// they are used.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    /// Whether the process of another rank has ended without a goodbye, as far as the system can
    /// tell; a stopped one has not, nor has one that has not joined yet. For slow paths: a system
    /// call.
    pub(crate) fn has_died(&self, rank: usize) -> bool {
        // The system first: what a process wrote before it ended can be read after that.
        self.presence(rank) == JOINED
            && !self.memory.held(rank, self.rank)
            && self.presence(rank) == JOINED
    }

    /// Whether another rank has said goodbye. Everything it had to write was written before.
    pub(crate) fn has_left(&self, rank: usize) -> bool {
        self.presence(rank) == LEFT
    }

    /// Says goodbye: after this, the end of the process is no death.
    pub(crate) fn leave(&self) {
        self.memory.word(self.layout.presence_at(self.rank)).store(LEFT, Ordering::Release);
    }

    fn presence(&self, rank: usize) -> u64 {
        self.memory.word(self.layout.presence_at(rank)).load(Ordering::Acquire)
    }
}
