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
//! short messages; the ring is for groups in which neighbours have better links than others. Over RDMA
//! the price of a byte is that of one cable, divided by the cables that an algorithm has at work at
//! once: in a mesh with a cable for each pair the direct algorithms use all of a rank's cables, the ring
//! those to its neighbours, and the logarithmic ones those to one rank at a time.

pub(crate) mod cost;
pub(crate) mod explain;
pub(crate) mod profile;

use profile::Profile;

use crate::call::Operation;
use crate::collective::{Algorithm, Shape, sums_in_rank_order, supports};
use crate::error::LinkKind;

/// The links of a group in few words. The same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Links {
    /// The slowest kind of link between any two ranks.
    pub any: LinkKind,
    /// The slowest kind of link between neighbours of the ring 0, 1, …, size − 1, 0.
    pub ring: LinkKind,
    /// How many of its cables the busiest rank has at work at once.
    pub width: Width,
}

/// Cables at work at once, in thousandths, by how a rank's messages go. Without RDMA it is one: more
/// sockets do not make a network wider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Width {
    /// To all others at the same time.
    pub all: u32,
    /// To one other rank.
    pub one: u32,
    /// To the neighbours in the ring, half of it each way.
    pub ring: u32,
}

impl Width {
    /// Everything goes over one.
    pub(crate) const ONE: Width = Width { all: 1000, one: 1000, ring: 1000 };
}

impl Links {
    /// All links are of one kind.
    pub(crate) const fn all(kind: LinkKind) -> Self {
        Links { any: kind, ring: kind, width: Width::ONE }
    }

    /// With the cables of RDMA links: `devices(rank, peer)` are the devices of `rank` that lead to
    /// `peer`, one per cable, none for a pair that is joined by something else.
    pub(crate) fn with_cables<'a>(
        mut self,
        size: usize,
        devices: impl Fn(usize, usize) -> &'a [u32],
    ) -> Self {
        // The load of the fullest device, if what a rank sends is spread over some peers.
        let fullest = |peers: &dyn Fn(usize) -> Vec<usize>| -> Option<u64> {
            let load = |rank: usize| {
                let peers = peers(rank);
                let mut loads: Vec<(u32, u64)> = Vec::new();
                for peer in &peers {
                    let cables = devices(rank, *peer);
                    for device in cables {
                        let part = WHOLE / (peers.len() * cables.len()) as u64;
                        match loads.iter_mut().find(|(known, _)| known == device) {
                            Some((_, load)) => *load += part,
                            None => loads.push((*device, part)),
                        }
                    }
                }
                loads.into_iter().map(|(_, load)| load).max()
            };
            (0..size).filter_map(load).max()
        };
        let width = |load: Option<u64>| match load {
            Some(load) => u32::try_from(1000 * WHOLE / load.max(1)).unwrap_or(u32::MAX),
            None => 1000,
        };
        if self.any == LinkKind::Rdma {
            self.width.all = width(fullest(&|rank| (0..size).filter(|r| *r != rank).collect()));
            let pairs = (0..size).flat_map(|a| (0..size).map(move |b| (a, b)));
            let cables = pairs.filter(|(a, b)| a != b).map(|(a, b)| devices(a, b).len());
            let least = cables.filter(|cables| *cables > 0).min().unwrap_or(1);
            self.width.one = u32::try_from(1000 * least).unwrap_or(u32::MAX);
        }
        if self.ring == LinkKind::Rdma {
            let neighbours = |rank: usize| {
                let mut both = vec![(rank + 1) % size, (rank + size - 1) % size];
                both.dedup();
                both
            };
            self.width.ring = width(fullest(&neighbours));
        }
        self
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
            width: Width::ONE,
        }
    }
}

/// All that a rank sends, for [`Links::with_cables`].
const WHOLE: u64 = 1_000_000_000;

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
