//! One rank as a process: the test binary runs itself again, and both speak in lines. What the
//! rank says begins with `@`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lycaon::error::{Cause, Error};
use lycaon::{Group, Op, Work};

const COLOR: &str = "LYCAON_TEST_COLOR";

/// No answer takes longer.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A rank as its parent sees it. It is killed when this is dropped.
pub(crate) struct Rank {
    process: Child,
    lines: mpsc::Receiver<String>,
}

impl Rank {
    /// Ranks of a job whose groups are given by the ranks' colours; all of them are ready.
    pub(crate) fn job(colors: &[u32], links: &str) -> Vec<Rank> {
        let port = free_port();
        let size = colors.len();
        let spawn = |(rank, color): (usize, &u32)| {
            let mut process = Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "child", "--nocapture"])
                .env(COLOR, color.to_string())
                .env("LYCAON_RANK", rank.to_string())
                .env("LYCAON_SIZE", size.to_string())
                .env("LYCAON_RENDEZVOUS", format!("127.0.0.1:{port}"))
                .env("LYCAON_LINKS", links)
                .env("LYCAON_TIMEOUT", "40")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("this program runs again");
            let stdout = BufReader::new(process.stdout.take().expect("it is piped"));
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
        };
        let ranks: Vec<Rank> = colors.iter().enumerate().map(spawn).collect();
        ranks.iter().for_each(|rank| rank.expect("ready"));
        ranks
    }

    pub(crate) fn hear(&self, within: Duration) -> String {
        self.lines.recv_timeout(within).expect("an answer in time")
    }

    pub(crate) fn expect(&self, line: &str) {
        assert_eq!(self.hear(LONG), line);
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().expect("it is piped"), "{line}")
            .expect("the rank lives");
    }

    /// Ends the process as nothing can prevent.
    pub(crate) fn kill(&mut self) -> Instant {
        self.process.kill().expect("it lives until now");
        Instant::now()
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

fn say(line: &str) {
    println!("@{line}");
}

/// What a rank has.
struct Groups {
    world: Group,
    sub: Group,
    pending: Option<Work<Vec<i32>>>,
}

/// What a rank does.
pub(crate) fn main() {
    let Ok(color) = std::env::var(COLOR) else { return };
    let world = lycaon::init().expect("the group forms");
    let color = color.parse().expect("a number");
    let sub = world.split(color, world.rank() as i64).expect("the group is split");
    let mut own = Some(Groups { world, sub, pending: None });
    let stop = Arc::new(AtomicBool::new(false));
    say("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("the parent writes text");
        let mut words = line.split(' ');
        let groups = own.as_mut().expect("they are there until they are closed");
        match words.next().expect("a line has a word") {
            // Works until the word is `stop`, or something fails.
            "loop" => {
                let (group, stop) = (groups.sub.clone(), Arc::clone(&stop));
                stop.store(false, Ordering::SeqCst);
                std::thread::spawn(move || say(&work(&group, &stop)));
            }
            "stop" => stop.store(true, Ordering::SeqCst),
            "run" => {
                let count = words.next().expect("how often").parse().expect("a number");
                say(&run(&groups.sub, count));
            }
            "world" => {
                let began = Instant::now();
                let text = run(&groups.world, 3);
                let quick = began.elapsed() < Duration::from_millis(100);
                say(&format!(
                    "{text}{}",
                    if quick || text.starts_with("ran") { "" } else { " late" }
                ));
            }
            // The last rank of the group asks for something else.
            "mismatch" => {
                let odd = usize::from(groups.sub.rank() + 1 == groups.sub.size());
                let mut data = vec![groups.sub.rank() as i32; 30_000 + odd];
                say(&outcome(groups.sub.all_reduce(&mut data, Op::Sum), 1));
            }
            // Work of the group's own thread that does not end before the last rank sends.
            "pend" => {
                let work = groups.sub.recv_async(vec![0; 3], groups.sub.size() - 1, 9);
                groups.pending = Some(work.expect("it starts"));
                say("pends");
            }
            "feed" => {
                for to in 0..groups.sub.size() - 1 {
                    groups.sub.send(&[to as i32, 7, -1], to, 9).expect("it is sent");
                }
                say("fed");
            }
            "collect" => {
                let work = groups.pending.take().expect("it was started");
                assert_eq!(work.wait().expect("it arrives"), [groups.sub.rank() as i32, 7, -1]);
                say("collected");
            }
            "idle-child" => say(&fork(|| std::thread::sleep(LONG)).to_string()),
            "forked" => say(&in_child(&mut own)),
            "close" => {
                drop(own);
                return say("closed");
            }
            other => panic!("unknown word {other}"),
        }
    }
}

fn outcome(result: lycaon::Result<()>, count: u32) -> String {
    match result {
        Ok(()) => format!("ran {count}"),
        Err(error) => format!("failed {error}"),
    }
}

/// One sum, small or large, with a word that tells all ranks of the group alike when to stop.
fn step(group: &Group, number: u32, stop: bool) -> lycaon::Result<bool> {
    let count = if number % 50 == 49 { 20_000 } else { 8 };
    let (rank, size) = (group.rank(), group.size());
    let value = |rank: usize, at: usize| (rank * 1000 + at % 97) as i64 + i64::from(number);
    let mut data: Vec<i64> = (0..count).map(|at| value(rank, at)).collect();
    data.push(i64::from(stop));
    group.all_reduce(&mut data, Op::Sum)?;
    let stopping = data.pop().expect("it is the last one") > 0;
    for (at, sum) in data.iter().enumerate() {
        assert_eq!(*sum, (0..size).map(|rank| value(rank, at)).sum::<i64>(), "at {at}");
    }
    Ok(stopping)
}

fn run(group: &Group, count: u32) -> String {
    outcome((0..count).try_for_each(|number| step(group, number, false).map(drop)), count)
}

fn work(group: &Group, stop: &AtomicBool) -> String {
    let mut number = 0;
    loop {
        match step(group, number, stop.load(Ordering::SeqCst)) {
            Ok(false) => number += 1,
            Ok(true) => return "stopped".to_owned(),
            Err(error) => return format!("failed {error}"),
        }
    }
}

/// Runs something in a forked child, which then ends without running anything of its parent's.
fn fork(body: impl FnOnce()) -> i32 {
    // SAFETY: the child runs on this one thread, uses memory (which the allocator allows after a
    // fork) and no lock that another thread of the parent may have held, and leaves by `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            // SAFETY: ends the process, at any place.
            unsafe { libc::_exit(i32::from(code.is_err())) }
        }
        child => child,
    }
}

