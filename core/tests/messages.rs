//! Messages between any two ranks, and operations in the background.

mod support;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use lycaon::{Group, Op, Work};

use support::processes::{Cluster, join_again, play};
use support::threads::{Way, bounded, run};
use support::{Random, hash};

const WITHIN: Duration = Duration::from_secs(120);

#[test]
fn child_main() {
    play(&[("all", everything_in_processes)]);
}

fn everything_in_processes() {
    use lycaon::error::LinkKind::{Shm, Tcp};
    for (kind, rails) in [(Shm, 1), (Tcp, 1), (Tcp, 3)] {
        let group =
            join_again(&format!("{kind}-{rails}"), |builder| builder.links([kind]).rails(rails));
        any_to_any(&group);
        rings_of_all_sizes(&group);
        collectives_beside_messages(&group);
        background_first_then_messages(&group);
        order_of_background_and_blocking(&group);
        threads_with_tags_of_their_own(&group);
    }
}

#[test]
fn everything_between_processes() {
    Cluster::start("all", 3, WITHIN, |_| Vec::new()).finish(&[]);
}

/// All ways of threads.
fn ways() -> [Way; 3] {
    [Way::memory(), Way::messages(None), Way::messages(None).weather(5)]
}

/// What rank `from` sends to `to` as message `number` on `tag`.
fn text(from: usize, to: usize, tag: u32, number: usize, len: usize) -> Vec<u32> {
    let seed = (u64::from(tag) << 32) + number as u64;
    (0..len).map(|at| hash(seed, from * 100 + to, at) as u32).collect()
}

/// Lengths around the eager limits, the fragment and the piece, in `u32`.
const LENGTHS: [usize; 12] = [
    0,
    1,
    1000,
    (16 << 10) / 4 - 1,
    (16 << 10) / 4,
    (16 << 10) / 4 + 1,
    (64 << 10) / 4,
    (64 << 10) / 4 + 1,
    (1 << 20) / 4,
    (1 << 20) / 4 + 1,
    3,
    0,
];

/// Every pair exchanges messages on several tags; the receiver asks for the tags in another order
/// than the sender sends.
fn any_to_any(group: &Group) {
    let (rank, size) = (group.rank(), group.size());
    let tags = [7, 0, u32::MAX];
    let mut sent = Vec::new();
    for to in (0..size).filter(|to| *to != rank) {
        for (number, len) in LENGTHS.into_iter().enumerate() {
            for tag in tags {
                let data = text(rank, to, tag, number, len);
                sent.push((data.clone(), group.send_async(data, to, tag).unwrap()));
            }
        }
    }
    for from in (0..size).rev().filter(|from| *from != rank) {
        for tag in tags.into_iter().rev() {
            for (number, len) in LENGTHS.into_iter().enumerate() {
                let mut into = vec![0xdead_beef; len];
                group.recv(&mut into, from, tag).unwrap();
                assert!(
                    into == text(from, rank, tag, number, len),
                    "message {number} from {from} to {rank} on tag {tag}"
                );
            }
        }
    }
    for (data, work) in sent {
        assert!(work.wait().unwrap() == data, "the sender gets its data back");
    }
}

#[test]
fn any_rank_to_any_rank_on_any_tag() {
    for way in ways() {
        for size in [2, 3, 5] {
            run(way.groups(size), WITHIN, |group| any_to_any(&group));
        }
    }
}

/// Everybody sends to the next and receives from the one before.
fn rings_of_all_sizes(group: &Group) {
    let (rank, size) = (group.rank(), group.size());
    let piece = (8 << 20) / 4;
    for (number, len) in LENGTHS.into_iter().chain([piece - 1, piece, piece + 1]).enumerate() {
        let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
        let mut into = vec![0; len];
        let data = text(rank, to, 1, number, len);
        group.send_recv(&data, to, &mut into, from, 1).unwrap();
        assert!(into == text(from, rank, 1, number, len), "{len} elements");
        // And back, of another length: the two directions are independent.
        let mut into = vec![0; len / 2];
        let data = text(rank, from, 2, number, len / 2);
        group.send_recv(&data, from, &mut into, to, 2).unwrap();
        assert!(into == text(to, rank, 2, number, len / 2), "{len} elements back");
    }
}

