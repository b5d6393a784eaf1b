//! Ranks that disagree, come late, or never.

use super::*;

fn case(operation: Operation, count: u64, size: usize) -> Case {
    let op = matches!(
        operation,
        Operation::AllReduce | Operation::Reduce | Operation::ReduceScatter | Operation::Scan
    );
    Case {
        operation,
        dtype: DType::F32,
        op: op.then_some(Op::Sum),
        root: 0,
        counts: Counts::Uniform(count),
        in_place: false,
        size,
    }
}

/// Rank 1 of 3 makes another call than the others: everybody learns of it, with both sides.
fn disagree(common: &Case, odd: &Case) {
    let names = [common.call(), odd.call()];
    let results = on_ranks(geometry(3), |rank, arena, waiter| {
        assert!(case(Operation::Barrier, 0, 3).perform(arena, waiter, 0).is_ok());
        let (mine, sequence) = if rank == 1 { (odd, 1) } else { (common, 1) };
        let result = mine.perform(arena, waiter, sequence);
        assert_eq!(
            case(Operation::Barrier, 0, 3).perform(arena, waiter, 2),
            Err(ArenaError::Stopped),
            "a failed arena stays failed"
        );
        result
    });
    for (rank, result) in results.into_iter().enumerate() {
        let Err(ArenaError::Mismatch { peer, local, remote }) = result else {
            panic!("rank {rank}: {result:?} for {common:?} and {odd:?}");
        };
        let (mine, theirs) = if rank == 1 { (1, 0) } else { (0, 1) };
        assert!(if rank == 1 { peer != 1 } else { peer == 1 }, "rank {rank} blames {peer}");
        assert_eq!((local.call, remote.call), (names[mine], names[theirs]), "rank {rank}");
    }
}

#[test]
fn any_two_different_operations_are_found_by_everybody() {
    for count in [3, 5000] {
        for (at, common) in Operation::ALL[..10].iter().enumerate() {
            let odd = Operation::ALL[(at + 3) % 10];
            disagree(&case(*common, count, 3), &case(odd, count, 3));
        }
    }
}

#[test]
fn different_counts_types_operators_and_roots_are_found_by_everybody() {
    for operation in Operation::ALL[..9].iter().copied() {
        for count in [3, 5000] {
            let common = case(operation, count, 3);
            disagree(&common, &Case { counts: Counts::Uniform(count + 1), ..common.clone() });
            disagree(&common, &Case { counts: Counts::Uniform(count * 900), ..common.clone() });
            disagree(&common, &Case { dtype: DType::I32, ..common.clone() });
            if common.op.is_some() {
                disagree(&common, &Case { op: Some(Op::Max), ..common.clone() });
            }
            if common.call().root.is_some() {
                disagree(&common, &Case { root: 1, ..common.clone() });
            }
        }
    }
}

#[test]
fn a_skipped_call_is_found_by_its_number() {
    let barrier = case(Operation::Barrier, 0, 4);
    let results = on_ranks(geometry(4), |rank, arena, waiter| {
        let skips = rank == 2;
        barrier.perform(arena, waiter, if skips { 8 } else { 7 })
    });
    for (rank, result) in results.into_iter().enumerate() {
        let Err(ArenaError::Mismatch { local, remote, .. }) = result else {
            panic!("rank {rank}: {result:?}")
        };
        let expected = if rank == 2 { (8, 7) } else { (7, 8) };
        assert_eq!((local.sequence, remote.sequence), expected);
    }
}

#[test]
fn counts_that_only_the_root_knows_are_checked_by_their_readers() {
    for count in [4, 5000] {
        for operation in [Operation::Gather, Operation::Scatter, Operation::AllToAll] {
            // Rank 2 thinks of one element more than the root (or everybody) expects of it.
            let counts = |extra: u64| match operation {
                Operation::AllToAll => {
                    Counts::Exchange { send: vec![count + extra; 3], recv: vec![] }
                }
                _ => Counts::ByRank(vec![count, count, count + extra]),
            };
            let with = |extra| Case { counts: counts(extra), ..case(operation, count, 3) };
            let results = on_ranks(geometry(3), |rank, arena, waiter| {
                struct Brief<'a>(&'a mut PolicyWaiter, u32);
                impl Waiter for Brief<'_> {
                    fn pause(&mut self, peer: usize) -> Result<Pause, Stopped> {
                        self.1 += 1;
                        if self.1 > 2000 { Err(Stopped) } else { self.0.pause(peer) }
                    }
                    fn moved(&mut self) {
                        self.0.moved();
                    }
                }
                let mine = with(u64::from(rank == 2));
                mine.perform(arena, &mut Brief(waiter, 0), 0)
            });
            // The one that reads what it does not expect says so.
            let reader = if operation == Operation::Scatter { 2 } else { 0 };
            let Err(ArenaError::Mismatch { peer, local, remote }) = &results[reader] else {
                panic!("{operation} × {count}: {:?}", results[reader]);
            };
            let (expected, given) =
                if reader == 2 { (count + 1, count) } else { (count, count + 1) };
            assert_eq!((local.call.count, remote.call.count), (expected, given));
            assert_eq!(*peer, if reader == 2 { 0 } else { 2 });
        }
    }
}

#[test]
fn a_missing_rank_is_waited_for_through_the_waiter_only() {
    struct Counting(Vec<usize>);
    impl Waiter for Counting {
        fn pause(&mut self, peer: usize) -> Result<Pause, Stopped> {
            self.0.push(peer);
            match self.0.len() {
                1..=3 => Ok(Pause::Spin),
                4..=6 => Ok(Pause::Yield),
                7..=9 => Ok(Pause::Sleep(Duration::from_millis(2))),
                _ => Err(Stopped),
            }
        }
        fn moved(&mut self) {
            panic!("nothing moved");
        }
    }
    for operation in Operation::ALL[..10].iter().copied() {
        for count in [2, 4000] {
            let mut arenas = ArenaGroup::in_process(geometry(3)).unwrap();
            let mut waiter = Counting(Vec::new());
            let result = case(operation, count, 3).perform(&mut arenas[0], &mut waiter, 0);
            assert_eq!(result, Err(ArenaError::Stopped));
            assert_eq!(waiter.0, [1; 10], "{operation}");
        }
    }
}

#[test]
fn a_late_rank_holds_up_and_nothing_else() {
    for operation in Operation::ALL[..10].iter().copied() {
        for (late, count) in [(0, 5), (1, 9000), (2, 40)] {
            let case = case(operation, count, 3);
            on_ranks(geometry(3), |rank, arena, waiter| {
                for sequence in 0..3 {
                    if rank == late {
                        std::thread::sleep(Duration::from_millis(8));
                    }
                    let result = case.perform(arena, waiter, sequence);
                    assert_eq!(result, Ok(case.expected(rank)));
                }
            });
        }
    }
}
