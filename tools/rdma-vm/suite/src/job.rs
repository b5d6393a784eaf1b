//! One group of rank processes, watched from outside.
//!
//! A rank speaks in lines: those that begin with `@` are words for the driver, all others are kept
//! for the case that something goes wrong.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::fabric::{End, Wiring, only_these};

/// Lines of a rank's output that are shown when a row fails.
const TAIL: usize = 12;

/// How the ranks learn of their devices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Devices {
    /// From a table in a file, which this variable names.
    Named(&'static str),
    /// They look. Each rank sees its own devices only, and is a host of its own.
    Found,
}

/// How a group of ranks is started.
pub(crate) struct Launch {
    wiring: Wiring,
    task: Vec<String>,
    devices: Devices,
    environment: Vec<(Option<usize>, String, String)>,
    locked_memory: Option<u64>,
    jaccl: bool,
    expected: Vec<String>,
}

impl Launch {
    pub(crate) fn new(wiring: &Wiring, task: &[&str]) -> Self {
        Launch {
            wiring: wiring.clone(),
            task: task.iter().map(|word| (*word).to_owned()).collect(),
            devices: Devices::Named("MLX_IBV_DEVICES"),
            environment: Vec::new(),
            locked_memory: None,
            jaccl: false,
            expected: Vec::new(),
        }
    }

    pub(crate) fn devices(mut self, devices: Devices) -> Self {
        self.devices = devices;
        self
    }

    /// Sets a variable on every rank.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.environment.push((None, name.to_owned(), value.to_owned()));
        self
    }

    /// Sets a variable on one rank.
    pub(crate) fn set_on(mut self, rank: usize, name: &str, value: &str) -> Self {
        self.environment.push((Some(rank), name.to_owned(), value.to_owned()));
        self
    }

    /// Says who is who by JACCL's variables.
    pub(crate) fn jaccl(mut self) -> Self {
        self.jaccl = true;
        self
    }

    /// Each cable's description has to contain this.
    pub(crate) fn described_by(mut self, part: &str) -> Self {
        self.expected.push(part.to_owned());
        self
    }

    /// Runs the ranks as an ordinary user who may lock this much memory. (No limit binds root.)
    pub(crate) fn locked_memory(mut self, kib: u64) -> Self {
        self.locked_memory = Some(kib);
        self
    }

    /// A port that no other job uses.
    fn port() -> u16 {
        static PORT: AtomicU16 = AtomicU16::new(12_000);
        PORT.fetch_add(1, Ordering::Relaxed)
    }

    fn folder(&self, port: u16) -> Result<PathBuf, String> {
        let folder = std::env::temp_dir().join(format!("job-{port}"));
        let matrix = folder.join("devices.json");
        let written = std::fs::create_dir(&folder)
            .and_then(|()| std::fs::write(&matrix, self.wiring.matrix().to_string()));
        written.map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// What all ranks have in common.
    fn common(&self, command: &mut Command, folder: &Path) {
        command.env_clear().env("PATH", "/bin").env("LYCAON_START_TIMEOUT", "30");
        if let Devices::Named(variable) = self.devices {
            command.env(variable, folder.join("devices.json"));
        }
        let of_rank = |rank| {
            let ends = self.wiring.ends(rank);
            ends.iter().map(|End { peer, own, other }| format!("{peer}:{own} to {other}")).collect()
        };
        let cables: Vec<Vec<String>> = (0..self.wiring.ranks).map(of_rank).collect();
        let expected = json!({ "cables": cables, "parts": self.expected });
        command.env("SUITE_EXPECTED", expected.to_string());
    }

    pub(crate) fn start(self) -> Result<Job, String> {
        let port = Self::port();
        let folder = self.folder(port)?;
        let mut job = Job { ranks: Vec::new(), folder };
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        for rank in 0..self.wiring.ranks {
            let mut before = Vec::new();
            if let Some(kib) = self.locked_memory {
                before.push(format!("ulimit -l {kib}"));
            }
            if self.devices == Devices::Found {
                let own: Vec<String> = self.wiring.ends(rank).into_iter().map(|e| e.own).collect();
                let nodes = job.folder.join(format!("devices-{rank}"));
                only_these(&own, &nodes)?;
                before.push(format!("mount -o bind {} /dev/infiniband", nodes.display()));
            }
            before.push("exec \"$0\" \"$@\"".to_owned());
            let before = before.join(" && ");
            let mut command = Command::new("sh");
            if self.devices == Devices::Found {
                command = Command::new("unshare");
                command.args(["-m", "sh"]);
            }
            command.args(["-c", &before]).arg(&program);
            if self.locked_memory.is_some() {
                command.uid(1000).gid(1000);
            }
            command.arg("rank").args(&self.task);
            self.common(&mut command, &job.folder);
            let place = format!("127.0.0.1:{port}");
            if self.jaccl {
                command.env("JACCL_RANK", rank.to_string()).env("JACCL_COORDINATOR", place);
            } else {
                command.env("LYCAON_RANK", rank.to_string()).env("LYCAON_RENDEZVOUS", place);
                command.env("LYCAON_SIZE", self.wiring.ranks.to_string());
            }
            if self.devices == Devices::Found {
                command.env("LYCAON_HOST_ID", format!("host-{rank}"));
            }
            for (only, name, value) in &self.environment {
                if only.is_none_or(|only| only == rank) {
                    command.env(name, value);
                }
            }
            job.ranks.push(Rank::spawn(command)?);
        }
        Ok(job)
    }

    /// Runs the ranks below `lycaon launch`, which is the one process of the job.
    pub(crate) fn start_launcher(self) -> Result<Job, String> {
        let folder = self.folder(Self::port())?;
        let mut command = Command::new("lycaon");
        command.args(["launch", "-n", &self.wiring.ranks.to_string(), "--no-tag-output", "--"]);
        command.arg(std::env::current_exe().map_err(|error| error.to_string())?);
        command.arg("rank").args(&self.task);
        self.common(&mut command, &folder);
        for (_, name, value) in &self.environment {
            command.env(name, value);
        }
        let mut job = Job { ranks: Vec::new(), folder };
        job.ranks.push(Rank::spawn(command)?);
        Ok(job)
    }
}

