//! The guardian of one job: the parent of its ranks.
//!
//! It lives in a session of its own, so that what is sent to the launcher's process group does not
//! reach it. When the connection to the launcher closes, for whatever reason, it ends the ranks and
//! all they started, removes the job's folder, and ends itself.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions};

use super::folder::Folder;
use super::processes;
use super::signals::{self, Signals};
use super::wire::{Ending, Exit, Order, Report, Spec, Step, Wire};
use crate::cli::StdinMode;
use crate::sys;

/// What outlives its rank may end by itself for this long before it is told to.
const SETTLE: Duration = Duration::from_millis(100);

/// How long SIGKILL is tried before the remaining processes are reported.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// How often the processes are looked at while they are being ended.
const TICK: Duration = Duration::from_millis(10);

/// Runs as the guardian; the connection to the launcher is the standard input.
pub(crate) fn guard() -> u8 {
    let answer = connection().and_then(|wire| {
        rustix::process::setsid()?;
        Guardian::new(wire)?.run()
    });
    match answer {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "lycaon: the guardian of the ranks failed: {error}");
            125
        }
    }
}

fn connection() -> io::Result<Wire> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    if rustix::net::sockopt::socket_type(&input).is_err() {
        let advice = "this command is started by `lycaon launch` only";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, advice));
    }
    Ok(Wire::new(UnixStream::from(input)))
}

enum Phase {
    Running,
    /// SIGTERM was sent; SIGKILL follows.
    Asked {
        until: Instant,
    },
    /// SIGKILL is sent, again and again, to what is there.
    Killing {
        until: Instant,
    },
}

struct Rank {
    pid: Pid,
    running: bool,
}

struct Guardian {
    wire: Wire,
    launcher_lives: bool,
    wake: UnixStream,
    signals: Signals,
    began: Instant,
    grace: Duration,
    folder: Option<Folder>,
    ranks: Vec<Rank>,
    phase: Phase,
    /// When the last rank had ended and something else of the job was still there.
    settle_until: Option<Instant>,
    left_behind: Vec<String>,
}

