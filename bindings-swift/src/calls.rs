//! The calls that move data: plain C functions, so that a buffer of Swift's is lent as it is.
//!
//! Each takes a handle, what is called and where the bytes are, and gives back null or the failure,
//! which is then Swift's. That is why these are not the functions of the C ABI, whose last error
//! belongs to a thread: tasks of Swift change their threads, and an error that travels with its call
//! cannot be mistaken for another one. The declarations are in
//! `Sources/CLycaon/include/lycaon_swift.h`; `tests` below compares the two.

use std::ptr;
use std::slice;

use lycaon::{DType, Group, Op, Operation, Request, RequestCounts};

use crate::failure::Failure;
use crate::guard::guard;

/// No operator, no root.
const NONE: u8 = 255;

/// Where counts by rank are, and of which form.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountsForm {
    /// All ranks have equally many.
    Equal = 0,
    /// The same list on every rank.
    All = 1,
    /// A list at the root only.
    AtRoot = 2,
    /// What is sent and what is received.
    Exchange = 3,
}

/// What is called.
#[repr(C)]
pub struct RawRequest {
    operation: u8,
    dtype: u8,
    op: u8,
    rooted: bool,
    form: CountsForm,
    root: usize,
    counts: *const u64,
    count_entries: usize,
    receive_counts: *const u64,
    receive_entries: usize,
}

/// Bytes to read. `given` tells an empty buffer from none.
#[repr(C)]
pub struct RawInput {
    pub(crate) base: *const u8,
    pub(crate) length: usize,
    pub(crate) given: bool,
}

/// Bytes to write.
#[repr(C)]
pub struct RawOutput {
    pub(crate) base: *mut u8,
    pub(crate) length: usize,
    pub(crate) given: bool,
}

impl RawInput {
    /// # Safety
    /// `length` bytes at `base` can be read and are not changed for as long as `'a`.
    unsafe fn bytes<'a>(&self) -> Option<&'a [u8]> {
        if !self.given {
            return None;
        }
        // Swift's empty buffers may be null.
        if self.length == 0 {
            return Some(&[]);
        }
        // SAFETY: the caller's promise; it is not empty, so Swift's pointer is not null.
        Some(unsafe { slice::from_raw_parts(self.base, self.length) })
    }
}

impl RawOutput {
    /// # Safety
    /// `length` bytes at `base` belong to the caller alone for as long as `'a`.
    unsafe fn bytes<'a>(&self) -> Option<&'a mut [u8]> {
        if !self.given {
            return None;
        }
        if self.length == 0 {
            return Some(&mut []);
        }
        // SAFETY: the caller's promise; it is not empty, so Swift's pointer is not null.
        Some(unsafe { slice::from_raw_parts_mut(self.base, self.length) })
    }
}

/// # Safety
/// `entries` numbers at `base` can be read.
unsafe fn list(base: *const u64, entries: usize) -> Vec<u64> {
    if entries == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise; the list is not empty, so its address is not null.
    unsafe { slice::from_raw_parts(base, entries) }.to_vec()
}

impl RawRequest {
    /// # Safety
    /// The lists can be read.
    unsafe fn request(&self) -> Result<Request, Failure> {
        let mut request = Request::new(operation(self.operation)?, dtype(self.dtype)?);
        if self.op != NONE {
            request = request.op(op(self.op)?);
        }
        if self.rooted {
            request = request.root(self.root);
        }
        // SAFETY: the caller's promise.
        let (counts, received) = unsafe {
            match self.form {
                CountsForm::Equal => return Ok(request),
                CountsForm::Exchange => (
                    list(self.counts, self.count_entries),
                    list(self.receive_counts, self.receive_entries),
                ),
                CountsForm::All | CountsForm::AtRoot => {
                    (list(self.counts, self.count_entries), Vec::new())
                }
            }
        };
        Ok(request.counts(match self.form {
            CountsForm::AtRoot => RequestCounts::AtRoot(counts),
            CountsForm::Exchange => RequestCounts::Exchange { send: counts, recv: received },
            CountsForm::Equal | CountsForm::All => RequestCounts::All(counts),
        }))
    }
}

