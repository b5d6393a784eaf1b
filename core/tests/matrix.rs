//! Every operation with every element type, operator, kind of link, algorithm, size of group, size
//! of data, root and form, compared with a reference on one thread.
//!
//! Small dimensions are crossed in full; of the rest a seeded sample is drawn. A failure prints the
//! case.

mod support;

use std::time::Duration;

use half::{bf16, f16};
use lycaon::{Algorithm, DType, Op, Operation};

use support::Random;
use support::case::{Case, OPERATIONS, Order, has_in_place, has_root, reduces};
use support::number::operators;
use support::processes::{Cluster, join_again, number, play};
use support::sample::{EDGES, order};
use support::threads::{Way, run};

const WITHIN: Duration = Duration::from_secs(240);

/// Sizes of groups.
const SIZES: [usize; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16];

#[test]
fn child_main() {
    play(&[("sample", sample_in_processes)]);
}

/// Runs the cases on threads and returns the digests of each rank's results.
fn try_all(way: Way, size: usize, cases: Vec<Case>) -> Vec<Vec<u64>> {
    let order = if way.rank_order { Order::Rank } else { order(way.algorithm) };
    run(way.groups(size), WITHIN, move |group| {
        cases
            .iter()
            .map(|case| match case.run(&group, order) {
                Ok(digest) => digest,
                Err(problem) => panic!("{way:?}, {size} ranks, {problem}"),
            })
            .collect()
    })
}

#[test]
fn every_element_type_with_every_operator() {
    for size in [1, 2, 3, 5] {
        for (number, way) in Way::ALL.into_iter().enumerate() {
            let mut cases = Vec::new();
            for operation in OPERATIONS {
                for dtype in DType::ALL {
                    let operators = operators(dtype);
                    let tried = if reduces(operation) { operators.len() } else { 1 };
                    for op in operators.into_iter().take(tried) {
                        cases.push(Case {
                            operation,
                            dtype,
                            op,
                            root: cases.len() % size,
                            count: 3,
                            by_rank: false,
                            in_place: has_in_place(operation) && cases.len() % 2 == 0,
                            seed: (size * 1000 + number) as u64,
                        });
                    }
                }
            }
            try_all(way, size, cases);
        }
    }
}

#[test]
fn every_root_in_every_form() {
    let ways = [
        Way::memory(),
        Way::messages(Some(Algorithm::Direct)),
        Way::messages(Some(Algorithm::TwoStep)),
        Way::messages(Some(Algorithm::Ring)),
        Way::messages(Some(Algorithm::Logarithmic)),
    ];
    for size in SIZES {
        for (number, way) in ways.into_iter().enumerate() {
            let mut cases = Vec::new();
            for operation in OPERATIONS.into_iter().filter(|operation| has_root(*operation)) {
                for root in 0..size {
                    for count in [0, 1, 77] {
                        for form in 0..4 {
                            let (in_place, by_rank) = (form & 1 == 1, form & 2 == 2);
                            let by_rank = by_rank && support::case::has_counts(operation);
                            let in_place = in_place && has_in_place(operation);
                            cases.push(Case {
                                operation,
                                dtype: DType::ALL[(cases.len() * 7 + number) % 15],
                                op: Op::Sum,
                                root,
                                count,
                                by_rank,
                                in_place,
                                seed: cases.len() as u64,
                            });
                        }
                    }
                }
            }
            try_all(way, size, cases);
        }
    }
}

#[test]
fn sizes_at_which_something_changes() {
    for size in [2, 3, 5] {
        for (number, way) in Way::ALL.into_iter().enumerate() {
            let mut random = Random::new((size * 100 + number) as u64);
            let mut cases = Vec::new();
            for edge in EDGES {
                // The edge may be one of a rank's data, or of all of it.
                let draws = if edge <= 256 << 10 { 6 } else { 2 };
                for _ in 0..draws {
                    let bytes = if random.chance(2) { edge } else { edge / size };
                    cases.push(Case::draw_at_edge(&mut random, size, bytes));
                }
            }
            try_all(way, size, cases);
        }
    }
}

#[test]
fn a_sample_of_everything_on_threads() {
    for size in SIZES {
        for (number, way) in Way::ALL.into_iter().enumerate() {
            let mut random = Random::new((size * 100 + number + 7000) as u64);
            // Links of some groups deliver late and in pieces.
            let way = if random.chance(2) { way.weather(random.next()) } else { way };
            let cases = (0..150).map(|_| Case::draw_any(&mut random, size)).collect();
            try_all(way, size, cases);
        }
    }
}

