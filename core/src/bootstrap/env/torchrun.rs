//! torchrun: `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`, and what the elastic agent adds.
//!
//! `MASTER_PORT` belongs to PyTorch: the agent's store listens there, or rank 0 itself once the
//! program calls `torch.distributed`. So this library never uses it. If `LOCAL_WORLD_SIZE` says
//! that all ranks are on this host, they meet at a private file; else rank 0 listens at
//! `MASTER_ADDR`, one port above `MASTER_PORT` (below it, if that is the last one).

use super::{Found, Lookup, Place, need, value};
use crate::error::ConfigError;

const RANK: &str = "RANK";
const SIZE: &str = "WORLD_SIZE";
const LOCAL: &str = "LOCAL_WORLD_SIZE";
const ADDRESS: &str = "MASTER_ADDR";
const PORT: &str = "MASTER_PORT";

pub(super) fn read(lookup: &Lookup<'_>) -> Result<Option<Found>, ConfigError> {
    let Some(present) = [RANK, SIZE, ADDRESS, PORT].into_iter().find(|name| lookup(name).is_some())
    else {
        return Ok(None);
    };
    let rank = value::rank(RANK, &need(lookup, RANK, present)?)?;
    let size = value::size(SIZE, &need(lookup, SIZE, present)?)?;
    let found = |place, job| Found { rank: (RANK, rank), size: (SIZE, size), place, job };
    if size == 1 {
        return Ok(Some(found(Place::Unknown, None)));
    }
    let host = need(lookup, ADDRESS, present)?;
    let port = value::port(PORT, &need(lookup, PORT, present)?)?;
    let run = lookup("TORCHELASTIC_RUN_ID").unwrap_or_else(|| "none".to_owned());
    let restart = lookup("TORCHELASTIC_RESTART_COUNT").unwrap_or_else(|| "0".to_owned());
    let job = format!("torchrun-{run}-{port}-{restart}");
    let local = match lookup(LOCAL) {
        Some(text) => value::size(LOCAL, &text)? == size,
        None => false,
    };
    let place = if local {
        Place::ThisHost(format!("{host} {job}"))
    } else {
        Place::Tcp { host, port: if port == u16::MAX { port - 1 } else { port + 1 } }
    };
    Ok(Some(found(place, Some(job))))
}
