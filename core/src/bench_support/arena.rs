//! The shared-memory collectives, without a group around them.

use std::time::{Duration, Instant};

use crate::call::{Call, Operation, Signature};
use crate::collective::arena::run;
use crate::collective::{Counts, Pause, Problem, Stopped, Waiter};
use crate::dtype::{DType, Op};
use crate::sys::buf::Buffers;
use crate::transport::arena::{ArenaGroup, Geometry};
use crate::transport::shm::{DEFAULT_STAGING, Offer, Settings, ShmHost, attach};

/// How a wait passes its time: so many looks, then so many turns given to others, then naps.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Pauses that spin.
    pub spins: u32,
    /// Pauses that yield, after that.
    pub yields: u32,
    /// Longest nap, after that.
    pub nap: Duration,
    /// Longest wait.
    pub patience: Duration,
}

/// Waits by a [`Policy`], watching nothing but the clock.
#[derive(Debug)]
pub(crate) struct PolicyWaiter {
    policy: Policy,
    pauses: u32,
    since: Option<Instant>,
}

impl PolicyWaiter {
    pub(crate) fn new(policy: Policy) -> Self {
        PolicyWaiter { policy, pauses: 0, since: None }
    }
}

impl Waiter for PolicyWaiter {
    fn pause(&mut self, _: usize) -> Result<Pause, Stopped> {
        let Policy { spins, yields, nap, patience } = self.policy;
        self.pauses += 1;
        if self.pauses <= spins {
            return Ok(Pause::Spin);
        }
        let now = Instant::now();
        if now - *self.since.get_or_insert(now) > patience {
            return Err(Stopped);
        }
        let yields = spins.saturating_add(yields);
        Ok(if self.pauses <= yields { Pause::Yield } else { Pause::Sleep(nap) })
    }

    fn moved(&mut self) {
        self.pauses = 0;
        self.since = None;
    }
}

/// One rank.
#[derive(Debug)]
pub struct Rank {
    arena: ArenaGroup,
    waiter: PolicyWaiter,
    sequence: u64,
}

impl Rank {
    fn new(arena: ArenaGroup, policy: Policy) -> Rank {
        Rank { arena, waiter: PolicyWaiter::new(policy), sequence: 0 }
    }

    /// All ranks, for threads of this process.
    pub fn in_process(size: usize, slot: usize, policy: Policy) -> Vec<Rank> {
        let geometry = Geometry { ranks: size, small: 8192, slot: [slot, slot], depth: 3 };
        let arenas = ArenaGroup::in_process(geometry).expect("memory for the arena");
        arenas.into_iter().map(|arena| Rank::new(arena, policy)).collect()
    }

    /// A rank that is a process. `offer` is what [`offer`] gave to the process that started all of
    /// them.
    pub fn join(offer: &str, size: usize, rank: usize, policy: Policy) -> Rank {
        let offer: Offer = serde_json::from_str(offer).expect("an offer");
        let deadline = Instant::now() + Duration::from_secs(20);
        let segment = if rank == 0 {
            let settings = Settings { ranks: size, staging: DEFAULT_STAGING, rings: true };
            ShmHost::create(&settings, offer).and_then(|host| host.serve(deadline, &mut || false))
        } else {
            attach(&offer, size, rank, deadline, &mut || false)
        };
        let arena = segment.expect("the ranks share memory").take_arena().expect("taken once");
        Rank::new(arena, policy)
    }

    /// The sum of all ranks' inputs; in place if the input is empty.
    pub fn all_reduce(&mut self, input: &[u8], output: &mut [u8]) {
        let count = (output.len() / DType::F32.size()) as u64;
        let problem = Problem {
            operation: Operation::AllReduce,
            rank: self.arena.rank(),
            size: self.arena.geometry().ranks,
            dtype: DType::F32,
            op: Some(Op::Sum),
            root: 0,
            counts: Counts::Uniform(count),
            in_place: input.is_empty(),
        };
        let call = Call { op: Some(Op::Sum), ..Call::new(Operation::AllReduce, DType::F32, count) };
        let signature = Signature { sequence: self.sequence, call };
        self.sequence += 1;
        let mut buffers = Buffers::new(input, output);
        run(&mut self.arena, &signature, &problem, &mut buffers, &mut self.waiter)
            .expect("the benchmark's ranks agree and stay alive");
    }
}

/// What the ranks of one job need to find one another.
pub fn offer() -> String {
    serde_json::to_string(&Offer::new().expect("random numbers")).expect("it can be written")
}
