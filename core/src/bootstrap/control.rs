//! The control connection of a running group: who died, who left, what failed first.
//!
//! One thread per process waits on the control connections (rank 0: on all of them). Everything
//! else in here talks to that thread through [`Shared`].
//!
//! # What is noticed, and when
//! - A process that ends, however, takes its connection with it: all ranks know within
//!   milliseconds, unless it said goodbye.
//! - A host that vanishes is noticed by the system's keep-alive after about twice the liveness
//!   interval (10 s).
//! - A process that is only stopped is not dead: its system still answers the keep-alive. It is
//!   given up when it has not answered the library's own pings for longer than the deadline of
//!   operations and three intervals (45 s).
//! - If rank 0 closes the group before the others do, they work on, but lose this watch: the end
//!   of a rank is then only seen by those that have a data link to it, and a cause found by one
//!   rank does not travel.

use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::failure::{as_cause, explained};
use super::interrupt;
use super::wire::Failure;
use crate::error::{Cause, StartError};
use crate::sys::net;

/// How long a rank waits for rank 0's verdict about what it has reported.
const VERDICT: Duration = Duration::from_millis(300);
/// How long closing may take.
const CLOSE: Duration = Duration::from_millis(1000);
/// At least this often a wait looks for an interruption.
const SLICE: Duration = Duration::from_millis(50);

type Hook = Box<dyn Fn() + Send + Sync>;

/// What the control thread is asked to do.
#[derive(Debug)]
pub(super) enum Command {
    Contribute { step: u32, what: String, bytes: Vec<u8> },
    Fail(Failure),
    Report(Cause),
    Started,
    Leave,
    Close,
}

/// What the threads of a process have in common.
pub(super) struct Shared {
    pub(super) rank: usize,
    pub(super) size: usize,
    owner: u32,
    failed: AtomicBool,
    failure: OnceLock<(Failure, Arc<Cause>)>,
    departed: Box<[AtomicBool]>,
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes the control thread.
    bell: Option<UnixStream>,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    hooks: Vec<Hook>,
    gathered: Option<(u32, Vec<Vec<u8>>)>,
    /// Ranks that are not there yet, as rank 0 says; `None` before its first word.
    missing: Option<Vec<u32>>,
    /// The control thread is gone, or rank 0 has closed the group.
    alone: bool,
    ended: bool,
    /// Counts changes, so that a waiter does not miss one.
    changes: u64,
}

