//! Looking after a running job: what arrives, what is due, and what it means.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Pid;

use super::launcher::{Launcher, Rank};
use super::lines::{Merger, Sink};
use super::outcome::Cause;
use super::processes;
use super::signals;
use super::start::{self, LaunchError, system};
use super::wire::{Order, Report};

/// How long others may go on after a clean exit before it is named.
const NAME_CLEAN_AFTER: Duration = Duration::from_secs(5);

/// When all is over, how long an output may be silent that somebody outside the job holds open.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// How long a job that was to end early waits for somebody to take its last output.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// How long the rest of a job is killed whose guardian is gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// How much is read from one output at a time.
const PIECE: usize = 32 * 1024;

impl Launcher {
    /// Looks after the job until nothing of it is left and its output is written.
    pub(super) fn attend(&mut self) -> Result<(), LaunchError> {
        loop {
            self.writer.push(self.merger.take());
            if self.is_finished() {
                return Ok(());
            }
            self.wait().map_err(system("wait for the ranks"))?;
            for signal in self.signals.take() {
                self.on_signal(signal);
            }
            while let Some(report) = self.wire.next().map_err(system("understand the guardian"))? {
                self.on_report(report).map_err(system("take over a rank's pipes"))?;
            }
            self.on_time();
            self.check_sinks();
            // why: only then is everybody there who is to receive it.
            if self.ranks.len() == self.options.ranks
                && let Some(input) = &mut self.input
                && let Err(error) = input.advance()
            {
                self.say(&format!("the standard input cannot be read: {error}"));
            }
        }
    }

    fn is_finished(&self) -> bool {
        let silent = self.outputs.iter().all(Option::is_none);
        let Some(until) = self.over else { return false };
        self.hasty || ((silent || Instant::now() >= until) && self.writer.is_idle())
    }