#[test]
fn rank_order_on_request() {
    for size in [2, 3, 4, 7] {
        for arena in [false, true] {
            let mut random = Random::new(size as u64);
            let way = Way { arena, rank_order: true, ..Way::default() };
            let mut cases = Vec::new();
            for (dtype, bytes) in [(DType::F32, 20), (DType::F16, 40_000), (DType::Bf16, 700_000)] {
                for operation in OPERATIONS.into_iter().filter(|operation| reduces(*operation)) {
                    let count = bytes / dtype.size() / size;
                    let case = Case::draw_of(&mut random, size, count, dtype);
                    cases.push(Case { operation, op: Op::Sum, by_rank: false, ..case });
                }
            }
            try_all(way, size, cases);
        }
    }
}

#[test]
fn the_same_bits_in_every_run() {
    let ways = [
        Way::messages(None),
        Way::messages(Some(Algorithm::Ring)),
        Way::messages(Some(Algorithm::Logarithmic)),
        Way::memory(),
    ];
    for size in [2, 3, 6] {
        for way in ways {
            let mut random = Random::new(size as u64);
            let mut cases = Vec::new();
            for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64, DType::Complex64] {
                for operation in OPERATIONS.into_iter().filter(|operation| reduces(*operation)) {
                    for count in [1, 1000, 40_001] {
                        let case = Case::draw_of(&mut random, size, count, dtype);
                        cases.push(Case { operation, op: Op::Sum, by_rank: false, ..case });
                    }
                }
            }
            let calm = try_all(way, size, cases.clone());
            let stormy = try_all(way.weather(99), size, cases);
            assert_eq!(calm, stormy, "{way:?}, {size} ranks");
        }
    }
}

#[test]
fn sums_of_two_byte_floats_are_rounded_once() {
    // One large and many small: rounding at every step would lose all of the small ones.
    for way in [Way::memory(), Way::messages(Some(Algorithm::Direct))] {
        for (large, small) in [(256.0f32, 0.5f32), (-256.0, -0.5)] {
            run(way.groups(9), WITHIN, move |group| {
                let own = if group.rank() == 0 { large } else { small };
                let mut data = [bf16::from_f32(own); 5];
                group.all_reduce(&mut data, Op::Sum).unwrap();
                assert_eq!(data, [bf16::from_f32(large + 8.0 * small); 5]);
                let mut data = vec![f16::from_f32(own * 8.0); 20_000];
                group.all_reduce(&mut data, Op::Sum).unwrap();
                assert!(data.iter().all(|v| *v == f16::from_f32(8.0 * large + 64.0 * small)));
            });
        }
    }
}

#[test]
fn not_a_number_and_signed_zeros_whatever_their_rank() {
    for way in Way::ALL {
        for size in [2, 3, 5] {
            run(way.groups(size), WITHIN, move |group| {
                let rank = group.rank();
                for odd in 0..size {
                    for count in [1, 9, 5000] {
                        let mut data: Vec<f32> = (0..count).map(|at| (at + rank) as f32).collect();
                        if rank == odd {
                            data[count / 2] = f32::NAN;
                        }
                        for op in [Op::Min, Op::Max, Op::Sum] {
                            let mut result = data.clone();
                            group.all_reduce(&mut result, op).unwrap();
                            assert!(result[count / 2].is_nan(), "{op}, NaN on rank {odd}");
                            let others =
                                result.iter().enumerate().filter(|(at, _)| *at != count / 2);
                            assert!(others.clone().all(|(_, value)| !value.is_nan()));
                            let bits: Vec<u32> =
                                result.iter().map(|value| value.to_bits()).collect();
                            let mut all = vec![0; size];
                            let digest = support::case::digest(
                                &bits.iter().flat_map(|b| b.to_ne_bytes()).collect::<Vec<u8>>(),
                            );
                            group.all_gather(&[digest], &mut all).unwrap();
                            assert!(all.iter().all(|d| *d == all[0]), "{op}: {all:x?}");
                        }
                        let zero = |here: f64, there: f64| if rank == odd { here } else { there };
                        let mut low = vec![zero(-0.0, 0.0); count];
                        group.all_reduce(&mut low, Op::Min).unwrap();
                        assert!(low.iter().all(|value| value.is_sign_negative()));
                        let mut high = vec![zero(0.0, -0.0); count];
                        group.all_reduce(&mut high, Op::Max).unwrap();
                        assert!(high.iter().all(|value| value.is_sign_positive()));
                        let mut half = vec![f16::from_f64(zero(f64::NAN, 1.0)); count];
                        group.all_reduce(&mut half, Op::Max).unwrap();
                        assert!(half.iter().all(|value| value.is_nan()));
                    }
                }
            });
        }
    }
}

