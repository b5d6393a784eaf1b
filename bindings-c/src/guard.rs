//! What stands between C and the library: one function around every export, and the checks of
//! pointers.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use lycaon::interrupt;

use crate::error::{self, Failure, Outcome};
use crate::status::lycaon_status;

/// What a call returns when it fails.
pub(crate) trait Returned {
    fn failed(status: lycaon_status) -> Self;
}

impl Returned for lycaon_status {
    fn failed(status: lycaon_status) -> Self {
        status
    }
}

impl Returned for () {
    fn failed(_: lycaon_status) -> Self {}
}

impl Returned for bool {
    fn failed(_: lycaon_status) -> Self {
        false
    }
}

impl Returned for i32 {
    fn failed(_: lycaon_status) -> Self {
        -1
    }
}

impl Returned for u32 {
    fn failed(_: lycaon_status) -> Self {
        0
    }
}

impl Returned for u64 {
    fn failed(_: lycaon_status) -> Self {
        0
    }
}

impl Returned for usize {
    fn failed(_: lycaon_status) -> Self {
        0
    }
}

impl<T> Returned for *const T {
    fn failed(_: lycaon_status) -> Self {
        ptr::null()
    }
}

impl<T> Returned for *mut T {
    fn failed(_: lycaon_status) -> Self {
        ptr::null_mut()
    }
}

/// Every exported function is one call of this one: no panic reaches the caller, and what fails
/// becomes the last error of the thread.
#[inline]
pub(crate) fn guard<T: Returned>(f: impl FnOnce() -> Outcome<T>) -> T {
    // What the closures touch is behind locks or only read, and a panic poisons the group.
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => value,
        Ok(Err(failure)) => fail(&failure),
        Err(panic) => fail(&panicked(panic)),
    }
}

#[cold]
fn fail<T: Returned>(failure: &Failure) -> T {
    // Not even making the error may unwind into C.
    let _ = catch_unwind(AssertUnwindSafe(|| error::keep(failure)));
    T::failed(failure.status())
}

#[cold]
fn panicked(panic: Box<dyn Any + Send>) -> Failure {
    let message = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    // Dropping what was thrown may panic again.
    std::mem::forget(panic);
    Failure::new(lycaon_status::Internal, format!("a bug of this library: {message}"))
}

/// For functions that return a status and nothing else.
pub(crate) const OK: Outcome<lycaon_status> = Ok(lycaon_status::Ok);

/// Asks whether the waits of a thread should end. Called on the waiting thread, at least every
/// 50 ms; it may call this library.
pub type lycaon_interrupt_fn = Option<unsafe extern "C" fn(user_data: *mut c_void) -> bool>;

thread_local! {
    static INTERRUPT: Cell<(lycaon_interrupt_fn, *mut c_void)> =
        const { Cell::new((None, ptr::null_mut())) };
}

/// Sets what the waits of the calling thread ask whether they should end, in place of what was set
/// before; NULL sets nothing. A wait that ends so fails with LYCAON_STATUS_INTERRUPTED or
/// LYCAON_STATUS_START_INTERRUPTED.
///
/// `user_data` is given to each call and must be valid until something else is set or the thread
/// ends.
#[unsafe(no_mangle)]
pub extern "C" fn lycaon_set_interrupt(check: lycaon_interrupt_fn, user_data: *mut c_void) {
    guard(|| {
        INTERRUPT.set((check, user_data));
        Ok(())
    });
}

/// Runs what may wait.
#[inline]
pub(crate) fn interruptible<T>(f: impl FnOnce() -> T) -> T {
    let (check, user_data) = INTERRUPT.get();
    match check {
        None => f(),
        // SAFETY: who set the function promised that it may be called with this until another one
        // is set on this thread.
        Some(check) => interrupt::with_interrupt(move || unsafe { check(user_data) }, f),
    }
}

/// A handle.
///
/// # Safety
/// `handle` is NULL or points to a `T` that stays for as long as the caller's call.
#[inline]
pub(crate) unsafe fn handle<'a, T>(handle: *const T, what: &str) -> Outcome<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::null(what))
}

/// A handle of which the caller is the only user.
///
/// # Safety
/// As for [`handle`], and nobody else uses it during the call.
pub(crate) unsafe fn handle_mut<'a, T>(handle: *mut T, what: &str) -> Outcome<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_mut() }.ok_or_else(|| Failure::null(what))
}

/// A place for a result, which is written when the call succeeds and not before.
pub(crate) struct Place<T>(ptr::NonNull<T>);

impl<T> Place<T> {
    /// # Safety
    /// `place` is NULL or may be written during the call.
    #[inline]
    pub(crate) unsafe fn new(place: *mut T, what: &str) -> Outcome<Self> {
        ptr::NonNull::new(place).map(Place).ok_or_else(|| Failure::null(what))
    }

    /// Writes the result, and with it the call succeeds.
    pub(crate) fn set(self, value: T) -> Outcome<lycaon_status> {
        // SAFETY: the promise of `new`. Nothing there is dropped: C has no destructors.
        unsafe { self.0.write(value) };
        OK
    }
}

/// An array that is read.
///
/// # Safety
/// `first` points to `count` elements that nobody writes during the call, or `count` is 0.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: usize, what: &str) -> Outcome<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Failure::null(what));
    }
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::new(
            lycaon_status::OutOfRange,
            format!("{what} cannot have {count} elements: no memory is that large"),
        ));
    }
    // SAFETY: the caller's promise, and the checks above.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// A text in UTF-8 that ends with a NUL.
///
/// # Safety
/// `text` is NULL or points to such a text, which nobody writes during the call.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| Failure::new(lycaon_status::NotText, format!("{what} is not UTF-8")))
}

/// A rank or another number that cannot be negative.
pub(crate) fn natural(value: i32, what: &str) -> Outcome<usize> {
    usize::try_from(value).map_err(|_| {
        Failure::new(lycaon_status::OutOfRange, format!("{what} is {value}, which is negative"))
    })
}

/// A rank of a group of `size`, the message naming it as given.
pub(crate) fn rank(value: i32, size: usize, what: &'static str) -> Outcome<usize> {
    usize::try_from(value).map_err(|_| {
        Failure::new(
            lycaon_status::NoSuchRank,
            format!("{what} {value} is not in the group, whose ranks are 0 to {}", size - 1),
        )
    })
}
