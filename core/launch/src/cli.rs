//! The command line.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::bench::BenchOptions;
use crate::demo::DemoOptions;
use crate::tune::TuneOptions;

/// Collective communication for clusters of Macs and Linux machines.
#[derive(Debug, Parser)]
#[command(name = "lycaon", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a program several times on this machine as one group
    ///
    /// Each copy is a rank of the group, which it joins with `lycaon::init()`. When one fails, the
    /// others are ended, and so is everything they have started.
    Launch(LaunchOptions),
    /// Measure the operations of a group, and check their results
    Bench(BenchOptions),
    /// Show what a group of ranks on this machine computes
    Demo(DemoOptions),
    /// Measure the links of a group, and show which algorithms follow from that
    Tune(TuneOptions),
    /// The process that holds the ranks of one job; started by `launch` only
    #[command(name = "__guardian", hide = true)]
    Guardian,
    /// Print the versions of the program, the library and the wire protocol
    Version,
}

/// The options of `lycaon launch`.
#[derive(Args, Debug)]
#[command(after_help = "Exit code:
  that of the first rank that failed (128 + number for a signal), or
  124 after --timeout, 125 if the launcher itself fails,
  126 if CMD cannot be run, 127 if it is not found, 130 after Ctrl-C

Examples:
  lycaon launch -n 4 -- python3 train.py --epochs 3
  lycaon launch -n 2 --env LYCAON_TIMEOUT=5 --timeout 60 -- ./solver input.json
  generate | lycaon launch -n 3 --stdin all -- ./consume")]
pub(crate) struct LaunchOptions {
    /// How many ranks to start
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = parse_ranks)]
    pub(crate) ranks: usize,

    /// Set a variable for every rank; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = OsStringValueParser::new().try_map(parse_env))]
    pub(crate) env: Vec<(OsString, OsString)>,

    /// Run the ranks in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// End the job after this time, with code 124
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) timeout: Option<Duration>,

    /// Begin every line of output with its rank; the default with more than one rank
    #[arg(long, action = ArgAction::SetTrue, overrides_with = "no_tag_output")]
    pub(crate) tag_output: bool,

    /// Pass lines of output on as they are
    #[arg(long, action = ArgAction::SetTrue, overrides_with = "tag_output")]
    pub(crate) no_tag_output: bool,

    /// Who receives the launcher's standard input
    #[arg(long, value_enum, default_value_t = StdinMode::First)]
    pub(crate) stdin: StdinMode,

    /// The links that may be used, as in LYCAON_LINKS (for example: shm,tcp)
    #[arg(long, value_name = "KINDS", value_parser = parse_links)]
    pub(crate) links: Option<String>,

    /// After a failure, how long the other ranks may go on to report it, and then how long they
    /// may take to end on SIGTERM
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    pub(crate) grace: Duration,

    /// Say what is started with which variables, and how it ended
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The program and its arguments
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) command: Vec<OsString>,
}

impl LaunchOptions {
    /// Whether lines of output begin with their rank.
    pub(crate) fn tags(&self) -> bool {
        self.tag_output || (self.ranks > 1 && !self.no_tag_output)
    }
}

/// Who receives the launcher's standard input.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
pub(crate) enum StdinMode {
    /// Rank 0; the others read the end of the file at once
    #[value(name = "0")]
    First,
    /// Every rank receives all of it
    All,
    /// Nobody
    None,
}

/// More ranks than this is taken for a slip of the finger: it is beyond what one host's process
/// table and descriptors hold by default.
const MOST_RANKS: usize = 4096;

/// What the launcher itself sets, differently for every rank or every job.
pub(crate) const OWN_VARIABLES: [&str; 7] = [
    "LYCAON_RANK",
    "LYCAON_SIZE",
    "LYCAON_LOCAL_RANK",
    "LYCAON_LOCAL_SIZE",
    "LYCAON_RENDEZVOUS",
    "LYCAON_TOKEN",
    "LYCAON_JOB",
];

