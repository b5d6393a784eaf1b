//! What the operations must give, written down from their documentation and not from their code.

use super::run::{Given, Model, Traffic};
use super::{Case, Sends, Value, Values};
use crate::call::Operation;
use crate::collective::{Algorithm, effective};
use crate::dtype::{DType, Op};

/// Runs a case and checks every element of every rank. Returns the traffic of each rank.
pub(super) fn check(case: &Case, sends: Sends, seed: u64) -> Vec<Traffic> {
    let mut model =
        Model::new(case, sends, seed, Values::default(), |values, rank| given(case, values, rank));
    let results = model.run();
    let values = &mut model.values;
    let algorithm = effective(&case.problem(0), case.algorithm);
    for rank in 0..case.size {
        assert_eq!(effective(&case.problem(rank), case.algorithm), algorithm, "rank {rank}");
        if case.operation == Operation::AllReduce && rank > 0 {
            assert_eq!(results[rank].0, results[0].0, "ranks 0 and {rank} differ");
            continue;
        }
        for (index, wanted) in expected(case, algorithm, values, rank) {
            let at = usize::try_from(index).expect("small");
            let found = results[rank].0[at];
            let text = |values: &Values| {
                let wanted: Vec<_> = wanted.iter().map(|value| values.text(*value)).collect();
                let found = found.map_or("nothing".to_owned(), |value| values.text(value));
                format!("rank {rank}[{index}] has {found}, not {}", wanted.join(" or "))
            };
            assert!(found.is_some_and(|value| wanted.contains(&value)), "{}", text(values));
        }
    }
    results.into_iter().map(|(_, traffic)| traffic).collect()
}

/// The buffers of a rank before the operation, after the table of `Problem`.
fn given(case: &Case, values: &mut Values, rank: usize) -> Given {
    let is_root = rank == case.root;
    let all =
        case.start(if matches!(case.counts, super::Layout::Matrix(_)) { 0 } else { case.size });
    let own = |values: &mut Values, count: u64| -> Vec<Value> {
        (0..count).map(|index| values.given(rank, index)).collect()
    };
    let unset = |count: u64| vec![None; usize::try_from(count).expect("small")];
    // In place at the start of the output, or separate.
    let contribution = |values: &mut Values, count: u64, output: u64, in_place: bool| {
        let mut output = unset(output);
        let input = own(values, count);
        if !in_place {
            return (input, output);
        }
        output.iter_mut().zip(input).for_each(|(cell, value)| *cell = Some(value));
        (Vec::new(), output)
    };
    match case.operation {
        Operation::AllReduce | Operation::Scan => {
            contribution(values, case.block(0), case.block(0), case.in_place)
        }
        Operation::ReduceScatter => {
            let output = if case.in_place { all } else { case.block(rank) };
            contribution(values, all, output, case.in_place)
        }
        Operation::Reduce => {
            let output = if is_root { case.block(0) } else { 0 };
            contribution(values, case.block(0), output, case.in_place && is_root)
        }
        Operation::AllGather | Operation::Gather => {
            let here = is_root || case.operation == Operation::AllGather;
            let mut output = unset(if here { all } else { 0 });
            let input = own(values, case.block(rank));
            if !(case.in_place && here) {
                return (input, output);
            }
            let start = usize::try_from(case.start(rank)).expect("small");
            output[start..].iter_mut().zip(input).for_each(|(cell, value)| *cell = Some(value));
            (Vec::new(), output)
        }
        Operation::Broadcast if is_root => contribution(values, case.block(0), case.block(0), true),
        Operation::Broadcast => (Vec::new(), unset(case.block(0))),
        Operation::Scatter => {
            let input = own(values, if is_root { all } else { 0 });
            let output = if is_root && case.in_place { 0 } else { case.block(rank) };
            (input, unset(output))
        }
        Operation::AllToAll => {
            let sum = |message: &dyn Fn(usize) -> u64| (0..case.size).map(message).sum();
            let input = own(values, sum(&|peer| case.message(rank, peer)));
            (input, unset(sum(&|peer| case.message(peer, rank))))
        }
        Operation::Barrier => (Vec::new(), Vec::new()),
        other => panic!("{other} is no collective with plans"),
    }
}

/// Each element of a rank's result, with the values it may have. Elements that are not listed are
/// unspecified.
fn expected(
    case: &Case,
    algorithm: Algorithm,
    values: &mut Values,
    rank: usize,
) -> Vec<(u64, Vec<Value>)> {
    let is_root = rank == case.root;
    let size = case.size;
    let mut blocks = |owners: &mut dyn Iterator<Item = usize>| {
        let mut result = Vec::new();
        for owner in owners {
            for index in 0..case.block(owner) {
                result.push((case.start(owner) + index, vec![values.given(owner, index)]));
            }
        }
        result
    };
    match case.operation {
        Operation::AllGather => blocks(&mut (0..size)),
        Operation::Gather if is_root => blocks(&mut (0..size)),
        Operation::Gather | Operation::Barrier => Vec::new(),
        Operation::Broadcast => {
            (0..case.block(0)).map(|index| (index, vec![values.given(case.root, index)])).collect()
        }
        Operation::Scatter if is_root && case.in_place => Vec::new(),
        Operation::Scatter => (0..case.block(rank))
            .map(|index| (index, vec![values.given(case.root, case.start(rank) + index)]))
            .collect(),
        Operation::AllToAll => {
            let mut result = Vec::new();
            for source in 0..size {
                let before: u64 = (0..rank).map(|peer| case.message(source, peer)).sum();
                for index in 0..case.message(source, rank) {
                    let value = values.given(source, before + index);
                    result.push((result.len() as u64, vec![value]));
                }
            }
            result
        }
        Operation::Reduce if !is_root => Vec::new(),
        Operation::AllReduce | Operation::Reduce | Operation::Scan => (0..case.block(0))
            .map(|index| (index, reductions(case, algorithm, values, rank, index)))
            .collect(),
        Operation::ReduceScatter => {
            let start = case.start(rank);
            let shift = if case.in_place { 0 } else { start };
            (start..start + case.block(rank))
                .map(|index| (index - shift, reductions(case, algorithm, values, rank, index)))
                .collect()
        }
        other => panic!("{other} is no collective with plans"),
    }
}