/// Nobody leaves a barrier before the last has come.
#[test]
fn barriers_hold_everybody_back() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    for way in Way::ALL {
        for size in [2, 3, 7] {
            let here = Arc::new(AtomicUsize::new(0));
            run(way.groups(size), WITHIN, move |group| {
                let mut random = Random::new(group.rank() as u64);
                for round in 1..=30 {
                    if random.chance(8) {
                        std::thread::sleep(Duration::from_micros(random.next() % 2000));
                    }
                    here.fetch_add(1, Ordering::SeqCst);
                    group.barrier().unwrap();
                    let seen = here.load(Ordering::SeqCst);
                    assert!(seen >= round * size, "{way:?}: round {round} with {seen} arrivals");
                }
            });
        }
    }
}

#[test]
fn the_typed_methods() {
    for way in [Way::memory(), Way::messages(None)] {
        for size in [1, 2, 3] {
            run(way.groups(size), WITHIN, typed_methods);
        }
    }
}

fn typed_methods(group: lycaon::Group) {
    let (rank, size) = (group.rank(), group.size());
    // Element `at` of rank `of`.
    let one = |of: usize, at: usize| (100 * of + at) as i32;
    let part = |of: usize, range: std::ops::Range<usize>| -> Vec<i32> {
        range.map(|at| one(of, at)).collect()
    };
    let sum = |ranks: usize, range: std::ops::Range<usize>| -> Vec<i32> {
        range.map(|at| (0..ranks).map(|of| one(of, at)).sum()).collect()
    };
    let all = |each: usize| -> Vec<i32> { (0..size).flat_map(|of| part(of, 0..each)).collect() };
    let counts: Vec<usize> = (0..size).map(|of| (of * 2) % 3).collect();
    let offset: usize = counts[..rank].iter().sum();
    let total: usize = counts.iter().sum();
    let uneven: Vec<i32> = (0..size).flat_map(|of| part(of, 0..counts[of])).collect();
    let root = size - 1;
    let is_root = rank == root;

    let mut data = part(rank, 0..4);
    group.all_reduce(&mut data, Op::Sum).unwrap();
    assert_eq!(data, sum(size, 0..4));
    let mut out = [0; 4];
    group.all_reduce_into(&part(rank, 0..4), &mut out, Op::Sum).unwrap();
    assert_eq!(out.to_vec(), data);
    let work = group.all_reduce_async(part(rank, 0..4), Op::Sum).unwrap();
    assert_eq!(work.wait().unwrap(), data);

    let mut out = vec![0; 2 * size];
    group.all_gather(&part(rank, 0..2), &mut out).unwrap();
    assert_eq!(out, all(2));
    let mut out = vec![0; 2 * size];
    out[2 * rank..2 * rank + 2].copy_from_slice(&part(rank, 0..2));
    group.all_gather_in_place(&mut out).unwrap();
    assert_eq!(out, all(2));
    let mut out = vec![0; total];
    group.all_gather_v(&part(rank, 0..counts[rank]), &mut out, &counts).unwrap();
    assert_eq!(out, uneven);
    assert_eq!(group.all_gather_async(part(rank, 0..2)).unwrap().wait().unwrap(), all(2));

    let input = part(rank, 0..2 * size);
    let mut out = [0; 2];
    group.reduce_scatter(&input, &mut out, Op::Sum).unwrap();
    assert_eq!(out.to_vec(), sum(size, 2 * rank..2 * rank + 2));
    let mut data = input.clone();
    let range = group.reduce_scatter_in_place(&mut data, Op::Sum).unwrap();
    assert_eq!(range, 2 * rank..2 * rank + 2);
    assert_eq!(data[range], out);
    let work = group.reduce_scatter_async(input.clone(), Op::Sum).unwrap();
    assert_eq!(work.wait().unwrap(), out);
    let mut out = vec![0; counts[rank]];
    group.reduce_scatter_v(&part(rank, 0..total), &mut out, &counts, Op::Sum).unwrap();
    assert_eq!(out, sum(size, offset..offset + counts[rank]));

    let mut data = part(rank, 0..3);
    group.broadcast(&mut data, root).unwrap();
    assert_eq!(data, part(root, 0..3));
    let work = group.broadcast_async(part(rank, 0..3), root).unwrap();
    assert_eq!(work.wait().unwrap(), part(root, 0..3));

    let mut data = part(rank, 0..3);
    group.reduce(&mut data, Op::Sum, root).unwrap();
    assert_eq!(data, if is_root { sum(size, 0..3) } else { part(rank, 0..3) });
    let mut out = [0; 3];
    group.reduce_into(&part(rank, 0..3), is_root.then_some(&mut out), Op::Sum, root).unwrap();
    assert_eq!(out.to_vec(), if is_root { sum(size, 0..3) } else { vec![0; 3] });
    let work = group.reduce_async(part(rank, 0..3), Op::Sum, root).unwrap();
    assert_eq!(work.wait().unwrap(), data);

    let mut out = vec![0; 2 * size];
    group.gather(&part(rank, 0..2), is_root.then_some(&mut out), root).unwrap();
    assert_eq!(out, if is_root { all(2) } else { vec![0; 2 * size] });
    let mut out = vec![0; total];
    let own = part(rank, 0..counts[rank]);
    let given: Option<(&mut [i32], &[usize])> =
        if is_root { Some((&mut out, &counts)) } else { None };
    group.gather_v(&own, given, root).unwrap();
    assert_eq!(out, if is_root { uneven.clone() } else { vec![0; total] });
    let work = group.gather_async(part(rank, 0..2), root).unwrap();
    assert_eq!(work.wait().unwrap(), if is_root { all(2) } else { part(rank, 0..2) });

    let input = part(rank, 0..2 * size);
    let mut out = [0; 2];
    group.scatter(is_root.then_some(&input), &mut out, root).unwrap();
    assert_eq!(out.to_vec(), part(root, 2 * rank..2 * rank + 2));
    let work = group.scatter_async(is_root.then(|| input.clone()), 2, root).unwrap();
    assert_eq!(work.wait().unwrap(), out);
    let whole = part(rank, 0..total);
    let mut out = vec![0; counts[rank]];
    let given: Option<(&[i32], &[usize])> = if is_root { Some((&whole, &counts)) } else { None };
    group.scatter_v(given, &mut out, root).unwrap();
    assert_eq!(out, part(root, offset..offset + counts[rank]));

    let mut out = vec![0; 2 * size];
    let expected: Vec<i32> = (0..size).flat_map(|of| part(of, 2 * rank..2 * rank + 2)).collect();
    group.all_to_all(&input, &mut out).unwrap();
    assert_eq!(out, expected);
    let mut data = input.clone();
    group.all_to_all_in_place(&mut data).unwrap();
    assert_eq!(data, expected);
    assert_eq!(group.all_to_all_async(input).unwrap().wait().unwrap(), expected);
    // Rank i sends j + 1 elements to rank j.
    let send: Vec<usize> = (1..=size).collect();
    let recv = vec![rank + 1; size];
    let mut out = vec![0; size * (rank + 1)];
    group.all_to_all_v(&part(rank, 0..send.iter().sum()), &send, &mut out, &recv).unwrap();
    let start = rank * (rank + 1) / 2;
    let expected: Vec<i32> = (0..size).flat_map(|of| part(of, start..start + rank + 1)).collect();
    assert_eq!(out, expected);

    let mut data = part(rank, 0..3);
    group.scan(&mut data, Op::Sum).unwrap();
    assert_eq!(data, sum(rank + 1, 0..3));
    let mut out = [0; 3];
    group.scan_into(&part(rank, 0..3), &mut out, Op::Sum).unwrap();
    assert_eq!(out.to_vec(), data);
    assert_eq!(group.scan_async(part(rank, 0..3), Op::Sum).unwrap().wait().unwrap(), data);

    group.barrier().unwrap();
    group.barrier_async().unwrap().wait().unwrap();
}

