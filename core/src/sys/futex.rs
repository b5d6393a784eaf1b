//! Words in shared memory that one side advances and others wait for.
//!
//! Bit 0 of a word says that somebody sleeps on it. It is set by the sleeper and cleared by the
//! swap that publishes the next value; whoever clears it wakes the sleepers. Both happen on one
//! word, so no wake-up is lost, and publishing costs a system call only if somebody sleeps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The bit of a word that says that somebody sleeps on it. Values leave it clear.
pub(crate) const SLEEPER: u64 = 1;

/// Stores a value (bit 0 clear, low half different from the one before) after everything that the
/// caller has written so far, and wakes who sleeps.
pub(crate) fn publish(word: &AtomicU64, value: u64) {
    debug_assert_eq!(value & SLEEPER, 0);
    if word.swap(value, Ordering::AcqRel) & SLEEPER != 0 {
        os::wake_all(word);
    }
}

/// The value of a word, without the sleepers' bit.
pub(crate) fn read(word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire) & !SLEEPER
}

/// Sleeps until the word is no longer `seen` (a value from [`read`]), somebody publishes, or
/// `timeout` is over. May return early.
pub(crate) fn sleep(word: &AtomicU64, seen: u64, timeout: Duration) {
    if word
        .compare_exchange(seen, seen | SLEEPER, Ordering::AcqRel, Ordering::Acquire)
        .is_err_and(|now| now != seen | SLEEPER)
    {
        return;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the kernel compares the low half")]
    os::wait(word, (seen | SLEEPER) as u32, timeout);
}

/// The low half of a word, which is what the kernel compares.
fn low_half(word: &AtomicU64) -> *const u32 {
    let offset = if cfg!(target_endian = "big") { 1 } else { 0 };
    word.as_ptr().cast_const().cast::<u32>().wrapping_add(offset)
}

#[cfg(target_os = "linux")]
mod os {
    use std::sync::atomic::{AtomicU32, AtomicU64};
    use std::time::Duration;

    use rustix::thread::futex::{self, Flags, Timespec};

    fn half(word: &AtomicU64) -> &AtomicU32 {
        // SAFETY: the half lies inside of the word, is aligned for it and lives as long. The
        // kernel alone reads through this reference.
        unsafe { &*super::low_half(word).cast::<AtomicU32>() }
    }

    pub(super) fn wait(word: &AtomicU64, expected: u32, timeout: Duration) {
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // Changed values, time-outs and signals all mean the same to the caller: look again.
        let _ = futex::wait(half(word), Flags::empty(), expected, Some(&timeout));
    }

    pub(super) fn wake_all(word: &AtomicU64) {
        // Nobody may be left to wake; that is no error.
        let _ = futex::wake(half(word), Flags::empty(), i32::MAX as u32);
    }
}

#[cfg(target_os = "macos")]
mod os {
    use std::ffi::c_void;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    const COMPARE_AND_WAIT_SHARED: u32 = 3;
    const WAKE_ALL: u32 = 0x100;

    unsafe extern "C" {
        fn __ulock_wait(operation: u32, address: *mut c_void, value: u64, micros: u32) -> i32;
        fn __ulock_wake(operation: u32, address: *mut c_void, value: u64) -> i32;
    }

    pub(super) fn wait(word: &AtomicU64, expected: u32, timeout: Duration) {
        // 0 would mean for ever.
        let micros = u32::try_from(timeout.as_micros()).unwrap_or(u32::MAX).max(1);
        let address = super::low_half(word).cast_mut().cast();
        // SAFETY: the address is that of four live bytes; the kernel only reads them.
        unsafe { __ulock_wait(COMPARE_AND_WAIT_SHARED, address, expected.into(), micros) };
    }

    pub(super) fn wake_all(word: &AtomicU64) {
        let address = super::low_half(word).cast_mut().cast();
        // SAFETY: as above.
        unsafe { __ulock_wake(COMPARE_AND_WAIT_SHARED | WAKE_ALL, address, 0) };
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod os {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    /// Without a wait on addresses: short naps.
    pub(super) fn wait(_: &AtomicU64, _: u32, timeout: Duration) {
        std::thread::sleep(timeout.min(Duration::from_micros(100)));
    }

    pub(super) fn wake_all(_: &AtomicU64) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_sleeper_is_woken_and_bounded() {
        let word = AtomicU64::new(4);
        let start = Instant::now();
        sleep(&word, 2, Duration::from_secs(10));
        assert!(start.elapsed() < Duration::from_secs(1), "the value had changed already");
        sleep(&word, 4, Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(15), "slept its time");
        assert_eq!(read(&word), 4);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while read(&word) == 4 {
                    sleep(&word, 4, Duration::from_secs(20));
                }
                start.elapsed()
            });
            std::thread::sleep(Duration::from_millis(50));
            publish(&word, 6);
            assert!(sleeper.join().unwrap() < Duration::from_secs(5));
        });
    }

    #[test]
    fn no_wake_up_is_lost() {
        // Two sides that take turns through sleeps alone: one lost wake-up costs ten seconds.
        let (ping, pong) = (AtomicU64::new(0), AtomicU64::new(0));
        let await_value = |word: &AtomicU64, value: u64| {
            loop {
                match read(word) {
                    now if now == value => break,
                    now => sleep(word, now, Duration::from_secs(10)),
                }
            }
        };
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 1..=20_000u64 {
                    await_value(&ping, turn * 2);
                    publish(&pong, turn * 2);
                }
            });
            for turn in 1..=20_000u64 {
                publish(&ping, turn * 2);
                await_value(&pong, turn * 2);
            }
        });
        assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    }
}
