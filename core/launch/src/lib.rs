//! The program `lycaon`, as a library, so that other faces (a Python wheel, for one) can offer the
//! same command.
//!
//! [`main`] never ends the process it runs in: it returns the exit code.

#[cfg(not(unix))]
compile_error!("lycaon runs on macOS and Linux");

mod bench;
mod cli;
mod demo;
mod job;
mod log;
mod ranks;
mod sys;
mod tune;
mod version;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

pub use log::log_to_stderr;

/// How this program is started once more.
///
/// `lycaon launch` runs the ranks under a second process, which survives the launcher and cleans up
/// after it. A face whose executable is not `lycaon` itself says here what starts it: a Python
/// wheel gives its interpreter and `-m lycaon`.
#[derive(Clone, Debug)]
pub struct Restart {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Restart {
    /// The running executable, for programs whose `main` calls [`main`] with its own arguments.
    pub fn this_executable() -> std::io::Result<Self> {
        // why: the link still leads to the program after its file was replaced or removed.
        if cfg!(target_os = "linux") {
            return Ok(Self::command("/proc/self/exe", []));
        }
        Ok(Self::command(std::env::current_exe()?, []))
    }

    /// `program` with `arguments`, to which the arguments of `lycaon` are appended.
    pub fn command(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Self {
        Self { program: program.into(), arguments: arguments.into_iter().collect() }
    }
}

/// Runs `lycaon` with `args`, the first of which is the program's name, and returns the code to
/// exit with. The library's log goes to stderr, as [`log_to_stderr`] says.
///
/// While `lycaon launch` runs, handlers for SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGCONT are
/// installed, and a thread may be left behind that waits for input; the caller is expected to
/// exit soon.
pub fn main(args: impl IntoIterator<Item = OsString>, restart: &Restart) -> u8 {
    log_to_stderr();
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match cli::Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(answer) => {
            // why: help and version come this way too; a closed stdout is no reason to fail.
            let _ = answer.print();
            return u8::try_from(answer.exit_code()).unwrap_or(2);
        }
    };
    match cli.command {
        cli::Command::Launch(options) => job::launch(options, restart),
        cli::Command::Bench(options) => bench::run(&options, &args[1..], restart),
        cli::Command::Demo(options) => demo::run(&options, &args[1..], restart),
        cli::Command::Tune(options) => tune::run(&options, &args[1..], restart),
        cli::Command::Guardian => job::guard(),
        cli::Command::Version => version::print(),
    }
}