impl Shared {
    /// The second value is the other end of the bell; a group of size 1 has neither.
    pub(super) fn new(
        rank: usize,
        size: usize,
    ) -> std::io::Result<(Arc<Self>, Option<UnixStream>)> {
        let (bell, ear) = if size > 1 {
            let (bell, ear) = UnixStream::pair()?;
            bell.set_nonblocking(true)?;
            ear.set_nonblocking(true)?;
            net::quiet(&bell)?;
            (Some(bell), Some(ear))
        } else {
            (None, None)
        };
        let single = size == 1;
        let shared = Shared {
            rank,
            size,
            owner: std::process::id(),
            failed: AtomicBool::new(false),
            failure: OnceLock::new(),
            departed: (0..size).map(|_| AtomicBool::new(false)).collect(),
            state: Mutex::new(State { alone: single, ended: single, ..State::default() }),
            changed: Condvar::new(),
            bell,
        };
        Ok((Arc::new(shared), ear))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements; a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether this process is a fork of the owner. Its locks may be held by threads that do not
    /// exist here, so everything looks at this first.
    pub(super) fn is_forked(&self) -> bool {
        std::process::id() != self.owner
    }

    pub(super) fn failure(&self) -> Option<&(Failure, Arc<Cause>)> {
        self.failure.get()
    }

    pub(super) fn is_departed(&self, rank: usize) -> bool {
        self.departed.get(rank).is_some_and(|gone| gone.load(Ordering::Acquire))
    }

    pub(super) fn depart(&self, rank: usize) {
        if let Some(gone) = self.departed.get(rank) {
            gone.store(true, Ordering::Release);
        }
    }

    fn touch(&self, state: &mut State) {
        state.changes += 1;
        self.changed.notify_all();
    }

    /// Sets the first failure; later ones change nothing.
    pub(super) fn fail(&self, failure: Failure) {
        let cause = Arc::new(as_cause(&failure));
        let hooks = {
            let mut state = self.lock();
            if self.failure.set((failure, cause)).is_err() {
                return;
            }
            self.failed.store(true, Ordering::Release);
            self.touch(&mut state);
            std::mem::take(&mut state.hooks)
        };
        for hook in &hooks {
            call(hook);
        }
    }

    pub(super) fn deliver(&self, step: u32, entries: Vec<Vec<u8>>) {
        let mut state = self.lock();
        state.gathered = Some((step, entries));
        self.touch(&mut state);
    }

    pub(super) fn set_missing(&self, ranks: Vec<u32>) {
        let mut state = self.lock();
        state.missing = Some(ranks);
        self.touch(&mut state);
    }

    pub(super) fn missing(&self) -> Option<Vec<u32>> {
        self.lock().missing.clone()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.lock().missing.as_ref().is_some_and(Vec::is_empty)
    }

    pub(super) fn take_gathered(&self, step: u32) -> Option<Vec<Vec<u8>>> {
        let mut state = self.lock();
        match state.gathered.take() {
            Some((of, entries)) if of == step => Some(entries),
            other => {
                state.gathered = other;
                None
            }
        }
    }

    pub(super) fn command(&self, command: Command) {
        self.lock().commands.push_back(command);
        if let Some(bell) = &self.bell {
            net::ring(bell);
        }
    }

    pub(super) fn take_commands(&self) -> VecDeque<Command> {
        std::mem::take(&mut self.lock().commands)
    }

    /// From now on nobody gives verdicts.
    pub(super) fn set_alone(&self) {
        let mut state = self.lock();
        state.alone = true;
        self.touch(&mut state);
    }

    pub(super) fn is_alone(&self) -> bool {
        self.lock().alone
    }

    fn end(&self) {
        let mut state = self.lock();
        state.alone = true;
        state.ended = true;
        self.touch(&mut state);
    }

    /// Waits until `done` gives something, the time is over (`Ok(None)`), or the program asks for
    /// an end (`Err`).
    pub(super) fn wait<T>(
        &self,
        until: Instant,
        mut done: impl FnMut(&Self) -> Option<T>,
    ) -> Result<Option<T>, ()> {
        loop {
            let changes = self.lock().changes;
            if let Some(found) = done(self) {
                return Ok(Some(found));
            }
            if interrupt::requested() {
                return Err(());
            }
            let now = Instant::now();
            if now >= until {
                return Ok(None);
            }
            let state = self.lock();
            if state.changes == changes {
                drop(self.changed.wait_timeout(state, SLICE.min(until - now)));
            }
        }
    }
}

fn call(hook: &Hook) {
    if catch_unwind(AssertUnwindSafe(hook)).is_err() {
        tracing::error!("a hook that runs when the group fails has panicked");
    }
}

/// Empties the bell.
pub(super) fn hush(ear: &UnixStream) {
    let mut buffer = [0; 64];
    while matches!((&*ear).read(&mut buffer), Ok(count) if count == buffer.len()) {}
}

/// Starts the control thread. Whatever happens in it, waiting threads learn of its end.
pub(super) fn spawn(
    shared: &Arc<Shared>,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let own = Arc::clone(shared);
    std::thread::Builder::new()
        .name("lycaon-control".to_owned())
        .spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                let message = panic
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "no message".to_owned());
                own.fail(Failure::Cause(Cause::Panicked { rank: own.rank, message }));
            }
            own.end();
        })
        .map_err(|error| StartError::System {
            rank: shared.rank,
            action: "start the control thread".to_owned(),
            reason: error.to_string(),
        })
}

/// The shared part of all [`Control`]s of a group; the last one closes it.
struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    left: AtomicBool,
    closed: AtomicBool,
}

/// A handle on the control connection. Cheap to clone; the last one closes it.
#[derive(Clone)]
pub(crate) struct Control(Arc<Inner>);

impl Control {
    pub(super) fn new(shared: Arc<Shared>, thread: Option<JoinHandle<()>>) -> Self {
        Control(Arc::new(Inner {
            shared,
            thread: Mutex::new(thread),
            left: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }))
    }

    /// This rank.
    pub(crate) fn rank(&self) -> usize {
        self.0.shared.rank
    }

    /// Ranks of the job.
    pub(crate) fn size(&self) -> usize {
        self.0.shared.size
    }

    /// The process that started the group.
    pub(crate) fn owner(&self) -> u32 {
        self.0.shared.owner
    }

    /// Whether the group has failed. One atomic load.
    pub(crate) fn failed(&self) -> bool {
        self.0.shared.failed.load(Ordering::Acquire)
    }

