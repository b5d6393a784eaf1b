//! What the ranks of the demo compute.

use std::time::Instant;

use lycaon::{Group, Op};

use super::DemoError;
use super::table::{Row, Table};
use super::training::{self, Shard, Weights};

/// Where the steps are played: the group, and the table that rank 0 prints.
pub(super) struct Stage<'a> {
    group: &'a Group,
    table: Table,
    over: String,
    began: Instant,
}

/// What one rank found in one step.
struct Found {
    /// Bytes of one rank.
    bytes: Option<u64>,
    seconds: f64,
    right: bool,
}

/// A number between -1 and 1 that looks like any other: the finaliser of `SplitMix64` (Steele, Lea,
/// Flood 2014).
pub(super) fn noise(place: usize) -> f64 {
    let value = (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((value ^ (value >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A reading of a sensor of a rank: the course of a day, and noise.
fn reading(rank: usize, at: usize) -> f32 {
    let day = (at % 1440) as f32 / 1440.0;
    15.0 + rank as f32 + 20.0 * day * (1.0 - day) + noise(rank * 7_919 + at) as f32
}

fn near(is: f64, should: f64, tolerance: f64) -> bool {
    (is - should).abs() <= tolerance * should.abs().max(1.0)
}

/// Times what the ranks do together, from a moment when all are there.
fn timed<T>(group: &Group, work: impl FnOnce() -> lycaon::Result<T>) -> lycaon::Result<(T, f64)> {
    group.barrier()?;
    let start = Instant::now();
    let result = work()?;
    Ok((result, start.elapsed().as_secs_f64()))
}

/// Whether all ranks have the same bytes, to the last bit.
fn alike(group: &Group, numbers: &[f32]) -> lycaon::Result<bool> {
    let hash = numbers.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, number| {
        (hash ^ u64::from(number.to_bits())).wrapping_mul(0x0100_0000_01b3)
    });
    let mut all = vec![0; group.size()];
    group.all_gather(&[hash], &mut all)?;
    Ok(all.iter().all(|other| *other == hash))
}

impl<'a> Stage<'a> {
    pub(super) fn new(group: &'a Group, table: Table) -> Result<Self, DemoError> {
        Ok(Stage { group, table, over: kinds(group), began: Instant::now() })
    }

    pub(super) fn title(&self) -> Result<(), DemoError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (ranks, version, over) = (self.group.size(), lycaon::VERSION, &self.over);
        let cores = format!("{cores} core{}", if cores == 1 { "" } else { "s" });
        let text = format!("lycaon {version}: {ranks} ranks on {cores}, joined by {over}");
        self.table.line("")?;
        self.table.heading(&format!("  {text}"))?;
        self.table.line("")?;
        Ok(self.table.columns()?)
    }

    /// Puts together what all ranks found, and shows it.
    fn show(&mut self, operation: &str, what: &str, found: &Found) -> Result<(), DemoError> {
        let over = self.over.clone();
        self.show_over(operation, what, &over, found)
    }

    fn show_over(
        &mut self,
        operation: &str,
        what: &str,
        over: &str,
        found: &Found,
    ) -> Result<(), DemoError> {
        let mut all = [found.seconds, f64::from(u8::from(!found.right))];
        self.group.all_reduce(&mut all, Op::Max)?;
        let [seconds, wrong] = all;
        let (bytes, right) = (found.bytes, wrong == 0.0);
        Ok(self.table.row(&Row { operation, what, over, bytes, seconds, right })?)
    }

    pub(super) fn sum_of_readings(&mut self, corrupt: bool) -> Result<(), DemoError> {
        const COUNT: usize = 1 << 20;
        let (group, ranks) = (self.group, self.group.size());
        let mut data: Vec<f32> = (0..COUNT).map(|at| reading(group.rank(), at)).collect();
        let ((), seconds) = timed(group, || group.all_reduce(&mut data, Op::Avg))?;
        if corrupt {
            data[COUNT / 3] += 1.0;
        }
        let expected = |at| (0..ranks).map(|rank| f64::from(reading(rank, at))).sum::<f64>();
        let right = (0..COUNT)
            .step_by(7)
            .chain([COUNT / 3])
            .all(|at| near(data[at].into(), expected(at) / ranks as f64, 1e-5));
        let right = alike(group, &data)? && right;
        let found = Found { bytes: Some(4 * COUNT as u64), seconds, right };
        self.show("all_reduce", "mean of sensor readings, f32", &found)
    }

    pub(super) fn sum_of_gradients(&mut self) -> Result<(), DemoError> {
        const COUNT: usize = 1 << 20;
        let (group, ranks) = (self.group, self.group.size());
        let value = |rank: usize, at: usize| half::bf16::from_f64(noise(rank + at * ranks) / 64.0);
        let mut data: Vec<_> = (0..COUNT).map(|at| value(group.rank(), at)).collect();
        let ((), seconds) = timed(group, || group.all_reduce(&mut data, Op::Sum))?;
        // Each of up to `ranks` roundings costs half of the last of 8 bits.
        let right = (0..COUNT).step_by(5).all(|at| {
            let parts = (0..ranks).map(|rank| value(rank, at).to_f64());
            let (sum, size) = parts.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
            (data[at].to_f64() - sum).abs() <= ranks as f64 * size / 512.0
        });
        let found = Found { bytes: Some(2 * COUNT as u64), seconds, right };
        self.show("all_reduce", "sum of gradients, bf16", &found)
    }

    pub(super) fn histograms(&mut self) -> Result<(), DemoError> {
        const BINS: usize = 4096;
        let (group, ranks) = (self.group, self.group.size());
        let bins = |rank: usize| {
            let mut bins = vec![0u32; BINS];
            for at in 0..20_000 {
                bins[(reading(rank, at) * 100.0) as usize % BINS] += 1;
            }
            bins
        };
        let own = bins(group.rank());
        let mut all = vec![0; BINS * ranks];
        let ((), seconds) = timed(group, || group.all_gather(&own, &mut all))?;
        let right = (0..ranks).all(|rank| all[rank * BINS..][..BINS] == bins(rank));
        let found = Found { bytes: Some(4 * BINS as u64), seconds, right };
        self.show("all_gather", "the histogram of every rank, u32", &found)
    }

    pub(super) fn parts_of_a_sum(&mut self) -> Result<(), DemoError> {
        const PART: usize = 1 << 16;
        let (group, ranks, rank) = (self.group, self.group.size(), self.group.rank());
        let value = |rank: usize, at: usize| (at as i64 % 1009) * (rank as i64 + 1);
        let data: Vec<i64> = (0..PART * ranks).map(|at| value(rank, at)).collect();
        let mut part = vec![0; PART];
        let ((), seconds) = timed(group, || group.reduce_scatter(&data, &mut part, Op::Sum))?;
        let expected = |at| (0..ranks).map(|rank| value(rank, at)).sum::<i64>();
        let right = part.iter().enumerate().all(|(at, sum)| *sum == expected(rank * PART + at));
        let found = Found { bytes: Some(8 * (PART * ranks) as u64), seconds, right };
        self.show("reduce_scatter", "each rank its part of a sum, i64", &found)
    }

    pub(super) fn first_rows(&mut self) -> Result<(), DemoError> {
        let (group, rank) = (self.group, self.group.rank());
        let rows = |rank: usize| 1000 + 37 * rank as u64 % 101;
        let mut first = [rows(rank)];
        let ((), seconds) = timed(group, || group.scan(&mut first, Op::Sum))?;
        let right = first[0] == (0..=rank).map(rows).sum::<u64>();
        let found = Found { bytes: Some(8), seconds, right };
        self.show("scan", "where the rows of each rank end", &found)
    }

    pub(super) fn transposed_matrix(&mut self) -> Result<(), DemoError> {
        // Rank r has rows r·SIDE to (r+1)·SIDE of a square matrix, block by block.
        const SIDE: usize = 128;
        let (group, ranks, rank) = (self.group, self.group.size(), self.group.rank());
        let element = |row: usize, column: usize| (row * SIDE * ranks + column) as f64;
        let block = SIDE * SIDE;
        let rows: Vec<f64> = (0..ranks * block)
            .map(|at| {
                let (other, row, column) = (at / block, at % block / SIDE, at % SIDE);
                element(rank * SIDE + row, other * SIDE + column)
            })
            .collect();
        let mut columns = vec![0.0; ranks * block];
        let ((), seconds) = timed(group, || group.all_to_all(&rows, &mut columns))?;
        let right = columns.iter().enumerate().all(|(at, value)| {
            let (other, row, column) = (at / block, at % block / SIDE, at % SIDE);
            *value == element(other * SIDE + row, rank * SIDE + column)
        });
        let found = Found { bytes: Some(8 * (ranks * block) as u64), seconds, right };
        self.show("all_to_all", "a matrix transposed, f64", &found)
    }

    pub(super) fn ring(&mut self) -> Result<(), DemoError> {
        const COUNT: usize = 1 << 14;
        let (group, ranks, rank) = (self.group, self.group.size(), self.group.rank());
        let own: Vec<f32> = (0..COUNT).map(|at| reading(rank, at)).collect();
        let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let (mut held, mut passed) = (own.clone(), vec![0.0; COUNT]);
        let mut right = true;
        let ((), seconds) = timed(group, || {
            for step in 1..=ranks {
                group.send_recv(&held, next, &mut passed, before, 7)?;
                std::mem::swap(&mut held, &mut passed);
                let from = (rank + ranks - step % ranks) % ranks;
                right &= held[COUNT - 1] == reading(from, COUNT - 1);
            }
            Ok(())
        })?;
        right &= held == own;
        let found = Found { bytes: Some(4 * COUNT as u64), seconds, right };
        self.show("send_recv", "once around the ring, back home", &found)
    }

    pub(super) fn halves(&mut self) -> Result<(), DemoError> {
        let (group, rank) = (self.group, self.group.rank());
        let mut sum = [rank as u64];
        let ((), seconds) = timed(group, || {
            let half = group.split((rank % 2) as u32, 0)?;
            half.all_reduce(&mut sum, Op::Sum)
        })?;
        let right = sum[0] == (rank % 2..group.size()).step_by(2).sum::<usize>() as u64;
        let found = Found { bytes: Some(8), seconds, right };
        self.show("split", "odd and even ranks on their own", &found)
    }

    pub(super) fn overlap(&mut self) -> Result<(), DemoError> {
        const COUNT: usize = 1 << 20;
        let (group, ranks) = (self.group, self.group.size());
        let data: Vec<f32> = (0..COUNT).map(|at| (at % 251 + group.rank()) as f32).collect();
        let ((sum, own), seconds) = timed(group, || {
            let work = group.all_reduce_async(data, Op::Sum)?;
            // This is what a backward pass would do meanwhile.
            let own: f64 = (0..100_000).map(|at| noise(at).abs()).sum();
            Ok((work.wait()?, own))
        })?;
        let expected = |at: usize| (at % 251 * ranks + ranks * (ranks - 1) / 2) as f32;
        let right = sum.iter().enumerate().all(|(at, sum)| *sum == expected(at));
        let right = right && near(own, 50_000.0, 0.02);
        let found = Found { bytes: Some(4 * COUNT as u64), seconds, right };
        self.show("all_reduce async", "a sum while the rank computes", &found)
    }

    pub(super) fn over_tcp(&mut self, tcp: &Group) -> Result<(), DemoError> {
        const COUNT: usize = 1 << 18;
        let ranks = tcp.size();
        let mut data: Vec<i32> = (0..COUNT).map(|at| (at * (tcp.rank() + 1)) as i32).collect();
        let ((), seconds) = timed(tcp, || tcp.all_reduce(&mut data, Op::Sum))?;
        let times = ranks * (ranks + 1) / 2;
        let right = data.iter().enumerate().all(|(at, sum)| *sum == (at * times) as i32);
        let found = Found { bytes: Some(4 * COUNT as u64), seconds, right };
        self.show_over("all_reduce", "as between machines, i32", &kinds(tcp), &found)
    }

    pub(super) fn training(&mut self) -> Result<(), DemoError> {
        let (group, ranks) = (self.group, self.group.size());
        let shard = Shard::of(group.rank());
        let ((weights, losses), seconds) = timed(group, || {
            training::descend(|weights: &Weights| {
                let (loss, gradient) = shard.gradient(weights);
                let mut sums = [loss].to_vec();
                sums.extend(gradient);
                group.all_reduce(&mut sums, Op::Avg)?;
                let mut mean = *weights;
                mean.copy_from_slice(&sums[1..]);
                Ok::<_, lycaon::Error>((sums[0], mean))
            })
        })?;
        let alone = training::alone(ranks);
        let same = weights.iter().zip(&alone).all(|(is, should)| near(*is, *should, 1e-9));
        let (first, last) = (losses[0], losses[training::STEPS - 1]);
        let right = same && last < first / 100.0;
        let found = Found { bytes: None, seconds, right };
        let what = format!("loss {first:.2} to {last:.4} in {} steps", training::STEPS);
        self.show("gradient descent", &what, &found)
    }

    /// A mistake in a group made for it; the group of the demo is none the worse.
    pub(super) fn mismatch(&mut self) -> Result<(), DemoError> {
        let (group, rank) = (self.group, self.group.rank());
        let throw_away = group.split(0, 0)?;
        let (result, seconds) = timed(group, || {
            let mut data = [1.0f32; 4];
            Ok(if rank == 0 {
                throw_away.all_reduce(&mut data, Op::Sum)
            } else {
                let mut all = vec![0.0; 4 * group.size()];
                throw_away.all_gather(&data, &mut all)
            })
        })?;
        let text = match &result {
            Ok(()) => "no error".to_owned(),
            Err(error) => error.to_string(),
        };
        let named = ["all_reduce", "all_gather", "rank 0"].iter().all(|name| text.contains(name));
        let right = result.is_err() && named && throw_away.failure().is_some();
        let found = Found { bytes: None, seconds, right };
        self.show("a mistake", "ranks call different things: error", &found)?;
        self.table.line("")?;
        self.table.aside("    This is what rank 0 is told then, and every other rank as well:")?;
        Ok(self.table.quote(&text)?)
    }

    /// The last words; tells whether everything was right.
    pub(super) fn end(self) -> Result<bool, DemoError> {
        let (rows, wrong, ranks) = (self.table.rows, self.table.wrong, self.group.size());
        let took = self.began.elapsed().as_secs_f64();
        self.table.line("")?;
        if wrong == 0 {
            let text = format!("All {rows} results are right on all {ranks} ranks. {took:.1} s.");
            self.table.heading(&format!("  {text}"))?;
        } else {
            self.table.heading(&format!("  {wrong} of {rows} results are WRONG."))?;
        }
        self.table.line(&format!(
            "  Next: README.md, lycaon bench -n {ranks}, lycaon launch -n {ranks} -- YOUR_PROGRAM"
        ))?;
        Ok(wrong == 0)
    }
}

/// The kinds of link of this rank.
fn kinds(group: &Group) -> String {
    let mut names: Vec<_> = group.links().iter().map(|link| link.kind.name()).collect();
    names.sort_unstable();
    names.dedup();
    names.join("+")
}
