//! Segments between real processes: the test program starts itself again, once per rank.

use std::io::{BufRead, BufReader, IoSlice, IoSliceMut};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::call::{Call, Operation, Signature};
use crate::collective::arena::{ArenaError, run};
use crate::collective::{Counts, Pause, Problem, Stopped, Waiter};
use crate::dtype::{DType, Op};
use crate::sys::buf::Buffers;
use crate::transport::stream::Stream;

const PATIENCE: Duration = Duration::from_secs(30);
const PLAN: &str = "LYCAON_TEST_SHM_RANK";

fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

fn settings(ranks: usize) -> Settings {
    Settings { ranks, staging: 4 << 20, rings: true }
}

fn enter(offer: &Offer, ranks: usize, rank: usize) -> Result<Segment, ShmError> {
    match rank {
        0 => ShmHost::create(&settings(ranks), offer.clone())?.serve(deadline(), &mut || false),
        _ => attach(offer, ranks, rank, deadline(), &mut || false),
    }
}

/// Yields, then naps, and ends when the peer's process has ended.
struct Watching<'a> {
    segment: &'a Segment,
    pauses: u32,
    dead: Option<usize>,
    until: Instant,
}

impl Waiter for Watching<'_> {
    fn pause(&mut self, peer: usize) -> Result<Pause, Stopped> {
        self.pauses += 1;
        if self.pauses < 50 {
            return Ok(Pause::Yield);
        }
        if self.segment.has_died(peer) || self.segment.has_left(peer) {
            self.dead = Some(peer);
        }
        if self.dead.is_some() || Instant::now() > self.until {
            return Err(Stopped);
        }
        Ok(Pause::Sleep(Duration::from_millis(20)))
    }

    fn moved(&mut self) {
        self.pauses = 0;
        self.dead = None;
    }
}

/// Sums over all ranks with exact results; gives the first error and who had died.
fn sums(segment: &mut Segment, rounds: u64) -> Result<u64, (ArenaError, Option<usize>)> {
    let mut arena = segment.take_arena().unwrap();
    let mut waiter = Watching { segment, pauses: 0, dead: None, until: deadline() };
    let (rank, size) = (waiter.segment.rank(), waiter.segment.ranks());
    for sequence in 0..rounds {
        let count = [1, 3, 2048, 2049, 70_000, 300_001][(sequence % 6) as usize];
        let element = |rank: u64, at: u64| (rank * 7 + at * 3 + sequence) as i32;
        let input: Vec<u8> =
            (0..count).flat_map(|at| element(rank as u64, at).to_ne_bytes()).collect();
        let mut output = vec![0x77; input.len()];
        let op = Some(Op::Sum);
        let call = Call { op, ..Call::new(Operation::AllReduce, DType::I32, count) };
        let problem = Problem {
            operation: Operation::AllReduce,
            rank,
            size,
            dtype: DType::I32,
            op,
            root: 0,
            counts: Counts::Uniform(count),
            in_place: false,
        };
        let signature = Signature { sequence, call };
        let mut buffers = Buffers::new(&input, &mut output);
        run(&mut arena, &signature, &problem, &mut buffers, &mut waiter)
            .map_err(|error| (error, waiter.dead))?;
        for (at, bytes) in output.chunks_exact(4).enumerate() {
            let expected: i32 = (0..size as u64).map(|rank| element(rank, at as u64)).sum();
            assert_eq!(bytes, expected.to_ne_bytes(), "round {sequence} at {at}");
        }
        println!("\nround {sequence}");
    }
    Ok(rounds)
}

/// What a rank's process does; nothing in an ordinary run of the tests.
#[test]
fn rank_process() {
    let Ok(plan) = std::env::var(PLAN) else { return };
    let (role, rank, size, offer): (String, usize, usize, Offer) =
        serde_json::from_str(&plan).unwrap();
    let mut segment = enter(&offer, size, rank).unwrap();
    match role.as_str() {
        "finish" => println!("\ndone {}", sums(&mut segment, 60).unwrap()),
        "leave" if rank == 1 => println!("\ndone {}", sums(&mut segment, 5).unwrap()),
        "leave" | "endless" => match sums(&mut segment, u64::MAX).unwrap_err() {
            (ArenaError::Stopped, Some(dead)) => println!("\ndead {dead}"),
            other => panic!("{other:?}"),
        },
        "vanish" => (),
        "depart" => segment.leave(),
        other => panic!("no role {other}"),
    }
}

