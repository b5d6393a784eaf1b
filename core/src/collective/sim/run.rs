//! The hostile model: executes plans and checks what can be checked without knowing the operation.

use std::collections::{HashMap, VecDeque};

use super::{Case, Sends, Value, Values};
use crate::collective::plan::{Action, Plan, Slot, Span};
use crate::collective::{Schedule, schedule};

/// A generator of numbers that look random (SplitMix64, Steele, Lea, Flood 2014).
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).expect("below a usize")
    }
}

/// What a rank has sent and received in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub sent: u64,
    pub received: u64,
    pub messages_sent: u64,
    pub messages_received: u64,
    pub plans: u64,
    pub longest_plan: usize,
    pub scratch: usize,
}

/// One thing that can happen next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A step starts.
    Start { rank: usize, step: usize },
    /// A reduction or copy ends.
    Finish { rank: usize, step: usize },
    /// A posted send gets done, whether or not there is a receive.
    Capture { from: usize, to: usize, number: u64 },
    /// A message moves into the buffer of its receive.
    Deliver { from: usize, to: usize },
}

/// A posted send of the model.
struct Posted {
    step: usize,
    number: u64,
    values: Option<Vec<Value>>,
}

#[derive(Default)]
struct Channel {
    sends: VecDeque<Posted>,
    recvs: VecDeque<usize>,
    sent: u64,
    delivering: bool,
}

struct Rank {
    schedule: Schedule,
    plan: Plan,
    waits: Vec<usize>,
    dependents: Vec<Vec<usize>>,
    /// The steps that talk to a peer in one direction, those not posted yet.
    queues: HashMap<(usize, bool), VecDeque<usize>>,
    results: HashMap<usize, Vec<Value>>,
    left: usize,
    finished: bool,
    input: Vec<Value>,
    output: Vec<Option<Value>>,
    scratch: Vec<Option<Value>>,
    traffic: Traffic,
}

pub(super) struct Model<'a> {
    case: &'a Case,
    sends: Sends,
    random: Random,
    ranks: Vec<Rank>,
    channels: HashMap<(usize, usize), Channel>,
    events: Vec<Event>,
    pub values: Values,
}

/// What the buffers of a rank hold before the operation: input and output.
pub(super) type Given = (Vec<Value>, Vec<Option<Value>>);

impl<'a> Model<'a> {
    pub(super) fn new(
        case: &'a Case,
        sends: Sends,
        seed: u64,
        mut values: Values,
        mut given: impl FnMut(&mut Values, usize) -> Given,
    ) -> Self {
        let ranks = (0..case.size)
            .map(|rank| {
                let (input, output) = given(&mut values, rank);
                Rank {
                    schedule: schedule(&case.problem(rank), case.algorithm, &case.limits),
                    plan: Plan::default(),
                    waits: Vec::new(),
                    dependents: Vec::new(),
                    queues: HashMap::new(),
                    results: HashMap::new(),
                    left: 0,
                    finished: false,
                    input,
                    output,
                    scratch: Vec::new(),
                    traffic: Traffic::default(),
                }
            })
            .collect();
        Model {
            case,
            sends,
            random: Random(seed),
            ranks,
            channels: HashMap::new(),
            events: Vec::new(),
            values,
        }
    }

    /// Runs to the end. Returns every rank's output and traffic.
    pub(super) fn run(&mut self) -> Vec<(Vec<Option<Value>>, Traffic)> {
        for rank in 0..self.case.size {
            self.next_plan(rank);
        }
        while !self.events.is_empty() {
            let index = self.random.below(self.events.len());
            let event = self.events.swap_remove(index);
            match event {
                Event::Start { rank, step } => self.start(rank, step),
                Event::Finish { rank, step } => self.finish(rank, step),
                Event::Capture { from, to, number } => self.capture(from, to, number),
                Event::Deliver { from, to } => self.deliver(from, to),
            }
        }
        for (rank, state) in self.ranks.iter().enumerate() {
            assert!(state.finished, "deadlock: rank {rank} has {} steps left", state.left);
        }
        for (pair, channel) in &self.channels {
            assert!(channel.sends.is_empty(), "nobody received {pair:?}");
            assert!(channel.recvs.is_empty(), "nobody sent {pair:?}");
        }
        self.ranks.drain(..).map(|rank| (rank.output, rank.traffic)).collect()
    }

