//! The C ABI of lycaon.
//!
//! `include/lycaon/lycaon.h` is made from these modules, and `docs/c-abi.md` has the conventions.
//! Every exported function goes through `guard::guard`: no panic reaches C, a failure becomes the
//! last error of its thread, and results are written only on success.

// The names are those of the header.
#![allow(non_camel_case_types)]

pub mod config;
pub mod error;
pub mod exchanges;
pub mod group;
pub mod guard;
pub mod messages;
mod prepare;
pub mod rdma;
pub mod reductions;
mod shapes;
pub mod status;
pub mod trace;
pub mod types;
pub mod work;

use std::ffi::{CStr, c_char};

use guard::guard;
use types::{dtype, dtype_number};

/// The version of this interface. It changes when programs have to be compiled anew; functions,
/// members at the end of structs that the library fills, and numbers may be added without that.
pub const LYCAON_ABI_VERSION: u32 = 1;

/// The version of this interface that the library has: LYCAON_ABI_VERSION of its own header.
#[unsafe(no_mangle)]
pub extern "C" fn lycaon_abi_version() -> u32 {
    guard(|| Ok(LYCAON_ABI_VERSION))
}

/// The version of the library, for example "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn lycaon_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no NUL inside"),
        };
    guard(|| Ok(VERSION.as_ptr()))
}

/// The version of the protocol between ranks; all ranks of a group have the same.
#[unsafe(no_mangle)]
pub extern "C" fn lycaon_protocol_version() -> u32 {
    guard(|| Ok(lycaon::PROTOCOL_VERSION))
}

/// Bytes of an element; 0 if `dtype` is none.
#[unsafe(no_mangle)]
pub extern "C" fn lycaon_dtype_size(number: dtype_number) -> usize {
    guard(|| Ok(dtype(number)?.size()))
}

/// The name of a status, for example "rank_died"; "unknown" if this version has no such number.
#[unsafe(no_mangle)]
pub extern "C" fn lycaon_status_name(number: u32) -> *const c_char {
    guard(|| {
        let status = status::lycaon_status::from_number(number);
        Ok(status.map_or(c"unknown", |status| status.name()).as_ptr())
    })
}
