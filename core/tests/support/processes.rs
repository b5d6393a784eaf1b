//! Ranks as processes. The test binary runs itself again, with nothing but `child_main`, which
//! plays the role that the environment names. Parent and child speak in lines: those of the child
//! begin with `@`, each with the time at which it was said.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lycaon::Group;
use lycaon::config::Config;
use rustix::process::{Pid, Signal, kill_process};

const ROLE: &str = "TEST_ROLE";
const SECONDS: &str = "TEST_SECONDS";

/// Plays the role that the environment asks for; to be called by `child_main` alone.
pub(crate) fn play(roles: &[(&str, fn())]) {
    let Ok(role) = std::env::var(ROLE) else { return };
    let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    // A child outlives neither its parent nor its time.
    std::thread::spawn(|| {
        let mut stdin = std::io::stdin();
        while matches!(stdin.read(&mut [0; 64]), Ok(1..)) {}
        std::process::exit(3);
    });
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds));
        say("out of time");
        std::process::exit(4);
    });
    let (_, play) = roles.iter().find(|(name, _)| *name == role).expect("a role of this file");
    play();
    say("end");
}

/// Tells the parent.
pub(crate) fn say(what: impl std::fmt::Display) {
    let text = what.to_string().replace('\n', " ");
    println!("\n@ {} {text}", now());
    let _ = std::io::stdout().flush();
}

/// A value of the child's environment.
pub(crate) fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("the parent sets {name}"))
}

pub(crate) fn number(name: &str) -> u64 {
    var(name).parse().expect("a number")
}

/// Milliseconds on a clock that all processes share.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Another group of the same processes: `change` says in what it differs from the environment.
/// Every rank has to call it with the same `name`.
pub(crate) fn join_again(
    name: &str,
    change: impl FnOnce(lycaon::config::ConfigBuilder) -> lycaon::config::ConfigBuilder,
) -> Group {
    let place = PathBuf::from(var("TEST_FOLDER")).join(format!("meet-{name}"));
    let builder = lycaon::config::ConfigBuilder::from_env()
        .expect("a good environment")
        .rendezvous(lycaon::config::Rendezvous::File(place))
        .job(name);
    let config: Config = change(builder).build().expect("a good configuration");
    lycaon::init_with(&config).expect("the group forms")
}

/// One rank.
struct Rank {
    child: Child,
    output: PathBuf,
    /// How it ended, if it has.
    status: Option<std::process::ExitStatus>,
}

/// What a child has said.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: u64,
    pub(crate) text: String,
}

/// Processes that form groups. They are killed when this is dropped.
pub(crate) struct Cluster {
    role: String,
    size: usize,
    folder: PathBuf,
    ranks: Vec<Option<Rank>>,
    deadline: Instant,
    shared_before: Vec<String>,
}

impl Cluster {
    /// No process yet.
    pub(crate) fn new(role: &str, size: usize, within: Duration) -> Cluster {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir()
            .join(format!("lycaon-test-{}-{number}-{role}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder for the test");
        Cluster {
            role: role.to_owned(),
            size,
            folder,
            ranks: (0..size).map(|_| None).collect(),
            deadline: Instant::now() + within,
            shared_before: shared_memory(),
        }
    }

    /// All ranks at once; `more` gives the environment of each.
    pub(crate) fn start(
        role: &str,
        size: usize,
        within: Duration,
        more: impl Fn(usize) -> Vec<(&'static str, String)>,
    ) -> Cluster {
        let mut cluster = Cluster::new(role, size, within);
        for rank in 0..size {
            cluster.spawn(rank, more(rank));
        }
        cluster
    }

    pub(crate) fn spawn(&mut self, rank: usize, more: Vec<(&'static str, String)>) {
        let output = self.folder.join(format!("rank-{rank}"));
        let file = std::fs::File::create(&output).expect("a file for the output");
        let left = self.deadline.saturating_duration_since(Instant::now());
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LYCAON_") {
                command.env_remove(name);
            }
        }
        let child = command
            .args(["--exact", "child_main", "--nocapture", "--test-threads=1"])
            .env(ROLE, &self.role)
            .env(SECONDS, (left.as_secs() + 2).to_string())
            .env("TEST_FOLDER", &self.folder)
            .env("LYCAON_RANK", rank.to_string())
            .env("LYCAON_SIZE", self.size.to_string())
            .env("LYCAON_RENDEZVOUS", self.folder.join("meet"))
            .env("LYCAON_TIMEOUT", "30")
            .env("LYCAON_START_TIMEOUT", "30")
            .envs(more)
            .stdin(Stdio::piped())
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file)
            .spawn()
            .expect("this program runs");
        self.ranks[rank] = Some(Rank { child, output, status: None });
    }

