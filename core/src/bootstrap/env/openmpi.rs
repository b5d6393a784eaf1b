//! Open MPI's `mpirun`: `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE`. It gives no address. If
//! all ranks are on this host they meet at a private file, else `LYCAON_RENDEZVOUS` is needed.

use super::{Found, Lookup, Place, need, value};
use crate::error::ConfigError;

const RANK: &str = "OMPI_COMM_WORLD_RANK";
const SIZE: &str = "OMPI_COMM_WORLD_SIZE";
const LOCAL: &str = "OMPI_COMM_WORLD_LOCAL_SIZE";

pub(super) fn read(lookup: &Lookup<'_>) -> Result<Option<Found>, ConfigError> {
    let Some(present) = [RANK, SIZE].into_iter().find(|name| lookup(name).is_some()) else {
        return Ok(None);
    };
    let rank = value::rank(RANK, &need(lookup, RANK, present)?)?;
    let size = value::size(SIZE, &need(lookup, SIZE, present)?)?;
    let local = match lookup(LOCAL) {
        Some(text) => value::size(LOCAL, &text)? == size,
        None => false,
    };
    // The name space is that of the job; version 4 also gives its number.
    let job = lookup("PMIX_NAMESPACE")
        .or_else(|| lookup("OMPI_MCA_ess_base_jobid"))
        .map(|id| format!("openmpi-{id}"));
    let place = match &job {
        Some(job) if local => Place::ThisHost(job.clone()),
        _ => Place::Unknown,
    };
    Ok(Some(Found { rank: (RANK, rank), size: (SIZE, size), place, job }))
}
