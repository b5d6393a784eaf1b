//! Runs the plans of all ranks of a group in one thread and checks everything about them.
//!
//! Memory holds expressions in place of numbers: which rank's element it is, or what has been
//! combined with what in which order. So a result says exactly how it came about. The model is
//! hostile: of all that could happen next a seeded generator picks anything; what is being written
//! counts as unreadable until it is done; scratch memory is forgotten between plans. Sends
//! complete either at any time after they were posted, or only together with the receive.
//!
//! Beside what happens to happen in a run, each plan is examined as it stands: any two steps that
//! touch a common byte, one of them writing, must be ordered by `after`.

mod expect;
mod matrix;
mod run;
mod textbook;

use std::collections::HashMap;

use super::{Algorithm, Counts, Limits, Problem};
use crate::call::Operation;
use crate::dtype::{DType, Op};

/// A value of the model: an index into [`Values`].
type Value = u32;

/// How a value came about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Term {
    /// Element `index` of what `rank` gave.
    Given { rank: usize, index: u64 },
    /// One reduction.
    Reduced { op: Op, divisor: u32, sources: Vec<Value> },
}

/// All values of a run, each once.
#[derive(Default)]
struct Values {
    terms: Vec<Term>,
    index: HashMap<Term, Value>,
}

impl Values {
    fn of(&mut self, term: Term) -> Value {
        *self.index.entry(term).or_insert_with_key(|term| {
            self.terms.push(term.clone());
            self.terms.len() as Value - 1
        })
    }

    fn given(&mut self, rank: usize, index: u64) -> Value {
        self.of(Term::Given { rank, index })
    }

    fn reduced(&mut self, op: Op, divisor: u32, sources: Vec<Value>) -> Value {
        self.of(Term::Reduced { op, divisor, sources })
    }

    fn text(&self, value: Value) -> String {
        match &self.terms[value as usize] {
            Term::Given { rank, index } => format!("x{rank}[{index}]"),
            Term::Reduced { op, divisor, sources } => {
                let sources: Vec<_> = sources.iter().map(|source| self.text(*source)).collect();
                let by = if *divisor == 1 { String::new() } else { format!("/{divisor}") };
                format!("({}){by}", sources.join(&format!(" {op} ")))
            }
        }
    }
}

/// When a send is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sends {
    /// At any time after it was posted.
    Eager,
    /// Together with the receive.
    Rendezvous,
}

/// One operation of a whole group.
#[derive(Clone, Debug)]
struct Case {
    operation: Operation,
    algorithm: Algorithm,
    size: usize,
    root: usize,
    in_place: bool,
    dtype: DType,
    op: Op,
    /// What all ranks together know: uniform, by rank, or a matrix of messages from row to
    /// column.
    counts: Layout,
    limits: Limits,
}

#[derive(Clone, Debug)]
enum Layout {
    Uniform(u64),
    ByRank(Vec<u64>),
    Matrix(Vec<Vec<u64>>),
}

impl Case {
    fn new(operation: Operation, algorithm: Algorithm, size: usize, count: u64) -> Self {
        Case {
            operation,
            algorithm,
            size,
            root: 0,
            in_place: false,
            dtype: DType::I32,
            op: Op::Sum,
            counts: Layout::Uniform(count),
            limits: Limits::default(),
        }
    }

    /// The operation as one rank sees it.
    fn problem(&self, rank: usize) -> Problem {
        let rooted = matches!(self.operation, Operation::Gather | Operation::Scatter);
        let counts = match &self.counts {
            Layout::Uniform(count) => Counts::Uniform(*count),
            Layout::ByRank(counts) if rooted && rank != self.root => Counts::Uniform(counts[rank]),
            Layout::ByRank(counts) => Counts::ByRank(counts.clone()),
            Layout::Matrix(rows) => Counts::Exchange {
                send: rows[rank].clone(),
                recv: rows.iter().map(|row| row[rank]).collect(),
            },
        };
        Problem {
            operation: self.operation,
            rank,
            size: self.size,
            dtype: self.dtype,
            op: self.reduces().then_some(self.op),
            root: self.root,
            counts,
            in_place: self.in_place,
        }
    }

    fn reduces(&self) -> bool {
        matches!(
            self.operation,
            Operation::AllReduce | Operation::ReduceScatter | Operation::Reduce | Operation::Scan
        )
    }

    /// Elements of a rank's block.
    fn block(&self, rank: usize) -> u64 {
        match &self.counts {
            Layout::Uniform(count) => *count,
            Layout::ByRank(counts) => counts[rank],
            Layout::Matrix(_) => panic!("a matrix has no blocks"),
        }
    }

    /// Where a rank's block begins among all blocks; for `size` their total.
    fn start(&self, rank: usize) -> u64 {
        (0..rank).map(|rank| self.block(rank)).sum()
    }

    /// Elements that one rank sends to another in all_to_all.
    fn message(&self, from: usize, to: usize) -> u64 {
        match &self.counts {
            Layout::Matrix(rows) => rows[from][to],
            Layout::Uniform(_) | Layout::ByRank(_) => self.block(to),
        }
    }
}
