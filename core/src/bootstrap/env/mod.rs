//! The environment: our own variables and those of other launchers.
//!
//! Each launcher has a module whose `read` answers three things: nothing of it is there
//! (`Ok(None)`), it is there and whole (`Ok(Some(_))`), or it is there and wrong or incomplete.

pub(crate) mod jaccl;
mod lycaon;
mod mlx;
mod mpich;
mod openmpi;
mod slurm;
mod torchrun;
pub(crate) mod value;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::config::{ConfigBuilder, Rendezvous};
use crate::error::ConfigError;

/// Gives the value of a variable.
pub(crate) type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Every variable that is read.
pub(crate) const NAMES: &[&str] = &[
    "LYCAON_RANK",
    "LYCAON_SIZE",
    "LYCAON_RENDEZVOUS",
    "LYCAON_TOKEN",
    "LYCAON_JOB",
    "LYCAON_START_TIMEOUT",
    "LYCAON_TIMEOUT",
    "LYCAON_LINKS",
    "LYCAON_RAILS",
    "LYCAON_HOST_ID",
    "LYCAON_INTERFACE",
    "LYCAON_ALGORITHM",
    "LYCAON_RANK_ORDER",
    "LYCAON_SPIN_US",
    "LYCAON_STAGING",
    "LYCAON_RECORDER",
    "LYCAON_LIVENESS",
    "LYCAON_RDMA_QP",
    "LYCAON_RDMA_GID_INDEX",
    "JACCL_RANK",
    "JACCL_COORDINATOR",
    "JACCL_IBV_DEVICES",
    "JACCL_RING",
    "MLX_JACCL_COORDINATOR",
    "MLX_IBV_DEVICES",
    "MLX_JACCL_RING",
    "MLX_RANK",
    "MLX_HOSTFILE",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_MCA_ess_base_jobid",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_JOBID",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NODELIST",
    "XDG_RUNTIME_DIR",
];

/// What a launcher's variables say.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Name and value of the rank.
    pub rank: (&'static str, usize),
    /// Name and value of the size.
    pub size: (&'static str, usize),
    /// Where the ranks meet.
    pub place: Place,
    /// A name for the job.
    pub job: Option<String>,
}

/// Where the ranks meet.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// At an address.
    Tcp { host: String, port: u16 },
    /// All ranks are on this host; the text is the same for all ranks of the job and for no
    /// other job.
    ThisHost(String),
    /// The launcher does not say.
    Unknown,
}

/// Reads everything that can be set by the environment.
pub(crate) fn read(lookup: &Lookup<'_>) -> Result<ConfigBuilder, ConfigError> {
    let builder = lycaon::read(lookup)?;
    if builder.is_placed() {
        return Ok(builder);
    }
    let Some(found) = launcher(lookup)? else { return Ok(builder) };
    let own = builder.rendezvous_of().cloned();
    let rendezvous_name = "LYCAON_RENDEZVOUS".to_owned();
    let mut builder = builder.rank(found.rank.1).size(found.size.1);
    if found.size.1 > 1 {
        builder = match (own, found.place) {
            (Some(own), _) => builder.rendezvous(own),
            (None, Place::Tcp { host, port }) => builder.rendezvous(Rendezvous::Tcp { host, port }),
            (None, Place::ThisHost(key)) => builder.local_rendezvous(private_file(lookup, &key)),
            (None, Place::Unknown) => builder,
        };
    }
    builder.names = [found.rank.0.to_owned(), found.size.0.to_owned(), rendezvous_name];
    match found.job {
        Some(job) if lookup("LYCAON_JOB").is_none() => Ok(builder.job(job)),
        _ => Ok(builder),
    }
}

/// The launcher that counts: the first complete one. An incomplete one is an error only if no
/// complete one is there, and Slurm, inside whose allocations the others run, never contradicts.
fn launcher(lookup: &Lookup<'_>) -> Result<Option<Found>, ConfigError> {
    let mut first: Option<Found> = None;
    let mut incomplete = None;
    for read in [jaccl::read, mlx::read, torchrun::read, openmpi::read, mpich::read] {
        let found = match read(lookup) {
            Ok(None) => continue,
            Ok(Some(found)) => found,
            Err(error @ ConfigError::Missing { .. }) => {
                incomplete.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(first) = &first else {
            first = Some(found);
            continue;
        };
        for (one, other) in [(first.rank, found.rank), (first.size, found.size)] {
            if one.1 != other.1 {
                return Err(ConfigError::Conflict {
                    first: format!("{}={}", one.0, one.1),
                    second: format!("{}={}", other.0, other.1),
                    why: "two launchers' variables are set; unset one, or set LYCAON_RANK and LYCAON_SIZE",
                });
            }
        }
    }
    match first {
        Some(mut found) => {
            // A PMI launcher under Slurm gives no address, but the step does.
            if matches!(found.place, Place::Unknown)
                && let Ok(Some(step)) = slurm::read(lookup)
                && (step.rank.1, step.size.1) == (found.rank.1, found.size.1)
            {
                found.place = step.place;
            }
            Ok(Some(found))
        }
        None => match (slurm::read(lookup)?, incomplete) {
            (Some(found), _) => Ok(Some(found)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        },
    }
}

/// The variable, or an error that says which other one makes it necessary.
fn need(
    lookup: &Lookup<'_>,
    missing: &'static str,
    present: &'static str,
) -> Result<String, ConfigError> {
    lookup(missing).ok_or_else(|| ConfigError::Missing {
        missing: missing.to_owned(),
        present: present.to_owned(),
    })
}

/// A file that only this user's processes on this host can see. The folder is made at start.
fn private_file(lookup: &Lookup<'_>, key: &str) -> PathBuf {
    let folder = lookup("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute() && folder.is_dir())
        .map_or_else(
            || {
                let user = rustix::process::getuid().as_raw();
                Path::new("/tmp").join(format!("lycaon-{user}"))
            },
            |folder| folder.join("lycaon"),
        );
    let digest = Sha256::digest(key.as_bytes());
    let name: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!("{name}.json"))
}

/// A port that every rank derives from the same text, outside of the usual ephemeral ranges.
fn derived_port(key: &str) -> u16 {
    20_000 + (crate::call::fnv1a(key.as_bytes()) % 12_000) as u16
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
