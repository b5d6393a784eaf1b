//! `lycaon bench`: how fast the operations of a group are, and whether they are right.
//!
//! The columns and the definitions of size and bandwidth are those of nccl-tests, so that tables
//! can be put side by side; `docs/benchmarking.md` says what they mean.

mod case;
mod check;
mod data;
mod options;
mod rank;
mod report;
mod screen;
mod sizes;
mod timing;

pub(crate) use options::BenchOptions;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use crate::{Restart, ranks};

/// What may go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BenchError {
    /// The options contradict each other or the group.
    #[error("{0}")]
    Usage(String),
    /// The library.
    #[error(transparent)]
    Group(#[from] lycaon::Error),
    /// The results could not be written.
    #[error("cannot write {place}: {source}")]
    Output {
        /// Where to.
        place: String,
        source: io::Error,
    },
    /// The system refused what the benchmark needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        source: io::Error,
    },
}

impl BenchError {
    fn code(&self) -> u8 {
        match self {
            BenchError::Usage(_) => 2,
            BenchError::Group(_) | BenchError::Output { .. } | BenchError::System { .. } => 1,
        }
    }
}

/// Runs the benchmark to its end; gives the code to exit with. `arguments` are those of the
/// program, from `bench` on.
pub(crate) fn run(options: &BenchOptions, arguments: &[OsString], restart: &Restart) -> u8 {
    match attempt(options, arguments, restart) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "lycaon bench: {error}");
            error.code()
        }
    }
}

fn attempt(
    options: &BenchOptions,
    arguments: &[OsString],
    restart: &Restart,
) -> Result<u8, BenchError> {
    options.check()?;
    if ranks::is_rank().map_err(lycaon::Error::from)? {
        return rank::run(options);
    }
    let ranks = options.ranks.unwrap_or(2);
    options.check_for(ranks)?;
    if !io::stderr().is_terminal() {
        return Ok(ranks::start(ranks, arguments.to_vec(), restart));
    }
    // why: the ranks' output goes through the launcher, where a bar would tear the lines; so this
    // process draws it, and what rank 0 prints comes to it beside the launcher.
    let (screen, argument) = screen::Drawn::start()?;
    let mut arguments = arguments.to_vec();
    arguments.splice(1..1, argument);
    let code = ranks::start(ranks, arguments, restart);
    screen.finish();
    Ok(code)
}