impl Guardian {
    fn new(wire: Wire) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_name(c"lycaon-guard");
        processes::adopt_orphans(true);
        let (waker, wake) = signals::waker()?;
        let ends = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        let mut signals = Signals::install(&ends, &waker)?;
        signals.add(libc::SIGCHLD, &waker)?;
        Ok(Self {
            wire,
            launcher_lives: true,
            wake,
            signals,
            began: Instant::now(),
            grace: Duration::ZERO,
            folder: None,
            ranks: Vec::new(),
            phase: Phase::Running,
            settle_until: None,
            left_behind: Vec::new(),
        })
    }

    fn run(mut self) -> io::Result<()> {
        let mut started = false;
        loop {
            self.wait()?;
            if self.signals.take().iter().any(|&signal| signal != libc::SIGCHLD) {
                self.ask_to_end();
            }
            while let Some(order) = self.wire.next()? {
                match order {
                    Order::Start(spec) => {
                        started = true;
                        self.start(&spec);
                    }
                    Order::Signal(number) => self.pass_on(number),
                    Order::End => self.ask_to_end(),
                    Order::Kill => self.kill(),
                }
            }
            if !self.launcher_lives {
                self.ask_to_end();
            }
            let childless = self.reap()?;
            if (started || !self.launcher_lives) && self.is_over(childless) {
                return self.finish(Vec::new());
            }
            if let Some(immortal) = self.advance() {
                return self.finish(immortal);
            }
        }
    }

    /// Waits for an order, the end of a process, or the next step of ending them.
    fn wait(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let next = match (&self.phase, self.settle_until) {
            (Phase::Running, settle) => settle.map(|at| at.saturating_duration_since(now)),
            _ => Some(TICK),
        };
        let next = next.map(|time| time.try_into().expect("milliseconds fit a timespec"));
        let mut ready =
            [PollFd::new(&self.wake, PollFlags::IN), PollFd::new(&self.wire, PollFlags::IN)];
        let watched = if self.launcher_lives { &mut ready[..] } else { &mut ready[..1] };
        match poll(watched, next.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let order = self.launcher_lives && !ready[1].revents().is_empty();
        signals::drain(&self.wake);
        if order && !self.wire.receive()? {
            self.lose_launcher();
        }
        Ok(())
    }

    fn lose_launcher(&mut self) {
        self.launcher_lives = false;
        if self.ranks.iter().any(|rank| rank.running) {
            let message = "lycaon: the launcher was killed; its ranks are ended too";
            let _ = writeln!(io::stderr(), "{message}");
        }
    }

    fn report(&mut self, report: &Report, descriptors: &[OwnedFd]) {
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        if self.launcher_lives && self.wire.send(report, &borrowed).is_err() {
            self.lose_launcher();
        }
    }

    fn start(&mut self, spec: &Spec) {
        self.began = Instant::now();
        self.grace = Duration::from_millis(spec.grace_ms);
        let folder = match Folder::create(&spec.job) {
            Ok(folder) => self.folder.insert(folder),
            Err(error) => return self.report_failure(0, Step::Folder, &error),
        };
        let mut rendezvous = OsString::from("file:");
        rendezvous.push(folder.path().join("rendezvous"));
        let path = folder.path().as_os_str().to_owned();
        self.report(&Report::Folder(path.into()), &[]);
        for rank in 0..spec.ranks {
            // why: a launcher that dies now must not leave a rank that starts after it.
            if !self.launcher_lives || self.has_hung_up() {
                return self.lose_launcher();
            }
            match start_rank(spec, rank, &rendezvous) {
                Ok((pid, descriptors)) => {
                    self.ranks.push(Rank { pid, running: true });
                    let input = descriptors.len() == 3;
                    let pid = pid.as_raw_nonzero().get();
                    self.report(&Report::Started { rank, pid, input }, &descriptors);
                }
                Err((step, error)) => return self.report_failure(rank, step, &error),
            }
        }
    }

    fn report_failure(&mut self, rank: usize, step: Step, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        self.report(&Report::NotStarted { rank, step, errno }, &[]);
    }

    fn has_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.wire, PollFlags::empty())];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
    }

    fn leaders(&self) -> Vec<Pid> {
        // why: the id of a leader that was reaped may by now be another process's. Only where
        // orphans cannot be adopted does the group have to stand for them.
        let by_group = cfg!(not(target_os = "linux"));
        self.ranks.iter().filter(|rank| rank.running || by_group).map(|rank| rank.pid).collect()
    }

    fn pass_on(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            processes::signal_groups(&self.leaders(), signal);
        }
    }

    fn ask_to_end(&mut self) {
        if matches!(self.phase, Phase::Running) {
            processes::signal_all(&self.leaders(), Signal::TERM);
            // why: a stopped process could not act on it.
            processes::signal_all(&self.leaders(), Signal::CONT);
            self.phase = Phase::Asked { until: Instant::now() + self.grace };
        }
    }

    fn kill(&mut self) {
        if !matches!(self.phase, Phase::Killing { .. }) {
            self.phase = Phase::Killing { until: Instant::now() + KILL_PATIENCE };
        }
        processes::signal_all(&self.leaders(), Signal::KILL);
    }

    /// Takes the next step of ending the job, and names what survives all of them.
    fn advance(&mut self) -> Option<Vec<String>> {
        let now = Instant::now();
        match self.phase {
            Phase::Running => {
                if self.settle_until.is_some_and(|until| now >= until) {
                    self.left_behind = names();
                    self.ask_to_end();
                }
            }
            Phase::Asked { until } => {
                if now >= until {
                    self.kill();
                }
            }
            Phase::Killing { until } => {
                if now >= until {
                    return Some(names());
                }
                self.kill();
            }
        }
        None
    }

    /// Takes note of processes that ended. True if there is none left.
    fn reap(&mut self) -> io::Result<bool> {
        let mut exits = Vec::new();
        let childless = loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let ended = |rank: &Rank| rank.running && rank.pid == pid;
                    if let Some(rank) = self.ranks.iter().position(ended) {
                        self.ranks[rank].running = false;
                        let ending = match status.terminating_signal() {
                            Some(signal) => Ending::Signal(signal),
                            None => Ending::Code(status.exit_status().unwrap_or(0)),
                        };
                        let after = u64::try_from(self.began.elapsed().as_micros());
                        let after_us = after.unwrap_or(u64::MAX);
                        exits.push(Exit { rank, ending, after_us });
                    }
                }
                Ok(None) => break false,
                Err(rustix::io::Errno::CHILD) => break true,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        if !exits.is_empty() {
            self.report(&Report::Exited(exits), &[]);
        }
        Ok(childless)
    }

    /// Whether nothing is left; else, whether only ranks' remains are, and since when.
    fn is_over(&mut self, childless: bool) -> bool {
        if self.ranks.iter().any(|rank| rank.running) {
            return false;
        }
        let gone = if cfg!(target_os = "linux") {
            childless
        } else {
            let lives = |pid: Pid| rustix::process::test_kill_process_group(pid).is_ok();
            !self.leaders().into_iter().any(lives)
        };
        // why: after a failed start there are no ranks, and the launcher says what happens next.
        if !gone && self.settle_until.is_none() && !self.ranks.is_empty() {
            self.settle_until = Some(Instant::now() + SETTLE);
        }
        gone
    }

    fn finish(mut self, immortal: Vec<String>) -> io::Result<()> {
        self.folder = None;
        let left_behind = std::mem::take(&mut self.left_behind);
        self.report(&Report::Over { left_behind, immortal }, &[]);
        Ok(())
    }
}

