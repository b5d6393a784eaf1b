//! Shared-memory all_reduce: microseconds per operation.
use lycaon::bench_support::arena::{Policy, Rank};
use std::time::{Duration, Instant};
fn main() {
    let e = |n: &str, d: usize| std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
    let size = e("N", 2);
    let policy = Policy {
        spins: e("SPINS", 1000) as u32,
        yields: e("YIELDS", 100) as u32,
        nap: Duration::from_millis(1),
        patience: Duration::from_secs(20),
    };
    let slot = e("SLOT", 256 << 10);
    let ranks = Rank::in_process(size, slot, policy);
    let threads: Vec<_> = ranks
        .into_iter()
        .enumerate()
        .map(|(r, mut rank)| {
            std::thread::spawn(move || {
                for (bytes, iters) in [
                    (8usize, 100000usize),
                    (1024, 20000),
                    (16384, 5000),
                    (1 << 20, 400),
                    (64 << 20, 8),
                ] {
                    let iters = (iters / e("DIV", 1).max(1)).max(2);
                    let mut input = vec![0u8; bytes];
                    for (i, c) in input.chunks_exact_mut(4).enumerate() {
                        c.copy_from_slice(&((r + i % 7) as f32).to_le_bytes());
                    }
                    let mut output = vec![1u8; bytes];
                    let mut t = vec![];
                    for _ in 0..7 {
                        rank.all_reduce(&[], &mut [0; 4]);
                        let t0 = Instant::now();
                        for _ in 0..iters {
                            rank.all_reduce(&input, &mut output);
                        }
                        t.push(t0.elapsed().as_secs_f64() * 1e6 / iters as f64);
                    }
                    for (i, c) in output.chunks_exact(4).enumerate() {
                        let want = (size * (i % 7) + size * (size - 1) / 2) as f32;
                        assert_eq!(
                            f32::from_le_bytes(c.try_into().unwrap()),
                            want,
                            "{bytes} at {i}"
                        );
                    }
                    t.sort_by(f64::total_cmp);
                    if r == 0 {
                        println!(
                            "{size} ranks {bytes} B: {:.2} us (min {:.2} max {:.2})",
                            t[3], t[0], t[6]
                        );
                    }
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
}
