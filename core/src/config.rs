//! What a rank must know to join its group.
//!
//! [`Config::from_env`] reads the process environment, [`Config::builder`] takes everything by
//! hand, and [`ConfigBuilder::from_env`] starts from the environment and lets single values be
//! replaced. All of them end in the same checked value.
//!
//! # Environment
//!
//! | variable | value | default |
//! |---|---|---|
//! | `LYCAON_RANK` | this process: 0, 1, … | 0 if no launcher's variables are set |
//! | `LYCAON_SIZE` | number of processes | 1 if no launcher's variables are set |
//! | `LYCAON_RENDEZVOUS` | where rank 0 listens: `host:port`, `[v6]:port`, `file:/path` or a path on a disk that all ranks see | none; needed above size 1 |
//! | `LYCAON_TOKEN` | a secret that all ranks share; needed if the rendezvous is not on loopback | none |
//! | `LYCAON_JOB` | a name that keeps jobs apart | from the launcher, else `lycaon` |
//! | `LYCAON_START_TIMEOUT` | how long forming the group may take: `60`, `1.5s`, `500ms`, `2m` | `60s` |
//! | `LYCAON_TIMEOUT` | how long an operation waits without any progress | `30s` |
//! | `LYCAON_LINKS` | allowed kinds of link, in order of preference | `shm,rdma,tcp` |
//! | `LYCAON_RDMA_QP` | type of the RDMA queue pairs: `rc` (reliable) or `uc` (unreliable) | `rc` where both ends have it |
//! | `LYCAON_PROFILE` | a file with what messages and bytes cost here, as `lycaon tune` writes it | built-in numbers |
//! | `LYCAON_RDMA_GID_INDEX` | which of its identifiers an RDMA device uses | chosen by the peer's |
//! | `LYCAON_RAILS` | TCP sockets per link, 1 to 64 | `1` |
//! | `LYCAON_HOST_ID` | a name for this host; ranks with different names share no memory | the system's identity |
//! | `LYCAON_INTERFACE` | local addresses or interface names for data, separated by commas | all |
//! | `LYCAON_ALGORITHM` | `ring` for every operation, or `all_reduce=ring,broadcast=log` | chosen by cost |
//! | `LYCAON_RANK_ORDER` | `1`: only algorithms that sum in rank order | `0` |
//! | `LYCAON_SPIN_US` | microseconds of polling before a wait sleeps in the kernel | chosen at run time |
//! | `LYCAON_STAGING` | upper bound of the staging memory of a rank: bytes, or with `k`, `M` | `16M` |
//! | `LYCAON_RECORDER` | operations that the flight recorder keeps per group | `256` |
//! | `LYCAON_LIVENESS` | interval of the keep-alive on the control connection | `5s` |
//!
//! `JACCL_IBV_DEVICES` or `MLX_IBV_DEVICES` names a JSON file with the RDMA devices of each rank
//! towards each other one (`null`, a name, or a list of names, one per cable). Without it they are
//! found. `JACCL_RING=1` or `MLX_JACCL_RING=1` asks for the ring algorithms.
//!
//! Without `LYCAON_RANK` and `LYCAON_SIZE` the variables of other launchers are read, the first
//! set that is there winning: JACCL (`JACCL_RANK`, `JACCL_COORDINATOR`, `JACCL_IBV_DEVICES`, or MLX's
//! names for them: `MLX_RANK`, `MLX_JACCL_COORDINATOR`, `MLX_IBV_DEVICES`), MLX's ring (`MLX_RANK`, `MLX_HOSTFILE`), torchrun (`RANK`,
//! `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`), Open MPI (`OMPI_COMM_WORLD_RANK`,
//! `OMPI_COMM_WORLD_SIZE`), MPICH and other PMI launchers (`PMI_RANK`, `PMI_SIZE`), Slurm
//! (`SLURM_PROCID`, `SLURM_STEP_ID`, `SLURM_STEP_NUM_TASKS`). Two of the first four that give
//! different ranks or sizes are an error; Slurm yields to all others, since they run inside its
//! allocations. If a part of a set is there and the rest is missing, that is an error too: a
//! process never computes alone by accident. `LYCAON_RENDEZVOUS` and all other `LYCAON_`
//! variables add to or replace what another launcher gives.
//!
//! `LYCAON_LOG` is no part of the configuration: it says how much the program `lycaon` and the
//! Python module log to stderr (see [`trace`](crate::trace)).

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use self::builder::ConfigBuilder;
use crate::bootstrap::env;
use crate::call::Operation;
use crate::collective::Algorithm;
use crate::error::{ConfigError, LinkKind};
use crate::tune::profile::Profile;

