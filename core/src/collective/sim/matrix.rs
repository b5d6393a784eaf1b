//! Every operation × algorithm × size × root × counts × in place or not, and random cases on top.

use proptest::prelude::*;

use super::expect::check;
use super::{Case, Layout, Sends};
use crate::call::Operation;
use crate::collective::{Algorithm, Limits, Shape, effective, supports};
use crate::dtype::{DType, Op};

const SIZES: [usize; 18] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 32];

/// Limits that cut a few elements into many pieces and plans.
const TINY: Limits = Limits { chunk: 16, scratch: 512, eager: 0 };

/// Not even one element per message fits into the scratch memory.
const STARVED: Limits = Limits { chunk: 4, scratch: 1, eager: 0 };

/// Around the chunk of `TINY` in elements, and around nothing.
const COUNTS: [u64; 7] = [0, 1, 2, 3, 5, 16, 17];

const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Direct, Algorithm::TwoStep, Algorithm::Ring, Algorithm::Logarithmic];

/// Checks a case with both kinds of sends; the seed differs from case to case.
fn both(case: &Case) {
    let seed = case.size as u64 * 1000 + case.root as u64;
    for sends in [Sends::Eager, Sends::Rendezvous] {
        check(case, sends, seed);
    }
}

/// All algorithms that an operation has, for all sizes, counts and limits.
fn sweep(operation: Operation, rooted: bool, can_be_in_place: bool) {
    for size in SIZES {
        for algorithm in ALGORITHMS {
            if !supports(operation, algorithm, size, Shape::Uniform) {
                continue;
            }
            // Blocks of many ranks are long already.
            let counts = match operation {
                _ if size < 10 => &COUNTS[..],
                Operation::ReduceScatter => &[3, 5],
                _ => &[3, 17],
            };
            for &count in counts {
                for in_place in [false, true] {
                    if in_place && !can_be_in_place {
                        continue;
                    }
                    // Every root for some counts, some roots for every count.
                    let step = if count == 3 || size < 5 { 1 } else { size.div_ceil(2) + 1 };
                    let roots = if rooted { size } else { 1 };
                    for root in (0..roots).step_by(step) {
                        let mut case = Case::new(operation, algorithm, size, count);
                        (case.root, case.in_place) = (root, in_place);
                        both(&case);
                        case.limits = TINY;
                        both(&case);
                    }
                }
            }
            let mut case = Case::new(operation, algorithm, size, 5);
            case.limits = STARVED;
            both(&case);
        }
    }
}

/// Messages long enough for several plans.
fn long(operation: Operation, can_be_in_place: bool) {
    for size in [2, 3, 4, 7, 8] {
        for algorithm in ALGORITHMS {
            if !supports(operation, algorithm, size, Shape::Uniform) {
                continue;
            }
            for in_place in [false, can_be_in_place] {
                let mut case = Case::new(operation, algorithm, size, 1501);
                (case.in_place, case.root) = (in_place, size - 1);
                for limits in [TINY, Limits { chunk: 8, scratch: 4096, eager: 4 }] {
                    case.limits = limits;
                    let traffic = check(&case, Sends::Rendezvous, 7);
                    let most = traffic.iter().map(|t| t.longest_plan).max();
                    assert!(most <= Some(1200), "{operation} by {algorithm}: {most:?} steps");
                    // Only reductions and the packed trees need scratch memory.
                    let scratch = traffic.iter().map(|t| t.scratch).max();
                    assert!(scratch <= Some(limits.scratch.max(3 * size * 64)), "{scratch:?}");
                }
                if operation == Operation::AllReduce {
                    let traffic = check(&case, Sends::Eager, 8);
                    assert!(traffic[0].plans > 1, "{algorithm} on {size} has one plan only");
                }
            }
        }
    }
}

#[test]
fn all_reduce() {
    sweep(Operation::AllReduce, false, true);
    long(Operation::AllReduce, true);
}

#[test]
fn reduce_scatter() {
    sweep(Operation::ReduceScatter, false, true);
    long(Operation::ReduceScatter, true);
}

#[test]
fn all_gather() {
    sweep(Operation::AllGather, false, true);
    long(Operation::AllGather, true);
}

#[test]
fn broadcast() {
    sweep(Operation::Broadcast, true, false);
    long(Operation::Broadcast, false);
}

#[test]
fn reduce() {
    sweep(Operation::Reduce, true, true);
    long(Operation::Reduce, true);
}

#[test]
fn gather() {
    sweep(Operation::Gather, true, true);
    long(Operation::Gather, true);
}

#[test]
fn scatter() {
    sweep(Operation::Scatter, true, true);
    long(Operation::Scatter, true);
}

#[test]
fn all_to_all() {
    sweep(Operation::AllToAll, false, false);
    long(Operation::AllToAll, false);
}

#[test]
fn scan() {
    sweep(Operation::Scan, false, true);
    long(Operation::Scan, true);
}

#[test]
fn barrier() {
    sweep(Operation::Barrier, false, false);
}

