//! Blocking calls: without the GIL, and with an eye on Python's signals.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use lycaon::interrupt;
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors;

/// How often a waiting thread takes the GIL to look for signals.
const LOOK: Duration = Duration::from_millis(50);

thread_local! {
    /// What a signal handler raised during a wait of this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Whether this is Python's main thread, as of the process with this id: after a fork, the
    /// thread that forked is.
    static MAIN: Cell<Option<(u32, bool)>> = const { Cell::new(None) };
}

/// Runs `f`, which may wait, without the GIL. Signals that arrive are handled as Python does it;
/// what a handler raises (`KeyboardInterrupt`, as a rule) ends the wait and is raised here.
pub(crate) fn blocking<R: Send>(
    py: Python<'_>,
    f: impl FnOnce() -> lycaon::Result<R> + Send,
) -> PyResult<R> {
    let result = py.detach(|| interrupt::with_interrupt(has_raised, f));
    match (RAISED.take(), result) {
        (None, Ok(value)) => Ok(value),
        (None, Err(error)) => Err(errors::from_core(py, &error)),
        (Some(raised), Ok(_)) => Err(raised),
        (Some(raised), Err(error)) => {
            raised.set_cause(py, Some(errors::from_core(py, &error)));
            Err(raised)
        }
    }
}

/// Lets Python's signal handlers run, now and then. True if one has raised something.
fn has_raised() -> bool {
    let now = Instant::now();
    if LOOKED.get().is_some_and(|last| now.duration_since(last) < LOOK) {
        return false;
    }
    LOOKED.set(Some(now));
    let process = std::process::id();
    if matches!(MAIN.get(), Some((known, false)) if known == process) {
        return false;
    }
    // An interpreter that is shutting down has no handlers left to run.
    Python::try_attach(|py| {
        let main = match MAIN.get() {
            Some((known, main)) if known == process => main,
            _ => {
                let main = is_main_thread(py).unwrap_or(false);
                MAIN.set(Some((process, main)));
                main
            }
        };
        match if main { py.check_signals() } else { Ok(()) } {
            Ok(()) => false,
            Err(raised) => {
                RAISED.set(Some(raised));
                true
            }
        }
    })
    .unwrap_or(false)
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import(intern!(py, "threading"))?;
    let main = threading.call_method0(intern!(py, "main_thread"))?;
    Ok(threading.call_method0(intern!(py, "current_thread"))?.is(&main))
}
