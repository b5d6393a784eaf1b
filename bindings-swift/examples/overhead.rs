//! What an `all_reduce` of 8 bytes costs from Rust; `lycaon-overhead` is the same in Swift.

use std::time::Instant;

use lycaon::{Op, Result};

const CALLS: u32 = 20_000;

fn main() -> Result<()> {
    let group = lycaon::init()?;
    let mut data = [1.0f64];
    // Several rounds, of which the best counts: the others were disturbed.
    let mut best = f64::INFINITY;
    for _ in 0..25 {
        group.barrier()?;
        let began = Instant::now();
        for _ in 0..CALLS {
            group.all_reduce(std::hint::black_box(&mut data), Op::Max)?;
        }
        best = best.min(began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
    if group.rank() == 0 {
        println!("{best:.1}");
    }
    Ok(())
}
