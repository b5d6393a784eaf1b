//! Groups within groups.

mod support;

use std::time::Duration;

use lycaon::error::LinkKind;
use lycaon::{Group, Op};

use support::Random;
use support::case::{Case, Order};
use support::processes::{Cluster, join_again, number, play, var};
use support::threads::{Way, run};

const WITHIN: Duration = Duration::from_secs(120);

#[test]
fn child_main() {
    play(&[("split", split_in_processes)]);
}

fn ways() -> [Way; 3] {
    [Way::memory(), Way::messages(None), Way::messages(None).weather(3)]
}

/// Ranks 0, 1 and 2, 3 (and so on) on a host each, all on one, or TCP everywhere.
#[test]
fn splits_in_processes() {
    for (links, hosts) in [("shm", 1), ("tcp", 1), ("shm,tcp", 2), ("shm,tcp", 4)] {
        for size in [4, 8] {
            Cluster::start("split", size, WITHIN, |rank| {
                let host = rank * hosts / size;
                vec![
                    ("LYCAON_LINKS", links.to_owned()),
                    ("LYCAON_HOST_ID", format!("host-{host}")),
                    ("TEST_HOSTS", hosts.to_string()),
                ]
            })
            .finish(&[]);
        }
    }
}

fn split_in_processes() {
    let group = join_again("first", |builder| builder);
    let hosts = number("TEST_HOSTS") as usize;
    let links = var("LYCAON_LINKS");
    let host = |rank: usize| rank * hosts / group.size();
    for link in group.links() {
        let shares = links.contains("shm") && host(link.peer) == host(group.rank());
        let expected = if shares { LinkKind::Shm } else { LinkKind::Tcp };
        assert_eq!(link.kind, expected, "to rank {}", link.peer);
    }
    sampled(&group, 40);
    three_deep(&group);
    by_key_and_none(&group);
    at_the_same_time(&group);
    // One group per host, as a program with fast links inside of hosts makes them.
    let inside = group.split(host(group.rank()) as u32, 0).unwrap();
    assert!(inside.links().iter().all(|link| link.kind == LinkKind::Shm || !links.contains("shm")));
    sampled(&inside, 20);
    let across = group.split((group.rank() % (group.size() / hosts)) as u32, 0).unwrap();
    assert_eq!(across.size(), hosts);
    sampled(&across, 20);
    let again = join_again("second", |builder| builder);
    drop(group);
    // The sub-groups keep their links when the group they came from has gone.
    sampled(&inside, 5);
    sampled(&across, 5);
    sampled(&again, 5);
}

/// Random operations with a reference.
fn sampled(group: &Group, cases: usize) {
    let mut random = Random::new(group.members().iter().sum::<usize>() as u64);
    for _ in 0..cases {
        let case = Case::draw_any(&mut random, group.size());
        case.run(group, Order::Any)
            .unwrap_or_else(|why| panic!("among {:?}: {why}", group.members()));
    }
}

fn three_deep(group: &Group) {
    let rank = group.rank();
    let parity = group.split((rank % 2) as u32, 0).unwrap();
    let expected: Vec<usize> = (0..group.size()).filter(|other| other % 2 == rank % 2).collect();
    assert_eq!(parity.members(), expected);
    assert_eq!(expected[parity.rank()], group.members()[rank]);
    // Counted from the end, and in reverse order.
    let half =
        parity.split((parity.rank() * 2 / parity.size()) as u32 + 40, -(rank as i64)).unwrap();
    let alone = half.split(half.rank() as u32, 0).unwrap();
    assert_eq!((alone.size(), alone.rank()), (1, 0));
    assert_eq!(alone.members(), [group.members()[rank]]);
    assert!(half.members().windows(2).all(|pair| pair[0] > pair[1]));
    for round in 0..3 {
        sampled(&half, 6);
        sampled(&group.clone(), 3);
        sampled(&alone, 3);
        if round == 1 {
            // Dropped here and made again: an id is never used twice.
            let short = parity.split(0, 0).unwrap();
            sampled(&short, 3);
        }
        sampled(&parity, 6);
    }
}

