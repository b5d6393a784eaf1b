//! Buffers that are borrowed for longer than a function call: the caller's input and output while
//! an operation runs, and ranges of them while a transport holds them.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use crate::collective::plan::{Slot, Span};
use crate::dtype::Element;

/// Memory to read, borrowed by a contract instead of a lifetime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConstBuf {
    ptr: *const u8,
    len: usize,
}

/// Memory to write, borrowed by a contract instead of a lifetime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MutBuf {
    ptr: *mut u8,
    len: usize,
}

// SAFETY: the buffers are plain bytes; who may touch them and when is the contract of `new`.
unsafe impl Send for ConstBuf {}
// SAFETY: as above; a shared `ConstBuf` only gives its length without unsafe code.
unsafe impl Sync for ConstBuf {}
// SAFETY: as for `ConstBuf`.
unsafe impl Send for MutBuf {}
// SAFETY: as for `ConstBuf`.
unsafe impl Sync for MutBuf {}

impl ConstBuf {
    /// # Safety
    /// `len` bytes at `ptr` stay readable and are not written by anybody but the operation itself
    /// until the last user of this value has let go of it. `ptr` may be anything if `len` is 0.
    pub(crate) unsafe fn new(ptr: *const u8, len: usize) -> Self {
        ConstBuf { ptr: if len == 0 { std::ptr::dangling() } else { ptr }, len }
    }

    /// An empty buffer.
    pub(crate) const fn empty() -> Self {
        ConstBuf { ptr: std::ptr::dangling(), len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The bytes.
    ///
    /// Whoever holds a posted `ConstBuf` may read it until it reports completion; the contract of
    /// [`ConstBuf::new`] makes that sound, and the lifetime ends with this borrow.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the contract of `new`.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

impl MutBuf {
    /// # Safety
    /// `len` bytes at `ptr` stay readable and writable, and nobody but the operation touches them,
    /// until the last user of this value has let go of it. `ptr` may be anything if `len` is 0.
    pub(crate) unsafe fn new(ptr: *mut u8, len: usize) -> Self {
        MutBuf { ptr: if len == 0 { std::ptr::dangling_mut() } else { ptr }, len }
    }

    /// An empty buffer.
    pub(crate) const fn empty() -> Self {
        MutBuf { ptr: std::ptr::dangling_mut(), len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The bytes, for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the contract of `new`; whoever holds the posted buffer is its only user.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }
}

/// Memory that an operation may read while its owner is elsewhere.
///
/// # Safety
/// The range that `bytes` returns stays valid, at the same place, and unwritten for as long as the
/// value exists, also when the value itself is moved.
pub unsafe trait OwnedBytes: Any + Send {
    /// First byte and length.
    fn bytes(&self) -> (*const u8, usize);
}

/// Memory that an operation may write while its owner is elsewhere.
///
/// # Safety
/// The range that `bytes_mut` returns stays valid for reading and writing, at the same place, and
/// untouched by anybody else for as long as the value exists, also when the value itself is moved.
pub unsafe trait OwnedBytesMut: Any + Send {
    /// First byte and length.
    fn bytes_mut(&mut self) -> (*mut u8, usize);
}

// SAFETY: a vector's elements stay where they are when the vector is moved, and they are plain
// bytes.
unsafe impl<T: Element> OwnedBytes for Vec<T> {
    fn bytes(&self) -> (*const u8, usize) {
        (self.as_ptr().cast(), size_of_val(self.as_slice()))
    }
}

// SAFETY: as above, and the vector is owned; `bool`s are normalised before they are looked at.
unsafe impl<T: Element> OwnedBytesMut for Vec<T> {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr().cast(), size_of_val(self.as_slice()))
    }
}

/// The owned buffers of an operation that runs in the background.
#[derive(Default)]
pub struct Parcel {
    /// What it reads.
    pub input: Option<Box<dyn OwnedBytes>>,
    /// What it writes.
    pub output: Option<Box<dyn OwnedBytesMut>>,
}

impl std::fmt::Debug for Parcel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parcel")
            .field("input", &self.input.is_some())
            .field("output", &self.output.is_some())
            .finish()
    }
}

/// A copy of owned memory.
pub(crate) fn copy_of(memory: &mut dyn OwnedBytesMut) -> Vec<u8> {
    let (first, len) = memory.bytes_mut();
    if len == 0 {
        return Vec::new();
    }
    // SAFETY: valid for reading by the contract of `OwnedBytesMut`, which is borrowed here.
    unsafe { std::slice::from_raw_parts(first, len) }.to_vec()
}

