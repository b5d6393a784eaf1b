//! Messages and bytes of every rank are those that the documentation of the algorithms states.

use super::expect::check;
use super::run::{Traffic, examine};
use super::{Case, Sends};
use crate::call::Operation;
use crate::collective::{Algorithm, Limits, log2_ceil, log2_floor, schedule};

/// One piece per message, so that messages can be counted.
const WHOLE: Limits = Limits { chunk: 1 << 30, scratch: 1 << 34, eager: 1 << 30 };

fn traffic(operation: Operation, algorithm: Algorithm, size: usize, count: u64) -> Vec<Traffic> {
    let mut case = Case::new(operation, algorithm, size, count);
    case.limits = WHOLE;
    check(&case, Sends::Rendezvous, 1)
}

/// Every rank sends and receives the same: messages and bytes.
fn each(operation: Operation, algorithm: Algorithm, size: usize, count: u64, of: (usize, u64)) {
    for (rank, t) in traffic(operation, algorithm, size, count).iter().enumerate() {
        let sent = (t.messages_sent, t.sent);
        let received = (t.messages_received, t.received);
        let wanted = (of.0 as u64, of.1);
        assert_eq!(sent, wanted, "{operation} by {algorithm}: rank {rank} of {size} sends");
        assert_eq!(received, wanted, "{operation} by {algorithm}: rank {rank} of {size} receives");
    }
}

#[test]
fn algorithms_that_treat_all_ranks_alike() {
    for p in [2, 3, 4, 5, 8, 13, 16] {
        // A count that all ranks can share equally.
        let count = 3 * p as u64;
        let n = 4 * count;
        let others = p as u64 - 1;
        let one = n / p as u64;
        use Algorithm::{Direct, Logarithmic, Ring, TwoStep};
        each(Operation::AllReduce, Direct, p, count, (p - 1, n * others));
        each(Operation::AllReduce, TwoStep, p, count, (2 * (p - 1), 2 * one * others));
        each(Operation::AllReduce, Ring, p, count, (2 * (p - 1), 2 * one * others));
        each(Operation::ReduceScatter, Direct, p, count, (p - 1, n * others));
        each(Operation::ReduceScatter, Ring, p, count, (p - 1, n * others));
        each(Operation::AllGather, Direct, p, count, (p - 1, n * others));
        each(Operation::AllGather, Ring, p, count, (p - 1, n * others));
        each(Operation::AllToAll, Direct, p, count, (p - 1, n * others));
        each(Operation::Barrier, Direct, p, 0, (p - 1, 0));
        each(Operation::Barrier, Logarithmic, p, 0, (log2_ceil(p), 0));
        if p.is_power_of_two() {
            let rounds = log2_floor(p);
            each(Operation::AllReduce, Logarithmic, p, count, (rounds, n * rounds as u64));
            each(Operation::ReduceScatter, Logarithmic, p, count, (rounds, n * others));
            each(Operation::AllGather, Logarithmic, p, count, (rounds, n * others));
        }
    }
}

#[test]
fn an_uneven_message_costs_no_more_than_its_longest_part() {
    for p in [2_usize, 3, 5, 8] {
        for count in [1, 2, 17, 1001_u64] {
            let longest = count.div_ceil(p as u64) * 4;
            for algorithm in [Algorithm::TwoStep, Algorithm::Ring] {
                let all = traffic(Operation::AllReduce, algorithm, p, count);
                let total: u64 = all.iter().map(|t| t.sent).sum();
                assert_eq!(total, 2 * (p as u64 - 1) * count * 4, "{algorithm} on {p}: {count}");
                assert!(all.iter().all(|t| t.sent <= 2 * (p as u64 - 1) * longest));
            }
        }
    }
}

#[test]
fn folding_costs_the_extra_ranks_one_message_each_way() {
    for p in [3, 5, 6, 7, 12, 13] {
        let (count, n) = (7, 28);
        let rounds = log2_floor(p) as u64;
        let folded = p - (1 << rounds);
        for (rank, t) in
            traffic(Operation::AllReduce, Algorithm::Logarithmic, p, count).iter().enumerate()
        {
            let messages = match rank {
                rank if rank >= 2 * folded => rounds,
                rank if rank % 2 == 0 => 1,
                _ => rounds + 1,
            };
            assert_eq!((t.messages_sent, t.sent), (messages, messages * n), "rank {rank} of {p}");
            assert_eq!((t.messages_received, t.received), (messages, messages * n));
        }
    }
}

#[test]
fn bruck_sends_every_block_once_in_the_fewest_rounds() {
    for p in [3, 5, 6, 7, 12, 13] {
        let n = 4 * 5;
        for t in traffic(Operation::AllGather, Algorithm::Logarithmic, p, 5) {
            assert_eq!((t.sent, t.received), (n * (p as u64 - 1), n * (p as u64 - 1)));
            // Blocks on both sides of the wrap are two messages.
            let rounds = log2_ceil(p) as u64;
            assert!((rounds..=2 * rounds).contains(&t.messages_sent));
        }
    }
}

