//! Collective communication for clusters of Macs and Linux machines.

#[doc(hidden)]
pub mod bench_support;
pub mod call;
#[allow(dead_code)]
pub(crate) mod collective;
pub mod dtype;
pub mod error;
pub(crate) mod fabric;
mod group;
pub mod interrupt;
pub(crate) mod reduce;
pub(crate) mod sys;
pub mod trace;
#[allow(dead_code)]
pub(crate) mod transport;
mod work;

pub use call::{Call, Operation, Signature};
pub use collective::Algorithm;
pub use dtype::{DType, Element, Op};
pub use error::{Error, Result};
pub use group::{Group, InProcess, Request, RequestCounts, in_process};
pub use sys::buf::{OwnedBytes, OwnedBytesMut, Parcel};
pub use work::Work;
