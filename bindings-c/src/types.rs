//! The enumerations of the header. Their numbers are part of the ABI: they are never reused.

use lycaon::config::QueuePairs;
use lycaon::error::LinkKind;
use lycaon::{Algorithm, DType, Op, Operation};

use crate::error::{Failure, Outcome};
use crate::status::lycaon_status;

/// A number that should be an element type.
pub type dtype_number = u32;
/// A number that should be an operator.
pub type op_number = u32;
/// A number that should be an operation.
pub type operation_number = u32;
/// A number that should be an algorithm.
pub type algorithm_number = u32;
/// A number that should be a kind of link.
pub type link_kind_number = u32;
/// A number that should be a type of queue pair.
pub type queue_pairs_number = u32;

/// The type of one element of a buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lycaon_dtype {
    /// One byte, 0 or 1. Any other non-zero byte is read as 1.
    Bool = 0,
    /// Signed 8-bit integer.
    I8 = 1,
    /// Signed 16-bit integer.
    I16 = 2,
    /// Signed 32-bit integer.
    I32 = 3,
    /// Signed 64-bit integer.
    I64 = 4,
    /// Unsigned 8-bit integer.
    U8 = 5,
    /// Unsigned 16-bit integer.
    U16 = 6,
    /// Unsigned 32-bit integer.
    U32 = 7,
    /// Unsigned 64-bit integer.
    U64 = 8,
    /// IEEE 754 binary16. Sums and products are accumulated in binary32 and rounded once.
    F16 = 9,
    /// bfloat16. Sums and products are accumulated in binary32 and rounded once.
    Bf16 = 10,
    /// IEEE 754 binary32: `float`.
    F32 = 11,
    /// IEEE 754 binary64: `double`.
    F64 = 12,
    /// Two binary32: real and imaginary part.
    Complex64 = 13,
    /// Two binary64: real and imaginary part.
    Complex128 = 14,
    /// No element type, or one that this version has no number for.
    None = 255,
}

/// How contributions are combined.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lycaon_op {
    /// Sum. Integers wrap; for bool it is logical or.
    Sum = 0,
    /// Product. Integers wrap; for bool it is logical and.
    Prod = 1,
    /// Minimum. NaN propagates; -0 is smaller than +0. Not for complex types.
    Min = 2,
    /// Maximum. NaN propagates; +0 is larger than -0. Not for complex types.
    Max = 3,
    /// Sum divided by the number of contributions. Floating-point and complex types only.
    Avg = 4,
    /// Bitwise and. Integers and bool.
    BitAnd = 5,
    /// Bitwise or. Integers and bool.
    BitOr = 6,
    /// Bitwise exclusive or. Integers and bool.
    BitXor = 7,
    /// Logical and: 1 if every contribution is non-zero, else 0. Integers and bool.
    LogicalAnd = 8,
    /// Logical or: 1 if any contribution is non-zero, else 0. Integers and bool.
    LogicalOr = 9,
    /// No operator, or one that this version has no number for.
    None = 255,
}

/// The operations of a group, as errors and the flight recorder name them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lycaon_operation {
    /// Every rank gets the reduction of all contributions.
    AllReduce = 0,
    /// Every rank gets the contributions of all ranks, in rank order.
    AllGather = 1,
    /// Rank i gets block i of the reduction of all contributions.
    ReduceScatter = 2,
    /// Every rank gets the root's buffer.
    Broadcast = 3,
    /// The root gets the reduction of all contributions.
    Reduce = 4,
    /// The root gets the contributions of all ranks, in rank order.
    Gather = 5,
    /// Rank i gets block i of the root's buffer.
    Scatter = 6,
    /// Rank i gets block i of every rank's buffer, in rank order.
    AllToAll = 7,
    /// Rank i gets the reduction of the contributions of ranks 0 to i.
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
    /// No operation, one that this version has no number for, or all of them.
    None = 255,
}

/// How a collective is carried out.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lycaon_algorithm {
    /// None: a message, a group of one, or an algorithm that this version has no number for.
    None = 0,
    /// Everybody sends to everybody (or to and from the root) at once: one step.
    Direct = 1,
    /// Reduce-scatter, then all-gather: two steps, the fewest possible bytes.
    TwoStep = 2,
    /// Neighbours in a ring; the fewest possible bytes, one link in use at a time.
    Ring = 3,
    /// About log2(size) steps: recursive doubling, dissemination or a binomial tree.
    Logarithmic = 4,
    /// Through memory that all ranks see.
    Arena = 5,
}

/// What joins one pair of ranks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lycaon_link_kind {
    /// No link.
    None = 0,
    /// Threads of one process.
    Memory = 1,
    /// Shared memory of one host.
    Shm = 2,
    /// TCP sockets.
    Tcp = 3,
    /// RDMA: verbs over Thunderbolt, Ethernet or InfiniBand.
    Rdma = 4,
    /// A kind that this version has no number for; `detail` of the link says more.
    Other = 255,
}

/// The type of RDMA queue pairs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lycaon_queue_pairs {
    /// Nothing is said: reliable ones where both ends have them.
    None = 0,
    /// RC: what is lost is sent again.
    Reliable = 1,
    /// UC: Apple's devices have only these.
    Unreliable = 2,
}

impl From<Operation> for lycaon_operation {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::AllReduce => Self::AllReduce,
            Operation::AllGather => Self::AllGather,
            Operation::ReduceScatter => Self::ReduceScatter,
            Operation::Broadcast => Self::Broadcast,
            Operation::Reduce => Self::Reduce,
            Operation::Gather => Self::Gather,
            Operation::Scatter => Self::Scatter,
            Operation::AllToAll => Self::AllToAll,
            Operation::Scan => Self::Scan,
            Operation::Barrier => Self::Barrier,
            Operation::Send => Self::Send,
            Operation::Recv => Self::Recv,
            Operation::SendRecv => Self::SendRecv,
            Operation::Split => Self::Split,
            // The enums of the core may grow; tests/numbers.rs goes through `ALL`.
            _ => Self::None,
        }
    }
}

