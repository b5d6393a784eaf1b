//! Operations whose data fits on the cards: one synchronisation each.

use std::ops::Range;

use super::{ArenaError, Job};
use crate::reduce::{reduce, reduce_in_place};
use crate::transport::arena::{MAX_RANKS, Posting};

/// So many ranks do without the long list of sources, whose filling takes as long as the rest.
const FEW: usize = 4;

impl Job<'_, '_> {
    /// Posts this rank's contribution and waits for the others'.
    fn trade(&mut self, len: usize) -> Result<(), ArenaError> {
        let payload = if self.problem.size == 1 { 0 } else { len };
        let posting = Posting { payload, ..Posting::default() };
        let in_place = self.in_place();
        let (input, output) = self.buffers.parts();
        let own = if in_place { output } else { input };
        self.arena.post(self.signature, &posting, |card| card.copy_from_slice(&own[..payload]))?;
        self.arena.wait_cards(self.waiter)
    }

    /// Nobody returns before everybody has called.
    pub(super) fn barrier(&mut self) -> Result<(), ArenaError> {
        self.arena.post(self.signature, &Posting::default(), |_| ())?;
        self.arena.wait_cards(self.waiter)
    }

    /// all_reduce, reduce, reduce_scatter and scan: trades contributions of `len` bytes and reduces
    /// those of the ranks before `until`. `result` says which part of the contributions goes to
    /// which part of the output; `None` where this rank gets nothing.
    pub(super) fn reduce_cards(
        &mut self,
        len: usize,
        until: usize,
        result: Option<(Range<usize>, Range<usize>)>,
    ) -> Result<(), ArenaError> {
        self.trade(len)?;
        let Some((result, into)) = result else { return Ok(()) };
        if until <= FEW {
            self.reduce_payloads::<FEW>(len, until, result, into);
        } else {
            self.reduce_payloads::<MAX_RANKS>(len, until, result, into);
        }
        Ok(())
    }

    /// `MOST`: at least `until`.
    fn reduce_payloads<const MOST: usize>(
        &mut self,
        len: usize,
        until: usize,
        result: Range<usize>,
        into: Range<usize>,
    ) {
        let (dtype, op, divisor) = (self.problem.dtype, self.op(), self.divisor(until));
        let (rank, in_place) = (self.problem.rank, self.in_place());
        let (input, output) = self.buffers.parts();
        let mut sources: [&[u8]; MOST] = [&[]; MOST];
        for (peer, source) in sources[..until].iter_mut().enumerate() {
            if peer != rank {
                *source = &self.arena.payload(peer, len)[result.clone()];
            } else if !in_place {
                *source = &input[result.clone()];
            }
        }
        let into = &mut output[into];
        if in_place {
            let (before, after) = (&sources[..rank], &sources[rank + 1..until]);
            reduce_in_place(dtype, op, divisor, into, before, after);
        } else {
            reduce(dtype, op, divisor, into, &sources[..until]);
        }
    }
}