pub(crate) fn parse_ranks(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("a group has at least one rank".into()),
        Ok(ranks) if ranks > MOST_RANKS => Err(format!("at most {MOST_RANKS} ranks on one host")),
        Ok(ranks) => Ok(ranks),
        Err(_) => Err("expected a whole number, such as 4".into()),
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let advice = "expected seconds, such as 30 or 0.5";
    let seconds: f64 = text.parse().map_err(|_| advice.to_owned())?;
    // why: a century is beyond any job and within what clocks can add.
    if !(0.0..=3.2e9).contains(&seconds) {
        return Err(advice.into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn parse_env(text: OsString) -> Result<(OsString, OsString), String> {
    let bytes = text.as_bytes();
    let Some(at) = bytes.iter().position(|&byte| byte == b'=').filter(|&at| at > 0) else {
        return Err("expected KEY=VALUE".into());
    };
    let key = OsString::from_vec(bytes[..at].to_vec());
    if let Some(own) = OWN_VARIABLES.iter().find(|own| key == **own) {
        return Err(format!("{own} is set by the launcher itself, for each rank"));
    }
    Ok((key, OsString::from_vec(bytes[at + 1..].to_vec())))
}

/// Refuses unknown names here, where one message says it, and not in every rank.
pub(crate) fn parse_links(text: &str) -> Result<String, String> {
    const KNOWN: [&str; 3] = ["shm", "rdma", "tcp"];
    for name in text.split(',') {
        if !KNOWN.contains(&name.trim()) {
            return Err(format!("'{name}' is no kind of link; there are {}", KNOWN.join(", ")));
        }
    }
    Ok(text.split(',').map(str::trim).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn launch(args: &[&str]) -> Result<LaunchOptions, String> {
        let args = ["lycaon", "launch"].iter().chain(args);
        match Cli::try_parse_from(args) {
            Ok(Cli { command: Command::Launch(options) }) => Ok(options),
            Ok(other) => panic!("parsed as {other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_command_keeps_its_own_flags() {
        let options = launch(&["-n", "2", "--", "sh", "-c", "x", "--timeout", "3"]).unwrap();
        assert_eq!(options.command, ["sh", "-c", "x", "--timeout", "3"]);
        assert_eq!(options.timeout, None);
        let options = launch(&["-n", "2", "sh", "-n", "9", "--verbose"]).unwrap();
        assert_eq!((options.ranks, options.verbose), (2, false));
        assert_eq!(options.command, ["sh", "-n", "9", "--verbose"]);
    }

    #[test]
    fn tags_are_the_default_for_several_ranks_and_the_last_flag_wins() {
        assert!(launch(&["-n", "2", "x"]).unwrap().tags());
        assert!(!launch(&["-n", "1", "x"]).unwrap().tags());
        assert!(launch(&["-n", "1", "--tag-output", "x"]).unwrap().tags());
        assert!(!launch(&["-n", "2", "--no-tag-output", "x"]).unwrap().tags());
        assert!(launch(&["-n", "2", "--no-tag-output", "--tag-output", "x"]).unwrap().tags());
        assert!(!launch(&["-n", "2", "--tag-output", "--no-tag-output", "x"]).unwrap().tags());
    }

    #[test]
    fn wrong_values_are_refused_with_advice() {
        for (args, advice) in [
            (vec!["-n", "0", "x"], "at least one rank"),
            (vec!["-n", "two", "x"], "whole number"),
            (vec!["-n", "-1", "x"], "-1"),
            (vec!["-n", "5000000", "x"], "4096"),
            (vec!["-n", "1", "--timeout", "nan", "x"], "such as 30"),
            (vec!["-n", "1", "--grace", "-2", "x"], "-2"),
            (vec!["-n", "1", "--env", "A", "x"], "KEY=VALUE"),
            (vec!["-n", "1", "--env", "=A", "x"], "KEY=VALUE"),
            (vec!["-n", "1", "--env", "LYCAON_RANK=3", "x"], "LYCAON_RANK is set by"),
            (vec!["-n", "1", "--links", "shm,telepathy", "x"], "telepathy"),
            (vec!["-n", "1"], "CMD"),
            (vec!["x"], "--ranks"),
        ] {
            let message = launch(&args).expect_err(&format!("{args:?}"));
            assert!(message.contains(advice), "{args:?}: {message}");
        }
    }

    #[test]
    fn values_of_variables_are_kept_whole() {
        let options = launch(&["-n", "1", "--env", "A=b=c\n$(d)", "--env", "E=", "x"]).unwrap();
        let pair = |key: &str, value: &str| (OsString::from(key), OsString::from(value));
        assert_eq!(options.env, [pair("A", "b=c\n$(d)"), pair("E", "")]);
    }
}
