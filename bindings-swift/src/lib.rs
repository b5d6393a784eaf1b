//! The Rust side of the Swift package `Lycaon`.
//!
//! Two interfaces leave in one static library. Data go through a few plain C functions ([`calls`],
//! [`background`]), to which Swift lends its buffers as they are. Groups are configured and started,
//! looked at, and errors become typed values, through the bridge of `swift-bridge`. Both are internal
//! to the Swift package: everything that is public there is written by hand around them.

pub mod background;
#[expect(clippy::unnecessary_cast, reason = "what the macro generates")]
mod bridge;
pub mod calls;
mod failure;
mod guard;
mod setup;
pub mod side_channel;
mod view;
