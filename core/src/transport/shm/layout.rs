//! What is where in a segment.

use super::ShmError;
use crate::sys::ring;
use crate::sys::shm::PAGE;
use crate::transport::arena::{Geometry, MAX_RANKS};

/// Staging memory per rank, unless set.
pub(crate) const DEFAULT_STAGING: usize = 16 << 20;

/// Bytes of a slot of the arena, if the staging allows: two cores' caches hold a pair of them.
const SLOT: usize = 256 << 10;
const LEAST_SLOT: usize = 16 << 10;
/// Slots that are filled, reduced and copied out at the same time.
const DEPTH: usize = 3;
/// Data up to this size takes one synchronisation and is reduced by every rank for itself.
const SMALL: usize = 8 << 10;
/// Bytes of a ring.
const LEAST_RING: usize = 64 << 10;
const RING: usize = 256 << 10;

/// What a segment is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Ranks of this host that share it.
    pub ranks: usize,
    /// Most bytes of staging per rank.
    pub staging: usize,
    /// Whether messages between two ranks go through it too.
    pub rings: bool,
}

/// Offsets and sizes; the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub geometry: Geometry,
    /// Bytes that a ring holds; 0 if there are none.
    pub ring: usize,
}

impl Layout {
    /// The best that the settings allow.
    pub(super) fn new(settings: &Settings) -> Result<Layout, ShmError> {
        let Settings { ranks, staging, rings } = *settings;
        if !(1..=MAX_RANKS).contains(&ranks) {
            return Err(ShmError::TooMany { ranks, most: MAX_RANKS });
        }
        let with = |slot, ring| {
            let geometry = Geometry { ranks, small: SMALL, slot: [slot, slot], depth: DEPTH };
            Layout { geometry, ring: if rings { ring } else { 0 } }
        };
        let mut layout = with(SLOT, RING);
        // The rings first: messages are more patient than reductions.
        while layout.staging() > staging && layout.ring > LEAST_RING {
            layout = with(SLOT, layout.ring / 2);
        }
        while layout.staging() > staging && layout.geometry.slot[0] > LEAST_SLOT {
            layout = with(layout.geometry.slot[0] / 2, LEAST_RING);
        }
        if layout.staging() > staging {
            return Err(ShmError::Budget { ranks, least: layout.staging(), staging });
        }
        Ok(layout)
    }

    fn ring_stride(&self) -> usize {
        if self.ring == 0 { 0 } else { ring::footprint(self.ring) }
    }

    /// Bytes per rank: its cards and lanes, the rings that it writes, its share of the rest.
    pub(super) fn staging(&self) -> usize {
        self.total().div_ceil(self.geometry.ranks)
    }

    /// Where the ring from one rank to another begins.
    pub(super) fn ring_at(&self, from: usize, to: usize) -> usize {
        let ranks = self.geometry.ranks;
        assert!(from < ranks && to < ranks && from != to);
        let to = if to < from { to } else { to - 1 };
        self.geometry.total() + (from * (ranks - 1) + to) * self.ring_stride()
    }

    /// The word that says whether a rank has joined or left.
    pub(super) fn presence_at(&self, rank: usize) -> usize {
        let ranks = self.geometry.ranks;
        self.geometry.total() + ranks * (ranks - 1) * self.ring_stride() + 8 * rank
    }

    /// Bytes of the whole.
    pub(super) fn total(&self) -> usize {
        self.presence_at(self.geometry.ranks).next_multiple_of(PAGE)
    }

    /// Length of the encoded form.
    pub(super) const ENCODED: usize = 48;

    pub(super) fn encode(&self) -> [u8; Self::ENCODED] {
        let Geometry { ranks, small, slot, depth } = self.geometry;
        let mut bytes = [0; Self::ENCODED];
        let words = [ranks, small, slot[0], slot[1], depth, self.ring];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&(word as u64).to_le_bytes());
        }
        bytes
    }

    /// Reads what [`Layout::encode`] wrote; `None` if it makes no sense.
    pub(super) fn decode(bytes: &[u8; Self::ENCODED]) -> Option<Layout> {
        let word = |at: usize| {
            let word = bytes[8 * at..8 * at + 8].try_into().expect("8 bytes");
            usize::try_from(u64::from_le_bytes(word)).ok()
        };
        let geometry = Geometry {
            ranks: word(0)?,
            small: word(1)?,
            slot: [word(2)?, word(3)?],
            depth: word(4)?,
        };
        let layout = Layout { geometry, ring: word(5)? };
        let ring_fits = layout.ring == 0
            || (layout.ring.is_power_of_two() && (64..=1 << 30).contains(&layout.ring));
        (geometry.is_valid() && ring_fits).then_some(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_ranks_fits_into_the_default_budget() {
        for ranks in 1..=MAX_RANKS {
            for rings in [false, true] {
                let settings = Settings { ranks, staging: DEFAULT_STAGING, rings };
                let layout = Layout::new(&settings).unwrap();
                assert!(layout.staging() <= DEFAULT_STAGING, "{layout:?}");
                assert!(layout.total() <= ranks * DEFAULT_STAGING, "{layout:?}");
                assert_eq!(layout.geometry.slot[0], SLOT, "{ranks} ranks");
                assert_eq!(Layout::decode(&layout.encode()), Some(layout));
            }
        }
    }

    #[test]
    fn rings_do_not_overlap_and_lie_inside() {
        let settings = Settings { ranks: 5, staging: DEFAULT_STAGING, rings: true };
        let layout = Layout::new(&settings).unwrap();
        let mut starts: Vec<_> = (0..5)
            .flat_map(|from| (0..5).filter(move |to| *to != from).map(move |to| (from, to)))
            .map(|(from, to)| layout.ring_at(from, to))
            .collect();
        starts.sort_unstable();
        assert!(starts[0] >= layout.geometry.total());
        assert!(starts.windows(2).all(|pair| pair[0] + layout.ring_stride() <= pair[1]));
        assert!(starts[19] + layout.ring_stride() <= layout.total());
    }

    #[test]
    fn small_budgets_shrink_and_impossible_ones_say_what_would_do() {
        let small = Settings { ranks: 4, staging: 1 << 20, rings: true };
        assert!(Layout::new(&small).unwrap().staging() <= 1 << 20);
        let none = Settings { ranks: 64, staging: 1 << 20, rings: true };
        let Err(ShmError::Budget { least, .. }) = Layout::new(&none) else { panic!() };
        assert!(Layout::new(&Settings { staging: least, ..none }).is_ok());
        let many = Settings { ranks: 65, staging: DEFAULT_STAGING, rings: false };
        assert!(matches!(Layout::new(&many), Err(ShmError::TooMany { .. })));
    }

    #[test]
    fn nonsense_does_not_decode() {
        let settings = Settings { ranks: 3, staging: DEFAULT_STAGING, rings: true };
        let good = Layout::new(&settings).unwrap().encode();
        for word in 0..6 {
            for value in [u64::MAX, 3 << 62, 65] {
                let mut bytes = good;
                bytes[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
                assert_eq!(Layout::decode(&bytes), None, "word {word} = {value}");
            }
        }
    }
}
