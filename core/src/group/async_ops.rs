//! The operations that run in the background and return a [`Work`].

use std::any::Any;

use crate::call::{Operation, Signature};
use crate::dtype::{DType, Element, Op};
use crate::error::{ArgumentError, Result};
use crate::sys::buf::{Lent, Parcel};
use crate::work::Work;

use super::core::Message;
use super::ops::{whole, wide};
use super::request::RequestCounts;
use super::worker::{self, Collective};
use super::{Group, Request};

/// Asynchronous forms. They take ownership of the data, check the call at once, and give the data
/// back from [`Work::wait`]. Collectives run in the order of the calls, also between blocking and
/// asynchronous ones; messages do not wait for collectives.
impl Group {
    /// Starts a collective on owned bytes; see [`run`](Group::run).
    pub fn start(&self, request: &Request, mut parcel: Parcel) -> Result<Work<Parcel>> {
        let core = self.core();
        if request.operation == Operation::AllToAll && parcel.input.is_none() {
            // all_to_all has no algorithm that works in place.
            if let Some(output) = &mut parcel.output {
                parcel.input = Some(Box::new(crate::sys::buf::copy_of(output.as_mut())));
            }
        }
        let lent = Lent::new(parcel);
        let (input, output) = lent.lengths();
        let checked = core.check(request, input, output)?;
        core.usable()?;
        let mut number = 0;
        let call = checked.call;
        let completion = self.worker().submit_collective(|| {
            number = core.turn.take();
            Collective { number, checked, lent: lent.clone() }
        });
        let signature = Signature { sequence: number, call };
        Ok(Work::new(self.clone(), completion, lent, |parcel| parcel, signature))
    }

    fn start_typed<T: Element>(
        &self,
        request: Request,
        input: Option<Vec<T>>,
        output: Option<Vec<T>>,
    ) -> Result<Work<Vec<T>>> {
        let parcel = Parcel {
            input: input.map(|input| Box::new(input) as _),
            output: output.map(|output| Box::new(output) as _),
        };
        Ok(self.start(&request, parcel)?.map(output_or_input::<T>))
    }

    /// Asynchronous [`all_reduce`](Group::all_reduce); the result comes back in `data`.
    pub fn all_reduce_async<T: Element>(&self, data: Vec<T>, op: Op) -> Result<Work<Vec<T>>> {
        self.start_typed(Request::new(Operation::AllReduce, T::DTYPE).op(op), None, Some(data))
    }

    /// Asynchronous [`all_gather`](Group::all_gather); the result has `size` times the length.
    pub fn all_gather_async<T: Element>(&self, input: Vec<T>) -> Result<Work<Vec<T>>> {
        let output = vec![T::default(); input.len() * self.size()];
        self.start_typed(Request::new(Operation::AllGather, T::DTYPE), Some(input), Some(output))
    }

    /// Asynchronous [`all_gather_v`](Group::all_gather_v); the result is as long as all `counts`
    /// together.
    pub fn all_gather_v_async<T: Element>(
        &self,
        input: Vec<T>,
        counts: &[usize],
    ) -> Result<Work<Vec<T>>> {
        let request =
            Request::new(Operation::AllGather, T::DTYPE).counts(RequestCounts::All(wide(counts)));
        let output = vec![T::default(); total::<T>(counts)?];
        self.start_typed(request, Some(input), Some(output))
    }

    /// Asynchronous [`reduce_scatter`](Group::reduce_scatter); the result is this rank's block.
    pub fn reduce_scatter_async<T: Element>(&self, input: Vec<T>, op: Op) -> Result<Work<Vec<T>>> {
        let output = vec![T::default(); input.len() / self.size()];
        let request = Request::new(Operation::ReduceScatter, T::DTYPE).op(op);
        self.start_typed(request, Some(input), Some(output))
    }

    /// Asynchronous [`reduce_scatter_v`](Group::reduce_scatter_v); the result is this rank's part
    /// of `counts[rank]` elements.
    pub fn reduce_scatter_v_async<T: Element>(
        &self,
        input: Vec<T>,
        counts: &[usize],
        op: Op,
    ) -> Result<Work<Vec<T>>> {
        let request = Request::new(Operation::ReduceScatter, T::DTYPE)
            .op(op)
            .counts(RequestCounts::All(wide(counts)));
        // why: counts that do not fit the input must be an error, not an allocation; a list that
        // is too short is found by the check.
        let count = counts.get(self.rank()).map_or(0, |count| (*count).min(input.len()));
        self.start_typed(request, Some(input), Some(vec![T::default(); count]))
    }

