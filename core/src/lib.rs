//! Collective communication for clusters of Macs and Linux machines.

#[doc(hidden)]
pub mod bench_support;
pub(crate) mod bootstrap;
pub mod call;
pub(crate) mod collective;
pub mod config;
pub mod dtype;
pub mod error;
pub(crate) mod fabric;
mod group;
pub(crate) mod reduce;
pub(crate) mod sys;
pub mod trace;
pub(crate) mod transport;
#[allow(dead_code)]
pub(crate) mod tune;
mod work;

pub use bootstrap::interrupt;
pub use call::{Call, Operation, Signature};
pub use collective::Algorithm;
pub use config::Config;
pub use dtype::{DType, Element, Op};
pub use error::{Error, Result};
pub use group::{Group, InProcess, Request, RequestCounts, in_process, init, init_with};
pub use sys::buf::{OwnedBytes, OwnedBytesMut, Parcel};
pub use work::Work;

/// The version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of the wire protocol. Ranks with different ones do not form a group.
pub const PROTOCOL_VERSION: u32 = 1;
