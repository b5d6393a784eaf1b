//! Who is there: the environment, the rendezvous, the handshake, and the control connection that
//! forms the group, watches over its ranks and carries the causes of failures to all.
//!
//! [`session::start`] gives a [`session::Session`] once all ranks have met; its `exchange` is an
//! all-gather for whatever the fabric needs; [`session::Session::into_control`] ends the start.

pub(crate) mod connection;
pub(crate) mod control;
pub(crate) mod env;
pub(crate) mod failure;
pub(crate) mod file;
pub(crate) mod guest;
pub(crate) mod handshake;
pub(crate) mod hub;
pub mod interrupt;
pub(crate) mod rendezvous;
pub(crate) mod scope;
pub(crate) mod seeker;
pub(crate) mod session;
pub(crate) mod spoke;
pub(crate) mod wire;

#[cfg(test)]
mod tests;
