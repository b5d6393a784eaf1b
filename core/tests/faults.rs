//! What goes wrong while a group is used: processes that die, stop or leave, links that break, waits
//! that are given up.

mod support;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use lycaon::error::Cause;
use lycaon::interrupt::with_interrupt;
use lycaon::trace::Outcome;
use lycaon::{Error, Group, Op, Result};
use rustix::process::Signal;

use support::processes::{Cluster, join_again, play, say, var};
use support::threads::{Way, run};

const WITHIN: Duration = Duration::from_secs(60);

/// How soon everybody has to know of a death, in milliseconds.
const SOON: u64 = 1000;

const LINKS: [&str; 2] = ["shm", "tcp"];

#[test]
fn child_main() {
    play(&[
        ("rounds", rounds),
        ("leave", leave_in_processes),
        ("interrupt", interrupts_in_processes),
        ("idle", idle_in_processes),
    ]);
}

fn ways() -> [Way; 3] {
    [Way::memory(), Way::messages(None), Way::messages(None).weather(8)]
}

fn cause_of(error: &Error) -> Arc<Cause> {
    match error {
        Error::Operation(error) => Arc::clone(&error.cause),
        other => panic!("no failed operation: {other}"),
    }
}

fn env(pairs: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// Rounds of checked operations until the folder has a file `stop`, or something fails.
fn rounds() {
    let count: usize = var("TEST_COUNT").parse().unwrap();
    let stop = PathBuf::from(var("TEST_FOLDER")).join("stop");
    let group = match lycaon::init() {
        Ok(group) => group,
        Err(error) => return say(format!("no start: {error}")),
    };
    say("started");
    let (rank, size) = (group.rank() as u64, group.size() as u64);
    let mut number = 0;
    let one_round = |number: u64| -> Result<bool> {
        let mut data = vec![number + rank; count];
        if number % 3 == 2 {
            data = group.all_reduce_async(data, Op::Sum)?.wait()?;
        } else {
            group.all_reduce(&mut data, Op::Sum)?;
        }
        assert!(data.iter().all(|sum| *sum == number * size + size * (size - 1) / 2));
        let mut go_on = [!(rank == 0 && stop.exists())];
        group.broadcast(&mut go_on, 0)?;
        Ok(go_on[0])
    };
    let error = loop {
        match one_round(number) {
            Ok(true) => number += 1,
            Ok(false) => return say(format!("stopped after {number}")),
            Err(error) => break error,
        }
        if number == 20 {
            say("running");
        }
    };
    say(format!("error {error}"));
    // From now on the first cause comes back at once, whatever is called.
    let began = Instant::now();
    let calls: [Result<()>; 4] = [
        group.barrier(),
        group.send(&[1u8], (group.rank() + 1) % group.size(), 0),
        group.all_reduce_async(vec![1u8], Op::Sum).map(|_| ()),
        group.split(0, 0).map(|_| ()),
    ];
    for call in calls {
        assert_eq!(cause_of(&call.unwrap_err()), cause_of(&error));
    }
    assert_eq!(group.failure().unwrap(), cause_of(&error));
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    if matches!(&error, Error::Operation(error) if error.operation.is_some()) {
        let last = group.flight_recorder().pop().unwrap();
        assert!(matches!(last.outcome, Outcome::Failed(_)), "{last}");
    }
    drop(group);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

fn running(links: &str, count: usize, size: usize, more: &[(&'static str, &str)]) -> Cluster {
    let mut cluster = Cluster::start("rounds", size, WITHIN, |_| {
        let mut all = env(more);
        all.push(("LYCAON_LINKS", links.to_owned()));
        all.push(("TEST_COUNT", count.to_string()));
        all
    });
    for rank in 0..size {
        cluster.hear(rank, "running");
    }
    cluster
}

#[test]
fn a_death_in_the_middle_is_known_everywhere_within_a_second() {
    for links in LINKS {
        for (victim, count) in [(2, 16), (2, 200_000), (0, 16), (3, 3000)] {
            let mut cluster = running(links, count, 4, &[]);
            let died = cluster.kill(victim);
            for rank in (0..4).filter(|rank| *rank != victim) {
                let error = cluster.hear(rank, "error");
                let text = &error.text;
                assert!(text.contains(&format!("rank {victim} died")), "{links}: {text}");
                // Between two operations there is none to name.
                if !text.contains("the group can no longer be used") {
                    assert!(
                        text.contains("all_reduce #") || text.contains("broadcast #"),
                        "{text}"
                    );
                    assert!(text.contains(&format!(" over {links}")), "{text}");
                }
                assert!(error.at < died + SOON, "{links}: after {} ms", error.at - died);
            }
            cluster.finish(&[victim]);
        }
    }
}

#[test]
fn a_paused_rank_that_resumes_in_time_goes_on() {
    for links in LINKS {
        let cluster = running(links, 5000, 3, &[("LYCAON_TIMEOUT", "20")]);
        for rank in [1, 0] {
            cluster.signal(rank, Signal::STOP);
            std::thread::sleep(Duration::from_millis(1200));
            cluster.signal(rank, Signal::CONT);
            std::thread::sleep(Duration::from_millis(100));
        }
        std::fs::write(cluster.folder().join("stop"), "").unwrap();
        cluster.finish(&[]);
    }
}

#[test]
fn a_rank_that_stays_paused_is_named_at_the_deadline() {
    for links in LINKS {
        for paused in [1, 0] {
            let mut cluster = running(links, 100, 3, &[("LYCAON_TIMEOUT", "2")]);
            let at = support::processes::now();
            cluster.signal(paused, Signal::STOP);
            for rank in (0..3).filter(|rank| *rank != paused) {
                let error = cluster.hear(rank, "error");
                let text = &error.text;
                assert!(text.contains("saw no progress for 2."), "{links}: {text}");
                assert!(text.contains(&format!("waiting for rank {paused}")), "{links}: {text}");
                let took = error.at - at;
                assert!((1500..4000).contains(&took), "{links}: after {took} ms: {text}");
            }
            // When it comes back it hears what happened.
            cluster.signal(paused, Signal::CONT);
            let text = cluster.hear(paused, "error").text;
            assert!(text.contains("saw no progress"), "{text}");
            cluster.finish(&[]);
        }
    }
}

/// Sockets of established connections between two processes, taken from the first.
#[cfg(target_os = "linux")]
fn sockets_between(first: u32, second: u32) -> Vec<rustix::fd::OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let sockets = |pid: u32| -> Vec<(i32, String)> {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let target = std::fs::read_link(entry.path()).ok()?;
                let inode =
                    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned();
                Some((entry.file_name().to_str()?.parse().ok()?, inode))
            })
            .collect()
    };
    // Local address, remote address, inode of every established connection of this host.
    let mut table = Vec::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in std::fs::read_to_string(file).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[3] == "01" {
                // The end that listened may show an IPv4 address as an IPv6 one; the last 32 bits
                // and the port are the same.
                let end = |text: &str| text[text.len() - 13..].to_owned();
                table.push((end(fields[1]), end(fields[2]), fields[9].to_owned()));
            }
        }
    }
    let theirs = sockets(second);
    let pidfd = pidfd_open(Pid::from_raw(first as i32).unwrap(), PidfdFlags::empty()).unwrap();
    sockets(first)
        .into_iter()
        .filter(|(_, inode)| {
            table.iter().filter(|(_, _, of)| of == inode).any(|(local, remote, _)| {
                table.iter().any(|(its_local, its_remote, its)| {
                    (its_local, its_remote) == (remote, local)
                        && theirs.iter().any(|(_, inode)| inode == its)
                })
            })
        })
        .map(|(fd, _)| pidfd_getfd(&pidfd, fd, PidfdGetfdFlags::empty()).unwrap())
        .collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_that_breaks_is_an_error_on_every_rank() {
    for reset in [false, true] {
        for count in [100, 300_000] {
            let mut cluster = running("tcp", count, 3, &[]);
            let sockets = sockets_between(cluster.pid(1), cluster.pid(2));
            assert_eq!(sockets.len(), 1, "one link");
            let at = support::processes::now();
            if reset {
                rustix::net::connect_unspec(&sockets[0]).unwrap();
            } else {
                rustix::net::shutdown(&sockets[0], rustix::net::Shutdown::Both).unwrap();
            }
            drop(sockets);
            for rank in 0..3 {
                let error = cluster.hear(rank, "error");
                let text = &error.text;
                assert!(text.contains("the tcp link between ranks 1 and 2 broke"), "{text}");
                assert!(error.at < at + SOON, "reset {reset}: after {} ms", error.at - at);
            }
            cluster.finish(&[]);
        }
    }
}

