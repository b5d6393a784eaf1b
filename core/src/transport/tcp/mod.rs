//! TCP links: sockets that never block, under the shared poller.
//!
//! [`Listener::bind`] opens the data port, [`establish`] joins this rank with its peers, and
//! [`transport`] makes a [`Transport`](super::Transport) of the links.

mod establish;
mod handshake;
mod listener;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{self, Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::establish::{EstablishError, Request, establish};
pub(crate) use self::listener::{Candidate, Listener};
use super::message::{Messenger, Settings};
use super::stream::Stream;
use crate::sys::fork::Private;
use crate::sys::interfaces::Medium;
use crate::sys::poller::{Interest, Poller, Registered};
use crate::sys::socket;

/// The message layer over TCP.
pub(crate) type TcpTransport = Messenger<TcpStream>;

/// A connected socket. A forked child does not keep it open.
pub(crate) type Rail = Private<net::TcpStream>;

/// A link to one peer, ready for use.
#[derive(Debug)]
pub(crate) struct Link {
    /// The other side (rank of the job).
    pub peer: usize,
    /// Its sockets, in the order of the rails.
    pub rails: Vec<Rail>,
    /// Which way it takes.
    pub route: Route,
}

/// Which way a link takes; for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// This side's address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// This side's interface, if its address is one of this machine's.
    pub interface: Option<String>,
    /// What kind of interface it is.
    pub medium: Medium,
    /// How long connecting took; the connecting side knows.
    pub round_trip: Option<Duration>,
}

/// Makes a transport of links. `size` is the size of the job.
pub(crate) fn transport(
    poller: &Arc<Poller>,
    settings: Settings,
    size: usize,
    links: Vec<Link>,
) -> io::Result<TcpTransport> {
    let mut streams: Vec<Vec<TcpStream>> = (0..size).map(|_| Vec::new()).collect();
    for link in links {
        for socket in link.rails {
            streams[link.peer].push(TcpStream::new(socket, poller)?);
        }
    }
    Ok(Messenger::new(settings, Arc::clone(poller), streams))
}

/// A connected socket as a stream.
#[derive(Debug)]
pub(crate) struct TcpStream {
    socket: Registered<Rail>,
}

impl TcpStream {
    fn new(socket: Rail, poller: &Arc<Poller>) -> io::Result<Self> {
        socket::prepare_data_socket(&socket)?;
        Ok(TcpStream { socket: poller.register(socket, Interest::READ)? })
    }
}

impl Stream for TcpStream {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send(&*self.socket, parts)
    }

    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        socket::receive(&*self.socket, parts)
    }

    fn prepare_sleep(&mut self, for_write: bool) -> io::Result<bool> {
        // why: the poller reports levels, so what is readable now ends the sleep at once.
        self.socket.set_interest(Interest { read: true, write: for_write })?;
        Ok(true)
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.socket.shutdown(Shutdown::Write) {
            // The peer is gone already; reading will tell.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result,
        }
    }
}
