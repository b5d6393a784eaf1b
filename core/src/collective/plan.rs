//! A plan: what one rank sends, receives, reduces and copies, and what has to come first.

use crate::dtype::{DType, Op};

/// One of the buffers of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// The caller's input, read only. Absent when the operation runs in place.
    Input,
    /// The caller's output.
    Output,
    /// Memory of the engine, `Plan::scratch` bytes.
    Scratch,
}

/// A range of bytes in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Span {
    /// The buffer.
    pub slot: Slot,
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

impl Span {
    /// A range of a buffer.
    pub(crate) const fn new(slot: Slot, offset: usize, len: usize) -> Self {
        Span { slot, offset, len }
    }

    /// Whether two ranges share a byte. `Input` and `Output` never do.
    pub(crate) fn overlaps(&self, other: &Span) -> bool {
        self.slot == other.slot
            && self.offset < other.offset + other.len
            && other.offset < self.offset + self.len
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// Send a message to a rank of the group. Done when the bytes may be overwritten.
    Send {
        /// The receiver.
        peer: usize,
        /// The bytes.
        from: Span,
    },
    /// Receive a message from a rank of the group.
    Recv {
        /// The sender.
        peer: usize,
        /// Where to; the message has exactly this length.
        into: Span,
    },
    /// Combine sources into a destination, in this order: `((s0 op s1) op s2) …`. The destination
    /// may be equal to one of the sources; else it overlaps none. All have the same length.
    Reduce {
        /// The operator.
        op: Op,
        /// For `Op::Avg`: divide by this after the last addition; 1 divides nothing.
        divisor: u32,
        /// The element type.
        dtype: DType,
        /// Where the result goes.
        into: Span,
        /// The sources, at least one.
        sources: Vec<Span>,
    },
    /// Copy bytes. The ranges do not overlap.
    Copy {
        /// From here.
        from: Span,
        /// To here.
        into: Span,
    },
}

/// An action with the actions that have to be done before it starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step {
    /// What to do.
    pub action: Action,
    /// Indices of earlier steps.
    pub after: Vec<u32>,
}

/// What one rank does, as a graph.
///
/// Sends to one peer are posted in the order of the steps, and so are receives from one peer: the
/// k-th message that a rank receives from a peer is the k-th that the peer sends to it. `after`
/// names only earlier steps, so the order of the steps is a valid order of execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
    /// Bytes of scratch memory needed.
    pub scratch: usize,
}

impl Plan {
    /// Adds an action and returns its index.
    pub(crate) fn push(&mut self, action: Action, after: impl IntoIterator<Item = u32>) -> u32 {
        let index = u32::try_from(self.steps.len()).expect("a plan has fewer than 2^32 steps");
        let after: Vec<u32> = after.into_iter().collect();
        debug_assert!(after.iter().all(|earlier| *earlier < index));
        self.steps.push(Step { action, after });
        index
    }
}
