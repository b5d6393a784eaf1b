//! Operations that run in the background.

use std::time::Duration;

use lycaon::error::ErrorKind;
use lycaon::{Parcel, Work};

use crate::error::Outcome;
use crate::guard::{OK, Place, guard, handle, interruptible};
use crate::status::lycaon_status;

/// Waits without a limit look this often for their end.
const LONG: Duration = Duration::from_secs(3600);

/// An operation under way, as the functions that end in _async return it.
///
/// It may be used from several threads at a time, except that nobody uses it during or after
/// lycaon_work_free(). The buffers of the operation must stay valid, and must not be touched (what
/// is only read must not be written), until it has ended.
pub struct lycaon_work {
    work: Work<Parcel>,
}

impl lycaon_work {
    pub(crate) fn new(work: Work<Parcel>) -> *mut Self {
        Box::into_raw(Box::new(lycaon_work { work }))
    }

    /// How the operation ended; it has.
    fn outcome(&self) -> Outcome<lycaon_status> {
        match self.work.error() {
            None => OK,
            Some(error) => Err(error.into()),
        }
    }
}

/// Waits until the operation has ended, and returns how. The operation's own deadline bounds the
/// wait. May be called more than once.
///
/// If the wait was interrupted (LYCAON_STATUS_INTERRUPTED while lycaon_work_test() says that it has
/// not ended), the operation goes on.
///
/// # Safety
/// `work` comes from a function that ends in _async and has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_work_wait(work: *const lycaon_work) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let work = unsafe { handle(work, "work") }?;
        interruptible(|| {
            while !work.work.wait_for(LONG)? {}
            Ok::<_, lycaon::Error>(())
        })?;
        work.outcome()
    })
}

/// Waits at most `limit_ns` nanoseconds. `done` gets whether the operation has ended; if it has,
/// the call returns how it ended, else LYCAON_STATUS_OK, and the operation goes on.
///
/// # Safety
/// As for lycaon_work_wait(); `done` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_work_wait_for(
    work: *const lycaon_work,
    limit_ns: u64,
    done: *mut bool,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (work, done) = unsafe { (handle(work, "work")?, Place::new(done, "done")?) };
        let ended = interruptible(|| work.work.wait_for(Duration::from_nanos(limit_ns)))?;
        done.set(ended)?;
        if ended { work.outcome() } else { OK }
    })
}

/// `done` gets whether the operation has ended; if it has, the call returns how. Never waits.
///
/// # Safety
/// As for lycaon_work_wait_for().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_work_test(
    work: *const lycaon_work,
    done: *mut bool,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (work, done) = unsafe { (handle(work, "work")?, Place::new(done, "done")?) };
        let ended = work.work.is_done();
        done.set(ended)?;
        if ended { work.outcome() } else { OK }
    })
}

/// Frees the handle; NULL is allowed. If the operation has not ended, this waits until it has (its
/// deadline bounds that), so that its buffers can be freed afterwards.
///
/// # Safety
/// As for lycaon_work_wait(), and nobody uses `work` any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_work_free(work: *mut lycaon_work) {
    guard(|| {
        if work.is_null() {
            return Ok(());
        }
        // SAFETY: the pointer came from `lycaon_work::new` and nobody else has it any more.
        let work = unsafe { Box::from_raw(work) };
        while !work.work.is_done() {
            match work.work.wait_for(LONG) {
                // In a forked child nobody ends the operation, and nobody works with its buffers.
                Err(error) if error.kind() == ErrorKind::Forked => break,
                _ => {}
            }
        }
        Ok(())
    });
}
