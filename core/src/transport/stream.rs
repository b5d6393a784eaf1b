//! Ordered byte streams: what sockets and shared-memory rings have in common.
//!
//! The message layer ([`super::message`]) turns one or several streams (rails) per peer into a
//! [`super::Transport`].

use std::io::{self, IoSlice, IoSliceMut};

/// An ordered, reliable stream of bytes to and from one peer that never blocks.
pub(crate) trait Stream: Send {
    /// Writes as much as fits and returns how much; `WouldBlock` if nothing does. Any other error
    /// is final.
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Reads what is there and returns how much; `WouldBlock` if nothing is, `Ok(0)` at the end of
    /// the stream. Any other error is final.
    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Announces that the caller is about to sleep until it can read (always) or write (if
    /// `for_write`). Returns `false` if it can do one of them now. After `true`, the file
    /// descriptor registered for this stream becomes ready as soon as it can.
    fn prepare_sleep(&mut self, for_write: bool) -> io::Result<bool>;

    /// Nothing more will be written; the peer reads the end of the stream after what was written.
    fn finish(&mut self) -> io::Result<()>;
}
