//! What a rank has called: the part of an operation that every rank must agree on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dtype::{DType, Op};

/// The operations of a group.
///
/// The numbers are part of the wire protocol: they are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum Operation {
    /// Every rank gets the reduction of all contributions.
    AllReduce = 0,
    /// Every rank gets the contributions of all ranks, in rank order.
    AllGather = 1,
    /// Rank `i` gets block `i` of the reduction of all contributions.
    ReduceScatter = 2,
    /// Every rank gets the root's buffer.
    Broadcast = 3,
    /// The root gets the reduction of all contributions.
    Reduce = 4,
    /// The root gets the contributions of all ranks, in rank order.
    Gather = 5,
    /// Rank `i` gets block `i` of the root's buffer.
    Scatter = 6,
    /// Rank `i` gets block `i` of every rank's buffer, in rank order.
    AllToAll = 7,
    /// Rank `i` gets the reduction of the contributions of ranks `0..=i`.
    Scan = 8,
    /// Nobody returns before everybody has called.
    Barrier = 9,
    /// A message to one rank.
    Send = 10,
    /// A message from one rank.
    Recv = 11,
    /// A message to one rank and a message from one rank at the same time.
    SendRecv = 12,
    /// Sub-groups are formed.
    Split = 13,
}

impl Operation {
    /// All operations, in the order of their numbers.
    pub const ALL: [Operation; 14] = [
        Operation::AllReduce,
        Operation::AllGather,
        Operation::ReduceScatter,
        Operation::Broadcast,
        Operation::Reduce,
        Operation::Gather,
        Operation::Scatter,
        Operation::AllToAll,
        Operation::Scan,
        Operation::Barrier,
        Operation::Send,
        Operation::Recv,
        Operation::SendRecv,
        Operation::Split,
    ];

    /// The name used in messages and by the command line, for example `all_reduce`.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::AllReduce => "all_reduce",
            Operation::AllGather => "all_gather",
            Operation::ReduceScatter => "reduce_scatter",
            Operation::Broadcast => "broadcast",
            Operation::Reduce => "reduce",
            Operation::Gather => "gather",
            Operation::Scatter => "scatter",
            Operation::AllToAll => "all_to_all",
            Operation::Scan => "scan",
            Operation::Barrier => "barrier",
            Operation::Send => "send",
            Operation::Recv => "recv",
            Operation::SendRecv => "send_recv",
            Operation::Split => "split",
        }
    }

    /// The operation with this number, if there is one.
    pub const fn from_number(number: u8) -> Option<Operation> {
        if (number as usize) < Self::ALL.len() { Some(Self::ALL[number as usize]) } else { None }
    }

    /// Whether this is a message between two ranks and not a collective.
    pub const fn is_point_to_point(self) -> bool {
        matches!(self, Operation::Send | Operation::Recv | Operation::SendRecv)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One call of an operation, as far as all ranks must agree on it.
///
/// It travels with every message and stands in every shared-memory slot; two ranks whose calls
/// differ both fail with [`Cause::Mismatch`](crate::error::Cause::Mismatch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Call {
    /// The operation.
    pub operation: Operation,
    /// The element type.
    pub dtype: DType,
    /// The operator of a reduction.
    pub op: Option<Op>,
    /// The root of a rooted operation.
    pub root: Option<u32>,
    /// Elements of the call: of one rank's contribution for all_reduce, all_gather, broadcast,
    /// reduce, gather, scan and messages; of one block for reduce_scatter, scatter and
    /// all_to_all. For operations with counts that differ by rank and are known to all, the sum
    /// of the counts; 0 where the counts are not known to all.
    pub count: u64,
    /// A hash of the counts by rank where they differ and all ranks know them; 1 or 2 where they
    /// differ and not all ranks know them; else 0.
    pub layout: u32,
}

impl Call {
    /// Length of the encoded form.
    pub const ENCODED: usize = 20;

    /// `layout` where only the root knows the counts.
    pub(crate) const COUNTS_AT_ROOT: u32 = 1;
    /// `layout` where each pair of ranks has a count of its own.
    pub(crate) const COUNTS_EXCHANGED: u32 = 2;

