//! The operating system and raw memory. All unsafe code of the core is in here and in
//! `transport/*/ffi`.

#[allow(dead_code)]
pub(crate) mod board;
#[allow(dead_code)]
pub(crate) mod buf;
pub(crate) mod doorbell;
pub(crate) mod fdpass;
pub(crate) mod futex;
pub(crate) mod ring;
pub(crate) mod shm;
pub(crate) mod simd;
pub(crate) mod stream_copy;
