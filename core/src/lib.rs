//! Collective communication for clusters of Macs and Linux machines.

pub mod call;
#[allow(dead_code)]
pub(crate) mod collective;
pub mod dtype;
pub mod error;
pub(crate) mod sys;
#[allow(dead_code)]
pub(crate) mod transport;
