//! Memory of Python objects, held through the buffer protocol. The unsafe code of this crate.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use lycaon::{OwnedBytes, OwnedBytesMut};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// A buffer of a Python object. The object neither frees nor moves the memory while this exists.
pub(crate) struct View(Box<ffi::Py_buffer>);

// SAFETY: the description of the buffer does not change while it is held, and its memory is plain
// bytes; the exporter is only touched with the interpreter attached (see `drop`).
unsafe impl Send for View {}
// SAFETY: as above; shared access only reads the description.
unsafe impl Sync for View {}

impl View {
    /// Asks an object for its memory, with format, shape and strides.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut raw = Box::<ffi::Py_buffer>::new_uninit();
        // SAFETY: `raw` is memory for the answer, which stays where it is in its box, as exporters
        // that refer to it from within require; the interpreter is attached.
        let status = unsafe {
            ffi::PyObject_GetBuffer(object.as_ptr(), raw.as_mut_ptr(), ffi::PyBUF_FULL_RO)
        };
        if status != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: filled in, since the status is 0.
        let view = View(unsafe { raw.assume_init() });
        // Without strides the elements follow one another.
        if view.0.ndim > 0 && view.0.shape.is_null() {
            return Err(PyBufferError::new_err("the buffer does not say its shape"));
        }
        Ok(view)
    }

    /// The length of each dimension; empty for a scalar.
    pub(crate) fn shape(&self) -> &[usize] {
        if self.0.ndim <= 0 {
            return &[];
        }
        // SAFETY: `ndim` numbers that are not negative, by the buffer protocol; checked in `of` not
        // to be null.
        unsafe { std::slice::from_raw_parts(self.0.shape.cast(), self.0.ndim as usize) }
    }

    /// The type of an element, as in the module `struct`; bytes if the exporter says nothing.
    pub(crate) fn format(&self) -> &[u8] {
        if self.0.format.is_null() {
            return b"B";
        }
        // SAFETY: a text that ends in 0 and lives as long as the buffer, by the buffer protocol.
        unsafe { CStr::from_ptr(self.0.format) }.to_bytes()
    }

    /// Bytes of one element.
    pub(crate) fn item_size(&self) -> usize {
        self.0.itemsize as usize
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.0.readonly != 0
    }

    /// Whether the elements follow one another in memory, the last index varying fastest.
    pub(crate) fn is_contiguous(&self) -> bool {
        // SAFETY: a buffer that was filled in by its exporter.
        self.0.len == 0 || unsafe { ffi::PyBuffer_IsContiguous(&*self.0, b'C' as c_char) } != 0
    }

    /// First byte and length of a contiguous buffer.
    fn range(&self) -> (*mut u8, usize) {
        (self.0.buf.cast(), self.0.len as usize)
    }

    /// The memory of a contiguous buffer.
    pub(crate) fn bytes(&self) -> &[u8] {
        debug_assert!(self.is_contiguous());
        match self.range() {
            (_, 0) => &[],
            // SAFETY: `len` contiguous bytes that the exporter keeps in place while it is asked
            // for them. That no other thread writes them during an operation is what callers of
            // this library promise in every language; they are plain bytes, read once.
            (first, len) => unsafe { std::slice::from_raw_parts(first, len) },
        }
    }

    /// The memory of a contiguous, writable buffer.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        debug_assert!(self.is_contiguous() && !self.is_read_only());
        match self.range() {
            (_, 0) => &mut [],
            // SAFETY: as in `bytes`, and the exporter has said that it may be written.
            (first, len) => unsafe { std::slice::from_raw_parts_mut(first, len) },
        }
    }

    /// The elements as a contiguous copy, the last index varying fastest, whatever the strides.
    pub(crate) fn to_contiguous(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let len = self.0.len as usize;
        let mut copy = Vec::<MaybeUninit<u8>>::with_capacity(len);
        // SAFETY: `len` bytes of room, which the call fills when it succeeds; the interpreter is
        // attached.
        let status = unsafe {
            ffi::PyBuffer_ToContiguous(
                copy.as_mut_ptr().cast(),
                &*self.0,
                self.0.len,
                b'C' as c_char,
            )
        };
        if status != 0 {
            return Err(PyErr::fetch(py));
        }
        let mut copy = std::mem::ManuallyDrop::new(copy);
        // SAFETY: the parts of a vector that gave up its memory, of which `len` bytes are filled.
        Ok(unsafe { Vec::from_raw_parts(copy.as_mut_ptr().cast(), len, copy.capacity()) })
    }

    /// How this memory lies to that of another contiguous buffer.
    pub(crate) fn overlap(&self, other: &View) -> Overlap {
        let (first, len) = self.range();
        let (other_first, other_len) = other.range();
        let (start, other_start) = (first as usize, other_first as usize);
        if len == 0 || other_len == 0 {
            Overlap::None
        } else if start == other_start && len == other_len {
            Overlap::Same
        } else if start < other_start + other_len && other_start < start + len {
            Overlap::Partial
        } else {
            Overlap::None
        }
    }
}

/// How two buffers lie to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    None,
    Same,
    Partial,
}

impl Drop for View {
    fn drop(&mut self) {
        // Operations in the background end on a thread without the GIL. When the interpreter is
        // gone already, so is the exporter.
        let _ = Python::try_attach(|_| {
            // SAFETY: filled in by its exporter, released only here, with the interpreter attached.
            unsafe { ffi::PyBuffer_Release(&mut *self.0) }
        });
    }
}

// SAFETY: the exporter keeps the memory valid and in place until the buffer is released, which is
// when the view is dropped; the view itself may move, since the description is in a box.
unsafe impl OwnedBytes for View {
    fn bytes(&self) -> (*const u8, usize) {
        let (first, len) = self.range();
        (first.cast_const(), len)
    }
}

// SAFETY: as above; only contiguous and writable buffers are made outputs.
unsafe impl OwnedBytesMut for View {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        self.range()
    }
}
