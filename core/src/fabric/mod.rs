//! The links of a job, and how threads wait for them.
//!
//! A [`Fabric`] owns the transports of one process. Several threads may have operations under way
//! at the same time: each drives its own [`exec::Exec`], and whoever holds the lock makes progress
//! for all of them. A thread that finds nothing to do polls for a bounded time; then one thread
//! sleeps in the poller and the others wait to be told by it.

mod arenas;
mod exec;
mod join;
mod matrix;
mod waiter;
mod watch;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::call::Signature;
use crate::error::{Cause, LinkKind};
use crate::sys::buf::{ConstBuf, MutBuf};
use crate::sys::owner::Owner;
use crate::sys::poller::Poller;
use crate::transport::{Envelope, Event, LinkCounters, Loss, PostId, Transport};

pub(crate) use arenas::Arenas;
pub(crate) use exec::{Exec, State, Trouble};
pub(crate) use join::join;
pub(crate) use matrix::Matrix;
pub(crate) use waiter::{Patience, Stop, WaitPolicy};
pub(crate) use watch::{LocalWatch, Scope, Watch};

/// How often a sleeping thread looks whether it should stop waiting.
pub(crate) const LOOK: Duration = Duration::from_millis(25);

/// How long a thread sleeps at a time if one of the transports cannot wake it.
const NAP: Duration = Duration::from_micros(200);

/// The links of this process to the other ranks of the job.
pub(crate) struct Fabric {
    /// How failures elsewhere become known.
    pub(crate) watch: Arc<dyn Watch>,
    /// How threads wait.
    pub(crate) policy: WaitPolicy,
    /// What joins this rank with each rank of the job, and where it leads.
    pub(crate) links: Vec<Option<(LinkKind, String)>>,
    /// What joins which pair of ranks of the job.
    pub(crate) matrix: Matrix,
    /// Where the arenas of groups come from.
    pub(crate) arenas: Arenas,
    poller: Arc<Poller>,
    core: Mutex<Core>,
    woken: Condvar,
    /// Raised whenever a thread may have something to look at that no file descriptor tells.
    generation: AtomicU64,
    /// Groups that have not been closed.
    groups: AtomicUsize,
    owner: Owner,
}

/// The part under the lock.
pub(crate) struct Core {
    rank: usize,
    transports: Vec<Box<dyn Transport>>,
    /// Which transport leads to a rank.
    route: Vec<Option<usize>>,
    events: Vec<Event>,
    mailboxes: Vec<Option<Mailbox>>,
    lost: Vec<Option<Loss>>,
    mismatches: Vec<(u64, Cause)>,
    /// Whether a thread sleeps in the poller, and how many wait for one that does.
    sleeping: bool,
    followers: usize,
    closed: bool,
}

/// What has completed for one `Exec`.
#[derive(Default)]
struct Mailbox {
    done: Vec<u32>,
}

/// Which mailbox and which step a post belongs to.
fn post_id(mailbox: u32, step: u32) -> PostId {
    PostId(u64::from(mailbox) << 32 | u64::from(step))
}

