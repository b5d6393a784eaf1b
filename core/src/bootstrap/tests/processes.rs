//! Ranks that are processes: killed, stopped, and in great number.
//!
//! The test binary runs itself again with `LYCAON_TEST_ROLE` set; [`child`] is then the whole of
//! it. Parent and child speak in lines: the child's begin with `@`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::error::Cause;

const ROLE: &str = "LYCAON_TEST_ROLE";

/// One rank as a process. It is killed when this is dropped.
struct Rank {
    process: Child,
    lines: mpsc::Receiver<String>,
}

impl Rank {
    fn spawn(role: &str, rank: usize, size: usize, port: u16, more: &[(&str, &str)]) -> Rank {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "bootstrap::tests::processes::child", "--nocapture"])
            .env(ROLE, role)
            .env("LYCAON_RANK", rank.to_string())
            .env("LYCAON_SIZE", size.to_string())
            .env("LYCAON_RENDEZVOUS", format!("127.0.0.1:{port}"))
            .env("LYCAON_START_TIMEOUT", "20")
            .envs(more.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once('@')
                    && sender.send(said.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Rank { process, lines }
    }

    fn group(role: &str, size: usize, more: &[(&str, &str)]) -> Vec<Rank> {
        let port = free_port();
        (0..size).map(|rank| Rank::spawn(role, rank, size, port, more)).collect()
    }

    fn hear(&self, within: Duration) -> Option<String> {
        self.lines.recv_timeout(within).ok()
    }

    fn expect(&self, line: &str) {
        assert_eq!(self.hear(WATCHDOG).as_deref(), Some(line));
    }

    fn say(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn finish(&mut self) {
        self.say("close");
        self.expect("closed");
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a rank process does. In an ordinary run of the tests it has no role and does nothing.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "rank" => rank(),
        "forming" => forming(),
        "cycles" => cycles(),
        other => panic!("unknown role {other}"),
    }
}

fn say(line: &str) {
    println!("@{line}");
}

fn rank() {
    let config = Config::from_env().unwrap();
    let control = met(&config).unwrap().into_control();
    let (sender, announced) = mpsc::channel();
    control.on_announcement(move || {
        let _ = sender.send(());
    });
    let watched = control.clone();
    std::thread::spawn(move || {
        let mut seen = 0;
        while announced.recv().is_ok() {
            for one in watched.since(seen) {
                say(&serde_json::to_string(&*one.cause).unwrap());
                seen += 1;
            }
        }
    });
    say("ready");
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "close" => {
                control.close();
                return say("closed");
            }
            "fork" => say(&crate::sys::fork::idle_child(15).to_string()),
            "exit" => std::process::exit(0),
            "report" => {
                let link = crate::error::LinkKind::Tcp;
                let reason = "reset".to_owned();
                let (first, second) = (config.rank(), 2);
                report(&control, Cause::LinkLost { first, second, link, reason });
            }
            "alive" => say(if control.announcements() > 0 { "failed" } else { "alive" }),
            "left 3" => {
                eventually("the goodbye", Duration::from_secs(5), || control.departed(3));
                say("left");
            }
            other => panic!("unknown word {other}"),
        }
    }
}

fn forming() {
    let config = Config::from_env().unwrap();
    let mut session = met(&config).unwrap();
    say("ready");
    if config.rank() == 1 {
        // It is killed here.
        std::thread::sleep(WATCHDOG);
    }
    say(&session.exchange("links", &[]).unwrap_err().to_string());
}

/// Many groups one after the other, in a process that does nothing else.
fn cycles() {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let port: u16 = std::env::var("LYCAON_TEST_PORT").unwrap().parse().unwrap();
    let round = |number: usize| {
        ranks(0..2, move |rank| {
            let config = local(rank, 2, port).job(format!("round-{number}")).build().unwrap();
            let control = met(&config).unwrap().into_control();
            if number.is_multiple_of(2) {
                control.close();
            }
            assert_eq!(control.announcements(), 0);
        });
    };
    round(0);
    // Threads of the first round may still be on their way out.
    std::thread::sleep(Duration::from_millis(100));
    let before = (count("task"), count("fd"));
    (1..=200).for_each(round);
    let mut after = before;
    eventually("no more threads and files than before", Duration::from_secs(10), || {
        after = (count("task"), count("fd"));
        after <= before
    });
    // A group that nobody uses does not run.
    let controls = ranks(0..2, move |rank| {
        met(&local(rank, 2, port).build().unwrap()).unwrap().into_control()
    });
    let switches = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok())
            .filter(|status| status.starts_with("Name:\tlycaon-control"))
            .filter_map(|status| {
                let line = status.lines().find(|line| line.starts_with("voluntary_ctxt"))?;
                line.split_whitespace().nth(1)?.parse::<u64>().ok()
            })
            .collect::<Vec<_>>()
    };
    std::thread::sleep(Duration::from_millis(200));
    let (first, until) = (switches(), Instant::now() + Duration::from_secs(1));
    std::thread::sleep(until - Instant::now());
    let second = switches();
    assert_eq!(first.len(), 2, "two control threads");
    assert_eq!(first, second, "an idle group sleeps");
    for control in controls {
        control.close();
    }
    say(&format!("{before:?} {after:?}"));
}