fn unknown(what: &str, number: u8) -> Failure {
    Failure::internal(format!("{number} is no {what}; this is a bug to report"))
}

fn operation(number: u8) -> Result<Operation, Failure> {
    Operation::from_number(number).ok_or_else(|| unknown("operation", number))
}

pub(crate) fn dtype(number: u8) -> Result<DType, Failure> {
    DType::from_number(number).ok_or_else(|| unknown("element type", number))
}

fn op(number: u8) -> Result<Op, Failure> {
    Op::from_number(number).ok_or_else(|| unknown("operator", number))
}

/// Runs a call; a failure goes to Swift, which frees it.
pub(crate) fn call(body: impl FnOnce() -> Result<(), Failure>) -> *mut Failure {
    match guard(body) {
        Ok(()) => ptr::null_mut(),
        Err(failure) => Box::into_raw(Box::new(failure)),
    }
}

/// Carries out a collective.
///
/// # Safety
/// The handle is alive; request and lists can be read; the buffers are the caller's until the call
/// returns, and the output overlaps nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_swift_collective(
    group: *const Group,
    request: *const RawRequest,
    input: RawInput,
    output: RawOutput,
) -> *mut Failure {
    call(|| {
        // SAFETY: the caller's promises, one by one.
        let (group, request, input, output) =
            unsafe { (&*group, (*request).request()?, input.bytes(), output.bytes()) };
        Ok(group.run(&request, input, output)?)
    })
}

/// Sends (`input` given), receives (`output` given) or does both at once.
///
/// # Safety
/// As for [`lycaon_swift_collective`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_swift_message(
    group: *const Group,
    number: u8,
    input: RawInput,
    to: usize,
    output: RawOutput,
    from: usize,
    tag: u32,
) -> *mut Failure {
    call(|| {
        let dtype = dtype(number)?;
        // SAFETY: the caller's promises, one by one.
        let (group, input, output) = unsafe { (&*group, input.bytes(), output.bytes()) };
        match (input, output) {
            (Some(data), None) => group.send_bytes(dtype, data, to, tag)?,
            (None, Some(into)) => group.recv_bytes(dtype, into, from, tag)?,
            (Some(data), Some(into)) => group.send_recv_bytes(dtype, data, to, into, from, tag)?,
            (None, None) => {
                return Err(Failure::internal("a message without a buffer".to_owned()));
            }
        }
        Ok(())
    })
}

/// Forms sub-groups. `made` gets the new group, or null where this rank gave no colour.
///
/// # Safety
/// The handle is alive and `made` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_swift_split(
    group: *const Group,
    colored: bool,
    color: u32,
    key: i64,
    made: *mut *const Group,
) -> *mut Failure {
    call(|| {
        // SAFETY: the caller's promise.
        let group = unsafe { &*group };
        let part = group.split_optional(colored.then_some(color), key)?;
        let part = part.map_or(ptr::null(), into_handle);
        // SAFETY: the caller's promise.
        unsafe { made.write(part) };
        Ok(())
    })
}

/// A group becomes Swift's.
pub(crate) fn into_handle(group: Group) -> *const Group {
    Box::into_raw(Box::new(group))
}

/// Gives a group back, which closes it.
///
/// # Safety
/// The handle came from this library, nobody uses it any more, and it is freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_swift_free(group: *mut Group) {
    // A panic on the way out has nobody to tell; the memory of the group is then left behind.
    let _ = guard(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(group) });
        Ok(())
    });
}

/// Closes a group.
///
/// # Safety
/// The handle is alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_swift_close(group: *const Group) {
    let _ = guard(|| {
        // SAFETY: the caller's promise.
        unsafe { &*group }.close();
        Ok(())
    });
}

/// This rank.
///
/// # Safety
/// The handle is alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_swift_rank(group: *const Group) -> usize {
    // SAFETY: the caller's promise.
    unsafe { &*group }.rank()
}

