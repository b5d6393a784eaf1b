//! Groups whose ranks are threads of this process.

use std::time::Duration;

use lycaon::{Algorithm, Group, InProcess, Op, Operation};

fn each<R: Send + 'static>(
    size: usize,
    options: &InProcess,
    body: impl Fn(Group) -> R + Send + Sync + Clone + 'static,
) -> Vec<R> {
    let threads: Vec<_> = lycaon::in_process(size, options)
        .expect("threads need nothing")
        .into_iter()
        .map(|group| {
            let body = body.clone();
            std::thread::spawn(move || body(group))
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
}

fn options(arena: bool, algorithm: Option<Algorithm>) -> InProcess {
    let mut options = InProcess::default();
    options.arena = arena;
    options.timeout = Duration::from_secs(20);
    if let Some(algorithm) = algorithm {
        options.algorithms = Operation::ALL.into_iter().map(|op| (op, algorithm)).collect();
    }
    options
}

#[test]
fn sums_over_every_algorithm() {
    for (arena, algorithm) in [
        (true, None),
        (false, Some(Algorithm::Direct)),
        (false, Some(Algorithm::TwoStep)),
        (false, Some(Algorithm::Ring)),
        (false, Some(Algorithm::Logarithmic)),
    ] {
        for size in [1, 2, 3, 5] {
            for count in [0usize, 1, 3, 1000, 300_001] {
                let results = each(size, &options(arena, algorithm), move |group| {
                    let mut data: Vec<i64> =
                        (0..count).map(|at| (at * 7 + group.rank() * 1000) as i64).collect();
                    group.all_reduce(&mut data, Op::Sum).expect("nothing fails");
                    let mut all = vec![0u16; 2 * size];
                    let own = [group.rank() as u16, 7 + group.rank() as u16];
                    group.all_gather(&own, &mut all).expect("nothing fails");
                    (data, all)
                });
                for (data, all) in results {
                    let ranks: usize = (0..size).map(|rank| rank * 1000).sum();
                    assert!(
                        data.iter()
                            .enumerate()
                            .all(|(at, value)| { *value == (at * 7 * size + ranks) as i64 })
                    );
                    let expected: Vec<u16> =
                        (0..size as u16).flat_map(|rank| [rank, 7 + rank]).collect();
                    assert_eq!(all, expected);
                }
            }
        }
    }
}

#[test]
fn messages_splits_and_background_work() {
    let results = each(5, &options(true, None), |group| {
        let (rank, size) = (group.rank(), group.size());
        let next = (rank + 1) % size;
        let before = (rank + size - 1) % size;
        let data: Vec<f32> = (0..200_000).map(|at| (at + rank) as f32).collect();
        let sent = group.send_async(data.clone(), next, 3).expect("starts");
        let mut got = vec![0f32; data.len()];
        group.recv(&mut got, before, 3).expect("arrives");
        assert_eq!(got[17], (17 + before) as f32);
        assert_eq!(sent.wait().expect("arrives"), data);
        let sub = group.split((rank % 2) as u32, -(rank as i64)).expect("splits");
        let mut sum = [rank as i32];
        sub.all_reduce(&mut sum, Op::Sum).expect("nothing fails");
        let work = group.all_reduce_async(vec![rank as i32; 10], Op::Max).expect("starts");
        let work2 = sub.all_gather_async(vec![rank as u8]).expect("starts");
        (sum[0], work2.wait().expect("done"), work.wait().expect("done")[9])
    });
    assert_eq!(results[0], (6, vec![4, 2, 0], 4));
    assert_eq!(results[3], (4, vec![3, 1], 4));
}

#[test]
fn counts_in_the_background_are_those_of_the_blocking_forms() {
    for arena in [true, false] {
        each(3, &options(arena, None), |group| {
            let rank = group.rank();
            let counts = [2usize, 0, 5];
            let mine = |length: usize| -> Vec<i32> {
                (0..length).map(|at| (at * 10 + rank * 1000) as i32 + 1).collect()
            };
            let done = |work: lycaon::Result<lycaon::Work<Vec<i32>>>| {
                work.expect("starts").wait().expect("nothing fails")
            };

            let mut expected = vec![0; 7];
            group.all_gather_v(&mine(counts[rank]), &mut expected, &counts).expect("nothing fails");
            assert_eq!(expected, [1, 11, 2001, 2011, 2021, 2031, 2041]);
            assert_eq!(done(group.all_gather_v_async(mine(counts[rank]), &counts)), expected);

            let mut expected = vec![0; counts[rank]];
            group
                .reduce_scatter_v(&mine(7), &mut expected, &counts, Op::Sum)
                .expect("nothing fails");
            assert_eq!(done(group.reduce_scatter_v_async(mine(7), &counts, Op::Sum)), expected);
            let first = [Some(3003), None, Some(3063)][rank];
            assert_eq!(expected.first().copied(), first);

            // Only the root has counts; the others get their own input back.
            let at_root = (rank == 2).then_some(&counts[..]);
            let mut expected = vec![0; 7];
            group
                .gather_v(&mine(counts[rank]), at_root.map(|counts| (&mut expected[..], counts)), 2)
                .expect("nothing fails");
            let expected = if rank == 2 { expected } else { mine(counts[rank]) };
            assert_eq!(done(group.gather_v_async(mine(counts[rank]), at_root, 2)), expected);

            let whole = mine(7);
            let mut expected = vec![0; counts[rank]];
            group
                .scatter_v(at_root.map(|counts| (&whole[..], counts)), &mut expected, 2)
                .expect("nothing fails");
            let input = at_root.map(|counts| (whole.clone(), counts));
            assert_eq!(done(group.scatter_v_async(input, counts[rank], 2)), expected);
            assert_eq!(expected.first().copied(), [Some(2001), None, Some(2021)][rank]);

            // Rank r sends r + i elements to rank i.
            let counts: Vec<usize> = (rank..rank + 3).collect();
            let input = mine(counts.iter().sum());
            let mut expected = vec![0; input.len()];
            group.all_to_all_v(&input, &counts, &mut expected, &counts).expect("nothing fails");
            assert_eq!(done(group.all_to_all_v_async(input, &counts, &counts)), expected);
            let last = if rank == 0 { 2011 } else { 2001 + 10 * [1, 4, 8][rank] };
            assert_eq!(expected.last().copied(), Some(last));

            // Wrong calls are errors of the caller alone, and nothing has been allocated for them.
            let error = |result: lycaon::Result<lycaon::Work<Vec<i32>>>| {
                result.map(|_| ()).expect_err("a wrong call").to_string()
            };
            error(group.all_gather_v_async(mine(2), &[2, usize::MAX, 5]));
            error(group.reduce_scatter_v_async(mine(2), &[2, 0], Op::Sum));
            error(group.reduce_scatter_v_async(mine(2), &[usize::MAX / 16; 3], Op::Sum));
            let (no_counts, counts) = (None, Some(&[2usize, 0, 5][..]));
            error(group.gather_v_async(mine(2), if rank == 2 { no_counts } else { counts }, 2));
            group.barrier().expect("the group goes on");
        });
    }
}

#[test]
fn a_mismatch_is_an_error_on_both_sides() {
    for arena in [true, false] {
        let results = each(2, &options(arena, None), |group| {
            let mut data = vec![group.rank() as f32; 4 + group.rank()];
            group.all_reduce(&mut data, Op::Sum)
        });
        for result in results {
            let text = result.expect_err("counts differ").to_string();
            assert!(
                text.contains("rank 0 is in all_reduce #0 (f32 × 4, sum)")
                    && text.contains("rank 1 in all_reduce #0 (f32 × 5, sum)"),
                "{text}"
            );
        }
    }
}

#[test]
fn a_logical_result_is_0_or_1_in_a_group_of_one_too() {
    let results = each(1, &options(true, None), |group| {
        let mut all = [0i32, 5, -7];
        group.all_reduce(&mut all, Op::LogicalAnd).expect("nothing fails");
        let mut into = [9u8; 2];
        group.scan_into(&[0, 200], &mut into, Op::LogicalOr).expect("nothing fails");
        (all, into)
    });
    assert_eq!(results, [([0, 1, 1], [0, 1])]);
}

#[test]
fn closing_ends_what_runs_in_the_background_at_once() {
    for arena in [true, false] {
        let mut groups =
            lycaon::in_process(2, &options(arena, None)).expect("threads need nothing");
        let other = groups.pop().expect("two groups");
        let group = groups.pop().expect("two groups");
        let work = group.barrier_async().expect("starts");
        std::thread::sleep(Duration::from_millis(50));
        let began = std::time::Instant::now();
        group.close();
        let error = work.wait().expect_err("the other rank never called");
        assert!(error.to_string().contains("closed"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        drop(other);
    }
}

#[test]
fn a_group_that_failed_first_is_closed_too() {
    let [first, second]: [lycaon::Group; 2] =
        lycaon::in_process(2, &InProcess::default()).unwrap().try_into().unwrap();
    first.set_timeout(Duration::from_millis(50));
    let error = first.recv(&mut [0u8], 1, 0).unwrap_err();
    assert_eq!(error.kind(), lycaon::error::ErrorKind::Deadline);
    assert!(!first.is_closed());
    first.close();
    assert!(first.is_closed() && !second.is_closed());
    // The first cause stays.
    assert!(matches!(*first.failure().unwrap(), lycaon::error::Cause::Deadline { .. }));
}

/// The last handle goes with the listener, on the group's own thread.
#[test]
fn a_listener_gets_the_result_and_may_let_go_of_the_group() {
    for arena in [true, false] {
        let (tell, told) = std::sync::mpsc::channel();
        let groups = lycaon::in_process(2, &options(arena, None)).expect("threads need nothing");
        for group in groups {
            let rank = group.rank();
            let sum = tell.clone();
            // The first is there before anybody listens, the second is not.
            let first = group.all_reduce_async(vec![rank as i64 + 3; 5], Op::Sum).expect("starts");
            let second = if rank == 0 {
                group.send_async(vec![7i64; 3], 1, 4).expect("starts")
            } else {
                group.recv_async(vec![0i64; 3], 0, 4).expect("starts")
            };
            std::thread::sleep(Duration::from_millis(50));
            first.on_end(move |result| sum.send((rank, "sum", result)).expect("heard"));
            let last = group.clone();
            let message = tell.clone();
            drop(group);
            second.on_end(move |result| {
                drop(last);
                message.send((rank, "message", result)).expect("heard");
            });
        }
        drop(tell);
        let mut results = Vec::new();
        while let Ok((rank, what, result)) = told.recv_timeout(Duration::from_secs(20)) {
            results.push((rank, what, result.expect("nothing fails")));
        }
        results.sort();
        let message = vec![7i64; 3];
        let sum = vec![7i64; 5];
        assert_eq!(
            results,
            [
                (0, "message", message.clone()),
                (0, "sum", sum.clone()),
                (1, "message", message),
                (1, "sum", sum)
            ]
        );
    }
}

#[test]
fn a_listener_gets_the_error() {
    let groups = lycaon::in_process(2, &options(true, None)).expect("threads need nothing");
    let (tell, told) = std::sync::mpsc::channel();
    let work = groups[0].recv_async(vec![0u8; 9], 1, 1).expect("starts");
    let late = groups[0].recv_async(vec![0u8; 9], 1, 2).expect("starts");
    work.on_end(move |result| tell.send(result).expect("heard"));
    groups[0].close();
    let error = told.recv_timeout(Duration::from_secs(5)).expect("told").expect_err("closed");
    assert!(error.to_string().contains("closed"), "{error}");
    // Who comes late is told on the spot.
    let (tell, told) = std::sync::mpsc::channel();
    late.on_end(move |result| tell.send(result).expect("heard"));
    assert!(told.try_recv().expect("at once").is_err());
}
