//! The builder, and all checks.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{Config, Interface, MAX_SIZE, QueuePairs, Rdma, Rendezvous, Token};
use crate::bootstrap::env;
use crate::call::Operation;
use crate::collective::Algorithm;
use crate::error::{ConfigError, LinkKind};
use crate::tune::profile::Profile;

/// The longest name of a job, in bytes.
const MAX_JOB: usize = 255;
/// The longest token, in bytes.
const MAX_TOKEN: usize = 4096;
/// No deadline or interval is longer: a hundred days.
const MAX_DURATION: Duration = Duration::from_secs(8_640_000);

/// Makes a [`Config`].
#[derive(Clone, Debug)]
pub struct ConfigBuilder {
    // What rank, size and rendezvous are called in messages: their variables or the fields.
    pub(crate) names: [String; 3],
    rank: Option<usize>,
    size: Option<usize>,
    rendezvous: Option<Rendezvous>,
    loopback_only: bool,
    token: Option<Token>,
    job: Option<String>,
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
    profile: Option<PathBuf>,
}

impl Default for ConfigBuilder {
    fn default() -> Self {
        ConfigBuilder {
            names: ["rank".to_owned(), "size".to_owned(), "rendezvous".to_owned()],
            rank: None,
            size: None,
            rendezvous: None,
            loopback_only: false,
            token: None,
            job: None,
            start_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(30),
            links: vec![LinkKind::Shm, LinkKind::Rdma, LinkKind::Tcp],
            rails: 1,
            host_id: None,
            interfaces: Vec::new(),
            algorithms: Vec::new(),
            rank_order: false,
            spin: None,
            staging: 16 << 20,
            recorder: 256,
            liveness: Duration::from_secs(5),
            rdma: Rdma::default(),
            profile: None,
        }
    }
}

impl ConfigBuilder {
    /// Starts from the environment of this process.
    ///
    /// # Errors
    /// As for [`Config::from_env`], as far as single values and the launchers' variables go.
    pub fn from_env() -> Result<Self, ConfigError> {
        expect_unicode(env::NAMES.iter().copied())?;
        Self::from_vars(|name| std::env::var(name).ok())
    }

    /// Starts from the settings in the environment of this process (the `LYCAON_` variables: token,
    /// deadlines, links, …), without those that say which rank this is and where the ranks meet: a
    /// program that says that itself leaves the rest to whoever runs it.
    ///
    /// # Errors
    /// As for [`Config::from_env`], as far as single values go.
    pub fn settings_from_env() -> Result<Self, ConfigError> {
        const PLACE: [&str; 3] = ["LYCAON_RANK", "LYCAON_SIZE", "LYCAON_RENDEZVOUS"];
        let is_setting = |name: &str| name.starts_with("LYCAON_") && !PLACE.contains(&name);
        expect_unicode(env::NAMES.iter().copied().filter(|name| is_setting(name)))?;
        let builder =
            Self::from_vars(|name| std::env::var(name).ok().filter(|_| is_setting(name)))?;
        Ok(ConfigBuilder { names: ConfigBuilder::default().names, ..builder })
    }

    /// Starts from an environment that `lookup` gives.
    ///
    /// # Errors
    /// As for [`ConfigBuilder::from_env`].
    pub fn from_vars(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        env::read(&lookup)
    }