    /// Waits until something can be done, and moves bytes.
    fn wait(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let reading = self.writer.has_room();
        let ticks = self.merger.next_tick();
        let times = [self.end_at, self.timeout_at, self.name_at, self.leave_at, ticks];
        let mut next = times.into_iter().flatten().min();
        if self.outputs.iter().any(Option::is_some)
            && let Some(until) = self.over
        {
            next = Some(next.map_or(until, |next| next.min(until)));
        }
        let next = next.map(|at| {
            let time = at.saturating_duration_since(now);
            // why: rounded up, so that the time has come when the wait ends.
            let time = Duration::from_millis(time.as_millis() as u64 + 1);
            time.try_into().expect("a century fits a timespec")
        });
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        let connected = self.over.is_none();
        if connected {
            fds.push(PollFd::new(&self.wire, PollFlags::IN));
        }
        let mut streams = Vec::new();
        for (stream, output) in self.outputs.iter().enumerate() {
            let Some(output) = output else { continue };
            if reading && self.merger.accepts(stream) {
                streams.push(stream);
                fds.push(PollFd::new(output, PollFlags::IN));
            } else if let Some(until) = &mut self.over {
                // why: it is not silent if it is not listened to.
                *until = now + LAST_OUTPUT;
            }
        }
        let mut fed = Vec::new();
        if let Some(input) = &self.input {
            for (rank, pipe, interest) in input.interests() {
                fed.push(rank);
                fds.push(PollFd::from_borrowed_fd(pipe, interest));
            }
        }
        let answer = poll(&mut fds, next.as_ref());
        if !reading {
            self.merger.excuse(Instant::now());
        }
        match answer {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let events: Vec<_> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        let mut events = events.into_iter();
        if events.next().is_some_and(|wake| !wake.is_empty()) {
            signals::drain(&self.wake);
        }
        let reported = connected && events.next().is_some_and(|wire| !wire.is_empty());
        let now = Instant::now();
        for (stream, event) in streams.into_iter().zip(&mut events) {
            if !event.is_empty() {
                self.read_output(stream, now);
            }
        }
        if let Some(input) = &mut self.input {
            for (rank, event) in fed.into_iter().zip(&mut events) {
                if !event.is_empty() {
                    input.ready(rank, event);
                }
            }
        }
        if reported && !self.wire.receive()? {
            self.on_guardian_gone();
        }
        Ok(())
    }

    fn read_output(&mut self, stream: usize, now: Instant) {
        let Some(output) = &self.outputs[stream] else { return };
        let mut piece = [0; PIECE];
        match rustix::io::retry_on_intr(|| rustix::io::read(output, &mut piece)) {
            Ok(got) if got > 0 => {
                self.merger.feed(stream, &piece[..got], now);
                if self.over.is_some() {
                    self.over = Some(now + LAST_OUTPUT);
                }
            }
            // why: a pipe has no errors that a reader could do more about than at its end.
            Ok(_) | Err(_) => {
                self.outputs[stream] = None;
                self.merger.end(stream, now);
            }
        }
    }

    fn on_report(&mut self, report: Report) -> io::Result<()> {
        match report {
            Report::Folder(path) => {
                let path = PathBuf::from(std::ffi::OsString::from(path));
                if self.options.verbose {
                    self.say(&format!("  LYCAON_RENDEZVOUS=file:{}/rendezvous", path.display()));
                }
                self.folder = Some(path);
            }
            Report::Started { rank, pid, input } => self.on_started(rank, pid, input)?,
            Report::NotStarted { rank, step, errno } => {
                let command = &self.options.command[0];
                let cwd = self.options.cwd.as_deref();
                let (text, code) = start::explain(rank, step, errno, command, cwd);
                self.say(&text);
                self.end(Cause::Gave(code));
            }
            Report::Exited(batch) => {
                for exit in &batch {
                    self.ranks[exit.rank].running = false;
                    if let Some(input) = &mut self.input {
                        input.remove(exit.rank);
                    }
                }
                self.outcome.record(&batch);
                self.on_exit();
            }
            Report::Over { left_behind, immortal } => {
                for name in left_behind {
                    self.say(&format!("left behind by a rank, and ended: {name}"));
                }
                for name in immortal {
                    self.say(&format!("could not be killed: {name}"));
                }
                self.on_over();
            }
        }
        Ok(())
    }

    fn on_over(&mut self) {
        let now = Instant::now();
        self.over = Some(now + LAST_OUTPUT);
        if matches!(self.outcome.cause(), Some(Cause::Signal(_) | Cause::Timeout(_))) {
            self.leave_at = Some(now + LAST_WRITES);
        }
    }

    fn on_started(&mut self, rank: usize, pid: i32, input: bool) -> io::Result<()> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
        self.ranks.push(Rank { pid, running: true });
        for _ in [Sink::Out, Sink::Err] {
            self.outputs.push(Some(self.wire.next_descriptor()?));
        }
        if input {
            let pipe = self.wire.next_descriptor()?;
            if let Some(input) = &mut self.input {
                input.add(rank, pipe)?;
            }
        }
        if self.options.verbose {
            self.say(&format!("  rank {rank} is process {}", pid.as_raw_nonzero()));
        }
        Ok(())
    }

    /// Decides what the end of some ranks means for the others.
    fn on_exit(&mut self) {
        if self.outcome.running() == 0 {
            (self.end_at, self.name_at) = (None, None);
            return;
        }
        let now = Instant::now();
        if self.outcome.cause().is_some() && self.end_at.is_none() {
            self.end_at = Some(now + self.options.grace);
            if self.options.verbose
                && let Some(line) = self.outcome.summary().first()
            {
                let grace = self.options.grace;
                self.say(&format!("{line}; the others have {grace:?} to report it"));
            }
        }
        if self.name_at.is_none() && self.outcome.has_news() {
            self.name_at = Some(now + NAME_CLEAN_AFTER);
        }
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if due(self.name_at) {
            self.name_at = None;
            if let Some(text) = self.outcome.name_clean() {
                self.say(&text);
            }
        }
        if due(self.timeout_at) {
            self.timeout_at = None;
            let limit = self.options.timeout.unwrap_or_default();
            if self.over.is_none() && self.outcome.cause().is_none() {
                self.end(Cause::Timeout(limit));
            }
        }
        if due(self.end_at) {
            self.end_at = None;
            self.outcome.set_ending();
            self.order(&Order::End);
        }
        if due(self.leave_at) {
            self.hasty = true;
        }
        self.merger.tick(now);
    }

