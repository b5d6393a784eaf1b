//! The part of verbs that lycaon uses, as traits.
//!
//! [`ffi`](super::ffi) implements them over the library that is found at run time; tests put a
//! fabric in memory in its place. Everything above is common code and never asks which one it is.
//!
//! The objects form a chain, each made by the one before it:
//!
//! [`Library`] → [`Device`] → [`Domain`] → [`Region`] and [`CompletionQueue`] → [`QueuePair`].
//!
//! Dropping an object destroys it, and an object keeps alive what it was made by, so whatever the
//! order in which handles are dropped, the verbs are called in the order queue pair, completion
//! queue and region, domain, device. A verb of destruction that fails is logged and what it was
//! called on is leaked: nothing it depends on is touched afterwards.
//!
//! # Contract
//!
//! - Every method is non-blocking on the data path (`post_send`, `post_recv`, `poll`, `arm`).
//!   Control verbs may block in the kernel, also for ever: the caller runs them on a thread with a
//!   deadline.
//! - Nothing is retried and nothing is interpreted: an error is what the verb answered.
//! - Memory that a posted request names belongs to the device from the post to its completion. The
//!   owner touches it before and after only; [`Memory`] does not check that.
//! - Receives of one queue pair are matched with the peer's sends first in, first out. Completions
//!   of one queue pair and direction come in the order of their posts; nothing is promised between
//!   the directions or between queue pairs.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use crate::sys::slab::Memory;

/// The verbs of one host: the loaded library, or what a test puts in its place.
///
/// Two handles belong to the same host if they are the same `Arc`: devices are opened once per
/// library and process.
pub(crate) trait Library: Send + Sync + fmt::Debug {
    /// What it is called in messages: the path it was loaded from.
    fn name(&self) -> String;

    /// The devices that are there now. None is no error.
    fn devices(&self) -> Result<Vec<DeviceName>, VerbsError>;

    /// Opens a device.
    fn open(&self, name: &str) -> Result<Arc<dyn Device>, VerbsError>;

    /// Whether devices that were opened stay open until the process ends.
    fn keeps_devices_open(&self) -> bool {
        false
    }
}

/// How a device is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceName {
    /// Its name, for example `rdma_en5` or `mlx5_0`. It may change with each boot.
    pub name: String,
    /// Its node GUID, in the order of bytes of the network.
    pub guid: u64,
}

/// An open device.
pub(crate) trait Device: Send + Sync + fmt::Debug {
    /// Its name.
    fn name(&self) -> &str;

    /// What its provider can do beyond what verbs tell.
    fn quirks(&self) -> Quirks;

    /// `ibv_query_device`.
    fn attributes(&self) -> Result<DeviceAttributes, VerbsError>;

    /// `ibv_query_port`. Ports are counted from 1.
    fn port(&self, port: u8) -> Result<PortAttributes, VerbsError>;

    /// `ibv_query_gid`; `None` for a slot that is empty or that the provider refuses.
    fn gid(&self, port: u8, index: u32) -> Result<Option<Gid>, VerbsError>;

    /// `ibv_alloc_pd`.
    fn alloc_domain(self: Arc<Self>) -> Result<Arc<dyn Domain>, VerbsError>;
}

/// A protection domain.
pub(crate) trait Domain: Send + Sync + fmt::Debug {
    /// `ibv_reg_mr` of the whole piece of memory.
    fn register(self: Arc<Self>, memory: Arc<Memory>) -> Result<Box<dyn Region>, VerbsError>;

    /// `ibv_create_cq` for at least so many completions. `channel` asks for a completion channel
    /// of its own; it is an error where [`Quirks::completion_channel`] denies it.
    fn create_cq(
        self: Arc<Self>,
        entries: u32,
        channel: bool,
    ) -> Result<Arc<dyn CompletionQueue>, VerbsError>;
}

/// Registered memory.
pub(crate) trait Region: Send + Sync + fmt::Debug {
    /// The local key.
    fn lkey(&self) -> u32;

    /// The memory.
    fn memory(&self) -> &Arc<Memory>;
}

