//! Where the arenas of groups come from.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::{LinkKind, Result, StartError};
use crate::transport::arena::{ArenaGroup, Geometry, MAX_RANKS};

use super::Matrix;

/// Staging memory of one rank in a group of threads.
const STAGING: usize = 4 << 20;

/// Makes the arena of a group, if its ranks can have one.
#[derive(Clone)]
pub(crate) enum Arenas {
    /// Messages only.
    None,
    /// Ranks are threads of this process, which leave each other's handles here.
    Threads(Threads),
}

/// Handles that were made by the first thread of a group and not yet fetched by the others.
type Threads = Arc<Mutex<HashMap<u64, Vec<Option<ArenaGroup>>>>>;

impl Arenas {
    /// For threads of one process.
    pub(crate) fn in_process(wanted: bool) -> Self {
        if wanted { Arenas::Threads(Arc::default()) } else { Arenas::None }
    }

    /// The arena of a group. All members call it; `exchange` is an all-gather among them. The
    /// result is an arena on all of them or on none.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn form(
        &self,
        id: u64,
        rank: usize,
        members: &[usize],
        matrix: &Matrix,
        _within: Duration,
        _exchange: &mut dyn FnMut(&[u8]) -> Result<Vec<Vec<u8>>>,
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
        }
    }
}

fn in_process(threads: &Threads, id: u64, rank: usize, size: usize) -> Result<ArenaGroup> {
    let mut waiting = threads.lock().unwrap_or_else(PoisonError::into_inner);
    if !waiting.contains_key(&id) {
        let handles = ArenaGroup::in_process(Geometry::within(size, STAGING)).map_err(|error| {
            StartError::System {
                rank,
                action: "map memory for the group's threads".to_owned(),
                reason: error.to_string(),
            }
        })?;
        waiting.insert(id, handles.into_iter().map(Some).collect());
    }
    let handles = waiting.get_mut(&id).expect("just made");
    let own = handles[rank].take().expect("every rank fetches its handle once");
    if handles.iter().all(Option::is_none) {
        waiting.remove(&id);
    }
    Ok(own)
}
