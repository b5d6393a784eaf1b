//! The control connection of a running group: who died, who left, what failed and in which order.
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
//! - If rank 0 dies or closes the group before the others do, they work on in the groups without
//!   it, but lose this watch ([`Control::is_alone`]): the end of a rank is then only seen by those
//!   that have a data link to it, a cause found by one rank does not travel, and each rank decides
//!   for itself what failed first.
//!
//! # What is announced
//! Rank 0 keeps the one list of failures, each with the groups it concerns, and sends every new
//! one to all. The list only grows, the first cause of a scope stays, and all ranks have it in the
//! same order. A failure ends no connection but that of a rank that died, so that later ones are
//! announced too.

use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::failure::{as_cause, explained};
use super::interrupt;
use super::scope::{Announcement, Failures, Scope};
use super::wire::Failure;
use crate::error::{Cause, StartError};
use crate::sys::socket;

/// How long a rank waits for rank 0's verdict about what it has reported.
const VERDICT: Duration = Duration::from_millis(300);
/// How long closing may take.
const CLOSE: Duration = Duration::from_millis(1000);
/// At least this often a wait looks for an interruption.
const SLICE: Duration = Duration::from_millis(50);

type Hook = Arc<dyn Fn() + Send + Sync>;

/// What the control thread is asked to do.
#[derive(Debug)]
pub(super) enum Command {
    Contribute { step: u32, what: String, bytes: Vec<u8> },
    Fail(Failure),
    Report { scope: Scope, cause: Cause },
    Started,
    Leave,
    Close,
}

/// What the threads of a process have in common.
pub(super) struct Shared {
    pub(super) rank: usize,
    pub(super) size: usize,
    owner: u32,
    /// How many failures the state holds.
    announced: AtomicUsize,
    /// The first of them: what ends a start that is not over.
    first: OnceLock<Failure>,
    /// The control thread is gone, or rank 0 has closed the group.
    alone: AtomicBool,
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
    failures: Failures,
    gathered: Option<(u32, Vec<Vec<u8>>)>,
    /// Ranks that are not there yet, as rank 0 says; `None` before its first word.
    missing: Option<Vec<u32>>,
    /// The control thread is gone.
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
            socket::quiet(&bell)?;
            (Some(bell), Some(ear))
        } else {
            (None, None)
        };
        let single = size == 1;
        let shared = Shared {
            rank,
            size,
            owner: std::process::id(),
            announced: AtomicUsize::new(0),
            first: OnceLock::new(),
            alone: AtomicBool::new(single),
            departed: (0..size).map(|_| AtomicBool::new(false)).collect(),
            state: Mutex::new(State { ended: single, ..State::default() }),
            changed: Condvar::new(),
            bell,
        };
        Ok((Arc::new(shared), ear))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements; a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process is a fork of the owner. Its locks may be held by threads that do not
    /// exist here, so everything looks at this first.
    pub(super) fn is_forked(&self) -> bool {
        std::process::id() != self.owner
    }

    /// The first failure.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.first.get()
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

    /// Adds a failure to the list, unless an earlier one explains it.
    pub(super) fn fail(&self, failure: Failure) {
        let (scope, cause) = as_cause(&failure);
        let hooks = {
            let mut state = self.lock();
            if !state.failures.add(scope, Arc::new(cause)) {
                return;
            }
            // Only the first one is kept as it came.
            let _ = self.first.set(failure);
            self.announced.store(state.failures.len(), Ordering::Release);
            self.touch(&mut state);
            state.hooks.clone()
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
            socket::ring(bell);
        }
    }

    pub(super) fn take_commands(&self) -> VecDeque<Command> {
        std::mem::take(&mut self.lock().commands)
    }

    /// From now on nobody gives verdicts.
    pub(super) fn set_alone(&self) {
        let mut state = self.lock();
        self.alone.store(true, Ordering::Release);
        self.touch(&mut state);
    }

    pub(super) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Acquire)
    }

    fn end(&self) {
        let mut state = self.lock();
        self.alone.store(true, Ordering::Release);
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
    if catch_unwind(AssertUnwindSafe(|| hook())).is_err() {
        tracing::error!("a hook that runs when something fails has panicked");
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
                let cause = Cause::Panicked { rank: own.rank, message };
                own.fail(Failure::Cause { scope: Scope::Rank(own.rank), cause });
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

    /// How many failures have been announced. One atomic load.
    pub(crate) fn announcements(&self) -> usize {
        self.0.shared.announced.load(Ordering::Acquire)
    }

    /// The announcements from the `from`-th on.
    pub(crate) fn since(&self, from: usize) -> Vec<Announcement> {
        if self.0.shared.is_forked() {
            return Vec::new();
        }
        self.0.shared.lock().failures.since(from)
    }

    /// Tells rank 0 what this rank has seen, and returns the first cause of a failure of that
    /// scope. Waits at most 300 ms for rank 0's verdict; without one, what this rank saw counts
    /// here.
    pub(crate) fn report(&self, scope: Scope, cause: Cause) -> Arc<Cause> {
        let shared = &self.0.shared;
        if shared.is_forked() {
            return Arc::new(Cause::Forked { owner: shared.owner });
        }
        let known = |shared: &Shared| shared.lock().failures.verdict(scope);
        if let Some(first) = known(shared) {
            return first;
        }
        if !shared.is_alone() {
            shared.command(Command::Report { scope, cause: cause.clone() });
        }
        let until = Instant::now() + VERDICT;
        let mut state = shared.lock();
        while state.failures.verdict(scope).is_none() && !shared.is_alone() {
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
        let (own, cause) = explained(scope, cause, |rank| shared.is_departed(rank), shared.rank);
        shared.fail(Failure::Cause { scope: own, cause });
        known(shared).expect("it has just been added, or something that explains it")
    }

    /// Calls `wake` for every announcement from now on, and at once if there are some already. It
    /// runs on the thread that adds the announcement. `wake` must not hold a `Control`, or the
    /// group would never be closed by dropping it.
    pub(crate) fn on_announcement(&self, wake: impl Fn() + Send + Sync + 'static) {
        let shared = &self.0.shared;
        if shared.is_forked() {
            return;
        }
        let wake: Hook = Arc::new(wake);
        let late = {
            let mut state = shared.lock();
            state.hooks.push(Arc::clone(&wake));
            state.failures.len() > 0
        };
        if late {
            call(&wake);
        }
    }

    /// Whether nobody gives verdicts any more: rank 0 is gone, or this rank has closed.
    pub(crate) fn is_alone(&self) -> bool {
        self.0.shared.is_alone()
    }

    /// Whether a rank has said goodbye.
    pub(crate) fn departed(&self, rank: usize) -> bool {
        self.0.shared.is_departed(rank)
    }

    #[cfg(test)]
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
            .field("announcements", &self.announcements())
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
        assert_eq!(*control.report(Scope::Job, Cause::Closed), Cause::Forked { owner });
        assert_eq!((control.announcements(), control.since(0)), (0, vec![]));
        control.on_announcement(|| panic!("nothing is announced here"));
        control.leave();
        control.close();
        drop(control);
        assert!(began.elapsed() < Duration::from_millis(500));
        assert!(lock.commands.is_empty(), "nobody is told anything");
        drop((lock, ear, wake));
    }
}
