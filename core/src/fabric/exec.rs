//! Executes plans: posts what is ready, reduces and copies what has arrived, in the order that the
//! plan's graph asks for.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::collective::plan::{Action, Plan, Span, Step};
use crate::error::Cause;
use crate::reduce;
use crate::sys::buf::Buffers;
use crate::transport::{Envelope, Loss};

use super::{Core, Fabric, Patience, Stop, post_id};

/// One operation over messages, as a state machine that any thread may drive.
pub(crate) struct Exec<'b> {
    fabric: Arc<Fabric>,
    mailbox: u32,
    /// What sends carry and receives expect.
    send: Envelope,
    recv: Envelope,
    /// Ranks of the job by rank of the group.
    members: Arc<[usize]>,
    schedule: Box<dyn Iterator<Item = Plan> + Send>,
    run: Option<Run>,
    buffers: Buffers<'b>,
}

/// A plan in execution.
struct Run {
    steps: Vec<Step>,
    /// Predecessors that are not done, by step.
    missing: Vec<u32>,
    /// Successors, by step.
    followers: Vec<Vec<u32>>,
    progress: Vec<Stage>,
    /// Messages not yet posted, by peer and in order.
    sends: Vec<(usize, VecDeque<u32>)>,
    recvs: Vec<(usize, VecDeque<u32>)>,
    /// Reductions and copies that can be done now.
    local: VecDeque<u32>,
    left: usize,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not begun.
    Waiting,
    /// Posted to a transport, which holds its buffer.
    Posted,
    /// There is no link to post it to.
    Refused,
    /// Done.
    Done,
}

/// Why an operation over messages cannot go on.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A link it needs is gone.
    Lost { peer: usize, loss: Loss },
    /// A peer called something else, or broke the rules.
    Cause(Cause),
    /// The wait ended early.
    Stop { stop: Stop, peer: Option<usize> },
}

/// Whether an operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for others; `moved` says whether anything happened in this call.
    Pending { moved: bool },
    /// It is complete.
    Done,
}

impl<'b> Exec<'b> {
    pub(crate) fn new(
        fabric: &Arc<Fabric>,
        send: Envelope,
        recv: Envelope,
        members: Arc<[usize]>,
        schedule: Box<dyn Iterator<Item = Plan> + Send>,
        buffers: Buffers<'b>,
    ) -> Self {
        Exec {
            mailbox: fabric.open_mailbox(),
            fabric: Arc::clone(fabric),
            send,
            recv,
            members,
            schedule,
            run: None,
            buffers,
        }
    }

    /// Posts what can be posted at once, so that it keeps its place before what is posted later.
    pub(crate) fn start(&mut self) {
        if let Some(plan) = self.schedule.next() {
            self.buffers.reserve_scratch(plan.scratch);
            let mut run = Run::new(plan);
            let mut core = self.fabric.lock();
            let Self { mailbox, send, recv, members, buffers, .. } = self;
            run.post(&mut core, *mailbox, send, recv, members, buffers);
            self.run = Some(run);
        }
    }

    /// Drives the operation to its end on this thread.
    pub(crate) fn drive(&mut self, patience: &mut Patience<'_>) -> Result<(), Trouble> {
        loop {
            match self.poll()? {
                State::Done => return Ok(()),
                State::Pending { moved: true } => patience.note_progress(),
                State::Pending { moved: false } => {
                    let peer = self.waiting_for();
                    patience.idle(peer).map_err(|stop| Trouble::Stop { stop, peer })?;
                }
            }
        }
    }