mod builder;

/// The largest group.
pub const MAX_SIZE: usize = 65_536;

/// An all-gather of the program itself, used in place of a rendezvous address.
///
/// It is called once per rank while the group forms, and every rank must get the same answer.
pub trait SideChannel: Send + Sync {
    /// Every rank gives `mine`; the answer holds one entry per rank, in rank order.
    ///
    /// # Errors
    /// A text that says what went wrong. It ends the start of the group on this rank.
    fn all_gather(&self, rank: usize, size: usize, mine: &[u8]) -> Result<Vec<Vec<u8>>, String>;
}

/// Where the ranks find one another.
#[derive(Clone)]
#[non_exhaustive]
pub enum Rendezvous {
    /// Rank 0 listens at this address.
    Tcp {
        /// An IP address or a host name.
        host: String,
        /// The port.
        port: u16,
    },
    /// Rank 0 writes its addresses into this file, on a disk that all ranks see.
    File(PathBuf),
    /// The program has its own way to exchange a few bytes between all ranks.
    SideChannel(Arc<dyn SideChannel>),
}

impl fmt::Debug for Rendezvous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Rendezvous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rendezvous::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Rendezvous::Tcp { host, port } => write!(f, "{host}:{port}"),
            Rendezvous::File(path) => write!(f, "file:{}", path.display()),
            Rendezvous::SideChannel(_) => f.write_str("the program's all-gather function"),
        }
    }
}

impl std::str::FromStr for Rendezvous {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        env::value::rendezvous("rendezvous", text)
    }
}

/// A secret: it never shows in `Debug` output.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(Vec<u8>);

impl Token {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// A local address or interface that data may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// An address of this host.
    Address(IpAddr),
    /// The name of an interface, for example `en5`.
    Name(String),
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interface::Address(address) => address.fmt(f),
            Interface::Name(name) => f.write_str(name),
        }
    }
}

/// The type of RDMA queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairs {
    /// Reliable connections: what gets lost is sent again by the device.
    Reliable,
    /// Unreliable connections: the only ones that RDMA over Thunderbolt has on macOS. A message
    /// that gets lost breaks the link.
    Unreliable,
}

/// How RDMA is to be used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rdma {
    /// By rank and peer, the devices towards it.
    pub(crate) devices: Option<Vec<Vec<Vec<String>>>>,
    pub(crate) queue_pairs: Option<QueuePairs>,
    pub(crate) gid_index: Option<usize>,
    /// In place of the library of the system.
    pub(crate) library: Option<Arc<dyn crate::transport::verbs::api::Library>>,
}

/// Reads a file with the RDMA devices of each rank towards each other one: a JSON table whose cell
/// `[i][j]` is `null`, the name of the device that rank i uses towards rank j, or a list of names.
///
/// # Errors
/// The file cannot be read or is no such table.
pub fn read_rdma_devices(path: &str) -> Result<Vec<Vec<Vec<String>>>, ConfigError> {
    env::jaccl::load(path)
}

/// The checked configuration of one rank. See the [module](self) for the meaning of the values.
#[derive(Clone, Debug)]
pub struct Config {
    rank: usize,
    size: usize,
    rendezvous: Option<Rendezvous>,
    loopback_only: bool,
    token: Option<Token>,
    job: String,
    start_timeout: Duration,
    timeout: Duration,
    links: Vec<LinkKind>,
    rails: usize,
    host_id: Option<String>,
    interfaces: Vec<Interface>,
    algorithms: Vec<(Option<Operation>, Algorithm)>,
    rank_order: bool,
    spin: Option<Duration>,
    staging: usize,
    recorder: usize,
    liveness: Duration,
    rdma: Rdma,
    profile: Profile,
}