/// Counts that differ by rank, with zeros at every place.
#[test]
fn counts_by_rank() {
    for operation in
        [Operation::AllGather, Operation::ReduceScatter, Operation::Gather, Operation::Scatter]
    {
        for size in [1, 2, 3, 4, 5, 8, 13] {
            for turn in 0..size {
                let counts: Vec<u64> =
                    (0..size).map(|rank| [0, 3, 1, 40, 0, 7][(rank + turn) % 6]).collect();
                // The counts of gather and scatter are the root's secret: only direct will do.
                let secret = matches!(operation, Operation::Gather | Operation::Scatter);
                let algorithms = if secret { &ALGORITHMS[..1] } else { &ALGORITHMS[..] };
                for &algorithm in algorithms {
                    for in_place in [false, true] {
                        for limits in [TINY, Limits::default()] {
                            let mut case = Case::new(operation, algorithm, size, 0);
                            case.counts = Layout::ByRank(counts.clone());
                            (case.in_place, case.limits) = (in_place, limits);
                            case.root = turn;
                            both(&case);
                        }
                    }
                }
            }
        }
    }
}

/// Each rank sends another count to each rank; some send nothing at all.
#[test]
fn exchange_of_differing_counts() {
    for size in [1, 2, 3, 5, 8] {
        let count = |from: usize, to: usize| match from {
            1 => 0,
            _ => (from * 5 + to * 3) as u64 % 7,
        };
        let rows = (0..size).map(|from| (0..size).map(|to| count(from, to)).collect()).collect();
        let mut case = Case::new(Operation::AllToAll, Algorithm::Direct, size, 0);
        case.counts = Layout::Matrix(rows);
        both(&case);
    }
}

/// Averages are divided once, and by the right number.
#[test]
fn averages_and_logical_operators() {
    for (dtype, op) in [(DType::F16, Op::Avg), (DType::Bool, Op::Sum), (DType::I64, Op::LogicalAnd)]
    {
        for operation in
            [Operation::AllReduce, Operation::ReduceScatter, Operation::Reduce, Operation::Scan]
        {
            for size in [1, 2, 3, 4, 6, 7, 8, 11] {
                for algorithm in ALGORITHMS {
                    for in_place in [false, true] {
                        for limits in [TINY, Limits::default()] {
                            let mut case = Case::new(operation, algorithm, size, 37);
                            (case.dtype, case.op) = (dtype, op);
                            (case.in_place, case.limits) = (in_place, limits);
                            case.root = size / 2;
                            both(&case);
                        }
                    }
                }
            }
        }
    }
}

/// What an operation does not have is replaced by something it has, alike on all ranks.
#[test]
fn every_request_is_answered() {
    for operation in Operation::ALL {
        if operation.is_point_to_point() || operation == Operation::Split {
            continue;
        }
        for algorithm in Algorithm::ALL {
            for size in [1, 2, 3, 8] {
                let case = Case::new(operation, algorithm, size, 5);
                let chosen = effective(&case.problem(0), algorithm);
                assert!(supports(operation, chosen, size, Shape::Uniform));
                let same = supports(operation, algorithm, size, Shape::Uniform);
                assert_eq!(chosen == algorithm, same, "{operation} by {algorithm}");
                both(&case);
            }
        }
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let operations = Operation::ALL
        .into_iter()
        .filter(|operation| !operation.is_point_to_point() && *operation != Operation::Split);
    let operation = proptest::sample::select(operations.collect::<Vec<_>>());
    let algorithm = proptest::sample::select(Algorithm::ALL.to_vec());
    let dtype = proptest::sample::select(vec![
        (DType::U8, Op::BitXor),
        (DType::F16, Op::Avg),
        (DType::F32, Op::Max),
        (DType::Complex128, Op::Sum),
    ]);
    let limits = (1..64_usize, 1..2000_usize, 0..64_usize);
    (operation, algorithm, 1..12_usize, any::<bool>(), dtype, limits, any::<u64>()).prop_flat_map(
        |(operation, algorithm, size, in_place, (dtype, op), (chunk, scratch, eager), layout)| {
            let uniform = (0..150_u64).prop_map(Layout::Uniform);
            let by_rank = proptest::collection::vec(0..30_u64, size).prop_map(Layout::ByRank);
            let rows = proptest::collection::vec(0..9_u64, size);
            let matrix = proptest::collection::vec(rows, size).prop_map(Layout::Matrix);
            let counts = match operation {
                Operation::AllToAll if layout % 2 == 0 => matrix.boxed(),
                Operation::AllGather
                | Operation::ReduceScatter
                | Operation::Gather
                | Operation::Scatter
                    if layout % 2 == 0 =>
                {
                    by_rank.boxed()
                }
                _ => uniform.boxed(),
            };
            (counts, 0..size).prop_map(move |(counts, root)| Case {
                operation,
                algorithm: match (operation, &counts) {
                    (Operation::Gather | Operation::Scatter, Layout::ByRank(_)) => {
                        Algorithm::Direct
                    }
                    _ => algorithm,
                },
                size,
                root,
                in_place: in_place && operation != Operation::AllToAll,
                dtype,
                op,
                counts,
                limits: Limits { chunk, scratch, eager },
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_cases(case in cases(), seed in any::<u64>(), eager in any::<bool>()) {
        check(&case, if eager { Sends::Eager } else { Sends::Rendezvous }, seed);
    }
}
