//! The one place where threads sleep for I/O: epoll on Linux, kqueue on macOS.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use polling::{Event, Events, PollMode};

/// Sleeps until one of many file descriptors is ready, somebody notifies it, or time is up.
///
/// Interest is level-triggered: as long as something registered is ready, [`Poller::wait`] returns
/// at once, so nothing has to be re-armed after a wake-up. Registering, changing interest and
/// notifying work from any thread while another one waits; only one thread waits at a time (a
/// second one returns at once).
#[derive(Debug)]
pub(crate) struct Poller {
    inner: polling::Poller,
    events: Mutex<Events>,
}

impl Poller {
    /// A poller with nothing registered.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let inner = polling::Poller::new()?;
        Ok(Arc::new(Poller { inner, events: Mutex::new(Events::new()) }))
    }

    /// Sleeps until something is ready, [`Poller::notify`] is called, or `timeout` has passed.
    /// Returns whether a file descriptor is ready.
    pub(crate) fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let Ok(mut events) = self.events.try_lock() else {
            return Ok(false);
        };
        events.clear();
        self.inner.wait(&mut events, Some(timeout)).map(|ready| ready > 0)
    }

    /// Ends the current or the next [`Poller::wait`].
    pub(crate) fn notify(&self) {
        if let Err(error) = self.inner.notify() {
            tracing::warn!(%error, "waking the thread that waits for I/O failed");
        }
    }

    /// Registers `source`; it takes part in every wait until the returned guard is dropped.
    pub(crate) fn register<T: AsFd>(
        self: &Arc<Self>,
        source: T,
        interest: Interest,
    ) -> io::Result<Registered<T>> {
        let fd = source.as_fd().as_raw_fd();
        // SAFETY: `Registered` owns the source and takes it out of the poller before it is closed.
        unsafe { self.inner.add_with_mode(fd, interest.event(fd), PollMode::Level)? };
        Ok(Registered { poller: Arc::clone(self), interest, source: Some(source) })
    }
}

/// What to wake up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    /// When it can be read, or has ended.
    pub read: bool,
    /// When it can be written.
    pub write: bool,
}

impl Interest {
    /// Only when it can be read.
    pub(crate) const READ: Interest = Interest { read: true, write: false };

    fn event(self, fd: i32) -> Event {
        // why: keys are not used, readiness of anything wakes the one loop; the descriptor is a
        // key that helps in a trace.
        Event::new(usize::try_from(fd).unwrap_or(0), self.read, self.write)
    }
}

/// Something with a file descriptor that takes part in a [`Poller`]'s waits.
#[derive(Debug)]
pub(crate) struct Registered<T: AsFd> {
    poller: Arc<Poller>,
    interest: Interest,
    source: Option<T>,
}

impl<T: AsFd> Registered<T> {
    /// Changes what it wakes up for; costs a system call only if it is a change.
    pub(crate) fn set_interest(&mut self, interest: Interest) -> io::Result<()> {
        if interest != self.interest {
            let fd = self.as_fd().as_raw_fd();
            let source = self.source.as_ref().expect("taken only by into_inner");
            self.poller.inner.modify_with_mode(source, interest.event(fd), PollMode::Level)?;
            self.interest = interest;
        }
        Ok(())
    }

    /// Takes it out of the poller.
    pub(crate) fn into_inner(mut self) -> T {
        self.unregister();
        self.source.take().expect("taken only here")
    }

    fn unregister(&mut self) {
        if let Some(source) = &self.source
            && let Err(error) = self.poller.inner.delete(source)
        {
            tracing::warn!(%error, "a descriptor could not be taken out of the poller");
        }
    }
}

impl<T: AsFd> Deref for Registered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.source.as_ref().expect("taken only by into_inner")
    }
}

impl<T: AsFd> DerefMut for Registered<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.source.as_mut().expect("taken only by into_inner")
    }
}

impl<T: AsFd> Drop for Registered<T> {
    fn drop(&mut self) {
        self.unregister();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(10);
    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn readiness_is_a_level_and_ends_when_it_is_read() {
        let poller = Poller::new().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut far = poller.register(far, Interest::READ).unwrap();
        assert!(!poller.wait(SHORT).unwrap());
        near.write_all(b"x").unwrap();
        assert!(poller.wait(LONG).unwrap());
        assert!(poller.wait(LONG).unwrap(), "still unread");
        far.read_exact(&mut [0]).unwrap();
        assert!(!poller.wait(SHORT).unwrap());
        far.set_interest(Interest { read: true, write: true }).unwrap();
        assert!(poller.wait(LONG).unwrap(), "writable");
        far.set_interest(Interest::READ).unwrap();
        assert!(!poller.wait(SHORT).unwrap());
        drop(near);
        assert!(poller.wait(LONG).unwrap(), "the end is something to read");
        drop(far.into_inner());
        assert!(!poller.wait(SHORT).unwrap());
    }

    #[test]
    fn a_waiting_thread_sees_what_others_register_and_notify() {
        let poller = Poller::new().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"x").unwrap();
        let start = Instant::now();
        let other = Arc::clone(&poller);
        let waiter = std::thread::spawn(move || other.wait(LONG).unwrap());
        std::thread::sleep(SHORT);
        let far = poller.register(far, Interest::READ).unwrap();
        assert!(waiter.join().unwrap());
        drop(far);
        poller.notify();
        assert!(!poller.wait(LONG).unwrap());
        assert!(start.elapsed() < LONG);
    }
}