    fn next_plan(&mut self, rank: usize) {
        let state = &mut self.ranks[rank];
        loop {
            let Some(plan) = state.schedule.next() else {
                state.finished = true;
                return;
            };
            // A plan does not depend on how sends complete: once is enough.
            if self.sends == Sends::Rendezvous {
                examine(self.case, rank, &plan, state.input.len(), state.output.len());
            }
            state.traffic.plans += 1;
            state.traffic.longest_plan = state.traffic.longest_plan.max(plan.steps.len());
            state.traffic.scratch = state.traffic.scratch.max(plan.scratch);
            // Nothing that was in it is left.
            state.scratch = vec![None; plan.scratch.div_ceil(self.case.dtype.size())];
            state.left = plan.steps.len();
            state.plan = plan;
            if state.left > 0 {
                break;
            }
        }
        state.waits = state.plan.steps.iter().map(|step| step.after.len()).collect();
        state.dependents = vec![Vec::new(); state.left];
        state.queues.clear();
        for (index, step) in state.plan.steps.iter().enumerate() {
            for earlier in &step.after {
                state.dependents[*earlier as usize].push(index);
            }
            if let Some(queue) = queue(&step.action) {
                state.queues.entry(queue).or_default().push_back(index);
            }
        }
        for step in 0..state.left {
            self.may_start(rank, step);
        }
    }

    /// Offers a step for starting if nothing holds it up.
    fn may_start(&mut self, rank: usize, step: usize) {
        let state = &self.ranks[rank];
        let first = queue(&state.plan.steps[step].action)
            .is_none_or(|queue| state.queues[&queue].front() == Some(&step));
        if state.waits[step] == 0 && first {
            self.events.push(Event::Start { rank, step });
        }
    }

    fn start(&mut self, rank: usize, step: usize) {
        let action = self.ranks[rank].plan.steps[step].action.clone();
        match &action {
            Action::Send { peer, .. } => {
                let channel = self.channels.entry((rank, *peer)).or_default();
                let number = channel.sent;
                channel.sent += 1;
                channel.sends.push_back(Posted { step, number, values: None });
                if self.sends == Sends::Eager {
                    self.events.push(Event::Capture { from: rank, to: *peer, number });
                }
                self.may_deliver(rank, *peer);
            }
            Action::Recv { peer, into } => {
                self.forget(rank, *into);
                self.channels.entry((*peer, rank)).or_default().recvs.push_back(step);
                self.may_deliver(*peer, rank);
            }
            Action::Reduce { op, divisor, sources, into, .. } => {
                let sources: Vec<Vec<Value>> =
                    sources.iter().map(|source| self.read(rank, *source)).collect();
                let result = (0..sources[0].len())
                    .map(|i| {
                        let sources = sources.iter().map(|source| source[i]).collect();
                        self.values.reduced(*op, *divisor, sources)
                    })
                    .collect();
                self.compute(rank, step, *into, result);
            }
            Action::Copy { from, into } => {
                let result = self.read(rank, *from);
                self.compute(rank, step, *into, result);
            }
        }
        if let Some(queue) = queue(&action) {
            let steps = self.ranks[rank].queues.get_mut(&queue).expect("it has this step");
            assert_eq!(steps.pop_front(), Some(step));
            if let Some(next) = steps.front().copied() {
                self.may_start(rank, next);
            }
        }
    }

    fn compute(&mut self, rank: usize, step: usize, into: Span, result: Vec<Value>) {
        self.forget(rank, into);
        self.ranks[rank].results.insert(step, result);
        self.events.push(Event::Finish { rank, step });
    }

