//! Operations that run in the background.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::call::Signature;
use crate::error::{Cause, Error, OperationError, Result};
use crate::group::{Completion, Group};
use crate::interrupt;
use crate::sys::buf::{Lent, Parcel};

/// How often a waiting thread looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(25);

/// An operation under way. It owns the buffers and gives them back when it is done.
///
/// Dropping a `Work` does not cancel the operation: it goes on in the background, and its buffers
/// are freed when it ends.
#[must_use = "the result of the operation comes out of `wait`"]
pub struct Work<T> {
    group: Group,
    completion: Arc<Completion>,
    lent: Arc<Lent>,
    finish: Box<dyn FnOnce(Parcel) -> T + Send + Sync>,
    signature: Signature,
    began: Instant,
}

impl<T> Work<T> {
    pub(crate) fn new(
        group: Group,
        completion: Arc<Completion>,
        lent: Arc<Lent>,
        finish: impl FnOnce(Parcel) -> T + Send + Sync + 'static,
        signature: Signature,
    ) -> Self {
        Work { group, completion, lent, finish: Box::new(finish), signature, began: Instant::now() }
    }

    /// The same operation with another form of its result.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U + Send + Sync + 'static) -> Work<U>
    where
        T: 'static,
    {
        let finish = self.finish;
        Work {
            group: self.group,
            completion: self.completion,
            lent: self.lent,
            finish: Box::new(move |parcel| convert(finish(parcel))),
            signature: self.signature,
            began: self.began,
        }
    }

    /// What is under way.
    pub fn signature(&self) -> Signature {
        self.signature
    }

    /// Whether the operation has ended, well or not.
    pub fn is_done(&self) -> bool {
        self.completion.result().is_some()
    }

    /// The error, if the operation has ended with one.
    pub fn error(&self) -> Option<Error> {
        self.completion.result().and_then(Result::err)
    }

    /// Waits for the end and gives the buffers back. The operation's own deadline bounds the wait.
    pub fn wait(self) -> Result<T> {
        loop {
            if let Some(result) = self.completion.wait(LOOK) {
                return self.collect(result);
            }
            self.check()?;
        }
    }

    /// Waits at most `limit` for the end. Returns whether it has come; [`Work::wait`] then returns
    /// at once. The operation goes on if it has not.
    pub fn wait_for(&self, limit: Duration) -> Result<bool> {
        let began = Instant::now();
        loop {
            let left = limit.saturating_sub(began.elapsed());
            if self.completion.wait(LOOK.min(left)).is_some() {
                return Ok(true);
            }
            self.check()?;
            if began.elapsed() >= limit {
                return Ok(false);
            }
        }
    }

    /// Gives the result to `listener` when it comes, in place of waiting for it; at once, on this
    /// thread, if the operation has ended already.
    ///
    /// Otherwise the listener runs on the thread that carries out the operations of the group, which
    /// does nothing else meanwhile: it should hand the result on and not wait for anything. It may let
    /// go of the group.
    pub fn on_end(self, listener: impl FnOnce(Result<T>) + Send + 'static)
    where
        T: 'static,
    {
        let completion = Arc::clone(&self.completion);
        completion.listen(Box::new(move |result| listener(self.collect(result))));
    }

    fn collect(self, result: Result<()>) -> Result<T> {
        result?;
        let lent = self.lent;
        let parcel = lent.take_back().expect("an operation lets go of its buffers before it ends");
        Ok((self.finish)(parcel))
    }

    /// What ends the wait alone: the operation goes on, and the group is as it was.
    fn check(&self) -> Result<()> {
        let health = &self.group.core().health;
        let rank = self.group.rank();
        // In a forked child there is nobody who could end the operation.
        let cause = match health.failure() {
            Some(forked) if health.is_forked() => forked,
            _ if interrupt::requested() => {
                let rank = self.group.members()[rank];
                Arc::new(Cause::Interrupted { rank, operation: self.signature })
            }
            _ => return Ok(()),
        };
        Err(self.ended_early(cause))
    }

    fn ended_early(&self, cause: Arc<Cause>) -> Error {
        let rank = self.group.rank();
        Error::Operation(OperationError {
            rank,
            operation: Some(self.signature),
            peer: None,
            link: None,
            elapsed: self.began.elapsed(),
            cause,
        })
    }
}

impl<T> fmt::Debug for Work<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("operation", &self.signature)
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}
