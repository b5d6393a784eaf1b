//! Reductions by direct exchange: contributions go straight to the rank that combines them.
//!
//! Each piece of the message has *owners*. Everybody sends its contribution to each owner, and an
//! owner combines all of them in one n-ary reduction, in rank order: `((x0 op x1) op x2) …`. Types
//! that accumulate in a wider one are therefore rounded once. What differs is who owns what, and
//! where the results go afterwards:
//!
//! | algorithm | owners | afterwards | steps | bytes the busiest rank sends or receives |
//! |---|---|---|---|---|
//! | all_reduce, direct | every rank owns everything | – | 1 | n·(p−1) |
//! | all_reduce, two-step | rank j owns the j-th part | everybody gets all parts | 2 | 2·n·(p−1)/p |
//! | reduce_scatter, direct | rank j owns block j | – | 1 | S·(p−1)/p |
//! | reduce, direct | the root owns everything | – | 1 | n·(p−1), at the root |
//! | reduce, two-step | rank j owns the j-th part | the root gets all parts | 2 | 2·n·(p−1)/p, at the root |
//! | scan, direct | rank j owns everything, from ranks 0 to j | – | 1 | n·(p−1) |
//!
//! (p ranks, n bytes of one contribution, S bytes of all blocks.) The first row is the one-shot
//! exchange, best while a message costs more than its bytes; the second is a reduce-scatter
//! followed by an all-gather, both direct, which has the fewest possible bytes (Chan, Heimlich,
//! Purkayastha, van de Geijn, *Collective communication: theory, practice, and experience*, 2007)
//! in two steps when every pair has a link.
//!
//! **Pipeline.** A long message is cut into pieces. In the order of steps the results of piece k
//! come after the contributions of piece k + depth − 1, so while piece k is being combined the
//! next ones arrive, and the results of earlier ones leave. Contributions rotate through `depth`
//! sets of scratch buffers; receives are posted as soon as their buffer is free. Each rank starts
//! with its right neighbour and goes round, so that not all hit one rank at once.

use std::ops::Range;

use super::build::{Blocks, Builder, Stage};
use super::cut::{Balanced, Limits, Pipe};
use super::plan::{Plan, Slot, Span};
use super::schedule::Plans;
use super::{Counts, Problem};

/// Who owns what of a piece.
#[derive(Clone, Debug)]
enum Owners {
    /// Every rank the whole piece.
    Everyone,
    /// Rank j the j-th of equal parts.
    Parts,
    /// Rank j its piece of block j.
    Blocks(Blocks),
    /// The root the whole piece.
    Root,
}

/// Where results go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Results {
    /// They stay with their owner.
    Stay,
    /// Every rank gets them.
    ToAll,
    /// The root gets them.
    ToRoot,
}

/// A reduction by direct exchange.
#[derive(Debug)]
pub(super) struct Direct {
    problem: Problem,
    owners: Owners,
    results: Results,
    /// Rank j combines the contributions of ranks 0 to j only.
    prefix: bool,
    /// Empty messages are sent too, once, so that differing calls meet.
    announce: bool,
    total: u64,
    buffers: usize,
    pipe: Pipe,
}

impl Direct {
    /// all_reduce: every rank sends everything to every rank.
    pub(super) fn all_reduce(problem: &Problem, limits: &Limits) -> Self {
        Self::new(problem, limits, Owners::Everyone, Results::Stay)
    }

    /// all_reduce: reduce-scatter, then all-gather.
    pub(super) fn all_reduce_two_step(problem: &Problem, limits: &Limits) -> Self {
        Self::new(problem, limits, Owners::Parts, Results::ToAll)
    }

    /// reduce_scatter: every rank sends block j to rank j.
    pub(super) fn reduce_scatter(problem: &Problem, limits: &Limits) -> Self {
        Self::new(problem, limits, Owners::Blocks(Blocks::of(problem)), Results::Stay)
    }

    /// reduce: every rank sends everything to the root.
    pub(super) fn reduce(problem: &Problem, limits: &Limits) -> Self {
        Self::new(problem, limits, Owners::Root, Results::Stay)
    }

    /// reduce: reduce-scatter, then gather.
    pub(super) fn reduce_two_step(problem: &Problem, limits: &Limits) -> Self {
        Self::new(problem, limits, Owners::Parts, Results::ToRoot)
    }

