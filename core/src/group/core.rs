//! What all handles and the worker of a group share, and how a blocking operation runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::call::{Call, Operation, Signature};
use crate::collective::arena::{self, ArenaError};
use crate::collective::plan::{Action, Plan, Slot, Span};
use crate::collective::{Algorithm, Problem, schedule};
use crate::dtype::{DType, Op};
use crate::error::{ArgumentError, Cause, Error, LinkKind, OperationError, Result};
use crate::fabric::{Exec, Fabric, Patience, Scope, Stop, Trouble, mismatch};
use crate::reduce;
use crate::sys::buf::Buffers;
use crate::trace::{LinkInfo, Progress, Recorder, Ticket};
use crate::transport::arena::ArenaGroup;
use crate::transport::{Envelope, Lane, LaneKind, Loss};

use super::health::Health;
use super::request::{self, Checked, Given, Request};
use super::tuner::Tuner;
use super::turn::Turn;

/// Messages larger than this travel in pieces, so that each piece that arrives counts as progress.
const MESSAGE_PIECE: usize = 8 << 20;

pub(crate) struct GroupCore {
    /// 0 is the whole job.
    pub(crate) id: u64,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// Ranks of the job by rank of the group.
    pub(crate) members: Arc<[usize]>,
    /// None in a group of one that has no job around it.
    pub(crate) fabric: Option<Arc<Fabric>>,
    pub(crate) arena: Option<Mutex<ArenaGroup>>,
    pub(crate) health: Health,
    pub(crate) turn: Turn,
    pub(crate) recorder: Recorder,
    pub(crate) tuner: Tuner,
    pub(crate) settings: Arc<Settings>,
    timeout_ns: AtomicU64,
    /// Messages begun, by direction, peer and tag.
    numbers: Mutex<HashMap<(bool, usize, u32), u64>>,
    closed: AtomicBool,
}

/// What sub-groups take over from their parent.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) recorder_length: usize,
    pub(crate) start_timeout: Duration,
}

/// A place in the order of a group's collectives, to be held until the operation has ended in its
/// turn. If the thread panics instead, the group is poisoned and those behind do not wait for ever.
pub(super) struct Place<'a> {
    core: &'a GroupCore,
    pub(super) number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.core.poison_by_panic("a blocking call panicked; its thread has the message");
            while !self.core.turn.wait(self.number, crate::fabric::LOOK) {}
        }
        self.core.end_turn(self.number);
    }
}

/// A message to or from one rank, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) peer: usize,
    pub(crate) tag: u32,
    pub(crate) dtype: DType,
}

/// What a message operation needs to run.
pub(crate) struct Prepared<'b> {
    pub(crate) exec: Exec<'b>,
    pub(crate) signature: Signature,
    pub(crate) peer: usize,
    pub(crate) tag: u32,
}

