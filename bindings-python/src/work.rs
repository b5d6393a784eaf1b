//! Operations in the background.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lycaon::{Error, Parcel};
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::{config, errors, waiting};

/// Waits without a limit look this often for their end.
const LONG: Duration = Duration::from_secs(3600);

/// An operation under way, as the ``..._async`` methods return it.
///
/// It keeps the arrays of the operation alive until the operation has ended. Dropping it does not
/// cancel the operation.
#[pyclass(frozen, module = "lycaon")]
pub(crate) struct Work {
    state: Mutex<State>,
    result: Py<PyAny>,
    name: String,
    /// The process that made it.
    owner: u32,
}

enum State {
    Running(Arc<lycaon::Work<Parcel>>),
    Done,
    Failed(Error),
}

impl Work {
    pub(crate) fn new(work: lycaon::Work<Parcel>, result: Py<PyAny>) -> Self {
        let name = work.signature().to_string();
        let state = Mutex::new(State::Running(Arc::new(work)));
        Work { state, result, name, owner: std::process::id() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The operation, if it has not ended. Lets go of its buffers if it has.
    fn running(&self, py: Python<'_>) -> Option<Arc<lycaon::Work<Parcel>>> {
        let ended = {
            let mut state = self.lock();
            match &*state {
                State::Running(work) if work.is_done() => {
                    let next = work.error().map_or(State::Done, State::Failed);
                    std::mem::replace(&mut *state, next)
                }
                State::Running(work) => return Some(Arc::clone(work)),
                State::Done | State::Failed(_) => return None,
            }
        };
        py.detach(|| drop(ended));
        None
    }

    fn outcome(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &*self.lock() {
            State::Done => Ok(self.result.clone_ref(py)),
            State::Failed(error) => Err(errors::from_core(py, error)),
            State::Running(_) => Err(PyRuntimeError::new_err(format!(
                "{} has not ended; call wait() for its result",
                self.name
            ))),
        }
    }
}

#[pymethods]
impl Work {
    /// ``Work[...]`` in annotations.
    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        class.py().import("types")?.getattr("GenericAlias")?.call1((class, item))
    }

    /// Waits for the end and returns the result of the operation, or raises its error.
    ///
    /// After ``timeout`` seconds it raises ``TimeoutError``, and the operation goes on; without
    /// one, the operation's own deadline bounds the wait.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let limit = timeout.map(|seconds| config::seconds(py, "timeout", seconds)).transpose()?;
        while let Some(work) = self.running(py) {
            let ended = waiting::blocking(py, move || work.wait_for(limit.unwrap_or(LONG)))?;
            if !ended && let Some(limit) = limit {
                return Err(PyTimeoutError::new_err(format!(
                    "{} is still under way after {limit:?}; it goes on",
                    self.name
                )));
            }
        }
        self.outcome(py)
    }

    /// Whether the operation has ended, well or not.
    fn done(&self, py: Python<'_>) -> bool {
        self.running(py).is_none()
    }

    /// The result of an operation that has ended, or its error; ``RuntimeError`` before that.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.running(py);
        self.outcome(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let running = self.running(py).is_some();
        let state = match &*self.lock() {
            _ if running => "running",
            State::Running(_) => "running",
            State::Done => "done",
            State::Failed(_) => "failed",
        };
        format!("<lycaon.Work {} {state}>", self.name)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let state = std::mem::replace(
            self.state.get_mut().unwrap_or_else(PoisonError::into_inner),
            State::Done,
        );
        if self.owner != std::process::id() {
            // A forked child: threads and links are its parent's.
            std::mem::forget(state);
        } else if matches!(state, State::Running(_)) {
            // With the last handle of a group its thread ends, which may need the GIL before.
            let mut state = Some(state);
            let _ = Python::try_attach(|py| py.detach(|| drop(state.take())));
        }
    }
}