impl Fabric {
    /// Joins transports. `links[rank]` says what kind of link leads to a rank; each kind has one
    /// transport.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        rank: usize,
        watch: Arc<dyn Watch>,
        policy: WaitPolicy,
        links: Vec<Option<(LinkKind, String)>>,
        poller: Arc<Poller>,
        transports: Vec<Box<dyn Transport>>,
        matrix: Matrix,
        arenas: Arenas,
    ) -> Arc<Self> {
        let route = links
            .iter()
            .map(|link| {
                let (kind, _) = link.as_ref()?;
                transports.iter().position(|transport| transport.capabilities().kind == *kind)
            })
            .collect();
        let lost = links.iter().map(|_| None).collect();
        let fabric = Arc::new(Fabric {
            watch,
            policy,
            links,
            matrix,
            arenas,
            poller,
            core: Mutex::new(Core {
                rank,
                transports,
                route,
                events: Vec::new(),
                mailboxes: Vec::new(),
                lost,
                mismatches: Vec::new(),
                sleeping: false,
                followers: 0,
                closed: false,
            }),
            woken: Condvar::new(),
            generation: AtomicU64::new(0),
            groups: AtomicUsize::new(0),
            owner: Owner::this(),
        });
        let weak = Arc::downgrade(&fabric);
        fabric.watch.on_announcement(Box::new(move || {
            if let Some(fabric) = weak.upgrade() {
                fabric.wake();
            }
        }));
        fabric
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a rank of the job is known to have ended although nobody has told: where the watch
    /// is over, the system is asked, which knows it of the processes of this host.
    pub(crate) fn has_ended(&self, rank: usize) -> bool {
        self.watch.is_alone() && !self.watch.departed(rank) && self.arenas.has_died(rank)
    }

    /// Whether a rank of the job has said goodbye: to the watch, or in the memory it shares with
    /// this one, where the word also arrives when nobody passes it on.
    pub(crate) fn departed(&self, rank: usize) -> bool {
        self.watch.departed(rank) || self.arenas.has_left(rank)
    }

    /// A group uses the links.
    pub(crate) fn enter(&self) {
        self.groups.fetch_add(1, Ordering::AcqRel);
    }

    /// A group is closed; the last one closes the links.
    pub(crate) fn leave(&self) {
        if self.groups.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.close();
        }
    }

    /// What [`Fabric::sleep`] compares: to be read before the last look at what is waited for.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Wakes whoever sleeps, to look again. Takes no lock: the control thread calls it.
    pub(crate) fn wake(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.poller.notify();
        self.woken.notify_all();
    }

    /// Opens a mailbox for an `Exec`.
    fn open_mailbox(&self) -> u32 {
        let mut core = self.lock();
        let free = core.mailboxes.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            core.mailboxes.push(None);
            core.mailboxes.len() - 1
        });
        core.mailboxes[at] = Some(Mailbox::default());
        u32::try_from(at).expect("fewer than 2^32 operations at a time")
    }

    /// Moves everything on, unless another thread is at it. Returns whether something moved.
    pub(crate) fn try_progress(&self) -> bool {
        let mut core = match self.core.try_lock() {
            Ok(core) => core,
            Err(std::sync::TryLockError::Poisoned(core)) => core.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return false,
        };
        self.progress(&mut core, None)
    }

    /// Moves everything on, on behalf of the operation with this mailbox. Returns whether something
    /// moved.
    fn progress(&self, core: &mut Core, own: Option<u32>) -> bool {
        let Moved { any, for_others } = core.progress(own);
        // What completed for another operation may be what its thread sleeps for, and no file
        // descriptor will tell it any more.
        if for_others {
            self.generation.fetch_add(1, Ordering::AcqRel);
            if core.sleeping || core.followers > 0 {
                self.wake();
            }
        }
        any
    }

    /// Whether any operation has messages under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().mailboxes.iter().any(Option::is_some)
    }

    /// Sleeps until something may have changed, at most for `limit`; not at all if the generation
    /// is another one than the caller has `seen`.
    pub(crate) fn sleep(&self, limit: Duration, seen: u64) {
        let mut core = self.lock();
        if self.generation() != seen {
            return;
        }
        // Everybody arms what it waits for, also while another thread sleeps already.
        let mut armed = true;
        for transport in &mut core.transports {
            armed &= transport.prepare_sleep();
        }
        if !armed {
            return;
        }
        // Where no file descriptor tells, sleeping is a matter of a moment.
        let blind = core.transports.iter().any(|transport| !transport.capabilities().can_sleep);
        let limit = if blind { limit.min(NAP) } else { limit };
        if core.sleeping {
            core.followers += 1;
            let (mut core, _) =
                self.woken.wait_timeout(core, limit).unwrap_or_else(PoisonError::into_inner);
            core.followers -= 1;
            return;
        }
        core.sleeping = true;
        drop(core);
        if let Err(error) = self.poller.wait(limit) {
            tracing::warn!(%error, "waiting for the links failed");
        }
        let mut core = self.lock();
        core.sleeping = false;
        drop(core);
        self.woken.notify_all();
    }

    /// What has passed the link to a rank of the job.
    pub(crate) fn counters(&self, peer: usize) -> LinkCounters {
        if self.owner.if_not_us().is_some() {
            // The lock may have been taken when this process was forked.
            return LinkCounters::default();
        }
        let core = self.lock();
        core.route
            .get(peer)
            .copied()
            .flatten()
            .map_or_else(LinkCounters::default, |at| core.transports[at].counters(peer))
    }

    /// A group's lanes are no longer needed.
    pub(crate) fn forget_group(&self, group: u64) {
        let mut core = self.lock();
        core.mismatches.retain(|(id, _)| *id != group);
        for transport in &mut core.transports {
            transport.forget_group(group);
        }
    }

    /// What peers have sent that nobody here asks for: the likely reason of a wait in vain.
    pub(crate) fn unexpected(&self, peer: usize) -> Vec<Envelope> {
        let core = self.lock();
        match core.route.get(peer).copied().flatten() {
            Some(at) => core.transports[at].unexpected(peer),
            None => Vec::new(),
        }
    }

    /// Says goodbye and closes all links. Idempotent and bounded.
    pub(crate) fn close(&self) {
        if self.owner.if_not_us().is_some() {
            return;
        }
        let mut core = self.lock();
        if std::mem::replace(&mut core.closed, true) {
            return;
        }
        // First the goodbye: the end of a link must not be taken for a death.
        self.arenas.leave();
        self.watch.close();
        for transport in &mut core.transports {
            transport.close(Duration::from_millis(500));
        }
        drop(core);
        self.wake();
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        if self.owner.if_not_us().is_some() {
            // The links are the parent's: their end would be written into memory and pollers that
            // both processes have. The child's copies end with it.
            let core = self.core.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(&mut core.transports));
            return;
        }
        self.close();
    }
}

