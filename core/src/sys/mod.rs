//! The operating system and raw memory. All unsafe code of the core is in here and in
//! `transport/*/ffi`.

#[allow(dead_code)]
pub(crate) mod board;
pub(crate) mod buf;
#[allow(dead_code)]
pub(crate) mod futex;
#[allow(dead_code)]
pub(crate) mod shm;
pub(crate) mod simd;
pub(crate) mod stream_copy;
