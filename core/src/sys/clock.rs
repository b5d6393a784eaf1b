//! A clock that costs a few nanoseconds, for what is measured twice in every operation.
//!
//! Asking the operating system takes more than 20 ns even without a system call, which is as long as
//! a small operation in shared memory has for everything else. The processor's own counter takes a
//! third of that. Where it may stop or change its pace, the system's clock stands in.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A moment, in units that only [`Ticks::duration_since`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticks(u64);

impl Ticks {
    /// Now.
    pub(crate) fn now() -> Self {
        Ticks(if anchor().counter { counter() } else { nanoseconds(anchor().instant) })
    }

    /// The number, to be stored where there is room for a number only.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// The moment with this number.
    pub(crate) fn from_number(number: u64) -> Self {
        Ticks(number)
    }

    /// How much later this is; zero if it is not. The pace of the counter is measured against the
    /// system's clock over the time since it was first read, so the error shrinks as that grows.
    pub(crate) fn duration_since(self, earlier: Ticks) -> Duration {
        let ticks = self.0.saturating_sub(earlier.0);
        let anchor = anchor();
        if !anchor.counter {
            return Duration::from_nanos(ticks);
        }
        let passed = counter().saturating_sub(anchor.ticks).max(1);
        let took = u128::from(nanoseconds(anchor.instant));
        let result = u128::from(ticks) * took / u128::from(passed);
        Duration::from_nanos(u64::try_from(result).unwrap_or(u64::MAX))
    }

    /// How long ago this was.
    pub(crate) fn elapsed(self) -> Duration {
        Ticks::now().duration_since(self)
    }
}

/// One moment on both clocks.
#[derive(Debug)]
struct Anchor {
    /// Whether the counter can be used.
    counter: bool,
    ticks: u64,
    instant: Instant,
}

fn anchor() -> &'static Anchor {
    static ANCHOR: OnceLock<Anchor> = OnceLock::new();
    ANCHOR.get_or_init(|| {
        let counter_is_steady = is_steady();
        let ticks = if counter_is_steady { counter() } else { 0 };
        Anchor { counter: counter_is_steady, ticks, instant: Instant::now() }
    })
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Whether the counter runs at one pace whatever the processor does.
#[cfg(target_arch = "x86_64")]
fn is_steady() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT_TSC != 0
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it only reads the counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The generic timer has a fixed frequency by its definition.
#[cfg(target_arch = "aarch64")]
fn is_steady() -> bool {
    true
}

#[cfg(target_arch = "aarch64")]
fn counter() -> u64 {
    let value: u64;
    // SAFETY: reads the virtual counter, which Linux and macOS let programs read.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
    value
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn is_steady() -> bool {
    false
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_clock_of_the_system() {
        let (outer, start) = (Instant::now(), Ticks::now());
        let inner = Instant::now();
        std::thread::sleep(Duration::from_millis(30));
        let least = inner.elapsed();
        let end = Ticks::now();
        let most = outer.elapsed();
        let took = end.duration_since(start);
        // A thousandth for the pace, which is measured anew at each call.
        assert!(
            took + took / 1000 >= least && took <= most + most / 1000,
            "{least:?} {took:?} {most:?}"
        );
        assert_eq!(Ticks::from_number(start.number()), start);
        assert_eq!(start.duration_since(end), Duration::ZERO);
        assert!(start.elapsed() >= least - least / 1000);
    }
}
