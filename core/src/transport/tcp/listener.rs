//! The data port: where other ranks connect to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use crate::sys::fork::Private;
use crate::sys::interfaces::{self, LocalAddress, Medium};
use crate::sys::socket::{self, Families};
use serde::{Deserialize, Serialize};

/// Connections that wait to be taken; the system may allow fewer.
const BACKLOG: i32 = 1024;

/// An address at which a rank can be reached, published to the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Candidate {
    /// The address.
    pub address: SocketAddr,
    /// What kind of interface it belongs to.
    pub medium: Medium,
    /// Nominal speed of the interface in Mbit/s, where known.
    pub speed: Option<u32>,
}

/// Listening sockets for data links.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(super) sockets: Vec<Private<TcpListener>>,
    candidates: Vec<Candidate>,
}

impl Listener {
    /// Listens on the given addresses; port 0 lets the system choose one. An unspecified address
    /// stands for all addresses of its family whose interfaces are up.
    pub(crate) fn bind(addresses: &[SocketAddr]) -> io::Result<Self> {
        let locals = interfaces::local_addresses()?;
        let mut listener = Listener { sockets: Vec::new(), candidates: Vec::new() };
        for &address in addresses {
            let socket = socket::listen(address, Families::Own, BACKLOG).map_err(|error| {
                io::Error::new(error.kind(), format!("listening on {address}: {error}"))
            })?;
            let bound = socket.local_addr()?;
            listener.sockets.push(socket);
            listener.publish(bound, &locals);
        }
        Ok(listener)
    }

    /// Listens on all addresses of this machine, IPv4 and, where the system has it, IPv6.
    pub(crate) fn bind_all(port: u16) -> io::Result<Self> {
        let v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
        let v6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
        Self::bind(&[v4, v6]).or_else(|_| Self::bind(&[v4])).or_else(|error| {
            // why: a machine without IPv4 is rarer than a port in use; the first answer counts.
            Self::bind(&[v6]).map_err(|_| error)
        })
    }

    /// The addresses to publish, best first.
    pub(crate) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    fn publish(&mut self, bound: SocketAddr, locals: &[LocalAddress]) {
        let matching = locals.iter().filter(|local| {
            local.up
                && local.ip.is_ipv4() == bound.is_ipv4()
                && (bound.ip().is_unspecified() || bound.ip() == local.ip)
        });
        for local in matching {
            self.candidates.push(Candidate {
                address: local.with_port(bound.port()),
                medium: local.medium,
                speed: local.speed,
            });
        }
        if !bound.ip().is_unspecified()
            && !self.candidates.iter().any(|candidate| candidate.address.ip() == bound.ip())
        {
            let (medium, speed) = (Medium::Wired, None);
            self.candidates.push(Candidate { address: bound, medium, speed });
        }
        self.candidates.sort_by_key(|candidate| {
            (candidate.medium, candidate.speed.map_or(0, |s| u32::MAX - s))
        });
    }
}