struct Rank {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Rank {
    /// Reads on until a line that begins like this; the rest of it.
    fn until(&mut self, start: &str) -> String {
        let limit = deadline();
        let mut line = String::new();
        loop {
            line.clear();
            assert!(Instant::now() < limit, "no {start:?}");
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "ended without {start:?}");
            if let Some(rest) = line.trim_end().strip_prefix(start) {
                return rest.to_owned();
            }
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(role: &str, size: usize) -> (Vec<Rank>, Offer) {
    let offer = Offer::new().unwrap();
    let ranks = (0..size).map(|rank| start_rank(role, rank, size, &offer)).collect();
    (ranks, offer)
}

fn start_rank(role: &str, rank: usize, size: usize, offer: &Offer) -> Rank {
    let plan = serde_json::to_string(&(role, rank, size, offer)).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "transport::shm::tests::rank_process", "--nocapture"])
        .env(PLAN, plan)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    Rank { child, lines }
}

fn shared_files() -> Vec<std::ffi::OsString> {
    let Ok(entries) = std::fs::read_dir("/dev/shm") else { return vec![] };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    names.filter(|name| name.to_string_lossy().contains("lycaon")).collect()
}

#[test]
fn processes_sum_exactly() {
    for size in [2, 3, 5] {
        let (ranks, _) = start("finish", size);
        for mut rank in ranks {
            assert_eq!(rank.until("done "), "60");
            assert!(rank.child.wait().unwrap().success());
        }
    }
}

#[test]
fn a_killed_rank_is_noticed_and_leaves_nothing() {
    let (mut ranks, offer) = start("endless", 4);
    for rank in &mut ranks {
        rank.until("round 6");
    }
    ranks[2].signal(rustix::process::Signal::KILL);
    let killed = Instant::now();
    // It stays a zombie until the end of the test, which must not count as alive.
    for (number, rank) in ranks.iter_mut().enumerate() {
        if number != 2 {
            // Whoever waits for a survivor that has left already names that one.
            let dead = rank.until("dead ");
            assert_ne!(dead, number.to_string());
            assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
        }
    }
    drop(ranks);
    assert_eq!(shared_files(), Vec::<std::ffi::OsString>::new());
    if let Ok(sockets) = std::fs::read_to_string("/proc/net/unix") {
        let name = format!("{offer:?}");
        let name = name.split('"').nth(1).unwrap();
        assert!(name.starts_with("lycaon-") && !sockets.contains(name));
    }
}

/// Nobody is asked but the memory: who passes on goodbyes may have gone before.
#[test]
fn an_end_with_a_goodbye_is_no_death_and_one_without_is() {
    for (role, left) in [("depart", true), ("vanish", false)] {
        let offer = Offer::new().unwrap();
        let mut child = start_rank(role, 1, 2, &offer);
        let segment = enter(&offer, 2, 0).unwrap();
        assert!(child.child.wait().unwrap().success());
        assert_eq!(segment.has_left(1), left, "{role}");
        assert_eq!(segment.has_died(1), !left, "{role}");
    }
}

#[test]
fn a_rank_that_leaves_early_is_noticed() {
    let (mut ranks, _) = start("leave", 3);
    assert_eq!(ranks[1].until("done "), "5");
    for rank in [0, 2] {
        ranks[rank].until("dead ");
    }
}

#[test]
fn a_stopped_rank_that_goes_on_does_no_harm() {
    let (mut ranks, _) = start("finish", 3);
    ranks[1].until("round 8");
    ranks[1].signal(rustix::process::Signal::STOP);
    std::thread::sleep(Duration::from_millis(300));
    ranks[1].signal(rustix::process::Signal::CONT);
    for rank in &mut ranks {
        assert_eq!(rank.until("done "), "60");
    }
}

/// The segments of ranks that are threads.
fn segments(ranks: usize) -> Vec<Segment> {
    let offer = Offer::new().unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let offer = &offer;
                scope.spawn(move || enter(offer, ranks, rank).unwrap())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn the_arena_and_the_rings_are_given_out_once() {
    let mut segments = segments(2);
    assert!(segments[0].take_arena().is_some() && segments[0].take_arena().is_none());
    assert!(segments[0].take_streams().is_some() && segments[0].take_streams().is_none());
    assert!(segments[0].staging() <= 4 << 20);
}

#[test]
fn joining_fails_in_time_and_says_who_is_missing() {
    let offer = Offer::new().unwrap();
    let host = ShmHost::create(&settings(3), offer.clone()).unwrap();
    let soon = || Instant::now() + Duration::from_millis(300);
    let member = std::thread::spawn({
        let offer = offer.clone();
        move || attach(&offer, 3, 2, deadline(), &mut || false).map(|segment| segment.rank())
    });
    let error = host.serve(soon(), &mut || false).unwrap_err();
    assert!(matches!(&error, ShmError::Missing { missing, .. } if *missing == [1]), "{error}");
    assert_eq!(member.join().unwrap().unwrap(), 2);
    let error = attach(&offer, 3, 1, soon(), &mut || false).unwrap_err();
    assert!(matches!(error, ShmError::NoLeader { .. }), "{error}");
}

#[test]
fn joining_stops_when_asked_to() {
    let after = |pause: u64| {
        let from = Instant::now();
        move || from.elapsed() > Duration::from_millis(pause)
    };
    let ends_soon = |what: &str, act: &mut dyn FnMut() -> Result<Segment, ShmError>| {
        let from = Instant::now();
        let error = act().expect_err(what);
        assert!(matches!(error, ShmError::Stopped), "{what}: {error}");
        // Well below the silence that a connection may keep.
        assert!(from.elapsed() < Duration::from_secs(1), "{what} took {:?}", from.elapsed());
    };
    let offer = Offer::new().unwrap();
    ends_soon("without a leader", &mut || attach(&offer, 2, 1, deadline(), &mut after(50)));
    let mut host = Some(ShmHost::create(&settings(2), offer.clone()).unwrap());
    // The system takes the connection, and nobody answers.
    ends_soon("with a silent leader", &mut || attach(&offer, 2, 1, deadline(), &mut after(50)));
    let name = format!("{offer:?}").split('"').nth(1).unwrap().to_owned();
    let silent = crate::sys::fdpass::connect(&name).unwrap();
    ends_soon("with a silent member", &mut || {
        host.take().unwrap().serve(deadline(), &mut after(50))
    });
    drop(silent);
}

#[test]
fn strangers_and_wrong_secrets_do_not_hold_up_the_ranks() {
    let offer = Offer::new().unwrap();
    let host = ShmHost::create(&settings(2), offer.clone()).unwrap();
    let name = format!("{offer:?}").split('"').nth(1).unwrap().to_owned();
    let silent = crate::sys::fdpass::connect(&name).unwrap();
    let babbling = crate::sys::fdpass::connect(&name).unwrap();
    std::io::Write::write_all(&mut &babbling, &[b'x'; 500]).unwrap();
    let mut wrong = serde_json::to_value(&offer).unwrap();
    wrong["secret"][0] = serde_json::json!((wrong["secret"][0].as_u64().unwrap() + 1) % 256);
    let wrong: Offer = serde_json::from_value(wrong).unwrap();
    std::thread::scope(|scope| {
        let wrong = &wrong;
        let intruder = scope.spawn(move || {
            attach(wrong, 2, 1, Instant::now() + Duration::from_millis(200), &mut || false)
        });
        let member = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            attach(&offer, 2, 1, deadline(), &mut || false).unwrap()
        });
        let leader = host.serve(deadline(), &mut || false).unwrap();
        assert_eq!((leader.rank(), member.join().unwrap().rank()), (0, 1));
        assert!(intruder.join().unwrap().is_err());
    });
    drop(silent);
}

