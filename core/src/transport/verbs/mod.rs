//! RDMA links: two-sided messages over verbs.
//!
//! - [`api`]: the part of verbs that is used, as traits; [`ffi`] implements them over the library
//!   of the system.
//! - [`port`]: devices, opened once per process, with the memory that all links share.
//! - [`link`]: one cable to a peer as an ordered [stream](super::stream) of bytes, over posted
//!   receives and credits. The [message layer](super::message) makes messages of it, as it does
//!   of sockets.
//! - [`cards`]: which devices there are, and which of them join a pair of ranks.
//! - [`establish`]: from cards to links, in steps that all ranks take together.
//! - [`guard`]: deadlines for verbs that may block, and the watch over ports.

pub(crate) mod api;
pub(crate) mod cards;
pub(crate) mod establish;
pub(crate) mod ffi;
mod guard;
mod link;
mod port;
mod slot;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use self::api::{Gid, VerbsError};
use self::guard::PortWatch;
pub(crate) use self::link::Link;
use self::port::{Channel, Port};
use super::message::{Messenger, Settings};
use crate::error::LinkKind;
use crate::sys::poller::{Interest, Poller};

/// How long listing devices may take: drivers can hang.
const LIST: Duration = Duration::from_secs(5);

/// The names of the RDMA devices that the system lists; none where it has no library for them. They
/// are not opened: whether a port is up turns out at start, and is in its message.
pub fn rdma_devices() -> Vec<String> {
    let list = || Ok(ffi::library()?.devices()?);
    let found = guard::timed("listing RDMA devices", LIST, list).unwrap_or_default();
    found.into_iter().map(|device| device.name).collect()
}

/// The message layer over verbs.
pub(crate) type RdmaTransport = Messenger<Link>;

/// Why an RDMA link did not come into being.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum RdmaError {
    /// A verb was refused.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// The device does not have so many of something.
    #[error(
        "{device} has {limit} {what}, {used} are in use by this process and {wanted} more are needed; use fewer rails or ranks per device"
    )]
    Budget {
        /// The device.
        device: String,
        /// What is short.
        what: &'static str,
        /// How many there are.
        limit: u32,
        /// How many this process has.
        used: u32,
        /// How many more it needs.
        wanted: u32,
    },
    /// The device has given all it has to this process and others.
    #[error(
        "{error}: {device} has {limit} {what}, {used} of them are in use by this process; end other programs that use the device, or use fewer rails or ranks per device"
    )]
    Taken {
        /// The device.
        device: String,
        /// What is short.
        what: &'static str,
        /// How many there are.
        limit: u32,
        /// How many this process has.
        used: u32,
        /// The verb's answer.
        error: VerbsError,
    },
    /// A device that was opened gives no protection domain.
    #[error("{error}; {device}: {states}")]
    Domain {
        /// The device.
        device: String,
        /// The states of its ports.
        states: String,
        /// The verb's answer.
        error: VerbsError,
    },
    /// More memory than one region may have.
    #[error("{device}: {wanted} bytes of slots do not fit a region of {limit} bytes")]
    Slab {
        /// The device.
        device: String,
        /// Bytes that are needed.
        wanted: u64,
        /// Bytes that a region may have.
        limit: u64,
    },
    /// The system has no memory.
    #[error("{wanted} bytes for an RDMA device: {reason}")]
    Memory {
        /// Bytes.
        wanted: usize,
        /// The system's answer.
        reason: String,
    },
    /// Memory could not be locked for the device.
    #[error(
        "{error}: {wanted} bytes have to be locked in memory{}; raise the limit (ulimit -l, LimitMEMLOCK=, /etc/security/limits.conf)",
        .limit.map_or_else(String::new, |limit| format!(", this process may lock {limit}"))
    )]
    Locked {
        /// The device.
        device: String,
        /// Bytes.
        wanted: usize,
        /// What the process may lock, if there is a limit.
        limit: Option<u64>,
        /// The verb's answer.
        error: VerbsError,
    },
    /// The queue pair did not get ready for its peer.
    #[error("{error}; from {own} (GID index {index}) to {peer}")]
    Path {
        /// The own identifier.
        own: Gid,
        /// Its index.
        index: u32,
        /// The peer's.
        peer: Gid,
        /// The verb's answer.
        error: VerbsError,
    },
    /// The peer has another number of queue pairs.
    #[error("the peer offers {pairs} queue pairs for a link")]
    Offer {
        /// How many.
        pairs: usize,
    },
    /// The system has no random numbers.
    #[error("random numbers: {reason}")]
    Random {
        /// Its answer.
        reason: String,
    },
    /// A verb that may block in the kernel has not returned.
    #[error("{what} has not returned within {patience:?}: the driver hangs")]
    Stuck {
        /// What was done.
        what: &'static str,
        /// How long was waited.
        patience: Duration,
    },
    /// The first message has not come.
    #[error("the first message from the peer has not come through {device} within {seconds} s")]
    Silent {
        /// The own device.
        device: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The first message was wrong.
    #[error("{reason}")]
    Proof {
        /// In which way.
        reason: String,
    },
    /// The other end has failed.
    #[error("rank {peer}: {reason}")]
    Peer {
        /// The other end.
        peer: usize,
        /// Its own words.
        reason: String,
    },
}

/// Makes a transport of links: for every rank of the job its cables.
pub(crate) fn transport(
    poller: &Arc<Poller>,
    links: Vec<Vec<Link>>,
    ports: &[Arc<Port>],
) -> io::Result<RdmaTransport> {
    let can_sleep = ports.iter().all(|port| port.can_sleep);
    let settings = Settings { can_sleep, ..Settings::new(LinkKind::Rdma) };
    let mut channels = Vec::new();
    for port in ports.iter().filter(|port| port.can_sleep) {
        channels.push(poller.register(Channel(Arc::clone(port)), Interest::READ)?);
    }
    let watch = PortWatch::start(ports, poller)?;
    Ok(Messenger::new(settings, Arc::clone(poller), links).keeping((channels, watch)))
}