/// The control connection is what notices a death: without it a rank counts as dead.
#[cfg(target_os = "linux")]
#[test]
fn a_control_connection_that_breaks_is_an_error_on_every_rank() {
    let mut cluster = running("shm", 100, 3, &[]);
    let sockets = sockets_between(cluster.pid(2), cluster.pid(0));
    assert_eq!(sockets.len(), 1, "with shared memory there is only the control connection");
    rustix::net::connect_unspec(&sockets[0]).unwrap();
    let at = support::processes::now();
    for rank in 0..3 {
        let error = cluster.hear(rank, "error");
        assert!(error.at < at + SOON, "after {} ms", error.at - at);
    }
    assert!(cluster.hear(1, "error").text.contains("rank 2 died"), "{}", cluster.report());
    cluster.finish(&[]);
}

/// What was sent is there, although the sender has gone; who waits for more hears that it has.
fn leave_early(group: Group, pause: Duration) {
    let rank = group.rank();
    let mut sum = [rank as u32];
    group.all_reduce(&mut sum, Op::Sum).unwrap();
    match rank {
        0 => {
            group.send(&[1u8, 2, 3], 1, 0).unwrap();
            group.send(&vec![4u8; 10_000], 1, 1).unwrap();
            group.send(&vec![5u8; 300_000], 1, 2).unwrap();
            // Not even a pause: the last bytes may still be on their way.
            drop(group);
        }
        1 => {
            let mut large = vec![0u8; 300_000];
            group.recv(&mut large, 0, 2).unwrap();
            assert!(large.iter().all(|byte| *byte == 5));
            std::thread::sleep(pause);
            let mut small = [0u8; 3];
            group.recv(&mut small, 0, 0).unwrap();
            assert_eq!(small, [1, 2, 3]);
            let mut more = vec![0u8; 10_000];
            group.recv(&mut more, 0, 1).unwrap();
            assert!(more.iter().all(|byte| *byte == 4));
            // The two that are left still have each other.
            group.send(&more, 2, 0).unwrap();
            // From the first failure on, the group is of no use to anybody: rank 2 lets this one come
            // first, unless the machine holds it up for longer.
            if let Err(error) = group.recv(&mut small, 2, 0) {
                assert_eq!(*cause_of(&error), Cause::RankLeft { rank: 0 }, "{error}");
            }
            let began = Instant::now();
            let error = group.recv(&mut small, 0, 0).unwrap_err();
            assert_eq!(*cause_of(&error), Cause::RankLeft { rank: 0 }, "{error}");
            assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        }
        _ => {
            let mut more = vec![0u8; 10_000];
            group.recv(&mut more, 1, 0).unwrap();
            group.send(&[0u8; 3], 1, 0).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            let began = Instant::now();
            let error = group.all_reduce(&mut sum, Op::Sum).unwrap_err();
            // By now rank 1 may have left as well.
            assert!(matches!(*cause_of(&error), Cause::RankLeft { rank: 0 | 1 }), "{error}");
            assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        }
    }
}

