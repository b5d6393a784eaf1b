//! Messages between two ranks: one that goes round all ranks, and a shift where everybody sends and
//! receives at the same time.

use lycaon::{Result, call::Operation};

/// Messages with different tags do not wait for one another.
const BATON: u32 = 1;
const SHIFT: u32 = 2;

fn main() -> Result<()> {
    let group = lycaon::init()?;
    let (rank, size) = (group.rank(), group.size());
    if size == 1 {
        println!("one rank has nobody to write to");
        return Ok(());
    }
    let (after, before) = ((rank + 1) % size, (rank + size - 1) % size);

    // Each rank writes its number into the baton and hands it on.
    let mut baton = vec![-1i64; size];
    if rank == 0 {
        baton[0] = 0;
        group.send(&baton, after, BATON)?;
        group.recv(&mut baton, before, BATON)?;
        println!("the baton came back as {baton:?}");
    } else {
        group.recv(&mut baton, before, BATON)?;
        baton[rank] = rank as i64;
        group.send(&baton, after, BATON)?;
    }

    // All at once: send and receive together, or a ring of ranks would wait for itself.
    let mine = vec![rank as f64 + 0.5; 100_000];
    let mut got = vec![0.0; mine.len()];
    group.send_recv(&mine, after, &mut got, before, SHIFT)?;
    assert!(got.iter().all(|value| *value == before as f64 + 0.5));

    let messages = group
        .flight_recorder()
        .iter()
        .filter(|record| record.signature.call.operation == Operation::SendRecv)
        .count();
    println!("rank {rank} got {:?} from rank {before} in {messages} exchange", got[0]);
    Ok(())
}