#[test]
fn rings_of_send_recv() {
    for way in ways() {
        for size in [2, 3, 4] {
            run(way.groups(size), WITHIN, |group| rings_of_all_sizes(&group));
        }
    }
}

/// `send_recv` with one peer, against `send` and `recv` on the other side.
#[test]
fn send_recv_meets_send_and_recv() {
    for way in ways() {
        run(way.groups(2), WITHIN, |group| {
            for (number, len) in LENGTHS.into_iter().enumerate() {
                let mut into = vec![0; len];
                if group.rank() == 0 {
                    let data = text(0, 1, 3, number, len);
                    group.send_recv(&data, 1, &mut into, 1, 3).unwrap();
                    assert!(into == text(1, 0, 3, number, len));
                } else {
                    group.recv(&mut into, 0, 3).unwrap();
                    assert!(into == text(0, 1, 3, number, len));
                    group.send(&text(1, 0, 3, number, len), 0, 3).unwrap();
                }
            }
        });
    }
}

#[test]
fn hundreds_outstanding() {
    const MANY: usize = 300;
    for way in ways() {
        for receiver_first in [true, false] {
            run(way.groups(2), WITHIN, move |group| {
                let rank = group.rank();
                let peer = 1 - rank;
                let len = |number: usize| (number * 37) % 6000;
                let send = || -> Vec<Work<Vec<u32>>> {
                    (0..MANY)
                        .map(|number| {
                            let tag = number as u32 % 5;
                            let data = text(rank, peer, tag, number, len(number));
                            group.send_async(data, peer, tag).unwrap()
                        })
                        .collect()
                };
                let recv = || -> Vec<Work<Vec<u32>>> {
                    (0..MANY)
                        .map(|number| {
                            let tag = number as u32 % 5;
                            group.recv_async(vec![0; len(number)], peer, tag).unwrap()
                        })
                        .collect()
                };
                let (sends, recvs);
                if receiver_first {
                    recvs = recv();
                    group.barrier().unwrap();
                    sends = send();
                } else {
                    sends = send();
                    group.barrier().unwrap();
                    recvs = recv();
                }
                for (number, work) in recvs.into_iter().enumerate().rev() {
                    let tag = number as u32 % 5;
                    let got = work.wait().unwrap();
                    assert!(got == text(peer, rank, tag, number, len(number)), "{number}");
                }
                for work in sends {
                    let _ = work.wait().unwrap();
                }
            });
        }
    }
}

/// A large message in the background that the other side takes before it joins the collective.
fn collectives_beside_messages(group: &Group) {
    let (rank, size) = (group.rank(), group.size());
    for round in 0..4 {
        for len in [10, 300_000] {
            let (sender, receiver) = (round % size, (round + 1) % size);
            let mut sum = vec![rank as u64 + 1; 5000];
            if rank == sender {
                let data = text(sender, receiver, 9, round, len);
                let message = group.send_async(data, receiver, 9).unwrap();
                let work = group.all_reduce_async(sum, Op::Sum).unwrap();
                sum = work.wait().unwrap();
                let _ = message.wait().unwrap();
            } else {
                if rank == receiver {
                    let mut into = vec![0; len];
                    group.recv(&mut into, sender, 9).unwrap();
                    assert!(into == text(sender, receiver, 9, round, len));
                }
                group.all_reduce(&mut sum, Op::Sum).unwrap();
            }
            assert_eq!(sum, vec![(size * (size + 1) / 2) as u64; 5000]);
        }
    }
}