/// A parcel while an operation works with its memory: neither side touches the boxes.
pub(crate) struct Lent(Mutex<Parcel>);

impl Lent {
    pub(crate) fn new(parcel: Parcel) -> Arc<Self> {
        Arc::new(Lent(Mutex::new(parcel)))
    }

    /// The parcel, if nobody works with it any more.
    pub(crate) fn take_back(self: Arc<Self>) -> Option<Parcel> {
        Arc::into_inner(self)
            .map(|lent| lent.0.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lengths of input and output.
    pub(crate) fn lengths(&self) -> (Option<usize>, Option<usize>) {
        let mut parcel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let input = parcel.input.as_ref().map(|input| input.bytes().1);
        (input, parcel.output.as_mut().map(|output| output.bytes_mut().1))
    }

    /// The memory, which stays alive as long as the result does. To be called once.
    pub(crate) fn buffers(self: &Arc<Self>) -> Buffers<'static> {
        let mut parcel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (input, input_len) =
            parcel.input.as_ref().map_or((std::ptr::dangling(), 0), |input| input.bytes());
        let (output, output_len) = parcel
            .output
            .as_mut()
            .map_or((std::ptr::dangling_mut(), 0), |output| output.bytes_mut());
        Buffers {
            // SAFETY: valid and unchanging by the contract of `OwnedBytes` while the parcel
            // exists, which `keep` ensures.
            input: unsafe { ConstBuf::new(input, input_len) },
            // SAFETY: as above, by the contract of `OwnedBytesMut`.
            output: unsafe { MutBuf::new(output, output_len) },
            scratch: Vec::new(),
            _keep: Some(Arc::clone(self)),
            borrow: PhantomData,
        }
    }
}

/// A typed slice as bytes.
pub(crate) fn as_bytes<T: Element>(data: &[T]) -> &[u8] {
    // SAFETY: elements are plain values without padding.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// A typed slice as bytes to write. Whoever writes `bool`s writes 0 or 1.
pub(crate) fn as_bytes_mut<T: Element>(data: &mut [T]) -> &mut [u8] {
    // SAFETY: elements are plain values without padding, and every bit pattern is one, but for
    // `bool`, whose bytes are normalised before the operation returns.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(data)) }
}

/// The three buffers of a running operation. Ranges are checked; what a plan asks for outside of a
/// buffer is a bug and panics.
pub(crate) struct Buffers<'a> {
    input: ConstBuf,
    output: MutBuf,
    scratch: Vec<u64>,
    _keep: Option<Arc<Lent>>,
    borrow: PhantomData<&'a mut [u8]>,
}

impl<'a> Buffers<'a> {
    /// Input and output; an operation in place has an empty input.
    pub(crate) fn new(input: &'a [u8], output: &'a mut [u8]) -> Self {
        Buffers {
            input: ConstBuf { ptr: input.as_ptr(), len: input.len() },
            output: MutBuf { ptr: output.as_mut_ptr(), len: output.len() },
            scratch: Vec::new(),
            _keep: None,
            borrow: PhantomData,
        }
    }

    /// The same input and output, with scratch memory of its own, for the one who carries out the
    /// operation.
    pub(crate) fn lend(&mut self) -> Buffers<'_> {
        Buffers {
            input: self.input,
            output: self.output,
            scratch: Vec::new(),
            _keep: None,
            borrow: PhantomData,
        }
    }

    /// The output.
    pub(crate) fn output_mut(&mut self) -> &mut [u8] {
        self.output.bytes_mut()
    }

