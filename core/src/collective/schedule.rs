//! From a problem and an algorithm to a sequence of plans.
//!
//! [`schedule`] gives the plans of one rank, one after the other and none before it is asked for,
//! so neither their length nor their scratch memory grows with the message. All ranks cut at the
//! same places: plan k of one rank talks to plan k of the others and to no other plan.
//!
//! | | direct | two-step | ring | log |
//! |---|---|---|---|---|
//! | all_reduce | [one-shot](super::direct) | [reduce-scatter, all-gather](super::direct) | [ring](super::ring) | [recursive doubling](super::doubling) |
//! | reduce_scatter | [direct](super::direct) | → direct | [ring](super::ring) | [recursive halving](super::halving); p no power of two: → direct |
//! | all_gather | [direct](super::spread) | → direct | [ring](super::ring) | [recursive doubling, Bruck](super::halving) |
//! | broadcast | [direct](super::spread) | [scatter, all-gather](super::spread) | [chain](super::spread) | [binomial tree](super::tree) |
//! | reduce | [direct](super::direct) | [reduce-scatter, gather](super::direct) | → two-step | [binomial tree](super::tree) |
//! | gather, scatter | [direct](super::spread) | → direct | → direct | [binomial tree](super::tree); counts by rank: → direct |
//! | all_to_all | [direct](super::spread) | → direct | → direct | → direct |
//! | scan | [direct](super::direct) | → direct | → direct | [recursive doubling](super::doubling) |
//! | barrier | [all to all](super::spread) | → log | → log | [dissemination](super::spread) |
//!
//! An arrow says what is done instead of an algorithm that the operation does not have; see
//! [`effective`].

use std::iter::FusedIterator;

use super::build::{Blocks, Builder, Stage};
use super::cut::Limits;
use super::direct::Direct;
use super::doubling::Doubling;
use super::halving::{Gathering, Halving};
use super::plan::{Plan, Slot, Span};
use super::ring::Ring;
use super::spread::{Dissemination, Relay, Straight};
use super::tree::Tree;
use super::{Algorithm, Counts, Problem};
use crate::call::Operation;

/// An algorithm for one problem: a number of plans, each made when it is asked for.
pub(super) trait Plans: Send {
    /// How many there are.
    fn plans(&self) -> u64;

    /// One of them.
    fn plan(&self, index: u64) -> Plan;
}

/// The plans of one rank for one operation, in order. See [`schedule`].
pub(crate) struct Schedule {
    plans: Box<dyn Plans>,
    next: u64,
    end: u64,
}

impl Schedule {
    fn new(plans: impl Plans + 'static) -> Self {
        let end = plans.plans();
        Schedule { plans: Box::new(plans), next: 0, end }
    }
}

impl Iterator for Schedule {
    type Item = Plan;