    fn finish(&mut self, rank: usize, step: usize) {
        let result = self.ranks[rank].results.remove(&step).expect("it was started");
        match self.ranks[rank].plan.steps[step].action {
            Action::Reduce { into, .. } | Action::Copy { into, .. } => {
                self.write(rank, into, &result);
            }
            ref other => panic!("{other:?} computes nothing"),
        }
        self.done(rank, step);
    }

    fn capture(&mut self, from: usize, to: usize, number: u64) {
        let channel = &self.channels[&(from, to)];
        let first = channel.sends.front().expect("it is posted").number;
        let index = usize::try_from(number - first).expect("posted later");
        let step = channel.sends[index].step;
        let values = self.read_sent(from, step);
        self.channels.get_mut(&(from, to)).expect("exists").sends[index].values = Some(values);
        self.done(from, step);
        self.may_deliver(from, to);
    }

    fn read_sent(&self, rank: usize, step: usize) -> Vec<Value> {
        match &self.ranks[rank].plan.steps[step].action {
            Action::Send { from, .. } => self.read(rank, *from),
            other => panic!("{other:?} is no send"),
        }
    }

    fn may_deliver(&mut self, from: usize, to: usize) {
        let channel = self.channels.get_mut(&(from, to)).expect("exists");
        let (Some(send), Some(_)) = (channel.sends.front(), channel.recvs.front()) else {
            return;
        };
        let ready = self.sends == Sends::Rendezvous || send.values.is_some();
        if ready && !channel.delivering {
            channel.delivering = true;
            self.events.push(Event::Deliver { from, to });
        }
    }

    fn deliver(&mut self, from: usize, to: usize) {
        let channel = self.channels.get_mut(&(from, to)).expect("exists");
        channel.delivering = false;
        let send = channel.sends.pop_front().expect("posted");
        let recv = channel.recvs.pop_front().expect("posted");
        let captured = send.values.is_some();
        let values = send.values.unwrap_or_else(|| self.read_sent(from, send.step));
        let Action::Recv { into, .. } = self.ranks[to].plan.steps[recv].action else {
            panic!("not a receive");
        };
        let element = self.case.dtype.size();
        assert_eq!(values.len() * element, into.len, "message {} {from} → {to}", send.number);
        self.write(to, into, &values);
        let (sender, receiver) = (&mut self.ranks[from].traffic, into.len as u64);
        sender.sent += receiver;
        sender.messages_sent += 1;
        let traffic = &mut self.ranks[to].traffic;
        traffic.received += into.len as u64;
        traffic.messages_received += 1;
        if !captured {
            self.done(from, send.step);
        }
        self.done(to, recv);
        self.may_deliver(from, to);
    }

    fn done(&mut self, rank: usize, step: usize) {
        let state = &mut self.ranks[rank];
        state.left -= 1;
        for later in std::mem::take(&mut state.dependents[step]) {
            self.ranks[rank].waits[later] -= 1;
            self.may_start(rank, later);
        }
        if self.ranks[rank].left == 0 {
            self.next_plan(rank);
        }
    }

    fn cells(&self, span: Span) -> std::ops::Range<usize> {
        let element = self.case.dtype.size();
        span.offset / element..(span.offset + span.len) / element
    }

    fn read(&self, rank: usize, span: Span) -> Vec<Value> {
        let state = &self.ranks[rank];
        let cells = self.cells(span);
        match span.slot {
            Slot::Input => state.input[cells].to_vec(),
            Slot::Output | Slot::Scratch => {
                let memory = if span.slot == Slot::Output { &state.output } else { &state.scratch };
                memory[cells]
                    .iter()
                    .map(|cell| cell.unwrap_or_else(|| panic!("rank {rank} reads unset {span:?}")))
                    .collect()
            }
        }
    }

    fn memory(&mut self, rank: usize, span: Span) -> &mut [Option<Value>] {
        let cells = self.cells(span);
        let state = &mut self.ranks[rank];
        match span.slot {
            Slot::Input => panic!("rank {rank} writes to its input"),
            Slot::Output => &mut state.output[cells],
            Slot::Scratch => &mut state.scratch[cells],
        }
    }