/// What a forked child finds, and that dropping everything there ends.
fn in_child(own: &mut Option<Groups>) -> String {
    fn forked<T>(result: lycaon::Result<T>) {
        match result {
            Err(Error::Operation(error)) => match &*error.cause {
                Cause::Forked { owner } => assert_eq!(*owner, std::os::unix::process::parent_id()),
                other => panic!("{other}"),
            },
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it does not fail"),
        }
    }
    let child = fork(|| {
        let groups = own.as_mut().expect("they are there");
        for group in [&groups.world, &groups.sub] {
            forked(group.all_reduce(&mut [1.0f32; 4], Op::Sum));
            forked(group.barrier_async());
            forked(group.split(0, 0));
            let peer = (group.rank() + 1) % group.size();
            forked(group.send(&[1u8], peer, 1));
            assert!(matches!(group.failure().as_deref(), Some(Cause::Forked { .. })));
            let _ = (group.progress(), group.links());
        }
        if let Some(work) = groups.pending.take() {
            forked(work.wait());
        }
        groups.world.close();
        drop(own.take());
    });
    let until = Instant::now() + Duration::from_secs(20);
    let mut status = 0;
    loop {
        // SAFETY: the child is this process's own and has not been waited for.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
            0 if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            0 => {
                // SAFETY: as above.
                unsafe { libc::kill(child, libc::SIGKILL) };
                return "the child hangs".to_owned();
            }
            _ => return format!("child ended with {status}"),
        }
    }
}
