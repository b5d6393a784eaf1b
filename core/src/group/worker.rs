//! The progress threads of a group: they run what was started with an `…_async` method.
//!
//! Collectives run one after the other, in the order of the calls, on one thread. Messages are all
//! under way at once, on another one: they do not wait for collectives. Each thread is made at first
//! use and sleeps when it has nothing to do.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::call::Signature;
use crate::dtype::DType;
use crate::error::{Cause, Error, OperationError, Result};
use crate::fabric::{Exec, LOOK, Patience, State, Stop, Trouble};
use crate::reduce;
use crate::sys::buf::Lent;
use crate::trace::Ticket;

use super::core::{GroupCore, Prepared};
use super::request::Checked;

/// Who is told the result.
type Listener = Box<dyn FnOnce(Result<()>) + Send>;

/// How an asynchronous operation tells that it has ended.
#[derive(Default)]
pub(crate) struct Completion {
    state: Mutex<Ending>,
    ended: Condvar,
}

#[derive(Default)]
struct Ending {
    result: Option<Result<()>>,
    listener: Option<Listener>,
}

impl Completion {
    fn lock(&self) -> MutexGuard<'_, Ending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, result: Result<()>) {
        let listener = {
            let mut state = self.lock();
            state.result = Some(result.clone());
            state.listener.take()
        };
        self.ended.notify_all();
        if let Some(listener) = listener {
            listener(result);
        }
    }

    /// Gives the result to the listener: when it comes, or at once if it is there.
    pub(crate) fn listen(&self, listener: Listener) {
        let mut state = self.lock();
        match state.result.clone() {
            None => state.listener = Some(listener),
            Some(result) => {
                drop(state);
                listener(result);
            }
        }
    }

    /// The result, if there is one.
    pub(crate) fn result(&self) -> Option<Result<()>> {
        self.lock().result.clone()
    }

    /// Waits at most so long for the result.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Result<()>> {
        let guard = self.lock();
        if guard.result.is_some() {
            return guard.result.clone();
        }
        let (guard, _) =
            self.ended.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner);
        guard.result.clone()
    }
}

/// A collective, with its place in the order.
pub(crate) struct Collective {
    pub(crate) number: u64,
    pub(crate) checked: Checked,
    pub(crate) lent: Arc<Lent>,
}

/// A message that is posted.
pub(crate) struct Message {
    pub(crate) prepared: Prepared<'static>,
    pub(crate) dtype: DType,
}

struct Job<T> {
    task: T,
    completion: Arc<Completion>,
}

/// What a thread is asked to do.
struct Queue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

struct QueueState<T> {
    jobs: VecDeque<Job<T>>,
    stop: bool,
    /// Nothing more will come.
    last: bool,
}

impl<T> Queue<T> {
    fn new() -> Self {
        let state = QueueState { jobs: VecDeque::new(), stop: false, last: false };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job<T>) {
        self.lock().jobs.push_back(job);
        self.changed.notify_one();
    }

    fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_one();
    }

    /// What is there is all there is.
    fn finish(&self) {
        self.lock().last = true;
    }

    /// All jobs that are there; waits for one if there is nothing else to do. `None`: stop.
    fn take(&self, idle: bool) -> Option<VecDeque<Job<T>>> {
        let mut state = self.lock();
        while idle && state.jobs.is_empty() && !state.stop && !state.last {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let over = state.stop || (idle && state.last && state.jobs.is_empty());
        (!over).then(|| std::mem::take(&mut state.jobs))
    }

    /// The next job; `None`: stop.
    fn take_one(&self) -> Option<Job<T>> {
        let mut state = self.lock();
        while state.jobs.is_empty() && !state.stop {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stop { None } else { state.jobs.pop_front() }
    }

    /// What nobody has taken.
    fn rest(&self) -> VecDeque<Job<T>> {
        std::mem::take(&mut self.lock().jobs)
    }
}

/// A thread and its queue.
struct Thread<T> {
    queue: Arc<Queue<T>>,
    handle: JoinHandle<()>,
}

impl<T: Send + 'static> Thread<T> {
    fn start(
        core: &Arc<GroupCore>,
        what: &str,
        run: fn(&GroupCore, &Queue<T>),
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new());
        let (for_thread, core) = (Arc::clone(&queue), Arc::clone(core));
        let handle = std::thread::Builder::new()
            .name(format!("lycaon-{what}-{:x}", core.id))
            .spawn(move || run(&core, &for_thread))?;
        Ok(Thread { queue, handle })
    }
}

#[derive(Default)]
struct Threads {
    stopped: bool,
    collectives: Option<Thread<Collective>>,
    messages: Option<Thread<Message>>,
}

