//! How long one operation takes.
//!
//! Operations are timed in batches, as in nccl-tests: a barrier, then many calls between two looks
//! at the clock. A batch's time per operation is that of its slowest rank; a case's time is the
//! median of its batches. How many calls make a batch is found out first, and agreed by all ranks.

use std::time::{Duration, Instant};

use lycaon::{Group, Op};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    pub(super) warmup: u32,
    /// As many operations as this, or as fit into the time.
    pub(super) iterations: Option<u32>,
    pub(super) time: Duration,
}

/// Batches of a case; fewer if an operation takes very long.
const BATCHES: usize = 5;

/// No batch is longer than this.
const LONGEST_BATCH: f64 = 1e6;

/// The time of one operation, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timing {
    pub(super) median: f64,
    pub(super) fastest: f64,
    pub(super) slowest: f64,
    /// Operations timed.
    pub(super) iterations: u64,
}

/// Times `operation`, which all ranks of the group carry out together.
pub(super) fn measure(
    group: &Group,
    effort: &Effort,
    operation: &mut dyn FnMut() -> lycaon::Result<()>,
) -> lycaon::Result<Timing> {
    let mut batch = |count: u32| -> lycaon::Result<f64> {
        group.barrier()?;
        let start = Instant::now();
        for _ in 0..count {
            operation()?;
        }
        Ok(start.elapsed().as_secs_f64() / f64::from(count.max(1)))
    };
    let slowest = |mut times: Vec<f64>| -> lycaon::Result<Vec<f64>> {
        group.all_reduce(&mut times, Op::Max)?;
        Ok(times)
    };
    let warm = batch(effort.warmup)?;
    let (batches, count) = match effort.iterations {
        Some(iterations) => {
            let batches = BATCHES.min(iterations as usize);
            (batches, iterations.div_ceil(batches as u32))
        }
        None => {
            // The first look is cold and coarse; a second one on it is close enough.
            let first = if effort.warmup > 0 { warm } else { batch(1)? };
            let first = slowest(vec![first])?[0];
            let second = batch(fitting(effort.time.as_secs_f64() / 20.0, first))?;
            plan(effort.time.as_secs_f64(), slowest(vec![second])?[0])
        }
    };
    let mut times = Vec::with_capacity(batches);
    for _ in 0..batches {
        times.push(batch(count)?);
    }
    let mut times = slowest(times)?;
    times.sort_by(f64::total_cmp);
    Ok(Timing {
        median: times[times.len() / 2],
        fastest: times[0],
        slowest: times[times.len() - 1],
        iterations: batches as u64 * u64::from(count),
    })
}

/// How many operations of `each` seconds fit into `time`; at least one.
fn fitting(time: f64, each: f64) -> u32 {
    (time / each.max(1e-9)).clamp(1.0, LONGEST_BATCH) as u32
}

/// Batches and operations in each for about `time` seconds. Operations that are longer than that
/// are still done a few times, unless they are very long.
fn plan(time: f64, each: f64) -> (usize, u32) {
    let batches = (fitting(4.0 * time, each) as usize).min(BATCHES);
    (batches, fitting(time / batches as f64, each))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_kept_whatever_an_operation_takes() {
        for each in [0.0, 1e-9, 1e-6, 1e-4, 0.01, 0.1, 0.5, 3.0] {
            let (batches, count) = plan(0.2, each);
            assert!((1..=BATCHES).contains(&batches) && count >= 1);
            let whole = batches as f64 * f64::from(count) * each;
            assert!(whole <= each.max(0.8 + 1e-9), "{each}: {whole} s");
        }
        assert_eq!(plan(0.2, 1e-4), (5, 400));
        assert_eq!(plan(0.2, 0.1), (5, 1));
        assert_eq!(plan(0.2, 2.0), (1, 1));
    }

    #[test]
    fn the_slowest_rank_counts_and_all_do_the_same_number() {
        let groups = lycaon::in_process(2, &Default::default()).unwrap();
        let effort = Effort { warmup: 1, iterations: Some(7), time: Duration::from_secs(1) };
        let threads: Vec<_> = groups
            .into_iter()
            .map(|group| {
                std::thread::spawn(move || {
                    let mut calls = 0;
                    let pause = Duration::from_millis(4 * group.rank() as u64);
                    let timing = measure(&group, &effort, &mut || {
                        calls += 1;
                        std::thread::sleep(pause);
                        Ok(())
                    });
                    (timing.unwrap(), calls)
                })
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(results[0], results[1]);
        let (timing, calls) = results[0];
        assert_eq!((timing.iterations, calls), (10, 11));
        assert!(timing.fastest >= 0.004 && timing.fastest <= timing.median);
        assert!(timing.median <= timing.slowest);
    }
}