/// What a step of progress has done.
struct Moved {
    any: bool,
    /// Something completed, or failed, for another operation than the one that made progress.
    for_others: bool,
}

impl Core {
    fn progress(&mut self, own: Option<u32>) -> Moved {
        let mut moved = Moved { any: false, for_others: false };
        for transport in &mut self.transports {
            moved.any |= transport.progress(&mut self.events);
        }
        for event in self.events.drain(..) {
            match event {
                Event::Sent(id) | Event::Received(id) => {
                    let (at, step) = ((id.0 >> 32) as u32, id.0 as u32);
                    moved.for_others |= own != Some(at);
                    if let Some(Some(mailbox)) = self.mailboxes.get_mut(at as usize) {
                        mailbox.done.push(step);
                    }
                }
                Event::Mismatch { peer, lane, local, remote } => {
                    moved.for_others = true;
                    let cause = mismatch(self.rank, local, peer, remote);
                    self.mismatches.push((lane.group, cause));
                }
                Event::Lost { peer, loss } => {
                    moved.for_others = true;
                    if self.lost[peer].is_none() {
                        self.lost[peer] = Some(loss);
                    }
                }
            }
        }
        moved
    }

    fn post_send(&mut self, peer: usize, envelope: Envelope, data: ConstBuf, id: PostId) -> bool {
        match self.route.get(peer).copied().flatten() {
            Some(at) if self.lost[peer].is_none() => {
                self.transports[at].post_send(peer, envelope, data, id);
                true
            }
            _ => false,
        }
    }

    fn post_recv(&mut self, peer: usize, envelope: Envelope, into: MutBuf, id: PostId) -> bool {
        match self.route.get(peer).copied().flatten() {
            // A receive may still be met by what arrived before the link was lost.
            Some(at) => {
                self.transports[at].post_recv(peer, envelope, into, id);
                true
            }
            None => false,
        }
    }

    fn cancel(&mut self, peer: usize, id: PostId) {
        if let Some(at) = self.route.get(peer).copied().flatten() {
            self.transports[at].cancel(id);
        }
    }
}

/// The cause of a mismatch, in the same words on both sides: the lower rank first.
pub(crate) fn mismatch(rank: usize, local: Signature, peer: usize, remote: Signature) -> Cause {
    if rank < peer {
        Cause::Mismatch { first: rank, first_call: local, second: peer, second_call: remote }
    } else {
        Cause::Mismatch { first: peer, first_call: remote, second: rank, second_call: local }
    }
}
