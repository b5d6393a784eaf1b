//! The choice as people read it.

use std::fmt::Write;

use super::cost::{Cost, cost};
use super::profile::Profile;
use super::{Facts, allowed, choose};
use crate::collective::Algorithm;

/// A table of all algorithms that the operation may use with what they cost. The chosen one is
/// marked.
pub(crate) fn explain(facts: &Facts, profile: &Profile) -> String {
    let chosen = choose(facts, profile);
    let mut text = format!(
        "{}, {} ranks, {} bytes{}{}\n",
        facts.operation,
        facts.size,
        facts.bytes,
        if facts.rank_order { ", in rank order" } else { "" },
        facts.by_hand.map_or(String::new(), |algorithm| format!(", {algorithm} by hand")),
    );
    let _ = writeln!(
        text,
        "  {:<11} {:<7} {:>6} {:>7} {:>9} {:>14} {:>14} {:>12}",
        "algorithm", "link", "cables", "rounds", "messages", "bytes", "reduced", "time (us)"
    );
    for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| allowed(facts, *algorithm)) {
        let Cost { rounds, messages, bytes, reduced, link, width, picoseconds } =
            cost(facts, algorithm, profile);
        let _ = writeln!(
            text,
            "{} {:<11} {:<7} {:>4}.{} {rounds:>7} {messages:>9} {bytes:>14} {reduced:>14} {:>10}.{}",
            if algorithm == chosen { '*' } else { ' ' },
            algorithm.name(),
            link.map_or("arena", |link| link.name()),
            width / 1000,
            width / 100 % 10,
            picoseconds / 1_000_000,
            picoseconds / 100_000 % 10,
        );
    }
    text
}

/// From which size on which algorithm is chosen: the smallest power of two of each range, from 1
/// byte to 2^40.
pub(crate) fn thresholds(facts: &Facts, profile: &Profile) -> Vec<(u64, Algorithm)> {
    let mut ranges: Vec<(u64, Algorithm)> = Vec::new();
    for bytes in (0..=40).map(|log| 1_u64 << log) {
        let algorithm = choose(&Facts { bytes, ..*facts }, profile);
        if ranges.last().is_none_or(|(_, last)| *last != algorithm) {
            ranges.push((bytes, algorithm));
        }
    }
    ranges
}