/// A completion queue, used for both directions of any number of queue pairs.
pub(crate) trait CompletionQueue: Send + Sync + fmt::Debug {
    /// `ibv_poll_cq`: appends at most `most` completions and returns how many there were.
    fn poll(&self, most: usize, into: &mut Vec<Completion>) -> Result<usize, VerbsError>;

    /// What becomes readable with the first completion after [`CompletionQueue::arm`]; `None`
    /// without a channel.
    fn channel(&self) -> Option<BorrowedFd<'_>>;

    /// `ibv_req_notify_cq`, for all completions. Whoever arms looks once more before sleeping.
    fn arm(&self) -> Result<(), VerbsError>;

    /// Takes and acknowledges all pending events of the channel, so that it is no longer readable.
    fn answer(&self) -> Result<(), VerbsError>;

    /// `ibv_create_qp` in the domain of this queue, with one element per request.
    fn create_qp(self: Arc<Self>, request: &QpRequest) -> Result<Box<dyn QueuePair>, VerbsError>;
}

/// A queue pair.
pub(crate) trait QueuePair: Send + fmt::Debug {
    /// Its number, which the peer needs.
    fn number(&self) -> u32;

    /// `ibv_query_qp` with `IBV_QP_CAP`: what was granted.
    fn depth(&mut self) -> Result<QpDepth, VerbsError>;

    /// `ibv_modify_qp`.
    fn modify(&mut self, transition: &Transition) -> Result<(), VerbsError>;

    /// `ibv_post_send` of `IBV_WR_SEND` requests, as one list. All or, with an error, an unknown
    /// number of them have been posted.
    fn post_send(&mut self, requests: &[SendRequest<'_>]) -> Result<(), VerbsError>;

    /// `ibv_post_recv`, as one list.
    fn post_recv(&mut self, requests: &[RecvRequest]) -> Result<(), VerbsError>;
}

/// What a provider can do beyond what verbs tell. Data, so that nobody asks who made a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Quirks {
    /// Reliable connections exist.
    pub rc: bool,
    /// Unreliable connections exist.
    pub uc: bool,
    /// A send and the receive it meets must cover the same number of frames of so many bytes, and
    /// the depth of queues counts these frames. `None`: any shorter send fits, and depth counts
    /// requests.
    pub frame: Option<u32>,
    /// Small sends may travel inside of their request.
    pub inline: bool,
    /// Completion channels work.
    pub completion_channel: bool,
    /// Sends without `signaled` stay silent. If not, every send is signalled.
    pub unsignaled: bool,
    /// No region may be longer than this, or begin elsewhere than at a multiple of it.
    pub region: Option<u64>,
    /// Regions have to be registered before a queue pair is ready to receive. (Ours always are.)
    pub register_first: bool,
    /// No more queue pairs than this can be had, whatever the attributes say.
    pub queue_pairs: Option<u32>,
    /// The identifier of the interface's address may come a while after the port is active.
    pub late_addresses: bool,
}

impl Quirks {
    /// A provider that keeps to the book, with reliable and unreliable connections.
    pub(crate) const STANDARD: Quirks = Quirks {
        rc: true,
        uc: true,
        frame: None,
        inline: true,
        completion_channel: true,
        unsignaled: true,
        region: None,
        register_first: false,
        queue_pairs: None,
        late_addresses: false,
    };

    /// RDMA over Thunderbolt on macOS.
    pub(crate) const APPLE: Quirks = Quirks {
        rc: false,
        uc: true,
        frame: Some(4096),
        inline: false,
        completion_channel: false,
        unsignaled: false,
        region: Some(1 << 30),
        register_first: true,
        queue_pairs: Some(10),
        late_addresses: true,
    };

