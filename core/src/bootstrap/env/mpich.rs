//! MPICH's Hydra and other launchers that speak PMI: `PMI_RANK`, `PMI_SIZE`. They give no
//! address. If all ranks are on this host they meet at a private file, else `LYCAON_RENDEZVOUS`
//! is needed.
//!
//! Hydra gives the job no name; what its local ranks have in common is the proxy process that
//! started them.

use super::{Found, Lookup, Place, need, value};
use crate::error::ConfigError;
use crate::sys::process;

const RANK: &str = "PMI_RANK";
const SIZE: &str = "PMI_SIZE";
const LOCAL: &str = "MPI_LOCALNRANKS";

pub(super) fn read(lookup: &Lookup<'_>) -> Result<Option<Found>, ConfigError> {
    let Some(present) = [RANK, SIZE].into_iter().find(|name| lookup(name).is_some()) else {
        return Ok(None);
    };
    let rank = value::rank(RANK, &need(lookup, RANK, present)?)?;
    let size = value::size(SIZE, &need(lookup, SIZE, present)?)?;
    let found = |place, job| Found { rank: (RANK, rank), size: (SIZE, size), place, job };
    let local = match lookup(LOCAL) {
        Some(text) => value::size(LOCAL, &text)? == size,
        None => false,
    };
    if !local {
        return Ok(Some(found(Place::Unknown, None)));
    }
    let id = lookup("PMI_JOBID").unwrap_or_else(|| format!("proxy-{}", process::launcher()));
    let job = format!("pmi-{id}");
    Ok(Some(found(Place::ThisHost(job.clone()), Some(job))))
}
