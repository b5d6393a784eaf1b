//! Starts the real program with real ranks, with deadlines, and checks after every job that
//! nothing of it is left.
#![allow(dead_code)]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// No job of the tests takes longer, even on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// What runs in the environment of one job, and a folder for its files.
pub(crate) struct Job {
    child: Child,
    stdin: Option<ChildStdin>,
    out: Stream,
    err: Stream,
    /// Holds `run`, where the launcher puts its folder, and `d`, for the files of the ranks (`$D`).
    place: tempfile::TempDir,
    began: Instant,
}

struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl Done {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.out.clone()).expect("output is text")
    }

    pub(crate) fn sorted_lines(&self) -> Vec<String> {
        let mut lines: Vec<_> = self.text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[track_caller]
    pub(crate) fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "stderr: {}", self.err);
        self
    }

    #[track_caller]
    pub(crate) fn expect_err(&self, text: &str) -> &Self {
        assert!(self.err.contains(text), "{text:?} is not in: {}", self.err);
        self
    }
}

/// Prepares `lycaon launch` or another command with a private place.
pub(crate) struct Setup {
    command: Command,
    place: tempfile::TempDir,
}

impl Setup {
    pub(crate) fn new(args: &[&str]) -> Self {
        Self::of("launch", args)
    }

    pub(crate) fn of(subcommand: &str, args: &[&str]) -> Self {
        let place = tempfile::tempdir().expect("a temporary folder");
        for sub in ["run", "d"] {
            fs::create_dir(place.path().join(sub)).unwrap();
        }
        // why: a test runner in the background may have SIGINT ignored.
        let mut command = if cfg!(target_os = "linux") {
            let mut command = Command::new("env");
            command.arg("--default-signal").arg(env!("CARGO_BIN_EXE_lycaon"));
            command
        } else {
            Command::new(env!("CARGO_BIN_EXE_lycaon"))
        };
        command.arg(subcommand).args(args);
        command.env("XDG_RUNTIME_DIR", place.path().join("run"));
        command.env("D", place.path().join("d")).env("LYCAON_TEST_PLACE", place.path());
        command.env_remove("OMP_NUM_THREADS").env_remove("PYTHONUNBUFFERED");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, place }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.place.path().join("d")
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Command)) -> Self {
        change(&mut self.command);
        self
    }

    pub(crate) fn start(mut self) -> Job {
        let began = Instant::now();
        let mut child = self.command.spawn().expect("the program starts");
        Job {
            stdin: child.stdin.take(),
            out: Stream::collect(child.stdout.take()),
            err: Stream::collect(child.stderr.take()),
            child,
            place: self.place,
            began,
        }
    }
}

impl Stream {
    fn collect(pipe: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (end, ended) = channel();
        if let Some(mut pipe) = pipe {
            let bytes = Arc::clone(&bytes);
            std::thread::spawn(move || {
                let mut piece = [0; 65536];
                while let Ok(got @ 1..) = pipe.read(&mut piece) {
                    bytes.lock().unwrap().extend_from_slice(&piece[..got]);
                }
                drop(end);
            });
        }
        Self { bytes, ended }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    fn whole(&self) -> Vec<u8> {
        let left = self.ended.recv_timeout(DEADLINE);
        assert_eq!(left, Err(std::sync::mpsc::RecvTimeoutError::Disconnected), "output goes on");
        self.so_far()
    }
}

/// Runs `script` in a shell on every rank.
pub(crate) fn shell(args: &[&str], script: &str) -> Job {
    Setup::new(&[args, &["--", "sh", "-c", script]].concat()).start()
}

impl Job {
    pub(crate) fn dir(&self) -> PathBuf {
        self.place.path().join("d")
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the launcher lives");
    }

    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.stdin.take().expect("the input is piped")
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.stdin().write_all(bytes).expect("the launcher reads its input");
    }

    pub(crate) fn err_so_far(&self) -> String {
        String::from_utf8_lossy(&self.err.so_far()).into_owned()
    }

    pub(crate) fn out_so_far(&self) -> String {
        String::from_utf8_lossy(&self.out.so_far()).into_owned()
    }

