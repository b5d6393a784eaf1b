//! Which algorithm an operation of a group takes: what the cost model says of facts that all ranks
//! share, or what was decided by hand.

use crate::call::Operation;
use crate::collective::{Algorithm, Counts, Limits, Problem, Shape};
use crate::config::Config;
use crate::error::LinkKind;
use crate::fabric::Matrix;
use crate::tune::profile::Profile;
use crate::tune::{self, Facts, Links};

/// What the user has decided by hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hand {
    /// Algorithms by operation.
    pub(crate) algorithms: Vec<(Operation, Algorithm)>,
    /// Only algorithms that sum in rank order.
    pub(crate) rank_order: bool,
    /// What everything costs.
    pub(crate) profile: Profile,
}

impl Hand {
    pub(crate) fn from_config(config: &Config) -> Self {
        let choice = |operation| Some((operation, config.algorithm(operation)?));
        Hand {
            algorithms: Operation::ALL.into_iter().filter_map(choice).collect(),
            rank_order: config.rank_order(),
            profile: *config.profile(),
        }
    }
}

/// Chooses algorithms for one group.
#[derive(Clone, Debug)]
pub(crate) struct Tuner {
    size: usize,
    links: Links,
    arena: bool,
    crowding: u32,
    hand: Hand,
    limits: Limits,
}

impl Tuner {
    /// For the members of a group, given as ranks of the job.
    pub(crate) fn new(members: &[usize], matrix: Option<&Matrix>, hand: Hand) -> Self {
        let links = match matrix {
            Some(matrix) => Links::of(members.len(), |first, second| {
                matrix.kind(members[first], members[second])
            })
            .with_cables(members.len(), |rank, peer| matrix.cables(members[rank], members[peer])),
            None => Links::all(LinkKind::Memory),
        };
        Tuner {
            size: members.len(),
            links,
            arena: false,
            crowding: matrix.map_or(1000, |matrix| matrix.crowding(members)),
            hand,
            limits: Limits::default(),
        }
    }

    /// Says whether the group has an arena, which all its ranks know alike.
    pub(crate) fn set_arena(&mut self, arena: bool) {
        self.arena = arena;
    }

    pub(crate) fn hand(&self) -> &Hand {
        &self.hand
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// For `bytes` of one contribution, or of one block.
    pub(crate) fn choose(&self, operation: Operation, bytes: u64) -> Algorithm {
        self.decide(operation, self.whole(operation, bytes), Shape::Uniform)
    }

    /// From the bytes of one contribution or block to those that the cost is computed for.
    fn whole(&self, operation: Operation, bytes: u64) -> u64 {
        let blocks = match operation {
            Operation::AllGather
            | Operation::ReduceScatter
            | Operation::Gather
            | Operation::Scatter
            | Operation::AllToAll => self.size as u64,
            _ => 1,
        };
        bytes.saturating_mul(blocks)
    }

    /// For a call. `at_root`: only the root knows the counts.
    pub(crate) fn choose_for(&self, problem: &Problem, at_root: bool) -> Algorithm {
        let element = problem.dtype.size() as u64;
        match &problem.counts {
            _ if at_root => self.decide(problem.operation, 0, Shape::Unknown),
            Counts::Exchange { .. } => self.decide(problem.operation, 0, Shape::Unknown),
            Counts::Uniform(count) => self.choose(problem.operation, count.saturating_mul(element)),
            Counts::ByRank(counts) => {
                let total = counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
                self.decide(problem.operation, total.saturating_mul(element), Shape::ByRank)
            }
        }
    }

    fn decide(&self, operation: Operation, bytes: u64, shape: Shape) -> Algorithm {
        // In shared memory there is nothing to weigh.
        let by_hand = self.by_hand(operation);
        if self.arena && by_hand.is_none() && !operation.is_point_to_point() {
            return Algorithm::Arena;
        }
        tune::choose(&self.facts(operation, bytes, shape), &self.hand.profile)
    }

    fn facts(&self, operation: Operation, bytes: u64, shape: Shape) -> Facts {
        Facts {
            operation,
            size: self.size,
            bytes,
            shape,
            links: self.links,
            arena: self.arena,
            crowding: self.crowding,
            rank_order: self.hand.rank_order,
            by_hand: self.by_hand(operation),
        }
    }

    /// The table of what an operation on so many bytes, as for [`Tuner::choose`], would cost with
    /// each algorithm. In shared memory the arena is not weighed against the others.
    pub(crate) fn explain(&self, operation: Operation, bytes: u64) -> String {
        let bytes = self.whole(operation, bytes);
        let mut facts = self.facts(operation, bytes, Shape::Uniform);
        if self.arena && facts.by_hand.is_none() {
            facts.by_hand = Some(Algorithm::Arena);
        }
        tune::explain::explain(&facts, &self.hand.profile)
    }

    /// From which size on an operation takes which algorithm; sizes as for [`Tuner::choose`].
    pub(crate) fn thresholds(&self, operation: Operation) -> Vec<(u64, Algorithm)> {
        let mut ranges: Vec<(u64, Algorithm)> = Vec::new();
        for bytes in std::iter::once(0).chain((0..=40).map(|log| 1_u64 << log)) {
            let algorithm = self.choose(operation, bytes);
            if ranges.last().is_none_or(|(_, last)| *last != algorithm) {
                ranges.push((bytes, algorithm));
            }
        }
        ranges
    }

    fn by_hand(&self, operation: Operation) -> Option<Algorithm> {
        let chosen = self.hand.algorithms.iter().find(|(known, _)| *known == operation);
        chosen.map(|(_, algorithm)| *algorithm)
    }
}
