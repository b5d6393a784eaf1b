//! The private module `lycaon._lycaon`: the core for Python.
//!
//! A call goes through `buffer` (whose memory is it), `element` (of which type), `prepare`
//! (which request, into which result), and `waiting` (without the GIL, with an eye on signals).

mod array;
mod buffer;
mod command;
mod config;
mod element;
mod errors;
mod group;
mod lifeline;
mod prepare;
mod registry;
mod trace;
mod waiting;
mod work;

use pyo3::prelude::*;

/// The native part of `lycaon`. Everything public is in `lycaon` itself.
#[pymodule]
mod _lycaon {
    #[pymodule_export]
    use super::command::command;
    #[pymodule_export]
    use super::config::Config;
    #[pymodule_export]
    use super::errors::sample_errors;
    #[pymodule_export]
    use super::group::{Group, init};
    #[pymodule_export]
    use super::lifeline::end_with;
    #[pymodule_export]
    use super::registry::close_all;
    #[pymodule_export]
    use super::trace::{Link, Progress, Record};
    #[pymodule_export]
    use super::work::Work;

    use super::*;

    #[pymodule_init]
    fn init_module(module: &Bound<'_, PyModule>) -> PyResult<()> {
        lycaon_cli::log_to_stderr();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
