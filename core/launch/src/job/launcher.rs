//! The launcher: between the user and the ranks.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Pid;

use super::environment::Environment;
use super::input::Input;
use super::limits::Descriptors;
use super::lines::{Looks, Merger};
use super::outcome::Outcome;
use super::processes;
use super::signals::{self, Signals};
use super::start::{LaunchError, system};
use super::wire::{Order, Spec, Wire};
use super::writer::Writer;
use crate::Restart;
use crate::cli::{LaunchOptions, StdinMode};

/// Runs one job.
pub(crate) fn run(options: LaunchOptions, restart: &Restart) -> Result<u8, LaunchError> {
    if let Some(path) = &options.cwd {
        let about = path.metadata().and_then(|about| match about.is_dir() {
            true => Ok(()),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        about.map_err(|source| LaunchError::Folder { path: path.clone(), source })?;
    }
    let allowed = Descriptors::allow(options.ranks)?;
    let mut launcher = Launcher::new(options, restart)?;
    allowed.apply();
    launcher.start()?;
    let answer = launcher.attend();
    answer.map(|()| launcher.finish())
}

pub(super) struct Rank {
    pub(super) pid: Pid,
    pub(super) running: bool,
}

pub(super) struct Launcher {
    pub(super) options: LaunchOptions,
    pub(super) job: String,
    pub(super) guardian: Child,
    pub(super) wire: Wire,
    pub(super) signals: Signals,
    pub(super) wake: UnixStream,
    pub(super) began: Instant,
    pub(super) ranks: Vec<Rank>,
    pub(super) folder: Option<PathBuf>,
    /// By stream; those that have ended are `None`.
    pub(super) outputs: Vec<Option<OwnedFd>>,
    pub(super) merger: Merger,
    pub(super) writer: Writer,
    pub(super) input: Option<Input>,
    pub(super) outcome: Outcome,
    pub(super) interrupts: u32,
    /// When the ranks are asked to end, unless they have by then.
    pub(super) end_at: Option<Instant>,
    pub(super) timeout_at: Option<Instant>,
    pub(super) name_at: Option<Instant>,
    /// Nothing of the job is left; outputs are read until this time.
    pub(super) over: Option<Instant>,
    /// When output that cannot be written is given up, since the job was to end early.
    pub(super) leave_at: Option<Instant>,
    /// The user does not want to wait for output that cannot be written.
    pub(super) hasty: bool,
}

impl Launcher {
    fn new(options: LaunchOptions, restart: &Restart) -> Result<Self, LaunchError> {
        let (waker, wake) = signals::waker().map_err(system("make a socket pair"))?;
        let copy = || waker.try_clone().map_err(system("copy a socket"));
        let caught = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGTSTP];
        let signals = Signals::install(&caught, &waker).map_err(system("handle signals"))?;
        let (near, far) = UnixStream::pair().map_err(system("make a socket pair"))?;
        processes::adopt_orphans(true);
        let mut command = Command::new(&restart.program);
        command.args(&restart.arguments).arg("__guardian");
        if restart.arguments.is_empty() {
            command.arg0("lycaon");
        }
        command.stdin(OwnedFd::from(far)).stdout(Stdio::null());
        let guardian = command.spawn().map_err(system("start the guardian process"))?;
        // why: it holds the guardian's end of the connection, which must close with the guardian.
        drop(command);
        let writer = Writer::start(copy()?).map_err(system("start a thread"))?;
        let input = match options.stdin {
            StdinMode::None => None,
            _ => Some(Input::start(copy()?).map_err(system("start a thread"))?),
        };
        let now = Instant::now();
        Ok(Self {
            job: random_hex::<8>()?,
            guardian,
            wire: Wire::new(near),
            signals,
            wake,
            began: now,
            ranks: Vec::new(),
            folder: None,
            outputs: Vec::new(),
            merger: Merger::new(options.ranks, looks(&options), now),
            writer,
            input,
            outcome: Outcome::new(options.ranks),
            interrupts: 0,
            end_at: None,
            timeout_at: options.timeout.map(|timeout| now + timeout),
            name_at: None,
            over: None,
            leave_at: None,
            hasty: false,
            options,
        })
    }

    fn start(&mut self) -> Result<(), LaunchError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let environment = Environment::new(&self.options, cores, |key| std::env::var_os(key));
        if self.options.verbose {
            let words: Vec<_> = self.options.command.iter().map(|word| quote(word)).collect();
            let (job, ranks) = (&self.job, self.options.ranks);
            self.say(&format!("job {job}: {ranks} x {}", words.join(" ")));
            for remark in &environment.remarks {
                self.say(&format!("  {remark}"));
            }
        }
        let spec = Spec {
            job: self.job.clone(),
            token: random_hex::<32>()?,
            ranks: self.options.ranks,
            command: self.options.command.iter().cloned().map(Into::into).collect(),
            cwd: self.options.cwd.clone().map(|cwd| cwd.into_os_string().into()),
            env: environment.variables.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
            stdin: self.options.stdin,
            grace_ms: u64::try_from(self.options.grace.as_millis()).unwrap_or(u64::MAX),
        };
        self.order(&Order::Start(spec));
        Ok(())
    }

    pub(super) fn say(&mut self, text: &str) {
        self.merger.notice(&format!("lycaon: {text}"));
    }

    fn finish(mut self) -> u8 {
        for line in self.outcome.summary() {
            self.say(&line);
        }
        if self.options.verbose {
            let (code, after) = (self.outcome.code(), self.began.elapsed());
            self.say(&format!("the job ended with code {code} after {:.2} s", after.as_secs_f64()));
        }
        let code = self.outcome.code();
        let chunks = self.merger.take();
        if self.hasty {
            // why: what is stuck stays behind; these few words go past it.
            for (_, bytes) in chunks {
                let _ = io::stderr().write_all(&bytes);
            }
        } else {
            self.writer.push(chunks);
            self.flush();
        }
        self.writer.close();
        // why: it ends at once when the connection closes; its folder is removed already.
        drop(self.wire);
        let _ = self.guardian.wait();
        processes::adopt_orphans(false);
        code
    }

    /// Waits until everything is written, or a signal says that nobody wants it.
    fn flush(&self) {
        while !self.writer.is_idle() {
            let _ = poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], None);
            signals::drain(&self.wake);
            if !self.signals.take().is_empty() {
                return;
            }
        }
    }
}

fn looks(options: &LaunchOptions) -> Looks {
    let terminal = [io::stdout().is_terminal(), io::stderr().is_terminal()];
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let place = |about: rustix::fs::Stat| (about.st_dev, about.st_ino);
    let out = rustix::fs::fstat(io::stdout().as_fd()).map(place);
    let err = rustix::fs::fstat(io::stderr().as_fd()).map(place);
    Looks {
        tags: options.tags(),
        colour: terminal.map(|terminal| terminal && !plain),
        terminal,
        shared: out.is_ok() && out == err,
    }
}

fn random_hex<const BYTES: usize>() -> Result<String, LaunchError> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other).map_err(system("get random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Shows a word of a command so that it could be typed.
fn quote(word: &std::ffi::OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
