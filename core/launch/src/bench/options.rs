//! The options of `lycaon bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lycaon::{Algorithm, DType, Op, Operation};

use super::BenchError;
use super::sizes::{self, Step};
use crate::cli::{parse_links, parse_ranks};

/// The options of `lycaon bench`.
#[derive(Args, Debug)]
#[command(after_help = "\
Columns are those of nccl-tests: GB is 10^9 bytes, algbw = size / time, and busbw is algbw times the
share of the data that has to cross a link. Time is that of the slowest rank.

Started by a launcher (lycaon launch, mpirun, torchrun, srun) it is a rank of that group.
Exit code: 0, 1 for wrong data or a failure, 2 for a wrong command line

Examples:
  lycaon bench -n 4
  lycaon bench all -n 2 -b 1K -e 1M -f 32 -d bf16 --links tcp
  lycaon bench all_gather reduce_scatter -n 4 --sizes 64K,16M -J results.json
  lycaon launch -n 2 --no-tag-output -- lycaon bench")]
pub(crate) struct BenchOptions {
    /// What to measure; `all` for all operations
    #[arg(value_name = "OPERATION", value_parser = parse_operation, default_value = "all_reduce")]
    pub(super) operations: Vec<Operations>,

    /// How many ranks to start on this machine [default: 2]
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = parse_ranks)]
    pub(super) ranks: Option<usize>,

    /// The smallest size
    #[arg(short = 'b', long = "minbytes", value_name = "SIZE", default_value = "8", value_parser = sizes::parse_size)]
    pub(super) min: u64,

    /// The largest size
    #[arg(short = 'e', long = "maxbytes", value_name = "SIZE", default_value = "64M", value_parser = sizes::parse_size)]
    pub(super) max: u64,

    /// From one size to the next by this factor [default: 4]
    #[arg(short = 'f', long = "stepfactor", value_name = "FACTOR", value_parser = parse_factor, conflicts_with = "step_bytes")]
    pub(super) step_factor: Option<f64>,

    /// From one size to the next by this many bytes
    #[arg(short = 'i', long = "stepbytes", value_name = "SIZE", value_parser = parse_step)]
    pub(super) step_bytes: Option<u64>,

    /// These sizes, separated by commas, and no range
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = sizes::parse_size,
          conflicts_with_all = ["min", "max", "step_factor", "step_bytes"])]
    pub(super) sizes: Vec<u64>,

    /// Operations before the clock starts
    #[arg(short = 'w', long = "warmup", value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub(super) warmup: u32,

    /// Operations that are timed for each size [default: as many as fit into --seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000_000), conflicts_with = "seconds")]
    pub(super) iters: Option<u32>,

    /// How long each size is timed, about
    #[arg(long, value_name = "SECONDS", default_value = "0.2", value_parser = parse_budget)]
    pub(super) seconds: Duration,

    /// How often the data of each size is checked; 0 for not at all
    #[arg(short = 'c', long = "check", value_name = "N", default_value_t = 1)]
    pub(super) check: u32,

    /// The element type
    #[arg(short = 'd', long = "datatype", value_name = "TYPE", default_value = "f32", value_parser = parse_dtype)]
    pub(super) dtype: DType,

    /// The operator of reductions
    #[arg(short = 'o', long = "op", value_name = "OP", default_value = "sum", value_parser = parse_op)]
    pub(super) op: Op,

    /// The root of operations that have one
    #[arg(short = 'r', long = "root", value_name = "RANK", default_value_t = 0)]
    pub(super) root: usize,

    /// Write the results as JSON into this file; - for standard output, in place of the table
    #[arg(short = 'J', long = "json", value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// The links that may be used, as in LYCAON_LINKS (for example: shm,tcp)
    #[arg(long, value_name = "KINDS", value_parser = parse_links)]
    pub(super) links: Option<String>,

    /// One algorithm for all sizes: direct, two-step, ring, log or arena
    #[arg(long, value_name = "NAME", value_parser = parse_algorithm)]
    pub(super) algorithm: Option<Algorithm>,

    /// Keep each rank on a core of its own (Linux)
    #[arg(long)]
    pub(super) pin: bool,

    /// For tests of the check itself: this rank's result is made wrong
    #[arg(long, value_name = "RANK", hide = true)]
    pub(super) corrupt: Option<usize>,

    /// The descriptor of the process that draws the screen
    #[arg(long, value_name = "FD", hide = true)]
    pub(super) screen: Option<u32>,
}

