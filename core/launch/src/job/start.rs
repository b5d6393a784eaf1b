//! What can go wrong before the ranks run, in words that help.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::wire::Step;

/// The launcher could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum LaunchError {
    /// The folder for the ranks is none.
    #[error("--cwd {}: {source}", .path.display())]
    Folder {
        /// As given.
        path: PathBuf,
        source: io::Error,
    },
    /// A system call failed that is needed for every job.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        source: io::Error,
    },
    /// More descriptors are needed than the process may have.
    #[error(
        "{ranks} ranks need about {needed} open files, but at most {allowed} are allowed here; \
         raise the hard limit (ulimit -Hn)"
    )]
    Descriptors {
        /// Ranks asked for.
        ranks: usize,
        /// Descriptors for them.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
}

impl LaunchError {
    /// The exit code of the launcher.
    pub(crate) fn code(&self) -> u8 {
        125
    }
}

/// Makes a [`LaunchError::System`] out of any error of the system.
pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> LaunchError {
    move |source| LaunchError::System { what, source: source.into() }
}

/// Says why a rank did not start, with the code for the launcher to exit with.
pub(crate) fn explain(
    rank: usize,
    step: Step,
    errno: i32,
    command: &OsString,
    cwd: Option<&Path>,
) -> (String, u8) {
    let error = io::Error::from_raw_os_error(errno);
    let shown = Path::new(command).display();
    let path = cwd.unwrap_or(Path::new("")).join(command);
    let names_a_file = command.to_string_lossy().contains('/');
    match (step, errno) {
        (Step::Folder, _) => (format!("cannot make the private folder of the job: {error}"), 125),
        (Step::Pipe, _) => (format!("cannot make the pipes of rank {rank}: {error}"), 125),
        (Step::Program, libc::ENOENT) if names_a_file && path.is_file() => {
            let why = "the interpreter that its first line names does not exist";
            (format!("cannot run {shown}: {why}"), 126)
        }
        (Step::Program, libc::ENOENT) if names_a_file => {
            let place = cwd.map_or(String::new(), |cwd| format!(" (seen from {})", cwd.display()));
            (format!("{shown} does not exist{place}"), 127)
        }
        (Step::Program, libc::ENOENT) => {
            let hint = match Path::new(command).is_file() || path.is_file() {
                true => format!("; for the file in this folder say ./{shown}"),
                false => String::new(),
            };
            (format!("command not found: {shown}{hint}"), 127)
        }
        (Step::Program, libc::EACCES) if path.is_dir() => {
            (format!("cannot run {shown}: it is a folder"), 126)
        }
        (Step::Program, libc::EACCES) => {
            (format!("cannot run {shown}: not executable (chmod +x makes it so)"), 126)
        }
        (Step::Program, libc::ENOEXEC) => {
            let why = "neither a program for this machine nor a script with a #! line";
            (format!("cannot run {shown}: {why}"), 126)
        }
        (Step::Program, libc::EAGAIN | libc::ENOMEM) => (
            format!(
                "cannot start rank {rank}: the host's processes or memory are used up ({error})"
            ),
            125,
        ),
        (Step::Program, _) => (format!("cannot run {shown}: {error}"), 126),
    }
}
