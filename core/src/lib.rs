//! Collective communication for clusters of Macs and Linux machines.

pub mod call;
#[allow(dead_code)]
pub(crate) mod collective;
pub mod dtype;
pub mod error;
pub(crate) mod sys;
#[allow(dead_code)]
pub(crate) mod transport;

/// The version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of the wire protocol. Ranks with different ones do not form a group.
pub const PROTOCOL_VERSION: u32 = 1;
