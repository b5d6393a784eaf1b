//! The one place where threads sleep for I/O: epoll on Linux, kqueue on macOS.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Sleeps until one of many file descriptors is ready, somebody notifies it, or time is up.
///
/// Interest is level-triggered: as long as something registered is ready, [`Poller::wait`] returns
/// at once, so nothing has to be re-armed after a wake-up. Registering, changing interest and
/// notifying work from any thread while another one waits; only one thread waits at a time (a
/// second one may return at once).
#[derive(Debug)]
pub(crate) struct Poller {
    inner: backend::Poller,
}

impl Poller {
    /// A poller with nothing registered.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Poller { inner: backend::Poller::new()? }))
    }

    /// Sleeps until something is ready, [`Poller::notify`] is called, or `timeout` has passed; a
    /// signal may end it early. Returns whether a file descriptor is ready.
    pub(crate) fn wait(&self, timeout: Duration) -> io::Result<bool> {
        self.inner.wait(timeout)
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
        self.inner.add(&source, interest)?;
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
            let source = self.source.as_ref().expect("taken only when dropped");
            self.poller.inner.modify(source, interest)?;
            self.interest = interest;
        }
        Ok(())
    }
}

impl<T: AsFd> Deref for Registered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.source.as_ref().expect("taken only when dropped")
    }
}

impl<T: AsFd> DerefMut for Registered<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.source.as_mut().expect("taken only when dropped")
    }
}

impl<T: AsFd> Drop for Registered<T> {
    fn drop(&mut self) {
        if let Some(source) = self.source.take()
            && let Err(error) = self.poller.inner.delete(&source)
        {
            tracing::warn!(%error, "a descriptor could not be taken out of the poller");
        }
    }
}

/// epoll without a timer descriptor and without re-arming: one system call per wait.
#[cfg(target_os = "linux")]
mod backend {
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::event::{EventfdFlags, Timespec, eventfd};
    use rustix::io::Errno;

    use super::Interest;

    /// Event data of the notification.
    const NOTIFIED: EventData = EventData::new_u64(1);
    const SOURCE: EventData = EventData::new_u64(0);

    #[derive(Debug)]
    pub(super) struct Poller {
        epoll: OwnedFd,
        bell: OwnedFd,
        rung: AtomicBool,
    }

    impl Poller {
        pub(super) fn new() -> io::Result<Self> {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            epoll::add(&epoll, &bell, NOTIFIED, EventFlags::IN)?;
            Ok(Poller { epoll, bell, rung: AtomicBool::new(false) })
        }

        pub(super) fn wait(&self, timeout: Duration) -> io::Result<bool> {
            let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
            let mut events = [MaybeUninit::uninit(); 8];
            let ready = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
                Ok((events, _)) => events.iter().any(|event| {
                    let data = event.data;
                    data != NOTIFIED
                }),
                Err(Errno::INTR) => false,
                Err(error) => return Err(error.into()),
            };
            // why: the flag goes after the bell is silent, so that a ring in between is not lost.
            if self.rung.load(Ordering::Acquire) {
                match rustix::io::read(&self.bell, &mut [0; 8]) {
                    // why: a swap, to see what was written before a ring that found the flag set.
                    Ok(_) => {
                        self.rung.swap(false, Ordering::AcqRel);
                    }
                    // The other thread has set the flag and is about to ring.
                    Err(Errno::AGAIN) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(ready)
        }

        pub(super) fn notify(&self) -> io::Result<()> {
            if !self.rung.swap(true, Ordering::AcqRel) {
                rustix::io::write(&self.bell, &1_u64.to_ne_bytes())?;
            }
            Ok(())
        }

        pub(super) fn add(&self, source: &impl AsFd, interest: Interest) -> io::Result<()> {
            Ok(epoll::add(&self.epoll, source, SOURCE, flags(interest))?)
        }

        pub(super) fn modify(&self, source: &impl AsFd, interest: Interest) -> io::Result<()> {
            Ok(epoll::modify(&self.epoll, source, SOURCE, flags(interest))?)
        }

        pub(super) fn delete(&self, source: &impl AsFd) -> io::Result<()> {
            Ok(epoll::delete(&self.epoll, source)?)
        }
    }

    fn flags(interest: Interest) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN | EventFlags::RDHUP, interest.read);
        flags.set(EventFlags::OUT, interest.write);
        flags
    }
}

/// Whatever the system has (kqueue on macOS).
#[cfg(not(target_os = "linux"))]
mod backend {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd};
    use std::sync::Mutex;
    use std::time::Duration;

    use polling::{Event, Events, PollMode};

    use super::Interest;

    #[derive(Debug)]
    pub(super) struct Poller {
        inner: polling::Poller,
        events: Mutex<Events>,
    }

    impl Poller {
        pub(super) fn new() -> io::Result<Self> {
            let inner = polling::Poller::new()?;
            Ok(Poller { inner, events: Mutex::new(Events::new()) })
        }

        pub(super) fn wait(&self, timeout: Duration) -> io::Result<bool> {
            let Ok(mut events) = self.events.try_lock() else {
                return Ok(false);
            };
            events.clear();
            self.inner.wait(&mut events, Some(timeout)).map(|ready| ready > 0)
        }

        pub(super) fn notify(&self) -> io::Result<()> {
            self.inner.notify()
        }

        pub(super) fn add(&self, source: &impl AsFd, interest: Interest) -> io::Result<()> {
            let source = source.as_fd().as_raw_fd();
            // SAFETY: `Registered` owns the source and takes it out of the poller before it is
            // closed.
            unsafe { self.inner.add_with_mode(source, event(source, interest), PollMode::Level) }
        }

        pub(super) fn modify(&self, source: &impl AsFd, interest: Interest) -> io::Result<()> {
            let source = source.as_fd();
            let event = event(source.as_raw_fd(), interest);
            self.inner.modify_with_mode(source, event, PollMode::Level)
        }

        pub(super) fn delete(&self, source: &impl AsFd) -> io::Result<()> {
            self.inner.delete(source.as_fd())
        }
    }

    fn event(source: i32, interest: Interest) -> Event {
        // why: keys are not used, readiness of anything wakes the one loop.
        Event::new(usize::try_from(source).unwrap_or(0), interest.read, interest.write)
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
        drop(far);
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