    /// Linux's provider for USB4, which talks to the one above.
    pub(crate) const USB4: Quirks =
        Quirks { inline: false, frame: Some(4096), late_addresses: true, ..Quirks::STANDARD };
}

/// What `ibv_query_device` says, as far as it is used. Zero limits count as unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceAttributes {
    /// Queue pairs.
    pub max_qp: u32,
    /// Requests (or frames) in a queue.
    pub max_qp_wr: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Completions in a queue.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Bytes of a region. Some providers report a limit that they do not have.
    pub max_mr_size: u64,
    /// Protection domains.
    pub max_pd: u32,
    /// Physical ports.
    pub ports: u8,
}

/// State of a port, by its number in verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortState(pub u32);

impl PortState {
    /// No link.
    pub(crate) const DOWN: PortState = PortState(1);
    /// Ready for use.
    pub(crate) const ACTIVE: PortState = PortState(4);
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("down"),
            2 => f.write_str("initializing"),
            3 => f.write_str("armed"),
            4 => f.write_str("active"),
            5 => f.write_str("active (deferred)"),
            other => write!(f, "in state {other}"),
        }
    }
}

/// What `ibv_query_port` says, as far as it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortAttributes {
    /// Whether it can be used.
    pub state: PortState,
    /// The largest packet now.
    pub active_mtu: Mtu,
    /// Its local identifier; 0 where there are none.
    pub lid: u16,
    /// Slots of the table of GIDs.
    pub gid_table_len: u32,
    /// Bytes of the longest message; 0: unknown.
    pub max_message: u32,
    /// `IBV_LINK_LAYER_*`: 1 InfiniBand, 2 Ethernet.
    pub link_layer: u8,
}

/// Size of a packet, by its number in verbs: 1 is 256 bytes, 5 is 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Mtu(pub u32);

impl Mtu {
    /// In bytes.
    pub(crate) const fn bytes(self) -> u32 {
        match self.0 {
            1..=5 => 128 << self.0,
            _ => 0,
        }
    }
}

/// A global identifier of a port, in the order of bytes of the network.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub(crate) struct Gid(pub [u8; 16]);

impl Gid {
    /// As an address.
    pub(crate) const fn address(self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.0)
    }

    /// The IPv4 address that it stands for.
    pub(crate) const fn ipv4(self) -> Option<Ipv4Addr> {
        self.address().to_ipv4_mapped()
    }

    /// Whether it is valid on its own link only.
    pub(crate) const fn is_link_local(self) -> bool {
        self.address().is_unicast_link_local()
    }

    /// An empty slot of the table.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}

/// How a connection treats loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection: what is lost or meets no receive is gone without a word.
    Uc,
}

impl fmt::Display for QpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QpType::Rc => "RC",
            QpType::Uc => "UC",
        })
    }
}

/// What to ask `ibv_create_qp` for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QpRequest {
    /// Its type.
    pub kind: QpType,
    /// Depth of the queues, in the unit of [`Quirks::frame`].
    pub depth: QpDepth,
    /// Every send completes, whether or not it asks to.
    pub signal_all: bool,
}

/// Depth of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QpDepth {
    /// Requests (or frames) in the send queue.
    pub send: u32,
    /// Requests (or frames) in the receive queue.
    pub recv: u32,
    /// Bytes that a send may carry inside of its request.
    pub inline: u32,
}

/// A change of a queue pair's state with the attributes it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    /// Out of reset. Access flags are those for local writing only if `remote` is false.
    Init {
        /// The port it uses.
        port: u8,
        /// Also set the flags for remote access, as some providers demand.
        remote: bool,
    },
    /// To where receives are processed.
    ReadyToReceive(Path),
    /// To where sends are processed.
    ReadyToSend {
        /// Number of the first packet.
        psn: u32,
        /// For reliable connections only.
        reliability: Option<Reliability>,
    },
    /// Everything posted is flushed.
    Error,
}

/// The way to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// The type of the queue pair, which says which attributes are given.
    pub kind: QpType,
    /// The own port.
    pub port: u8,
    /// Size of packets.
    pub mtu: Mtu,
    /// The peer's queue pair.
    pub number: u32,
    /// Number of the peer's first packet.
    pub psn: u32,
    /// The peer's local identifier.
    pub lid: u16,
    /// The peer's global identifier.
    pub gid: Gid,
    /// Which of the own identifiers the peer was told.
    pub gid_index: u8,
    /// Routers on the way, at least 1.
    pub hop_limit: u8,
    /// For reliable connections: how long to wait when a receive is missing, as in verbs.
    pub min_rnr_timer: u8,
}