fn names() -> Vec<String> {
    processes::descendants().iter().map(ToString::to_string).collect()
}

/// Starts one rank; gives our ends of its output, error and, if it has one, its input.
fn start_rank(
    spec: &Spec,
    rank: usize,
    rendezvous: &OsStr,
) -> Result<(Pid, Vec<OwnedFd>), (Step, io::Error)> {
    let pipe = || io::pipe().map_err(|error| (Step::Pipe, error));
    let mut words = spec.command.iter().cloned().map(OsString::from);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command.envs(spec.env.iter().cloned().map(|(k, v)| (OsString::from(k), OsString::from(v))));
    command.env("LYCAON_JOB", &spec.job).env("LYCAON_TOKEN", &spec.token);
    command.env("LYCAON_RENDEZVOUS", rendezvous);
    for (key, value) in [("RANK", rank), ("SIZE", spec.ranks)] {
        command.env(format!("LYCAON_{key}"), value.to_string());
        command.env(format!("LYCAON_LOCAL_{key}"), value.to_string());
    }
    if let Some(cwd) = &spec.cwd {
        command.current_dir(OsString::from(cwd.clone()));
    }
    let (output, output_far) = pipe()?;
    let (error, error_far) = pipe()?;
    let mut ours = vec![OwnedFd::from(output), OwnedFd::from(error)];
    command.stdout(output_far).stderr(error_far);
    let feeds = spec.stdin == StdinMode::All || (spec.stdin == StdinMode::First && rank == 0);
    if feeds {
        let (input_far, input) = pipe()?;
        command.stdin(input_far);
        ours.push(OwnedFd::from(input));
    } else {
        command.stdin(Stdio::null());
    }
    command.process_group(0);
    sys::die_with_parent(&mut command);
    let child = command.spawn().map_err(|error| (Step::Program, error))?;
    let pid = Pid::from_child(&child);
    Ok((pid, ours))
}
