//! Where the arenas of groups come from.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{LinkKind, Result, StartError};
use crate::transport::arena::{ArenaGroup, Geometry, MAX_RANKS};
use crate::transport::shm::{Offer, Segment, Settings, ShmHost, attach};

use super::Matrix;

/// The arena of a sub-group may have this part of the staging memory of the whole job's.
const SUB_GROUP_SHARE: usize = 4;

/// Handing out memory takes milliseconds; if it takes longer there is something in the way.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of an offer, after a flag.
const OFFER: usize = 1 + Offer::BYTES;

/// Staging memory of one rank in a group of threads.
const STAGING: usize = 4 << 20;

/// An all-gather among the ranks of a group.
pub(crate) type Exchange<'a> = dyn FnMut(&[u8]) -> Result<Vec<Vec<u8>>> + 'a;

/// Makes the arena of a group, if its ranks can have one.
#[derive(Clone)]
pub(crate) enum Arenas {
    /// Messages only.
    None,
    /// Ranks are threads of this process, which leave each other's handles here.
    Threads(Threads),
    /// Ranks are processes of one host.
    Host(Arc<Host>),
}

/// What the ranks of one host share.
pub(crate) struct Host {
    /// Holds the memory.
    segment: Mutex<Segment>,
    /// Ranks of the job that share it.
    ranks: Vec<usize>,
    /// Bound on the staging memory of one rank.
    staging: usize,
}

/// Handles that were made by the first thread of a group and not yet fetched by the others.
type Threads = Arc<Mutex<HashMap<u64, Vec<Option<ArenaGroup>>>>>;

impl Arenas {
    /// For threads of one process.
    pub(crate) fn in_process(wanted: bool) -> Self {
        if wanted { Arenas::Threads(Arc::default()) } else { Arenas::None }
    }

    /// For processes that share a segment.
    pub(crate) fn for_host(segment: Segment, ranks: Vec<usize>, staging: usize) -> Self {
        Arenas::Host(Arc::new(Host { segment: Mutex::new(segment), ranks, staging }))
    }

    /// Whether the process of a rank of the job has ended without a goodbye, as far as the system
    /// can tell.
    pub(super) fn has_died(&self, rank: usize) -> bool {
        self.ask(rank, Segment::has_died)
    }

    /// Whether a rank of the job has said goodbye in the memory it shares with this one.
    pub(super) fn has_left(&self, rank: usize) -> bool {
        self.ask(rank, Segment::has_left)
    }

    fn ask(&self, rank: usize, question: fn(&Segment, usize) -> bool) -> bool {
        let Arenas::Host(host) = self else { return false };
        let Some(place) = host.ranks.iter().position(|other| *other == rank) else { return false };
        question(&host.segment.lock().unwrap_or_else(PoisonError::into_inner), place)
    }

    /// Says goodbye to the ranks that share memory with this one.
    pub(super) fn leave(&self) {
        if let Arenas::Host(host) = self {
            host.segment.lock().unwrap_or_else(PoisonError::into_inner).leave();
        }
    }

    /// The arena of a group. All members call it; `exchange` is an all-gather among them. The
    /// result is an arena on all of them or on none. While a rank waits for the others, `stop` is
    /// asked; once it has said so, `exchange` is to fail.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn form(
        &self,
        id: u64,
        rank: usize,
        members: &[usize],
        matrix: &Matrix,
        within: Duration,
        exchange: &mut Exchange<'_>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<ArenaGroup>> {
        if !(2..=MAX_RANKS).contains(&members.len()) || !matrix.one_host(members) {
            return Ok(None);
        }
        match self {
            Arenas::None => Ok(None),
            Arenas::Threads(threads) => {
                if matrix.kinds(members) != [LinkKind::Memory] {
                    return Ok(None);
                }
                in_process(threads, id, rank, members.len()).map(Some)
            }
            Arenas::Host(host) => {
                if matrix.kinds(members) != [LinkKind::Shm] {
                    return Ok(None);
                }
                if id == 0 && members == host.ranks {
                    let mut segment = host.segment.lock().unwrap_or_else(PoisonError::into_inner);
                    return Ok(segment.take_arena());
                }
                new_segment(host, rank, members.len(), within, exchange, stop)
            }
        }
    }
}

/// An arena of its own for some of the ranks of a host: the first one makes it and hands it on. If
/// that fails anywhere, the group does without.
fn new_segment(
    host: &Host,
    rank: usize,
    size: usize,
    within: Duration,
    exchange: &mut Exchange<'_>,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<ArenaGroup>> {
    let settings = Settings { ranks: size, staging: host.staging / SUB_GROUP_SHARE, rings: false };
    let mut offered = None;
    let mut card = vec![0; OFFER];
    if rank == 0 {
        match Offer::new().and_then(|offer| Ok((ShmHost::create(&settings, offer.clone())?, offer)))
        {
            Ok((made, offer)) => {
                card[0] = 1;
                card[1..].copy_from_slice(&offer.to_bytes());
                offered = Some(made);
            }
            Err(error) => tracing::warn!(%error, "a sub-group does without shared memory"),
        }
    }
    let cards = exchange(&card)?;
    let first: &[u8; OFFER - 1] = cards[0][1..].try_into().expect("cards have one length");
    let deadline = Instant::now() + within.min(PATIENCE);
    let segment = match offered {
        Some(host) => Some(host.serve(deadline, stop)),
        None if rank > 0 && cards[0][0] == 1 => {
            Some(attach(&Offer::from_bytes(first), size, rank, deadline, stop))
        }
        None => None,
    };
    let arena = match segment {
        Some(Ok(mut segment)) => segment.take_arena(),
        Some(Err(error)) => {
            tracing::warn!(%error, "a sub-group does without shared memory");
            None
        }
        None => None,
    };
    let there = exchange(&[u8::from(arena.is_some())])?;
    Ok(arena.filter(|_| there.iter().all(|card| card[0] == 1)))
}

fn in_process(threads: &Threads, id: u64, rank: usize, size: usize) -> Result<ArenaGroup> {
    let mut waiting = threads.lock().unwrap_or_else(PoisonError::into_inner);
    let handles = match waiting.entry(id) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(free) => {
            let made = ArenaGroup::in_process(Geometry::within(size, STAGING));
            let handles = made.map_err(|error| StartError::System {
                rank,
                action: "map memory for the group's threads".to_owned(),
                reason: error.to_string(),
            })?;
            free.insert(handles.into_iter().map(Some).collect())
        }
    };
    let own = handles[rank].take().expect("every rank fetches its handle once");
    if handles.iter().all(Option::is_none) {
        waiting.remove(&id);
    }
    Ok(own)
}
