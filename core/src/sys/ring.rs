//! Rings of bytes in shared memory: one writer, one reader.
//!
//! Each side keeps its own position privately and publishes it; what it reads of the other side's
//! is checked on every use, so that nonsense in shared memory gives an error and never an access
//! outside of the ring.

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::sys::shm::Mapping;

const LINE: usize = 128;
/// Written by the writer: its position, and whether it has finished.
const TAIL: usize = 0;
const FINISHED: usize = 8;
/// Written by the reader: its position, and whether it is gone.
const HEAD: usize = LINE;
const GONE: usize = LINE + 8;
/// Set by the side that is about to sleep, cleared by the one that wakes it.
const READER_SLEEPS: usize = 2 * LINE;
const WRITER_SLEEPS: usize = 3 * LINE;
const HEADER: usize = 4 * LINE;

/// Bytes of a ring that holds `capacity` bytes.
pub(crate) const fn footprint(capacity: usize) -> usize {
    HEADER + capacity
}

#[derive(Debug)]
struct Ring {
    memory: Arc<Mapping>,
    base: usize,
    capacity: u64,
}

impl Ring {
    fn new(memory: Arc<Mapping>, base: usize, capacity: usize) -> Ring {
        assert!(capacity.is_power_of_two() && base + footprint(capacity) <= memory.len());
        Ring { memory, base, capacity: capacity as u64 }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        self.memory.word(self.base + offset)
    }