/// The threads of one group.
pub(crate) struct Worker {
    core: Arc<GroupCore>,
    threads: Mutex<Threads>,
}

impl Worker {
    pub(super) fn new(core: Arc<GroupCore>) -> Self {
        Worker { core, threads: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a collective. The order of the calls is the order of the numbers.
    pub(super) fn submit_collective(&self, task: impl FnOnce() -> Collective) -> Arc<Completion> {
        let completion = Arc::new(Completion::default());
        let mut threads = self.lock();
        let job = Job { task: task(), completion: Arc::clone(&completion) };
        if !threads.stopped && threads.collectives.is_none() {
            threads.collectives = Thread::start(&self.core, "collectives", run_collectives)
                .inspect_err(|error| tracing::error!(%error, "cannot start a thread"))
                .ok();
        }
        match (&threads.collectives, threads.stopped) {
            (Some(thread), _) => thread.queue.push(job),
            (None, true) => {
                drop(threads);
                refuse_collective(&self.core, job);
            }
            // Without a thread of its own it runs on the caller's.
            (None, false) => {
                drop(threads);
                run_collective(&self.core, job);
            }
        }
        completion
    }

    /// Adds a message.
    pub(super) fn submit_message(&self, task: Message) -> Arc<Completion> {
        let completion = Arc::new(Completion::default());
        let job = Job { task, completion: Arc::clone(&completion) };
        let mut threads = self.lock();
        if !threads.stopped && threads.messages.is_none() {
            threads.messages = Thread::start(&self.core, "messages", run_messages)
                .inspect_err(|error| tracing::error!(%error, "cannot start a thread"))
                .ok();
        }
        match (&threads.messages, threads.stopped) {
            (Some(thread), _) => {
                thread.queue.push(job);
                if let Some(fabric) = &self.core.fabric {
                    fabric.wake();
                }
            }
            (None, true) => {
                drop(threads);
                refuse_message(&self.core, job);
            }
            // Without a thread of its own it runs on the caller's.
            (None, false) => {
                drop(threads);
                let queue = Queue::new();
                queue.push(job);
                queue.finish();
                run_messages(&self.core, &queue);
            }
        }
        completion
    }

    /// Ends the threads. What has not completed fails.
    pub(super) fn stop(&self) {
        let (collectives, messages) = {
            let mut threads = self.lock();
            threads.stopped = true;
            (threads.collectives.take(), threads.messages.take())
        };
        // Ends the waits of what is under way.
        self.core.health.poison(Arc::new(Cause::Closed));
        if let Some(thread) = &collectives {
            thread.queue.stop();
        }
        if let Some(thread) = &messages {
            thread.queue.stop();
        }
        if let Some(fabric) = &self.core.fabric {
            fabric.wake();
        }
        let handles = collectives.map(|thread| thread.handle).into_iter();
        for handle in handles.chain(messages.map(|thread| thread.handle)) {
            // Who listens to the end of an operation may let go of the group there; the thread then
            // ends on its own.
            if handle.thread().id() != std::thread::current().id() {
                // A panic inside was turned into failed operations already.
                let _ = handle.join();
            }
        }
    }
}

/// The error of what will not run any more.
fn refusal(core: &GroupCore) -> Error {
    let cause = core.health.failure().unwrap_or_else(|| Arc::new(Cause::Closed));
    Error::Operation(OperationError {
        rank: core.rank,
        operation: None,
        peer: None,
        link: None,
        elapsed: Duration::ZERO,
        cause,
    })
}

fn refuse_collective(core: &GroupCore, job: Job<Collective>) {
    let number = job.task.number;
    drop(job.task);
    while !core.turn.wait(number, LOOK) {}
    job.completion.end(Err(refusal(core)));
    core.end_turn(number);
}

fn refuse_message(core: &GroupCore, job: Job<Message>) {
    drop(job.task);
    job.completion.end(Err(refusal(core)));
}

/// A bug of this library showed: the group is poisoned on all ranks.
fn panicked(core: &GroupCore, panic: &(dyn std::any::Any + Send)) {
    let message = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "no message".to_owned());
    core.poison_by_panic(&message);
}

/// The thread of the collectives: each runs as a blocking call would.
fn run_collectives(core: &GroupCore, queue: &Queue<Collective>) {
    while let Some(job) = queue.take_one() {
        run_collective(core, job);
    }
    for job in queue.rest() {
        refuse_collective(core, job);
    }
}

fn run_collective(core: &GroupCore, job: Job<Collective>) {
    let Job { task: Collective { number, checked, lent }, completion } = job;
    let outcome =
        catch_unwind(AssertUnwindSafe(|| core.run_in_turn(&checked, lent.buffers(), number)));
    let result = outcome.unwrap_or_else(|panic| {
        panicked(core, panic.as_ref());
        Err(refusal(core))
    });
    // The buffers go back before anybody hears of the end, and the end is there before the next in
    // the order can be.
    drop(lent);
    while !core.turn.wait(number, LOOK) {}
    completion.end(result);
    core.end_turn(number);
}

/// The thread of the messages.
fn run_messages(core: &GroupCore, queue: &Queue<Message>) {
    let mut messages = Messages { core, queue, active: Vec::new() };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| messages.serve())) {
        panicked(core, panic.as_ref());
        queue.stop();
    }
    let cause = core.health.failure().unwrap_or_else(|| Arc::new(Cause::Closed));
    for active in std::mem::take(&mut messages.active) {
        messages.finish(active, Some(Stop::Failed(Arc::clone(&cause))));
    }
    for job in queue.rest() {
        refuse_message(core, job);
    }
}

