//! The progress thread of a group: it runs what was started with an `…_async` method.
//!
//! At most one collective is under way, in the order of the calls; messages are all under way at
//! once. The thread is made at the first asynchronous call and sleeps when it has nothing to do.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::call::Signature;
use crate::collective::Algorithm;
use crate::dtype::DType;
use crate::error::{Cause, Error, OperationError, Result};
use crate::fabric::{Exec, LOOK, Patience, State, Stop, Trouble};
use crate::reduce;
use crate::sys::buf::{Buffers, Lent};
use crate::trace::Ticket;

use super::core::{GroupCore, Prepared, alone};
use super::request::Checked;

/// How an asynchronous operation tells that it has ended.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    result: Mutex<Option<Result<()>>>,
    ended: Condvar,
}

impl Completion {
    fn lock(&self) -> MutexGuard<'_, Option<Result<()>>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, result: Result<()>) {
        *self.lock() = Some(result);
        self.ended.notify_all();
    }

    /// The result, if there is one.
    pub(crate) fn result(&self) -> Option<Result<()>> {
        self.lock().clone()
    }

    /// Waits at most so long for the result.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Result<()>> {
        let guard = self.lock();
        if guard.is_some() {
            return guard.clone();
        }
        let (guard, _) =
            self.ended.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner);
        guard.clone()
    }
}

/// What the thread is asked to do.
pub(crate) enum Task {
    /// A collective, with its place in the order.
    Collective { number: u64, checked: Checked, lent: Arc<Lent> },
    /// A message.
    Message { prepared: Prepared<'static>, dtype: DType },
}

struct Job {
    task: Task,
    completion: Arc<Completion>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    stop: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread and its queue.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    core: Arc<GroupCore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    pub(super) fn start(core: Arc<GroupCore>) -> Self {
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() });
        let for_thread = (Arc::clone(&shared), Arc::clone(&core));
        let thread = std::thread::Builder::new()
            .name(format!("lycaon-group-{:x}", core.id))
            .spawn(move || Loop::new(&for_thread.0, &for_thread.1).run())
            .ok();
        Worker { shared, core, thread: Mutex::new(thread) }
    }

    /// Adds a task. The order of the calls is the order of the collectives' numbers.
    pub(super) fn submit(&self, task: impl FnOnce() -> Task) -> Arc<Completion> {
        let completion = Arc::new(Completion::default());
        let mut queue = self.shared.lock();
        let job = Job { task: task(), completion: Arc::clone(&completion) };
        let has_thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if queue.stop || !has_thread {
            drop(queue);
            refuse(&self.core, job);
            return completion;
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.shared.changed.notify_one();
        if let Some(fabric) = &self.core.fabric {
            fabric.wake();
        }
        completion
    }

    /// Ends the thread. What has not completed fails.
    pub(super) fn stop(&self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_one();
        if let Some(fabric) = &self.core.fabric {
            fabric.wake();
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic inside was turned into failed operations already.
            let _ = thread.join();
        }
    }
}

/// Ends a job that will not run.
fn refuse(core: &GroupCore, job: Job) {
    if let Task::Collective { number, .. } = &job.task {
        while !core.turn.wait(*number, LOOK) {}
        core.end_turn(*number);
    }
    let cause = core.health.failure().unwrap_or_else(|| Arc::new(Cause::Closed));
    let error = OperationError {
        rank: core.rank,
        operation: None,
        peer: None,
        link: None,
        elapsed: Duration::ZERO,
        cause,
    };
    drop(job.task);
    job.completion.end(Err(Error::Operation(error)));
}

/// Something under way over messages.
struct Active<'a> {
    exec: Option<Exec<'static>>,
    signature: Signature,
    ticket: Ticket,
    patience: Patience<'a>,
    completion: Arc<Completion>,
    /// For a collective: its number.
    number: Option<u64>,
    /// Kept to normalise what arrived.
    dtype: DType,
    lent: Option<Arc<Lent>>,
}

/// The thread's own state.
struct Loop<'a> {
    shared: &'a Shared,
    core: &'a GroupCore,
    waiting: VecDeque<Job>,
    active: Vec<Active<'a>>,
}