    /// Bytes between two positions; an error if they cannot be those of this ring.
    fn used(&self, head: u64, tail: u64) -> io::Result<usize> {
        match tail.wrapping_sub(head) {
            #[expect(clippy::cast_possible_truncation, reason = "no more than the capacity")]
            used if used <= self.capacity => Ok(used as usize),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a shared ring of {} bytes is at {head} and {tail}", self.capacity),
            )),
        }
    }

    /// The places of `len` bytes from a position on: the second is empty unless they wrap.
    fn places(&self, position: u64, len: usize) -> [Range<usize>; 2] {
        #[expect(clippy::cast_possible_truncation, reason = "the capacity is a usize")]
        let (capacity, start) = (self.capacity as usize, (position & (self.capacity - 1)) as usize);
        let first = len.min(capacity - start);
        let data = self.base + HEADER;
        [data + start..data + start + first, data..data + len - first]
    }

    /// Whether the sleeper of this word is to be woken. Call after publishing.
    fn claims(&self, sleeper: usize) -> bool {
        // Pairs with the fence in `announce`: either this sees the mark, or the sleeper sees what
        // was published.
        fence(Ordering::SeqCst);
        self.word(sleeper).load(Ordering::Relaxed) != 0
            && self.word(sleeper).swap(0, Ordering::Relaxed) != 0
    }

    fn announce(&self, sleeper: usize) {
        self.word(sleeper).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Writer {
    ring: Ring,
    tail: u64,
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Reader {
    ring: Ring,
    head: u64,
    /// The end was reported; it is nothing to wake up for any more.
    ended: bool,
}

impl Writer {
    /// The only writer of the ring at `base`, whose memory is new.
    pub(crate) fn new(memory: Arc<Mapping>, base: usize, capacity: usize) -> Writer {
        Writer { ring: Ring::new(memory, base, capacity), tail: 0 }
    }

    fn free(&self) -> io::Result<usize> {
        if self.ring.word(GONE).load(Ordering::Acquire) != 0 {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the reader has closed"));
        }
        let head = self.ring.word(HEAD).load(Ordering::Acquire);
        let used = self.ring.used(head, self.tail)?;
        #[expect(clippy::cast_possible_truncation, reason = "the capacity is a usize")]
        Ok(self.ring.capacity as usize - used)
    }

    /// Writes as much as fits and returns how much, and whether the reader has to be woken.
    pub(crate) fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<(usize, bool)> {
        let free = self.free()?;
        let mut written = 0;
        for part in parts {
            let len = part.len().min(free - written);
            let [first, second] = self.ring.places(self.tail + written as u64, len);
            let (a, b) = part[..len].split_at(first.len());
            // SAFETY: between the writer's position and the reader's, where only the writer may
            // write and the reader does not read; inside of the ring by `places`.
            unsafe { self.ring.memory.bytes_mut(first) }.copy_from_slice(a);
            // SAFETY: as above.
            unsafe { self.ring.memory.bytes_mut(second) }.copy_from_slice(b);
            written += len;
        }
        if written == 0 {
            return if parts.iter().all(|part| part.is_empty()) {
                Ok((0, false))
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            };
        }
        self.tail += written as u64;
        self.ring.word(TAIL).store(self.tail, Ordering::Release);
        Ok((written, self.ring.claims(READER_SLEEPS)))
    }

    /// Announces a sleep until there is room; whether there is room already.
    pub(crate) fn prepare_sleep(&self) -> io::Result<bool> {
        self.ring.announce(WRITER_SLEEPS);
        match self.free() {
            Ok(free) => Ok(free > 0),
            // The next write says so.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Nothing more will be written. Whether the reader has to be woken.
    pub(crate) fn finish(&mut self) -> bool {
        self.ring.word(FINISHED).store(1, Ordering::Release);
        self.ring.claims(READER_SLEEPS)
    }
}

impl Reader {
    /// The only reader of the ring at `base`, whose memory is new.
    pub(crate) fn new(memory: Arc<Mapping>, base: usize, capacity: usize) -> Reader {
        Reader { ring: Ring::new(memory, base, capacity), head: 0, ended: false }
    }

    /// Bytes to read, and whether they are the last.
    fn available(&self) -> io::Result<(usize, bool)> {
        // The mark first: what was written before it is then seen too.
        let finished = self.ring.word(FINISHED).load(Ordering::Acquire) != 0;
        let tail = self.ring.word(TAIL).load(Ordering::Acquire);
        Ok((self.ring.used(self.head, tail)?, finished))
    }

    /// Reads what is there and returns how much, and whether the writer has to be woken. 0 is the
    /// end.
    pub(crate) fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<(usize, bool)> {
        if parts.iter().all(|part| part.is_empty()) {
            return Ok((0, false));
        }
        let (available, finished) = self.available()?;
        if available == 0 {
            self.ended = finished;
            return if finished { Ok((0, false)) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let mut read = 0;
        for part in parts {
            let len = part.len().min(available - read);
            let [first, second] = self.ring.places(self.head + read as u64, len);
            let (a, b) = part[..len].split_at_mut(first.len());
            // SAFETY: between the reader's position and the writer's, where the writer does not
            // write until the reader's position has moved; inside of the ring by `places`.
            a.copy_from_slice(unsafe { self.ring.memory.bytes(first) });
            // SAFETY: as above.
            b.copy_from_slice(unsafe { self.ring.memory.bytes(second) });
            read += len;
        }
        self.head += read as u64;
        self.ring.word(HEAD).store(self.head, Ordering::Release);
        Ok((read, self.ring.claims(WRITER_SLEEPS)))
    }

    /// Announces a sleep until there is something to read; whether there is already.
    pub(crate) fn prepare_sleep(&self) -> io::Result<bool> {
        self.ring.announce(READER_SLEEPS);
        let (available, finished) = self.available()?;
        Ok(available > 0 || finished && !self.ended)
    }

    /// Nothing more will be read. Whether the writer has to be woken.
    pub(crate) fn close(&mut self) -> bool {
        self.ring.word(GONE).store(1, Ordering::Release);
        self.ring.claims(WRITER_SLEEPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 1024;

    fn ends() -> (Writer, Reader, Arc<Mapping>) {
        let memory = Arc::new(Mapping::private(footprint(CAPACITY)).unwrap());
        let writer = Writer::new(memory.clone(), 0, CAPACITY);
        (writer, Reader::new(memory.clone(), 0, CAPACITY), memory)
    }

    fn pattern(from: usize, len: usize) -> Vec<u8> {
        (from..from + len).map(|i| (i * 7 % 253) as u8).collect()
    }

    #[test]
    fn bytes_come_out_as_they_went_in_across_every_wrap() {
        let (mut writer, mut reader, _) = ends();
        let (mut sent, mut got) = (0, 0);
        for step in 1..4000 {
            let (a, b) = (step * 13 % 700, step * 29 % 500);
            let data = pattern(sent, a + b);
            match writer.write(&[IoSlice::new(&data[..a]), IoSlice::new(&data[a..])]) {
                Ok((len, _)) => sent += len,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            let mut first = vec![0; step * 17 % 300];
            let mut second = vec![0; step * 31 % 400];
            let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
            match reader.read(&mut parts) {
                Ok((len, _)) => {
                    first.extend(second);
                    assert_eq!(first[..len], pattern(got, len)[..], "at {got}");
                    got += len;
                }
                Err(error) => assert_eq!((error.kind(), got), (io::ErrorKind::WouldBlock, sent)),
            }
        }
        assert!(got > 100 * CAPACITY);
    }

    #[test]
    fn the_end_comes_after_the_last_byte_and_wakes() {
        let (mut writer, mut reader, _) = ends();
        assert!(!reader.prepare_sleep().unwrap());
        assert_eq!(writer.write(&[IoSlice::new(b"abc")]).unwrap(), (3, true));
        assert_eq!(writer.write(&[IoSlice::new(b"d")]).unwrap(), (1, false), "woken already");
        assert!(reader.prepare_sleep().unwrap());
        assert!(writer.finish());
        let mut bytes = [0; 10];
        assert_eq!(reader.read(&mut [IoSliceMut::new(&mut bytes)]).unwrap().0, 4);
        assert_eq!(&bytes[..4], b"abcd");
        assert!(reader.prepare_sleep().unwrap(), "the end is something to read");
        assert_eq!(reader.read(&mut [IoSliceMut::new(&mut bytes)]).unwrap().0, 0);
        assert!(!reader.prepare_sleep().unwrap(), "the end is news only once");
    }

    #[test]
    fn a_full_ring_blocks_until_room_and_a_closed_one_is_broken() {
        let (mut writer, mut reader, _) = ends();
        let data = pattern(0, CAPACITY + 5);
        assert_eq!(writer.write(&[IoSlice::new(&data)]).unwrap().0, CAPACITY);
        let full = writer.write(&[IoSlice::new(&data)]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(!writer.prepare_sleep().unwrap());
        let mut byte = [0];
        assert_eq!(reader.read(&mut [IoSliceMut::new(&mut byte)]).unwrap(), (1, true));
        assert_eq!(writer.write(&[IoSlice::new(&data)]).unwrap().0, 1);
        assert!(!reader.close());
        assert!(writer.prepare_sleep().unwrap());
        let broken = writer.write(&[IoSlice::new(&data)]).unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn nonsense_in_shared_memory_is_an_error() {
        for nonsense in [1u64 << 40, u64::MAX, CAPACITY as u64 + 1] {
            let (mut writer, mut reader, memory) = ends();
            memory.word(TAIL).store(nonsense, Ordering::Relaxed);
            let mut bytes = [0; 8];
            let error = reader.read(&mut [IoSliceMut::new(&mut bytes)]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
            memory.word(HEAD).store(nonsense, Ordering::Relaxed);
            let result = writer.write(&[IoSlice::new(&bytes)]);
            if nonsense == u64::MAX {
                // One ahead of the writer's 0 in the other direction: a plausible position.
                assert!(result.is_ok());
            } else {
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidData);
            }
        }
    }
}
