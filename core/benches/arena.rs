//! all_reduce through shared memory: microseconds per operation, with ranks that are processes.
//!
//! `cargo bench --bench arena -- [RANKS…]`. How waits pass their time can be set with
//! `LYCAON_BENCH_SPINS`, `LYCAON_BENCH_YIELDS` and `LYCAON_BENCH_NAP_US`.

use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use lycaon::bench_support::arena::{Policy, Rank, offer};

const ROLE: &str = "LYCAON_BENCH_RANK";
const REPEATS: usize = 9;

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        let (offer, size, rank): (String, usize, usize) =
            serde_json::from_str(&role).expect("written by the parent");
        return measure(&offer, size, rank);
    }
    let given: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    memcpy(1);
    memcpy(2);
    println!(
        "{:>6} {:>10} {:>12} {:>12} {:>12}",
        "ranks", "bytes", "median µs", "least µs", "most µs"
    );
    for size in if given.is_empty() { vec![2, 4, 8] } else { given } {
        let offer = offer();
        let program = std::env::current_exe().expect("this program's path");
        let children: Vec<_> = (0..size)
            .map(|rank| {
                let role = serde_json::to_string(&(&offer, size, rank)).expect("plain data");
                Command::new(&program).env(ROLE, role).spawn().expect("starting a rank")
            })
            .collect();
        for mut child in children {
            assert!(child.wait().expect("waiting for a rank").success(), "a rank failed");
        }
    }
}

fn setting(name: &str, default: u32) -> u32 {
    let text = std::env::var(format!("LYCAON_BENCH_{name}"));
    text.map_or(default, |text| text.parse().expect("a number"))
}

fn measure(offer: &str, size: usize, rank: usize) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let spins = if size <= cores { 1000 } else { 0 };
    let policy = Policy {
        spins: setting("SPINS", spins),
        yields: setting("YIELDS", 100),
        nap: Duration::from_micros(setting("NAP_US", 1000).into()),
        patience: Duration::from_secs(60),
    };
    let mut ranks = Rank::join(offer, size, rank, policy);
    let crowd = size.div_ceil(cores);
    let only = setting("ONLY", 0) as usize;
    for (bytes, rounds) in [
        (8, 50_000),
        (1 << 10, 20_000),
        (16 << 10, 5_000),
        (128 << 10, 1_000),
        (1 << 20, 200),
        (64 << 20, 3),
    ] {
        if only > 0 && bytes != only {
            continue;
        }
        let rounds = (rounds / (crowd * crowd)).max(2);
        let value = |rank: usize, at: usize| (rank * 3 + at % 11) as f32;
        let input: Vec<u8> = (0..bytes / 4).flat_map(|at| value(rank, at).to_ne_bytes()).collect();
        let mut output = vec![0xff; bytes];
        let mut times: Vec<f64> = (0..REPEATS)
            .map(|_| {
                ranks.all_reduce(&[], &mut [0; 4]);
                let start = Instant::now();
                for _ in 0..rounds {
                    ranks.all_reduce(&input, &mut output);
                }
                start.elapsed().as_secs_f64() * 1e6 / rounds as f64
            })
            .collect();
        for (at, bytes) in output.chunks_exact(4).enumerate() {
            let expected: f32 = (0..size).map(|rank| value(rank, at)).sum();
            assert_eq!(bytes, expected.to_ne_bytes(), "element {at}");
        }
        times.sort_by(f64::total_cmp);
        if rank == 0 {
            let (median, least, most) = (times[REPEATS / 2], times[0], times[REPEATS - 1]);
            println!("{size:>6} {bytes:>10} {median:>12.2} {least:>12.2} {most:>12.2}");
        }
    }
}

/// What the memory does: copies of 64 MiB on several threads at once.
fn memcpy(threads: usize) {
    let bytes = 64 << 20;
    let barrier = Barrier::new(threads);
    let copy = || {
        let from = vec![1u8; bytes];
        let mut into = vec![2u8; bytes];
        let mut times: Vec<f64> = (0..REPEATS)
            .map(|_| {
                barrier.wait();
                let start = Instant::now();
                into.copy_from_slice(std::hint::black_box(&from));
                std::hint::black_box(&into);
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[REPEATS / 2]
    };
    let slowest = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(copy)).collect();
        all.into_iter().map(|one| one.join().expect("a copy")).fold(0.0, f64::max)
    });
    println!("memcpy of 64 MiB on {threads} threads at once: {slowest:.0} µs");
}
