//! How a thread waits: poll for a bounded time, give way, sleep; and what ends a wait early.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::collective::{Pause, Stopped, Waiter};
use crate::error::Cause;
use crate::group::Health;
use crate::interrupt;

use super::{Fabric, LOOK};

/// How long a thread polls before it sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitPolicy {
    /// Poll this long without giving up the processor.
    pub(crate) spin: Duration,
    /// Then give way to other threads this many times.
    pub(crate) yields: u32,
}

impl WaitPolicy {
    /// For this many ranks on this host. With more ranks than cores nobody polls, since whoever
    /// polls keeps the processor from the one that is waited for. With fewer, the system may still
    /// have put two of them on one core: so the polling is short, and is followed by giving way.
    pub(crate) fn for_ranks(ranks: usize, spin: Option<Duration>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if ranks > cores {
            WaitPolicy { spin: spin.unwrap_or(Duration::ZERO), yields: 16 }
        } else {
            WaitPolicy { spin: spin.unwrap_or(Duration::from_micros(10)), yields: 100 }
        }
    }
}

/// What ended a wait before its condition came true.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// The group has failed.
    Failed(Arc<Cause>),
    /// Nothing moved for so long.
    Deadline(Duration),
    /// The program asked for it.
    Interrupted,
    /// The rank of the group that was waited for has said goodbye.
    Departed(usize),
    /// The process of this rank of the job has ended, and nobody was there to tell.
    Ended(usize),
}

/// The waiting of one operation.
pub(crate) struct Patience<'a> {
    fabric: &'a Fabric,
    health: &'a Health,
    timeout: Duration,
    /// When something last moved; the first look at the clock if nothing has. An operation that
    /// need not wait never looks.
    last: Option<Instant>,
    /// When it was last looked whether to stop.
    looked: Option<Instant>,
    moved: bool,
    /// Since when this wait polls.
    polling_since: Option<Instant>,
    yields: u32,
    /// Who was waited for last.
    peer: Option<usize>,
    /// Whether that one had said goodbye at the last look.
    departed: Option<usize>,
    stop: Option<Stop>,
}

enum Phase {
    Spin,
    Yield,
    Sleep,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(fabric: &'a Fabric, health: &'a Health, timeout: Duration) -> Self {
        Patience {
            fabric,
            health,
            timeout,
            last: None,
            looked: None,
            moved: false,
            polling_since: None,
            yields: 0,
            peer: None,
            departed: None,
            stop: None,
        }
    }

    /// Why the wait ended, after `Stopped`.
    pub(crate) fn take_stop(&mut self) -> Stop {
        self.stop.take().unwrap_or(Stop::Interrupted)
    }

    /// Who was waited for when the wait ended.
    pub(crate) fn peer(&self) -> Option<usize> {
        self.peer
    }

    /// Something moved: the deadline and the polling start anew.
    pub(crate) fn note_progress(&mut self) {
        self.moved = true;
        self.departed = None;
        self.polling_since = None;
        self.yields = 0;
    }

    /// Waits a little for messages. `seen` is the fabric's generation before the last look at what
    /// has arrived.
    pub(crate) fn idle(&mut self, peer: Option<usize>, seen: u64) -> Result<(), Stop> {
        self.peer = peer.or(self.peer);
        match self.phase() {
            Phase::Spin => std::hint::spin_loop(),
            Phase::Yield => std::thread::yield_now(),
            Phase::Sleep => {
                self.look()?;
                self.fabric.sleep(LOOK, seen);
            }
        }
        Ok(())
    }

    fn phase(&mut self) -> Phase {
        if !self.fabric.policy.spin.is_zero() {
            let now = Instant::now();
            let since = *self.polling_since.get_or_insert(now);
            if now.duration_since(since) < self.fabric.policy.spin {
                return Phase::Spin;
            }
        }
        if self.yields < self.fabric.policy.yields {
            self.yields += 1;
            return Phase::Yield;
        }
        Phase::Sleep
    }

    /// A rank that says goodbye has written all its flags before: if the flag was looked at again
    /// since the goodbye and has not moved, it never will.
    fn look_for_goodbye(&mut self, peer: usize) -> Result<(), Stop> {
        if !self.fabric.departed(self.health.members()[peer]) {
            return Ok(());
        }
        if self.departed.replace(peer) == Some(peer) { Err(Stop::Departed(peer)) } else { Ok(()) }
    }

    /// [`Patience::look`], but at most once in a millisecond.
    pub(crate) fn look_now_and_then(&mut self) -> Result<(), Stop> {
        let now = Instant::now();
        self.last.get_or_insert(now);
        let looked = *self.looked.get_or_insert(now);
        if now.saturating_duration_since(looked) < Duration::from_millis(1) {
            return Ok(());
        }
        self.looked = Some(now);
        self.look()
    }

    /// When something last moved.
    pub(crate) fn since(&mut self) -> Instant {
        self.last_movement(Instant::now())
    }

    fn last_movement(&mut self, now: Instant) -> Instant {
        if std::mem::take(&mut self.moved) {
            self.last = Some(now);
        }
        *self.last.get_or_insert(now)
    }

    /// Is there a reason to stop waiting?
    pub(crate) fn look(&mut self) -> Result<(), Stop> {
        let now = Instant::now();
        let last = self.last_movement(now);
        if let Some(cause) = self.health.failure() {
            return Err(Stop::Failed(cause));
        }
        if interrupt::requested() {
            return Err(Stop::Interrupted);
        }
        if let Some(rank) = self.health.members().iter().find(|rank| self.fabric.has_ended(**rank))
        {
            return Err(Stop::Ended(*rank));
        }
        let waited = now.saturating_duration_since(last);
        if waited >= self.timeout { Err(Stop::Deadline(waited)) } else { Ok(()) }
    }
}

impl Waiter for Patience<'_> {
    fn pause(&mut self, peer: usize) -> Result<Pause, Stopped> {
        self.peer = Some(peer);
        let phase = self.phase();
        // A long operation of many short waits has to notice an interruption too.
        if !matches!(phase, Phase::Sleep)
            && let Err(stop) = self.look_now_and_then()
        {
            self.stop = Some(stop);
            return Err(Stopped);
        }
        match phase {
            Phase::Spin => Ok(Pause::Spin),
            Phase::Yield => Ok(Pause::Yield),
            Phase::Sleep => {
                if let Err(stop) = self.look().and_then(|()| self.look_for_goodbye(peer)) {
                    self.stop = Some(stop);
                    return Err(Stopped);
                }
                // Messages of other operations must not starve while this one waits for memory.
                if self.fabric.is_busy() {
                    self.fabric.try_progress();
                    return Ok(Pause::Sleep(Duration::from_millis(1)));
                }
                Ok(Pause::Sleep(LOOK))
            }
        }
    }

    fn moved(&mut self) {
        self.note_progress();
    }
}
