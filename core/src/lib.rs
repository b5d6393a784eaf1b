//! Collective communication for clusters of Macs and Linux machines.

#[doc(hidden)]
pub mod bench_support;
pub mod call;
#[allow(dead_code)]
pub(crate) mod collective;
pub mod dtype;
pub mod error;
#[allow(dead_code)]
pub(crate) mod reduce;
pub(crate) mod sys;
#[allow(dead_code)]
pub(crate) mod transport;
