//! A closure of Swift's in place of a rendezvous address.

use std::ffi::c_void;
use std::slice;

use lycaon::config::SideChannel;

use crate::guard::guard;

/// The closure: it answers through [`lycaon_swift_gathered`] or [`lycaon_swift_refused`].
pub type AllGather = unsafe extern "C" fn(
    context: *mut c_void,
    rank: usize,
    size: usize,
    mine: *const u8,
    length: usize,
    answer: *mut Answer,
);

/// Lets go of the context of the closure.
pub type Release = unsafe extern "C" fn(context: *mut c_void);

/// What the closure answers.
#[derive(Default)]
pub struct Answer {
    entries: Vec<Vec<u8>>,
    refusal: Option<String>,
}

/// The closure, with its context.
pub(crate) struct Closure {
    function: AllGather,
    release: Release,
    context: *mut c_void,
}

// SAFETY: Swift promises that the closure may be called from any thread.
unsafe impl Send for Closure {}
// SAFETY: and by several at a time.
unsafe impl Sync for Closure {}

impl Closure {
    /// A closure from what crosses the bridge, whose functions take no pointers to functions.
    ///
    /// The bridge has no unsafe functions either. The only caller is `Configuration` in Swift.
    pub(crate) fn new(function: usize, release: usize, context: usize) -> Self {
        let function: *const () = std::ptr::with_exposed_provenance(function);
        let release: *const () = std::ptr::with_exposed_provenance(release);
        Closure {
            // SAFETY: the address is that of a function of this type, which Swift checks by the
            // declaration in lycaon_swift.h.
            function: unsafe { std::mem::transmute::<*const (), AllGather>(function) },
            // SAFETY: as above.
            release: unsafe { std::mem::transmute::<*const (), Release>(release) },
            context: std::ptr::with_exposed_provenance_mut(context),
        }
    }
}

impl SideChannel for Closure {
    fn all_gather(&self, rank: usize, size: usize, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut answer = Answer::default();
        // SAFETY: the promises of `new`; the arguments live through the call.
        unsafe {
            (self.function)(self.context, rank, size, mine.as_ptr(), mine.len(), &raw mut answer);
        };
        answer.refusal.map_or(Ok(answer.entries), Err)
    }
}

impl Drop for Closure {
    fn drop(&mut self) {
        // SAFETY: the context is released once, when nobody can call the closure any more.
        unsafe { (self.release)(self.context) };
    }
}

/// # Safety
/// `length` bytes at `base` can be read.
unsafe fn bytes(base: *const u8, length: usize) -> Vec<u8> {
    if length == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise; it is not empty, so its address is not null.
    unsafe { slice::from_raw_parts(base, length) }.to_vec()
}

/// Adds what the next rank has given.
///
/// # Safety
/// The answer is that of the call under way, and `length` bytes at `base` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_swift_gathered(
    answer: *mut Answer,
    base: *const u8,
    length: usize,
) {
    // Without memory for it the answer stays short, which the start of the group notices.
    let _ = guard(|| {
        // SAFETY: the caller's promise.
        unsafe { (*answer).entries.push(bytes(base, length)) };
        Ok(())
    });
}

/// Says why there is no answer: UTF-8.
///
/// # Safety
/// As for [`lycaon_swift_gathered`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_swift_refused(answer: *mut Answer, base: *const u8, length: usize) {
    let _ = guard(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let text = bytes(base, length);
            (*answer).refusal = Some(String::from_utf8_lossy(&text).into_owned());
        }
        Ok(())
    });
}