#[test]
fn another_number_of_ranks_is_named() {
    let offer = Offer::new().unwrap();
    let host = ShmHost::create(&settings(3), offer.clone()).unwrap();
    let member = std::thread::spawn(move || attach(&offer, 4, 1, deadline(), &mut || false));
    let _ = host.serve(Instant::now() + Duration::from_millis(300), &mut || false);
    let error = member.join().unwrap().unwrap_err();
    assert!(matches!(error, ShmError::Differs { theirs: 3, ours: 4, .. }), "{error}");
}

#[test]
fn streams_carry_bytes_both_ways_and_the_bell_wakes() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    const TOTAL: usize = 3_000_000;
    let byte = |from: usize, at: usize| (at * 7 + from * 101 + at / 1000) as u8;
    let worker = |mut segment: Segment| {
        let rank = segment.rank();
        let bell = segment.bell();
        let mut streams = segment.take_streams().unwrap();
        assert!(streams[rank].is_none());
        let mut sent = vec![0; streams.len()];
        let mut got = vec![0; streams.len()];
        let mut ended = vec![false; streams.len()];
        ended[rank] = true;
        let until = deadline();
        sent[rank] = TOTAL;
        while !ended.iter().all(|ended| *ended) || sent.iter().any(|sent| *sent < TOTAL) {
            assert!(Instant::now() < until, "rank {rank}: {sent:?} sent, {got:?} got");
            let mut moved = false;
            for (peer, stream) in streams.iter_mut().enumerate() {
                let Some(stream) = stream else { continue };
                let len = (sent[peer] % 9973 + 1).min(TOTAL - sent[peer]);
                if len > 0 {
                    let data: Vec<u8> =
                        (sent[peer]..sent[peer] + len).map(|at| byte(rank, at)).collect();
                    let (a, b) = data.split_at(len / 3);
                    match stream.write(&[IoSlice::new(a), IoSlice::new(b)]) {
                        Ok(written) => {
                            sent[peer] += written;
                            moved = true;
                            if sent[peer] == TOTAL {
                                stream.finish().unwrap();
                            }
                        }
                        Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                    }
                }
                let mut bytes = vec![0; got[peer] % 7919 + 1];
                match stream.read(&mut [IoSliceMut::new(&mut bytes)]) {
                    Ok(0) => {
                        moved |= !ended[peer];
                        ended[peer] = true;
                    }
                    Ok(len) => {
                        let right =
                            |(at, got_byte): (usize, &u8)| *got_byte == byte(peer, got[peer] + at);
                        assert!(bytes[..len].iter().enumerate().all(right));
                        got[peer] += len;
                        moved = true;
                    }
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            let mut may_sleep = !moved;
            for (peer, stream) in streams.iter_mut().enumerate() {
                let Some(stream) = stream else { continue };
                if may_sleep && (!ended[peer] || sent[peer] < TOTAL) {
                    may_sleep = stream.prepare_sleep(sent[peer] < TOTAL).unwrap();
                }
            }
            if may_sleep {
                let mut fds = [PollFd::new(&bell, PollFlags::IN)];
                let ready = poll(&mut fds, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })).unwrap();
                assert_eq!(ready, 1, "rank {rank}: nobody rang; {sent:?} sent, {got:?} got");
            }
        }
        assert!(got.iter().enumerate().all(|(peer, got)| peer == rank || *got == TOTAL));
    };
    std::thread::scope(|scope| {
        for segment in segments(3) {
            scope.spawn(move || worker(segment));
        }
    });
}

#[test]
fn a_dropped_stream_ends_the_other_side() {
    let mut segments = segments(2);
    let mut near = segments[0].take_streams().unwrap().remove(1).unwrap();
    let mut far = segments[1].take_streams().unwrap().remove(0).unwrap();
    assert_eq!(near.write(&[IoSlice::new(b"last words")]).unwrap(), 10);
    drop(near);
    let mut bytes = [0; 100];
    assert_eq!(far.read(&mut [IoSliceMut::new(&mut bytes)]).unwrap(), 10);
    assert_eq!(far.read(&mut [IoSliceMut::new(&mut bytes)]).unwrap(), 0);
    let error = far.write(&[IoSlice::new(b"x")]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}
