//! Closed formulas for what each algorithm costs.
//!
//! The time of an operation is taken to be that of its busiest rank,
//!
//! `rounds · α + messages · o + bytes · β + reduced · γ`,
//!
//! the linear model in which Thakur, Rabenseifner and Gropp (*Optimization of collective
//! communication operations in MPICH*, 2005) compare the algorithms, with one term more: o, what a
//! message costs the rank that handles it. Without it, sending to everybody at once would seem to
//! be as cheap as sending to one. The terms are those of the module documentations in
//! [`crate::collective`]:
//!
//! - *rounds*: messages that have to follow each other,
//! - *messages*: sent and received by the busiest rank,
//! - *bytes*: sent or received by the busiest rank, whichever is more (links are full duplex). Where
//!   links are cables of their own, β is divided by how many of them are at work at once,
//! - *reduced*: bytes that its reductions read.
//!
//! With several ranks to a core, all that is work of a processor takes longer by that factor.
//! Everything is computed in whole picoseconds of 128 bits, saturating: the same on every machine.

use super::Facts;
use super::profile::Profile;
use crate::call::Operation;
use crate::collective::{Algorithm, log2_ceil, log2_floor};
use crate::error::LinkKind;

/// The piece of a pipelined chain that is under way before the next rank has anything.
const PIECE: u128 = 128 << 10;

/// What an algorithm does, and how long that takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Messages that have to follow each other.
    pub rounds: u128,
    /// Messages sent and received by the busiest rank.
    pub messages: u128,
    /// Bytes sent or received by the busiest rank.
    pub bytes: u128,
    /// Bytes read by its reductions.
    pub reduced: u128,
    /// The link that it is computed for; `None` for the arena.
    pub link: Option<LinkKind>,
    /// Cables at work at once, in thousandths.
    pub width: u32,
    /// The time in picoseconds.
    pub picoseconds: u128,
}

/// What an algorithm costs, whether or not the operation may use it.
///
/// # Panics
/// If the operation has no such algorithm.
pub(super) fn cost(facts: &Facts, algorithm: Algorithm, profile: &Profile) -> Cost {
    let (rounds, messages, bytes, reduced) =
        if algorithm == Algorithm::Arena { arena(facts) } else { terms(facts, algorithm) };
    let (link, prices) = match algorithm {
        Algorithm::Arena => (None, &profile.arena),
        Algorithm::Ring => (Some(facts.links.ring), profile.link(facts.links.ring)),
        _ => (Some(facts.links.any), profile.link(facts.links.any)),
    };
    let width = match (algorithm, facts.operation) {
        (Algorithm::Arena, _) => 1000,
        (Algorithm::Ring, Operation::Broadcast) | (Algorithm::Logarithmic, _) => {
            facts.links.width.one
        }
        (Algorithm::Ring, _) => facts.links.width.ring,
        _ => facts.links.width.all,
    }
    .max(1);
    let crowding = u128::from(facts.crowding.max(1000));
    let transport = rounds
        .saturating_mul(prices.latency_ps.into())
        .saturating_add(messages.saturating_mul(prices.message_ps.into()))
        .saturating_add(
            (bytes.saturating_mul(prices.kib_ps.into()) / 1024).saturating_mul(1000)
                / u128::from(width),
        );
    let slower = 1_000_000 + u128::from(prices.processor_permille) * (crowding - 1000);
    let reduction = reduced.saturating_mul(profile.reduce_kib_ps.into()) / 1024;
    let picoseconds = (transport.saturating_mul(slower) / 1_000_000)
        .saturating_add(reduction.saturating_mul(crowding) / 1000);
    Cost { rounds, messages, bytes, reduced, link, width, picoseconds }
}