    /// Goes on as far as it can without waiting.
    pub(crate) fn poll(&mut self) -> Result<State, Trouble> {
        let mut moved = false;
        loop {
            let Some(run) = &mut self.run else {
                match self.schedule.next() {
                    Some(plan) => {
                        self.buffers.reserve_scratch(plan.scratch);
                        self.run = Some(Run::new(plan));
                        continue;
                    }
                    None => return Ok(State::Done),
                }
            };
            let mut core = self.fabric.lock();
            run.post(
                &mut core,
                self.mailbox,
                &self.send,
                &self.recv,
                &self.members,
                &mut self.buffers,
            );
            self.fabric.progress(&mut core, Some(self.mailbox));
            let done = match &mut core.mailboxes[self.mailbox as usize] {
                Some(mailbox) => std::mem::take(&mut mailbox.done),
                None => Vec::new(),
            };
            for step in &done {
                run.complete(*step);
            }
            if done.is_empty() {
                let alone = self.fabric.watch.is_alone();
                Self::trouble(&core, run, &self.members, self.recv.lane.group, alone)?;
            }
            drop(core);
            let mut advanced = !done.is_empty();
            // One at a time, so that what it makes ready is on its way before the next.
            if let Some(step) = run.local.pop_front() {
                compute(&run.steps[step as usize].action, &mut self.buffers);
                run.complete(step);
                advanced = true;
            }
            moved |= advanced;
            if run.left == 0 {
                self.run = None;
            } else if !advanced {
                return Ok(State::Pending { moved });
            }
        }
    }

    /// Takes back every posted buffer. What has not completed will not.
    fn cancel(&mut self) {
        let Some(run) = &mut self.run else { return };
        let mut core = self.fabric.lock();
        for (index, step) in run.steps.iter().enumerate() {
            if run.progress[index] == Stage::Posted
                && let Action::Send { peer, .. } | Action::Recv { peer, .. } = step.action
            {
                core.cancel(self.members[peer], post_id(self.mailbox, index as u32));
            }
        }
        // What completed just before it was cancelled must not reach the mailbox's next owner.
        self.fabric.progress(&mut core, Some(self.mailbox));
        self.run = None;
    }

    /// The caller's output, after whatever is still under way was cancelled.
    pub(crate) fn output_mut(&mut self) -> &mut [u8] {
        self.cancel();
        self.buffers.output_mut()
    }

    /// What has happened that this operation, and nothing but it and its group, fails of.
    fn trouble(
        core: &Core,
        run: &Run,
        members: &[usize],
        group: u64,
        alone: bool,
    ) -> Result<(), Trouble> {
        if let Some((_, cause)) = core.mismatches.iter().find(|(id, _)| *id == group) {
            return Err(Trouble::Cause(cause.clone()));
        }
        if core.lost.iter().all(Option::is_none) {
            return Ok(());
        }
        let lost = |peer: usize| Some((peer, core.lost[peer].clone()?));
        let broke = |peer: &usize| matches!(core.lost[*peer], Some(Loss::Broken(_)));
        let needed = run.waited_for().map(|peer| members[peer]);
        // Whoever this rank waits for may have failed because of a third one. If nobody passes
        // that on, the third one's end has to be seen here as well.
        let others = members.iter().copied().filter(|peer| alone && broke(peer));
        match needed.chain(others).find_map(lost) {
            Some((peer, loss)) => Err(Trouble::Lost { peer, loss }),
            None => Ok(()),
        }
    }

    /// A rank of the group that this operation waits for: one that has to send, else one that has
    /// to receive.
    pub(crate) fn waiting_for(&self) -> Option<usize> {
        self.run.as_ref().and_then(|run| run.waited_for().next())
    }
}

impl Drop for Exec<'_> {
    fn drop(&mut self) {
        self.cancel();
        self.fabric.lock().mailboxes[self.mailbox as usize] = None;
    }
}

impl Run {
    fn new(plan: Plan) -> Self {
        let count = plan.steps.len();
        let mut run = Run {
            missing: vec![0; count],
            followers: vec![Vec::new(); count],
            progress: vec![Stage::Waiting; count],
            sends: Vec::new(),
            recvs: Vec::new(),
            local: VecDeque::new(),
            left: count,
            steps: plan.steps,
        };
        for (index, step) in run.steps.iter().enumerate() {
            run.missing[index] = step.after.len() as u32;
            for earlier in &step.after {
                run.followers[*earlier as usize].push(index as u32);
            }
            let (queues, peer) = match step.action {
                Action::Send { peer, .. } => (&mut run.sends, peer),
                Action::Recv { peer, .. } => (&mut run.recvs, peer),
                Action::Reduce { .. } | Action::Copy { .. } => {
                    if step.after.is_empty() {
                        run.local.push_back(index as u32);
                    }
                    continue;
                }
            };
            match queues.iter_mut().find(|(known, _)| *known == peer) {
                Some((_, queue)) => queue.push_back(index as u32),
                None => queues.push((peer, VecDeque::from([index as u32]))),
            }
        }
        run
    }