impl From<Algorithm> for lycaon_algorithm {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Direct => Self::Direct,
            Algorithm::TwoStep => Self::TwoStep,
            Algorithm::Ring => Self::Ring,
            Algorithm::Logarithmic => Self::Logarithmic,
            Algorithm::Arena => Self::Arena,
            _ => Self::None,
        }
    }
}

impl From<LinkKind> for lycaon_link_kind {
    fn from(kind: LinkKind) -> Self {
        match kind {
            LinkKind::Memory => Self::Memory,
            LinkKind::Shm => Self::Shm,
            LinkKind::Tcp => Self::Tcp,
            LinkKind::Rdma => Self::Rdma,
            _ => Self::Other,
        }
    }
}

impl From<DType> for lycaon_dtype {
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::Bool => Self::Bool,
            DType::I8 => Self::I8,
            DType::I16 => Self::I16,
            DType::I32 => Self::I32,
            DType::I64 => Self::I64,
            DType::U8 => Self::U8,
            DType::U16 => Self::U16,
            DType::U32 => Self::U32,
            DType::U64 => Self::U64,
            DType::F16 => Self::F16,
            DType::Bf16 => Self::Bf16,
            DType::F32 => Self::F32,
            DType::F64 => Self::F64,
            DType::Complex64 => Self::Complex64,
            DType::Complex128 => Self::Complex128,
            _ => Self::None,
        }
    }
}

impl From<Op> for lycaon_op {
    fn from(op: Op) -> Self {
        match op {
            Op::Sum => Self::Sum,
            Op::Prod => Self::Prod,
            Op::Min => Self::Min,
            Op::Max => Self::Max,
            Op::Avg => Self::Avg,
            Op::BitAnd => Self::BitAnd,
            Op::BitOr => Self::BitOr,
            Op::BitXor => Self::BitXor,
            Op::LogicalAnd => Self::LogicalAnd,
            Op::LogicalOr => Self::LogicalOr,
            _ => Self::None,
        }
    }
}

fn narrow(number: u32) -> Option<u8> {
    u8::try_from(number).ok()
}

/// The element type with this number. The numbers are those of the core.
pub(crate) fn dtype(number: dtype_number) -> Outcome<DType> {
    narrow(number).and_then(DType::from_number).ok_or_else(|| {
        Failure::new(
            lycaon_status::UnknownDtype,
            format!("{number} is no element type; use one of the LYCAON_DTYPE constants"),
        )
    })
}

/// The operator with this number. The numbers are those of the core.
pub(crate) fn op(number: op_number) -> Outcome<Op> {
    narrow(number).and_then(Op::from_number).ok_or_else(|| {
        Failure::new(
            lycaon_status::UnknownOp,
            format!("{number} is no operator; use one of the LYCAON_OP constants"),
        )
    })
}

/// The operation with this number; `None` for `LYCAON_OPERATION_NONE`.
pub(crate) fn operation(number: operation_number) -> Outcome<Option<Operation>> {
    if number == lycaon_operation::None as u32 {
        return Ok(None);
    }
    narrow(number).and_then(Operation::from_number).map(Some).ok_or_else(|| {
        Failure::new(
            lycaon_status::UnknownNumber,
            format!("{number} is no operation; use one of the LYCAON_OPERATION constants"),
        )
    })
}

/// The algorithm with this number.
pub(crate) fn algorithm(number: algorithm_number) -> Outcome<Algorithm> {
    Algorithm::ALL
        .into_iter()
        .find(|algorithm| lycaon_algorithm::from(*algorithm) as u32 == number && number != 0)
        .ok_or_else(|| {
            Failure::new(
                lycaon_status::UnknownNumber,
                format!("{number} is no algorithm; use one of the LYCAON_ALGORITHM constants"),
            )
        })
}

/// The kind of link with this number.
pub(crate) fn link_kind(number: link_kind_number) -> Outcome<LinkKind> {
    [LinkKind::Memory, LinkKind::Shm, LinkKind::Tcp, LinkKind::Rdma]
        .into_iter()
        .find(|kind| lycaon_link_kind::from(*kind) as u32 == number)
        .ok_or_else(|| {
            Failure::new(
                lycaon_status::UnknownNumber,
                format!(
                    "{number} is no kind of link that can be chosen; use LYCAON_LINK_KIND_SHM, LYCAON_LINK_KIND_RDMA or LYCAON_LINK_KIND_TCP"
                ),
            )
        })
}

/// The type of queue pair with this number; none is said by `LYCAON_QUEUE_PAIRS_NONE`.
pub(crate) fn queue_pairs(number: queue_pairs_number) -> Outcome<Option<QueuePairs>> {
    let variants = [
        (lycaon_queue_pairs::None, None),
        (lycaon_queue_pairs::Reliable, Some(QueuePairs::Reliable)),
        (lycaon_queue_pairs::Unreliable, Some(QueuePairs::Unreliable)),
    ];
    let found = variants.into_iter().find(|(variant, _)| *variant as u32 == number);
    found.map(|(_, kind)| kind).ok_or_else(|| {
        Failure::new(
            lycaon_status::UnknownNumber,
            format!(
                "{number} is no type of queue pair; use one of the LYCAON_QUEUE_PAIRS constants"
            ),
        )
    })
}
