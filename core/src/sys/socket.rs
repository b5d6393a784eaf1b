//! Sockets: making them, their options, and waiting for them.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::fork::Private;

/// A write to a peer that is gone gives an error, never a signal, whatever the program that uses
/// this library has set for `SIGPIPE`. Apple's systems have an option of the socket for that
/// ([`quiet`]) in place of the flag.
#[cfg(not(target_vendor = "apple"))]
const QUIETLY: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const QUIETLY: SendFlags = SendFlags::empty();

/// Which families a listener at an IPv6 address takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Families {
    /// Its own.
    Own,
    /// If the address is the wildcard, IPv4 as well.
    Both,
}

fn tcp(address: SocketAddr) -> io::Result<Socket> {
    // Closed on exec.
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A non-blocking listener.
pub(crate) fn listen(
    address: SocketAddr,
    families: Families,
    backlog: i32,
) -> io::Result<Private<TcpListener>> {
    let socket = tcp(address)?;
    // Connections of an earlier job that the system still remembers do not hold the port.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        let both = families == Families::Both && address.ip().is_unspecified();
        socket.set_only_v6(!both)?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(Private::new(socket.into()))
}

/// Starts a connection without waiting for it; `true` if it is there already.
pub(crate) fn connect(address: SocketAddr) -> io::Result<(Private<TcpStream>, bool)> {
    let socket = tcp(address)?;
    let connected = match socket.connect(&address.into()) {
        Ok(()) => true,
        Err(error)
            if error.kind() == io::ErrorKind::WouldBlock
                || error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
        {
            false
        }
        Err(error) => return Err(error),
    };
    Ok((Private::new(socket.into()), connected))
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

/// Makes a connected socket fit for data: no waiting for more to send, no signal when the peer is
/// gone. Buffer sizes stay with the system, which adapts them to the path as long as nobody sets
/// them; keep-alive stays off, the control connection does that.
pub(crate) fn prepare_data_socket(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    quiet(stream)
}

/// Writes to this socket give errors and never signals.
pub(crate) fn quiet<S: AsFd>(_socket: &S) -> io::Result<()> {
    #[cfg(target_vendor = "apple")]
    SockRef::from(_socket).set_nosigpipe(true)?;
    Ok(())
}

/// Sends what fits, without a signal when the peer is gone.
pub(crate) fn send(socket: &impl AsFd, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::net::sendmsg(socket, parts, &mut Default::default(), QUIETLY)?)
}

/// Receives into several buffers.
pub(crate) fn receive(socket: &impl AsFd, parts: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
    match parts {
        [part] => {
            let part: &mut [u8] = part;
            Ok(rustix::net::recv(socket, part, RecvFlags::empty())?.1)
        }
        parts => Ok(rustix::io::readv(socket, parts)?),
    }
}

/// Sends one byte to wake whoever polls the other end. If there is no room, it is awake already;
/// if there is nobody, nobody needs to be woken.
pub(crate) fn ring(bell: &UnixStream) {
    let _ = rustix::net::send(bell, &[1], QUIETLY);
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

/// Waits until a socket can be read (or written, if `write`), or the time is over.
pub(crate) fn wait(socket: &impl AsFd, write: bool, timeout: Duration) -> io::Result<bool> {
    let flags = if write { PollFlags::OUT } else { PollFlags::IN };
    let mut fds = [PollFd::new(socket, flags)];
    poll(&mut fds, Some(timeout))?;
    Ok(!fds[0].revents().is_empty())
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, IoSliceMut};

    use super::*;

    const LONG: Duration = Duration::from_secs(5);

    #[test]
    fn a_connection_is_made_without_blocking_and_carries_bytes() {
        let listener = listen(([127, 0, 0, 1], 0).into(), Families::Own, 16).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let (near, _) = connect(listener.local_addr().unwrap()).unwrap();
        assert!(wait(&near, true, LONG).unwrap());
        assert!(near.take_error().unwrap().is_none());
        assert!(wait(&*listener, false, LONG).unwrap());
        let (far, _) = listener.accept().unwrap();
        for stream in [&far, &near] {
            prepare_data_socket(stream).unwrap();
        }
        tune_control(&far, LONG).unwrap();
        assert_eq!(send(&near, &[IoSlice::new(b"ab"), IoSlice::new(b"cde")]).unwrap(), 5);
        assert!(wait(&far, false, LONG).unwrap());
        let (mut first, mut second) = ([0; 1], [0; 9]);
        let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(receive(&far, &mut parts).unwrap(), 5);
        assert_eq!((&first, &second[..4]), (b"a", &b"bcde"[..]));
        let empty = receive(&far, &mut [IoSliceMut::new(&mut [0; 4])]).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        assert!(!wait(&far, false, Duration::from_millis(5)).unwrap());
        drop(near);
        assert!(wait(&far, false, LONG).unwrap());
        assert_eq!(receive(&far, &mut [IoSliceMut::new(&mut [0; 4])]).unwrap(), 0, "the end");
        // The first write may still be taken; after the answer to it there is nobody.
        let gone = (0..200).find_map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            send(&far, &[IoSlice::new(b"x")]).err()
        });
        assert_eq!(gone.expect("an error, and no signal").kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_wildcard_takes_both_families_only_if_asked() {
        let any = (std::net::Ipv6Addr::UNSPECIFIED, 0);
        let Ok(both) = listen(any.into(), Families::Both, 16) else {
            // A system without IPv6 has nothing to tell apart.
            return;
        };
        let port = both.local_addr().unwrap().port();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        let own = listen(any.into(), Families::Own, 16).unwrap();
        let port = own.local_addr().unwrap().port();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}