    /// scan: every rank sends everything to every higher rank.
    pub(super) fn scan(problem: &Problem, limits: &Limits) -> Self {
        let mut scan = Self::new(problem, limits, Owners::Everyone, Results::Stay);
        scan.prefix = true;
        scan
    }

    fn new(problem: &Problem, limits: &Limits, owners: Owners, results: Results) -> Self {
        let size = problem.size as u64;
        let total = match problem.counts {
            Counts::Uniform(count) => count,
            // Cut block by block; the total is not used.
            Counts::ByRank(_) | Counts::Exchange { .. } => 0,
        };
        let longest = match &owners {
            Owners::Everyone | Owners::Root => total,
            Owners::Parts => total.div_ceil(size),
            Owners::Blocks(blocks) => blocks.longest(),
        };
        let others = problem.size - 1;
        // The owner of a part that is not the root keeps its result in scratch memory.
        let buffers = others + usize::from(results == Results::ToRoot);
        let steps = match results {
            Results::Stay => 2 * others + 1,
            Results::ToAll | Results::ToRoot => 4 * others + 1,
        };
        let pipe = Pipe::new(limits, problem.dtype.size(), longest, buffers, steps);
        let announce = results == Results::Stay;
        Direct {
            problem: problem.clone(),
            owners,
            results,
            prefix: false,
            announce,
            total,
            buffers,
            pipe,
        }
    }

    /// What `owner` combines of a piece, in elements of the contributions.
    fn owned(&self, piece: u64, owner: usize) -> Option<Range<u64>> {
        let whole = || Balanced::new(0..self.total, self.pipe.pieces).part(piece);
        match &self.owners {
            Owners::Everyone => Some(whole()),
            Owners::Parts => {
                Some(Balanced::new(whole(), self.problem.size as u64).part(owner as u64))
            }
            Owners::Blocks(blocks) => {
                let (from, to) = self.pipe.bounds(piece);
                Some(blocks.slice(owner, from, to))
            }
            Owners::Root => (owner == self.problem.root).then(whole),
        }
    }

    /// What `owner` combines of a piece, if there is a message about it.
    fn message(&self, piece: u64, owner: usize) -> Option<Range<u64>> {
        self.owned(piece, owner).filter(|range| !range.is_empty() || (self.announce && piece == 0))
    }

    fn contributes(&self, rank: usize, owner: usize) -> bool {
        !self.prefix || rank <= owner
    }

    /// Where this rank's contribution stands.
    fn own(&self) -> Slot {
        self.problem.own_slot()
    }

    fn contribution(&self, b: &Builder, piece: u64, source: usize, range: Range<u64>) -> Span {
        let rank = self.problem.rank;
        if source == rank {
            return b.span(self.own(), range);
        }
        let index = source - usize::from(source > rank);
        let count = range.end - range.start;
        b.scratch(self.pipe.buffer(piece, self.buffers, index), count)
    }

    /// Where this rank's result of a piece goes.
    fn result(&self, b: &Builder, piece: u64, range: Range<u64>) -> Span {
        let rank = self.problem.rank;
        if self.results == Results::ToRoot && rank != self.problem.root {
            let count = range.end - range.start;
            return b.scratch(self.pipe.buffer(piece, self.buffers, self.problem.size - 1), count);
        }
        match &self.owners {
            Owners::Blocks(blocks) if !self.problem.in_place => {
                let start = blocks.start(rank);
                b.span(Slot::Output, range.start - start..range.end - start)
            }
            _ => b.span(Slot::Output, range),
        }
    }

    /// Contributions of a piece travel to its owners.
    fn contribute(&self, b: &mut Builder, piece: u64) {
        let (rank, size) = (self.problem.rank, self.problem.size);
        if let Some(range) = self.message(piece, rank) {
            for source in (1..size).map(|d| (rank + size - d) % size) {
                if self.contributes(source, rank) {
                    let into = self.contribution(b, piece, source, range.clone());
                    b.recv(source, into);
                }
            }
        }
        for owner in (1..size).map(|d| (rank + d) % size) {
            if self.contributes(rank, owner)
                && let Some(range) = self.message(piece, owner)
            {
                b.send(owner, b.span(self.own(), range));
            }
        }
    }

