//! The program `lycaon`, started from the wheel.

use std::ffi::OsString;

use lycaon_cli::Restart;
use pyo3::prelude::*;

/// Runs the program ``lycaon`` with these arguments, the program's name first, and returns the
/// code to exit with. ``restart`` is the command that starts the same program once more.
#[pyfunction]
#[pyo3(name = "_command")]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>, restart: Vec<OsString>) -> u8 {
    let mut restart = restart.into_iter();
    let program = restart.next().unwrap_or_else(|| "lycaon".into());
    let restart = Restart::command(program, restart);
    py.detach(|| lycaon_cli::main(arguments, &restart))
}
