//! Interfaces, and socket options of the control connection.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::SendFlags;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// The addresses of this host that are up, each with the name of its interface.
pub(crate) fn addresses() -> Vec<(String, IpAddr)> {
    match if_addrs::get_if_addrs() {
        Ok(all) => all
            .into_iter()
            .filter(if_addrs::Interface::is_oper_up)
            .map(|interface| (interface.name.clone(), interface.ip()))
            .collect(),
        Err(error) => {
            tracing::warn!(%error, "the network interfaces cannot be listed");
            Vec::new()
        }
    }
}

/// `192.168.1.2 (en0)`: an address with the interface that has it.
pub(crate) fn describe(address: IpAddr) -> String {
    let address = address.to_canonical();
    match addresses().into_iter().find(|(_, own)| *own == address) {
        Some((name, _)) => format!("{address} ({name})"),
        None => address.to_string(),
    }
}

/// The local address from which this host would reach `peer`; nothing is sent.
pub(crate) fn source_for(peer: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if peer.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}

/// The name of this host.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A non-blocking listener. The IPv6 wildcard takes IPv4 as well.
pub(crate) fn listen(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of an earlier job that the system still remembers do not hold the port.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Starts a connection without waiting for it; `true` if it is there already.
pub(crate) fn connect(address: SocketAddr) -> io::Result<(TcpStream, bool)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => Ok((socket.into(), true)),
        Err(error)
            if error.kind() == io::ErrorKind::WouldBlock
                || error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
        {
            Ok((socket.into(), false))
        }
        Err(error) => Err(error),
    }
}

/// Options of a control connection: no delay, and a system-level keep-alive that finds out about
/// a vanished host within about twice the interval. The peer's system answers it, so a process
/// that is only stopped is not taken for dead.
pub(crate) fn tune_control(stream: &TcpStream, liveness: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let idle = liveness.max(Duration::from_secs(1));
    let probe = (idle / 3).max(Duration::from_secs(1));
    socket.set_tcp_keepalive(
        &TcpKeepalive::new().with_time(idle).with_interval(probe).with_retries(3),
    )?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(idle + 3 * probe))?;
    Ok(())
}

/// A write to a peer that is gone gives an error, never a signal, whatever the program that uses
/// this library has set for `SIGPIPE`. (Elsewhere every write says so by itself.)
pub(crate) fn quiet<S: AsFd>(_socket: &S) -> io::Result<()> {
    #[cfg(target_vendor = "apple")]
    SockRef::from(_socket).set_nosigpipe(true)?;
    Ok(())
}

/// Sends one byte to wake whoever polls the other end. If there is no room, it is awake already;
/// if there is nobody, nobody needs to be woken.
pub(crate) fn ring(bell: &UnixStream) {
    #[cfg(not(target_vendor = "apple"))]
    let flags = SendFlags::NOSIGNAL;
    #[cfg(target_vendor = "apple")]
    let flags = SendFlags::empty();
    let _ = rustix::net::send(bell, &[1], flags);
}

/// Waits until one of the descriptors is ready or the time is over; a signal ends the wait early.
pub(crate) fn poll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    // Rounded up, so that a wait for the rest of a deadline does not end just before it.
    let timeout = timeout.map(|timeout| {
        let timeout = timeout.min(Duration::from_secs(3600)) + Duration::from_micros(999);
        let millis = timeout.as_millis() as i64;
        Timespec { tv_sec: millis / 1000, tv_nsec: (millis % 1000) * 1_000_000 }
    });
    match rustix::event::poll(fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits until a stream can be read (or written, if `write`), or the time is over.
pub(crate) fn wait(stream: &TcpStream, write: bool, timeout: Duration) -> io::Result<bool> {
    let flags = if write { PollFlags::OUT } else { PollFlags::IN };
    let mut fds = [PollFd::new(stream, flags)];
    poll(&mut fds, Some(timeout))?;
    Ok(!fds[0].revents().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_listed_and_described() {
        let loopback: IpAddr = [127, 0, 0, 1].into();
        assert!(addresses().iter().any(|(_, address)| *address == loopback));
        let text = describe(loopback);
        assert!(text.starts_with("127.0.0.1 (lo"), "{text}");
        assert_eq!(source_for(SocketAddr::from(([127, 0, 0, 1], 9))).unwrap(), loopback);
        assert!(!host_name().is_empty());
    }
}