/// Everybody leaves after the last operation, whenever that ends for it.
fn leave_together(group: &Group, number: usize) {
    let mut data = vec![group.rank() as u64; 3000];
    if group.rank() == number % group.size() {
        std::thread::sleep(Duration::from_millis(3));
    }
    match number % 4 {
        0 => group.all_reduce(&mut data, Op::Max).unwrap(),
        1 => group.broadcast(&mut data, number % group.size()).unwrap(),
        2 => group.barrier().unwrap(),
        _ => group.reduce(&mut data, Op::Sum, number % group.size()).unwrap(),
    }
}

#[test]
fn leaving_early() {
    for way in ways() {
        run(way.groups(3), WITHIN, |group| leave_early(group, Duration::from_millis(50)));
        for number in 0..20 {
            run(way.groups(3), WITHIN, move |group| leave_together(&group, number));
        }
    }
    Cluster::start("leave", 3, WITHIN, |_| Vec::new()).finish(&[]);
}

fn leave_in_processes() {
    use lycaon::error::LinkKind::{Shm, Tcp};
    for kind in [Shm, Tcp] {
        for round in 0..3 {
            let group = join_again(&format!("{kind}-{round}"), |builder| builder.links([kind]));
            leave_early(group, Duration::from_millis(60 * round));
        }
        for number in 0..8 {
            let name = format!("{kind}-together-{number}");
            let group = join_again(&name, |builder| builder.links([kind]));
            leave_together(&group, number);
        }
    }
}

