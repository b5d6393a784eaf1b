//! The operating system and raw memory. All unsafe code of the core is in here and in
//! `transport/*/ffi`.

pub(crate) mod buf;
pub(crate) mod fork;
pub(crate) mod net;
pub(crate) mod process;