/// What a caller may get wrong is found at the call, on that rank, and the group goes on.
#[test]
fn wrong_arguments_leave_the_group_as_it_is() {
    use lycaon::error::ArgumentError as Wrong;
    for size in [1, 3] {
        run(Way::memory().groups(size), WITHIN, move |group| {
            let wrong = |result: lycaon::Result<()>| match result {
                Err(lycaon::Error::Argument(wrong)) => wrong,
                other => panic!("no wrong argument: {other:?}"),
            };
            let (mut data, mut out) = ([1.0f32; 6], [0.0f32; 5]);
            let unsupported = wrong(group.all_reduce(&mut data, Op::BitAnd));
            assert_eq!(unsupported, Wrong::Unsupported { op: Op::BitAnd, dtype: DType::F32 });
            let length = wrong(group.all_reduce_into(&data, &mut out, Op::Sum));
            assert_eq!(length, Wrong::Length { what: "output", expected: 6, actual: 5 });
            let root = wrong(group.broadcast(&mut data, size));
            assert_eq!(root, Wrong::NoSuchRank { what: "root", rank: size, size });
            let root = wrong(group.gather(&data, Some(&mut out), size + 5));
            assert_eq!(root, Wrong::NoSuchRank { what: "root", rank: size + 5, size });
            let own = wrong(group.send(&data, group.rank(), 0));
            assert_eq!(own, Wrong::SelfMessage { what: "destination", rank: group.rank() });
            let nobody = wrong(group.recv(&mut data, size, 0));
            assert_eq!(nobody, Wrong::NoSuchRank { what: "source", rank: size, size });
            let list = wrong(group.all_gather_v(&data, &mut out, &[1; 9]));
            assert_eq!(list, Wrong::Counts { what: "counts", actual: 9, size });
            let huge = vec![usize::MAX; size];
            if size > 1 {
                let sum = wrong(group.all_gather_v(&data, &mut out, &huge));
                assert_eq!(sum, Wrong::TooLarge { what: "counts" });
                let share = wrong(group.all_to_all_in_place(&mut out));
                assert_eq!(share, Wrong::Indivisible { what: "input", count: 5, size });
            }
            assert!(group.failure().is_none());
            group.all_reduce(&mut data, Op::Sum).unwrap();
            assert_eq!(data, [size as f32; 6]);
        });
    }
}