    /// What went wrong first.
    pub(crate) fn failure(&self) -> Option<Arc<Cause>> {
        self.0.shared.failure().map(|(_, cause)| Arc::clone(cause))
    }

    /// Tells rank 0 what this rank has seen, and returns what went wrong first in the whole
    /// group. Waits at most 300 ms for rank 0's verdict; without one, what this rank saw counts
    /// here.
    pub(crate) fn report(&self, cause: Cause) -> Arc<Cause> {
        let shared = &self.0.shared;
        if shared.is_forked() {
            return Arc::new(Cause::Forked { owner: shared.owner });
        }
        if let Some(first) = self.failure() {
            return first;
        }
        shared.command(Command::Report(cause.clone()));
        let until = Instant::now() + VERDICT;
        let mut state = shared.lock();
        while shared.failure().is_none() && !state.alone {
            let now = Instant::now();
            if now >= until {
                break;
            }
            state = shared
                .changed
                .wait_timeout(state, until - now)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        drop(state);
        shared.fail(Failure::Cause(explained(cause, |rank| shared.is_departed(rank), shared.rank)));
        self.failure().expect("it has just been set")
    }

    /// Calls `wake` from the control thread once the group fails, or at once if it has failed.
    /// `wake` must not hold a `Control`, or the group would never be closed by dropping it.
    pub(crate) fn on_failure(&self, wake: impl Fn() + Send + Sync + 'static) {
        let shared = &self.0.shared;
        if shared.is_forked() {
            return;
        }
        let wake: Hook = Box::new(wake);
        {
            let mut state = shared.lock();
            if shared.failure().is_none() {
                state.hooks.push(wake);
                return;
            }
        }
        call(&wake);
    }

    /// Whether a rank has said goodbye.
    pub(crate) fn departed(&self, rank: usize) -> bool {
        self.0.shared.is_departed(rank)
    }

    /// Says goodbye: the end of this process is no failure any more.
    pub(crate) fn leave(&self) {
        self.0.leave();
    }

    /// Says goodbye and ends the control thread. Takes at most a second, and does nothing the
    /// second time.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control")
            .field("rank", &self.rank())
            .field("size", &self.size())
            .field("failure", &self.failure())
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn leave(&self) {
        if !self.shared.is_forked() && !self.left.swap(true, Ordering::AcqRel) {
            self.shared.depart(self.shared.rank);
            self.shared.command(Command::Leave);
        }
    }

    fn close(&self) {
        if self.shared.is_forked() {
            // The thread exists in the parent only: it can neither be joined nor told anything.
            if let Ok(mut thread) = self.thread.try_lock() {
                std::mem::forget(thread.take());
            }
            return;
        }
        self.leave();
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        end_thread(&self.shared, &mut self.thread.lock().unwrap_or_else(PoisonError::into_inner));
        let hooks = std::mem::take(&mut self.shared.lock().hooks);
        drop(hooks);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// Asks the control thread to end, waits a bounded time, and joins it if it did.
pub(super) fn end_thread(shared: &Shared, thread: &mut Option<JoinHandle<()>>) {
    shared.command(Command::Close);
    let Some(handle) = thread.take() else { return };
    // A hook that drops the last handle runs on the control thread, which cannot join itself.
    if handle.thread().id() == std::thread::current().id() {
        return;
    }
    let until = Instant::now() + CLOSE;
    let mut state = shared.lock();
    while !state.ended {
        let now = Instant::now();
        if now >= until {
            tracing::warn!("the control thread did not end in time and is left to itself");
            return;
        }
        state = shared
            .changed
            .wait_timeout(state, until - now)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
    drop(state);
    let _ = handle.join();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_of_the_owner_touches_nothing() {
        let (mut shared, ear) = Shared::new(0, 2).unwrap();
        let own = Arc::get_mut(&mut shared).expect("nobody else has it yet");
        own.owner = own.owner.wrapping_add(1);
        let owner = own.owner;
        // A thread that would never end by itself stands for the one that is not in the child.
        let (wake, sleep) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = sleep.recv();
        });
        let control = Control::new(Arc::clone(&shared), Some(thread));
        // The parent may have forked while another of its threads held the lock.
        let lock = shared.lock();
        let began = Instant::now();
        assert_eq!(*control.report(Cause::Closed), Cause::Forked { owner });
        assert!(!control.failed());
        control.leave();
        control.close();
        drop(control);
        assert!(began.elapsed() < Duration::from_millis(500));
        assert!(lock.commands.is_empty(), "nobody is told anything");
        drop((lock, ear, wake));
    }
}
