//! Reduces the gradients of each layer in the background while the next layer is computed.

use lycaon::{Op, Result};

const LAYERS: usize = 6;
const WEIGHTS: usize = 50_000;

/// Stands for the backward pass of one layer.
fn gradient(rank: usize, layer: usize) -> Vec<f32> {
    (0..WEIGHTS).map(|at| ((at + layer) % 97) as f32 + rank as f32).collect()
}

fn main() -> Result<()> {
    let group = lycaon::init()?;
    let (rank, size) = (group.rank(), group.size());

    // An operation in the background owns its data until `wait` gives it back.
    let mut pending = Vec::new();
    for layer in (0..LAYERS).rev() {
        pending.push((layer, group.all_reduce_async(gradient(rank, layer), Op::Sum)?));
    }
    let started = pending.len();

    for (layer, work) in pending {
        let sum = work.wait()?;
        let ranks: usize = (0..size).sum();
        for (at, value) in sum.iter().enumerate() {
            assert_eq!(*value, (size * ((at + layer) % 97) + ranks) as f32);
        }
    }
    println!("rank {rank}: {started} layers of {WEIGHTS} gradients reduced in the background");
    Ok(())
}