fn cause(line: &str) -> Cause {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn died(of: usize, line: &str) {
    match cause(line) {
        Cause::RankDied { rank, how } => {
            assert_eq!(rank, of);
            assert_eq!(how, "its control connection ended without a goodbye");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_killed_rank_is_named_by_all_others_within_a_second() {
    for victim in [2, 0] {
        let group = Rank::group("rank", 4, &[]);
        group.iter().for_each(|rank| rank.expect("ready"));
        group[victim].signal(Signal::KILL);
        let until = Instant::now() + Duration::from_secs(1);
        for (_, rank) in group.iter().enumerate().filter(|(rank, _)| *rank != victim) {
            let left = until.saturating_duration_since(Instant::now());
            died(victim, &rank.hear(left).expect("it hears of the death in time"));
        }
    }
}

#[test]
fn a_second_death_and_a_goodbye_after_it_are_announced_too() {
    let mut group = Rank::group("rank", 5, &[]);
    group.iter().for_each(|rank| rank.expect("ready"));
    for victim in [2, 4] {
        group[victim].signal(Signal::KILL);
        for rank in [0, 1, 3] {
            died(victim, &group[rank].hear(Duration::from_secs(1)).expect("it hears in time"));
        }
    }
    group[3].finish();
    group[1].say("left 3");
    group[1].expect("left");
    // Rank 0 is the last one to know all; without it nobody is told any more.
    group[0].signal(Signal::KILL);
    died(0, &group[1].hear(Duration::from_secs(1)).expect("it sees the end itself"));
    group[1].finish();
}

#[test]
fn a_forked_child_does_not_hide_the_death_of_its_parent() {
    for victim in [0, 2] {
        let mut group = Rank::group("rank", 3, &[]);
        group.iter().for_each(|rank| rank.expect("ready"));
        group[victim].say("fork");
        let child = group[victim].hear(WATCHDOG).expect("it says its child's number");
        let child = Pid::from_raw(child.parse().unwrap()).expect("a number of a process");
        group[victim].signal(Signal::KILL);
        for (_, rank) in group.iter().enumerate().filter(|(rank, _)| *rank != victim) {
            let line = rank.hear(Duration::from_secs(1)).expect("it hears of the death in time");
            died(victim, &line);
        }
        kill_process(child, Signal::KILL).expect("the child has outlived its parent");
    }
}

#[test]
fn an_end_without_a_goodbye_is_a_death_and_outweighs_a_broken_link() {
    let mut group = Rank::group("rank", 4, &[]);
    group.iter().for_each(|rank| rank.expect("ready"));
    // Rank 3 sees its link to rank 2 break a little before rank 2 is gone.
    group[3].say("report");
    std::thread::sleep(Duration::from_millis(20));
    group[2].say("exit");
    for rank in [0, 1, 3] {
        died(2, &group[rank].hear(WATCHDOG).expect("it hears of the death"));
    }
}

#[test]
fn a_stopped_rank_that_goes_on_is_not_dead() {
    for stopped in [1, 0] {
        let quick = [("LYCAON_LIVENESS", "100ms"), ("LYCAON_TIMEOUT", "20")];
        let mut group = Rank::group("rank", 3, &quick);
        group.iter().for_each(|rank| rank.expect("ready"));
        group[stopped].signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(1500));
        group[stopped].signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(300));
        for rank in &mut group {
            rank.say("alive");
            rank.expect("alive");
        }
        group.iter_mut().rev().for_each(Rank::finish);
    }
}

#[test]
fn a_rank_that_stays_stopped_is_given_up_after_the_deadline_of_operations() {
    let quick = [("LYCAON_LIVENESS", "100ms"), ("LYCAON_TIMEOUT", "800ms")];
    for stopped in [1, 0] {
        let group = Rank::group("rank", 3, &quick);
        group.iter().for_each(|rank| rank.expect("ready"));
        let began = Instant::now();
        group[stopped].signal(Signal::STOP);
        let line = group[2].hear(Duration::from_secs(10)).expect("it is given up");
        assert!(began.elapsed() >= Duration::from_millis(800), "{:?}", began.elapsed());
        match cause(&line) {
            Cause::RankDied { rank, how } => {
                assert_eq!(rank, stopped);
                assert!(how.contains("no sign of life"), "{how}");
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_rank_killed_while_the_group_forms_is_named_by_all_others() {
    let group = Rank::group("forming", 4, &[]);
    group.iter().for_each(|rank| rank.expect("ready"));
    group[1].signal(Signal::KILL);
    for rank in [0, 2, 3] {
        let text = group[rank].hear(Duration::from_secs(1)).expect("it hears in time");
        assert_eq!(
            text,
            "rank 1 failed while the group was forming: its control connection ended without a goodbye"
        );
    }
}

#[test]
fn clean_ends_of_processes_fail_nobody() {
    let mut group = Rank::group("rank", 3, &[]);
    group.iter().for_each(|rank| rank.expect("ready"));
    group.iter_mut().for_each(Rank::finish);
}

#[test]
#[cfg(target_os = "linux")]
fn two_hundred_groups_leave_no_threads_and_files_and_an_idle_one_sleeps() {
    let port = free_port();
    let text = port.to_string();
    let rank = Rank::spawn("cycles", 0, 1, port, &[("LYCAON_TEST_PORT", &text)]);
    let counts = rank.hear(WATCHDOG).expect("it succeeds in time");
    assert!(counts.starts_with('('), "{counts}");
}