/// What the reduction of an element may look like.
fn reductions(
    case: &Case,
    algorithm: Algorithm,
    values: &mut Values,
    rank: usize,
    index: u64,
) -> Vec<Value> {
    let size = case.size;
    let x: Vec<Value> = (0..size).map(|rank| values.given(rank, index)).collect();
    if size == 1 || (case.operation == Operation::Scan && rank == 0) {
        let changes =
            matches!(case.op, Op::LogicalAnd | Op::LogicalOr) || case.dtype == DType::Bool;
        return vec![if changes { values.reduced(case.op, 1, vec![x[0]]) } else { x[0] }];
    }
    let mut order = Order { values, op: case.op, x: &x };
    match (algorithm, case.operation) {
        (Algorithm::Direct | Algorithm::TwoStep, Operation::Scan) => {
            vec![order.last(rank + 1, x[..=rank].to_vec())]
        }
        (Algorithm::Direct | Algorithm::TwoStep, _) => vec![order.last(size, x.clone())],
        (Algorithm::Ring, Operation::ReduceScatter) => {
            vec![order.ring(rank, 1), order.ring(rank, size - 1)]
        }
        (Algorithm::Ring, _) => (0..size)
            .flat_map(|block| [(block, 1), (block, size - 1)])
            .map(|(block, next)| order.ring(block, next))
            .collect(),
        (Algorithm::Logarithmic, Operation::AllReduce) => {
            let kept = 1 << size.ilog2();
            let folded = size - kept;
            // Leaves of the tree: pairs first, then single ranks.
            let leaves: Vec<Value> = (0..kept)
                .map(|place| match place < folded {
                    true => order.partial(vec![x[2 * place], x[2 * place + 1]]),
                    false => x[place + folded],
                })
                .collect();
            vec![order.tree(&leaves, size)]
        }
        (Algorithm::Logarithmic, Operation::Scan) => vec![order.prefix(rank, rank + 1)],
        (Algorithm::Logarithmic, Operation::ReduceScatter) => {
            // Bit-reversed: partners half the group apart combine first.
            let bits = size.ilog2();
            let leaves: Vec<Value> =
                (0..size).map(|i| x[i.reverse_bits() >> (usize::BITS - bits)]).collect();
            vec![order.tree(&leaves, size)]
        }
        (Algorithm::Logarithmic, Operation::Reduce) => {
            let turned: Vec<Value> = (0..size).map(|at| x[(case.root + at) % size]).collect();
            vec![order.binomial(&turned, Some(size))]
        }
        (algorithm, operation) => panic!("{operation} by {algorithm} sums nothing"),
    }
}

/// The documented orders of summation of one element.
struct Order<'a> {
    values: &'a mut Values,
    op: Op,
    x: &'a [Value],
}

impl Order<'_> {
    fn partial(&mut self, sources: Vec<Value>) -> Value {
        let op = if self.op == Op::Avg { Op::Sum } else { self.op };
        self.values.reduced(op, 1, sources)
    }

    fn last(&mut self, contributions: usize, sources: Vec<Value>) -> Value {
        let divisor = if self.op == Op::Avg { contributions as u32 } else { 1 };
        self.values.reduced(self.op, divisor, sources)
    }

    /// `((x(j+d) op x(j+2d)) op …) op x(j)`.
    fn ring(&mut self, block: usize, next: usize) -> Value {
        let size = self.x.len();
        let mut value = self.x[(block + next) % size];
        for hop in 2..=size {
            let sources = vec![value, self.x[(block + hop * next) % size]];
            value = if hop == size { self.last(size, sources) } else { self.partial(sources) };
        }
        value
    }

    /// A balanced tree over neighbours; the number of leaves is a power of two.
    fn tree(&mut self, leaves: &[Value], contributions: usize) -> Value {
        let mut level = leaves.to_vec();
        while level.len() > 2 {
            level = level.chunks(2).map(|pair| self.partial(pair.to_vec())).collect();
        }
        self.last(contributions, level)
    }

    /// In round k, what comes from 2ᵏ ranks below stands in front.
    fn prefix(&mut self, rank: usize, contributions: usize) -> Value {
        let mut have: Vec<Value> = self.x.to_vec();
        let mut distance = 1;
        let mut result = have[rank];
        while distance <= rank {
            let before = have.clone();
            for at in distance..self.x.len() {
                have[at] = self.partial(vec![before[at - distance], before[at]]);
            }
            result = if rank < 2 * distance {
                self.last(contributions, vec![before[rank - distance], before[rank]])
            } else {
                have[rank]
            };
            distance *= 2;
        }
        result
    }

    /// A rank's own contribution, then each subtree, nearest first.
    fn binomial(&mut self, x: &[Value], contributions: Option<usize>) -> Value {
        if x.len() == 1 {
            return x[0];
        }
        let mut sources = vec![x[0]];
        let mut at = 1;
        while at < x.len() {
            sources.push(self.binomial(&x[at..(2 * at).min(x.len())], None));
            at *= 2;
        }
        match contributions {
            Some(contributions) => self.last(contributions, sources),
            None => self.partial(sources),
        }
    }
}
