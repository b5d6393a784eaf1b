//! Byte streams through rings in shared memory.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::doorbell::Doorbell;
use crate::sys::ring::{Reader, Writer};
use crate::transport::stream::Stream;

/// The bell that wakes this rank, shared by its streams. Ready for reading when one of them can go
/// on after its `prepare_sleep`.
#[derive(Debug)]
pub(crate) struct Bell {
    doorbell: Arc<Doorbell>,
    /// Whether a stream has announced a sleep since the bell was last answered.
    armed: AtomicBool,
}

impl Bell {
    pub(super) fn new(doorbell: Arc<Doorbell>) -> Bell {
        Bell { doorbell, armed: AtomicBool::new(false) }
    }

    /// Answers the bell before the first look at the streams after a sleep. Everything that rang
    /// it until now was written before, and will be seen; what rings later, stays.
    fn answer(&self) -> io::Result<()> {
        if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::AcqRel) {
            self.doorbell.answer()?;
        }
        Ok(())
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

/// The stream to and from one other rank of the host.
///
/// All streams of a rank share one bell: after it rang, every one of them has to be tried.
#[derive(Debug)]
pub(crate) struct RingStream {
    writer: Writer,
    reader: Reader,
    bell: Arc<Bell>,
    peer: Arc<Doorbell>,
}

impl RingStream {
    pub(super) fn new(
        writer: Writer,
        reader: Reader,
        bell: Arc<Bell>,
        peer: Arc<Doorbell>,
    ) -> RingStream {
        RingStream { writer, reader, bell, peer }
    }

    fn wake(&self, needed: bool) -> io::Result<()> {
        if needed { self.peer.ring() } else { Ok(()) }
    }
}

impl Stream for RingStream {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.bell.answer()?;
        let (len, wake) = self.writer.write(parts)?;
        self.wake(wake)?;
        Ok(len)
    }

    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.bell.answer()?;
        let (len, wake) = self.reader.read(parts)?;
        self.wake(wake)?;
        Ok(len)
    }

    fn prepare_sleep(&mut self, for_write: bool) -> io::Result<bool> {
        self.bell.armed.store(true, Ordering::Release);
        let readable = self.reader.prepare_sleep()?;
        let writable = for_write && self.writer.prepare_sleep()?;
        Ok(!readable && !writable)
    }

    fn finish(&mut self) -> io::Result<()> {
        let wake = self.writer.finish();
        self.wake(wake)
    }
}

impl Drop for RingStream {
    fn drop(&mut self) {
        // The peer may be gone; then nobody needs waking.
        let (reads, writes) = (self.writer.finish(), self.reader.close());
        let _ = self.wake(reads || writes);
    }
}
