//! One call of one operation on all ranks, with data that differs by rank and position, and the
//! check of what it gave.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use lycaon::{Algorithm, DType, Group, Op, Operation, Request, RequestCounts};

use super::number::{Number, rounds, with_number};
use super::{hash, mix};

/// What is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) dtype: DType,
    /// Also says which values are used where nothing is reduced.
    pub(crate) op: Op,
    pub(crate) root: usize,
    /// Elements per rank, or per block.
    pub(crate) count: usize,
    /// Every rank has a count of its own, drawn from 0 to `count`.
    pub(crate) by_rank: bool,
    pub(crate) in_place: bool,
    pub(crate) seed: u64,
}

/// Operations that a case can be made of.
pub(crate) const OPERATIONS: [Operation; 11] = [
    Operation::AllReduce,
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::Broadcast,
    Operation::Reduce,
    Operation::Gather,
    Operation::Scatter,
    Operation::AllToAll,
    Operation::Scan,
    Operation::SendRecv,
    Operation::Barrier,
];

pub(crate) fn reduces(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::AllReduce | Operation::ReduceScatter | Operation::Reduce | Operation::Scan
    )
}

pub(crate) fn has_root(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Broadcast | Operation::Reduce | Operation::Gather | Operation::Scatter
    )
}

pub(crate) fn has_counts(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::AllGather
            | Operation::ReduceScatter
            | Operation::Gather
            | Operation::Scatter
            | Operation::AllToAll
    )
}

pub(crate) fn has_in_place(operation: Operation) -> bool {
    !matches!(operation, Operation::Broadcast | Operation::SendRecv | Operation::Barrier)
}

/// How exactly the result is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Contributions meet in rank order: every bit is known.
    Rank,
    /// They may meet in an order of the algorithm's own, unless the group says that it takes one
    /// that keeps the order of the ranks.
    Any,
}

impl Case {
    fn counts(&self, size: usize) -> Vec<usize> {
        (0..size).map(|rank| self.uneven(rank, 0)).collect()
    }

    /// Elements from one rank to another in an all_to_all.
    fn exchanged(&self, from: usize, to: usize) -> usize {
        self.uneven(from, to + 1)
    }

    fn uneven(&self, rank: usize, other: usize) -> usize {
        if !self.by_rank {
            return self.count;
        }
        let draw = hash(self.seed ^ 0xc0, rank, other);
        match draw % 4 {
            0 => 0,
            1 => self.count,
            _ => ((draw >> 8) % (self.count as u64 + 1)) as usize,
        }
    }

