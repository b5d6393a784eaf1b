//! The algorithms: which messages go where, and what is reduced in which order.
//!
//! Nothing here does I/O, reads a clock or touches raw memory. A [`Problem`] (what is to be done)
//! and an [`Algorithm`] (how) give a sequence of [`plan::Plan`]s: graphs of sends, receives,
//! reductions and copies that the engine executes over any transport. The algorithms for an arena
//! (memory that all ranks of one host see) are in [`arena`]; they are written against the safe
//! interface of [`crate::transport::arena`] and wait through a [`Waiter`].

pub(crate) mod arena;
mod build;
mod cut;
mod direct;
mod doubling;
mod halving;
pub(crate) mod plan;
mod ring;
mod schedule;
#[cfg(test)]
mod sim;
mod spread;
mod tree;

pub(crate) use cut::Limits;
#[cfg(test)]
pub(crate) use schedule::{Schedule, effective};
pub(crate) use schedule::{Shape, log2_ceil, log2_floor, schedule, sums_in_rank_order, supports};

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::call::Operation;
use crate::dtype::{DType, Op};
use crate::error::ConfigError;

/// How an operation is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Everybody sends to everybody (or to and from the root) at once: one step. Sums in rank
    /// order.
    Direct,
    /// all_reduce and reduce: direct reduce-scatter, then direct all-gather (or gather): two
    /// steps, the fewest possible bytes. Sums in rank order. broadcast: scatter, then all-gather.
    TwoStep,
    /// Neighbours in a ring; the fewest possible bytes, one link in use at a time.
    Ring,
    /// About log₂(size) steps: recursive doubling, dissemination or a binomial tree.
    Logarithmic,
    /// Through memory that all ranks see. Sums in rank order.
    Arena,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::Direct,
        Algorithm::TwoStep,
        Algorithm::Ring,
        Algorithm::Logarithmic,
        Algorithm::Arena,
    ];

    /// The name used in `LYCAON_ALGORITHM`.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Direct => "direct",
            Algorithm::TwoStep => "two-step",
            Algorithm::Ring => "ring",
            Algorithm::Logarithmic => "log",
            Algorithm::Arena => "arena",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text).ok_or_else(|| {
            ConfigError::Value {
                name: "algorithm".to_owned(),
                value: text.to_owned(),
                expected: "one of direct, two-step, ring, log, arena",
            }
        })
    }
}

/// How many elements each rank contributes or receives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Counts {
    /// The same for every rank.
    Uniform(u64),
    /// One entry per rank. In rooted operations only the root knows them all; the other ranks
    /// give `Uniform` with their own count.
    ByRank(Vec<u64>),
    /// all_to_all: what this rank sends to and receives from each rank.
    Exchange {
        /// Elements sent to each rank.
        send: Vec<u64>,
        /// Elements received from each rank.
        recv: Vec<u64>,
    },
}

/// One operation as this rank sees it.
///
/// Buffers, in elements (n: the uniform count; c: counts by rank; S: their sum):
///
/// | operation | input | output | in place |
/// |---|---|---|---|
/// | all_reduce, scan | n | n | output holds the input |
/// | all_gather | c\[rank\] | S | own contribution stands at its place in the output |
/// | reduce_scatter | S | c\[rank\] | output is the whole S; the result is this rank's block, the rest is unspecified afterwards |
/// | broadcast | – | n, at the root the source | always in place |
/// | reduce | n | n at the root, else empty | at the root, output holds the input |
/// | gather | c\[rank\] | S at the root, else empty | at the root, own contribution stands at its place in the output |
/// | scatter | S at the root, else empty | c\[rank\] | at the root, there is no output: its block stays where it is in the input |
/// | all_to_all | sum of send | sum of recv | never (the caller makes a copy) |
/// | barrier | – | – | – |
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Problem {
    /// The operation.
    pub operation: Operation,
    /// This rank.
    pub rank: usize,
    /// Ranks in the group.
    pub size: usize,
    /// The element type.
    pub dtype: DType,
    /// The operator, for reductions.
    pub op: Option<Op>,
    /// The root, for rooted operations; 0 elsewhere.
    pub root: usize,
    /// The counts.
    pub counts: Counts,
    /// Whether the output holds the input as the table above says.
    pub in_place: bool,
}

/// What to do before looking at a flag again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Look again at once, with a processor hint.
    Spin,
    /// Give the processor to another thread, then look again.
    Yield,
    /// Sleep in the kernel until the flag changes, at most this long.
    Sleep(Duration),
}

/// The wait is over before its condition came true: a deadline, a failure elsewhere or an
/// interruption. The reason is kept by the [`Waiter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Decides how a wait passes its time. The engine's waiter owns the clock, watches for failures,
/// and makes progress on messages in flight.
pub(crate) trait Waiter {
    /// Called whenever a flag has not reached its value. `peer` is the arena rank waited for.
    fn pause(&mut self, peer: usize) -> Result<Pause, Stopped>;

    /// Called when a flag has reached its value after at least one pause: something moved.
    fn moved(&mut self);
}