#[test]
fn rooted_algorithms() {
    for p in [2, 3, 4, 5, 8, 13] {
        let (count, others) = (12 * (p as u64 - 1) * p as u64, p as u64 - 1);
        let n = 4 * count;
        let rounds = log2_ceil(p) as u64;
        let root = |operation, algorithm| {
            let all = traffic(operation, algorithm, p, count);
            let sent: u64 = all.iter().map(|t| t.messages_sent).sum();
            (all[0], sent)
        };
        use Algorithm::{Direct, Logarithmic, Ring, TwoStep};
        let (t, all) = root(Operation::Broadcast, Direct);
        assert_eq!((t.messages_sent, t.sent, all), (others, n * others, others));
        let (t, all) = root(Operation::Broadcast, Ring);
        assert_eq!((t.messages_sent, t.sent, all), (1, n, others));
        let (t, all) = root(Operation::Broadcast, Logarithmic);
        assert_eq!((t.messages_sent, t.sent, all), (rounds, n * rounds, others));
        let (t, all) = root(Operation::Broadcast, TwoStep);
        assert_eq!((t.messages_sent, t.sent, all), (others, n, others * others));

        let (t, all) = root(Operation::Reduce, Direct);
        assert_eq!((t.messages_received, t.received, all), (others, n * others, others));
        let (t, all) = root(Operation::Reduce, Logarithmic);
        assert_eq!((t.messages_received, t.received, all), (rounds, n * rounds, others));
        let (t, all) = root(Operation::Reduce, TwoStep);
        let part = n / p as u64;
        assert_eq!((t.messages_received, t.received), (2 * others, 2 * part * others));
        assert_eq!(all, p as u64 * others + others);

        for (operation, sends) in [(Operation::Gather, false), (Operation::Scatter, true)] {
            for (algorithm, messages) in [(Direct, others), (Logarithmic, rounds)] {
                let (t, all) = root(operation, algorithm);
                let found = if sends {
                    (t.messages_sent, t.sent)
                } else {
                    (t.messages_received, t.received)
                };
                assert_eq!(found, (messages, n * others), "{operation} by {algorithm} on {p}");
                assert_eq!(all, others);
            }
        }
    }
}

#[test]
fn scans() {
    for p in [2, 3, 5, 8] {
        let (count, n) = (6, 24);
        for (rank, t) in traffic(Operation::Scan, Algorithm::Direct, p, count).iter().enumerate() {
            assert_eq!((t.messages_received, t.received), (rank as u64, rank as u64 * n));
        }
        let all = traffic(Operation::Scan, Algorithm::Logarithmic, p, count);
        for (rank, t) in all.iter().enumerate() {
            let rounds = log2_ceil(rank + 1) as u64;
            assert_eq!((t.messages_received, t.received), (rounds, rounds * n));
        }
    }
}

/// Where blocks are long, half of each travels the other way: twice the messages, the same bytes.
#[test]
fn a_ring_uses_both_directions_for_long_blocks() {
    for p in [2, 3, 5] {
        for operation in [Operation::AllReduce, Operation::ReduceScatter, Operation::AllGather] {
            let mut case = Case::new(operation, Algorithm::Ring, p, 20 * p as u64);
            case.limits = Limits { eager: 8, ..WHOLE };
            case.limits.chunk = 1 << 20;
            let hops = if operation == Operation::AllReduce { 2 } else { 1 } * (p as u64 - 1);
            let block = if operation == Operation::AllReduce { 80 } else { 80 * p as u64 };
            for t in check(&case, Sends::Rendezvous, 3) {
                assert_eq!(t.sent, hops * block);
                assert_eq!(t.messages_sent % (hops * if p > 2 { 2 } else { 1 }), 0);
            }
        }
    }
}

/// The first and the last plans of the largest messages there can be: counts do not overflow, and
/// plans and scratch memory stay small.
#[test]
fn huge_messages_have_small_plans() {
    let count = (1_u64 << 59) - 1;
    let limits = Limits::default();
    for p in [2, 3, 8, 32] {
        for operation in Operation::ALL {
            let uniform = match operation {
                Operation::AllReduce
                | Operation::Broadcast
                | Operation::Reduce
                | Operation::Scan => count,
                Operation::AllGather
                | Operation::ReduceScatter
                | Operation::Gather
                | Operation::Scatter
                | Operation::AllToAll => count / p as u64,
                _ => continue,
            };
            for algorithm in Algorithm::ALL {
                let case = Case::new(operation, algorithm, p, uniform);
                for rank in [0, p - 1] {
                    let plans = || schedule(&case.problem(rank), algorithm, &limits);
                    let number = plans().size_hint().0;
                    assert!(plans().nth(number).is_none());
                    for index in [0, 1, number / 2, number - 1] {
                        let Some(plan) = plans().nth(index) else { continue };
                        assert!(plan.scratch <= limits.scratch, "{operation} by {algorithm}");
                        assert!(
                            plan.steps.len() <= 2100,
                            "{operation} by {algorithm} on {p}: {} steps",
                            plan.steps.len()
                        );
                        let elements = usize::try_from(count).expect("64 bits");
                        examine(&case, rank, &plan, elements, elements);
                    }
                }
            }
        }
    }
}
