use lycaon::{Op, Result};
use std::time::Instant;

fn main() -> Result<()> {
    let group = lycaon::init()?;
    if group.rank() == 0 {
        for link in group.links() {
            eprintln!("{link:?}");
        }
    }
    for count in [2usize, 4096, 16384, 262_144, 16 << 20] {
        let mut data = vec![1.0f32; count];
        group.barrier()?;
        let n = (200_000_000 / (count * 4 + 20_000)).clamp(3, 20000);
        for _ in 0..n / 10 + 1 {
            group.all_reduce(&mut data, Op::Max)?;
        }
        let t = Instant::now();
        for _ in 0..n {
            group.all_reduce(&mut data, Op::Sum)?;
            data[0] = 1.0;
        }
        if group.rank() == 0 {
            println!(
                "{} B: {:.2} us by {}",
                count * 4,
                t.elapsed().as_secs_f64() * 1e6 / n as f64,
                group.algorithm(lycaon::Operation::AllReduce, count as u64 * 4)
            );
        }
    }
    Ok(())
}