/// As before, but the collective begins first: the message must not wait for it.
fn background_first_then_messages(group: &Group) {
    let (rank, size) = (group.rank(), group.size());
    for len in [10, 300_000] {
        let mut sum = vec![rank as u64 + 1; 3];
        if rank == 0 {
            let work = group.all_reduce_async(sum, Op::Sum).unwrap();
            // By now the collective waits for the others.
            std::thread::sleep(Duration::from_millis(20));
            let message = group.send_async(text(0, 1, 4, len, len), 1, 4).unwrap();
            let _ = message.wait().unwrap();
            let mut answer = [0u8];
            let message = group.recv_async(answer.to_vec(), 1, 4).unwrap();
            group.send(&[1u8], 1, 4).unwrap();
            answer.copy_from_slice(&message.wait().unwrap());
            assert_eq!(answer, [2]);
            sum = work.wait().unwrap();
        } else {
            if rank == 1 {
                let mut into = vec![0; len];
                group.recv(&mut into, 0, 4).unwrap();
                assert!(into == text(0, 1, 4, len, len));
                let mut question = [0u8];
                group.recv(&mut question, 0, 4).unwrap();
                group.send(&[question[0] + 1], 0, 4).unwrap();
            }
            group.all_reduce(&mut sum, Op::Sum).unwrap();
        }
        assert_eq!(sum, vec![(size * (size + 1) / 2) as u64; 3]);
    }
}

#[test]
fn messages_pass_collectives() {
    for way in ways() {
        for size in [2, 3] {
            run(way.groups_with(size, Duration::from_secs(5)), WITHIN, |group| {
                collectives_beside_messages(&group);
                background_first_then_messages(&group);
            });
        }
    }
}

/// Collectives run in the order of the calls, whichever kind they are.
fn order_of_background_and_blocking(group: &Group) {
    let (rank, size) = (group.rank(), group.size());
    for round in 0..20u64 {
        let value = round * 10 + rank as u64;
        let first = group.all_reduce_async(vec![value; 2000], Op::Max).unwrap();
        let mut all = vec![0; size];
        group.all_gather(&[value], &mut all).unwrap();
        // The blocking one was after the first, so that has ended.
        assert!(first.is_done());
        let second = group.broadcast_async(vec![value], round as usize % size).unwrap();
        let third = group.scan_async(vec![value], Op::Sum).unwrap();
        group.barrier().unwrap();
        assert!(second.is_done() && third.is_done());
        assert_eq!(second.signature().sequence + 1, third.signature().sequence);
        let max = round * 10 + size as u64 - 1;
        assert_eq!(first.wait().unwrap(), vec![max; 2000]);
        assert_eq!(all, (0..size as u64).map(|of| round * 10 + of).collect::<Vec<_>>());
        assert_eq!(second.wait().unwrap(), [round * 10 + round % size as u64]);
        let sum: u64 = (0..=rank as u64).map(|of| round * 10 + of).sum();
        assert_eq!(third.wait().unwrap(), [sum]);
    }
}

#[test]
fn background_and_blocking_keep_the_order_of_the_calls() {
    for way in ways() {
        for size in [1, 2, 4] {
            run(way.groups(size), WITHIN, |group| order_of_background_and_blocking(&group));
        }
    }
}