    fn values<T: Number>(&self, rank: usize, range: std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len() * T::BYTES];
        for (chunk, at) in bytes.chunks_exact_mut(T::BYTES).zip(range) {
            self.value::<T>(rank, at).write(chunk);
        }
        bytes
    }

    fn value<T: Number>(&self, rank: usize, at: usize) -> T {
        T::value(self.op, hash(self.seed, rank, at))
    }

    /// Calls it and checks the result. The answer is a hash of this rank's result.
    pub(crate) fn run(&self, group: &Group, order: Order) -> Result<u64, String> {
        let order = if self.in_rank_order(group) { Order::Rank } else { order };
        with_number!(self.dtype, T => self.run_typed::<T>(group, order))
            .map_err(|problem| format!("rank {} in {self:?}: {problem}", group.rank()))
    }

    /// Whether the group takes an algorithm for this that combines in rank order.
    fn in_rank_order(&self, group: &Group) -> bool {
        let algorithm = group.algorithm(self.operation, (self.count * self.dtype.size()) as u64);
        let ordered =
            matches!(algorithm, Algorithm::Direct | Algorithm::TwoStep | Algorithm::Arena);
        !self.by_rank && reduces(self.operation) && ordered
    }

    fn run_typed<T: Number>(&self, group: &Group, order: Order) -> Result<u64, String> {
        let (rank, size) = (group.rank(), group.size());
        let mut request = Request::new(self.operation, self.dtype);
        if reduces(self.operation) {
            request = request.op(self.op);
        }
        if has_root(self.operation) {
            request = request.root(self.root);
        }
        let counts = self.counts(size);
        let offsets: Vec<usize> = (0..=size).map(|to| counts[..to].iter().sum()).collect();
        let whole = offsets[size];
        let own = offsets[rank]..offsets[rank + 1];
        let at_root = rank == self.root;
        let list = |counts: &[usize]| counts.iter().map(|count| *count as u64).collect();
        if self.by_rank {
            request = request.counts(match self.operation {
                Operation::AllGather | Operation::ReduceScatter => {
                    RequestCounts::All(list(&counts))
                }
                Operation::AllToAll => {
                    let send: Vec<usize> = (0..size).map(|to| self.exchanged(rank, to)).collect();
                    let recv: Vec<usize> = (0..size).map(|of| self.exchanged(of, rank)).collect();
                    RequestCounts::Exchange { send: list(&send), recv: list(&recv) }
                }
                _ if at_root => RequestCounts::AtRoot(list(&counts)),
                _ => RequestCounts::AtRoot(Vec::new()),
            });
        }
        let run = |input: Option<&[u8]>, output: Option<&mut [u8]>| {
            group.run(&request, input, output).map_err(|error| error.to_string())
        };
        // What was there before must not be taken for a result.
        let blank = |count: usize| vec![0xa5u8; count * T::BYTES];
        let mine = |range| self.values::<T>(rank, range);
        let everyone: Vec<usize> = (0..size).collect();

        let mut output;
        match self.operation {
            Operation::AllReduce | Operation::Scan => {
                output = if self.in_place { mine(0..self.count) } else { blank(self.count) };
                let input = mine(0..self.count);
                run((!self.in_place).then_some(&input), Some(&mut output))?;
                let until = if self.operation == Operation::Scan { rank + 1 } else { size };
                self.check_fold::<T>(&output, 0, &everyone[..until], order)?;
            }
            Operation::Reduce => {
                let input = mine(0..self.count);
                output = Vec::new();
                if at_root {
                    output = if self.in_place { input.clone() } else { blank(self.count) };
                    run((!self.in_place).then_some(&input), Some(&mut output))?;
                    self.check_fold::<T>(&output, 0, &everyone, order)?;
                } else {
                    run(Some(&input), None)?;
                    if input != mine(0..self.count) {
                        return Err("the input has changed".to_owned());
                    }
                }
            }
            Operation::ReduceScatter => {
                let input = mine(0..whole);
                if self.in_place {
                    let mut data = input;
                    run(None, Some(&mut data))?;
                    output = data[own.start * T::BYTES..own.end * T::BYTES].to_vec();
                } else {
                    output = blank(own.len());
                    run(Some(&input), Some(&mut output))?;
                }
                self.check_fold::<T>(&output, own.start, &everyone, order)?;
            }
            Operation::AllGather | Operation::Gather => {
                let receives = self.operation == Operation::AllGather || at_root;
                let input = mine(0..own.len());
                output = Vec::new();
                if receives {
                    output = blank(whole);
                    if self.in_place {
                        output[own.start * T::BYTES..own.end * T::BYTES].copy_from_slice(&input);
                    }
                    run((!self.in_place).then_some(&input), Some(&mut output))?;
                    let parts = (0..size).map(|of| (of, 0..counts[of]));
                    self.check_moved::<T>(&output, parts)?;
                } else {
                    run(Some(&input), None)?;
                }
            }
            Operation::Broadcast => {
                output = if at_root { mine(0..self.count) } else { blank(self.count) };
                run(None, Some(&mut output))?;
                self.check_moved::<T>(&output, [(self.root, 0..self.count)])?;
            }
            Operation::Scatter => {
                output = blank(own.len());
                if !at_root {
                    run(None, Some(&mut output))?;
                } else if self.in_place {
                    run(Some(&mine(0..whole)), None)?;
                    output.clear();
                } else {
                    run(Some(&mine(0..whole)), Some(&mut output))?;
                }
                if !(at_root && self.in_place) {
                    self.check_moved::<T>(&output, [(self.root, own)])?;
                }
            }
            Operation::AllToAll => {
                let sent = |from: usize, to: usize| -> usize {
                    (0..to).map(|to| self.exchanged(from, to)).sum()
                };
                let input = mine(0..sent(rank, size));
                let received: usize = (0..size).map(|of| self.exchanged(of, rank)).sum();
                // In place, the lengths have to be equal.
                let in_place = self.in_place && !self.by_rank;
                output = if in_place { input.clone() } else { blank(received) };
                run((!in_place).then_some(&input), Some(&mut output))?;
                let parts = (0..size).map(|of| {
                    let start = sent(of, rank);
                    (of, start..start + self.exchanged(of, rank))
                });
                self.check_moved::<T>(&output, parts)?;
            }
            Operation::SendRecv => {
                output = blank(self.count);
                if size > 1 {
                    let step = 1 + self.root % (size - 1);
                    let (to, from) = ((rank + step) % size, (rank + size - step) % size);
                    let input = mine(0..self.count);
                    let tag = self.seed as u32;
                    group
                        .send_recv_bytes(self.dtype, &input, to, &mut output, from, tag)
                        .map_err(|error| error.to_string())?;
                    self.check_moved::<T>(&output, [(from, 0..self.count)])?;
                }
            }
            Operation::Barrier => {
                output = Vec::new();
                run(None, None)?;
            }
            operation => panic!("{operation} makes no case"),
        }
        let digest = digest(&output);
        // All ranks have to have the same bits, also where the order of the sum is open.
        if self.operation == Operation::AllReduce && rounds(self.dtype, self.op) {
            let mut all = vec![0u64; size];
            group.all_gather(&[digest], &mut all).map_err(|error| error.to_string())?;
            if all.iter().any(|other| *other != all[0]) {
                return Err(format!("the bits differ between ranks: {all:x?}"));
            }
        }
        Ok(digest)
    }

    /// Checks a reduction of what stands from `start` on in the data of `ranks`.
    fn check_fold<T: Number>(
        &self,
        output: &[u8],
        start: usize,
        ranks: &[usize],
        order: Order,
    ) -> Result<(), String> {
        let mut values = Vec::with_capacity(ranks.len());
        let mut expected = vec![0; T::BYTES];
        for (at, bytes) in output.chunks_exact(T::BYTES).enumerate() {
            values.clear();
            values.extend(ranks.iter().map(|rank| self.value::<T>(*rank, start + at)));
            T::fold(self.op, &values).write(&mut expected);
            let good = expected == bytes
                || (order == Order::Any && T::near(self.op, &values, T::read(bytes)));
            if !good {
                let (got, want) = (T::read(bytes), T::read(&expected));
                return Err(format!(
                    "element {at} is {got:?} and not {want:?}, the {} of {values:?}",
                    self.op
                ));
            }
        }
        Ok(())
    }

    /// Checks that the output consists of these parts of the ranks' data.
    fn check_moved<T: Number>(
        &self,
        output: &[u8],
        parts: impl IntoIterator<Item = (usize, std::ops::Range<usize>)>,
    ) -> Result<(), String> {
        let mut chunks = output.chunks_exact(T::BYTES).enumerate();
        let mut expected = vec![0; T::BYTES];
        for (rank, range) in parts {
            for from in range {
                self.value::<T>(rank, from).moved().write(&mut expected);
                let (at, bytes) = chunks.next().ok_or("the output is too short")?;
                if expected != bytes {
                    let (got, want) = (T::read(bytes), T::read(&expected));
                    return Err(format!(
                        "element {at} is {got:?} and not {want:?}, element {from} of rank {rank}"
                    ));
                }
            }
        }
        match chunks.next() {
            None => Ok(()),
            Some((at, _)) => Err(format!("there is more output than the {at} elements expected")),
        }
    }
}

pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    mix(hasher.finish())
}
