//! Groups and their operations. Each operation is prepared in [`prepare`](crate::prepare).

use lycaon::Operation;
use lycaon::error::Cause;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyTuple};

use crate::prepare::{Caller, Expected, Place};
use crate::work::Work;
use crate::{config, errors, registry, trace, waiting};

/// A group of ranks that compute together. ``lycaon.init`` makes the first one.
///
/// Collectives complete in the order of the calls, and every rank calls the same ones in the same
/// order. A group may be used from many threads. It closes when it is dropped, when a ``with``
/// block over it ends, and when the interpreter exits.
#[pyclass(frozen, weakref, module = "lycaon")]
pub(crate) struct Group {
    /// There until it is dropped.
    core: Option<lycaon::Group>,
    /// Its number among the open groups.
    number: u64,
    /// The process that made it.
    owner: u32,
}

/// Starts the group that ``config``, or without one the environment, describes.
#[pyfunction]
#[pyo3(name = "_init", signature = (config=None))]
pub(crate) fn init(py: Python<'_>, config: Option<&Bound<'_, config::Config>>) -> PyResult<Group> {
    let config = config.map(|config| config.get().core.clone());
    let group = waiting::blocking(py, move || match config {
        Some(config) => lycaon::init_with(&config),
        None => lycaon::init(),
    })?;
    Ok(Group::new(group))
}

impl Group {
    fn new(core: lycaon::Group) -> Self {
        let number = registry::add(&core);
        Group { core: Some(core), number, owner: std::process::id() }
    }

    fn core(&self) -> &lycaon::Group {
        self.core.as_ref().expect("only dropping takes it")
    }

    fn caller<'a, 'py>(&'a self, py: Python<'py>) -> Caller<'a, 'py> {
        Caller { py, group: self.core() }
    }

    /// `src` stands behind arguments that may be left out, but itself it may not.
    fn source(&self, _py: Python<'_>, src: Option<i64>) -> PyResult<i64> {
        src.ok_or_else(|| PyTypeError::new_err("recv() needs src, the rank to receive from"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.owner != std::process::id() {
            // A forked child: threads and links are its parent's.
            std::mem::forget(self.core.take());
            return;
        }
        // With the last handle the group's thread ends, which may need the GIL before.
        let mut both = Some((registry::remove(self.number), self.core.take()));
        let dropped = Python::try_attach(|py| py.detach(|| drop(both.take())));
        if dropped.is_none() {
            drop(both);
        }
    }
}

// why: a method's parameters are the keyword arguments that Python callers see.
#[allow(clippy::too_many_arguments)]
#[pymethods]
impl Group {
    /// This rank, from 0 to ``size() - 1``.
    fn rank(&self) -> usize {
        self.core().rank()
    }

    /// The number of ranks.
    fn size(&self) -> usize {
        self.core().size()
    }

    /// For each rank of this group, its rank in the job.
    #[getter]
    fn members<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.core().members())
    }

    /// Seconds that an operation waits while nothing moves before it fails.
    #[getter]
    fn timeout(&self) -> f64 {
        self.core().timeout().as_secs_f64()
    }

    #[setter]
    fn set_timeout(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        self.core().set_timeout(config::seconds(py, "timeout", timeout)?);
        Ok(())
    }

    /// The links to the other ranks, in rank order.
    fn links(&self) -> Vec<trace::Link> {
        self.core().links().into_iter().map(Into::into).collect()
    }

    /// The group as text: how its ranks are joined, this rank's links, and which algorithm every
    /// collective takes from which size on.
    fn describe(&self) -> String {
        self.core().describe()
    }

    /// How far this group has come. May be read from any thread at any time.
    fn progress(&self) -> trace::Progress {
        self.core().progress().into()
    }

    /// The last operations of this group, oldest first.
    fn flight_recorder(&self) -> Vec<trace::Record> {
        self.core().flight_recorder().into_iter().map(Into::into).collect()
    }

    /// Closes the group: operations under way and later ones fail. May be called more than once.
    fn close(&self, py: Python<'_>) {
        if self.owner != std::process::id() {
            return;
        }
        let noted = registry::remove(self.number);
        py.detach(|| {
            self.core().close();
            drop(noted);
        });
    }

    /// Whether this process closed it, or is a forked child of the one that made it.
    fn _is_closed(&self) -> bool {
        let ended = |cause: &Cause| matches!(cause, Cause::Closed | Cause::Forked { .. });
        // A group that failed first and was closed then keeps its first cause.
        self.core().is_closed() || self.core().failure().is_some_and(|cause| ended(&cause))
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        let state = match self.core().failure() {
            None => String::new(),
            Some(cause) => format!(" ({cause})"),
        };
        format!("<lycaon.Group rank {} of {}{state}>", self.core().rank(), self.core().size())
    }

