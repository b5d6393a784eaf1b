//! A rank of a group whose ranks are written in different languages; see README.md.

use lycaon::{Group, Op, Result};

/// What a rank has at a place. Divided by 7, so that the order of a sum shows in its bits.
fn value(rank: usize, at: usize) -> f32 {
    ((at * 37 + rank * 101) % 1009) as f32 / 7.0
}

fn values(rank: usize, count: usize) -> Vec<f32> {
    (0..count).map(|at| value(rank, at)).collect()
}

/// FNV-1a.
fn checksum(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn bits(values: &[f32]) -> u64 {
    checksum(values.iter().flat_map(|value| value.to_le_bytes()))
}

fn ring(group: &Group) -> Result<u64> {
    let (rank, size) = (group.rank(), group.size());
    let (after, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut sum = values(rank, 1000);
    let mut got = [0.0; 1000];
    group.send_recv(&sum, after, &mut got, before, 1)?;
    for (sum, got) in sum.iter_mut().zip(got) {
        *sum += got;
    }
    let mut all = vec![0.0; 1000 * size + 4];
    group.all_gather(&sum, &mut all[..1000 * size])?;

    let mut baton = [0.0; 4];
    if rank > 0 {
        group.recv(&mut baton, before, 2)?;
    }
    for (at, number) in baton.iter_mut().enumerate() {
        *number += value(rank, at);
    }
    group.send(&baton, after, 2)?;
    if rank == 0 {
        group.recv(&mut baton, before, 2)?;
    }
    group.broadcast(&mut baton, 0)?;
    all[1000 * size..].copy_from_slice(&baton);
    Ok(bits(&all))
}

fn split(group: &Group) -> Result<u64> {
    let part = group.split(group.rank() as u32 % 2, -(group.rank() as i64))?;
    let mut sum = values(group.rank(), 100);
    part.all_reduce(&mut sum, Op::Sum)?;
    sum.extend([part.rank() as f32, part.size() as f32]);
    let mut all = vec![0.0; 102 * group.size()];
    group.all_gather(&sum, &mut all)?;
    Ok(bits(&all))
}

fn main() -> Result<()> {
    let group = lycaon::init()?;
    let rank = group.rank();

    let mut sum = values(rank, 5000);
    group.all_reduce(&mut sum, Op::Sum)?;

    let mine: Vec<f64> = (0..3).map(|at| f64::from(value(rank, at)) / 3.0).collect();
    let mut all = vec![0.0; 3 * group.size()];
    group.all_gather(&mine, &mut all)?;
    let gathered = checksum(all.iter().flat_map(|value| value.to_le_bytes()));

    println!(
        "rank {rank} Rust all_reduce {:016x} all_gather {gathered:016x} ring {:016x} split {:016x}",
        bits(&sum),
        ring(&group)?,
        split(&group)?
    );
    Ok(())
}
