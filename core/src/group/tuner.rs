//! Which algorithm an operation of a group takes.

use crate::call::Operation;
use crate::collective::{Algorithm, Limits, Problem};
use crate::config::Config;

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

/// Which algorithm an operation of a group takes.
#[derive(Clone, Debug)]
pub(crate) struct Tuner {
    hand: Hand,
    limits: Limits,
    arena: bool,
}

impl Tuner {
    pub(crate) fn new(hand: Hand) -> Self {
        Tuner { hand, limits: Limits::default(), arena: false }
    }

    pub(crate) fn set_arena(&mut self, arena: bool) {
        self.arena = arena;
    }

    pub(crate) fn hand(&self) -> &Hand {
        &self.hand
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn choose(&self, operation: Operation, _bytes: u64) -> Algorithm {
        if let Some((_, a)) = self.hand.algorithms.iter().find(|(o, _)| *o == operation) {
            return *a;
        }
        if self.arena { Algorithm::Arena } else { Algorithm::Direct }
    }

    pub(crate) fn choose_for(&self, problem: &Problem) -> Algorithm {
        self.choose(problem.operation, 0)
    }
}
