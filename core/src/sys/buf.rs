//! Buffers that are borrowed for longer than a function call: the caller's input and output while
//! an operation runs, and ranges of them while a transport holds them.

use crate::collective::plan::{Slot, Span};

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

/// The three buffers of a running operation. Ranges are checked; what a plan asks for outside of a
/// buffer is a bug and panics.
#[derive(Debug)]
pub(crate) struct Buffers {
    input: ConstBuf,
    output: MutBuf,
    scratch: Vec<u64>,
}

impl Buffers {
    /// Input and output do not overlap; an operation in place has an empty input.
    pub(crate) fn new(input: ConstBuf, output: MutBuf) -> Self {
        Buffers { input, output, scratch: Vec::new() }
    }

    /// Lends the buffers to an operation that is over, with nothing of them still posted, when
    /// `operation` returns.
    pub(crate) fn lend<R>(
        input: &[u8],
        output: &mut [u8],
        operation: impl FnOnce(&mut Buffers) -> R,
    ) -> R {
        // SAFETY: both are borrowed, and so stay alive and are touched by nobody else, until
        // `operation` returns; it keeps nothing beyond that.
        let (input, output) = unsafe {
            (
                ConstBuf::new(input.as_ptr(), input.len()),
                MutBuf::new(output.as_mut_ptr(), output.len()),
            )
        };
        operation(&mut Buffers::new(input, output))
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

    /// The range as something to post for sending.
    pub(crate) fn to_send(&self, span: Span) -> ConstBuf {
        let (ptr, len) = self.base(span);
        assert!(span.offset + span.len <= len, "{span:?} is outside of its buffer of {len} bytes");
        // SAFETY: in bounds as just checked, and alive by the contract of the parts.
        unsafe { ConstBuf::new(ptr.add(span.offset), span.len) }
    }

    /// The range as something to post for receiving.
    pub(crate) fn to_recv(&mut self, span: Span) -> MutBuf {
        let (ptr, len) = self.base_mut(span);
        assert!(span.offset + span.len <= len, "{span:?} is outside of its buffer of {len} bytes");
        // SAFETY: in bounds as just checked, and alive by the contract of the parts.
        unsafe { MutBuf::new(ptr.add(span.offset), span.len) }
    }

    /// The bytes of a range.
    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        let (ptr, len) = self.base(span);
        assert!(span.offset + span.len <= len, "{span:?} is outside of its buffer of {len} bytes");
        // SAFETY: in bounds as just checked, alive by the contract of the parts; the plan orders
        // this read after every write to the range.
        unsafe { std::slice::from_raw_parts(ptr.add(span.offset), span.len) }
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
    pub(crate) fn split<'a>(
        &'a mut self,
        into: Span,
        from: &[Span],
    ) -> (&'a mut [u8], Vec<&'a [u8]>) {
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
