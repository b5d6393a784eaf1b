//! The configuration, with the names of the core's builder.

use std::sync::Arc;
use std::time::Duration;

use lycaon::Operation;
use lycaon::config::{ConfigBuilder, Interface, Rendezvous, SideChannel};
use lycaon::error::{ConfigError, LinkKind};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::errors;

/// What a rank must know to join its group.
///
/// Everything is a keyword argument, and what is left out has its default; ``Config.from_env``
/// takes the defaults from the environment. Times are seconds.
#[pyclass(frozen, module = "lycaon")]
pub(crate) struct Config {
    pub(crate) core: lycaon::Config,
}

#[pymethods]
impl Config {
    #[new]
    #[pyo3(signature = (*, rank=None, size=None, rendezvous=None, token=None, job=None,
        start_timeout=None, timeout=None, links=None, rails=None, host_id=None, interfaces=None,
        algorithm=None, rank_order=None, spin=None, staging=None, recorder=None, liveness=None))]
    #[expect(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        rank: Option<i64>,
        size: Option<i64>,
        rendezvous: Option<Bound<'_, PyAny>>,
        token: Option<Bound<'_, PyAny>>,
        job: Option<String>,
        start_timeout: Option<f64>,
        timeout: Option<f64>,
        links: Option<Bound<'_, PyAny>>,
        rails: Option<i64>,
        host_id: Option<String>,
        interfaces: Option<Bound<'_, PyAny>>,
        algorithm: Option<Bound<'_, PyAny>>,
        rank_order: Option<bool>,
        spin: Option<f64>,
        staging: Option<i64>,
        recorder: Option<i64>,
        liveness: Option<f64>,
    ) -> PyResult<Self> {
        let given = Given {
            rank,
            size,
            rendezvous,
            token,
            job,
            start_timeout,
            timeout,
            links,
            rails,
            host_id,
            interfaces,
            algorithm,
            rank_order,
            spin,
            staging,
            recorder,
            liveness,
        };
        given.build(py, lycaon::Config::builder())
    }

    /// Reads the environment; keyword arguments replace what it says.
    #[staticmethod]
    #[pyo3(signature = (*, rank=None, size=None, rendezvous=None, token=None, job=None,
        start_timeout=None, timeout=None, links=None, rails=None, host_id=None, interfaces=None,
        algorithm=None, rank_order=None, spin=None, staging=None, recorder=None, liveness=None))]
    #[expect(clippy::too_many_arguments)]
    fn from_env(
        py: Python<'_>,
        rank: Option<i64>,
        size: Option<i64>,
        rendezvous: Option<Bound<'_, PyAny>>,
        token: Option<Bound<'_, PyAny>>,
        job: Option<String>,
        start_timeout: Option<f64>,
        timeout: Option<f64>,
        links: Option<Bound<'_, PyAny>>,
        rails: Option<i64>,
        host_id: Option<String>,
        interfaces: Option<Bound<'_, PyAny>>,
        algorithm: Option<Bound<'_, PyAny>>,
        rank_order: Option<bool>,
        spin: Option<f64>,
        staging: Option<i64>,
        recorder: Option<i64>,
        liveness: Option<f64>,
    ) -> PyResult<Self> {
        let given = Given {
            rank,
            size,
            rendezvous,
            token,
            job,
            start_timeout,
            timeout,
            links,
            rails,
            host_id,
            interfaces,
            algorithm,
            rank_order,
            spin,
            staging,
            recorder,
            liveness,
        };
        given.build(py, errors::raise(py, ConfigBuilder::from_env())?)
    }

    #[getter]
    fn rank(&self) -> usize {
        self.core.rank()
    }

    #[getter]
    fn size(&self) -> usize {
        self.core.size()
    }

    /// Where the ranks find one another, as text; ``None`` for a group of one.
    #[getter]
    fn rendezvous(&self) -> Option<String> {
        self.core.rendezvous().map(ToString::to_string)
    }

    /// Whether the ranks share a secret, which itself cannot be read.
    #[getter]
    fn has_token(&self) -> bool {
        self.core.has_token()
    }

    #[getter]
    fn job(&self) -> &str {
        self.core.job()
    }

    #[getter]
    fn start_timeout(&self) -> f64 {
        self.core.start_timeout().as_secs_f64()
    }

    #[getter]
    fn timeout(&self) -> f64 {
        self.core.timeout().as_secs_f64()
    }

    #[getter]
    fn links(&self) -> Vec<&'static str> {
        self.core.links().iter().map(|link| link.name()).collect()
    }

    #[getter]
    fn rails(&self) -> usize {
        self.core.rails()
    }

    #[getter]
    fn host_id(&self) -> Option<&str> {
        self.core.host_id()
    }

    #[getter]
    fn interfaces(&self) -> Vec<String> {
        self.core.interfaces().iter().map(ToString::to_string).collect()
    }

    /// The algorithms fixed by hand, by operation.
    #[getter]
    fn algorithm<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fixed = PyDict::new(py);
        for operation in Operation::ALL {
            if let Some(algorithm) = self.core.algorithm(operation) {
                fixed.set_item(operation.name(), algorithm.to_string())?;
            }
        }
        Ok(fixed)
    }

    #[getter]
    fn rank_order(&self) -> bool {
        self.core.rank_order()
    }

    /// Seconds of polling before a wait sleeps; ``None`` if it is chosen at run time.
    #[getter]
    fn spin(&self) -> Option<f64> {
        self.core.spin().map(|spin| spin.as_secs_f64())
    }

    #[getter]
    fn staging(&self) -> usize {
        self.core.staging()
    }

    #[getter]
    fn recorder(&self) -> usize {
        self.core.recorder()
    }

    #[getter]
    fn liveness(&self) -> f64 {
        self.core.liveness().as_secs_f64()
    }

    fn __repr__(&self) -> String {
        let rendezvous = match self.core.rendezvous() {
            Some(rendezvous) => format!(", rendezvous='{rendezvous}'"),
            None => String::new(),
        };
        format!("Config(rank={}, size={}{rendezvous})", self.core.rank(), self.core.size())
    }
}

