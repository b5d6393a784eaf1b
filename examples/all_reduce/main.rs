//! Every rank gives a vector; all get the sum, the maximum and the mean.

use lycaon::{Op, Result};

fn main() -> Result<()> {
    let group = lycaon::init()?;
    let mine: Vec<f32> = (0..4).map(|at| (at + 10 * group.rank()) as f32).collect();

    // In place: the result replaces the data.
    let mut sum = mine.clone();
    group.all_reduce(&mut sum, Op::Sum)?;

    // From one buffer into another.
    let mut largest = vec![0.0; mine.len()];
    group.all_reduce_into(&mine, &mut largest, Op::Max)?;

    let mut mean = mine.clone();
    group.all_reduce(&mut mean, Op::Avg)?;

    let (rank, size) = (group.rank(), group.size());
    println!("rank {rank} of {size}: sum {sum:?}, max {largest:?}, mean {mean:?}");
    Ok(())
}
