//! From the arguments of a call to a request with its buffers.
//!
//! Shapes follow one convention: ranks share axis 0. What is gathered is joined on axis 0, what is
//! scattered is cut on axis 0, and a scalar counts as one row.

use lycaon::error::ArgumentError;
use lycaon::{DType, Group, Op, Operation, Parcel, Request, RequestCounts};
use pyo3::prelude::*;

use crate::array::{Memory, Source, Target};
use crate::buffer::{Overlap, View};
use crate::{element, errors, waiting, work};

/// A call that is ready to run.
pub(crate) struct Prepared {
    input: Option<Memory>,
    output: Option<View>,
    result: Py<PyAny>,
    call: Call,
}

enum Call {
    Collective(Request),
    Message { dtype: DType, to: Option<usize>, from: Option<usize>, tag: u32 },
}

impl Prepared {
    /// Carries it out on this thread.
    pub(crate) fn run(mut self, group: &Group, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let input = self.input.as_ref().map(Memory::bytes);
        let output = self.output.as_mut().map(View::bytes_mut);
        let call = &self.call;
        waiting::blocking(py, move || match call {
            Call::Collective(request) => group.run(request, input, output),
            Call::Message { dtype, to, from, tag } => {
                match (*to, *from, input.unwrap_or(&[]), output.unwrap_or(&mut [])) {
                    (Some(to), Some(from), input, output) => {
                        group.send_recv_bytes(*dtype, input, to, output, from, *tag)
                    }
                    (Some(to), None, input, _) => group.send_bytes(*dtype, input, to, *tag),
                    (None, Some(from), _, output) => group.recv_bytes(*dtype, output, from, *tag),
                    (None, None, _, _) => Ok(()),
                }
            }
        })?;
        Ok(self.result)
    }

    /// Hands it to the group's own thread.
    pub(crate) fn start(self, group: &Group, py: Python<'_>) -> PyResult<work::Work> {
        let input = self.input.map(|memory| match memory {
            Memory::View(view) => Box::new(view) as Box<dyn lycaon::OwnedBytes>,
            Memory::Copy(bytes) => Box::new(bytes),
        });
        let parcel = Parcel { input, output: self.output.map(|view| Box::new(view) as _) };
        let call = self.call;
        let started = waiting::blocking(py, move || match call {
            Call::Collective(request) => group.start(&request, parcel),
            Call::Message { dtype, to, from, tag } => {
                group.start_message(dtype, parcel, to, from, tag)
            }
        })?;
        Ok(work::Work::new(started, self.result))
    }
}

/// Where the result goes.
pub(crate) struct Place<'a, 'py> {
    pub(crate) out: Option<&'a Bound<'py, PyAny>>,
    pub(crate) in_place: bool,
}

/// One call of one group.
pub(crate) struct Caller<'a, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) group: &'a Group,
}

type Array<'a, 'py> = &'a Bound<'py, PyAny>;

