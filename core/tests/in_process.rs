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
