//! Memory that several processes see, without a name in any file system.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Zeroed memory, shared by everybody who maps the same file (or holds the same `Arc`). It exists
/// as long as somebody does; nothing is left behind, however its users end.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// `None`: shared by the threads of this process only. This is the only descriptor of the file
    /// in this process; closing a second one would drop the locks of [`Mapping::hold`].
    file: Option<OwnedFd>,
}

// SAFETY: the memory is shared by design; every access goes through atomics or through the unsafe
// functions below, whose callers order their accesses.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// New memory of `len` bytes that other processes can map through [`Mapping::file`].
    pub(crate) fn create(len: usize) -> io::Result<Mapping> {
        let file = os::create(len)?;
        Mapping::map(Some(file), len)
    }

    /// Maps what another process has created. It must have exactly `len` bytes, and may not be
    /// able to shrink.
    pub(crate) fn open(file: OwnedFd, len: usize) -> io::Result<Mapping> {
        let actual = rustix::fs::fstat(&file)?.st_size;
        if usize::try_from(actual) != Ok(len) {
            let text = format!("the shared segment has {actual} bytes where {len} were announced");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        os::check(&file)?;
        Mapping::map(Some(file), len)
    }

    /// New memory for the threads of this process.
    pub(crate) fn private(len: usize) -> io::Result<Mapping> {
        Mapping::map(None, len)
    }

    fn map(file: Option<OwnedFd>, len: usize) -> io::Result<Mapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let pointer = match &file {
            // SAFETY: a new mapping at an address of the kernel's choice.
            Some(file) => unsafe {
                rustix::mm::mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0)
            },
            // SAFETY: as above.
            None => unsafe {
                let null = std::ptr::null_mut();
                rustix::mm::mmap_anonymous(null, len, protection, MapFlags::SHARED)
            },
        }?;
        let base = NonNull::new(pointer.cast()).expect("a mapping is never at address 0");
        Ok(Mapping { base, len, file })
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What other processes map; `None` if the memory is this process's own.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(|file| file.as_fd())
    }

    fn at(&self, range: Range<usize>) -> *mut u8 {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} is outside of shared memory of {} bytes",
            self.len
        );
        // SAFETY: in bounds as just checked.
        unsafe { self.base.as_ptr().add(range.start) }
    }

    /// A word at an offset that is a multiple of 8.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert_eq!(offset % 8, 0, "a word in shared memory is aligned");
        let pointer = self.at(offset..offset + 8);
        // SAFETY: in bounds, aligned (the base is page-aligned), alive as long as `self`, and only
        // ever accessed as an atomic: no byte range given out below contains a word.
        unsafe { AtomicU64::from_ptr(pointer.cast()) }
    }

    /// Bytes to read.
    ///
    /// # Safety
    /// Nobody, in any process, writes to the range while the slice is alive.
    #[inline]
    pub(crate) unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        let len = range.len();
        // SAFETY: in bounds; not written by the contract of this function.
        unsafe { std::slice::from_raw_parts(self.at(range), len) }
    }

    /// Bytes to write.
    ///
    /// # Safety
    /// Nobody else, in any process, reads or writes the range while the slice is alive.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "exclusive by the contract, not by the borrow")]
    pub(crate) unsafe fn bytes_mut(&self, range: Range<usize>) -> &mut [u8] {
        let len = range.len();
        // SAFETY: in bounds; exclusive by the contract of this function.
        unsafe { std::slice::from_raw_parts_mut(self.at(range), len) }
    }

    /// Asks for huge pages in a range, where the system has them. Only a wish.
    pub(crate) fn advise_huge(&self, range: Range<usize>) {
        let (start, end) = (range.start.next_multiple_of(PAGE), range.end / PAGE * PAGE);
        if start < end {
            os::advise_huge(self.at(start..end), end - start);
        }
    }

    /// Faults a range in, so that its first use does not. Only a wish.
    pub(crate) fn populate(&self, range: Range<usize>) {
        let (start, end) = (range.start / PAGE * PAGE, range.end.next_multiple_of(PAGE));
        os::populate(self.at(start..end.min(self.len)), end.min(self.len) - start);
    }

    /// Says for as long as this process lives (and keeps the mapping) that `rank` is alive.
    pub(crate) fn hold(&self, rank: usize) -> io::Result<()> {
        match &self.file {
            None => Ok(()),
            Some(file) => os::hold(file, rank),
        }
    }

    /// Whether the process that called [`Mapping::hold`] for `rank` still runs. This process's own
    /// ranks count as alive; so does everybody where the system cannot tell.
    pub(crate) fn held(&self, rank: usize, own: usize) -> bool {
        match &self.file {
            None => true,
            Some(_) if rank == own => true,
            Some(file) => os::held(file, rank),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nobody borrows it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Granularity of advice; a multiple of every page size that counts here (Apple's is 16 KiB).
pub(crate) const PAGE: usize = 16384;

/// `fcntl` locks on single bytes: they belong to the process, end with it, and are not inherited.
fn lock_request(rank: usize) -> libc::flock {
    // SAFETY: all-zero is a valid `flock`.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = libc::F_WRLCK as _;
    request.l_whence = libc::SEEK_SET as _;
    request.l_start = rank as _;
    request.l_len = 1;
    request
}

fn try_lock(file: &OwnedFd, rank: usize) -> io::Result<()> {
    let request = lock_request(rank);
    // SAFETY: a live descriptor and a valid request.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

// The types of the constant and of the field differ between systems.
#[allow(clippy::unnecessary_cast)]
fn is_locked(file: &OwnedFd, rank: usize) -> io::Result<bool> {
    let mut request = lock_request(rank);
    // SAFETY: a live descriptor and a valid request, which the kernel overwrites.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(request.l_type as i32 != libc::F_UNLCK as i32),
    }
}

#[cfg(target_os = "linux")]
mod os {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags};

    pub(super) fn create(len: usize) -> io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("lycaon", flags)?;
        rustix::fs::ftruncate(&file, len as u64)?;
        // No rank can make another's access fail by cutting the file.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(file)
    }

    pub(super) fn check(file: &OwnedFd) -> io::Result<()> {
        let seals = rustix::fs::fcntl_get_seals(file)?;
        if seals.contains(SealFlags::SHRINK) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the shared segment could be cut short"))
    }

    pub(super) fn advise_huge(pointer: *mut u8, len: usize) {
        // SAFETY: a range of a live mapping; the advice does not change its contents.
        let _ = unsafe { rustix::mm::madvise(pointer.cast(), len, Advice::LinuxHugepage) };
    }

    pub(super) fn populate(pointer: *mut u8, len: usize) {
        // SAFETY: as above.
        let _ = unsafe { rustix::mm::madvise(pointer.cast(), len, Advice::LinuxPopulateWrite) };
    }

    pub(super) fn hold(file: &OwnedFd, rank: usize) -> io::Result<()> {
        try_lock(file, rank)
    }

    pub(super) fn held(file: &OwnedFd, rank: usize) -> bool {
        is_locked(file, rank).unwrap_or(true)
    }
}

#[cfg(not(target_os = "linux"))]
mod os {
    use super::*;
    use rustix::fs::Mode;
    use rustix::shm::OFlags;

    pub(super) fn create(len: usize) -> io::Result<OwnedFd> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        // Names have at most 31 bytes on macOS. It is gone again before anybody could look.
        let name = format!("/lycaon-{:016x}", u64::from_ne_bytes(random));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let file = rustix::shm::open(&name, flags, Mode::RUSR | Mode::WUSR)?;
        let unlinked = rustix::shm::unlink(&name);
        rustix::fs::ftruncate(&file, len as u64)?;
        unlinked?;
        Ok(file)
    }

    pub(super) fn check(_: &OwnedFd) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn advise_huge(_: *mut u8, _: usize) {}

    pub(super) fn populate(pointer: *mut u8, len: usize) {
        // SAFETY: a range of a live mapping; the advice does not change its contents.
        let _ = unsafe { rustix::mm::madvise(pointer.cast(), len, Advice::WillNeed) };
    }

    /// Shared memory objects may not take locks here; then everybody counts as alive, and deaths
    /// are found by the control connection alone.
    pub(super) fn hold(file: &OwnedFd, rank: usize) -> io::Result<()> {
        let _ = try_lock(file, rank);
        Ok(())
    }

    pub(super) fn held(file: &OwnedFd, rank: usize) -> bool {
        is_locked(file, rank).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_of_one_file_share_their_bytes() {
        let first = Mapping::create(2 * PAGE).unwrap();
        let file = first.file().unwrap().try_clone_to_owned().unwrap();
        let second = Mapping::open(file, 2 * PAGE).unwrap();
        first.populate(0..PAGE);
        first.advise_huge(0..2 * PAGE);
        first.word(PAGE).store(7, Ordering::Relaxed);
        assert_eq!(second.word(PAGE).load(Ordering::Relaxed), 7);
        // SAFETY: this test is the only user.
        unsafe { second.bytes_mut(100..103) }.copy_from_slice(b"abc");
        // SAFETY: as above.
        assert_eq!(unsafe { first.bytes(99..104) }, b"\0abc\0");
    }

    #[test]
    fn a_wrong_size_is_refused_with_both_numbers() {
        let first = Mapping::create(PAGE).unwrap();
        let file = first.file().unwrap().try_clone_to_owned().unwrap();
        let text = Mapping::open(file, 3 * PAGE).unwrap_err().to_string();
        assert!(text.contains("16384") && text.contains("49152"), "{text}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nobody_can_cut_the_file_and_an_unsealed_one_is_refused() {
        let mapping = Mapping::create(PAGE).unwrap();
        assert!(rustix::fs::ftruncate(mapping.file().unwrap(), 0).is_err());
        let loose = rustix::fs::memfd_create("loose", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&loose, PAGE as u64).unwrap();
        assert!(Mapping::open(loose, PAGE).is_err());
    }

    #[test]
    #[should_panic(expected = "outside of shared memory")]
    fn words_outside_are_refused() {
        Mapping::private(PAGE).unwrap().word(PAGE);
    }
}
