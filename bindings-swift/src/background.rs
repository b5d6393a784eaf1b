//! Messages in the background: any number of them is under way on one thread of the group, so that a
//! task of Swift that waits for one costs no thread.

use std::ffi::c_void;
use std::ptr;

use lycaon::{Group, OwnedBytes, OwnedBytesMut, Parcel};

use crate::calls::{RawInput, RawOutput, call, dtype};
use crate::failure::Failure;

/// Whom to tell of the end of an operation, and with what.
pub type Ended = unsafe extern "C" fn(context: *mut c_void, failure: *mut Failure);

/// Memory of Swift's that stays where it is until the end of the operation was told.
struct Kept {
    base: *mut u8,
    length: usize,
}

// SAFETY: it is only plain memory, which by the promise of `lycaon_swift_start_message` nobody else
// touches meanwhile.
unsafe impl Send for Kept {}

// SAFETY: by the same promise the memory is there and unwritten until the end.
unsafe impl OwnedBytes for Kept {
    fn bytes(&self) -> (*const u8, usize) {
        (self.base, self.length)
    }
}

// SAFETY: by the same promise the memory is there and touched by nobody else until the end.
unsafe impl OwnedBytesMut for Kept {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        (self.base, self.length)
    }
}

/// The context of an [`Ended`].
struct Context(*mut c_void);

// SAFETY: it is only handed through, and Swift takes it on any thread.
unsafe impl Send for Context {}

impl Context {
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

/// Starts to send (`input` given), to receive (`output` given) or both at once. If it starts, the result
/// is null and `ended` is called once, from any thread, with the failure or null; else the result is the
/// failure and `ended` is never called.
///
/// # Safety
/// The handle is alive; the buffers stay at their places until `ended` is called, and nobody else
/// touches the output meanwhile or writes the input; `ended` may be called with `context` from any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_swift_start_message(
    group: *const Group,
    number: u8,
    input: RawInput,
    to: usize,
    output: RawOutput,
    from: usize,
    tag: u32,
    ended: Ended,
    context: *mut c_void,
) -> *mut Failure {
    let context = Context(context);
    call(|| {
        let dtype = dtype(number)?;
        let parcel = Parcel {
            input: input
                .given
                .then(|| Box::new(Kept { base: input.base.cast_mut(), length: input.length }) as _),
            output: output
                .given
                .then(|| Box::new(Kept { base: output.base, length: output.length }) as _),
        };
        let (to, from) = (input.given.then_some(to), output.given.then_some(from));
        // SAFETY: the caller's promise.
        let group = unsafe { &*group };
        let work = group.start_message(dtype, parcel, to, from, tag)?;
        work.on_end(move |result| {
            let failure = match result {
                Ok(parcel) => {
                    drop(parcel);
                    ptr::null_mut()
                }
                Err(error) => Box::into_raw(Box::new(Failure::from(error))),
            };
            // SAFETY: the caller's promise; the library has let go of the buffers.
            unsafe { ended(context.pointer(), failure) };
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::ffi::Problem;
    use crate::calls::into_handle;

    unsafe extern "C" fn never(_: *mut c_void, _: *mut Failure) {
        panic!("what did not start does not end");
    }

    #[test]
    fn what_does_not_start_is_told_at_once() {
        let config = lycaon::Config::builder().build().expect("a group of one");
        let group = into_handle(lycaon::init_with(&config).expect("a group of one"));
        let data = [1u8, 2, 3];
        let input = RawInput { base: data.as_ptr(), length: data.len(), given: true };
        let output = RawOutput { base: ptr::null_mut(), length: 0, given: false };
        // SAFETY: the handle is fresh and freed once; nothing starts, so nothing is kept.
        let failure = unsafe {
            let failure = lycaon_swift_start_message(
                group,
                5,
                input,
                3,
                output,
                0,
                0,
                never,
                ptr::null_mut(),
            );
            crate::calls::lycaon_swift_free(group.cast_mut());
            Box::from_raw(failure)
        };
        assert!(matches!(failure.problem(), Problem::NoSuchRank { rank: 3, size: 1, .. }));
    }

    #[test]
    fn the_end_is_told_with_the_data_in_place() {
        unsafe extern "C" fn told(context: *mut c_void, failure: *mut Failure) {
            // SAFETY: the context is the sender below, which outlives the group.
            let tell = unsafe { &*context.cast::<std::sync::mpsc::Sender<bool>>() };
            tell.send(failure.is_null()).expect("heard");
        }
        let mut groups = lycaon::in_process(2, &lycaon::InProcess::default()).expect("two threads");
        let other = groups.pop().expect("two groups");
        let group = into_handle(groups.pop().expect("two groups"));
        let (tell, told_of) = std::sync::mpsc::channel::<bool>();
        let mut data = [0u8; 3];
        let input = RawInput { base: ptr::null(), length: 0, given: false };
        let output = RawOutput { base: data.as_mut_ptr(), length: data.len(), given: true };
        let context = (&raw const tell).cast_mut().cast();
        // SAFETY: the handle is alive, and data and context are there until the end was told.
        let failure =
            unsafe { lycaon_swift_start_message(group, 5, input, 0, output, 1, 8, told, context) };
        assert!(failure.is_null());
        other.send(&[4u8, 5, 6], 0, 8).expect("nothing fails");
        let within = std::time::Duration::from_secs(20);
        assert!(told_of.recv_timeout(within).expect("told"));
        assert_eq!(data, [4, 5, 6]);
        // SAFETY: the handle is freed once.
        unsafe { crate::calls::lycaon_swift_free(group.cast_mut()) };
    }
}