    fn rank(&self, rank: usize) -> &Rank {
        self.ranks[rank].as_ref().expect("the rank was started")
    }

    /// A folder that all ranks know as `TEST_FOLDER`.
    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    pub(crate) fn pid(&self, rank: usize) -> u32 {
        self.rank(rank).child.id()
    }

    /// Everything a rank has printed.
    pub(crate) fn output(&self, rank: usize) -> String {
        std::fs::read_to_string(&self.rank(rank).output).unwrap_or_default()
    }

    /// What a rank has said so far.
    pub(crate) fn lines(&self, rank: usize) -> Vec<Line> {
        let output = self.output(rank);
        // The last line may be half written.
        let whole = output.rfind('\n').map_or("", |end| &output[..end]);
        whole
            .lines()
            .filter_map(|line| line.strip_prefix("@ "))
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(at, text)| Some(Line { at: at.parse().ok()?, text: text.to_owned() }))
            .collect()
    }

    /// Waits until a rank says something that begins with `start`; returns the rest.
    pub(crate) fn hear(&mut self, rank: usize, start: &str) -> Line {
        self.hear_any(rank, &[start])
    }

    /// Waits until a rank says something that begins with one of these; returns the rest.
    pub(crate) fn hear_any(&mut self, rank: usize, starts: &[&str]) -> Line {
        loop {
            // Looked at first: it may speak and end between the two looks.
            let over = self.ended(rank) || Instant::now() > self.deadline;
            for line in self.lines(rank) {
                if let Some(text) = starts.iter().find_map(|start| line.text.strip_prefix(start)) {
                    return Line { at: line.at, text: text.trim().to_owned() };
                }
            }
            assert!(!over, "rank {rank} never said {starts:?}\n{}", self.report());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether a rank has ended.
    pub(crate) fn ended(&mut self, rank: usize) -> bool {
        let rank = self.ranks[rank].as_mut().expect("the rank was started");
        if rank.status.is_none() {
            rank.status = rank.child.try_wait().expect("a child of this process");
        }
        rank.status.is_some()
    }

    pub(crate) fn signal(&self, rank: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.rank(rank).child), signal).expect("the child is there");
    }

    /// Kills a rank; returns when.
    pub(crate) fn kill(&mut self, rank: usize) -> u64 {
        let at = now();
        let rank = self.ranks[rank].as_mut().expect("the rank was started");
        rank.child.kill().expect("the child is there");
        rank.status = Some(rank.child.wait().expect("a child of this process"));
        at
    }

    /// Waits for the end of all ranks but `killed`, which all have to end well, and looks whether
    /// anything is left behind.
    pub(crate) fn finish(mut self, killed: &[usize]) {
        for rank in 0..self.size {
            if self.ranks[rank].is_none() || killed.contains(&rank) {
                continue;
            }
            while !self.ended(rank) {
                assert!(
                    Instant::now() < self.deadline,
                    "rank {rank} has not ended\n{}",
                    self.report()
                );
                std::thread::sleep(Duration::from_millis(2));
            }
            let status = self.rank(rank).status.expect("it has ended");
            let said = self.lines(rank).last().is_some_and(|line| line.text == "end");
            assert!(status.success() && said, "rank {rank}: {status}\n{}", self.report());
        }
        let left: Vec<String> =
            shared_memory().into_iter().filter(|n| !self.shared_before.contains(n)).collect();
        assert!(left.is_empty(), "left in /dev/shm: {left:?}");
    }

    /// What every rank has printed last.
    pub(crate) fn report(&self) -> String {
        let mut report = String::new();
        for (number, rank) in self.ranks.iter().enumerate() {
            if rank.is_some() {
                let output = self.output(number);
                let lines: Vec<&str> = output.lines().filter(|line| !line.is_empty()).collect();
                let from = lines.len().saturating_sub(30);
                report += &format!("--- rank {number}\n{}\n", lines[from..].join("\n"));
            }
        }
        report
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for rank in self.ranks.iter_mut().flatten() {
            if rank.status.is_none() {
                // It may have ended by itself.
                let _ = rank.child.kill();
                let _ = rank.child.wait();
            }
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Names in the host's shared memory that could be ours.
fn shared_memory() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/dev/shm") else { return Vec::new() };
    entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name.contains("lycaon"))
        .collect()
}