/// How often and how fast a reliable connection tries again; numbers as in verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reliability {
    /// 4.096 µs · 2^timeout.
    pub timeout: u8,
    /// Times before the connection is given up.
    pub retries: u8,
    /// Times when the peer has no receive posted; 7: for ever.
    pub rnr_retries: u8,
}

/// What a send carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    /// Bytes of a region; they belong to the device until the completion.
    Region(Sge),
    /// Bytes that travel inside of the request; they may be overwritten at once.
    Inline(&'a [u8]),
}

/// A range of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sge {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// The region's local key.
    pub lkey: u32,
}

/// A send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendRequest<'a> {
    /// Comes back in its completion.
    pub id: u64,
    /// What it carries.
    pub payload: Payload<'a>,
    /// Whether to report that it has completed. One that fails is reported in any case.
    pub signaled: bool,
}

/// A receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecvRequest {
    /// Comes back in its completion.
    pub id: u64,
    /// Where the message goes.
    pub into: Sge,
}

/// Something posted has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The `id` of the request.
    pub id: u64,
    /// How it ended.
    pub status: Status,
    /// Whose it was.
    pub qp: u32,
    /// Bytes received; only of receives that have succeeded.
    pub bytes: u32,
    /// The device's own word about a failure.
    pub vendor: u32,
}

/// `ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub u32);

impl Status {
    /// It is done.
    pub(crate) const SUCCESS: Status = Status(0);
    /// The message does not fit its receive.
    pub(crate) const LOCAL_LENGTH: Status = Status(1);
    /// Memory outside of its region.
    pub(crate) const LOCAL_PROTECTION: Status = Status(4);
    /// The queue pair had failed before.
    pub(crate) const FLUSHED: Status = Status(5);
    /// The peer did not acknowledge.
    pub(crate) const RETRY_EXCEEDED: Status = Status(12);
    /// The peer had no receive posted.
    pub(crate) const RNR_RETRY_EXCEEDED: Status = Status(13);

    /// What it means.
    pub(crate) const fn name(self) -> &'static str {
        match self.0 {
            0 => "success",
            1 => "local length error",
            2 => "local queue pair operation error",
            3 => "local end-to-end context error",
            4 => "local protection error",
            5 => "flushed: the queue pair had failed before",
            6 => "memory window bind error",
            7 => "bad response",
            8 => "local access error",
            9 => "invalid request at the remote side",
            10 => "access error at the remote side",
            11 => "operation error at the remote side",
            12 => "the remote side did not acknowledge (transport retries exceeded)",
            13 => "the remote side had no receive posted (receiver-not-ready retries exceeded)",
            14 => "local reliable datagram violation",
            15 => "invalid reliable datagram request at the remote side",
            16 => "aborted by the remote side",
            17 => "invalid end-to-end context number",
            18 => "invalid end-to-end context state",
            19 => "fatal error",
            20 => "response timeout",
            21 => "general error",
            _ => "unknown status",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (status {})", self.name(), self.0)
    }
}

/// The numbers of errors of an operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Linux.
    Linux,
    /// macOS.
    Darwin,
}

impl System {
    /// The system this is compiled for.
    pub(crate) const HERE: System =
        if cfg!(target_os = "macos") { System::Darwin } else { System::Linux };
}

/// An error of the operating system, with the system whose number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno {
    /// The number; 0 if the verb failed without one.
    pub number: i32,
    /// Whose.
    pub system: System,
}

/// Errors that mean something to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// No number.
    None,
    /// Not allowed.
    Permission,
    /// No (locked) memory, or no entry left in a table.
    Memory,
    /// An address the driver does not take.
    Fault,
    /// In use, or used up.
    Busy,
    /// An argument, or a GID, that is not valid.
    Invalid,
    /// Not supported.
    Unsupported,
    /// Not answered.
    TimedOut,
    /// Nothing left of some kind.
    NoData,
    /// Nothing of that name.
    NotFound,
    /// Anything else.
    Other,
}