struct Given<'py> {
    rank: Option<i64>,
    size: Option<i64>,
    rendezvous: Option<Bound<'py, PyAny>>,
    token: Option<Bound<'py, PyAny>>,
    job: Option<String>,
    start_timeout: Option<f64>,
    timeout: Option<f64>,
    links: Option<Bound<'py, PyAny>>,
    rails: Option<i64>,
    host_id: Option<String>,
    interfaces: Option<Bound<'py, PyAny>>,
    algorithm: Option<Bound<'py, PyAny>>,
    rank_order: Option<bool>,
    spin: Option<f64>,
    staging: Option<i64>,
    recorder: Option<i64>,
    liveness: Option<f64>,
}

impl Given<'_> {
    fn build(self, py: Python<'_>, mut to: ConfigBuilder) -> PyResult<Config> {
        if let Some(rank) = self.rank {
            to = to.rank(whole(py, "rank", rank, "a rank (0, 1, …)")?);
        }
        if let Some(size) = self.size {
            to = to.size(whole(py, "size", size, "a number of processes (1, 2, …)")?);
        }
        if let Some(rendezvous) = &self.rendezvous {
            to = to.rendezvous(meeting_place(rendezvous)?);
        }
        if let Some(token) = &self.token {
            to = match token.cast::<PyBytes>() {
                Ok(bytes) => to.token(bytes.as_bytes()),
                Err(_) => to.token(token.extract::<String>()?),
            };
        }
        if let Some(job) = self.job {
            to = to.job(job);
        }
        if let Some(timeout) = self.start_timeout {
            to = to.start_timeout(seconds(py, "start_timeout", timeout)?);
        }
        if let Some(timeout) = self.timeout {
            to = to.timeout(seconds(py, "timeout", timeout)?);
        }
        if let Some(links) = &self.links {
            let kinds: PyResult<Vec<LinkKind>> =
                names(links)?.iter().map(|name| link(py, name)).collect();
            to = to.links(kinds?);
        }
        if let Some(rails) = self.rails {
            to = to.rails(whole(py, "rails", rails, "from 1 to 64")?);
        }
        if let Some(id) = self.host_id {
            to = to.host_id(id);
        }
        if let Some(interfaces) = &self.interfaces {
            to = to.interfaces(names(interfaces)?.into_iter().map(|name| match name.parse() {
                Ok(address) => Interface::Address(address),
                Err(_) => Interface::Name(name),
            }));
        }
        if let Some(algorithm) = &self.algorithm {
            to = algorithms(py, to, algorithm)?;
        }
        if let Some(only) = self.rank_order {
            to = to.rank_order(only);
        }
        if let Some(spin) = self.spin {
            to = to.spin(seconds(py, "spin", spin)?);
        }
        if let Some(staging) = self.staging {
            to = to.staging(whole(py, "staging", staging, "a number of bytes")?);
        }
        if let Some(recorder) = self.recorder {
            to = to.recorder(whole(py, "recorder", recorder, "a number of operations")?);
        }
        if let Some(interval) = self.liveness {
            to = to.liveness(seconds(py, "liveness", interval)?);
        }
        Ok(Config { core: errors::raise(py, to.build())? })
    }
}