fn by_key_and_none(group: &Group) {
    let (rank, size) = (group.rank(), group.size());
    // Keys that turn the order around, with equal ones in rank order.
    let turned = group.split(0, -((rank / 2) as i64)).unwrap();
    let mut expected: Vec<usize> = (0..size).collect();
    expected.sort_by_key(|of| (-((of / 2) as i64), *of));
    assert_eq!(turned.members(), expected);
    let mut all = vec![0; size];
    turned.all_gather(&[rank as u32], &mut all).unwrap();
    assert_eq!(all, expected.iter().map(|of| *of as u32).collect::<Vec<_>>());
    // A rank without a colour is in no group.
    let some = group.split_optional((rank != 1).then_some(u32::MAX), i64::MIN).unwrap();
    assert_eq!(some.is_none(), rank == 1);
    if let Some(some) = some {
        assert_eq!(some.size(), size - 1);
        sampled(&some, 5);
    }
    let nobody = group.split_optional(None, 0).unwrap();
    assert!(nobody.is_none());
    group.barrier().unwrap();
}

/// Threads that work in different groups at the same time, each at its own pace.
fn at_the_same_time(group: &Group) {
    let rank = group.rank();
    let parity = group.split((rank % 2) as u32, 0).unwrap();
    let low = group.split((rank < group.size() / 2) as u32, 0).unwrap();
    std::thread::scope(|scope| {
        let one = scope.spawn(|| sampled(&parity, 30));
        let two = scope.spawn(|| sampled(&low, 30));
        let three = scope.spawn(|| {
            for round in 0..40u32 {
                let mut data = vec![round + rank as u32; 700];
                group.all_reduce(&mut data, Op::Sum).unwrap();
                let ranks = (group.size() * (group.size() - 1) / 2) as u32;
                assert_eq!(data, vec![round * group.size() as u32 + ranks; 700]);
            }
        });
        for thread in [one, two, three] {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    // In the background of both at once.
    let first = parity.all_reduce_async(vec![rank as i64; 10_000], Op::Max).unwrap();
    let second = low.all_gather_async(vec![rank as u8; 3]).unwrap();
    let members = |of: &Group| of.members().to_vec();
    let max = members(&parity).into_iter().max().unwrap() as i64;
    assert_eq!(second.wait().unwrap().len(), 3 * low.size());
    assert_eq!(first.wait().unwrap(), vec![max; 10_000]);
}

#[test]
fn splits_of_threads() {
    for way in ways() {
        for size in [4, 5, 8] {
            run(way.groups(size), WITHIN, |group| {
                three_deep(&group);
                by_key_and_none(&group);
                at_the_same_time(&group);
            });
        }
    }
}

#[test]
fn a_split_of_one_rank() {
    run(Way::memory().groups(1), WITHIN, |group| {
        let sub = group.split(3, 9).unwrap();
        assert_eq!((sub.size(), sub.members()), (1, &[0][..]));
        sampled(&sub, 30);
        assert!(group.split_optional(None, 0).unwrap().is_none());
        let deeper = sub.split(0, 0).unwrap();
        drop(group);
        sampled(&deeper, 10);
    });
}

/// What goes wrong in a sub-group poisons that sub-group and no other.
#[test]
fn an_error_in_a_sub_group_stays_there() {
    for way in ways() {
        run(way.groups(4), WITHIN, |group| {
            let rank = group.rank();
            let pair = group.split((rank / 2) as u32, 0).unwrap();
            if rank < 2 {
                let mut data = vec![1u8; 1 + rank];
                let error = pair.all_reduce(&mut data, Op::Sum).unwrap_err().to_string();
                assert!(error.contains("called different things"), "{error}");
                assert!(pair.failure().is_some());
                let again = pair.barrier().unwrap_err().to_string();
                assert!(again.contains("called different things"), "{again}");
            } else {
                sampled(&pair, 10);
                assert!(pair.failure().is_none());
            }
            assert!(group.failure().is_none());
            sampled(&group, 10);
            let other = group.split((rank % 2) as u32, 0).unwrap();
            sampled(&other, 10);
        });
    }
}

#[test]
fn ranks_that_split_and_ranks_that_do_not() {
    for way in ways() {
        run(way.groups(2), WITHIN, |group| {
            let error = if group.rank() == 0 {
                group.split(0, 0).unwrap_err().to_string()
            } else {
                group.barrier().unwrap_err().to_string()
            };
            assert!(error.contains("split #0") && error.contains("barrier #0"), "{error}");
        });
    }
}
