//! Descriptors that a forked child does not keep open.
//!
//! A connection ends for its peer when the last copy of the descriptor is closed. A child that
//! was forked without `exec` has such a copy, and would hide the death of its parent. So the
//! child's copies of [`Private`] descriptors are replaced by `/dev/null` while `fork` returns;
//! their numbers stay taken, so that whoever drops the value in the child closes nothing else.

use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

/// Descriptors beyond this many at a time are not watched over.
const SLOTS: usize = 4096;
const FREE: RawFd = -1;

static PRIVATE: [AtomicI32; SLOTS] = [const { AtomicI32::new(FREE) }; SLOTS];
/// One more than the highest slot that was ever in use.
static USED: AtomicI32 = AtomicI32::new(0);
static NULL: AtomicI32 = AtomicI32::new(FREE);

/// Runs in the child between `fork` and its return, where only async-signal-safe calls may be
/// made.
extern "C" fn in_child() {
    let null = NULL.load(Ordering::Acquire);
    let used = usize::try_from(USED.load(Ordering::Acquire)).unwrap_or(0).min(SLOTS);
    for slot in &PRIVATE[..used] {
        let fd = slot.swap(FREE, Ordering::AcqRel);
        if fd == FREE {
            continue;
        }
        if null == FREE {
            // SAFETY: `close` is async-signal-safe and takes any number; this one is open, since
            // a descriptor is taken from its slot before it is closed.
            unsafe { libc::close(fd) };
            continue;
        }
        #[cfg(target_os = "linux")]
        // SAFETY: `dup3` is async-signal-safe on Linux, where it is a bare system call; both
        // descriptors are open.
        unsafe {
            libc::dup3(null, fd, libc::O_CLOEXEC)
        };
        #[cfg(not(target_os = "linux"))]
        // SAFETY: `dup2` is async-signal-safe; both descriptors are open.
        unsafe {
            libc::dup2(null, fd)
        };
    }
}

fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Ok(null) = std::fs::File::open("/dev/null") {
            // It stays open as long as the process.
            NULL.store(std::os::fd::IntoRawFd::into_raw_fd(null), Ordering::Release);
        }
        // SAFETY: the handler is a plain function that lives as long as the program and makes
        // async-signal-safe calls only.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if failed != 0 {
            tracing::warn!("forked children will keep connections of their parent open");
        }
    });
}

/// A socket whose copy in a forked child is closed.
#[derive(Debug)]
pub(crate) struct Private<S: AsRawFd> {
    slot: Option<usize>,
    socket: S,
}

impl<S: AsRawFd> Private<S> {
    pub(crate) fn new(socket: S) -> Self {
        prepare();
        let fd = socket.as_raw_fd();
        let taken = |slot: &AtomicI32| {
            slot.compare_exchange(FREE, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        // The count is raised first: a fork in between must see the slot.
        let slot = PRIVATE.iter().enumerate().find_map(|(at, slot)| {
            USED.fetch_max(at as i32 + 1, Ordering::AcqRel);
            taken(slot).then_some(at)
        });
        Private { slot, socket }
    }
}

impl<S: AsRawFd> Drop for Private<S> {
    fn drop(&mut self) {
        if let Some(at) = self.slot {
            // In a forked child the slot was emptied, and may belong to somebody else by now.
            let fd = self.socket.as_raw_fd();
            let _ = PRIVATE[at].compare_exchange(fd, FREE, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

impl<S: AsRawFd + AsFd> AsFd for Private<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<S: AsRawFd> Deref for Private<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

/// A forked child that does nothing for a while and then ends.
#[cfg(test)]
pub(crate) fn idle_child(seconds: u32) -> i32 {
    // SAFETY: the child makes async-signal-safe calls only.
    unsafe {
        match libc::fork() {
            0 => {
                libc::sleep(seconds);
                libc::_exit(0)
            }
            child => child,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_forked_child_does_not_hold_a_connection() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let there = Private::new(there);
        let child = idle_child(20);
        assert!(child > 0);
        drop(there);
        here.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let end = here.read(&mut [0]);
        // SAFETY: the child is this test's own and has not been waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert_eq!(end.unwrap(), 0, "the end shows although the child lives");
    }

    #[test]
    fn slots_are_given_back() {
        let own = || {
            let (one, other) = UnixStream::pair().unwrap();
            [Private::new(one), Private::new(other)]
        };
        let before = own().map(|socket| socket.slot);
        assert!(before.iter().all(Option::is_some));
        for _ in 0..SLOTS {
            assert!(own().iter().all(|socket| socket.slot.is_some()));
        }
    }
}