/// One operation or all that can be measured.
#[derive(Clone, Debug)]
pub(super) enum Operations {
    One(Operation),
    All,
}

/// What can be measured, in the order in which `all` does.
pub(super) const MEASURED: [Operation; 11] = [
    Operation::AllReduce,
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::Broadcast,
    Operation::Reduce,
    Operation::Gather,
    Operation::Scatter,
    Operation::AllToAll,
    Operation::Scan,
    Operation::SendRecv,
    Operation::Barrier,
];

impl BenchOptions {
    /// The operations, each once.
    pub(super) fn operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for given in &self.operations {
            let these = match given {
                Operations::One(operation) => std::slice::from_ref(operation),
                Operations::All => &MEASURED,
            };
            for operation in these {
                if !operations.contains(operation) {
                    operations.push(*operation);
                }
            }
        }
        operations
    }

    /// The sizes asked for.
    pub(super) fn sizes(&self) -> Result<Vec<u64>, BenchError> {
        if !self.sizes.is_empty() {
            return Ok(self.sizes.clone());
        }
        let step = match self.step_bytes {
            Some(bytes) => Step::Bytes(bytes),
            None => Step::Factor(self.step_factor.unwrap_or(4.0)),
        };
        sizes::range(self.min, self.max, step).map_err(BenchError::Usage)
    }

    /// What can be found wrong before there is a group.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        self.sizes()?;
        if self.operations().iter().any(|operation| reduces(*operation)) {
            let usage = |error: lycaon::error::ArgumentError| BenchError::Usage(error.to_string());
            self.op.check(self.dtype).map_err(usage)?;
        }
        if self.pin && !cfg!(target_os = "linux") {
            return Err(BenchError::Usage("--pin: this system does not pin processes".to_owned()));
        }
        Ok(())
    }

    /// What can be found wrong as soon as the number of ranks is known.
    pub(super) fn check_for(&self, ranks: usize) -> Result<(), BenchError> {
        for (name, rank) in [("--root", Some(self.root)), ("--corrupt", self.corrupt)] {
            if let Some(rank) = rank.filter(|rank| *rank >= ranks) {
                let last = ranks - 1;
                let text = format!("{name} {rank}: the ranks are 0 to {last}");
                return Err(BenchError::Usage(text));
            }
        }
        let single = self.operations() == [Operation::SendRecv];
        if single && ranks == 1 {
            return Err(BenchError::Usage("send_recv needs two ranks".to_owned()));
        }
        match self.ranks {
            Some(wanted) if wanted != ranks => Err(BenchError::Usage(format!(
                "-n {wanted}, but the launcher started {ranks} ranks; leave -n to the launcher"
            ))),
            _ => Ok(()),
        }
    }
}

/// Whether an operation combines the data of ranks.
pub(super) const fn reduces(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::AllReduce | Operation::ReduceScatter | Operation::Reduce | Operation::Scan
    )
}

fn parse_operation(text: &str) -> Result<Operations, String> {
    if text == "all" {
        return Ok(Operations::All);
    }
    // why: people write all-reduce and allreduce as well.
    let bare = |name: &str| name.replace(['_', '-'], "");
    let found = MEASURED.iter().find(|operation| bare(operation.name()) == bare(text));
    found.copied().map(Operations::One).ok_or_else(|| {
        let names: Vec<_> = MEASURED.iter().map(|operation| operation.name()).collect();
        format!("there are {} and all", names.join(", "))
    })
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    // The names of nccl-tests.
    let name = match text {
        "int8" => "i8",
        "uint8" => "u8",
        "int32" => "i32",
        "uint32" => "u32",
        "int64" => "i64",
        "uint64" => "u64",
        "half" | "float16" => "f16",
        "bfloat16" => "bf16",
        "float" | "float32" => "f32",
        "double" | "float64" => "f64",
        other => other,
    };
    name.parse().map_err(|error: lycaon::error::ArgumentError| error.to_string())
}