impl GroupCore {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        id: u64,
        rank: usize,
        members: Arc<[usize]>,
        fabric: Option<Arc<Fabric>>,
        tuner: Tuner,
        settings: Arc<Settings>,
        timeout: Duration,
    ) -> Self {
        if let Some(fabric) = &fabric {
            fabric.enter();
        }
        let watch = fabric.as_ref().map(|fabric| Arc::clone(&fabric.watch));
        GroupCore {
            id,
            rank,
            size: members.len(),
            health: Health::new(id, Arc::clone(&members), watch),
            members,
            fabric,
            arena: None,
            turn: Turn::default(),
            recorder: Recorder::new(settings.recorder_length),
            tuner,
            timeout_ns: AtomicU64::new(nanoseconds(timeout)),
            settings,
            numbers: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Gives the group its arena; before anybody uses it.
    pub(crate) fn set_arena(&mut self, arena: Option<ArenaGroup>) {
        self.tuner.set_arena(arena.is_some());
        self.arena = arena.map(Mutex::new);
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn set_timeout(&self, timeout: Duration) {
        self.timeout_ns.store(nanoseconds(timeout), Ordering::Relaxed);
    }

    pub(crate) fn progress(&self) -> Progress {
        let (started, completed, failed) = self.recorder.counts();
        let mut progress = Progress { started, completed, failed, ..Progress::default() };
        if let Some(fabric) = &self.fabric {
            for peer in 0..fabric.links.len() {
                let counters = fabric.counters(peer);
                progress.bytes_sent += counters.bytes_sent;
                progress.bytes_received += counters.bytes_received;
            }
        }
        progress
    }

    pub(crate) fn links(&self) -> Vec<LinkInfo> {
        let Some(fabric) = &self.fabric else { return Vec::new() };
        self.members
            .iter()
            .enumerate()
            .filter_map(|(peer, member)| {
                let (kind, detail) = fabric.links[*member].clone()?;
                let counters = fabric.counters(*member);
                Some(LinkInfo {
                    peer,
                    kind,
                    detail,
                    bytes_sent: counters.bytes_sent,
                    bytes_received: counters.bytes_received,
                    messages_sent: counters.messages_sent,
                    messages_received: counters.messages_received,
                })
            })
            .collect()
    }

    pub(crate) fn choose(&self, operation: Operation, bytes: u64) -> Algorithm {
        self.tuner.choose(operation, bytes)
    }

    /// An error if the group can no longer be used.
    pub(crate) fn usable(&self) -> Result<()> {
        match self.health.failure() {
            None => Ok(()),
            Some(cause) => Err(self.refused(cause)),
        }
    }

    fn refused(&self, cause: Arc<Cause>) -> Error {
        Error::Operation(OperationError {
            rank: self.rank,
            operation: None,
            peer: None,
            link: None,
            elapsed: Duration::ZERO,
            cause,
        })
    }

    pub(crate) fn check(
        &self,
        request: &Request,
        input: Option<usize>,
        output: Option<usize>,
    ) -> Result<Checked, ArgumentError> {
        request::check(request, self.rank, self.size, Given { input, output })
    }

    /// A collective on this thread.
    pub(crate) fn run(
        &self,
        request: &Request,
        input: Option<&[u8]>,
        output: Option<&mut [u8]>,
    ) -> Result<()> {
        let checked =
            self.check(request, input.map(<[u8]>::len), output.as_ref().map(|out| out.len()))?;
        let copy;
        let input = match (input, &output) {
            // all_to_all has no algorithm that works in place.
            (None, Some(output)) if request.operation == Operation::AllToAll => {
                copy = output.to_vec();
                copy.as_slice()
            }
            (input, _) => input.unwrap_or_default(),
        };
        let buffers = Buffers::new(input, output.unwrap_or_default());
        self.usable()?;
        let place = self.take_place();
        self.run_in_turn(&checked, buffers, place.number)
    }

    /// Takes a place in the order of the collectives; it ends with the returned value.
    pub(super) fn take_place(&self) -> Place<'_> {
        Place { core: self, number: self.turn.take() }
    }

    /// A bug of this library showed: the group is poisoned on all ranks.
    pub(crate) fn poison_by_panic(&self, message: &str) {
        let cause = Cause::Panicked { rank: self.members[self.rank], message: message.to_owned() };
        let cause = match &self.fabric {
            Some(fabric) => fabric.watch.report(Scope::of(&cause, self.id), cause),
            None => Arc::new(cause),
        };
        self.health.poison(cause);
    }

    pub(crate) fn end_turn(&self, number: u64) {
        if self.turn.done(number)
            && let Some(fabric) = &self.fabric
        {
            fabric.wake();
        }
    }

    /// Waits for its turn and runs. The caller ends the turn.
    pub(super) fn run_in_turn(
        &self,
        checked: &Checked,
        buffers: Buffers<'_>,
        number: u64,
    ) -> Result<()> {
        let signature = Signature { sequence: number, call: checked.call };
        let algorithm = self.algorithm_for(checked);
        let ticket = self.recorder.begin(signature, None, None, algorithm);
        let result = match self.await_turn(signature, number, ticket) {
            Ok(()) => self.execute(checked, signature, algorithm, buffers, ticket),
            Err(error) => Err(error),
        };
        self.record_end(ticket, &result);
        result
    }

    fn await_turn(&self, signature: Signature, number: u64, ticket: Ticket) -> Result<()> {
        if self.turn.is(number) {
            return Ok(());
        }
        let Some(fabric) = &self.fabric else {
            while !self.turn.wait(number, crate::fabric::LOOK) {}
            return Ok(());
        };
        let mut patience = Patience::new(fabric, &self.health, self.timeout());
        while !self.turn.wait(number, crate::fabric::LOOK) {
            // Operations before this one have deadlines of their own, so the turn comes; what can
            // end the wait early is an interruption, and then everything behind is lost too.
            match patience.look() {
                Ok(()) | Err(Stop::Deadline(_) | Stop::Failed(_)) => {}
                Err(stop) => {
                    let error =
                        self.fail(signature, ticket.elapsed(), Trouble::Stop { stop, peer: None });
                    while !self.turn.wait(number, crate::fabric::LOOK) {}
                    return Err(error);
                }
            }
        }
        self.usable()
    }

    /// The algorithm for a problem; `None` where nothing has to be moved.
    pub(crate) fn algorithm_for(&self, checked: &Checked) -> Option<Algorithm> {
        if self.size == 1 {
            return None;
        }
        // Where only the root knows all counts, the ranks could not agree on anything that
        // depends on them.
        let at_root = checked.call.layout == Call::COUNTS_AT_ROOT;
        Some(self.tuner.choose_for(&checked.problem, at_root))
    }

    fn execute(
        &self,
        checked: &Checked,
        signature: Signature,
        algorithm: Option<Algorithm>,
        mut buffers: Buffers<'_>,
        ticket: Ticket,
    ) -> Result<()> {
        let problem = &checked.problem;
        let result = match (&self.fabric, algorithm) {
            (Some(fabric), Some(algorithm)) => {
                let mut patience = Patience::new(fabric, &self.health, self.timeout());
                if algorithm == Algorithm::Arena {
                    self.run_arena(problem, &signature, &mut buffers, &mut patience)
                } else {
                    self.exec(problem, signature, algorithm, buffers.lend())
                        .expect("a group with an algorithm has a fabric")
                        .drive(&mut patience)
                }
                .map_err(|trouble| self.fail(signature, ticket.elapsed(), trouble))
            }
            _ => {
                alone(problem, &mut buffers);
                Ok(())
            }
        };
        // Whatever bytes arrived, the caller's bools are bools.
        if problem.dtype == DType::Bool {
            reduce::normalise_bool(buffers.output_mut());
        }
        result
    }

    /// Runs in shared memory.
    pub(crate) fn run_arena(
        &self,
        problem: &Problem,
        signature: &Signature,
        buffers: &mut Buffers<'_>,
        patience: &mut Patience<'_>,
    ) -> Result<(), Trouble> {
        let arena = self.arena.as_ref().expect("the arena algorithm is chosen only with an arena");
        let mut arena = arena.lock().unwrap_or_else(PoisonError::into_inner);
        arena::run(&mut arena, signature, problem, buffers, patience).map_err(|error| match error {
            ArenaError::Stopped => {
                Trouble::Stop { peer: patience.peer(), stop: patience.take_stop() }
            }
            ArenaError::Mismatch { peer, local, remote } => {
                Trouble::Cause(mismatch(self.members[self.rank], local, self.members[peer], remote))
            }
            ArenaError::Corrupt { peer } => Trouble::Cause(Cause::Protocol {
                rank: self.members[self.rank],
                peer: self.members[peer],
                what: "bytes in shared memory that are no call".to_owned(),
            }),
        })
    }

    /// A collective over messages on this thread, in its turn.
    pub(super) fn over_messages(
        &self,
        problem: &Problem,
        signature: Signature,
        algorithm: Algorithm,
        buffers: Buffers<'_>,
    ) -> Result<()> {
        let ticket = self.recorder.begin(signature, None, None, Some(algorithm));
        let result = self.await_turn(signature, signature.sequence, ticket).and_then(|()| {
            let fabric = self.fabric.as_ref().expect("a group of several has a fabric");
            let mut patience = Patience::new(fabric, &self.health, self.timeout());
            self.exec(problem, signature, algorithm, buffers)
                .expect("a group of several has a fabric")
                .drive(&mut patience)
                .map_err(|trouble| self.fail(signature, ticket.elapsed(), trouble))
        });
        self.record_end(ticket, &result);
        result
    }

    /// The state machine of a collective over messages.
    pub(crate) fn exec<'b>(
        &self,
        problem: &Problem,
        signature: Signature,
        algorithm: Algorithm,
        buffers: Buffers<'b>,
    ) -> Option<Exec<'b>> {
        let fabric = self.fabric.as_ref()?;
        let lane = Lane { group: self.id, kind: LaneKind::Collective };
        let envelope = Envelope { lane, signature };
        let plans = schedule(problem, algorithm, self.tuner.limits());
        Some(Exec::new(
            fabric,
            envelope,
            envelope,
            Arc::clone(&self.members),
            Box::new(plans),
            buffers,
        ))
    }

    /// Turns trouble into the error of an operation and poisons the group.
    pub(crate) fn fail(&self, signature: Signature, elapsed: Duration, trouble: Trouble) -> Error {
        let me = self.members[self.rank];
        let mut peer_in_group = None;
        let mut link = None;
        let mut wait = |peer: Option<usize>| {
            peer_in_group = peer;
            link = peer.and_then(|peer| self.link_kind(peer));
        };
        let cause = match trouble {
            Trouble::Cause(cause) => cause,
            Trouble::Lost { peer, loss } => {
                wait(self.members.iter().position(|member| *member == peer));
                self.loss(me, peer, loss)
            }
            Trouble::Stop { stop, peer } => {
                wait(peer);
                match stop {
                    Stop::Failed(cause) => {
                        // A rank that is gone is one that this operation would have to wait for.
                        wait(peer.or_else(|| self.gone(&cause)));
                        self.health.poison(Arc::clone(&cause));
                        let error = self.error(signature, elapsed, peer_in_group, link, cause);
                        tracing::info!(rank = self.rank, group = self.id, %error, "operation failed");
                        return error;
                    }
                    Stop::Departed(peer) => Cause::RankLeft { rank: self.members[peer] },
                    Stop::Ended(rank) => {
                        Cause::RankDied { rank, how: "its process has ended".to_owned() }
                    }
                    Stop::Interrupted => Cause::Interrupted { rank: me, operation: signature },
                    Stop::Deadline(waited) => self
                        .what_the_peer_does_instead(me, peer, signature)
                        .unwrap_or(Cause::Deadline {
                            rank: me,
                            operation: signature,
                            peer: peer.map(|peer| self.members[peer]),
                            waited,
                        }),
                }
            }
        };
        let verdict = match &self.fabric {
            Some(fabric) => fabric.watch.report(Scope::of(&cause, self.id), cause),
            None => Arc::new(cause),
        };
        // Something earlier on the list may concern the group as well: all ranks take the first.
        let cause = self.health.failure().unwrap_or_else(|| self.health.poison(verdict));
        let error = self.error(signature, elapsed, peer_in_group, link, cause);
        tracing::info!(rank = self.rank, group = self.id, %error, "operation failed");
        error
    }

    fn error(
        &self,
        signature: Signature,
        elapsed: Duration,
        peer: Option<usize>,
        link: Option<LinkKind>,
        cause: Arc<Cause>,
    ) -> Error {
        Error::Operation(OperationError {
            rank: self.rank,
            operation: Some(signature),
            peer,
            link,
            elapsed,
            cause,
        })
    }

    /// The rank of this group that a cause says is gone.
    fn gone(&self, cause: &Cause) -> Option<usize> {
        let (Cause::RankDied { rank, .. } | Cause::RankLeft { rank }) = cause else { return None };
        self.members.iter().position(|member| member == rank)
    }

    fn link_kind(&self, peer: usize) -> Option<LinkKind> {
        let fabric = self.fabric.as_ref()?;
        fabric.links[self.members[peer]].as_ref().map(|(kind, _)| *kind)
    }

    fn loss(&self, me: usize, peer: usize, loss: Loss) -> Cause {
        // Without a watch nobody passes on goodbyes, and the end of the link is the only one.
        let departed = self
            .fabric
            .as_ref()
            .is_some_and(|fabric| fabric.watch.departed(peer) || fabric.watch.is_alone());
        let kind = self
            .fabric
            .as_ref()
            .and_then(|fabric| fabric.links[peer].as_ref().map(|(kind, _)| *kind))
            .unwrap_or(LinkKind::Memory);
        match loss {
            Loss::Closed if departed => Cause::RankLeft { rank: peer },
            Loss::Closed => Cause::LinkLost {
                first: me.min(peer),
                second: me.max(peer),
                link: kind,
                reason: format!("rank {peer} closed it"),
            },
            Loss::Broken(reason) => {
                Cause::LinkLost { first: me.min(peer), second: me.max(peer), link: kind, reason }
            }
            Loss::Protocol(what) => Cause::Protocol { rank: me, peer, what },
        }
    }

    /// If the peer waited for has sent something else for this group, that is the better cause.
    fn what_the_peer_does_instead(
        &self,
        me: usize,
        peer: Option<usize>,
        local: Signature,
    ) -> Option<Cause> {
        let peer = self.members[peer?];
        let sent = self.fabric.as_ref()?.unexpected(peer);
        // A tagged message may wait here for its receive in a program that is right.
        let lane = Lane { group: self.id, kind: LaneKind::Collective };
        let other = sent.iter().find(|envelope| envelope.lane == lane)?;
        Some(mismatch(me, local, peer, other.signature))
    }

    pub(crate) fn record_end(&self, ticket: Ticket, result: &Result<()>) {
        match result {
            Ok(()) => self.recorder.end(ticket, None),
            Err(error) => {
                self.recorder.end(ticket, Some(error));
                if tracing::enabled!(tracing::Level::DEBUG) {
                    for record in self.recorder.records() {
                        tracing::debug!(rank = self.rank, group = self.id, "recorder: {record}");
                    }
                }
            }
        }
    }

    /// Checks the other end of a message.
    pub(crate) fn check_peer(&self, what: &'static str, rank: usize) -> Result<(), ArgumentError> {
        if rank >= self.size {
            Err(ArgumentError::NoSuchRank { what, rank, size: self.size })
        } else if rank == self.rank {
            Err(ArgumentError::SelfMessage { what, rank })
        } else {
            Ok(())
        }
    }

    /// Posts a send (of the input), a receive (into the output) or both at once; the arguments have
    /// been checked. Messages are posted in the order of their numbers, from whichever thread.
    pub(crate) fn prepare<'b>(
        &self,
        send: Option<Message>,
        recv: Option<Message>,
        buffers: Buffers<'b>,
    ) -> Prepared<'b> {
        let fabric = self.fabric.as_ref().expect("messages need another rank, so a fabric");
        let (input, output) = buffers.lengths();
        let operation = match (&send, &recv) {
            (Some(_), Some(_)) => Operation::SendRecv,
            (Some(_), None) => Operation::Send,
            _ => Operation::Recv,
        };
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut envelope = |outgoing: bool, message: &Message, bytes: usize| {
            let next = numbers.entry((outgoing, message.peer, message.tag)).or_insert(0);
            let sequence = *next;
            *next += 1;
            let call = Call::new(operation, message.dtype, (bytes / message.dtype.size()) as u64);
            Envelope {
                lane: Lane { group: self.id, kind: LaneKind::Message { tag: message.tag } },
                signature: Signature { sequence, call },
            }
        };
        let sending = send.as_ref().map(|message| envelope(true, message, input));
        let receiving = recv.as_ref().map(|message| envelope(false, message, output));
        let first = sending.or(receiving).expect("a message goes one way at least");
        let message = send.or(recv).expect("a message goes one way at least");
        let mut plan = Plan::default();
        if let Some(Message { peer, .. }) = recv {
            for (offset, len) in pieces(output) {
                let into = Span::new(Slot::Output, offset, len);
                plan.push(Action::Recv { peer, into }, []);
            }
        }
        if let Some(Message { peer, .. }) = send {
            for (offset, len) in pieces(input) {
                let from = Span::new(Slot::Input, offset, len);
                plan.push(Action::Send { peer, from }, []);
            }
        }
        let mut exec = Exec::new(
            fabric,
            sending.unwrap_or(first),
            receiving.unwrap_or(first),
            Arc::clone(&self.members),
            Box::new(std::iter::once(plan)),
            buffers,
        );
        exec.start();
        drop(numbers);
        Prepared { exec, signature: first.signature, peer: message.peer, tag: message.tag }
    }

    /// Runs a message operation on this thread.
    pub(crate) fn message(&self, mut prepared: Prepared<'_>, dtype: DType) -> Result<()> {
        let fabric = self.fabric.as_ref().expect("messages need another rank, so a fabric");
        let ticket =
            self.recorder.begin(prepared.signature, Some(prepared.peer), Some(prepared.tag), None);
        let mut patience = Patience::new(fabric, &self.health, self.timeout());
        let result = prepared
            .exec
            .drive(&mut patience)
            .map_err(|trouble| self.fail(prepared.signature, ticket.elapsed(), trouble));
        if dtype == DType::Bool {
            reduce::normalise_bool(prepared.exec.output_mut());
        }
        self.record_end(ticket, &result);
        result
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Closes the group. Idempotent.
    pub(crate) fn close(&self) {
        if self.health.is_forked() || self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        self.health.poison(Arc::new(Cause::Closed));
        if let Some(fabric) = &self.fabric {
            if self.id != 0 {
                fabric.forget_group(self.id);
            }
            fabric.wake();
            // The last group of the job closes the links.
            fabric.leave();
        }
    }
}

impl Drop for GroupCore {
    fn drop(&mut self) {
        self.close();
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The pieces of a message; one at least.
fn pieces(len: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = len.div_ceil(MESSAGE_PIECE).max(1);
    (0..count).map(move |piece| {
        let offset = piece * MESSAGE_PIECE;
        (offset, MESSAGE_PIECE.min(len - offset))
    })
}

/// What is left of a collective in a group of one.
pub(crate) fn alone(problem: &Problem, buffers: &mut Buffers<'_>) {
    if !problem.in_place && problem.operation != Operation::Barrier {
        let len = buffers.output_mut().len();
        let (output, input) =
            buffers.split(Span::new(Slot::Output, 0, len), &[Span::new(Slot::Input, 0, len)]);
        output.copy_from_slice(input[0]);
    }
    // Logical operators give 0 or 1 from one contribution too.
    if let Some(op @ (Op::LogicalAnd | Op::LogicalOr)) = problem.op {
        reduce::reduce_in_place(problem.dtype, op, 1, buffers.output_mut(), &[], &[]);
    }
}