    /// Owners combine a piece, and results travel.
    fn conclude(&self, b: &mut Builder, piece: u64) {
        let (rank, size) = (self.problem.rank, self.problem.size);
        if let Some(range) = self.owned(piece, rank) {
            let sources: Vec<Span> = (0..size)
                .filter(|source| self.contributes(*source, rank))
                .map(|source| self.contribution(b, piece, source, range.clone()))
                .collect();
            let into = self.result(b, piece, range);
            let contributions = sources.len();
            b.reduce(into, sources, Stage::Last(contributions));
        }
        if self.results == Results::Stay {
            return;
        }
        let wanted = |receiver: usize| match self.results {
            Results::ToRoot => receiver == self.problem.root,
            Results::ToAll | Results::Stay => true,
        };
        if let Some(range) = self.message(piece, rank) {
            let from = self.result(b, piece, range);
            for receiver in (1..size).map(|d| (rank + d) % size).filter(|r| wanted(*r)) {
                b.send(receiver, from);
            }
        }
        if wanted(rank) {
            for owner in (1..size).map(|d| (rank + size - d) % size) {
                if let Some(range) = self.message(piece, owner) {
                    b.recv(owner, b.span(Slot::Output, range));
                }
            }
        }
    }
}

impl Plans for Direct {
    fn plans(&self) -> u64 {
        self.pipe.plans()
    }

    fn plan(&self, index: u64) -> Plan {
        let mut b = Builder::new(&self.problem);
        let pieces = self.pipe.of_plan(index);
        let lead = self.pipe.depth - 1;
        for piece in pieces.start..pieces.end + lead {
            if piece < pieces.end {
                self.contribute(&mut b, piece);
            }
            if piece >= pieces.start + lead {
                self.conclude(&mut b, piece - lead);
            }
        }
        b.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Operation;
    use crate::collective::plan::Action;
    use crate::dtype::{DType, Op};

    fn two_step(bytes: u64) -> (Direct, Plan) {
        let problem = Problem {
            operation: Operation::AllReduce,
            rank: 1,
            size: 2,
            dtype: DType::F32,
            op: Some(Op::Sum),
            root: 0,
            counts: Counts::Uniform(bytes / 4),
            in_place: false,
        };
        let direct = Direct::all_reduce_two_step(&problem, &Limits::default());
        let plan = direct.plan(0);
        (direct, plan)
    }

    /// All steps that have to be done before a step starts.
    fn ancestors(plan: &Plan, step: usize) -> Vec<usize> {
        let mut found = vec![step];
        let mut next = 0;
        while next < found.len() {
            let after = &plan.steps[found[next]].after;
            let new: Vec<usize> =
                after.iter().map(|s| *s as usize).filter(|s| !found.contains(s)).collect();
            found.extend(new);
            next += 1;
        }
        found
    }

    /// While a piece is combined the next one is on its way, and so is the result of the last.
    #[test]
    fn pieces_overlap() {
        for (bytes, pieces) in [(64 << 10, 2), (256 << 10, 4), (1 << 20, 4), (8 << 20, 32)] {
            let (direct, plan) = two_step(bytes);
            assert_eq!(direct.pipe.pieces, pieces, "{bytes}");
            let of = |wanted: &dyn Fn(&Action) -> bool| -> Vec<usize> {
                (0..plan.steps.len()).filter(|s| wanted(&plan.steps[*s].action)).collect()
            };
            let reductions = of(&|action| matches!(action, Action::Reduce { .. }));
            let arrivals =
                of(&|a| matches!(a, Action::Recv { into, .. } if into.slot == Slot::Scratch));
            let departures =
                of(&|a| matches!(a, Action::Send { from, .. } if from.slot == Slot::Input));
            let results =
                of(&|a| matches!(a, Action::Send { from, .. } if from.slot == Slot::Output));
            let pieces = reductions.len();
            for list in [&arrivals, &departures, &results] {
                assert_eq!(list.len(), pieces);
            }
            for piece in 0..pieces - 1 {
                // The next contributions come first in the order of messages, and wait for
                // nothing that this reduction does.
                assert!(departures[piece + 1] < results[piece]);
                assert!(!ancestors(&plan, arrivals[piece + 1]).contains(&reductions[piece]));
                assert!(plan.steps[departures[piece + 1]].after.is_empty());
                // A result waits for its own reduction only, and nobody waits for its departure.
                assert_eq!(plan.steps[results[piece]].after, [reductions[piece] as u32]);
                assert!(!ancestors(&plan, reductions[piece + 1]).contains(&results[piece]));
            }
        }
    }
}
