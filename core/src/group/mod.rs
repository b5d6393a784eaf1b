//! A group of ranks and its operations.

mod async_ops;
mod core;
mod describe;
mod health;
mod measure;
mod ops;
mod request;
mod split;
mod start;
mod tuner;
mod turn;
mod worker;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::collective::Algorithm;
use crate::error::{Cause, Result};
use crate::trace::{LinkInfo, Progress, Record};

pub use describe::Choice;
pub use request::{Request, RequestCounts};
pub use start::{InProcess, in_process, init, init_with};

pub(crate) use self::core::GroupCore;
pub(crate) use health::Health;
pub(crate) use worker::Completion;
use worker::Worker;

/// A group of ranks that compute together.
///
/// A group is an ordered stream: collectives complete in the order in which they were called, and
/// every rank has to call the same ones in the same order. Messages between two ranks are ordered
/// per tag and do not wait for collectives.
///
/// The handle is cheap to clone and may be used from many threads; the order of collectives is
/// then the order of the calls. Blocking calls run on the caller's thread; the `…_async` forms
/// return a [`Work`](crate::Work) and run on threads of the group that are made at first use.
///
/// When an operation fails for another reason than a wrong argument, the group is poisoned: every
/// later call returns the first cause at once. Dropping the last handle closes the group; if that
/// was the last group of the job, the links are closed too. Neither ever hangs.
///
/// In a forked child of the process that formed it a group can only be dropped, which leaves the
/// parent's links alone; every call returns [`Cause::Forked`].
#[derive(Clone)]
pub struct Group {
    handle: Arc<Handle>,
}

/// Ends the worker when the last handle goes.
pub(crate) struct Handle {
    core: Arc<GroupCore>,
    worker: OnceLock<Worker>,
}

impl Group {
    pub(crate) fn from_core(core: GroupCore) -> Self {
        Group { handle: Arc::new(Handle { core: Arc::new(core), worker: OnceLock::new() }) }
    }

    pub(crate) fn core(&self) -> &Arc<GroupCore> {
        &self.handle.core
    }

    pub(crate) fn worker(&self) -> &Worker {
        self.handle.worker.get_or_init(|| Worker::new(Arc::clone(&self.handle.core)))
    }

    /// This rank, from 0 to [`size`](Group::size)` - 1`.
    pub fn rank(&self) -> usize {
        self.core().rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.core().size
    }

    /// For each rank of this group, its rank in the job.
    pub fn members(&self) -> &[usize] {
        &self.core().members
    }

    /// How long an operation waits while nothing moves before it fails.
    pub fn timeout(&self) -> Duration {
        self.core().timeout()
    }

    /// Sets how long operations called from now on wait while nothing moves before they fail.
    pub fn set_timeout(&self, timeout: Duration) {
        self.core().set_timeout(timeout);
    }

    /// How far this group has come. May be read from any thread at any time.
    pub fn progress(&self) -> Progress {
        self.core().progress()
    }

    /// The last operations of this group, oldest first. May be read from any thread at any time.
    pub fn flight_recorder(&self) -> Vec<Record> {
        self.core().recorder.records()
    }

    /// The links to the other ranks, in rank order.
    pub fn links(&self) -> Vec<LinkInfo> {
        self.core().links()
    }

    /// The algorithm that a request of `bytes` bytes (of one rank's contribution, or of one block
    /// for reduce_scatter, scatter and all_to_all) would take.
    pub fn algorithm(&self, operation: crate::call::Operation, bytes: u64) -> Algorithm {
        self.core().choose(operation, bytes)
    }

    /// Why the group can no longer be used, if it cannot.
    pub fn failure(&self) -> Option<Arc<Cause>> {
        self.core().health.failure()
    }

    /// Whether this process has closed the group, also if it had failed before.
    pub fn is_closed(&self) -> bool {
        self.core().is_closed()
    }

    /// Closes the group: later calls fail, operations under way fail, and if this was the last
    /// group of the job its links are closed. May be called more than once; dropping does the same.
    pub fn close(&self) {
        if self.core().health.is_forked() {
            return;
        }
        if let Some(worker) = self.handle.worker.get() {
            worker.stop();
        }
        self.core().close();
    }

    /// Carries out a collective on bytes. This is what the typed methods are made of; it is for
    /// bindings and for buffers whose type is known at run time only.
    ///
    /// Which buffers a rank gives is the table at [`Request`]'s operations: an operation runs in
    /// place if there is no `input` where one is possible.
    pub fn run(
        &self,
        request: &Request,
        input: Option<&[u8]>,
        output: Option<&mut [u8]>,
    ) -> Result<()> {
        self.core().run(request, input, output)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.core.health.is_forked() {
            // The thread exists in the parent only, and what it was doing stays as it is.
            std::mem::forget(self.worker.take());
            return;
        }
        if let Some(worker) = self.worker.take() {
            worker.stop();
        }
        self.core.close();
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("rank", &self.rank()).field("size", &self.size()).finish()
    }
}
