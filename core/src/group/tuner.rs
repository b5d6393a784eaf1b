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
}

impl Hand {
    pub(crate) fn from_config(config: &Config) -> Self {
        let choice = |operation| Some((operation, config.algorithm(operation)?));
        Hand {
            algorithms: Operation::ALL.into_iter().filter_map(choice).collect(),
            rank_order: config.rank_order(),
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
    profile: Profile,
}

impl Tuner {
    /// For the members of a group, given as ranks of the job.
    pub(crate) fn new(members: &[usize], matrix: Option<&Matrix>, hand: Hand) -> Self {
        let links = match matrix {
            Some(matrix) => Links::of(members.len(), |first, second| {
                matrix.kind(members[first], members[second])
            }),
            None => Links::all(LinkKind::Memory),
        };
        Tuner {
            size: members.len(),
            links,
            arena: false,
            crowding: matrix.map_or(1000, |matrix| matrix.crowding(members)),
            hand,
            limits: Limits::default(),
            profile: Profile::BUILT_IN,
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
        let blocks = match operation {
            Operation::AllGather
            | Operation::ReduceScatter
            | Operation::Gather
            | Operation::Scatter
            | Operation::AllToAll => self.size as u64,
            _ => 1,
        };
        self.decide(operation, bytes.saturating_mul(blocks), Shape::Uniform)
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
        let facts = Facts {
            operation,
            size: self.size,
            bytes,
            shape,
            links: self.links,
            arena: self.arena,
            crowding: self.crowding,
            rank_order: self.hand.rank_order,
            by_hand,
        };
        tune::choose(&facts, &self.profile)
    }

    fn by_hand(&self, operation: Operation) -> Option<Algorithm> {
        let chosen = self.hand.algorithms.iter().find(|(known, _)| *known == operation);
        chosen.map(|(_, algorithm)| *algorithm)
    }
}