fn wrong(py: Python<'_>, name: &str, value: impl ToString, expected: &'static str) -> PyErr {
    let error = ConfigError::Value { name: name.to_owned(), value: value.to_string(), expected };
    errors::from_core(py, &error.into())
}

fn whole(py: Python<'_>, name: &str, value: i64, expected: &'static str) -> PyResult<usize> {
    usize::try_from(value).map_err(|_| wrong(py, name, value, expected))
}

/// A time as Python says it.
pub(crate) fn seconds(py: Python<'_>, name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|_| wrong(py, name, value, "a number of seconds"))
}

/// One text with commas, or several.
fn names(of: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    match of.cast::<PyString>() {
        Ok(text) => Ok(text.to_cow()?.split(',').map(|name| name.trim().to_owned()).collect()),
        Err(_) => of.extract(),
    }
}

fn link(py: Python<'_>, name: &str) -> PyResult<LinkKind> {
    [LinkKind::Shm, LinkKind::Rdma, LinkKind::Tcp]
        .into_iter()
        .find(|kind| kind.name() == name)
        .ok_or_else(|| wrong(py, "links", name, "one of shm, rdma, tcp"))
}

/// One algorithm for everything, or a mapping from operations.
fn algorithms(
    py: Python<'_>,
    mut to: ConfigBuilder,
    given: &Bound<'_, PyAny>,
) -> PyResult<ConfigBuilder> {
    let Ok(by_operation) = given.cast::<PyDict>() else {
        let name: String = given.extract()?;
        return Ok(to.algorithm(None, errors::raise(py, name.parse())?));
    };
    for (operation, algorithm) in by_operation {
        let operation: String = operation.extract()?;
        let algorithm: String = algorithm.extract()?;
        let known = Operation::ALL.into_iter().find(|known| known.name() == operation);
        let known = known.ok_or_else(|| {
            wrong(py, "algorithm", &operation, "the name of an operation, such as all_reduce")
        })?;
        to = to.algorithm(known, errors::raise(py, algorithm.parse())?);
    }
    Ok(to)
}

/// An address, a path, or a function of the program.
fn meeting_place(given: &Bound<'_, PyAny>) -> PyResult<Rendezvous> {
    let py = given.py();
    if let Ok(text) = given.cast::<PyString>() {
        return errors::raise(py, text.to_cow()?.parse());
    }
    if given.hasattr("__fspath__")? {
        return Ok(Rendezvous::File(given.extract()?));
    }
    if given.is_callable() {
        return Ok(Rendezvous::SideChannel(Arc::new(Function(given.clone().unbind()))));
    }
    Err(PyTypeError::new_err(
        "rendezvous is a text such as 'host:port', a path, or a function (rank, size, mine) that \
         returns the bytes of all ranks in rank order",
    ))
}

/// The program's own all-gather.
struct Function(Py<PyAny>);

impl SideChannel for Function {
    fn all_gather(&self, rank: usize, size: usize, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let call = |py: Python<'_>| -> PyResult<Vec<Vec<u8>>> {
            let answer = self.0.bind(py).call1((rank, size, PyBytes::new(py, mine)))?;
            answer.try_iter()?.map(|entry| entry?.extract::<Vec<u8>>()).collect()
        };
        Python::try_attach(|py| call(py).map_err(|error| error.to_string()))
            .unwrap_or_else(|| Err("the interpreter is shutting down".to_owned()))
    }
}