    /// Whether no more than two ranks know of each count.
    pub(crate) const fn has_counts_of_pairs(&self) -> bool {
        matches!(self.layout, Self::COUNTS_AT_ROOT | Self::COUNTS_EXCHANGED)
    }

    /// A collective call without root or operator.
    pub const fn new(operation: Operation, dtype: DType, count: u64) -> Self {
        Call { operation, dtype, op: None, root: None, count, layout: 0 }
    }

    /// The fixed binary form, little-endian.
    pub fn encode(&self) -> [u8; Self::ENCODED] {
        let mut bytes = [0; Self::ENCODED];
        bytes[0] = self.operation as u8;
        bytes[1] = self.dtype as u8;
        bytes[2] = self.op.map_or(0xff, |op| op as u8);
        bytes[4..8].copy_from_slice(&self.root.unwrap_or(u32::MAX).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.layout.to_le_bytes());
        bytes
    }

    /// Reads the form that [`Call::encode`] writes; `None` if a number is not known.
    pub fn decode(bytes: &[u8; Self::ENCODED]) -> Option<Self> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let op = match bytes[2] {
            0xff => None,
            number => Some(Op::from_number(number)?),
        };
        let root = match word(4) {
            u32::MAX => None,
            root => Some(root),
        };
        Some(Call {
            operation: Operation::from_number(bytes[0])?,
            dtype: DType::from_number(bytes[1])?,
            op,
            root,
            count: u64::from(word(8)) | u64::from(word(12)) << 32,
            layout: word(16),
        })
    }

    /// A 32-bit digest of the encoded form (FNV-1a), for places too small for the whole.
    pub fn digest(&self) -> u32 {
        fnv1a(&self.encode())
    }
}

/// 32-bit FNV-1a (Fowler, Noll, Vo).
pub(crate) fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if self.operation == Operation::Barrier || self.operation == Operation::Split {
            return Ok(());
        }
        write!(f, " ({} × {}", self.dtype, self.count)?;
        if let Some(op) = self.op {
            write!(f, ", {op}")?;
        }
        if let Some(root) = self.root {
            write!(f, ", root {root}")?;
        }
        if self.has_counts_of_pairs() {
            f.write_str(", counts by rank")?;
        } else if self.layout != 0 {
            write!(f, ", layout {:08x}", self.layout)?;
        }
        f.write_str(")")
    }
}

/// A call with its place in the order of its group: `all_reduce #41 (f32 × 1024, sum)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Signature {
    /// Number of the collective in its group, from 0; for a message, its number on its tag
    /// between the two ranks.
    pub sequence: u64,
    /// The call.
    pub call: Call,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.call.to_string();
        match text.split_once(' ') {
            Some((name, rest)) => write!(f, "{name} #{} {rest}", self.sequence),
            None => write!(f, "{text} #{}", self.sequence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_round_trips_and_rejects_unknown_numbers() {
        let call = Call {
            operation: Operation::Reduce,
            dtype: DType::Bf16,
            op: Some(Op::Max),
            root: Some(7),
            count: 0x1_2345_6789_abcd,
            layout: 99,
        };
        assert_eq!(Call::decode(&call.encode()), Some(call));
        let plain = Call::new(Operation::Barrier, DType::U8, 0);
        assert_eq!(Call::decode(&plain.encode()), Some(plain));
        for (at, value) in [(0, 14), (1, 15), (2, 10)] {
            let mut bytes = call.encode();
            bytes[at] = value;
            assert_eq!(Call::decode(&bytes), None, "byte {at}");
        }
    }

    #[test]
    fn a_signature_reads_like_a_call() {
        let mut call = Call::new(Operation::AllReduce, DType::F32, 1024);
        call.op = Some(Op::Sum);
        let text = Signature { sequence: 41, call }.to_string();
        assert_eq!(text, "all_reduce #41 (f32 × 1024, sum)");
        let barrier = Call::new(Operation::Barrier, DType::U8, 0);
        assert_eq!(Signature { sequence: 3, call: barrier }.to_string(), "barrier #3");
    }
}