impl<'a> Loop<'a> {
    fn new(shared: &'a Shared, core: &'a GroupCore) -> Self {
        Loop { shared, core, waiting: VecDeque::new(), active: Vec::new() }
    }

    fn run(&mut self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.serve()));
        if let Err(panic) = outcome {
            let message = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
                .unwrap_or_else(|| "no message".to_owned());
            let cause = Cause::Panicked { rank: self.core.members[self.core.rank], message };
            let cause = match &self.core.fabric {
                Some(fabric) => {
                    fabric.watch.report(crate::fabric::Scope::of(&cause, self.core.id), cause)
                }
                None => Arc::new(cause),
            };
            self.core.health.poison(cause);
        }
        self.shared.lock().stop = true;
        self.abandon();
    }

    /// Fails everything that is left.
    fn abandon(&mut self) {
        let cause = self.core.health.failure().unwrap_or_else(|| Arc::new(Cause::Closed));
        for active in std::mem::take(&mut self.active) {
            self.finish(active, Some(Stop::Failed(Arc::clone(&cause))));
        }
        let left: Vec<Job> =
            self.waiting.drain(..).chain(std::mem::take(&mut self.shared.lock().jobs)).collect();
        for job in left {
            refuse(self.core, job);
        }
    }

    fn serve(&mut self) {
        loop {
            if !self.take_jobs() {
                return;
            }
            let mut moved = self.start_collective();
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
                self.rest();
            } else if !moved && !self.waiting.is_empty() {
                // A blocking call of another thread is before us in the order.
                if let Some(Job { task: Task::Collective { number, .. }, .. }) =
                    self.waiting.front()
                {
                    self.core.turn.wait(*number, LOOK);
                }
            }
        }
    }

    /// Fetches new jobs, waiting for one if there is nothing else to do. False: stop.
    fn take_jobs(&mut self) -> bool {
        let mut queue = self.shared.lock();
        while queue.jobs.is_empty()
            && self.active.is_empty()
            && self.waiting.is_empty()
            && !queue.stop
        {
            queue = self.shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.stop {
            return false;
        }
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        for job in jobs {
            match job.task {
                Task::Collective { .. } => self.waiting.push_back(job),
                Task::Message { prepared, dtype } => {
                    self.start_message(prepared, dtype, job.completion);
                }
            }
        }
        true
    }

    fn start_message(
        &mut self,
        prepared: Prepared<'static>,
        dtype: DType,
        completion: Arc<Completion>,
    ) {
        let core = self.core;
        let fabric = core.fabric.as_ref().expect("messages need another rank, so a fabric");
        let ticket =
            core.recorder.begin(prepared.signature, Some(prepared.peer), Some(prepared.tag), None);
        self.active.push(Active {
            exec: Some(prepared.exec),
            signature: prepared.signature,
            ticket,
            patience: Patience::new(fabric, &core.health, core.timeout(), ticket.began()),
            completion,
            number: None,
            dtype,
            lent: None,
        });
    }

    /// Starts the next collective if it is its turn; those in shared memory run right here.
    fn start_collective(&mut self) -> bool {
        let core = self.core;
        let number = match self.waiting.front() {
            Some(Job { task: Task::Collective { number, .. }, .. }) if core.turn.is(*number) => {
                *number
            }
            _ => return false,
        };
        let Some(Job { task: Task::Collective { checked, lent, .. }, completion }) =
            self.waiting.pop_front()
        else {
            unreachable!("only collectives wait for their turn")
        };
        let signature = Signature { sequence: number, call: checked.call };
        let algorithm = core.algorithm_for(&checked);
        let ticket = core.recorder.begin(signature, None, None, algorithm);
        let buffers = lent.buffers();
        let (exec, result) = match core.usable() {
            Err(error) => (None, Err(error)),
            Ok(()) => self.begin(&checked, signature, algorithm, ticket, buffers),
        };
        match (exec, &core.fabric) {
            (Some(exec), Some(fabric)) => self.active.push(Active {
                exec: Some(exec),
                signature,
                ticket,
                patience: Patience::new(fabric, &core.health, core.timeout(), ticket.began()),
                completion,
                number: Some(number),
                dtype: checked.problem.dtype,
                lent: Some(lent),
            }),
            _ => {
                core.record_end(ticket, &result);
                core.end_turn(number);
                drop(lent);
                completion.end(result);
            }
        }
        true
    }

    /// Either the state machine of a collective, or its result if it could be done at once.
    fn begin(
        &mut self,
        checked: &Checked,
        signature: Signature,
        algorithm: Option<Algorithm>,
        ticket: Ticket,
        mut buffers: Buffers<'static>,
    ) -> (Option<Exec<'static>>, Result<()>) {
        let core = self.core;
        let result = match (algorithm, &core.fabric) {
            (Some(Algorithm::Arena), Some(fabric)) => {
                let mut patience =
                    Patience::new(fabric, &core.health, core.timeout(), ticket.began());
                core.run_arena(&checked.problem, &signature, &mut buffers, &mut patience)
                    .map_err(|trouble| core.fail(signature, ticket.began(), trouble))
            }
            (Some(algorithm), Some(_)) => {
                return (core.exec(&checked.problem, signature, algorithm, buffers), Ok(()));
            }
            _ => {
                alone(&checked.problem, &mut buffers);
                Ok(())
            }
        };
        if checked.problem.dtype == DType::Bool {
            reduce::normalise_bool(buffers.output_mut());
        }
        (None, result)
    }

    fn step(&mut self, index: usize) -> Step {
        let active = &mut self.active[index];
        let exec = active.exec.as_mut().expect("an active operation has its state machine");
        match exec.poll() {
            Ok(State::Pending { moved: true }) => {
                active.patience.note_progress();
                Step::Moved
            }
            Ok(State::Pending { moved: false }) => match active.patience.look_now_and_then() {
                Ok(()) => Step::Waits,
                Err(stop) => {
                    let active = self.active.swap_remove(index);
                    self.finish(active, Some(stop));
                    Step::Ended
                }
            },
            Ok(State::Done) => {
                let active = self.active.swap_remove(index);
                self.finish(active, None);
                Step::Ended
            }
            Err(trouble) => {
                let mut active = self.active.swap_remove(index);
                active.exec = None;
                let error = self.core.fail(active.signature, active.ticket.began(), trouble);
                self.deliver(active, Err(error));
                Step::Ended
            }
        }
    }

    /// Ends an operation, with an error if the wait was stopped.
    fn finish(&self, mut active: Active<'a>, stop: Option<Stop>) {
        let peer = active.exec.as_ref().and_then(Exec::waiting_for);
        let mut exec = active.exec.take();
        if active.dtype == DType::Bool {
            if let Some(exec) = &mut exec {
                reduce::normalise_bool(exec.output_mut());
            }
        }
        // The buffers go back before anybody hears of the end.
        drop(exec);
        let result = match stop {
            None => Ok(()),
            Some(stop) => {
                let trouble = Trouble::Stop { stop, peer };
                Err(self.core.fail(active.signature, active.ticket.began(), trouble))
            }
        };
        self.deliver(active, result);
    }

    fn deliver(&self, active: Active<'a>, result: Result<()>) {
        self.core.record_end(active.ticket, &result);
        if let Some(number) = active.number {
            self.core.end_turn(number);
        }
        drop(active.exec);
        drop(active.lent);
        active.completion.end(result);
    }

    /// Nothing moves: poll a little, then sleep until something may have changed.
    fn rest(&mut self) {
        let since = self.active.iter_mut().map(|active| active.patience.since()).max();
        let fabric = self.core.fabric.as_ref().expect("active operations have a fabric");
        let polling =
            since.is_some_and(|since| Instant::now().duration_since(since) < fabric.policy.spin);
        if polling {
            std::hint::spin_loop();
        } else {
            fabric.sleep(LOOK);
        }
    }
}

enum Step {
    Moved,
    Waits,
    Ended,
}