    fn next(&mut self) -> Option<Plan> {
        (self.next < self.end).then(|| {
            self.next += 1;
            self.plans.plan(self.next - 1)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.end - self.next) {
            Ok(left) => (left, Some(left)),
            Err(_) => (usize::MAX, None),
        }
    }

    fn nth(&mut self, skip: usize) -> Option<Plan> {
        self.next = self.next.saturating_add(skip as u64).min(self.end);
        self.next()
    }
}

impl FusedIterator for Schedule {}

/// The plans of this rank. The engine executes one after the other; a plan may begin on one rank
/// while others are still in the plan before.
///
/// Every rank has to ask for the same algorithm and give equal limits. What the operation does not
/// have is replaced as [`effective`] says.
///
/// # Panics
/// If the problem is not a collective operation, or lacks the operator that a reduction needs.
pub(crate) fn schedule(problem: &Problem, algorithm: Algorithm, limits: &Limits) -> Schedule {
    if problem.size == 1 {
        return Schedule::new(Alone { problem: problem.clone() });
    }
    match (problem.operation, effective(problem, algorithm)) {
        (Operation::AllReduce, Algorithm::Direct) => {
            Schedule::new(Direct::all_reduce(problem, limits))
        }
        (Operation::AllReduce, Algorithm::TwoStep) => {
            Schedule::new(Direct::all_reduce_two_step(problem, limits))
        }
        (Operation::AllReduce | Operation::Scan, Algorithm::Logarithmic) => {
            Schedule::new(Doubling::new(problem, limits))
        }
        (
            Operation::AllReduce | Operation::ReduceScatter | Operation::AllGather,
            Algorithm::Ring,
        ) => Schedule::new(Ring::new(problem, limits)),
        (Operation::ReduceScatter, Algorithm::Logarithmic) => {
            Schedule::new(Halving::new(problem, limits))
        }
        (Operation::ReduceScatter, _) => Schedule::new(Direct::reduce_scatter(problem, limits)),
        (Operation::AllGather, Algorithm::Logarithmic) => Schedule::new(Gathering::new(problem)),
        (Operation::Reduce, Algorithm::Direct) => Schedule::new(Direct::reduce(problem, limits)),
        (Operation::Reduce, Algorithm::TwoStep) => {
            Schedule::new(Direct::reduce_two_step(problem, limits))
        }
        (
            Operation::Broadcast | Operation::Reduce | Operation::Gather | Operation::Scatter,
            Algorithm::Logarithmic,
        ) => Schedule::new(Tree::new(problem, limits)),
        (Operation::Broadcast, Algorithm::TwoStep) => {
            Schedule::new(Relay::two_step(problem, limits))
        }
        (Operation::Broadcast, Algorithm::Ring) => Schedule::new(Relay::ring(problem, limits)),
        (Operation::Scan, _) => Schedule::new(Direct::scan(problem, limits)),
        (Operation::Barrier, Algorithm::Logarithmic) => Schedule::new(Dissemination::new(problem)),
        (
            Operation::AllGather
            | Operation::Broadcast
            | Operation::Gather
            | Operation::Scatter
            | Operation::AllToAll
            | Operation::Barrier,
            _,
        ) => Schedule::new(Straight::new(problem)),
        (operation, algorithm) => unreachable!("{operation} by {algorithm} has no plan"),
    }
}

/// What all ranks know about the counts of an operation. The caller knows it from the call: the
/// counts that a rank is given do not tell, see [`effective`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// The same for every rank.
    Uniform,
    /// They differ, and every rank knows them all: all_gather and reduce_scatter by rank.
    ByRank,
    /// They differ, and no rank but the root knows them all: gather, scatter and all_to_all.
    Unknown,
}

/// Whether an operation has a message algorithm of this kind. [`Algorithm::Arena`] has none: it
/// does not work with messages.
pub(crate) fn supports(
    operation: Operation,
    algorithm: Algorithm,
    size: usize,
    shape: Shape,
) -> bool {
    match algorithm {
        Algorithm::Direct => !operation.is_point_to_point() && operation != Operation::Split,
        Algorithm::TwoStep => {
            matches!(operation, Operation::AllReduce | Operation::Broadcast | Operation::Reduce)
        }
        Algorithm::Ring => matches!(
            operation,
            Operation::AllReduce
                | Operation::ReduceScatter
                | Operation::AllGather
                | Operation::Broadcast
        ),
        Algorithm::Logarithmic => match operation {
            Operation::AllReduce
            | Operation::AllGather
            | Operation::Broadcast
            | Operation::Reduce
            | Operation::Scan
            | Operation::Barrier => true,
            Operation::ReduceScatter => size.is_power_of_two(),
            Operation::Gather | Operation::Scatter => shape == Shape::Uniform,
            _ => false,
        },
        Algorithm::Arena => false,
    }
}

/// Whether the contributions are combined in rank order, from left to right. An operation without
/// a reduction has nothing to put in order.
pub(crate) fn sums_in_rank_order(operation: Operation, algorithm: Algorithm) -> bool {
    match operation {
        Operation::AllReduce | Operation::ReduceScatter | Operation::Reduce | Operation::Scan => {
            matches!(algorithm, Algorithm::Direct | Algorithm::TwoStep | Algorithm::Arena)
        }
        _ => true,
    }
}