    fn on_signal(&mut self, signal: i32) {
        if self.over.is_some() {
            // why: only output is left, and somebody does not want to wait for it.
            self.hasty = signal != libc::SIGTSTP;
            return;
        }
        match signal {
            libc::SIGTSTP => self.pause(),
            libc::SIGINT => self.on_interrupt(),
            libc::SIGQUIT => self.order(&Order::Signal(signal)),
            _ if self.outcome.cause() == Some(Cause::Signal(signal)) => self.kill(),
            _ => self.end(Cause::Signal(signal)),
        }
    }

    fn on_interrupt(&mut self) {
        self.interrupts += 1;
        match self.interrupts {
            1 => {
                self.outcome.set_cause(Cause::Signal(libc::SIGINT));
                self.order(&Order::Signal(libc::SIGINT));
                if io::stderr().is_terminal() {
                    self.say("interrupting the ranks; Ctrl-C again ends them");
                }
            }
            2 => self.end(Cause::Signal(libc::SIGINT)),
            _ => self.kill(),
        }
    }

    /// Stops together with the ranks, until the launcher is continued.
    fn pause(&mut self) {
        self.order(&Order::Signal(libc::SIGSTOP));
        let paused = Instant::now();
        // why: sent to this very thread, it takes effect before the call returns, which it does when
        // somebody continues the launcher.
        let _ = signal_hook::low_level::raise(libc::SIGSTOP);
        self.order(&Order::Signal(libc::SIGCONT));
        self.merger.excuse(Instant::now());
        for time in [&mut self.end_at, &mut self.timeout_at, &mut self.name_at] {
            *time = time.map(|at| at + paused.elapsed());
        }
    }

    fn end(&mut self, cause: Cause) {
        self.outcome.set_cause(cause);
        self.outcome.set_ending();
        self.end_at = None;
        self.order(&Order::End);
    }

    fn kill(&mut self) {
        self.outcome.set_ending();
        self.hasty = true;
        self.order(&Order::Kill);
    }

    /// Sends an order; if the guardian is gone, that is noticed where its reports are awaited.
    pub(super) fn order(&mut self, order: &Order) {
        let _ = self.wire.send(order, &[]);
    }

    /// Ends what the guardian would have ended.
    fn on_guardian_gone(&mut self) {
        if self.over.is_some() {
            return;
        }
        let leaders: Vec<_> =
            self.ranks.iter().filter(|rank| rank.running).map(|rank| rank.pid).collect();
        processes::kill_rest_of(&self.job, &leaders, Instant::now() + KILL_PATIENCE);
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
        let status = self.guardian.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
        self.say(&format!("the process that holds the ranks ended ({status}), and they with it"));
        self.outcome.set_cause(Cause::Gave(125));
        self.on_over();
    }

    /// Reacts to a sink that takes no more.
    fn check_sinks(&mut self) {
        for sink in [Sink::Out, Sink::Err] {
            let Some(error) = self.writer.failure(sink) else { continue };
            let streams = (0..self.ranks.len()).map(|rank| Merger::stream(rank, sink));
            let mut open = false;
            for stream in streams {
                // why: the ranks are told in the way of the system: they write into a closed pipe.
                open |= self.outputs[stream].take().is_some();
                self.merger.end(stream, Instant::now());
            }
            if open && error != rustix::io::Errno::PIPE {
                self.say(&format!("the output cannot be written: {error}"));
                self.end(Cause::Gave(125));
            }
        }
    }
}
