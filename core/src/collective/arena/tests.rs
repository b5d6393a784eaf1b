//! Every operation against a plain reference, with ranks that are threads.

mod cases;
mod faults;

use std::time::Duration;

use self::cases::{Case, cases};
use super::*;
use crate::bench_support::arena::{Policy, PolicyWaiter};
use crate::call::Call;
use crate::collective::{Pause, Stopped};
use crate::dtype::DType;
use crate::transport::arena::Geometry;

/// Small, so that little data takes many slots.
fn geometry(ranks: usize) -> Geometry {
    Geometry { ranks, small: 256, slot: [1024, 1024], depth: 3 }
}

fn waiter() -> PolicyWaiter {
    PolicyWaiter::new(Policy {
        spins: 0,
        yields: 20,
        nap: Duration::from_millis(5),
        patience: Duration::from_secs(30),
    })
}

/// Runs one closure per rank, each on its own thread.
fn on_ranks<T: Send>(
    geometry: Geometry,
    rank: impl Fn(usize, &mut ArenaGroup, &mut PolicyWaiter) -> T + Sync,
) -> Vec<T> {
    let arenas = ArenaGroup::in_process(geometry).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = arenas
            .into_iter()
            .map(|mut arena| {
                let run = &rank;
                scope.spawn(move || run(arena.rank(), &mut arena, &mut waiter()))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Runs all cases on ranks of one arena and compares every rank's every result.
fn check_all(geometry: Geometry, cases: &[Case]) {
    on_ranks(geometry, |rank, arena, waiter| {
        for (sequence, case) in cases.iter().enumerate() {
            let at = format!("rank {rank} of {}, case {sequence}: {case:?}", geometry.ranks);
            let result = case.perform(arena, waiter, sequence as u64);
            let result = result.unwrap_or_else(|error| panic!("{at}: {error}"));
            let expected = case.expected(rank);
            let differs = || result.iter().zip(&expected).position(|(got, want)| got != want);
            assert!(
                result == expected,
                "{at}: {} bytes of {}, first difference {:?}",
                result.len(),
                expected.len(),
                differs()
            );
        }
    });
}

fn check_sizes(sizes: &[usize]) {
    for &size in sizes {
        let geometry = geometry(size);
        check_all(geometry, &cases(&geometry));
    }
}

#[test]
fn one_to_four_ranks() {
    check_sizes(&[1, 2, 3, 4]);
}

#[test]
fn five_to_nine_ranks() {
    check_sizes(&[5, 6, 7, 8, 9]);
}

#[test]
fn thirteen_and_sixteen_ranks() {
    check_sizes(&[13, 16]);
}

#[test]
fn as_many_ranks_as_an_arena_joins() {
    let geometry = Geometry { small: 512, slot: [4096, 4096], ..geometry(MAX_RANKS) };
    let all = cases(&geometry);
    let some: Vec<_> = all.into_iter().step_by(41).collect();
    check_all(geometry, &some);
}

#[test]
fn every_type_and_operator_on_cards_and_in_lanes() {
    for size in [2, 5] {
        let geometry = geometry(size);
        let mut all = Vec::new();
        for (dtype, op) in crate::reduce::tests::pairs() {
            for operation in
                [Operation::AllReduce, Operation::ReduceScatter, Operation::Scan, Operation::Reduce]
            {
                for count in [7, 1111] {
                    for in_place in [false, true] {
                        let root = all.len() % size;
                        let op = Some(op);
                        let counts = Counts::Uniform(count);
                        all.push(Case { operation, dtype, op, root, counts, in_place, size });
                    }
                }
            }
        }
        check_all(geometry, &all);
    }
}

#[test]
fn bits_do_not_depend_on_size_or_way() {
    // The same elements as part of short and of long messages, in every operation that sums.
    let size = 5;
    let geometry = geometry(size);
    let case = |operation, count| Case {
        operation,
        dtype: DType::F32,
        op: Some(Op::Sum),
        root: 0,
        counts: Counts::Uniform(count),
        in_place: false,
        size,
    };
    let results = on_ranks(geometry, |_, arena, waiter| {
        let calls = [
            case(Operation::AllReduce, 10),
            case(Operation::AllReduce, 10_000),
            case(Operation::Reduce, 10),
            case(Operation::Reduce, 10_000),
            case(Operation::Scan, 10),
            case(Operation::Scan, 10_000),
        ];
        let perform = |(sequence, case): (usize, &Case)| {
            case.perform(arena, waiter, sequence as u64).unwrap()
        };
        calls.iter().enumerate().map(perform).collect::<Vec<_>>()
    });
    let reference = &results[0][0];
    for (rank, result) in results.iter().enumerate() {
        assert_eq!(result[0], *reference, "rank {rank}");
        assert_eq!(result[1][..40], *reference, "rank {rank}");
    }
    assert_eq!(results[0][2], *reference);
    assert_eq!(results[0][3][..40], *reference);
    assert_eq!(results[size - 1][4], *reference);
    assert_eq!(results[size - 1][5][..40], *reference);
}

/// A small generator; the same seed gives the same numbers on all ranks.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn ten_thousand_random_operations_with_skew_are_exact() {
    let size = 5;
    let geometry = geometry(size);
    on_ranks(geometry, |rank, arena, waiter| {
        let mut common = Random(42);
        let mut own = Random(rank as u64 * 7919 + 1);
        for sequence in 0..10_000 {
            let case = Case::random(size, &mut |bound| common.below(bound));
            match own.below(40) {
                0 => std::thread::sleep(Duration::from_micros(own.below(300))),
                1..=9 => (0..own.below(5)).for_each(|_| std::thread::yield_now()),
                _ => (),
            }
            let result = case.perform(arena, waiter, sequence).unwrap();
            assert!(result == case.expected(rank), "rank {rank} at {sequence}: {case:?}");
        }
    });
}