    /// This process in the group.
    #[must_use]
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = Some(rank);
        self.names[0] = "rank".to_owned();
        self
    }

    /// Processes in the group.
    #[must_use]
    pub fn size(mut self, size: usize) -> Self {
        self.size = Some(size);
        self.names[1] = "size".to_owned();
        self
    }

    /// Where the ranks find one another.
    #[must_use]
    pub fn rendezvous(mut self, rendezvous: Rendezvous) -> Self {
        self.rendezvous = Some(rendezvous);
        self.loopback_only = false;
        self.names[2] = "rendezvous".to_owned();
        self
    }

    /// Whether the place in the group is already said.
    pub(crate) fn is_placed(&self) -> bool {
        self.rank.is_some() || self.size.is_some()
    }

    pub(crate) fn rendezvous_of(&self) -> Option<&Rendezvous> {
        self.rendezvous.as_ref()
    }

    pub(crate) fn local_rendezvous(mut self, path: PathBuf) -> Self {
        self.rendezvous = Some(Rendezvous::File(path));
        self.loopback_only = true;
        self
    }

    /// The secret that all ranks share.
    #[must_use]
    pub fn token(mut self, token: impl AsRef<[u8]>) -> Self {
        self.token = Some(Token(token.as_ref().to_vec()));
        self
    }

    /// The name of the job.
    #[must_use]
    pub fn job(mut self, job: impl Into<String>) -> Self {
        self.job = Some(job.into());
        self
    }

    /// How long forming the group may take.
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// How long an operation waits without any progress.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The kinds of link that may be used, the preferred one first.
    #[must_use]
    pub fn links(mut self, links: impl IntoIterator<Item = LinkKind>) -> Self {
        self.links = links.into_iter().collect();
        self
    }

    /// TCP sockets per link.
    #[must_use]
    pub fn rails(mut self, rails: usize) -> Self {
        self.rails = rails;
        self
    }

    /// A name for this host in place of the system's identity.
    #[must_use]
    pub fn host_id(mut self, id: impl Into<String>) -> Self {
        self.host_id = Some(id.into());
        self
    }

    /// The local addresses and interfaces that data may use; none means all.
    #[must_use]
    pub fn interfaces(mut self, interfaces: impl IntoIterator<Item = Interface>) -> Self {
        self.interfaces = interfaces.into_iter().collect();
        self
    }

    /// Fixes the algorithm of one operation, or with `None` of all that have no own one.
    #[must_use]
    pub fn algorithm(
        mut self,
        operation: impl Into<Option<Operation>>,
        algorithm: Algorithm,
    ) -> Self {
        self.algorithms.push((operation.into(), algorithm));
        self
    }

    /// Whether only algorithms that sum in rank order may be used.
    #[must_use]
    pub fn rank_order(mut self, only: bool) -> Self {
        self.rank_order = only;
        self
    }

    /// How long a wait polls before it sleeps in the kernel.
    #[must_use]
    pub fn spin(mut self, spin: Duration) -> Self {
        self.spin = Some(spin);
        self
    }

    /// Upper bound of the staging memory of this rank, in bytes.
    #[must_use]
    pub fn staging(mut self, bytes: usize) -> Self {
        self.staging = bytes;
        self
    }

    /// Operations that the flight recorder keeps per group.
    #[must_use]
    pub fn recorder(mut self, operations: usize) -> Self {
        self.recorder = operations;
        self
    }

    /// The RDMA devices of each rank towards each other one, as many as there are cables; none
    /// where two ranks have no cable. Without this they are found.
    #[must_use]
    pub fn rdma_devices(mut self, devices: Vec<Vec<Vec<String>>>) -> Self {
        self.rdma.devices = Some(devices);
        self
    }

    /// The type of RDMA queue pairs; without this, reliable ones where both ends have them.
    #[must_use]
    pub fn rdma_queue_pairs(mut self, kind: QueuePairs) -> Self {
        self.rdma.queue_pairs = Some(kind);
        self
    }

    /// Which of its identifiers (GIDs) an RDMA device uses; without this, one that fits the peer's.
    #[must_use]
    pub fn rdma_gid_index(mut self, index: usize) -> Self {
        self.rdma.gid_index = Some(index);
        self
    }

    /// A file with what messages, bytes and reductions cost on this cluster, as `lycaon tune`
    /// writes it; without it, built-in numbers. All ranks need the same.
    #[must_use]
    pub fn profile(mut self, path: impl Into<PathBuf>) -> Self {
        self.profile = Some(path.into());
        self
    }

    /// Verbs in place of those of the system.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn verbs(
        mut self,
        library: std::sync::Arc<dyn crate::transport::verbs::api::Library>,
    ) -> Self {
        self.rdma.library = Some(library);
        self
    }

    /// Interval of the keep-alive on the control connection.
    #[must_use]
    pub fn liveness(mut self, interval: Duration) -> Self {
        self.liveness = interval;
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    /// A value is out of range, missing, or contradicts another one.
    pub fn build(self) -> Result<Config, ConfigError> {
        let [rank_name, size_name, rendezvous_name] = &self.names;
        let missing = |missing: &String, present: String| {
            Err(ConfigError::Missing { missing: missing.clone(), present })
        };
        let (rank, size) = match (self.rank, self.size) {
            (Some(rank), Some(size)) => (rank, size),
            (None, Some(1)) => (0, 1),
            (None, None) if self.rendezvous.is_none() => (0, 1),
            (None, None) => return missing(rank_name, rendezvous_name.clone()),
            (Some(rank), None) => return missing(size_name, format!("{rank_name}={rank}")),
            (None, Some(size)) => return missing(rank_name, format!("{size_name}={size}")),
        };
        if size == 0 || size > MAX_SIZE {
            return Err(value(size_name, size, "a number of processes from 1 to 65536"));
        }
        if rank >= size {
            return Err(ConfigError::Conflict {
                first: format!("{rank_name}={rank}"),
                second: format!("{size_name}={size}"),
                why: "ranks go from 0 to size - 1",
            });
        }
        if size > 1 && self.rendezvous.is_none() {
            return missing(rendezvous_name, format!("{size_name}={size}"));
        }
        if let Some(token) = &self.token
            && (token.0.is_empty() || token.0.len() > MAX_TOKEN)
        {
            // The value is a secret and stays out of the message.
            return Err(value("token", "…", "1 to 4096 bytes"));
        }
        if size > 1
            && let Some(Rendezvous::Tcp { host, port }) = &self.rendezvous
        {
            let given = Rendezvous::Tcp { host: host.clone(), port: *port }.to_string();
            env::value::rendezvous(rendezvous_name, &given)?;
            if self.token.is_none() && !may_be_loopback(host) {
                return Err(ConfigError::TokenNeeded { address: given });
            }
        }
        let job = self.job.unwrap_or_else(|| "lycaon".to_owned());
        check("job", &job, is_name(&job, MAX_JOB), "1 to 255 printable characters")?;
        for (name, duration) in [
            ("start timeout", self.start_timeout),
            ("timeout", self.timeout),
            ("liveness", self.liveness),
        ] {
            let fits = duration >= Duration::from_millis(1) && duration <= MAX_DURATION;
            check(name, format!("{duration:?}"), fits, "from 1 ms to 100 days")?;
        }
        check("links", "", !self.links.is_empty(), "at least one of shm, rdma, tcp")?;
        let mut links = self.links;
        if links.contains(&LinkKind::Memory) {
            return Err(value(
                "links",
                "memory",
                "shm, rdma or tcp: memory joins threads, not processes",
            ));
        }
        let mut seen = Vec::new();
        links.retain(|link| {
            let new = !seen.contains(link);
            seen.push(*link);
            new
        });
        check("rails", self.rails, (1..=64).contains(&self.rails), "from 1 to 64")?;
        if let Some(id) = &self.host_id {
            check("host id", id, is_name(id, MAX_JOB), "1 to 255 printable characters")?;
        }
        for interface in &self.interfaces {
            if let Interface::Name(name) = interface {
                let plain = |c: char| c.is_alphanumeric() || "._-:@".contains(c);
                let good = is_name(name, 64) && name.chars().all(plain);
                check("interface", name, good, "an IP address or the name of an interface")?;
            }
        }
        if let Some(devices) = &self.rdma.devices {
            let square = devices.len() == size && devices.iter().all(|row| row.len() == size);
            let given = format!("{} rows", devices.len());
            check("RDMA devices", given, square, "a row and a cell for each rank of the group")?;
        }
        let staging_fits = (64 << 10..=1 << 40).contains(&self.staging);
        check("staging", self.staging, staging_fits, "from 64k to 1024G bytes")?;
        let recorder_fits = (1..=1 << 20).contains(&self.recorder);
        check("recorder", self.recorder, recorder_fits, "from 1 to 1048576 operations")?;
        if let Some(spin) = self.spin {
            let fits = spin <= Duration::from_secs(10);
            check("spin", format!("{spin:?}"), fits, "at most 10 s")?;
        }
        Ok(Config {
            rank,
            size,
            rendezvous: self.rendezvous,
            loopback_only: self.loopback_only,
            token: self.token,
            job,
            start_timeout: self.start_timeout,
            timeout: self.timeout,
            links,
            rails: self.rails,
            host_id: self.host_id,
            interfaces: self.interfaces,
            algorithms: self.algorithms,
            rank_order: self.rank_order,
            spin: self.spin,
            staging: self.staging,
            recorder: self.recorder,
            liveness: self.liveness,
            rdma: self.rdma,
            profile: self.profile.as_deref().map_or(Ok(Profile::BUILT_IN), Profile::load)?,
        })
    }
}

/// Variables that are no valid Unicode are not there for `var`; they must not be ignored.
fn expect_unicode(names: impl Iterator<Item = &'static str>) -> Result<(), ConfigError> {
    for name in names {
        if let Some(given) = std::env::var_os(name)
            && given.to_str().is_none()
        {
            return Err(value(name, given.to_string_lossy(), "valid Unicode"));
        }
    }
    Ok(())
}

fn value(name: &str, value: impl ToString, expected: &'static str) -> ConfigError {
    ConfigError::Value { name: name.to_owned(), value: value.to_string(), expected }
}

fn check(
    name: &str,
    given: impl ToString,
    good: bool,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if good { Ok(()) } else { Err(value(name, given, expected)) }
}

fn is_name(text: &str, longest: usize) -> bool {
    !text.is_empty() && text.len() <= longest && !text.chars().any(char::is_control)
}

/// Whether a host may turn out to be this machine only. A name is looked up at start, and refused
/// then if it leads elsewhere.
fn may_be_loopback(host: &str) -> bool {
    let address = host.split('%').next().unwrap_or(host);
    address.parse::<IpAddr>().map_or(true, |address| address.to_canonical().is_loopback())
}