impl<'py> Caller<'_, 'py> {
    fn rank(&self) -> usize {
        self.group.rank()
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    fn core<T>(&self, result: Result<T, ArgumentError>) -> PyResult<T> {
        errors::raise(self.py, result)
    }

    fn op(&self, name: &str) -> PyResult<Op> {
        self.core(name.parse())
    }

    /// A rank of the group; Python's negative indices are none.
    fn peer(&self, what: &'static str, rank: i64) -> PyResult<usize> {
        match usize::try_from(rank) {
            Ok(rank) if rank < self.size() => Ok(rank),
            Ok(rank) => self.core(Err(ArgumentError::NoSuchRank { what, rank, size: self.size() })),
            Err(_) => {
                let last = self.size() - 1;
                let message =
                    format!("{what} {rank} is not in the group, whose ranks are 0 to {last}");
                Err(errors::argument(self.py, "no_such_rank", message))
            }
        }
    }

    fn tag(&self, tag: i64) -> PyResult<u32> {
        u32::try_from(tag).map_err(|_| {
            let message = format!("tag {tag} is not from 0 to {}", u32::MAX);
            errors::argument(self.py, "tag", message)
        })
    }

    /// A list of rows by rank, as elements.
    fn elements(&self, rows: &[u64], row: usize) -> PyResult<Vec<u64>> {
        let scaled = rows.iter().map(|rows| rows.checked_mul(row as u64)).collect();
        self.core(Option::ok_or(scaled, ArgumentError::TooLarge { what: "counts" }))
    }

    fn one_per_rank(&self, what: &'static str, rows: &[u64]) -> PyResult<()> {
        let (actual, size) = (rows.len(), self.size());
        if actual == size {
            Ok(())
        } else {
            self.core(Err(ArgumentError::Counts { what, actual, size }))
        }
    }

    fn total(&self, rows: &[u64]) -> PyResult<usize> {
        let total =
            rows.iter().try_fold(0usize, |sum, rows| sum.checked_add(usize::try_from(*rows).ok()?));
        self.core(total.ok_or(ArgumentError::TooLarge { what: "output" }))
    }

    /// An equal share of axis 0.
    fn share(&self, what: &'static str, shape: &[usize]) -> PyResult<usize> {
        let rows = rows(shape);
        if rows.is_multiple_of(self.size()) {
            Ok(rows / self.size())
        } else {
            let (count, size) = (rows as u64, self.size());
            self.core(Err(ArgumentError::Indivisible { what, count, size }))
        }
    }

    /// The rows that an input must have.
    fn expect_rows(&self, what: &'static str, shape: &[usize], expected: u64) -> PyResult<()> {
        let actual = rows(shape) as u64;
        if expected == actual {
            Ok(())
        } else {
            self.core(Err(ArgumentError::Length { what, expected, actual }))
        }
    }

    fn not_both(&self, place: &Place<'_, 'py>) -> PyResult<()> {
        if place.in_place && place.out.is_some() {
            let message = "out= and in_place=True contradict each other; give one of them";
            return Err(errors::argument(self.py, "conflict", message));
        }
        Ok(())
    }

    /// The array that the result goes to: `out` if it fits, else a new one.
    fn target(
        &self,
        out: Option<Array<'_, 'py>>,
        dtype: DType,
        shape: &[usize],
        like: Option<&Source<'py>>,
    ) -> PyResult<Target<'py>> {
        match out {
            Some(out) => Target::of(out, "out")?.check(dtype, shape),
            None => Target::new(self.py, dtype, shape, like),
        }
    }

    /// The input beside an output: gone if both are the same memory and the operation can work in
    /// place, refused if they share a part of it.
    fn beside(
        &self,
        source: Source<'py>,
        target: &Target<'py>,
        same_is_in_place: bool,
    ) -> PyResult<Option<Memory>> {
        let Memory::View(view) = &source.memory else { return Ok(Some(source.memory)) };
        match view.overlap(&target.view) {
            Overlap::None => Ok(Some(source.memory)),
            Overlap::Same if same_is_in_place => Ok(None),
            Overlap::Same | Overlap::Partial => self.core(Err(ArgumentError::Overlap)),
        }
    }

    fn collective(
        request: Request,
        input: Option<Memory>,
        target: Option<Target<'py>>,
        py: Python<'py>,
    ) -> Prepared {
        let (result, output) = match target {
            Some(target) => (target.object.unbind(), Some(target.view)),
            None => (py.None(), None),
        };
        Prepared { input, output, result, call: Call::Collective(request) }
    }

    /// A request from `x` into a result of the same shape.
    fn same_shape(
        &self,
        request: impl FnOnce(DType) -> Request,
        x: Array<'_, 'py>,
        place: &Place<'_, 'py>,
        check: impl FnOnce(&[usize]) -> PyResult<()>,
    ) -> PyResult<Prepared> {
        self.not_both(place)?;
        if place.in_place {
            let target = Target::of(x, "x")?;
            check(&target.shape)?;
            return Ok(Self::collective(request(target.dtype), None, Some(target), self.py));
        }
        let source = Source::read(x)?;
        check(&source.shape)?;
        let target = self.target(place.out, source.dtype, &source.shape, Some(&source))?;
        let request = request(source.dtype);
        let input = self.beside(source, &target, true)?;
        Ok(Self::collective(request, input, Some(target), self.py))
    }

    /// A request from `x` into a result of another number of rows.
    fn other_rows(
        &self,
        request: Request,
        source: Source<'py>,
        rows: usize,
        out: Option<Array<'_, 'py>>,
    ) -> PyResult<Prepared> {
        let shape = with_rows(rows, &source.shape);
        let target = self.target(out, source.dtype, &shape, Some(&source))?;
        let input = self.beside(source, &target, false)?;
        Ok(Self::collective(request, input, Some(target), self.py))
    }

    /// all_reduce and scan.
    pub(crate) fn reduce_all(
        &self,
        operation: Operation,
        x: Array<'_, 'py>,
        op: &str,
        place: &Place<'_, 'py>,
    ) -> PyResult<Prepared> {
        let op = self.op(op)?;
        self.same_shape(|dtype| Request::new(operation, dtype).op(op), x, place, |_| Ok(()))
    }

    pub(crate) fn reduce(
        &self,
        x: Array<'_, 'py>,
        op: &str,
        root: i64,
        place: &Place<'_, 'py>,
    ) -> PyResult<Prepared> {
        let op = self.op(op)?;
        let root = self.peer("root", root)?;
        let request = |dtype| Request::new(Operation::Reduce, dtype).op(op).root(root);
        if self.rank() == root {
            return self.same_shape(request, x, place, |_| Ok(()));
        }
        self.not_both(place)?;
        self.unused("out", place.out)?;
        let source = Source::read(x)?;
        Ok(Self::collective(request(source.dtype), Some(source.memory), None, self.py))
    }

    pub(crate) fn broadcast(
        &self,
        x: Array<'_, 'py>,
        root: i64,
        place: &Place<'_, 'py>,
    ) -> PyResult<Prepared> {
        self.not_both(place)?;
        let root = self.peer("root", root)?;
        let request = |dtype| Request::new(Operation::Broadcast, dtype).root(root);
        if place.in_place {
            let target = Target::of(x, "x")?;
            return Ok(Self::collective(request(target.dtype), None, Some(target), self.py));
        }
        let source = Source::read(x)?;
        let mut target = self.target(place.out, source.dtype, &source.shape, Some(&source))?;
        let request = request(source.dtype);
        if let Some(input) = self.beside(source, &target, true)?
            && self.rank() == root
        {
            let (from, to) = (input.bytes(), target.view.bytes_mut());
            self.py.detach(|| to.copy_from_slice(from));
        }
        Ok(Self::collective(request, None, Some(target), self.py))
    }

    pub(crate) fn all_gather(
        &self,
        x: Array<'_, 'py>,
        place: &Place<'_, 'py>,
    ) -> PyResult<Prepared> {
        self.not_both(place)?;
        let request = |dtype| Request::new(Operation::AllGather, dtype);
        if place.in_place {
            let target = Target::of(x, "x")?;
            self.share("axis 0 of x", &target.shape)?;
            return Ok(Self::collective(request(target.dtype), None, Some(target), self.py));
        }
        let source = Source::read(x)?;
        let whole = self.times_size(rows(&source.shape))?;
        self.other_rows(request(source.dtype), source, whole, place.out)
    }

    fn times_size(&self, rows: usize) -> PyResult<usize> {
        let whole = rows.checked_mul(self.size());
        self.core(whole.ok_or(ArgumentError::TooLarge { what: "output" }))
    }

    pub(crate) fn all_gather_v(
        &self,
        x: Array<'_, 'py>,
        counts: &[u64],
        out: Option<Array<'_, 'py>>,
    ) -> PyResult<Prepared> {
        self.one_per_rank("counts", counts)?;
        let source = Source::read(x)?;
        self.expect_rows("axis 0 of x", &source.shape, counts[self.rank()])?;
        let elements = self.elements(counts, row(&source.shape))?;
        let request =
            Request::new(Operation::AllGather, source.dtype).counts(RequestCounts::All(elements));
        self.other_rows(request, source, self.total(counts)?, out)
    }

    pub(crate) fn reduce_scatter(
        &self,
        x: Array<'_, 'py>,
        op: &str,
        out: Option<Array<'_, 'py>>,
    ) -> PyResult<Prepared> {
        let op = self.op(op)?;
        let source = Source::read(x)?;
        let block = self.share("axis 0 of x", &source.shape)?;
        let request = Request::new(Operation::ReduceScatter, source.dtype).op(op);
        self.other_rows(request, source, block, out)
    }

    pub(crate) fn reduce_scatter_v(
        &self,
        x: Array<'_, 'py>,
        counts: &[u64],
        op: &str,
        out: Option<Array<'_, 'py>>,
    ) -> PyResult<Prepared> {
        let op = self.op(op)?;
        self.one_per_rank("counts", counts)?;
        let source = Source::read(x)?;
        self.expect_rows("axis 0 of x", &source.shape, self.total(counts)? as u64)?;
        let elements = self.elements(counts, row(&source.shape))?;
        let request = Request::new(Operation::ReduceScatter, source.dtype)
            .op(op)
            .counts(RequestCounts::All(elements));
        let own = counts[self.rank()] as usize;
        self.other_rows(request, source, own, out)
    }

    /// gather, and with counts gather_v.
    pub(crate) fn gather(
        &self,
        x: Array<'_, 'py>,
        counts: Option<Option<&[u64]>>,
        root: i64,
        out: Option<Array<'_, 'py>>,
    ) -> PyResult<Prepared> {
        let root = self.peer("root", root)?;
        let source = Source::read(x)?;
        let mut request = Request::new(Operation::Gather, source.dtype).root(root);
        if self.rank() != root {
            self.unused("out", out)?;
            if counts.is_some() {
                request = request.counts(RequestCounts::AtRoot(Vec::new()));
            }
            return Ok(Self::collective(request, Some(source.memory), None, self.py));
        }
        let whole = match counts {
            None => self.times_size(rows(&source.shape))?,
            Some(counts) => {
                let counts = self.counts_at_root(counts)?;
                self.expect_rows("axis 0 of x", &source.shape, counts[root])?;
                let elements = self.elements(counts, row(&source.shape))?;
                request = request.counts(RequestCounts::AtRoot(elements));
                self.total(counts)?
            }
        };
        self.other_rows(request, source, whole, out)
    }

    fn counts_at_root<'c>(&self, counts: Option<&'c [u64]>) -> PyResult<&'c [u64]> {
        let missing = ArgumentError::MissingBuffer { rank: self.rank(), what: "counts" };
        let counts = self.core(counts.ok_or(missing))?;
        self.one_per_rank("counts", counts)?;
        Ok(counts)
    }

    fn unused(&self, what: &'static str, given: Option<Array<'_, 'py>>) -> PyResult<()> {
        match given {
            None => Ok(()),
            Some(_) => self.core(Err(ArgumentError::UnusedBuffer { rank: self.rank(), what })),
        }
    }

    /// scatter, and with counts scatter_v. `block` says what a rank that is not the root gets.
    pub(crate) fn scatter(
        &self,
        x: Option<Array<'_, 'py>>,
        counts: Option<Option<&[u64]>>,
        root: i64,
        block: &Expected<'_, 'py>,
    ) -> PyResult<Prepared> {
        let root = self.peer("root", root)?;
        if self.rank() != root {
            self.unused("x", x)?;
            let target = self.expected(block)?;
            let mut request = Request::new(Operation::Scatter, target.dtype).root(root);
            if counts.is_some() {
                request = request.counts(RequestCounts::AtRoot(Vec::new()));
            }
            return Ok(Self::collective(request, None, Some(target), self.py));
        }
        let missing = ArgumentError::MissingBuffer { rank: root, what: "x" };
        let source = Source::read(self.core(x.ok_or(missing))?)?;
        let mut request = Request::new(Operation::Scatter, source.dtype).root(root);
        let own = match counts {
            None => self.share("axis 0 of x", &source.shape)?,
            Some(counts) => {
                let counts = self.counts_at_root(counts)?;
                self.expect_rows("axis 0 of x", &source.shape, self.total(counts)? as u64)?;
                let elements = self.elements(counts, row(&source.shape))?;
                request = request.counts(RequestCounts::AtRoot(elements));
                counts[root] as usize
            }
        };
        self.other_rows(request, source, own, block.out)
    }

    pub(crate) fn all_to_all(
        &self,
        x: Array<'_, 'py>,
        place: &Place<'_, 'py>,
    ) -> PyResult<Prepared> {
        let divisible = |shape: &[usize]| self.share("axis 0 of x", shape).map(|_| ());
        self.same_shape(|dtype| Request::new(Operation::AllToAll, dtype), x, place, divisible)
    }

    pub(crate) fn all_to_all_v(
        &self,
        x: Array<'_, 'py>,
        send_counts: &[u64],
        recv_counts: &[u64],
        out: Option<Array<'_, 'py>>,
    ) -> PyResult<Prepared> {
        self.one_per_rank("send_counts", send_counts)?;
        self.one_per_rank("recv_counts", recv_counts)?;
        let source = Source::read(x)?;
        self.expect_rows("axis 0 of x", &source.shape, self.total(send_counts)? as u64)?;
        let row = row(&source.shape);
        let counts = RequestCounts::Exchange {
            send: self.elements(send_counts, row)?,
            recv: self.elements(recv_counts, row)?,
        };
        let request = Request::new(Operation::AllToAll, source.dtype).counts(counts);
        self.other_rows(request, source, self.total(recv_counts)?, out)
    }

    pub(crate) fn barrier(&self) -> Prepared {
        Self::collective(Request::new(Operation::Barrier, DType::U8), None, None, self.py)
    }

    /// The result of a send is what was sent.
    pub(crate) fn send(&self, x: Array<'_, 'py>, dst: i64, tag: i64) -> PyResult<Prepared> {
        let to = Some(self.peer("destination", dst)?);
        let tag = self.tag(tag)?;
        let Source { object, dtype, memory, .. } = Source::read(x)?;
        let call = Call::Message { dtype, to, from: None, tag };
        Ok(Prepared { input: Some(memory), output: None, result: object.unbind(), call })
    }

    pub(crate) fn recv(
        &self,
        message: &Expected<'_, 'py>,
        src: i64,
        tag: i64,
    ) -> PyResult<Prepared> {
        let from = Some(self.peer("source", src)?);
        let tag = self.tag(tag)?;
        let target = self.expected(message)?;
        let call = Call::Message { dtype: target.dtype, to: None, from, tag };
        let result = target.object.unbind();
        Ok(Prepared { input: None, output: Some(target.view), result, call })
    }

    /// Receives what has the shape and type of `x`, which is not written unless it is `out`.
    pub(crate) fn recv_like(
        &self,
        x: Array<'_, 'py>,
        src: i64,
        tag: i64,
        out: Option<Array<'_, 'py>>,
    ) -> PyResult<Prepared> {
        let from = Some(self.peer("source", src)?);
        let tag = self.tag(tag)?;
        let source = Source::read(x)?;
        let target = self.target(out, source.dtype, &source.shape, Some(&source))?;
        let call = Call::Message { dtype: target.dtype, to: None, from, tag };
        let result = target.object.unbind();
        Ok(Prepared { input: None, output: Some(target.view), result, call })
    }

    /// Both ways at once; what is received has the shape of `x` unless another one is said.
    pub(crate) fn send_recv(
        &self,
        x: Array<'_, 'py>,
        dst: i64,
        src: i64,
        tag: i64,
        shape: Option<Vec<usize>>,
        out: Option<Array<'_, 'py>>,
    ) -> PyResult<Prepared> {
        let to = Some(self.peer("destination", dst)?);
        let from = Some(self.peer("source", src)?);
        let tag = self.tag(tag)?;
        let source = Source::read(x)?;
        let dtype = source.dtype;
        let target = match (shape, out) {
            (None, Some(out)) => {
                let target = Target::of(out, "out")?;
                let shape = target.shape.clone();
                target.check(dtype, &shape)?
            }
            (Some(shape), out) => self.target(out, dtype, &shape, Some(&source))?,
            (None, None) => self.target(None, dtype, &source.shape, Some(&source))?,
        };
        let input = self.beside(source, &target, false)?;
        let call = Call::Message { dtype, to, from, tag };
        Ok(Prepared { input, output: Some(target.view), result: target.object.unbind(), call })
    }

    fn expected(&self, expected: &Expected<'_, 'py>) -> PyResult<Target<'py>> {
        let dtype = expected.dtype.map(element::from_object).transpose()?;
        match (&expected.shape, dtype, expected.out) {
            (shape, dtype, Some(out)) => {
                let target = Target::of(out, "out")?;
                let dtype = dtype.unwrap_or(target.dtype);
                let shape = shape.clone().unwrap_or_else(|| target.shape.clone());
                target.check(dtype, &shape)
            }
            (Some(shape), Some(dtype), None) => Target::new(self.py, dtype, shape, None),
            _ => Err(errors::argument(
                self.py,
                "missing_buffer",
                format!(
                    "rank {} must say what it receives: out=, or shape= and dtype=",
                    self.rank()
                ),
            )),
        }
    }
}

/// What a rank receives, as far as it says so itself.
pub(crate) struct Expected<'a, 'py> {
    pub(crate) shape: Option<Vec<usize>>,
    pub(crate) dtype: Option<&'a Bound<'py, PyAny>>,
    pub(crate) out: Option<&'a Bound<'py, PyAny>>,
}

/// Length of axis 0; a scalar is one row.
fn rows(shape: &[usize]) -> usize {
    shape.first().copied().unwrap_or(1)
}

/// Elements of one row.
fn row(shape: &[usize]) -> usize {
    shape.iter().skip(1).product()
}

fn with_rows(rows: usize, shape: &[usize]) -> Vec<usize> {
    std::iter::once(rows).chain(shape.iter().skip(1).copied()).collect()
}