    /// Posts every message whose turn has come. Receives first: they let peers start.
    fn post(
        &mut self,
        core: &mut Core,
        mailbox: u32,
        send: &Envelope,
        recv: &Envelope,
        members: &[usize],
        buffers: &mut Buffers<'_>,
    ) {
        for (peer, queue) in &mut self.recvs {
            while let Some(step) = queue.front().copied().filter(|s| self.missing[*s as usize] == 0)
            {
                let Action::Recv { into, .. } = self.steps[step as usize].action else {
                    unreachable!("only receives are in this queue")
                };
                queue.pop_front();
                let id = post_id(mailbox, step);
                let posted =
                    core.post_recv(members[*peer], named(recv, into), buffers.span_mut(into), id);
                self.progress[step as usize] = if posted { Stage::Posted } else { Stage::Refused };
            }
        }
        for (peer, queue) in &mut self.sends {
            while let Some(step) = queue.front().copied().filter(|s| self.missing[*s as usize] == 0)
            {
                let Action::Send { from, .. } = self.steps[step as usize].action else {
                    unreachable!("only sends are in this queue")
                };
                queue.pop_front();
                let id = post_id(mailbox, step);
                let posted =
                    core.post_send(members[*peer], named(send, from), buffers.span(from), id);
                self.progress[step as usize] = if posted { Stage::Posted } else { Stage::Refused };
            }
        }
    }

    fn complete(&mut self, step: u32) {
        self.progress[step as usize] = Stage::Done;
        self.left -= 1;
        for follower in std::mem::take(&mut self.followers[step as usize]) {
            let missing = &mut self.missing[follower as usize];
            *missing -= 1;
            if *missing == 0
                && matches!(
                    self.steps[follower as usize].action,
                    Action::Reduce { .. } | Action::Copy { .. }
                )
            {
                self.local.push_back(follower);
            }
        }
    }

    /// Ranks of the group that this plan waits for: those whose link is gone, then senders, then
    /// receivers.
    fn waited_for(&self) -> impl Iterator<Item = usize> + '_ {
        let those = |wanted: Stage, receives: bool| {
            self.steps.iter().zip(&self.progress).filter_map(move |(step, stage)| {
                match step.action {
                    Action::Recv { peer, .. } if receives && *stage == wanted => Some(peer),
                    Action::Send { peer, .. } if !receives && *stage == wanted => Some(peer),
                    _ => None,
                }
            })
        };
        those(Stage::Refused, true)
            .chain(those(Stage::Refused, false))
            .chain(those(Stage::Posted, true))
            .chain(those(Stage::Posted, false))
    }
}

/// The envelope of one message. Where only its two ends know its length, the length is in the name
/// of the call, so that ends that do not agree are told so.
fn named(envelope: &Envelope, span: Span) -> Envelope {
    let mut envelope = *envelope;
    let call = &mut envelope.signature.call;
    if call.has_counts_of_pairs() {
        call.count = (span.len / call.dtype.size()) as u64;
    }
    envelope
}

fn compute(action: &Action, buffers: &mut Buffers<'_>) {
    match action {
        Action::Copy { from, into } => {
            let (destination, sources) = buffers.split(*into, std::slice::from_ref(from));
            destination.copy_from_slice(sources[0]);
        }
        Action::Reduce { op, divisor, dtype, into, sources } => {
            match sources.iter().position(|source| source == into) {
                None => {
                    let (destination, sources) = buffers.split(*into, sources);
                    reduce::reduce(*dtype, *op, *divisor, destination, &sources);
                }
                Some(own) => {
                    let others: Vec<_> =
                        sources.iter().filter(|source| *source != into).copied().collect();
                    let (destination, others) = buffers.split(*into, &others);
                    let (before, after) = others.split_at(own);
                    reduce::reduce_in_place(*dtype, *op, *divisor, destination, before, after);
                }
            }
        }
        Action::Send { .. } | Action::Recv { .. } => unreachable!("messages are posted"),
    }
}
