//! A file descriptor that one process makes ready to wake another one out of its poller.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// One rank's bell. Ringing never blocks, and rings that nobody has answered yet count as one.
#[derive(Debug)]
pub(crate) struct Doorbell {
    read: OwnedFd,
    /// `None`: the same as `read`.
    write: Option<OwnedFd>,
}

impl Doorbell {
    /// A bell that nobody has rung.
    pub(crate) fn new() -> io::Result<Doorbell> {
        os::create()
    }

    /// The descriptors to hand to another process, which makes the bell of them again.
    pub(crate) fn parts(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [Some(self.read.as_fd()), self.write.as_ref().map(|write| write.as_fd())]
            .into_iter()
            .flatten()
    }

    /// How many descriptors [`Doorbell::parts`] gives.
    pub(crate) const PARTS: usize = os::PARTS;

    /// A bell from descriptors that [`Doorbell::parts`] gave; `None` if there are too few.
    pub(crate) fn from_parts(parts: &mut impl Iterator<Item = OwnedFd>) -> Option<Doorbell> {
        let read = parts.next()?;
        let write = if os::PARTS == 2 { Some(parts.next()?) } else { None };
        Some(Doorbell { read, write })
    }

    /// Makes the descriptor readable until [`Doorbell::answer`].
    pub(crate) fn ring(&self) -> io::Result<()> {
        let write = self.write.as_ref().unwrap_or(&self.read);
        match rustix::io::write(write, os::RING) {
            // Full: it is ringing.
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the descriptor unreadable.
    pub(crate) fn answer(&self) -> io::Result<()> {
        let mut rings = [0; 64];
        loop {
            match rustix::io::read(&self.read, &mut rings) {
                Ok(len) if len == rings.len() => (),
                Ok(_) | Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => (),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

#[cfg(target_os = "linux")]
mod os {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    pub(super) const PARTS: usize = 1;
    pub(super) const RING: &[u8] = &1u64.to_ne_bytes();

    pub(super) fn create() -> io::Result<Doorbell> {
        let read = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Doorbell { read, write: None })
    }
}

#[cfg(not(target_os = "linux"))]
mod os {
    use super::*;

    pub(super) const PARTS: usize = 2;
    pub(super) const RING: &[u8] = &[1];

    pub(super) fn create() -> io::Result<Doorbell> {
        let (read, write) = rustix::pipe::pipe()?;
        for end in [&read, &write] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(end, true)?;
        }
        Ok(Doorbell { read, write: Some(write) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn ringing(bell: &Doorbell) -> bool {
        let mut fds = [PollFd::new(bell, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn it_rings_until_it_is_answered() {
        let bell = Doorbell::new().unwrap();
        assert!(!ringing(&bell));
        bell.answer().unwrap();
        let copies = bell.parts().map(|part| part.try_clone_to_owned().unwrap());
        let other = Doorbell::from_parts(&mut copies.collect::<Vec<_>>().into_iter()).unwrap();
        for _ in 0..100_000 {
            other.ring().unwrap();
        }
        assert!(ringing(&bell));
        bell.answer().unwrap();
        assert!(!ringing(&bell));
        assert_eq!(bell.parts().count(), Doorbell::PARTS);
        assert!(Doorbell::from_parts(&mut std::iter::empty()).is_none());
    }
}