    /// Bytes of input and output.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        (self.input.len, self.output.len)
    }

    /// Makes room for a plan's scratch memory. Nothing may be posted out of it.
    pub(crate) fn reserve_scratch(&mut self, bytes: usize) {
        let words = bytes.div_ceil(8);
        if self.scratch.len() < words {
            self.scratch.resize(words, 0);
        }
    }

    fn base(&self, span: Span) -> (*const u8, usize) {
        match span.slot {
            Slot::Input => (self.input.ptr, self.input.len),
            Slot::Output => (self.output.ptr.cast_const(), self.output.len),
            Slot::Scratch => (self.scratch.as_ptr().cast(), self.scratch.len() * 8),
        }
    }

    fn base_mut(&mut self, span: Span) -> (*mut u8, usize) {
        match span.slot {
            Slot::Input => panic!("a plan writes to its input"),
            Slot::Output => (self.output.ptr, self.output.len),
            Slot::Scratch => (self.scratch.as_mut_ptr().cast(), self.scratch.len() * 8),
        }
    }

    /// The range as something to post for sending. It is posted no longer than `self` lives.
    pub(crate) fn span(&self, span: Span) -> ConstBuf {
        let (ptr, len) = self.base(span);
        assert!(span.offset + span.len <= len, "{span:?} is outside of its buffer of {len} bytes");
        // SAFETY: in bounds as just checked, and alive by the contract of the parts.
        unsafe { ConstBuf::new(ptr.add(span.offset), span.len) }
    }

    /// The range as something to post for receiving. It is posted no longer than `self` lives.
    pub(crate) fn span_mut(&mut self, span: Span) -> MutBuf {
        let (ptr, len) = self.base_mut(span);
        assert!(span.offset + span.len <= len, "{span:?} is outside of its buffer of {len} bytes");
        // SAFETY: in bounds as just checked, and alive by the contract of the parts.
        unsafe { MutBuf::new(ptr.add(span.offset), span.len) }
    }

    /// The whole input (empty in place) and the whole output.
    pub(crate) fn parts(&mut self) -> (&[u8], &mut [u8]) {
        // SAFETY: alive by the contract of the parts, which do not overlap; the output is exclusive
        // because `self` is borrowed mutably.
        unsafe {
            (
                std::slice::from_raw_parts(self.input.ptr, self.input.len),
                std::slice::from_raw_parts_mut(self.output.ptr, self.output.len),
            )
        }
    }

    /// A destination together with sources that do not overlap it.
    ///
    /// # Panics
    /// If one of the sources overlaps the destination.
    pub(crate) fn split<'s>(
        &'s mut self,
        into: Span,
        from: &[Span],
    ) -> (&'s mut [u8], Vec<&'s [u8]>) {
        assert!(from.iter().all(|span| !span.overlaps(&into)), "{into:?} overlaps one of {from:?}");
        let (ptr, len) = self.base_mut(into);
        assert!(into.offset + into.len <= len, "{into:?} is outside of its buffer of {len} bytes");
        // SAFETY: in bounds, alive by the contract of the parts, exclusive because `self` is
        // borrowed mutably and the sources do not overlap it.
        let destination = unsafe { std::slice::from_raw_parts_mut(ptr.add(into.offset), into.len) };
        let sources = from
            .iter()
            .map(|span| {
                let (ptr, len) = self.base(*span);
                assert!(span.offset + span.len <= len, "{span:?} is outside of its buffer");
                // SAFETY: in bounds and disjoint from the destination as just checked.
                unsafe { std::slice::from_raw_parts(ptr.add(span.offset), span.len) }
            })
            .collect();
        (destination, sources)
    }
}

/// Buffers for tests of transports, which post memory without a call that lasts as long.
#[cfg(test)]
pub(crate) mod testing {
    use super::{ConstBuf, MutBuf};

    /// Memory that a test lends to a transport. The test keeps it until its post has completed or
    /// the transport is gone.
    #[derive(Debug)]
    pub(crate) struct Loan(*mut [u8]);

    // SAFETY: plain bytes with one owner.
    unsafe impl Send for Loan {}

    impl Loan {
        pub(crate) fn new(bytes: Vec<u8>) -> Self {
            Loan(Box::into_raw(bytes.into_boxed_slice()))
        }

        pub(crate) fn to_send(&self) -> ConstBuf {
            // SAFETY: the memory lives as long as `self`, which the test keeps.
            unsafe { ConstBuf::new(self.0.cast(), self.0.len()) }
        }

        pub(crate) fn to_recv(&self) -> MutBuf {
            // SAFETY: as above; the test reads it only after the completion.
            unsafe { MutBuf::new(self.0.cast(), self.0.len()) }
        }

        /// The bytes, for a test that knows that nobody writes them now.
        pub(crate) fn bytes(&self) -> &[u8] {
            // SAFETY: allocated in `new` and freed in `drop`.
            unsafe { &*self.0 }
        }
    }

    impl Drop for Loan {
        fn drop(&mut self) {
            // SAFETY: allocated in `new` and freed only here.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}