/// A wait for something that never comes, given up after a while. The other rank is told.
fn interrupts(group: &Group, number: usize) {
    if group.rank() == 1 {
        // It waits too, in the same operation or in another one, and hears of the interruption.
        let began = Instant::now();
        let error = loop {
            std::thread::sleep(Duration::from_millis(10));
            if let Some(cause) = group.failure() {
                break cause;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "never told");
        };
        assert!(matches!(*error, Cause::Interrupted { rank: 0, .. }), "{error}");
        return;
    }
    let wanted = Arc::new(AtomicBool::new(false));
    let hook = Arc::clone(&wanted);
    let setter = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(150));
        wanted.store(true, Ordering::SeqCst);
        Instant::now()
    });
    let error = with_interrupt(
        move || hook.load(Ordering::SeqCst),
        || match number {
            0 => group.all_reduce(&mut [1u8; 4], Op::Sum).unwrap_err(),
            1 => group.recv(&mut [1u8; 4], 1, 0).unwrap_err(),
            2 => group.send(&vec![1u8; 1 << 20], 1, 0).unwrap_err(),
            3 => group.broadcast(&mut vec![1u8; 1 << 20], 1).unwrap_err(),
            _ => group.split(0, 0).unwrap_err(),
        },
    );
    let took = setter.join().unwrap().elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(matches!(*cause_of(&error), Cause::Interrupted { rank: 0, .. }), "{error}");
}

#[test]
fn waits_can_be_interrupted() {
    for way in ways() {
        for number in 0..5 {
            run(way.groups(2), WITHIN, move |group| interrupts(&group, number));
        }
    }
    Cluster::start("interrupt", 2, WITHIN, |_| Vec::new()).finish(&[]);
}

fn interrupts_in_processes() {
    use lycaon::error::LinkKind::{Shm, Tcp};
    for kind in [Shm, Tcp] {
        for number in 0..5 {
            let group = join_again(&format!("{kind}-{number}"), |builder| builder.links([kind]));
            interrupts(&group, number);
        }
    }
}

/// Giving up a wait for work in the background leaves the work and the group as they are.
#[test]
fn an_interrupted_wait_for_work_does_not_end_it() {
    for way in ways() {
        let together = Barrier::new(2);
        run(way.groups(2), WITHIN, move |group| {
            if group.rank() == 1 {
                together.wait();
                assert_eq!(
                    group.all_reduce_async(vec![1u8; 3], Op::Sum).unwrap().wait().unwrap(),
                    [2; 3]
                );
                return;
            }
            let work = group.all_reduce_async(vec![1u8; 3], Op::Sum).unwrap();
            let error =
                with_interrupt(|| true, || work.wait_for(Duration::from_secs(20)).unwrap_err());
            assert!(matches!(*cause_of(&error), Cause::Interrupted { rank: 0, .. }), "{error}");
            assert!(group.failure().is_none() && !work.is_done());
            together.wait();
            assert_eq!(work.wait().unwrap(), [2; 3]);
        });
    }
}

#[test]
fn a_deadline_names_who_was_waited_for() {
    for way in ways() {
        let together = Barrier::new(3);
        run(way.groups_with(3, Duration::from_millis(400)), WITHIN, move |group| {
            if group.rank() == 2 {
                // Present, but it calls nothing.
                together.wait();
                let error = group.barrier().unwrap_err();
                assert!(matches!(*cause_of(&error), Cause::Deadline { .. }), "{error}");
                return;
            }
            let began = Instant::now();
            let error = group.all_reduce(&mut [1u8], Op::Sum).unwrap_err();
            let took = began.elapsed();
            assert!(
                took >= Duration::from_millis(400) && took < Duration::from_secs(3),
                "{took:?}"
            );
            match &*cause_of(&error) {
                Cause::Deadline { peer: Some(2), waited, operation, .. } => {
                    assert!(*waited >= Duration::from_millis(400));
                    assert_eq!(operation.to_string(), "all_reduce #0 (u8 × 1, sum)");
                }
                other => panic!("{other}"),
            }
            together.wait();
        });
    }
}

/// Slow is not stuck: the deadline counts from the last progress.
#[test]
fn progress_moves_the_deadline() {
    let way = Way::messages(None);
    run(way.groups_with(2, Duration::from_millis(300)), WITHIN, |group| {
        // Rank 1 takes each message 100 ms late; the collective of rank 0 takes several of them.
        for _ in 0..6 {
            if group.rank() == 1 {
                std::thread::sleep(Duration::from_millis(150));
            }
            group.barrier().unwrap();
        }
    });
}

