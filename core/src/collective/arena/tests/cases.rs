//! Calls with data that differs by rank and position, and what must come out.

use super::*;
use crate::reduce::tests::expected as expected_reduction;
use crate::transport::arena::Lane;

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub operation: Operation,
    pub dtype: DType,
    pub op: Option<Op>,
    pub root: usize,
    /// As rank 0 would see them if it knew all; for all_to_all with differing counts, a base.
    pub counts: Counts,
    pub in_place: bool,
    pub size: usize,
}

/// Appends element `position` of what `rank` contributes.
fn push_element(bytes: &mut Vec<u8>, dtype: DType, rank: usize, position: usize) {
    let number = (rank * 37 + position * 11 + position / 97) % 113;
    let real = number as f64 * 0.37 - 15.0;
    match dtype {
        DType::Bool => bytes.push(u8::from(number % 5 > 1)),
        DType::I8 | DType::U8 => bytes.push(number as u8),
        DType::I16 | DType::U16 => bytes.extend((number as u16 * 301).to_ne_bytes()),
        DType::I32 | DType::U32 => bytes.extend((number as u32 * 30_000_001).to_ne_bytes()),
        DType::I64 | DType::U64 => {
            bytes.extend((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_ne_bytes());
        }
        DType::F16 => bytes.extend(half::f16::from_f64(real).to_ne_bytes()),
        DType::Bf16 => bytes.extend(half::bf16::from_f64(real).to_ne_bytes()),
        DType::F32 => bytes.extend((real as f32).to_ne_bytes()),
        DType::F64 => bytes.extend(real.to_ne_bytes()),
        DType::Complex64 => {
            bytes.extend((real as f32).to_ne_bytes());
            bytes.extend((1.5 - real as f32).to_ne_bytes());
        }
        DType::Complex128 => {
            bytes.extend(real.to_ne_bytes());
            bytes.extend((0.5 - real).to_ne_bytes());
        }
    }
}

impl Case {
    fn data(&self, rank: usize, elements: std::ops::Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        elements.for_each(|at| push_element(&mut bytes, self.dtype, rank, at as usize));
        bytes
    }

    fn count(&self, rank: usize) -> u64 {
        match &self.counts {
            Counts::Uniform(count) => *count,
            Counts::ByRank(counts) => counts[rank],
            Counts::Exchange { .. } => unreachable!(),
        }
    }

    /// What `from` sends to `to` in an all_to_all.
    fn exchanged(&self, from: usize, to: usize) -> u64 {
        match &self.counts {
            Counts::Exchange { send, .. } => send[(from * 3 + to * 2) % self.size],
            _ => self.count(0),
        }
    }

    fn sum(&self) -> u64 {
        (0..self.size).map(|rank| self.count(rank)).sum()
    }

    fn before(&self, rank: usize) -> u64 {
        (0..rank).map(|rank| self.count(rank)).sum()
    }

    fn rooted(&self) -> bool {
        matches!(
            self.operation,
            Operation::Broadcast | Operation::Reduce | Operation::Gather | Operation::Scatter
        )
    }

    fn problem_counts(&self, rank: usize) -> Counts {
        match self.operation {
            Operation::Gather | Operation::Scatter if rank != self.root => {
                Counts::Uniform(self.count(rank))
            }
            Operation::AllToAll if matches!(self.counts, Counts::Exchange { .. }) => {
                Counts::Exchange {
                    send: (0..self.size).map(|to| self.exchanged(rank, to)).collect(),
                    recv: (0..self.size).map(|from| self.exchanged(from, rank)).collect(),
                }
            }
            _ => self.counts.clone(),
        }
    }

    pub(super) fn call(&self) -> Call {
        let (count, layout) = match (&self.counts, self.rooted()) {
            (Counts::Uniform(count), _) => (*count, 0),
            (Counts::ByRank(_), false) => (self.sum(), 77),
            _ => (0, 0),
        };
        let root = self.rooted().then_some(self.root as u32);
        Call { op: self.op, root, layout, ..Call::new(self.operation, self.dtype, count) }
    }

    pub(super) fn problem(&self, rank: usize) -> Problem {
        Problem {
            operation: self.operation,
            rank,
            size: self.size,
            dtype: self.dtype,
            op: self.op,
            root: if self.rooted() { self.root } else { 0 },
            counts: self.problem_counts(rank),
            in_place: self.is_in_place(rank),
        }
    }

    fn is_in_place(&self, rank: usize) -> bool {
        match self.operation {
            Operation::Broadcast => true,
            Operation::AllToAll | Operation::Barrier => false,
            _ if self.rooted() => self.in_place && rank == self.root,
            _ => self.in_place,
        }
    }

    /// Input and output before the call.
    fn buffers(&self, rank: usize) -> (Vec<u8>, Vec<u8>) {
        let bytes = self.dtype.size();
        let junk = |count: u64| vec![0xa5; count as usize * bytes];
        let in_place = self.is_in_place(rank);
        let is_root = rank == self.root;
        match self.operation {
            Operation::AllReduce | Operation::Scan => {
                let input = self.data(rank, 0..self.count(0));
                if in_place { (vec![], input) } else { (input, junk(self.count(0))) }
            }
            Operation::Reduce => {
                let input = self.data(rank, 0..self.count(0));
                match (is_root, in_place) {
                    (true, true) => (vec![], input),
                    (true, false) => (input, junk(self.count(0))),
                    (false, _) => (input, vec![]),
                }
            }
            Operation::ReduceScatter => {
                let input = self.data(rank, 0..self.sum());
                if in_place { (vec![], input) } else { (input, junk(self.count(rank))) }
            }
            Operation::AllGather | Operation::Gather => {
                let input = self.data(rank, 0..self.count(rank));
                if self.operation == Operation::Gather && !is_root {
                    return (input, vec![]);
                }
                let mut output = junk(self.sum());
                if !in_place {
                    return (input, output);
                }
                let start = self.before(rank) as usize * bytes;
                output[start..start + input.len()].copy_from_slice(&input);
                (vec![], output)
            }
            Operation::Broadcast if is_root => (vec![], self.data(rank, 0..self.count(0))),
            Operation::Broadcast => (vec![], junk(self.count(0))),
            Operation::Scatter => {
                let input = if is_root { self.data(rank, 0..self.sum()) } else { vec![] };
                let output = if in_place { vec![] } else { junk(self.count(rank)) };
                (input, output)
            }
            Operation::AllToAll => {
                let sent = (0..self.size).map(|to| self.exchanged(rank, to)).sum();
                let got = (0..self.size).map(|from| self.exchanged(from, rank)).sum();
                (self.data(rank, 0..sent), junk(got))
            }
            _ => (vec![], vec![]),
        }
    }

    /// Runs it as one rank and gives what is specified of its output.
    pub(super) fn perform(
        &self,
        arena: &mut ArenaGroup,
        waiter: &mut dyn Waiter,
        sequence: u64,
    ) -> Result<Vec<u8>, ArenaError> {
        let rank = arena.rank();
        let (input, mut output) = self.buffers(rank);
        let before = input.clone();
        let signature = Signature { sequence, call: self.call() };
        let problem = self.problem(rank);
        run(arena, &signature, &problem, &mut Buffers::new(&input, &mut output), waiter)?;
        assert!(input == before, "the input was written to");
        if self.operation == Operation::ReduceScatter && self.in_place {
            let start = self.before(rank) as usize * self.dtype.size();
            let len = self.count(rank) as usize * self.dtype.size();
            output = output[start..start + len].to_vec();
        }
        Ok(output)
    }

    /// What [`Case::perform`] must give.
    pub(super) fn expected(&self, rank: usize) -> Vec<u8> {
        let is_root = rank == self.root;
        let reduced = |ranks: usize, elements: std::ops::Range<u64>| {
            let sources: Vec<_> =
                (0..ranks).map(|rank| self.data(rank, elements.clone())).collect();
            let sources: Vec<_> = sources.iter().map(Vec::as_slice).collect();
            let (op, divisor) = (self.op.unwrap(), ranks as u32);
            if self.size <= 5 {
                return expected_reduction(self.dtype, op, divisor, &sources);
            }
            // The plain reference is slow; the kernel is tested against it.
            let mut result = vec![0; sources[0].len()];
            crate::reduce::reduce(self.dtype, op, divisor, &mut result, &sources);
            result
        };
        let block = |rank: usize| self.before(rank)..self.before(rank) + self.count(rank);
        match self.operation {
            Operation::AllReduce => reduced(self.size, 0..self.count(0)),
            Operation::Reduce if is_root => reduced(self.size, 0..self.count(0)),
            Operation::Scan => reduced(rank + 1, 0..self.count(0)),
            Operation::ReduceScatter => reduced(self.size, block(rank)),
            Operation::Gather if !is_root => vec![],
            Operation::AllGather | Operation::Gather => {
                (0..self.size).flat_map(|from| self.data(from, 0..self.count(from))).collect()
            }
            Operation::Broadcast => self.data(self.root, 0..self.count(0)),
            Operation::Scatter if is_root && self.in_place => vec![],
            Operation::Scatter => self.data(self.root, block(rank)),
            Operation::AllToAll => (0..self.size)
                .flat_map(|from| {
                    let start: u64 = (0..rank).map(|to| self.exchanged(from, to)).sum();
                    self.data(from, start..start + self.exchanged(from, rank))
                })
                .collect(),
            _ => vec![],
        }
    }

    /// A call of any kind, integer-exact; `below` gives the same numbers on all ranks.
    pub(super) fn random(size: usize, below: &mut dyn FnMut(u64) -> u64) -> Case {
        let operation = Operation::ALL[below(10) as usize];
        let longest = [1, 10, 100, 2000][below(4) as usize];
        let counts = match (operation, below(2)) {
            (
                Operation::AllGather
                | Operation::ReduceScatter
                | Operation::Gather
                | Operation::Scatter,
                1,
            ) => Counts::ByRank((0..size).map(|_| below(longest)).collect()),
            (Operation::AllToAll, 1) => {
                Counts::Exchange { send: (0..size).map(|_| below(longest)).collect(), recv: vec![] }
            }
            _ => Counts::Uniform(below(longest)),
        };
        let dtype = [DType::I32, DType::I64, DType::U8][below(3) as usize];
        let op = reduces(operation).then(|| [Op::Sum, Op::Max, Op::BitXor][below(3) as usize]);
        let root = below(size as u64) as usize;
        Case { operation, dtype, op, root, counts, in_place: below(2) == 1, size }
    }
}

fn reduces(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::AllReduce | Operation::Reduce | Operation::ReduceScatter | Operation::Scan
    )
}