/// The message algorithm that is used when `algorithm` is asked for.
///
/// What the operation has is used. Else: instead of a ring, reduce uses the two-step algorithm,
/// which has as few bytes; a barrier uses the logarithmic one; instead of the arena, all_reduce
/// and reduce use the two-step algorithm, which sums in the same order; everything else uses the
/// direct one. An operation whose counts are all 0 uses the direct algorithm, which sends its empty
/// messages so that differing calls are noticed.
///
/// The answer is the same on all ranks, with one thing for the caller to see to: where only the
/// root of a gather or scatter knows the counts, the other ranks cannot tell that they differ, so
/// every rank has to ask for the direct algorithm.
pub(crate) fn effective(problem: &Problem, algorithm: Algorithm) -> Algorithm {
    let operation = problem.operation;
    let (shape, empty) = match &problem.counts {
        Counts::Uniform(count) => (Shape::Uniform, *count == 0),
        Counts::ByRank(counts) => (Shape::ByRank, counts.iter().all(|count| *count == 0)),
        Counts::Exchange { .. } => (Shape::Unknown, false),
    };
    if empty && operation != Operation::Barrier {
        return Algorithm::Direct;
    }
    if supports(operation, algorithm, problem.size, shape) {
        return algorithm;
    }
    match (operation, algorithm) {
        (Operation::Barrier, _) => Algorithm::Logarithmic,
        (Operation::Reduce, _) | (Operation::AllReduce, Algorithm::Arena) => Algorithm::TwoStep,
        _ => Algorithm::Direct,
    }
}

/// ⌊log₂ n⌋ for n ≥ 1.
pub(crate) fn log2_floor(n: usize) -> usize {
    n.ilog2() as usize
}

/// ⌈log₂ n⌉ for n ≥ 1.
pub(crate) fn log2_ceil(n: usize) -> usize {
    n.next_power_of_two().ilog2() as usize
}

impl Problem {
    /// The count that all ranks have.
    ///
    /// # Panics
    /// If the counts differ by rank: the operation has no such form.
    pub(super) fn uniform(&self) -> u64 {
        match &self.counts {
            Counts::Uniform(count) => *count,
            Counts::ByRank(_) | Counts::Exchange { .. } => {
                panic!("{} needs a uniform count here", self.operation)
            }
        }
    }

    /// Where this rank's contribution to a reduction stands.
    pub(super) fn own_slot(&self) -> Slot {
        let everywhere = self.operation != Operation::Reduce;
        if self.in_place && (everywhere || self.rank == self.root) {
            Slot::Output
        } else {
            Slot::Input
        }
    }

    /// Where this rank's block of an all_gather or gather stands before the operation.
    pub(super) fn own_block(&self, b: &Builder, blocks: &Blocks) -> Span {
        let everywhere = self.operation != Operation::Gather;
        if self.in_place && (everywhere || self.rank == self.root) {
            b.span(Slot::Output, blocks.range(self.rank))
        } else {
            b.span(Slot::Input, 0..blocks.len(self.rank))
        }
    }
}

/// A group of one rank: at most a copy.
#[derive(Debug)]
struct Alone {
    problem: Problem,
}

impl Plans for Alone {
    fn plans(&self) -> u64 {
        1
    }

    fn plan(&self, _index: u64) -> Plan {
        let problem = &self.problem;
        let mut b = Builder::new(problem);
        match problem.operation {
            Operation::Barrier | Operation::Broadcast => {}
            Operation::AllGather | Operation::Gather | Operation::Scatter if problem.in_place => {}
            operation => {
                let count = Blocks::of(problem).len(0);
                let own = b.span(problem.own_slot(), 0..count);
                let output = b.span(Slot::Output, 0..count);
                match operation {
                    Operation::AllReduce
                    | Operation::ReduceScatter
                    | Operation::Reduce
                    | Operation::Scan => b.reduce(output, vec![own], Stage::Last(1)),
                    _ => b.copy(own, output),
                }
            }
        }
        b.finish()
    }
}
