//! The operating system and raw memory. All unsafe code of the core is in here and in
//! `transport/*/ffi`.

pub(crate) mod board;
pub(crate) mod buf;
pub(crate) mod clock;
pub(crate) mod doorbell;
pub(crate) mod fdpass;
pub(crate) mod fork;
pub(crate) mod futex;
pub(crate) mod host;
pub(crate) mod interfaces;
pub(crate) mod owner;
pub(crate) mod poller;
pub(crate) mod process;
pub(crate) mod ring;
pub(crate) mod shm;
pub(crate) mod simd;
#[allow(dead_code)]
pub(crate) mod slab;
pub(crate) mod socket;
pub(crate) mod stream_copy;
