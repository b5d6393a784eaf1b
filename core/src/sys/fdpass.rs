//! Handing file descriptors to other processes of this host, over a Unix socket that leaves
//! nothing in the file system.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::socket;

/// Most descriptors in one message (Linux allows 253).
pub(crate) const MOST: usize = 200;

/// A listening socket whose name vanishes with it.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: UnixListener,
    #[cfg(not(target_os = "linux"))]
    path: std::path::PathBuf,
}

impl Listener {
    /// Listens under a name.
    pub(crate) fn bind(name: &str) -> io::Result<Listener> {
        let listener = os::bind(name)?;
        listener.socket.set_nonblocking(true)?;
        Ok(listener)
    }

    /// The next connection, or `None` when `patience` is over.
    pub(crate) fn accept(&self, patience: Duration) -> io::Result<Option<UnixStream>> {
        if !socket::wait(&self.socket, false, patience)? {
            return Ok(None);
        }
        match self.socket.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                Ok(Some(stream))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Connects to a [`Listener`] of this host.
pub(crate) fn connect(name: &str) -> io::Result<UnixStream> {
    os::connect(name)
}

/// Whether the other side is a process of the same user.
pub(crate) fn same_user(stream: &UnixStream) -> bool {
    os::user(stream).is_ok_and(|user| user == rustix::process::geteuid().as_raw())
}

/// Sends bytes, with descriptors on the first of them.
pub(crate) fn send(
    stream: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let message = SendAncillaryMessage::ScmRights(descriptors);
    let mut space = vec![MaybeUninit::uninit(); message.size()];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(message) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let sent =
        rustix::net::sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::empty())?;
    io::Write::write_all(&mut &*stream, &bytes[sent..])
}

/// Fills `bytes`, and returns the descriptors that came with them.
pub(crate) fn receive(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<Vec<OwnedFd>> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        rustix::net::recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut control, os::RECEIVE)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    os::close_on_exec(&descriptors)?;
    if received.bytes == 0 && !bytes.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    io::Read::read_exact(&mut &*stream, &mut bytes[received.bytes..])?;
    Ok(descriptors)
}

#[cfg(target_os = "linux")]
mod os {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    pub(super) const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;

    pub(super) fn bind(name: &str) -> io::Result<Listener> {
        let address = SocketAddr::from_abstract_name(name)?;
        Ok(Listener { socket: UnixListener::bind_addr(&address)? })
    }

    pub(super) fn connect(name: &str) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
    }

    pub(super) fn user(stream: &UnixStream) -> io::Result<u32> {
        Ok(rustix::net::sockopt::socket_peercred(stream.as_fd())?.uid.as_raw())
    }

    pub(super) fn close_on_exec(_: &[OwnedFd]) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod os {
    use super::*;
    use std::os::fd::AsRawFd;

    pub(super) const RECEIVE: RecvFlags = RecvFlags::empty();

    fn path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(name)
    }

    pub(super) fn bind(name: &str) -> io::Result<Listener> {
        let path = path(name);
        Ok(Listener { socket: UnixListener::bind(&path)?, path })
    }

    impl Drop for Listener {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    pub(super) fn connect(name: &str) -> io::Result<UnixStream> {
        UnixStream::connect(path(name))
    }

    pub(super) fn user(stream: &UnixStream) -> io::Result<u32> {
        let (mut user, mut group) = (0, 0);
        // SAFETY: a live socket and two places for the answer.
        match unsafe { libc::getpeereid(stream.as_raw_fd(), &raw mut user, &raw mut group) } {
            0 => Ok(user),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn close_on_exec(descriptors: &[OwnedFd]) -> io::Result<()> {
        for descriptor in descriptors {
            rustix::io::fcntl_setfd(descriptor.as_fd(), rustix::io::FdFlags::CLOEXEC)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_arrive_with_their_bytes() {
        let name = format!("lycaon-fdpass-test-{}", std::process::id());
        let listener = Listener::bind(&name).unwrap();
        assert!(listener.accept(Duration::from_millis(1)).unwrap().is_none());
        let near = connect(&name).unwrap();
        let far = listener.accept(Duration::from_secs(5)).unwrap().unwrap();
        assert!(same_user(&near) && same_user(&far));
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        send(&near, b"two pipes", &[writer.as_fd(), writer.as_fd()]).unwrap();
        let mut bytes = [0; 9];
        let passed = receive(&far, &mut bytes).unwrap();
        assert_eq!((&bytes, passed.len()), (b"two pipes", 2));
        rustix::io::write(&passed[1], b"x").unwrap();
        let mut byte = [0];
        assert_eq!(rustix::io::read(&reader, &mut byte).unwrap(), 1);
        send(&near, b"none", &[]).unwrap();
        assert!(receive(&far, &mut bytes[..4]).unwrap().is_empty());
        drop(near);
        let error = receive(&far, &mut bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