#[test]
fn progress_can_be_read_while_an_operation_is_stuck() {
    for way in ways() {
        let seen = Arc::new(AtomicBool::new(false));
        run(way.groups(2), WITHIN, move |group| {
            group.barrier().unwrap();
            if group.rank() == 1 {
                while !seen.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            } else {
                let (reader, seen) = (group.clone(), Arc::clone(&seen));
                std::thread::spawn(move || {
                    let until = Instant::now() + Duration::from_secs(20);
                    while Instant::now() < until {
                        let progress = reader.progress();
                        let stuck = (progress.started, progress.completed) == (2, 1);
                        let last = reader.flight_recorder().pop();
                        let last = last.filter(|last| last.outcome == Outcome::Running);
                        if let Some(last) = last.filter(|_| stuck) {
                            let name = "all_reduce #1 (i32 × 3, sum)";
                            assert_eq!(last.signature.to_string(), name);
                            break;
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    seen.store(true, Ordering::SeqCst);
                });
            }
            group.all_reduce(&mut [1i32; 3], Op::Sum).unwrap();
            let progress = group.progress();
            assert_eq!((progress.started, progress.completed, progress.failed), (2, 2, 0));
            let links = group.links();
            assert_eq!((links.len(), links[0].peer), (1, 1 - group.rank()));
        });
    }
}

#[test]
fn an_idle_group_uses_no_processor() {
    for links in LINKS {
        Cluster::start("idle", 2, WITHIN, |_| env(&[("LYCAON_LINKS", links)])).finish(&[]);
    }
}

/// Processor time of all threads of this process.
#[cfg(target_os = "linux")]
fn processor_time() -> Duration {
    let mut nanoseconds = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        nanoseconds += text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    }
    Duration::from_nanos(nanoseconds)
}

#[cfg(not(target_os = "linux"))]
fn processor_time() -> Duration {
    Duration::ZERO
}

fn idle_in_processes() {
    let group = lycaon::init().unwrap();
    let mut data = vec![1u32; 50_000];
    group.all_reduce(&mut data, Op::Sum).unwrap();
    // The threads of the background are there too.
    let peer = 1 - group.rank();
    let recv = group.recv_async(vec![0u8; 4], peer, 0).unwrap();
    group.send(&[7u8; 4], peer, 0).unwrap();
    assert_eq!(recv.wait().unwrap(), [7; 4]);
    assert_eq!(group.all_reduce_async(vec![1u8], Op::Sum).unwrap().wait().unwrap(), [2]);
    group.barrier().unwrap();
    let before = processor_time();
    std::thread::sleep(Duration::from_millis(1000));
    let idle = processor_time() - before;
    assert!(idle < Duration::from_millis(10), "{idle:?} while idle");
    // One waits for the other, and that does not cost much either.
    group.barrier().unwrap();
    let before = processor_time();
    if group.rank() == 1 {
        std::thread::sleep(Duration::from_millis(1000));
    }
    group.all_reduce(&mut data, Op::Sum).unwrap();
    let waiting = processor_time() - before;
    assert!(waiting < Duration::from_millis(60), "{waiting:?} while waiting");
    assert_eq!(data, vec![4; 50_000]);
}

fn starting(size: usize, ranks: &[usize], more: &[(&'static str, &str)]) -> Cluster {
    let mut cluster = Cluster::new("rounds", size, WITHIN);
    for rank in ranks {
        let mut all = env(more);
        all.push(("TEST_COUNT", "10".to_owned()));
        cluster.spawn(*rank, all);
    }
    cluster
}

#[test]
fn a_rank_may_start_late() {
    for late in [0, 2] {
        let early: Vec<usize> = (0..3).filter(|rank| *rank != late).collect();
        let mut cluster = starting(3, &early, &[]);
        std::thread::sleep(Duration::from_millis(1500));
        cluster.spawn(late, env(&[("TEST_COUNT", "10")]));
        for rank in 0..3 {
            cluster.hear(rank, "running");
        }
        std::fs::write(cluster.folder().join("stop"), "").unwrap();
        cluster.finish(&[]);
    }
}

#[test]
fn a_rank_that_never_starts_is_named_by_all() {
    let at = support::processes::now();
    let mut cluster = starting(4, &[0, 1, 2], &[("LYCAON_START_TIMEOUT", "2")]);
    for rank in 0..3 {
        let line = cluster.hear(rank, "no start:");
        assert!(line.text.contains("rank 3") && line.text.contains("2s"), "{}", line.text);
        assert!((1900..6000).contains(&(line.at - at)), "after {} ms", line.at - at);
    }
    cluster.finish(&[]);
}

#[test]
fn a_death_at_the_start_is_known_at_once() {
    for victim in [1, 0] {
        let mut cluster = starting(4, &[0, 1, 2], &[]);
        // All three are up and wait for the fourth.
        std::thread::sleep(Duration::from_millis(1000));
        let died = cluster.kill(victim);
        for rank in (0..3).filter(|rank| *rank != victim) {
            let line = cluster.hear(rank, "no start:");
            assert!(line.text.contains(&format!("rank {victim}")), "{}", line.text);
            assert!(line.at < died + SOON, "after {} ms: {}", line.at - died, line.text);
        }
        cluster.finish(&[victim]);
    }
}

/// Whatever the others are doing when a rank dies, they do not wait for it longer than they may.
#[test]
fn a_death_at_any_moment_of_the_start_ends_it() {
    for links in LINKS {
        for delay in [0, 4, 8, 12, 16, 20, 30, 40, 60, 80] {
            let mut cluster = Cluster::start("rounds", 4, WITHIN, |_| {
                env(&[
                    ("LYCAON_LINKS", links),
                    ("LYCAON_START_TIMEOUT", "2"),
                    ("LYCAON_TIMEOUT", "2"),
                    ("TEST_COUNT", "10"),
                ])
            });
            std::thread::sleep(Duration::from_millis(delay));
            let died = cluster.kill(3);
            for rank in 0..3 {
                // That it has started is no news; what comes after is.
                let line = cluster.hear_any(rank, &["no start:", "error"]);
                assert!(line.text.contains("rank 3"), "{links}, {delay} ms: {}", line.text);
                assert!(line.at < died + 2000 + SOON, "after {} ms", line.at - died);
            }
            cluster.finish(&[3]);
        }
    }
}

#[test]
fn what_one_rank_is_told_differently_is_named_by_all() {
    for (name, here, there, said) in [
        ("LYCAON_ALGORITHM", "ring", "direct", "algorithm"),
        ("LYCAON_SIZE", "3", "2", "size"),
        ("LYCAON_RAILS", "2", "1", "rails"),
    ] {
        let mut cluster = Cluster::start("rounds", 3, WITHIN, |rank| {
            let value = if rank == 1 { there } else { here };
            env(&[(name, value), ("TEST_COUNT", "1"), ("LYCAON_START_TIMEOUT", "10")])
        });
        for rank in 0..3 {
            let text = cluster.hear(rank, "no start:").text;
            assert!(text.contains(said) && text.contains(there), "{name}: {text}");
            assert!(text.contains("rank 1 has") || text.contains("rank 0 has"), "{text}");
        }
        cluster.finish(&[]);
    }
}

/// A part of a launcher's variables is an error, never a group of one.
#[test]
fn a_broken_environment_is_no_group_of_one() {
    for (given, missing) in [
        (vec![("LYCAON_RANK", "1")], "LYCAON_SIZE"),
        (vec![("LYCAON_SIZE", "2")], "LYCAON_RANK"),
        (vec![("LYCAON_RANK", "0"), ("LYCAON_SIZE", "2")], "LYCAON_RENDEZVOUS"),
        (vec![("LYCAON_RENDEZVOUS", "127.0.0.1:7000")], "LYCAON_"),
        (vec![("LYCAON_RANK", "one"), ("LYCAON_SIZE", "2")], "LYCAON_RANK=\"one\""),
        (vec![("LYCAON_RANK", "2"), ("LYCAON_SIZE", "2")], "LYCAON_SIZE=2"),
        (vec![("RANK", "1"), ("WORLD_SIZE", "2")], "MASTER_"),
        (vec![("RANK", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "1")], "WORLD_SIZE"),
        (vec![("MLX_RANK", "1")], "MLX_HOSTFILE"),
        (vec![("OMPI_COMM_WORLD_RANK", "1")], "OMPI_COMM_WORLD_SIZE"),
        (vec![("PMI_SIZE", "4")], "PMI_RANK"),
    ] {
        let lookup = |name: &str| {
            let found = given.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let error = lycaon::Config::from_vars(lookup).expect_err("not complete").to_string();
        assert!(error.contains(missing), "{given:?}: {error}");
    }
    let group = lycaon::init_with(&lycaon::Config::from_vars(|_| None).unwrap()).unwrap();
    assert_eq!((group.rank(), group.size()), (0, 1));
}
