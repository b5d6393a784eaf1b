//! `lycaon launch`: one job, several ranks, this host.
//!
//! Two processes take part. The *launcher* is what the user started: it passes on output, input and
//! signals, and decides when the job ends. The *guardian* is the parent of the ranks; it starts and
//! ends them, and survives the launcher long enough to leave nothing behind.

mod attend;
mod environment;
mod folder;
mod guardian;
mod input;
mod launcher;
mod limits;
mod lines;
mod outcome;
mod processes;
mod signals;
mod start;
mod wire;
mod writer;

pub(crate) use guardian::guard;

use std::io::{self, Write};

use crate::Restart;
use crate::cli::LaunchOptions;

/// Runs a job to its end; gives the code to exit with.
pub(crate) fn launch(options: LaunchOptions, restart: &Restart) -> u8 {
    match launcher::run(options, restart) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "lycaon: {error}");
            error.code()
        }
    }
}
