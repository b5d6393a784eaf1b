//! Collective communication for clusters of Macs and Linux machines.
//!
//! [`init`] forms the group that the environment describes; [`Group`] has the operations. Without a
//! launcher the group has one rank, in which everything works and moves no data.
//!
//! ```
//! # fn main() -> lycaon::Result<()> {
//! let group = lycaon::init()?;
//! let mut data = vec![group.rank() as f32 + 1.0; 1000];
//! group.all_reduce(&mut data, lycaon::Op::Sum)?;
//!
//! let mut all = vec![0u32; group.size()];
//! group.all_gather(&[group.rank() as u32], &mut all)?;
//! # Ok(())
//! # }
//! ```
//!
//! * [`config`]: every variable of the environment, and how to do it by hand.
//! * [`error`]: what can go wrong, and what state it leaves behind.
//! * [`in_process`]: groups whose ranks are threads, for tests.
//! * [`trace`]: what has happened, readable at any time.
//! * [`interrupt`]: ending waits at the program's wish.

// Tests share a matrix of operations with a program that runs it over real devices.
#[cfg(test)]
extern crate self as lycaon;

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
pub use group::{Choice, Group, InProcess, Request, RequestCounts, in_process, init, init_with};
pub use sys::buf::{OwnedBytes, OwnedBytesMut, Parcel};
pub use transport::verbs::rdma_devices;
pub use work::Work;

/// The version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of the wire protocol. Ranks with different ones do not form a group.
pub const PROTOCOL_VERSION: u32 = 1;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