/// A message under way.
struct Active<'a> {
    exec: Exec<'static>,
    signature: Signature,
    ticket: Ticket,
    patience: Patience<'a>,
    completion: Arc<Completion>,
    /// Kept to normalise what arrived.
    dtype: DType,
}

/// The messages under way.
struct Messages<'a> {
    core: &'a GroupCore,
    queue: &'a Queue<Message>,
    active: Vec<Active<'a>>,
}

impl<'a> Messages<'a> {
    fn serve(&mut self) {
        loop {
            let seen = self.core.fabric.as_ref().map_or(0, |fabric| fabric.generation());
            let Some(jobs) = self.queue.take(self.active.is_empty()) else { return };
            for job in jobs {
                self.start(job);
            }
            let mut moved = false;
            let mut index = 0;
            while index < self.active.len() {
                match self.step(index) {
                    Step::Moved => {
                        moved = true;
                        index += 1;
                    }
                    Step::Waits => index += 1,
                    Step::Ended => moved = true,
                }
            }
            if !moved && !self.active.is_empty() {
                self.rest(seen);
            }
        }
    }

    fn start(&mut self, job: Job<Message>) {
        let core = self.core;
        let Message { prepared, dtype } = job.task;
        let fabric = core.fabric.as_ref().expect("messages need another rank, so a fabric");
        let ticket =
            core.recorder.begin(prepared.signature, Some(prepared.peer), Some(prepared.tag), None);
        self.active.push(Active {
            exec: prepared.exec,
            signature: prepared.signature,
            ticket,
            patience: Patience::new(fabric, &core.health, core.timeout()),
            completion: job.completion,
            dtype,
        });
    }

    fn step(&mut self, index: usize) -> Step {
        let active = &mut self.active[index];
        let end = match active.exec.poll() {
            Ok(State::Pending { moved: true }) => {
                active.patience.note_progress();
                return Step::Moved;
            }
            Ok(State::Pending { moved: false }) => match active.patience.look_now_and_then() {
                Ok(()) => return Step::Waits,
                Err(stop) => Some(stop),
            },
            Ok(State::Done) => None,
            Err(trouble) => {
                let active = self.active.swap_remove(index);
                let error = self.core.fail(active.signature, active.ticket.elapsed(), trouble);
                self.deliver(active, Err(error));
                return Step::Ended;
            }
        };
        let active = self.active.swap_remove(index);
        self.finish(active, end);
        Step::Ended
    }

    /// Ends a message, with an error if the wait was stopped.
    fn finish(&self, active: Active<'a>, stop: Option<Stop>) {
        let peer = active.exec.waiting_for();
        let result = match stop {
            None => Ok(()),
            Some(stop) => {
                let trouble = Trouble::Stop { stop, peer };
                Err(self.core.fail(active.signature, active.ticket.elapsed(), trouble))
            }
        };
        self.deliver(active, result);
    }

    fn deliver(&self, mut active: Active<'a>, result: Result<()>) {
        if active.dtype == DType::Bool {
            reduce::normalise_bool(active.exec.output_mut());
        }
        // The buffers go back before anybody hears of the end.
        drop(active.exec);
        self.core.record_end(active.ticket, &result);
        active.completion.end(result);
    }

    /// Nothing moves: poll a little, then sleep until something may have changed.
    fn rest(&mut self, seen: u64) {
        let since = self.active.iter_mut().map(|active| active.patience.since()).max();
        let fabric = self.core.fabric.as_ref().expect("active operations have a fabric");
        let polling =
            since.is_some_and(|since| Instant::now().duration_since(since) < fabric.policy.spin);
        if polling {
            std::hint::spin_loop();
        } else {
            fabric.sleep(LOOK, seen);
        }
    }
}

enum Step {
    Moved,
    Waits,
    Ended,
}
