//! Calls from C on their way to the core: pointers become checked ranges.

use std::ptr::NonNull;

use lycaon::error::ArgumentError;
use lycaon::{DType, Group, OwnedBytes, OwnedBytesMut, Parcel, Request, Work};

use crate::error::{Failure, Outcome};
use crate::guard::{OK, interruptible};
use crate::status::lycaon_status;
use crate::types::{dtype, dtype_number};

/// Memory of the caller that is read.
#[derive(Clone, Copy)]
pub(crate) struct Input(NonNull<u8>, usize);

/// Memory of the caller that is written.
#[derive(Clone, Copy)]
pub(crate) struct Output(NonNull<u8>, usize);

// SAFETY: the caller of a function that starts an operation promises that the memory stays valid
// until the operation has ended, whichever thread works with it.
unsafe impl Send for Input {}
// SAFETY: as above.
unsafe impl Send for Output {}

// SAFETY: the same promise: valid and not written until the operation has ended.
unsafe impl OwnedBytes for Input {
    fn bytes(&self) -> (*const u8, usize) {
        (self.0.as_ptr(), self.1)
    }
}

// SAFETY: the same promise: valid and not touched by anybody else until the operation has ended.
unsafe impl OwnedBytesMut for Output {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        (self.0.as_ptr(), self.1)
    }
}

/// An element type and how many of them.
#[derive(Clone, Copy)]
pub(crate) struct Elements {
    pub(crate) dtype: DType,
    count: usize,
    bytes: usize,
}

impl Elements {
    #[inline]
    pub(crate) fn new(count: usize, number: dtype_number, what: &'static str) -> Outcome<Self> {
        let dtype = dtype(number)?;
        Self::of(count, dtype, what)
    }

    #[inline]
    pub(crate) fn of(count: usize, dtype: DType, what: &'static str) -> Outcome<Self> {
        let bytes = count
            .checked_mul(dtype.size())
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or(ArgumentError::TooLarge { what })?;
        Ok(Elements { dtype, count, bytes })
    }

    /// As many times this.
    #[inline]
    pub(crate) fn times(self, factor: usize, what: &'static str) -> Outcome<Self> {
        let count = self.count.checked_mul(factor).ok_or(ArgumentError::TooLarge { what })?;
        Self::of(count, self.dtype, what)
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    #[inline]
    pub(crate) fn input(self, first: *const u8, what: &str) -> Outcome<Input> {
        Ok(Input(start(first.cast_mut(), self.bytes, what)?, self.bytes))
    }

    #[inline]
    pub(crate) fn output(self, first: *mut u8, what: &str) -> Outcome<Output> {
        Ok(Output(start(first, self.bytes, what)?, self.bytes))
    }
}

/// The start of a range, which may be NULL if the range is empty.
#[inline]
fn start(first: *mut u8, bytes: usize, what: &str) -> Outcome<NonNull<u8>> {
    match NonNull::new(first) {
        Some(first) => Ok(first),
        None if bytes == 0 => Ok(NonNull::dangling()),
        None => Err(Failure::null(what)),
    }
}

/// The buffers of a call.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pair {
    pub(crate) input: Option<Input>,
    pub(crate) output: Option<Output>,
}

impl Pair {
    /// # Errors
    /// If both are there and overlap: an operation in place names its buffer once.
    #[inline]
    pub(crate) fn new(input: Option<Input>, output: Option<Output>) -> Outcome<Self> {
        if let (Some(Input(read, read_len)), Some(Output(written, written_len))) = (input, output) {
            let (read, written) = (read.addr().get(), written.addr().get());
            let apart = read + read_len <= written || written + written_len <= read;
            if read_len > 0 && written_len > 0 && !apart {
                return Err(ArgumentError::Overlap.into());
            }
        }
        Ok(Pair { input, output })
    }

    /// # Safety
    /// The memory is as the caller of the exported function promised, for as long as the result.
    #[inline]
    unsafe fn slices<'a>(self) -> (Option<&'a [u8]>, Option<&'a mut [u8]>) {
        // SAFETY: the caller's promise; the ranges are not longer than `isize::MAX` and not NULL.
        let input = self
            .input
            .map(|Input(first, len)| unsafe { std::slice::from_raw_parts(first.as_ptr(), len) });
        // SAFETY: as above; input and output do not overlap.
        let output = self.output.map(|Output(first, len)| unsafe {
            std::slice::from_raw_parts_mut(first.as_ptr(), len)
        });
        (input, output)
    }

    fn parcel(self) -> Parcel {
        Parcel {
            input: self.input.map(|input| Box::new(input) as _),
            output: self.output.map(|output| Box::new(output) as _),
        }
    }
}

/// A call that has been understood. The functions that make one are inlined into both of their callers:
/// it stays in registers then, which is half of what a call from C costs.
pub(crate) enum Prepared {
    /// A collective.
    Collective(Request, Pair),
    /// A message to `to`, from `from`, or both.
    Message { dtype: DType, to: Option<usize>, from: Option<usize>, tag: u32, pair: Pair },
}

impl Prepared {
    /// Carries it out on this thread.
    ///
    /// # Safety
    /// The buffers are valid during the call, and nobody else touches what is written.
    #[inline]
    pub(crate) unsafe fn run(self, group: &Group) -> Outcome<lycaon_status> {
        interruptible(|| match self {
            Prepared::Collective(request, pair) => {
                // SAFETY: the caller's promise.
                let (input, output) = unsafe { pair.slices() };
                group.run(&request, input, output)
            }
            Prepared::Message { dtype, to, from, tag, pair } => {
                // SAFETY: the caller's promise.
                let (input, output) = unsafe { pair.slices() };
                match (to, from) {
                    (Some(to), Some(from)) => group.send_recv_bytes(
                        dtype,
                        input.unwrap_or_default(),
                        to,
                        output.unwrap_or_default(),
                        from,
                        tag,
                    ),
                    (Some(to), None) => group.send_bytes(dtype, input.unwrap_or_default(), to, tag),
                    (None, from) => {
                        let from = from.expect("a message goes one way at least");
                        group.recv_bytes(dtype, output.unwrap_or_default(), from, tag)
                    }
                }
            }
        })?;
        OK
    }

    /// Starts it in the background.
    ///
    /// # Safety
    /// The buffers are valid until the operation has ended, and nobody else touches what is
    /// written, or writes what is read.
    pub(crate) unsafe fn start(self, group: &Group) -> Outcome<Work<Parcel>> {
        Ok(match self {
            Prepared::Collective(request, pair) => group.start(&request, pair.parcel())?,
            Prepared::Message { dtype, to, from, tag, pair } => {
                group.start_message(dtype, pair.parcel(), to, from, tag)?
            }
        })
    }
}
