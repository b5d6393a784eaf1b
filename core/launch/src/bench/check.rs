//! Fills the buffers of a case and finds out whether the result is right.

use lycaon::{Group, Operation};

use super::case::{Case, Form};
use super::data::World;

/// What an output holds before the operation.
const POISON: u8 = 0xa5;

/// The buffers that one rank gives.
pub(super) struct Buffers {
    input: Option<Aligned>,
    output: Option<Aligned>,
}

impl Buffers {
    /// Buffers of zeros, all of whose pages are there. They stay zeros, however often an operation
    /// works on its own result.
    pub(super) fn new(case: &Case, form: Form) -> Self {
        let bytes = |count: usize| Aligned::new(count * case.dtype.size());
        let (input, output) = case.buffers(form);
        Buffers { input: input.map(bytes), output: output.map(bytes) }
    }

    /// Carries the operation out.
    pub(super) fn run(&mut self, case: &Case, group: &Group) -> lycaon::Result<()> {
        let input = self.input.as_ref().map(Aligned::bytes);
        case.run(group, input, self.output.as_mut().map(Aligned::bytes_mut))
    }
}

/// Carries the operation out once on data that tells its rank and place, and counts this rank's
/// wrong elements. `corrupt` spoils the result, to see that this finds it.
pub(super) fn check(
    case: &Case,
    form: Form,
    seed: u64,
    group: &Group,
    buffers: &mut Buffers,
    corrupt: bool,
) -> lycaon::Result<u64> {
    let world = World { dtype: case.dtype, op: case.op, ranks: case.size, seed };
    fill(case, form, &world, buffers);
    buffers.run(case, group)?;
    let Some(output) = &mut buffers.output else { return Ok(0) };
    let element = case.dtype.size();
    let result = case.result(form);
    let result = &mut output.bytes_mut()[result.start * element..result.end * element];
    if corrupt && let Some(last) = result.last_mut() {
        *last ^= 0x11;
    }
    Ok(wrong(case, &world, result))
}

/// The number of the data that rank `from` has for rank `to` in all_to_all.
fn pair(case: &Case, from: usize, to: usize) -> u64 {
    (from * case.size + to) as u64
}

fn fill(case: &Case, form: Form, world: &World, buffers: &mut Buffers) {
    let block = case.count * case.dtype.size();
    let own = world.series(case.rank as u64);
    let own_blocks = |into: &mut [u8]| {
        if case.operation == Operation::AllToAll {
            for to in 0..case.size {
                let into = &mut into[to * block..(to + 1) * block];
                world.series(pair(case, case.rank, to)).fill(into, 0);
            }
        } else {
            own.fill(into, 0);
        }
    };
    if let Some(input) = &mut buffers.input {
        own_blocks(input.bytes_mut());
    }
    if let Some(output) = &mut buffers.output {
        let output = output.bytes_mut();
        output.fill(POISON);
        match (case.operation, form) {
            (_, Form::OutOfPlace) => {}
            (Operation::AllGather | Operation::Gather, _) => {
                own.fill(&mut output[case.rank * block..(case.rank + 1) * block], 0);
            }
            (Operation::Broadcast, _) if case.root != Some(case.rank) => {}
            (Operation::Scatter, _) => {}
            _ => own_blocks(output),
        }
    }
}

fn wrong(case: &Case, world: &World, result: &[u8]) -> u64 {
    let block = case.count * case.dtype.size();
    let root = case.root.unwrap_or(0) as u64;
    let place = case.rank * case.count;
    let by_block = |number: &dyn Fn(usize) -> u64| {
        let blocks = (0..case.size).map(|from| {
            world.series(number(from)).wrong(&result[from * block..(from + 1) * block], 0)
        });
        blocks.sum()
    };
    match case.operation {
        Operation::AllReduce | Operation::Reduce => world.combined(case.size).wrong(result, 0),
        Operation::ReduceScatter => world.combined(case.size).wrong(result, place),
        Operation::Scan => world.combined(case.rank + 1).wrong(result, 0),
        Operation::AllGather | Operation::Gather => by_block(&|from| from as u64),
        Operation::AllToAll => by_block(&|from| pair(case, from, case.rank)),
        Operation::Broadcast => world.series(root).wrong(result, 0),
        Operation::Scatter => world.series(root).wrong(result, place),
        Operation::SendRecv => {
            world.series(((case.rank + case.size - 1) % case.size) as u64).wrong(result, 0)
        }
        _ => 0,
    }
}

/// Bytes that begin at a cache line.
struct Aligned {
    room: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    const LINE: usize = 64;

    fn new(length: usize) -> Self {
        let mut room = vec![0; length + Self::LINE];
        // why: untouched pages would be made while the clock runs.
        room.fill(1);
        room.fill(0);
        let start = room.as_ptr().align_offset(Self::LINE).min(Self::LINE);
        Aligned { room, start, length }
    }

    fn bytes(&self) -> &[u8] {
        &self.room[self.start..self.start + self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::MEASURED;
    use super::*;
    use lycaon::{DType, Op};

    /// Every operation in every form is found right, and found wrong when one byte is.
    #[test]
    fn right_results_pass_and_wrong_ones_are_counted() {
        let size = 3;
        let groups = lycaon::in_process(size, &Default::default()).unwrap();
        let check_all = move |group: Group| {
            let rank = group.rank();
            for operation in MEASURED {
                for (form, bytes) in [(Form::OutOfPlace, 120_000), (Form::InPlace, 36)] {
                    let case = Case::new(operation, DType::Bf16, Op::Sum, 1, bytes, (rank, size));
                    if !case.has(form) {
                        continue;
                    }
                    let mut buffers = Buffers::new(&case, form);
                    let good = check(&case, form, 3, &group, &mut buffers, false).unwrap();
                    assert_eq!(good, 0, "{operation} {form:?} rank {rank}");
                    let bad = check(&case, form, 4, &group, &mut buffers, rank == 1).unwrap();
                    let seen = rank == 1 && !case.result(form).is_empty();
                    assert_eq!(bad, u64::from(seen), "{operation} {form:?} rank {rank}");
                }
            }
        };
        let threads: Vec<_> =
            groups.into_iter().map(|group| std::thread::spawn(move || check_all(group))).collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