/// Every operation in place and not, uniform and by rank, at every edge of the geometry.
pub(super) fn cases(geometry: &Geometry) -> Vec<Case> {
    let size = geometry.ranks;
    let slot = geometry.slot[Lane::In as usize];
    let share = slot / (size - 1).max(1) / 64 * 64;
    let pairs = crate::reduce::tests::pairs();
    let mut cases = Vec::new();
    for operation in &Operation::ALL[..10] {
        let operation = *operation;
        for in_place in [false, true] {
            // In bytes, and one element around each.
            let edges = [0, geometry.small, slot, share, share * size, slot * 3, slot * 5 + share];
            for edge in edges {
                for step in [-1, 0, 1, 2] {
                    let (mut dtype, op) = pairs[(cases.len() * 7) % pairs.len()];
                    let op = reduces(operation).then_some(op);
                    if op.is_none() {
                        dtype = DType::ALL[cases.len() % DType::ALL.len()];
                    }
                    let Ok(count) = u64::try_from((edge / dtype.size()) as i64 + step) else {
                        continue;
                    };
                    let root = cases.len() % size;
                    let case = |counts| Case { operation, dtype, op, root, counts, in_place, size };
                    cases.push(case(Counts::Uniform(count)));
                    let by_rank = |rank: u64| (count * (rank * 7 % 5)) / 3 + rank * 3 % 4;
                    let by_rank = (0..size as u64).map(by_rank).collect();
                    match operation {
                        Operation::AllGather
                        | Operation::ReduceScatter
                        | Operation::Gather
                        | Operation::Scatter => cases.push(case(Counts::ByRank(by_rank))),
                        Operation::AllToAll => {
                            cases.push(case(Counts::Exchange { send: by_rank, recv: vec![] }));
                        }
                        _ => (),
                    }
                }
            }
        }
    }
    cases
}