    /// Asynchronous [`broadcast`](Group::broadcast).
    pub fn broadcast_async<T: Element>(&self, data: Vec<T>, root: usize) -> Result<Work<Vec<T>>> {
        self.start_typed(Request::new(Operation::Broadcast, T::DTYPE).root(root), None, Some(data))
    }

    /// Asynchronous [`reduce`](Group::reduce); the root gets the result, the others their data.
    pub fn reduce_async<T: Element>(
        &self,
        data: Vec<T>,
        op: Op,
        root: usize,
    ) -> Result<Work<Vec<T>>> {
        let request = Request::new(Operation::Reduce, T::DTYPE).op(op).root(root);
        if self.rank() == root {
            self.start_typed(request, None, Some(data))
        } else {
            self.start_typed(request, Some(data), None)
        }
    }

    /// Asynchronous [`gather`](Group::gather); the root gets all inputs, the others their own.
    pub fn gather_async<T: Element>(&self, input: Vec<T>, root: usize) -> Result<Work<Vec<T>>> {
        let output = (self.rank() == root).then(|| vec![T::default(); input.len() * self.size()]);
        self.start_typed(Request::new(Operation::Gather, T::DTYPE).root(root), Some(input), output)
    }

    /// Asynchronous [`gather_v`](Group::gather_v), where only the root gives the counts; the root
    /// gets all inputs, the others their own.
    pub fn gather_v_async<T: Element>(
        &self,
        input: Vec<T>,
        counts: Option<&[usize]>,
        root: usize,
    ) -> Result<Work<Vec<T>>> {
        self.at_root(root, counts.is_some(), "counts")?;
        let request = Request::new(Operation::Gather, T::DTYPE)
            .root(root)
            .counts(RequestCounts::AtRoot(counts.map_or_else(Vec::new, wide)));
        let output = counts.map(total::<T>).transpose()?.map(|all| vec![T::default(); all]);
        self.start_typed(request, Some(input), output)
    }

    /// Asynchronous [`scatter`](Group::scatter) of the `input` that only the root gives; the result
    /// is this rank's block of `count` elements.
    pub fn scatter_async<T: Element>(
        &self,
        input: Option<Vec<T>>,
        count: usize,
        root: usize,
    ) -> Result<Work<Vec<T>>> {
        let output = vec![T::default(); count];
        self.start_typed(Request::new(Operation::Scatter, T::DTYPE).root(root), input, Some(output))
    }

    /// Asynchronous [`scatter_v`](Group::scatter_v) of the input and counts that only the root
    /// gives; the result is this rank's part of `count` elements.
    pub fn scatter_v_async<T: Element>(
        &self,
        input: Option<(Vec<T>, &[usize])>,
        count: usize,
        root: usize,
    ) -> Result<Work<Vec<T>>> {
        self.at_root(root, input.is_some(), "input and counts")?;
        let counts = input.as_ref().map_or_else(Vec::new, |(_, counts)| wide(counts));
        let request = Request::new(Operation::Scatter, T::DTYPE)
            .root(root)
            .counts(RequestCounts::AtRoot(counts));
        let output = vec![T::default(); count];
        self.start_typed(request, input.map(|(input, _)| input), Some(output))
    }

    /// Asynchronous [`all_to_all`](Group::all_to_all).
    pub fn all_to_all_async<T: Element>(&self, input: Vec<T>) -> Result<Work<Vec<T>>> {
        let output = vec![T::default(); input.len()];
        self.start_typed(Request::new(Operation::AllToAll, T::DTYPE), Some(input), Some(output))
    }

    /// Asynchronous [`all_to_all_v`](Group::all_to_all_v); the result is as long as all
    /// `recv_counts` together.
    pub fn all_to_all_v_async<T: Element>(
        &self,
        input: Vec<T>,
        send_counts: &[usize],
        recv_counts: &[usize],
    ) -> Result<Work<Vec<T>>> {
        let request = Request::new(Operation::AllToAll, T::DTYPE)
            .counts(RequestCounts::Exchange { send: wide(send_counts), recv: wide(recv_counts) });
        let output = vec![T::default(); total::<T>(recv_counts)?];
        self.start_typed(request, Some(input), Some(output))
    }

