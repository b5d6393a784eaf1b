//! Which algorithm carries out an operation.
//!
//! [`choose`] takes the cheapest of the algorithms that an operation has, after the formulas of
//! [`cost`] and the prices of a [`Profile`]. This is how collective libraries commonly decide: the
//! minimum over algorithms of latency × steps + bytes / bandwidth, where fixed tables of sizes would
//! have to be drawn up anew for each machine. The choice is a pure function, in whole numbers, of
//! facts that all ranks share: so they all choose alike, without a message. What only one rank
//! knows must not get into it: whether it works in place, its own buffers, its own load.
//!
//! In outline, for all_reduce: the arena where all ranks share memory; else direct while a message
//! costs more than its bytes, and two-step for long ones. Recursive doubling is for many ranks and
//! short messages; the ring is for groups in which neighbours have better links than others.

pub(crate) mod cost;
pub(crate) mod explain;
pub(crate) mod profile;

use profile::Profile;

use crate::call::Operation;
use crate::collective::{Algorithm, Shape, sums_in_rank_order, supports};
use crate::error::LinkKind;

/// The links of a group in two words. The same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Links {
    /// The slowest kind of link between any two ranks.
    pub any: LinkKind,
    /// The slowest kind of link between neighbours of the ring 0, 1, …, size − 1, 0.
    pub ring: LinkKind,
}

impl Links {
    /// All links are of one kind.
    pub(crate) const fn all(kind: LinkKind) -> Self {
        Links { any: kind, ring: kind }
    }

    /// From the kind of link of each pair; `kind` is asked for pairs of different ranks only.
    /// A group of one has no links and counts as memory.
    pub(crate) fn of(size: usize, kind: impl Fn(usize, usize) -> LinkKind) -> Self {
        let slowest = |pairs: &mut dyn Iterator<Item = (usize, usize)>| {
            // The kinds are ordered from fast to slow.
            pairs.map(|(first, second)| kind(first, second)).max().unwrap_or(LinkKind::Memory)
        };
        Links {
            any: slowest(
                &mut (0..size).flat_map(|second| (0..second).map(move |first| (first, second))),
            ),
            ring: slowest(
                &mut (0..size).map(|rank| (rank, (rank + 1) % size)).filter(|(a, b)| a != b),
            ),
        }
    }
}

/// How crowded a host is: ranks per core, in thousandths, at least 1000. A group takes the largest
/// number of its hosts.
pub(crate) fn crowding(ranks: usize, cores: usize) -> u32 {
    let crowding = (ranks as u128 * 1000).div_ceil(cores.max(1) as u128);
    u32::try_from(crowding).unwrap_or(u32::MAX).max(1000)
}

/// What the choice depends on. All ranks of an operation must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Facts {
    /// The operation.
    pub operation: Operation,
    /// Ranks in the group.
    pub size: usize,
    /// Bytes: of one contribution for all_reduce, broadcast, reduce and scan, of all blocks
    /// together for all_gather, reduce_scatter, gather, scatter and all_to_all (there: of one
    /// rank). 0 where not all ranks know it.
    pub bytes: u64,
    /// What all ranks know about the counts.
    pub shape: Shape,
    /// The links of the group.
    pub links: Links,
    /// Whether the group has an arena, and the operation an algorithm for it.
    pub arena: bool,
    /// Whether only algorithms that sum in rank order may be used.
    pub rank_order: bool,
    /// The algorithm that was asked for by hand.
    pub by_hand: Option<Algorithm>,
    /// See [`crowding`].
    pub crowding: u32,
}

/// The algorithm for an operation: the one asked for by hand if the operation has it and it is
/// allowed, else the cheapest. The order of summation that was promised goes before a choice by
/// hand.
pub(crate) fn choose(facts: &Facts, profile: &Profile) -> Algorithm {
    if let Some(algorithm) = facts.by_hand
        && allowed(facts, algorithm)
    {
        return algorithm;
    }
    Algorithm::ALL
        .into_iter()
        .filter(|algorithm| allowed(facts, *algorithm))
        // The first of equals.
        .min_by_key(|algorithm| cost::cost(facts, *algorithm, profile).picoseconds)
        .unwrap_or(Algorithm::Direct)
}

/// Whether an operation has an algorithm and may use it.
fn allowed(facts: &Facts, algorithm: Algorithm) -> bool {
    let there = match algorithm {
        // It has all collectives, as the direct algorithms do.
        Algorithm::Arena => {
            facts.arena && supports(facts.operation, Algorithm::Direct, facts.size, facts.shape)
        }
        // Nothing is left to choose where nothing is moved or nobody knows how much.
        Algorithm::Direct => supports(facts.operation, algorithm, facts.size, facts.shape),
        _ => {
            (facts.bytes > 0 || facts.operation == Operation::Barrier)
                && supports(facts.operation, algorithm, facts.size, facts.shape)
        }
    };
    there && (!facts.rank_order || sums_in_rank_order(facts.operation, algorithm))
}

#[cfg(test)]
mod tests;