    /// Forms sub-groups: ranks of one ``color`` form one, ordered by ``key`` and then by rank.
    ///
    /// All ranks call it. A rank whose color is ``None`` joins no group and gets ``None``.
    #[pyo3(signature = (color, key=0))]
    fn split(&self, py: Python<'_>, color: Option<i64>, key: i64) -> PyResult<Option<Group>> {
        let color = color.map(|color| {
            u32::try_from(color).map_err(|_| {
                let message = format!("color {color} is not from 0 to {}", u32::MAX);
                errors::argument(py, "color", message)
            })
        });
        let color = color.transpose()?;
        let part = waiting::blocking(py, || self.core().split_optional(color, key))?;
        Ok(part.map(Group::new))
    }

    /// Returns when every rank has called it.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        self.caller(py).barrier().run(self.core(), py).map(|_| ())
    }

    /// As ``barrier``, in the background.
    fn barrier_async(&self, py: Python<'_>) -> PyResult<Work> {
        self.caller(py).barrier().start(self.core(), py)
    }

    /// Reduces ``x`` of all ranks; every rank gets the result.
    #[pyo3(signature = (x, op="sum", *, out=None, in_place=false))]
    fn all_reduce<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        op: &str,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py)
            .reduce_all(Operation::AllReduce, x, op, &Place { out, in_place })?
            .run(self.core(), py)
    }

    /// As ``all_reduce``, in the background.
    #[pyo3(signature = (x, op="sum", *, out=None, in_place=false))]
    fn all_reduce_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        op: &str,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Work> {
        self.caller(py)
            .reduce_all(Operation::AllReduce, x, op, &Place { out, in_place })?
            .start(self.core(), py)
    }

    /// Joins ``x`` of all ranks on axis 0, in rank order.
    ///
    /// In place, ``x`` is the whole and holds this rank's part at its place.
    #[pyo3(signature = (x, *, out=None, in_place=false))]
    fn all_gather<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).all_gather(x, &Place { out, in_place })?.run(self.core(), py)
    }

    /// As ``all_gather``, in the background.
    #[pyo3(signature = (x, *, out=None, in_place=false))]
    fn all_gather_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Work> {
        self.caller(py).all_gather(x, &Place { out, in_place })?.start(self.core(), py)
    }

    /// Joins ``x`` of all ranks on axis 0, where rank ``i`` gives ``counts[i]`` rows.
    #[pyo3(signature = (x, counts, *, out=None))]
    fn all_gather_v<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        counts: Vec<u64>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).all_gather_v(x, &counts, out)?.run(self.core(), py)
    }

    /// As ``all_gather_v``, in the background.
    #[pyo3(signature = (x, counts, *, out=None))]
    fn all_gather_v_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        counts: Vec<u64>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Work> {
        self.caller(py).all_gather_v(x, &counts, out)?.start(self.core(), py)
    }

    /// Reduces ``x`` of all ranks; each rank gets its equal part of axis 0 of the result.
    #[pyo3(signature = (x, op="sum", *, out=None))]
    fn reduce_scatter<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        op: &str,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).reduce_scatter(x, op, out)?.run(self.core(), py)
    }

    /// As ``reduce_scatter``, in the background.
    #[pyo3(signature = (x, op="sum", *, out=None))]
    fn reduce_scatter_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        op: &str,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Work> {
        self.caller(py).reduce_scatter(x, op, out)?.start(self.core(), py)
    }

    /// Reduces ``x`` of all ranks; rank ``i`` gets ``counts[i]`` rows of the result.
    #[pyo3(signature = (x, counts, op="sum", *, out=None))]
    fn reduce_scatter_v<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        counts: Vec<u64>,
        op: &str,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).reduce_scatter_v(x, &counts, op, out)?.run(self.core(), py)
    }

    /// As ``reduce_scatter_v``, in the background.
    #[pyo3(signature = (x, counts, op="sum", *, out=None))]
    fn reduce_scatter_v_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        counts: Vec<u64>,
        op: &str,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Work> {
        self.caller(py).reduce_scatter_v(x, &counts, op, out)?.start(self.core(), py)
    }

    /// Gives every rank the root's ``x``. On the other ranks ``x`` says shape and type.
    #[pyo3(signature = (x, root=0, *, out=None, in_place=false))]
    fn broadcast<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).broadcast(x, root, &Place { out, in_place })?.run(self.core(), py)
    }

    /// As ``broadcast``, in the background.
    #[pyo3(signature = (x, root=0, *, out=None, in_place=false))]
    fn broadcast_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Work> {
        self.caller(py).broadcast(x, root, &Place { out, in_place })?.start(self.core(), py)
    }

    /// Reduces ``x`` of all ranks; the root gets the result, the others ``None``.
    #[pyo3(signature = (x, op="sum", root=0, *, out=None, in_place=false))]
    fn reduce<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        op: &str,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).reduce(x, op, root, &Place { out, in_place })?.run(self.core(), py)
    }

    /// As ``reduce``, in the background.
    #[pyo3(signature = (x, op="sum", root=0, *, out=None, in_place=false))]
    fn reduce_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        op: &str,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Work> {
        self.caller(py).reduce(x, op, root, &Place { out, in_place })?.start(self.core(), py)
    }

    /// Joins ``x`` of all ranks on axis 0 at the root; the others get ``None``.
    #[pyo3(signature = (x, root=0, *, out=None))]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).gather(x, None, root, out)?.run(self.core(), py)
    }

    /// As ``gather``, in the background.
    #[pyo3(signature = (x, root=0, *, out=None))]
    fn gather_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Work> {
        self.caller(py).gather(x, None, root, out)?.start(self.core(), py)
    }

    /// Joins ``x`` of all ranks at the root, which says how many rows each rank gives.
    #[pyo3(signature = (x, counts=None, root=0, *, out=None))]
    fn gather_v<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        counts: Option<Vec<u64>>,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).gather(x, Some(counts.as_deref()), root, out)?.run(self.core(), py)
    }

    /// As ``gather_v``, in the background.
    #[pyo3(signature = (x, counts=None, root=0, *, out=None))]
    fn gather_v_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        counts: Option<Vec<u64>>,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Work> {
        self.caller(py).gather(x, Some(counts.as_deref()), root, out)?.start(self.core(), py)
    }

    /// Cuts the root's ``x`` on axis 0 into equal parts, one per rank.
    ///
    /// The other ranks give no ``x`` and say what they get: ``out``, or ``shape`` and ``dtype``.
    #[pyo3(signature = (x=None, root=0, *, out=None, shape=None, dtype=None))]
    fn scatter<'py>(
        &self,
        py: Python<'py>,
        x: Option<&Bound<'py, PyAny>>,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
        shape: Option<Vec<usize>>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py)
            .scatter(x, None, root, &Expected { shape, dtype, out })?
            .run(self.core(), py)
    }

    /// As ``scatter``, in the background.
    #[pyo3(signature = (x=None, root=0, *, out=None, shape=None, dtype=None))]
    fn scatter_async<'py>(
        &self,
        py: Python<'py>,
        x: Option<&Bound<'py, PyAny>>,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
        shape: Option<Vec<usize>>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Work> {
        self.caller(py)
            .scatter(x, None, root, &Expected { shape, dtype, out })?
            .start(self.core(), py)
    }

    /// Cuts the root's ``x`` on axis 0; rank ``i`` gets ``counts[i]`` rows, as the root says.
    #[pyo3(signature = (x=None, counts=None, root=0, *, out=None, shape=None, dtype=None))]
    fn scatter_v<'py>(
        &self,
        py: Python<'py>,
        x: Option<&Bound<'py, PyAny>>,
        counts: Option<Vec<u64>>,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
        shape: Option<Vec<usize>>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py)
            .scatter(x, Some(counts.as_deref()), root, &Expected { shape, dtype, out })?
            .run(self.core(), py)
    }

    /// As ``scatter_v``, in the background.
    #[pyo3(signature = (x=None, counts=None, root=0, *, out=None, shape=None, dtype=None))]
    fn scatter_v_async<'py>(
        &self,
        py: Python<'py>,
        x: Option<&Bound<'py, PyAny>>,
        counts: Option<Vec<u64>>,
        root: i64,
        out: Option<&Bound<'py, PyAny>>,
        shape: Option<Vec<usize>>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Work> {
        self.caller(py)
            .scatter(x, Some(counts.as_deref()), root, &Expected { shape, dtype, out })?
            .start(self.core(), py)
    }

    /// Cuts ``x`` on axis 0 into equal parts; rank ``i`` gets part ``i`` of every rank.
    #[pyo3(signature = (x, *, out=None, in_place=false))]
    fn all_to_all<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).all_to_all(x, &Place { out, in_place })?.run(self.core(), py)
    }

    /// As ``all_to_all``, in the background.
    #[pyo3(signature = (x, *, out=None, in_place=false))]
    fn all_to_all_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Work> {
        self.caller(py).all_to_all(x, &Place { out, in_place })?.start(self.core(), py)
    }

    /// Sends ``send_counts[i]`` rows to rank ``i`` and gets ``recv_counts[i]`` rows from it.
    #[pyo3(signature = (x, send_counts, recv_counts, *, out=None))]
    fn all_to_all_v<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        send_counts: Vec<u64>,
        recv_counts: Vec<u64>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).all_to_all_v(x, &send_counts, &recv_counts, out)?.run(self.core(), py)
    }

    /// As ``all_to_all_v``, in the background.
    #[pyo3(signature = (x, send_counts, recv_counts, *, out=None))]
    fn all_to_all_v_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        send_counts: Vec<u64>,
        recv_counts: Vec<u64>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Work> {
        self.caller(py).all_to_all_v(x, &send_counts, &recv_counts, out)?.start(self.core(), py)
    }

    /// Rank ``i`` gets the reduction of ``x`` of ranks 0 to ``i``.
    #[pyo3(signature = (x, op="sum", *, out=None, in_place=false))]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        op: &str,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py)
            .reduce_all(Operation::Scan, x, op, &Place { out, in_place })?
            .run(self.core(), py)
    }

    /// As ``scan``, in the background.
    #[pyo3(signature = (x, op="sum", *, out=None, in_place=false))]
    fn scan_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        op: &str,
        out: Option<&Bound<'py, PyAny>>,
        in_place: bool,
    ) -> PyResult<Work> {
        self.caller(py)
            .reduce_all(Operation::Scan, x, op, &Place { out, in_place })?
            .start(self.core(), py)
    }

    /// Sends ``x`` to a rank and returns it.
    #[pyo3(signature = (x, dst, *, tag=0))]
    fn send<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        dst: i64,
        tag: i64,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).send(x, dst, tag)?.run(self.core(), py)
    }

    /// As ``send``, in the background.
    #[pyo3(signature = (x, dst, *, tag=0))]
    fn send_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        dst: i64,
        tag: i64,
    ) -> PyResult<Work> {
        self.caller(py).send(x, dst, tag)?.start(self.core(), py)
    }

    /// Receives an array of this shape and type from rank ``src``; ``out`` says both too.
    #[pyo3(signature = (shape=None, dtype=None, src=None, *, tag=0, out=None))]
    fn recv<'py>(
        &self,
        py: Python<'py>,
        shape: Option<Vec<usize>>,
        dtype: Option<&Bound<'py, PyAny>>,
        src: Option<i64>,
        tag: i64,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let src = self.source(py, src)?;
        self.caller(py).recv(&Expected { shape, dtype, out }, src, tag)?.run(self.core(), py)
    }

    /// As ``recv``, in the background.
    #[pyo3(signature = (shape=None, dtype=None, src=None, *, tag=0, out=None))]
    fn recv_async<'py>(
        &self,
        py: Python<'py>,
        shape: Option<Vec<usize>>,
        dtype: Option<&Bound<'py, PyAny>>,
        src: Option<i64>,
        tag: i64,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Work> {
        let src = self.source(py, src)?;
        self.caller(py).recv(&Expected { shape, dtype, out }, src, tag)?.start(self.core(), py)
    }

    /// Receives an array of the shape and type of ``x``, which itself is not changed.
    #[pyo3(signature = (x, src, *, tag=0, out=None))]
    fn recv_like<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        src: i64,
        tag: i64,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).recv_like(x, src, tag, out)?.run(self.core(), py)
    }

    /// As ``recv_like``, in the background.
    #[pyo3(signature = (x, src, *, tag=0, out=None))]
    fn recv_like_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        src: i64,
        tag: i64,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Work> {
        self.caller(py).recv_like(x, src, tag, out)?.start(self.core(), py)
    }

    /// Sends ``x`` to rank ``dst`` and receives from rank ``src`` at the same time.
    ///
    /// What is received has the type of ``x``, and its shape unless ``shape`` or ``out`` says another.
    #[pyo3(signature = (x, dst, src, *, tag=0, shape=None, out=None))]
    fn send_recv<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        dst: i64,
        src: i64,
        tag: i64,
        shape: Option<Vec<usize>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.caller(py).send_recv(x, dst, src, tag, shape, out)?.run(self.core(), py)
    }

    /// As ``send_recv``, in the background.
    #[pyo3(signature = (x, dst, src, *, tag=0, shape=None, out=None))]
    fn send_recv_async<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        dst: i64,
        src: i64,
        tag: i64,
        shape: Option<Vec<usize>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Work> {
        self.caller(py).send_recv(x, dst, src, tag, shape, out)?.start(self.core(), py)
    }

    /// ``all_reduce`` with ``sum``: the name of ``mx.distributed``.
    fn all_sum<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        self.all_reduce(py, x, "sum", None, false)
    }

    /// ``all_reduce`` with ``max``: the name of ``mx.distributed``.
    fn all_max<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        self.all_reduce(py, x, "max", None, false)
    }

    /// ``all_reduce`` with ``min``: the name of ``mx.distributed``.
    fn all_min<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        self.all_reduce(py, x, "min", None, false)
    }

    /// ``reduce_scatter`` with ``sum``: the name of ``mx.distributed``.
    fn sum_scatter<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        self.reduce_scatter(py, x, "sum", None)
    }
}
