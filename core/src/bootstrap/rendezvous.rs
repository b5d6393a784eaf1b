//! How the ranks find rank 0: by its address, a file, or the program's own all-gather.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::file::{self, Note, Published};
use super::handshake::{process_name, random};
use super::interrupt;
use crate::config::{Config, Rendezvous, SideChannel};
use crate::error::{ConfigError, Error, StartError};
use crate::sys::fork::Private;
use crate::sys::interfaces;
use crate::sys::socket::{self, Families};

/// For so long rank 0 waits for its port, which an earlier job may still hold.
const PORT_WAIT: Duration = Duration::from_secs(5);
/// Rank 0's side of the meeting.
pub(super) struct Meeting {
    pub(super) listeners: Vec<Private<TcpListener>>,
    pub(super) published: Option<Published>,
    /// What the place adds to the key of the handshake.
    pub(super) secret: Vec<u8>,
}

/// Where a worker may find rank 0, as known at the moment.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) secret: Vec<u8>,
}

/// Where a worker looks for it.
pub(super) enum Place<'a> {
    Tcp { host: &'a str, port: u16 },
    File(&'a Path),
    Known(Target),
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Tcp { host, port } => {
                let (host, port) = ((*host).to_owned(), *port);
                std::fmt::Display::fmt(&Rendezvous::Tcp { host, port }, f)
            }
            Place::File(path) => write!(f, "file:{}", path.display()),
            Place::Known(target) => match target.addresses.first() {
                Some(address) => address.fmt(f),
                None => f.write_str("rank 0"),
            },
        }
    }
}