/// Blocking messages of several threads of one rank, each with its own tag, beside collectives.
fn threads_with_tags_of_their_own(group: &Group) {
    let (rank, size) = (group.rank(), group.size());
    std::thread::scope(|scope| {
        for tag in 0..4 {
            scope.spawn(move || {
                let mut random = Random::new(u64::from(tag));
                for number in 0..30 {
                    let len = random.pick(&[0, 5, 900, 5000, 40_000]);
                    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
                    let mut into = vec![0; len];
                    let data = text(rank, to, tag, number, len);
                    group.send_recv(&data, to, &mut into, from, tag).unwrap();
                    assert!(into == text(from, rank, tag, number, len), "{tag} {number}");
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..30 {
                let mut data = vec![rank as i64; 3000];
                group.all_reduce(&mut data, Op::Sum).unwrap();
                assert_eq!(data, vec![(size * (size - 1) / 2) as i64; 3000]);
            }
        });
    });
}

#[test]
fn many_threads_of_one_rank() {
    for way in ways() {
        for size in [2, 3] {
            run(way.groups(size), WITHIN, |group| threads_with_tags_of_their_own(&group));
        }
    }
}

#[test]
fn waiting_for_work() {
    for way in ways() {
        run(way.groups(2), WITHIN, |group| {
            if group.rank() == 0 {
                let work = group.recv_async(vec![0u16; 4], 1, 0).unwrap();
                assert!(!work.is_done());
                let began = Instant::now();
                assert!(!work.wait_for(Duration::from_millis(40)).unwrap());
                assert!(began.elapsed() >= Duration::from_millis(40));
                assert!(work.error().is_none());
                group.barrier().unwrap();
                assert!(work.wait_for(Duration::from_secs(20)).unwrap());
                assert!(work.is_done() && work.error().is_none());
                assert_eq!(work.wait().unwrap(), [1, 2, 3, 4]);
            } else {
                group.barrier().unwrap();
                group.send(&[1u16, 2, 3, 4], 0, 0).unwrap();
            }
        });
    }
}

#[test]
fn dropped_work_goes_on() {
    for way in ways() {
        run(way.groups(2), WITHIN, |group| {
            let (rank, peer) = (group.rank(), 1 - group.rank());
            drop(group.send_async(text(rank, peer, 0, 0, 100_000), peer, 0).unwrap());
            drop(group.all_reduce_async(vec![1.5f32; 100_000], Op::Sum).unwrap());
            let mut into = vec![0; 100_000];
            group.recv(&mut into, peer, 0).unwrap();
            assert!(into == text(peer, rank, 0, 0, 100_000));
            let mut sum = [rank as i8 + 1];
            group.all_reduce(&mut sum, Op::Sum).unwrap();
            assert_eq!(sum, [3]);
            assert_eq!(group.progress().failed, 0);
        });
    }
}

/// Who closes a group with work under way does not wait, and neither does who holds the work.
#[test]
fn closing_a_group_ends_its_work() {
    for way in ways() {
        for operation in 0..3 {
            // All three are at the same place of the test.
            let together = Barrier::new(3);
            run(way.groups(3), WITHIN, move |group| {
                if group.rank() == 2 {
                    together.wait();
                    together.wait();
                    return;
                }
                let begin = |group: &Group| match operation {
                    0 => group.all_reduce_async(vec![1u8; 100_000], Op::Sum).unwrap(),
                    1 => group.recv_async(vec![0u8; 9], 2, 0).unwrap(),
                    _ => group.send_async(vec![0u8; 100_000], 2, 0).unwrap(),
                };
                let work = begin(&group);
                let other = begin(&group);
                std::thread::sleep(Duration::from_millis(20));
                assert!(!work.is_done());
                together.wait();
                let began = Instant::now();
                drop(other);
                group.close();
                assert!(began.elapsed() < Duration::from_secs(2), "close takes its time");
                let error = work.wait().unwrap_err().to_string();
                let good = |text: &str| text.contains("closed") || text.contains("has left");
                assert!(good(&error), "{error}");
                let again = group.all_reduce(&mut [1u8], Op::Sum).unwrap_err().to_string();
                assert!(good(&again), "{again}");
                drop(group);
                assert!(began.elapsed() < Duration::from_secs(2), "drop takes its time");
                together.wait();
            });
        }
    }
}

/// The same, where only the drop of the handle ends it.
#[test]
fn dropping_the_last_handle_does_not_wait() {
    for way in ways() {
        let groups = way.groups(2);
        let took = bounded(Duration::from_secs(20), "dropping two groups", move || {
            drop(groups[0].all_reduce_async(vec![1u8; 5], Op::Sum).unwrap());
            drop(groups[1].recv_async(vec![1u8; 5], 0, 1).unwrap());
            std::thread::sleep(Duration::from_millis(50));
            let began = Instant::now();
            drop(groups);
            began.elapsed()
        });
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
}

/// More than 2³¹ bytes in one message, in another one more than 2³² in all.
#[test]
fn messages_beyond_32_bits() {
    let len = (1usize << 31) + 4096 + 3;
    run(Way::memory().groups(2), WITHIN, move |group| {
        let places = [0, 1 << 20, (1 << 31) - 1, 1 << 31, len - 1];
        if group.rank() == 0 {
            let mut data = vec![0u8; len];
            for (number, place) in places.into_iter().enumerate() {
                data[place] = number as u8 + 1;
            }
            group.send(&data, 1, 0).unwrap();
            assert!(group.progress().bytes_sent >= len as u64);
        } else {
            let mut data = vec![0u8; len];
            group.recv(&mut data, 0, 0).unwrap();
            for (number, place) in places.into_iter().enumerate() {
                assert_eq!(data[place], number as u8 + 1, "{place}");
            }
            assert_eq!(data.iter().filter(|byte| **byte != 0).count(), places.len());
        }
    });
}