impl Errno {
    /// A number of this system. Providers return it negative now and then.
    pub(crate) const fn here(number: i32) -> Self {
        Errno { number: number.wrapping_abs(), system: System::HERE }
    }

    /// What it means.
    pub(crate) const fn reason(self) -> Reason {
        match (self.number, self.system) {
            (0, _) => Reason::None,
            (1 | 13, _) => Reason::Permission,
            (2 | 6 | 19, _) => Reason::NotFound,
            (12, _) => Reason::Memory,
            (14, _) => Reason::Fault,
            (16, _) => Reason::Busy,
            (22, _) => Reason::Invalid,
            (95 | 38, System::Linux) | (45 | 78 | 102, System::Darwin) => Reason::Unsupported,
            (110, System::Linux) | (60, System::Darwin) => Reason::TimedOut,
            (61, System::Linux) | (96, System::Darwin) => Reason::NoData,
            _ => Reason::Other,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.reason() {
            Reason::None => return f.write_str("no error number was given"),
            Reason::Permission => "not permitted",
            Reason::Memory => "out of memory",
            Reason::Fault => "bad address",
            Reason::Busy => "busy, or all are in use",
            Reason::Invalid => "invalid argument",
            Reason::Unsupported => "not supported",
            Reason::TimedOut => "timed out",
            Reason::NoData => "none left",
            Reason::NotFound => "no such device",
            Reason::Other => "error",
        };
        write!(f, "{text} (errno {})", self.number)
    }
}

/// A verb has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum VerbsError {
    /// The library is not there.
    #[error("no verbs library: looked for {}", .looked_for.join("; "))]
    NoLibrary {
        /// Each place with the answer.
        looked_for: Vec<String>,
    },
    /// The library lacks a function.
    #[error("{library} has no function {function}")]
    NoFunction {
        /// Its path.
        library: String,
        /// What is missing.
        function: &'static str,
    },
    /// There is no such device.
    #[error("{library} knows no device {device}; it has {}", list(.known))]
    NoDevice {
        /// The library.
        library: String,
        /// What was asked for.
        device: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A verb was refused.
    #[error("{device}: {verb}: {errno}")]
    Verb {
        /// The device.
        device: String,
        /// The function.
        verb: &'static str,
        /// Its answer.
        errno: Errno,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl VerbsError {
    /// What the verb's error number means; `None` if no verb was called.
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self {
            VerbsError::Verb { errno, .. } => Some(errno.reason()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_mean_what_their_system_says() {
        let darwin = |number| Errno { number, system: System::Darwin };
        let linux = |number| Errno { number, system: System::Linux };
        assert_eq!(darwin(102).reason(), Reason::Unsupported);
        assert_eq!(linux(102).reason(), Reason::Other);
        assert_eq!(darwin(60).reason(), Reason::TimedOut);
        assert_eq!(linux(110).reason(), Reason::TimedOut);
        assert_eq!(darwin(22).reason(), Reason::Invalid);
        assert_eq!(linux(16).reason(), Reason::Busy);
        assert_eq!(linux(0).to_string(), "no error number was given");
        assert_eq!(Errno::here(-12).to_string(), "out of memory (errno 12)");
    }

    #[test]
    fn gids_are_told_apart() {
        let mapped = Gid("::ffff:192.0.2.7".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(mapped.ipv4(), Some(Ipv4Addr::new(192, 0, 2, 7)));
        assert!(!mapped.is_link_local() && !mapped.is_empty());
        let local = Gid("fe80::1".parse::<Ipv6Addr>().unwrap().octets());
        assert!(local.is_link_local() && local.ipv4().is_none());
        assert!(Gid::default().is_empty());
        assert_eq!(Mtu(3).bytes(), 1024);
        assert_eq!(Mtu(5).bytes(), 4096);
    }
}
