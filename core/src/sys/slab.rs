//! Memory that a device reads and writes beside the program.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags};

/// Zeroed memory at a fixed place, for the direct access of devices.
///
/// Who may touch which bytes is a matter of the protocol between the owner and the device: the
/// owner writes before it posts and reads after the completion. Both sides go through copies, so
/// that no reference into the memory ever exists.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is plain bytes that are only ever copied in and out; who does that and when
// is ordered by posts and completions, as the documentation of the type demands.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `len` bytes, rounded up to whole pages, that begin at a multiple of `align`, a power of two.
    /// Nothing but addresses is used up until the bytes are touched or registered.
    pub(crate) fn new(len: usize, align: usize) -> io::Result<Arc<Memory>> {
        assert!(align.is_power_of_two() && len > 0, "{len} bytes aligned to {align}");
        let page = rustix::param::page_size();
        let len = len.next_multiple_of(page);
        let reserved = len + align.max(page);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            let null = std::ptr::null_mut();
            rustix::mm::mmap_anonymous(null, reserved, protection, MapFlags::PRIVATE)
        }?;
        let before = start.align_offset(align.max(page));
        let after = reserved - before - len;
        // SAFETY: both ends belong to the mapping just made, which nobody else knows of, and what
        // stays between them is `base..base + len`. The offsets are multiples of the page.
        let base = unsafe {
            let base = start.add(before);
            if before > 0 {
                rustix::mm::munmap(start, before)?;
            }
            if after > 0 {
                rustix::mm::munmap(base.add(len), after)?;
            }
            base
        };
        exclude_from_fork(base, len);
        let base = NonNull::new(base.cast()).expect("a mapping is never at address 0");
        Ok(Arc::new(Memory { base, len }))
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    fn at(&self, range: Range<usize>) -> *mut u8 {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} is outside of {} bytes of memory",
            self.len
        );
        // SAFETY: in bounds as just checked.
        unsafe { self.base.as_ptr().add(range.start) }
    }

    /// Copies bytes out.
    pub(crate) fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.at(at..at + into.len());
        // SAFETY: in bounds; `into` cannot overlap, since no reference into the memory exists.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    /// Copies bytes in.
    pub(crate) fn write(&self, at: usize, from: &[u8]) {
        let into = self.at(at..at + from.len());
        // SAFETY: as for `read`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` and unmapped only here.
        let result = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        if let Err(error) = result {
            tracing::warn!(%error, "memory of a device could not be given back");
        }
    }
}

/// A forked child gets no copy: copying on write would move the parent's pages away from where the
/// device knows them.
#[cfg(target_os = "linux")]
fn exclude_from_fork(base: *mut std::ffi::c_void, len: usize) {
    // SAFETY: the range is the caller's own mapping.
    let result = unsafe { rustix::mm::madvise(base, len, rustix::mm::Advice::LinuxDontFork) };
    if let Err(error) = result {
        tracing::debug!(%error, "memory of a device is inherited by forked children");
    }
}

#[cfg(not(target_os = "linux"))]
fn exclude_from_fork(_: *mut std::ffi::c_void, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_zeroed_and_bounded() {
        for align in [1, 4096, 1 << 21, 1 << 30] {
            let memory = Memory::new(10_000, align).unwrap();
            assert_eq!(memory.address() % align as u64, 0);
            assert!(memory.len() >= 10_000 && memory.len() < 10_000 + 65_536);
            let mut bytes = [7; 5];
            memory.read(9_995, &mut bytes);
            assert_eq!(bytes, [0; 5]);
            memory.write(9_995, b"hello");
            memory.read(9_995, &mut bytes);
            assert_eq!(&bytes, b"hello");
        }
    }

    #[test]
    #[should_panic(expected = "outside of")]
    fn nothing_is_read_beyond_the_end() {
        let memory = Memory::new(1, 1).unwrap();
        memory.read(memory.len() - 1, &mut [0; 2]);
    }
}