/// Sleeps, but not beyond a wish of the program.
pub(super) fn pause(rank: usize, time: Duration) -> Result<(), StartError> {
    let until = Instant::now() + time;
    loop {
        if interrupt::requested() {
            return Err(StartError::Interrupted { rank });
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Growing pauses with jitter, so that many ranks do not knock in step.
pub(super) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(super) fn new(longest: Duration) -> Self {
        Backoff { next: Duration::from_millis(10), longest }
    }

    pub(super) fn next(&mut self) -> Duration {
        let base = self.next;
        self.next = (base * 3 / 2).min(self.longest);
        // 0.5 to 1.5 times the base.
        let roll = u32::from(random()[0]);
        base / 2 + base * roll / 255
    }
}

/// Looks a name up. The system's resolver knows no deadline, so it has a thread of its own.
pub(super) fn resolve(
    rank: usize,
    host: &str,
    port: u16,
    deadline: Instant,
) -> Result<Vec<SocketAddr>, StartError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let began = Instant::now();
    let (answer, result) = mpsc::channel();
    let name = host.to_owned();
    let system = |action: &str, reason: String| StartError::System {
        rank,
        action: action.to_owned(),
        reason,
    };
    std::thread::Builder::new()
        .name("lycaon-resolve".to_owned())
        .spawn(move || {
            let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
            // Nobody may be waiting any more.
            let _ = answer.send(found);
        })
        .map_err(|error| system("start a thread to look up a name", error.to_string()))?;
    let failed = |reason: String| StartError::Unreachable {
        rank,
        action: "resolve".to_owned(),
        address: host.to_owned(),
        local: interfaces::host_name(),
        tried: began.elapsed(),
        reason,
    };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match result.recv_timeout(left.min(Duration::from_millis(50))) {
            Ok(Ok(found)) => {
                let mut addresses: Vec<SocketAddr> = found;
                addresses.dedup();
                if addresses.is_empty() {
                    return Err(failed("the name has no address".to_owned()));
                }
                return Ok(addresses);
            }
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(failed("the look-up gave no answer".to_owned()));
            }
            Err(mpsc::RecvTimeoutError::Timeout) if left.is_zero() => {
                return Err(failed("the look-up took too long".to_owned()));
            }
            Err(mpsc::RecvTimeoutError::Timeout) if interrupt::requested() => {
                return Err(StartError::Interrupted { rank });
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Without a token nobody but this machine may take part.
pub(super) fn check_loopback(
    config: &Config,
    host: &str,
    addresses: &[SocketAddr],
) -> Result<(), ConfigError> {
    let foreign = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
    match foreign {
        Some(address) if !config.has_token() => {
            let address = if host.parse::<IpAddr>().is_ok() {
                address.to_string()
            } else {
                format!("{host} ({address})")
            };
            Err(ConfigError::TokenNeeded { address })
        }
        _ => Ok(()),
    }
}

/// Rank 0: begins to listen, and says where, if that is asked for.
pub(super) fn open(config: &Config, deadline: Instant) -> Result<Meeting, Error> {
    let rank = config.rank();
    let rendezvous = config.rendezvous().expect("a configuration of more than one rank has one");
    match rendezvous {
        Rendezvous::Tcp { host, port } => {
            let listeners = listen_at(config, host, *port, deadline)?;
            Ok(Meeting { listeners, published: None, secret: Vec::new() })
        }
        Rendezvous::File(path) => {
            let refused = |action: &str, path: &Path, reason: String| StartError::System {
                rank,
                action: format!("{action} {}", path.display()),
                reason,
            };
            if config.loopback_only()
                && let Some(folder) = path.parent()
            {
                file::private_folder(folder)
                    .map_err(|reason| refused("use the folder", folder, reason))?;
            }
            let (listeners, note) = listen_anywhere(config)?;
            let published = Published::write(path, &note)
                .map_err(|error| refused("write the rendezvous file", path, error.to_string()))?;
            let secret = note.secret.to_vec();
            Ok(Meeting { listeners, published: Some(published), secret })
        }
        Rendezvous::SideChannel(channel) => {
            let (listeners, note) = listen_anywhere(config)?;
            side_channel(config, channel.as_ref(), Some(&note))?;
            Ok(Meeting { listeners, published: None, secret: note.secret.to_vec() })
        }
    }
}

/// A worker: where it has to look.
pub(super) fn place<'a>(config: &'a Config) -> Result<Place<'a>, StartError> {
    let rendezvous = config.rendezvous().expect("a configuration of more than one rank has one");
    Ok(match rendezvous {
        Rendezvous::Tcp { host, port } => Place::Tcp { host, port: *port },
        Rendezvous::File(path) => Place::File(path),
        Rendezvous::SideChannel(channel) => {
            let note = side_channel(config, channel.as_ref(), None)?;
            Place::Known(target(&note))
        }
    })
}

/// The addresses of a note, in the order in which they are worth trying from here.
pub(super) fn target(note: &Note) -> Target {
    let here = note.host == interfaces::host_name();
    let (loopback, others): (Vec<_>, Vec<_>) =
        note.addresses.iter().partition(|address| address.ip().is_loopback());
    // On another host the loopback addresses would lead to oneself.
    let addresses = match (here, others.is_empty()) {
        (true, _) => loopback.into_iter().chain(others).collect(),
        (false, true) => loopback,
        (false, false) => others,
    };
    Target { addresses, secret: note.secret.to_vec() }
}

fn backlog(config: &Config) -> i32 {
    // Everybody may knock at once.
    config.size().clamp(128, 4096) as i32
}

fn listen_at(
    config: &Config,
    host: &str,
    port: u16,
    deadline: Instant,
) -> Result<Vec<Private<TcpListener>>, Error> {
    let rank = config.rank();
    let began = Instant::now();
    let mut addresses = resolve(rank, host, port, deadline)?;
    check_loopback(config, host, &addresses)?;
    let named = host.parse::<IpAddr>().is_err() && !host.contains('%');
    if named && config.has_token() && host != "localhost" {
        // A host often knows its own name by a loopback address that others cannot reach.
        addresses = vec![SocketAddr::from(([0u16; 8], port)), SocketAddr::from(([0u8; 4], port))];
    }
    let until = deadline.min(began + PORT_WAIT);
    let mut backoff = Backoff::new(Duration::from_millis(250));
    loop {
        let mut listeners = Vec::new();
        let mut failed: Option<(SocketAddr, io::Error)> = None;
        for address in &addresses {
            match socket::listen(*address, Families::Both, backlog(config)) {
                Ok(listener) => {
                    listeners.push(listener);
                    if address.ip().is_unspecified() {
                        // The IPv6 wildcard takes IPv4 too.
                        break;
                    }
                }
                Err(error) => {
                    // A port in use is worth more as a reason than an address that is not here.
                    if failed.is_none() || error.kind() == io::ErrorKind::AddrInUse {
                        failed = Some((*address, error));
                    }
                }
            }
        }
        let in_use =
            failed.as_ref().is_some_and(|(_, error)| error.kind() == io::ErrorKind::AddrInUse);
        match failed {
            None => return Ok(listeners),
            Some(_) if !in_use && !listeners.is_empty() => return Ok(listeners),
            Some((address, error)) if !in_use || Instant::now() >= until => {
                let mut reason = error.to_string();
                if in_use {
                    reason += "; another program or a second rank 0 listens there";
                } else if error.kind() == io::ErrorKind::AddrNotAvailable {
                    reason += "; rank 0 must run on the host that has the rendezvous address";
                }
                return Err(StartError::Unreachable {
                    rank,
                    action: "listen on".to_owned(),
                    address: address.to_string(),
                    local: interfaces::host_name(),
                    tried: began.elapsed(),
                    reason,
                }
                .into());
            }
            Some(_) => drop(listeners),
        }
        pause(rank, backoff.next())?;
    }
}

/// Listens on any free port, and says where in a note with a fresh secret.
fn listen_anywhere(config: &Config) -> Result<(Vec<Private<TcpListener>>, Note), StartError> {
    let rank = config.rank();
    let system = |error: io::Error| StartError::System {
        rank,
        action: "list the network interfaces".to_owned(),
        reason: error.to_string(),
    };
    let wildcards: [IpAddr; 2] = if config.loopback_only() {
        [[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()]
    } else {
        [std::net::Ipv6Addr::UNSPECIFIED.into(), [0, 0, 0, 0].into()]
    };
    let mut failed = None;
    for wildcard in wildcards {
        let bound = socket::listen(SocketAddr::new(wildcard, 0), Families::Both, backlog(config))
            .and_then(|listener| listener.local_addr().map(|address| (listener, address)));
        match bound {
            Ok((listener, address)) => {
                let mut ips: Vec<IpAddr> = if config.loopback_only() {
                    vec![wildcard]
                } else {
                    let locals = interfaces::local_addresses().map_err(system)?;
                    locals.into_iter().filter(|local| local.up).map(|local| local.ip).collect()
                };
                // An IPv6 link-local address means nothing without the reader's interface.
                ips.retain(|ip| match ip {
                    IpAddr::V6(ip) => wildcard.is_ipv6() && !ip.is_unicast_link_local(),
                    IpAddr::V4(_) => true,
                });
                ips.sort_by_key(|ip| ip.is_loopback());
                let port = address.port();
                let note = Note {
                    format: Note::FORMAT,
                    job: config.job().to_owned(),
                    host: interfaces::host_name(),
                    process: process_name(),
                    addresses: ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect(),
                    secret: random(),
                };
                return Ok((vec![listener], note));
            }
            Err(error) => {
                failed.get_or_insert((wildcard, error));
            }
        }
    }
    let (wildcard, error) = failed.expect("at least one address was tried");
    Err(StartError::Unreachable {
        rank,
        action: "listen on".to_owned(),
        address: wildcard.to_string(),
        local: interfaces::host_name(),
        tried: Duration::ZERO,
        reason: error.to_string(),
    })
}

/// One call of the program's all-gather; the answer is rank 0's note.
fn side_channel(
    config: &Config,
    channel: &dyn SideChannel,
    own: Option<&Note>,
) -> Result<Note, StartError> {
    let (rank, size) = (config.rank(), config.size());
    let failed = |reason: String| StartError::SideChannel { rank, reason };
    // The rank stands first, so that an answer in a wrong order is noticed.
    let mut mine = (rank as u32).to_le_bytes().to_vec();
    mine.extend(own.map(Note::to_json).unwrap_or_default());
    let answers = channel.all_gather(rank, size, &mine).map_err(failed)?;
    if answers.len() != size {
        return Err(failed(format!("it gave {} entries for {size} ranks", answers.len())));
    }
    for (expected, entry) in answers.iter().enumerate() {
        match entry.first_chunk::<4>().map(|head| u32::from_le_bytes(*head)) {
            Some(found) if found as usize == expected => {}
            Some(found) => {
                return Err(failed(format!(
                    "entry {expected} of its answer is that of rank {found}"
                )));
            }
            None => return Err(failed(format!("entry {expected} of its answer is too short"))),
        }
    }
    if answers[rank] != mine {
        return Err(failed(format!("entry {rank} of its answer is not what this rank gave")));
    }
    Note::parse(&answers[0][4..], config.job())
        .map_err(|reason| failed(format!("entry 0 of its answer is no rank 0's: {reason}")))
}