    /// What is being written cannot be read.
    fn forget(&mut self, rank: usize, span: Span) {
        self.memory(rank, span).fill(None);
    }

    fn write(&mut self, rank: usize, span: Span, values: &[Value]) {
        for (cell, value) in self.memory(rank, span).iter_mut().zip(values) {
            *cell = Some(*value);
        }
    }
}

fn queue(action: &Action) -> Option<(usize, bool)> {
    match action {
        Action::Send { peer, .. } => Some((*peer, true)),
        Action::Recv { peer, .. } => Some((*peer, false)),
        Action::Reduce { .. } | Action::Copy { .. } => None,
    }
}

/// Checks a plan as it stands.
pub(super) fn examine(case: &Case, rank: usize, plan: &Plan, input: usize, output: usize) {
    let element = case.dtype.size();
    let inside = |span: &Span| {
        let end = match span.slot {
            Slot::Input => input * element,
            Slot::Output => output * element,
            Slot::Scratch => plan.scratch,
        };
        assert!(span.offset + span.len <= end, "{span:?} ends behind {end}");
        assert_eq!((span.offset % element, span.len % element), (0, 0), "{span:?} cuts an element");
    };
    // What each step touches, and whether it writes there.
    let mut touched: Vec<(Span, usize, bool)> = Vec::new();
    for (index, step) in plan.steps.iter().enumerate() {
        assert!(step.after.iter().all(|earlier| (*earlier as usize) < index));
        let (read, write) = match &step.action {
            Action::Send { peer, from } => {
                assert!(*peer < case.size && *peer != rank);
                (vec![*from], None)
            }
            Action::Recv { peer, into } => {
                assert!(*peer < case.size && *peer != rank);
                (vec![], Some(*into))
            }
            Action::Reduce { op, divisor, dtype, into, sources } => {
                assert_eq!(*dtype, case.dtype);
                assert!(*op == case.op || case.op == crate::dtype::Op::Avg);
                assert!(*divisor == 1 || *op == crate::dtype::Op::Avg);
                assert!(!sources.is_empty() && into.len > 0);
                assert!(sources.iter().all(|source| source.len == into.len));
                assert!(sources.iter().all(|source| source == into || !source.overlaps(into)));
                (sources.clone(), Some(*into))
            }
            Action::Copy { from, into } => {
                assert!(from.len == into.len && !from.overlaps(into) && from.len > 0);
                (vec![*from], Some(*into))
            }
        };
        read.iter().chain(&write).for_each(inside);
        assert!(write.is_none_or(|write| write.slot != Slot::Input));
        // What a step does to one place it does at once.
        touched.extend(
            read.into_iter().filter(|span| write != Some(*span)).map(|s| (s, index, false)),
        );
        touched.extend(write.map(|span| (span, index, true)));
    }
    // ancestors[j] has i exactly if step i is done before step j starts.
    let words = plan.steps.len().div_ceil(64);
    let mut ancestors: Vec<Vec<u64>> = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        let mut mine = vec![0_u64; words];
        for earlier in &step.after {
            let earlier = *earlier as usize;
            mine[earlier / 64] |= 1 << (earlier % 64);
            for (word, of) in mine.iter_mut().zip(&ancestors[earlier]) {
                *word |= of;
            }
        }
        ancestors.push(mine);
    }
    touched.retain(|(span, ..)| span.len > 0);
    touched.sort_unstable();
    for (at, (span, step, write)) in touched.iter().enumerate() {
        for (other, other_step, other_write) in &touched[at + 1..] {
            if !other.overlaps(span) {
                break;
            }
            let (earlier, later) = (step.min(other_step), step.max(other_step));
            let ordered = ancestors[*later][earlier / 64] & (1 << (earlier % 64)) != 0;
            assert!(
                ordered || !(*write || *other_write),
                "rank {rank}: {:?} and {:?} race",
                plan.steps[*earlier],
                plan.steps[*later]
            );
        }
    }
}
