//! The same with ranks that are threads.

use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use lycaon::error::Cause;
use lycaon::{Error, Group, InProcess, Op};

/// Runs five ranks with their sub-groups of two and three; all within a minute.
fn five(arena: bool, body: impl Fn(Group, Group) + Clone + Send + 'static) {
    let mut options = InProcess::default();
    options.arena = arena;
    options.timeout = Duration::from_secs(30);
    let (done, ended) = mpsc::channel();
    for world in lycaon::in_process(5, &options).expect("threads need nothing") {
        let (body, done) = (body.clone(), done.clone());
        std::thread::spawn(move || {
            let color = u32::from(world.rank() >= 2);
            let sub = world.split(color, 0).expect("the group is split");
            body(world, sub);
            let _ = done.send(());
        });
    }
    drop(done);
    for _ in 0..5 {
        ended.recv_timeout(Duration::from_secs(60)).expect("every rank ends well and in time");
    }
}

fn sums(group: &Group, count: usize) {
    for number in 0..count {
        let mut data: Vec<i64> = (0..10).map(|at| (at * group.rank() + number) as i64).collect();
        group.all_reduce(&mut data, Op::Sum).expect("nothing fails");
        let ranks: usize = (0..group.size()).sum();
        let expected: Vec<i64> =
            (0..10).map(|at| (at * ranks + number * group.size()) as i64).collect();
        assert_eq!(data, expected);
    }
}

fn cause(result: lycaon::Result<()>) -> Arc<Cause> {
    match result {
        Err(Error::Operation(error)) => error.cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mismatch_concerns_one_group_of_threads() {
    for arena in [true, false] {
        five(arena, |world, sub| {
            if world.rank() < 2 {
                sums(&sub, 300);
            } else {
                let mut data = vec![1.0f32; 5_000 + world.rank() / 4];
                let first = cause(sub.all_reduce(&mut data, Op::Sum));
                assert!(matches!(*first, Cause::Mismatch { .. }), "{first}");
                assert_eq!(cause(sub.barrier()), first);
                assert!(world.failure().is_none());
            }
            sums(&world, 20);
        });
    }
}

#[test]
fn a_rank_that_leaves_concerns_the_groups_it_was_in() {
    for arena in [true, false] {
        let met = Arc::new(Barrier::new(4));
        five(arena, move |world, sub| {
            sums(&world, 3);
            let rank = world.rank();
            if rank == 3 {
                return drop((world, sub));
            }
            if rank >= 2 {
                let first = cause(sub.barrier());
                assert_eq!(*first, Cause::RankLeft { rank: 3 });
            } else {
                sums(&sub, 300);
            }
            met.wait();
            // The others have told, so that nobody has to find out again.
            assert_eq!(world.failure().as_deref(), Some(&Cause::RankLeft { rank: 3 }));
            assert_eq!(*cause(world.barrier()), Cause::RankLeft { rank: 3 });
            if rank < 2 {
                sums(&sub, 10);
                assert!(sub.failure().is_none());
            }
        });
    }
}