fn parse_op(text: &str) -> Result<Op, String> {
    text.parse().map_err(|error: lycaon::error::ArgumentError| error.to_string())
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    text.parse().map_err(|error: lycaon::error::ConfigError| error.to_string())
}

fn parse_factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "expected a factor, such as 2".to_owned())?;
    if factor.is_finite() && factor > 1.0 { Ok(factor) } else { Err("must be above 1".into()) }
}

fn parse_step(text: &str) -> Result<u64, String> {
    match sizes::parse_size(text)? {
        0 => Err("the step must be above 0".into()),
        step => Ok(step),
    }
}

fn parse_budget(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds, such as 0.5".to_owned())?;
    if !(0.001..=3600.0).contains(&seconds) {
        return Err("expected 0.001 to 3600 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn bench(args: &[&str]) -> Result<BenchOptions, String> {
        match Cli::try_parse_from(["lycaon", "bench"].iter().chain(args)) {
            Ok(Cli { command: Command::Bench(options) }) => Ok(options),
            Ok(other) => panic!("parsed as {other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn operations_come_once_and_by_any_spelling() {
        let options = bench(&["allreduce", "all-gather", "all"]).unwrap();
        let operations = options.operations();
        assert_eq!(operations[..3], MEASURED[..3]);
        assert_eq!(operations.len(), MEASURED.len());
        assert_eq!(bench(&[]).unwrap().operations(), [Operation::AllReduce]);
    }

    #[test]
    fn flags_of_nccl_tests_mean_the_same() {
        let args = ["-b", "8", "-e", "128M", "-f", "2", "-w", "3", "-c", "0", "-d", "half"];
        let options = bench(&[&args[..], &["-o", "max", "-r", "1", "-J", "x"]].concat()).unwrap();
        let sizes = options.sizes().unwrap();
        assert_eq!((sizes.len(), sizes[24]), (25, 128 << 20));
        assert_eq!((options.warmup, options.check, options.root), (3, 0, 1));
        assert_eq!((options.dtype, options.op), (DType::F16, Op::Max));
        let options = bench(&["-b", "10", "-e", "40", "-i", "10"]).unwrap();
        assert_eq!(options.sizes().unwrap(), [10, 20, 30, 40]);
    }

    #[test]
    fn wrong_values_are_refused_with_advice() {
        for (args, advice) in [
            (vec!["allreduze"], "all_reduce"),
            (vec!["-b", "1X"], "64K"),
            (vec!["-f", "1"], "above 1"),
            (vec!["-i", "0"], "above 0"),
            (vec!["-f", "2", "-i", "2"], "cannot be used with"),
            (vec!["--sizes", "8", "-b", "4"], "cannot be used with"),
            (vec!["-d", "f33"], "bf16"),
            (vec!["-o", "add"], "sum"),
            (vec!["--algorithm", "magic"], "two-step"),
            (vec!["--links", "radio"], "tcp"),
            (vec!["--seconds", "0"], "0.001"),
            (vec!["--iters", "0"], "0"),
            (vec!["-n", "0"], "at least one"),
        ] {
            let message = bench(&args).expect_err(&format!("{args:?}"));
            assert!(message.contains(advice), "{args:?}: {message}");
        }
    }

    #[test]
    fn contradictions_are_found_before_anything_starts() {
        for (args, ranks, advice) in [
            (vec!["-b", "9", "-e", "8"], 2, "nothing is between"),
            (vec!["-o", "avg", "-d", "i32"], 2, "avg"),
            (vec!["-r", "2"], 2, "0 to 1"),
            (vec!["-n", "3"], 2, "started 2"),
            (vec!["send_recv"], 1, "two ranks"),
        ] {
            let options = bench(&args).unwrap();
            let result = options.check().and_then(|()| options.check_for(ranks));
            let message = result.expect_err(&format!("{args:?}")).to_string();
            assert!(message.contains(advice), "{args:?}: {message}");
        }
        let options = bench(&["all_gather", "-o", "avg", "-d", "i32"]).unwrap();
        assert!(options.check().is_ok(), "nothing is reduced");
    }
}