/// The processes of a group. Those that still run are killed when this is dropped.
pub(crate) struct Job {
    ranks: Vec<Rank>,
    folder: PathBuf,
}

struct Rank {
    process: Child,
    input: ChildStdin,
    words: mpsc::Receiver<String>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Rank {
    fn spawn(mut command: Command) -> Result<Rank, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process =
            command.spawn().map_err(|error| format!("cannot start a rank: {error}"))?;
        let input = process.stdin.take().expect("piped above");
        let (sender, words) = mpsc::channel();
        let said = Arc::new(Mutex::new(Vec::new()));
        let streams: [Box<dyn Read + Send>; 2] = [
            Box::new(process.stdout.take().expect("piped above")),
            Box::new(process.stderr.take().expect("piped above")),
        ];
        for stream in streams {
            let (sender, said) = (sender.clone(), Arc::clone(&said));
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if let Some(word) = line.strip_prefix('@') {
                        // Nobody listens any more once the row has failed.
                        let _ = sender.send(word.to_owned());
                    }
                    said.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                }
            });
        }
        Ok(Rank { process, input, words, said })
    }
}

impl Job {
    pub(crate) fn size(&self) -> usize {
        self.ranks.len()
    }

    /// Waits for a rank's next word, which has to begin with `word`; returns the rest of it.
    pub(crate) fn expect(
        &self,
        rank: usize,
        word: &str,
        within: Duration,
    ) -> Result<String, String> {
        match self.ranks[rank].words.recv_timeout(within) {
            Ok(said) => match said.strip_prefix(word) {
                Some(rest) => Ok(rest.trim().to_owned()),
                None => Err(format!("rank {rank} said \"{said}\", expected \"{word}\"")),
            },
            Err(mpsc::RecvTimeoutError::Timeout) => {
                Err(format!("rank {rank} did not say \"{word}\" within {within:?}"))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(format!("rank {rank} ended without saying \"{word}\""))
            }
        }
    }

    /// As [`expect`](Job::expect), of every rank.
    pub(crate) fn expect_all(&self, word: &str, within: Duration) -> Result<Vec<String>, String> {
        let end = Instant::now() + within;
        (0..self.size())
            .map(|rank| self.expect(rank, word, end.saturating_duration_since(Instant::now())))
            .collect()
    }

    pub(crate) fn say_all(&mut self, word: &str) -> Result<(), String> {
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            writeln!(rank.input, "{word}")
                .map_err(|error| format!("rank {number} does not listen: {error}"))?;
        }
        Ok(())
    }

    pub(crate) fn signal(&self, rank: usize, signal: Signal) -> Result<(), String> {
        kill_process(Pid::from_child(&self.ranks[rank].process), signal)
            .map_err(|error| format!("cannot signal rank {rank}: {error}"))
    }

    /// Waits for the end of a rank.
    pub(crate) fn end(&mut self, rank: usize, within: Duration) -> Result<ExitStatus, String> {
        let end = Instant::now() + within;
        loop {
            let status = self.ranks[rank].process.try_wait();
            if let Some(status) = status.map_err(|error| error.to_string())? {
                return Ok(status);
            }
            if Instant::now() > end {
                return Err(format!("rank {rank} did not end within {within:?}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for every rank to end well.
    pub(crate) fn end_all(&mut self, within: Duration) -> Result<(), String> {
        let end = Instant::now() + within;
        for rank in 0..self.size() {
            let status = self.end(rank, end.saturating_duration_since(Instant::now()))?;
            if !status.success() {
                return Err(format!("rank {rank} ended with {status}"));
            }
        }
        Ok(())
    }

    /// The last lines of every rank, and how those ended that have.
    pub(crate) fn tails(&mut self) -> String {
        let mut text = String::new();
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            if let Ok(Some(status)) = rank.process.try_wait() {
                let _ = writeln!(text, "      rank {number} has ended: {status}");
            }
            let said = rank.said.lock().unwrap_or_else(PoisonError::into_inner);
            for line in &said[said.len().saturating_sub(TAIL)..] {
                let _ = writeln!(text, "      rank {number}: {line}");
            }
        }
        text
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            // It may have ended already.
            let _ = rank.process.kill();
            let _ = rank.process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