impl Config {
    /// A configuration by hand.
    pub fn builder() -> ConfigBuilder {
        ConfigBuilder::default()
    }

    /// Reads the environment of this process.
    ///
    /// # Errors
    /// A variable is wrong, missing, or contradicts another one.
    pub fn from_env() -> Result<Self, ConfigError> {
        ConfigBuilder::from_env()?.build()
    }

    /// Reads an environment that `lookup` gives; the process environment is not touched.
    ///
    /// # Errors
    /// As for [`Config::from_env`].
    pub fn from_vars(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        ConfigBuilder::from_vars(lookup)?.build()
    }

    /// This process in the group.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Processes in the group.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Where the ranks find one another; `None` only for a group of size 1.
    pub fn rendezvous(&self) -> Option<&Rendezvous> {
        self.rendezvous.as_ref()
    }

    /// Whether the launcher said that all ranks are on this host, so that rank 0 need not listen
    /// on any other interface.
    pub(crate) fn loopback_only(&self) -> bool {
        self.loopback_only
    }

    pub(crate) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Whether the ranks share a secret.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The name of the job.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// How long forming the group may take.
    pub fn start_timeout(&self) -> Duration {
        self.start_timeout
    }

    /// How long an operation waits without any progress.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The kinds of link that may be used, the preferred one first.
    pub fn links(&self) -> &[LinkKind] {
        &self.links
    }

    /// TCP sockets per link.
    pub fn rails(&self) -> usize {
        self.rails
    }

    /// The name for this host, if it was given by hand.
    pub fn host_id(&self) -> Option<&str> {
        self.host_id.as_deref()
    }

    /// The local addresses and interfaces that data may use; empty means all.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The algorithm fixed by hand for an operation.
    pub fn algorithm(&self, operation: Operation) -> Option<Algorithm> {
        // Later entries win, and one for the operation itself wins over one for all.
        let find = |wanted: Option<Operation>| {
            self.algorithms.iter().rev().find(|(of, _)| *of == wanted).map(|(_, how)| *how)
        };
        find(Some(operation)).or_else(|| find(None))
    }

    /// Whether only algorithms that sum in rank order may be used.
    pub fn rank_order(&self) -> bool {
        self.rank_order
    }

    /// How long a wait polls before it sleeps, if given by hand.
    pub fn spin(&self) -> Option<Duration> {
        self.spin
    }

    /// Upper bound of the staging memory of this rank, in bytes.
    pub fn staging(&self) -> usize {
        self.staging
    }

    /// Operations that the flight recorder keeps per group.
    pub fn recorder(&self) -> usize {
        self.recorder
    }

    /// Interval of the keep-alive on the control connection.
    pub fn liveness(&self) -> Duration {
        self.liveness
    }

    pub(crate) fn rdma(&self) -> &Rdma {
        &self.rdma
    }

    /// The RDMA devices named by hand for each rank towards each other one.
    pub fn rdma_devices(&self) -> Option<&[Vec<Vec<String>>]> {
        self.rdma.devices.as_deref()
    }

    /// What messages, bytes and reductions cost.
    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// What must be equal on all ranks, by name. Deadlines, links, interfaces and spinning may
    /// differ: links are agreed pair by pair, and the others are a rank's own affair.
    pub(crate) fn shared_settings(&self) -> Vec<(&'static str, String)> {
        let algorithms: Vec<String> = Operation::ALL
            .into_iter()
            .filter_map(|operation| {
                self.algorithm(operation).map(|how| format!("{operation}={how}"))
            })
            .collect();
        let algorithms =
            if algorithms.is_empty() { "automatic".to_owned() } else { algorithms.join(",") };
        vec![
            ("size", self.size.to_string()),
            ("rails", self.rails.to_string()),
            ("staging", self.staging.to_string()),
            ("rank order", self.rank_order.to_string()),
            ("algorithm", algorithms),
            ("profile", format!("{:08x}", self.profile.digest())),
        ]
    }

    /// A hash over everything that must be equal on all ranks.
    pub fn fingerprint(&self) -> u64 {
        let text = self
            .shared_settings()
            .into_iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect::<String>();
        // 64-bit FNV-1a: it guards against mistakes, not against malice.
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

#[cfg(test)]
mod tests;