/// The number of ranks.
///
/// # Safety
/// The handle is alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_swift_size(group: *const Group) -> usize {
    // SAFETY: the caller's promise.
    unsafe { &*group }.size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::ffi::Problem;

    const NO_INPUT: RawInput = RawInput { base: ptr::null(), length: 0, given: false };

    fn request(operation: u8, dtype: u8, op: u8) -> RawRequest {
        RawRequest {
            operation,
            dtype,
            op,
            rooted: false,
            form: CountsForm::Equal,
            root: 0,
            counts: ptr::null(),
            count_entries: 0,
            receive_counts: ptr::null(),
            receive_entries: 0,
        }
    }

    fn run(request: &RawRequest, input: RawInput, data: &mut [u8]) -> Option<Box<Failure>> {
        let config = lycaon::Config::builder().build().expect("a group of one");
        let group = into_handle(lycaon::init_with(&config).expect("a group of one"));
        let output = RawOutput { base: data.as_mut_ptr(), length: data.len(), given: true };
        // SAFETY: the handle is fresh and freed once; the buffers outlive the call.
        unsafe {
            let failure = lycaon_swift_collective(group, request, input, output);
            lycaon_swift_free(group.cast_mut());
            (!failure.is_null()).then(|| Box::from_raw(failure))
        }
    }

    #[test]
    fn a_call_reaches_the_core() {
        let mut data = [1, 2, 3, 4];
        assert!(run(&request(0, 5, 0), NO_INPUT, &mut data).is_none());
        assert_eq!(data, [1, 2, 3, 4]);
        let input = RawInput { base: [9u8, 8, 7, 6].as_ptr(), length: 4, given: true };
        assert!(run(&request(0, 5, 0), input, &mut data).is_none());
        assert_eq!(data, [9, 8, 7, 6]);
    }

    #[test]
    fn an_error_travels_with_its_call() {
        let failure = run(&request(0, 11, 5), NO_INPUT, &mut [0; 4]).expect("bits of floats");
        assert!(matches!(failure.problem(), Problem::Unsupported { op: 5, dtype: 11 }));
        let failure = run(&request(0, 11, 0), NO_INPUT, &mut [0; 5]).expect("no whole element");
        assert!(matches!(failure.problem(), Problem::Ragged { bytes: 5, dtype: 11, .. }));
    }

    #[test]
    fn numbers_are_not_trusted() {
        for (operation, dtype, op) in [(99, 11, 0), (0, 99, 0), (0, 11, 99)] {
            let failure = run(&request(operation, dtype, op), NO_INPUT, &mut [0; 4]);
            assert!(matches!(failure.expect("no such number").problem(), Problem::Internal));
        }
    }

    /// An input that is empty is not one that is missing.
    #[test]
    fn an_empty_buffer_may_be_null() {
        let empty = RawInput { base: ptr::null(), length: 0, given: true };
        assert!(run(&request(0, 11, 0), empty, &mut []).is_none());
        let empty = RawInput { base: ptr::null(), length: 0, given: true };
        let failure = run(&request(0, 11, 0), empty, &mut [0; 4]).expect("lengths differ");
        assert!(matches!(failure.problem(), Problem::Length { .. }));
    }

    /// Every function of this file is declared in the header, and the header declares no other.
    #[test]
    fn the_header_has_the_same_functions() {
        let names = |text: &str, before: &str| -> Vec<String> {
            let mut names: Vec<String> = text
                .match_indices(before)
                .map(|(at, _)| &text[at + before.len()..])
                .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
                .collect();
            names.sort();
            names
        };
        let header = include_str!("../Sources/CLycaon/include/lycaon_swift.h");
        let sources = concat!(
            include_str!("calls.rs"),
            include_str!("background.rs"),
            include_str!("side_channel.rs")
        );
        let here = names(sources, concat!("extern \"C\" ", "fn lycaon_swift_"));
        let declared: Vec<String> = header
            .lines()
            .filter(|line| !line.starts_with("//"))
            .flat_map(|line| {
                names(line, " lycaon_swift_").into_iter().chain(names(line, "*lycaon_swift_"))
            })
            .filter(|name| here.contains(name) || !name.ends_with("_t"))
            .collect();
        let mut declared = declared;
        declared.sort();
        assert_eq!(declared, here);
    }
}