#[test]
fn algorithms_by_name() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.name().parse::<Algorithm>().unwrap(), algorithm);
        let way = Way { arena: true, algorithm: Some(algorithm), ..Way::default() };
        let groups = way.groups(2);
        assert_eq!(groups[1].algorithm(Operation::AllReduce, 1000), algorithm);
        // Asking never fails, also where there is nothing to choose.
        for operation in Operation::ALL {
            for bytes in [0, 1, u64::MAX] {
                let _ = groups[0].algorithm(operation, bytes);
            }
        }
    }
}

/// One group of processes per size; in it one group per kind of link and algorithm.
#[test]
fn a_sample_of_everything_in_processes() {
    for size in SIZES {
        let cases = if size > 9 { 30 } else { 80 };
        Cluster::start("sample", size, WITHIN, |_| vec![("TEST_CASES", cases.to_string())])
            .finish(&[]);
    }
}

fn sample_in_processes() {
    use lycaon::error::LinkKind::{Shm, Tcp};
    for (links, rails) in [(vec![Shm], 1), (vec![Tcp], 1), (vec![Tcp], 2), (vec![Shm, Tcp], 1)] {
        for algorithm in [None].into_iter().chain(Algorithm::ALL.into_iter().map(Some)) {
            if algorithm == Some(Algorithm::Arena) && links == [Tcp] {
                continue;
            }
            if rails > 1 && !matches!(algorithm, None | Some(Algorithm::Ring)) {
                continue;
            }
            if links.len() > 1 && algorithm.is_some() {
                continue;
            }
            let name = format!("{links:?}-{rails}-{algorithm:?}");
            let group = join_again(&name, |builder| {
                let builder = builder.links(links.clone()).rails(rails);
                match algorithm {
                    Some(algorithm) => builder.algorithm(None, algorithm),
                    None => builder,
                }
            });
            let size = group.size();
            for link in group.links() {
                assert_eq!(link.kind, links[0], "to rank {}", link.peer);
            }
            let mut random = Random::new(size as u64 * 31 + name.len() as u64);
            for _ in 0..number("TEST_CASES") {
                let case = Case::draw_any(&mut random, size);
                case.run(&group, order(algorithm)).unwrap_or_else(|why| panic!("{name}: {why}"));
            }
            group.barrier().unwrap();
        }
    }
}