    /// Waits until ranks have made these files in `$D`.
    #[track_caller]
    pub(crate) fn await_files(&self, names: &[&str]) {
        let there = |name: &str| self.dir().join(name).exists();
        if !eventually(DEADLINE, || names.iter().all(|name| there(name))) {
            panic!("not all of {names:?} appeared; stderr: {}", self.err_so_far());
        }
    }

    #[track_caller]
    pub(crate) fn await_err(&self, text: &str) {
        if !eventually(DEADLINE, || self.err_so_far().contains(text)) {
            panic!("{text:?} did not appear in: {}", self.err_so_far());
        }
    }

    /// The process id that a rank wrote to a file in `$D`.
    pub(crate) fn pid_in(&self, name: &str) -> Pid {
        let path = self.dir().join(name);
        let mut pid = None;
        eventually(DEADLINE, || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            pid = text.ends_with('\n').then(|| text.trim().parse().ok()).flatten();
            pid.is_some()
        });
        Pid::from_raw(pid.expect("a rank wrote its process id")).expect("not zero")
    }

    /// The guardian: the one child of the launcher.
    pub(crate) fn guardian(&self) -> Pid {
        let children = children_of(self.pid());
        assert_eq!(children.len(), 1, "the launcher has one child");
        children[0]
    }

    /// Waits for the launcher to end by itself and checks that nothing is left.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Done {
        drop(self.stdin.take());
        let mut status = None;
        eventually(DEADLINE, || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        let Some(status) = status else {
            panic!("the launcher does not end; stderr: {}", self.err_so_far())
        };
        let took = self.began.elapsed();
        let left = self.left();
        assert!(left.is_empty(), "left behind: {left:?}; stderr: {}", self.err_so_far());
        assert_eq!(status.signal(), None, "stderr: {}", self.err_so_far());
        let err = String::from_utf8_lossy(&self.err.whole()).into_owned();
        Done { code: status.code().unwrap(), out: self.out.whole(), err, took }
    }

    /// Waits until nothing is left of a job whose launcher was killed.
    #[track_caller]
    pub(crate) fn await_nothing_left(mut self) -> String {
        self.child.wait().expect("it is our child");
        if !eventually(DEADLINE, || self.left().is_empty()) {
            panic!("left behind: {:?}; stderr: {}", self.left(), self.err_so_far());
        }
        String::from_utf8_lossy(&self.err.whole()).into_owned()
    }

    /// The processes and folders that are left of the job.
    pub(crate) fn left(&self) -> Vec<String> {
        let place = self.place.path();
        let mut left: Vec<_> = fs::read_dir(place.join("run"))
            .unwrap()
            .map(|entry| entry.unwrap().path().display().to_string())
            .collect();
        let own = self.pid();
        for pid in processes_of(place).into_iter().filter(|&pid| pid != own) {
            let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
            left.push(format!("{} {}", pid.as_raw_nonzero(), name.unwrap_or_default().trim()));
        }
        left
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // why: a failed test leaves nothing behind either.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for _ in 0..100 {
            let left = processes_of(self.place.path());
            if left.is_empty() {
                break;
            }
            for pid in left {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Asks again and again, at most for `limit`.
pub(crate) fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn lives(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid).is_ok()
}

fn all_processes() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// All processes that were started with the environment of the job at `place`.
fn processes_of(place: &Path) -> Vec<Pid> {
    let wanted = format!("LYCAON_TEST_PLACE={}", place.display());
    let belongs = |pid: &i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| all.split(|&byte| byte == 0).any(|one| one == wanted.as_bytes()))
    };
    all_processes().into_iter().filter(belongs).filter_map(Pid::from_raw).collect()
}

pub(crate) fn children_of(parent: Pid) -> Vec<Pid> {
    let wanted = format!("PPid:\t{}", parent.as_raw_nonzero());
    let is_child = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| status.lines().any(|line| line == wanted))
    };
    all_processes().into_iter().filter(is_child).filter_map(Pid::from_raw).collect()
}