    /// Asynchronous [`scan`](Group::scan).
    pub fn scan_async<T: Element>(&self, data: Vec<T>, op: Op) -> Result<Work<Vec<T>>> {
        self.start_typed(Request::new(Operation::Scan, T::DTYPE).op(op), None, Some(data))
    }

    /// Asynchronous [`barrier`](Group::barrier).
    pub fn barrier_async(&self) -> Result<Work<()>> {
        let request = Request::new(Operation::Barrier, DType::U8);
        Ok(self.start(&request, Parcel::default())?.map(|_| ()))
    }

    /// Asynchronous [`send`](Group::send); gives the data back.
    pub fn send_async<T: Element>(
        &self,
        data: Vec<T>,
        to: usize,
        tag: u32,
    ) -> Result<Work<Vec<T>>> {
        let parcel = Parcel { input: Some(Box::new(data)), output: None };
        Ok(self.start_message(T::DTYPE, parcel, Some(to), None, tag)?.map(output_or_input::<T>))
    }

    /// Asynchronous [`recv`](Group::recv) of exactly `data.len()` elements.
    pub fn recv_async<T: Element>(
        &self,
        data: Vec<T>,
        from: usize,
        tag: u32,
    ) -> Result<Work<Vec<T>>> {
        let parcel = Parcel { input: None, output: Some(Box::new(data)) };
        Ok(self.start_message(T::DTYPE, parcel, None, Some(from), tag)?.map(output_or_input::<T>))
    }

    /// Asynchronous [`send_recv`](Group::send_recv); gives back what was received.
    pub fn send_recv_async<T: Element>(
        &self,
        data: Vec<T>,
        to: usize,
        into: Vec<T>,
        from: usize,
        tag: u32,
    ) -> Result<Work<Vec<T>>> {
        let parcel = Parcel { input: Some(Box::new(data)), output: Some(Box::new(into)) };
        let work = self.start_message(T::DTYPE, parcel, Some(to), Some(from), tag)?;
        Ok(work.map(output_or_input::<T>))
    }

    /// Starts sending the parcel's input, receiving into its output, or both.
    pub fn start_message(
        &self,
        dtype: DType,
        parcel: Parcel,
        to: Option<usize>,
        from: Option<usize>,
        tag: u32,
    ) -> Result<Work<Parcel>> {
        let core = self.core();
        if let Some(to) = to {
            core.check_peer("destination", to)?;
        }
        if let Some(from) = from {
            core.check_peer("source", from)?;
        }
        let lent = Lent::new(parcel);
        let (input, output) = lent.lengths();
        whole("data", input.unwrap_or(0), dtype)?;
        whole("into", output.unwrap_or(0), dtype)?;
        if to.is_none() && from.is_none() {
            return Err(ArgumentError::MissingBuffer {
                rank: self.rank(),
                what: "a destination or a source",
            }
            .into());
        }
        core.usable()?;
        let message = |peer| Message { peer, tag, dtype };
        let prepared = core.prepare(to.map(message), from.map(message), lent.buffers());
        let signature = prepared.signature;
        let completion = self.worker().submit_message(worker::Message { prepared, dtype });
        Ok(Work::new(self.clone(), completion, lent, |parcel| parcel, signature))
    }
}

/// The sum of counts, as the length of a vector.
fn total<T: Element>(counts: &[usize]) -> Result<usize, ArgumentError> {
    let most = isize::MAX as usize / size_of::<T>();
    counts
        .iter()
        .try_fold(0usize, |sum, count| sum.checked_add(*count))
        .filter(|sum| *sum <= most)
        .ok_or(ArgumentError::TooLarge { what: "output" })
}

/// The vector that went in as output, or as input if there was no output.
fn output_or_input<T: Element>(parcel: Parcel) -> Vec<T> {
    let boxed: Box<dyn Any> = match (parcel.output, parcel.input) {
        (Some(output), _) => output,
        (None, Some(input)) => input,
        (None, None) => return Vec::new(),
    };
    *boxed.downcast::<Vec<T>>().expect("the parcel was made from vectors of this type")
}
