//! Collective communication for clusters of Macs and Linux machines.

#[allow(dead_code)]
pub(crate) mod bootstrap;
pub mod call;
#[allow(dead_code)]
pub(crate) mod collective;
pub mod config;
pub mod dtype;
pub mod error;
pub(crate) mod sys;
#[allow(dead_code)]
pub(crate) mod transport;

pub use bootstrap::interrupt;
pub use collective::Algorithm;