/// Rounds, messages, bytes and reduced bytes of a message algorithm.
fn terms(facts: &Facts, algorithm: Algorithm) -> (u128, u128, u128, u128) {
    use Algorithm::{Direct, Logarithmic, Ring, TwoStep};
    let p = facts.size as u128;
    let others = p - 1;
    let n = u128::from(facts.bytes);
    // All but this rank's share.
    let rest = (n * others).div_ceil(p);
    let log = log2_ceil(facts.size) as u128;
    match (facts.operation, algorithm) {
        (Operation::AllReduce, Direct) => (1, 2 * others, n * others, n * p),
        (Operation::AllReduce, TwoStep) => (2, 4 * others, 2 * rest, n),
        (Operation::AllReduce, Ring) => (2 * others, 4 * others, 2 * rest, 2 * rest),
        (Operation::AllReduce, Logarithmic) => {
            let rounds = log2_floor(facts.size) as u128;
            // Folding: one round before and one after, one reduction more.
            let folds = u128::from(!facts.size.is_power_of_two());
            let sends = rounds + folds;
            (rounds + 2 * folds, 2 * sends, n * sends, 2 * n * sends)
        }
        (Operation::ReduceScatter, Direct) => (1, 2 * others, rest, n),
        (Operation::ReduceScatter, Ring) => (others, 2 * others, rest, 2 * rest),
        (Operation::ReduceScatter, Logarithmic) => (log, 2 * log, rest, 2 * rest),
        (Operation::AllGather, Direct) | (Operation::AllToAll, _) => (1, 2 * others, rest, 0),
        (Operation::AllGather, Ring) => (others, 2 * others, rest, 0),
        (Operation::AllGather, Logarithmic) => {
            // Blocks that wrap are two messages, about half of the time.
            let wraps = if facts.size.is_power_of_two() { 0 } else { log };
            (log, 2 * log + wraps, rest, 0)
        }
        (Operation::Broadcast, Direct) => (1, others, n * others, 0),
        (Operation::Broadcast, TwoStep) => (2, 2 * others, n, 0),
        (Operation::Broadcast, Ring) => {
            (others, 2 * n.div_ceil(PIECE), n + others.saturating_sub(1) * n.min(PIECE), 0)
        }
        (Operation::Broadcast, Logarithmic) => (log, log, n * log, 0),
        (Operation::Reduce, Direct) => (1, others, n * others, n * p),
        (Operation::Reduce, TwoStep) => (2, 4 * others, 2 * rest, n),
        (Operation::Reduce, Logarithmic) => (log, log, n * log, n * (log + 1)),
        (Operation::Gather | Operation::Scatter, Direct) => (1, others, rest, 0),
        (Operation::Gather | Operation::Scatter, Logarithmic) => {
            // On the longest path blocks pass through scratch memory: half of all at first.
            (log, log, rest + rest / 2, 0)
        }
        (Operation::Scan, Direct) => (1, others, n * others, n * p),
        (Operation::Scan, Logarithmic) => (log, 2 * log, n * log, 2 * n * log),
        (Operation::Barrier, Direct) => (1, 2 * others, 0, 0),
        (Operation::Barrier, Logarithmic) => (log, 2 * log, 0, 0),
        (operation, algorithm) => panic!("{operation} has no {algorithm} algorithm"),
    }
}

/// The same for the arena: synchronisations, looks at flags, bytes copied in and out.
fn arena(facts: &Facts) -> (u128, u128, u128, u128) {
    let p = facts.size as u128;
    let others = p - 1;
    let n = u128::from(facts.bytes);
    let share = n.div_ceil(p);
    match facts.operation {
        Operation::AllReduce => (2, 2 * others, 2 * n, n),
        Operation::ReduceScatter => (1, others, n, n),
        Operation::AllGather => (1, others, n + share, 0),
        Operation::Broadcast => (1, others, 2 * n, 0),
        Operation::Reduce => (2, 2 * others, 2 * n, n),
        Operation::Gather | Operation::Scatter => (1, others, n + share, 0),
        Operation::AllToAll => (1, others, 2 * n, 0),
        Operation::Scan => (1, others, n, n * p),
        Operation::Barrier => (1, others, 0, 0),
        other => panic!("{other} has no arena algorithm"),
    }
}
