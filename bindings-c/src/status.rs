//! What calls return. The numbers are part of the ABI: they are never reused.

use lycaon::error::ErrorKind;

/// How a call went. 0 is success; the hundreds say which family an error belongs to, and so what
/// state it leaves behind (docs/errors.md of the project says more).
///
/// Programs must expect numbers that are not listed here: later versions may add some, in the same
/// families.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum lycaon_status {
    /// Success.
    Ok = 0,

    /// Wrong use of this interface: a pointer that must not be NULL is NULL.
    NullPointer = 1,
    /// Wrong use of this interface: a number is no variant of its enumeration.
    UnknownNumber = 2,
    /// Wrong use of this interface: text that is not UTF-8.
    NotText = 3,
    /// Wrong use of this interface: a number is not in its range.
    OutOfRange = 4,
    /// Wrong use of this interface: a bug of the library, caught before it could reach the caller.
    Internal = 5,

    /// Argument: the operator is not defined for the element type.
    Unsupported = 100,
    /// Argument: no element type has this number.
    UnknownDtype = 101,
    /// Argument: no operator has this number.
    UnknownOp = 102,
    /// Argument: a rank that is not in the group.
    NoSuchRank = 103,
    /// Argument: a message to oneself.
    SelfMessage = 104,
    /// Argument: a buffer has the wrong length.
    Length = 105,
    /// Argument: bytes that are no whole number of elements.
    Ragged = 106,
    /// Argument: a buffer cannot be cut into equal blocks.
    Indivisible = 107,
    /// Argument: a list of counts has not one entry per rank.
    Counts = 108,
    /// Argument: input and output overlap without being the same buffer.
    Overlap = 109,
    /// Argument: a buffer that this rank has to give is missing.
    MissingBuffer = 110,
    /// Argument: a buffer was given that this rank has no use for.
    UnusedBuffer = 111,
    /// Argument: more bytes than this machine can address.
    TooLarge = 112,
    /// Argument: a collective was asked for with something that is none.
    NotACollective = 113,
    /// Argument: counts by rank in a form that the operation does not have.
    CountsForm = 114,
    /// Argument: a reduction without an operator.
    MissingOp = 115,
    /// Argument: an operator for an operation that does not reduce.
    UnusedOp = 116,

    /// Configuration: a value is not what it must be.
    Value = 200,
    /// Configuration: a variable is missing while others of its family are set.
    Missing = 201,
    /// Configuration: two values contradict each other.
    Conflict = 202,
    /// Configuration: a file could not be read.
    File = 203,
    /// Configuration: a file's content is wrong.
    Content = 204,
    /// Configuration: without a token only this machine may take part.
    TokenNeeded = 205,

    /// Start: the start-up deadline passed.
    StartDeadline = 300,
    /// Start: the rendezvous address could not be listened on or reached.
    Unreachable = 301,
    /// Start: one side does not know the job's token.
    Authentication = 302,
    /// Start: two ranks differ in something that must be equal.
    Disagreement = 303,
    /// Start: two processes claim one rank.
    DuplicateRank = 304,
    /// Start: a rank failed or went away while the group was forming.
    RankFailed = 305,
    /// Start: no link that both sides accept joins two ranks.
    NoLink = 306,
    /// Start: the operating system refused something.
    System = 307,
    /// Start: the program's own all-gather function failed.
    SideChannel = 308,
    /// Start: the wait was interrupted by the program.
    StartInterrupted = 309,

    /// Operation: a process ended without closing its group.
    RankDied = 400,
    /// Operation: a rank closed the group while others still needed it.
    RankLeft = 401,
    /// Operation: a link broke while both processes live.
    LinkLost = 402,
    /// Operation: nothing moved for as long as the deadline allows.
    Deadline = 403,
    /// Operation: two ranks called different things at the same place of the order.
    Mismatch = 404,
    /// Operation: the program asked for an end of waiting.
    Interrupted = 405,
    /// Operation: this process closed the group itself.
    Closed = 406,
    /// Operation: this process is a fork of the one that owns the group.
    Forked = 407,
    /// Operation: a peer sent what the protocol does not allow.
    Protocol = 408,
    /// Operation: one of the library's own threads panicked: a bug to report.
    Panicked = 409,
}

/// What is left behind by an error: the hundreds of its status.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum lycaon_family {
    /// Wrong use of this interface. Nothing was done.
    Usage = 0,
    /// The call makes no sense; nothing was sent and the group goes on.
    Argument = 1,
    /// The environment or a value of a configuration is wrong; nothing was started.
    Config = 2,
    /// The group could not be formed; nothing is left of it.
    Start = 3,
    /// An operation failed; the group is poisoned, unless the wait of a lycaon_work was interrupted.
    Operation = 4,
}

impl lycaon_status {
    /// All of them.
    pub const ALL: &[lycaon_status] = &[
        Self::Ok,
        Self::NullPointer,
        Self::UnknownNumber,
        Self::NotText,
        Self::OutOfRange,
        Self::Internal,
        Self::Unsupported,
        Self::UnknownDtype,
        Self::UnknownOp,
        Self::NoSuchRank,
        Self::SelfMessage,
        Self::Length,
        Self::Ragged,
        Self::Indivisible,
        Self::Counts,
        Self::Overlap,
        Self::MissingBuffer,
        Self::UnusedBuffer,
        Self::TooLarge,
        Self::NotACollective,
        Self::CountsForm,
        Self::MissingOp,
        Self::UnusedOp,
        Self::Value,
        Self::Missing,
        Self::Conflict,
        Self::File,
        Self::Content,
        Self::TokenNeeded,
        Self::StartDeadline,
        Self::Unreachable,
        Self::Authentication,
        Self::Disagreement,
        Self::DuplicateRank,
        Self::RankFailed,
        Self::NoLink,
        Self::System,
        Self::SideChannel,
        Self::StartInterrupted,
        Self::RankDied,
        Self::RankLeft,
        Self::LinkLost,
        Self::Deadline,
        Self::Mismatch,
        Self::Interrupted,
        Self::Closed,
        Self::Forked,
        Self::Protocol,
        Self::Panicked,
    ];

    /// The name, for example `rank_died`.
    pub const fn name(self) -> &'static std::ffi::CStr {
        match self {
            Self::Ok => c"ok",
            Self::NullPointer => c"null_pointer",
            Self::UnknownNumber => c"unknown_number",
            Self::NotText => c"not_text",
            Self::OutOfRange => c"out_of_range",
            Self::Internal => c"internal",
            Self::Unsupported => c"unsupported",
            Self::UnknownDtype => c"unknown_dtype",
            Self::UnknownOp => c"unknown_op",
            Self::NoSuchRank => c"no_such_rank",
            Self::SelfMessage => c"self_message",
            Self::Length => c"length",
            Self::Ragged => c"ragged",
            Self::Indivisible => c"indivisible",
            Self::Counts => c"counts",
            Self::Overlap => c"overlap",
            Self::MissingBuffer => c"missing_buffer",
            Self::UnusedBuffer => c"unused_buffer",
            Self::TooLarge => c"too_large",
            Self::NotACollective => c"not_a_collective",
            Self::CountsForm => c"counts_form",
            Self::MissingOp => c"missing_op",
            Self::UnusedOp => c"unused_op",
            Self::Value => c"value",
            Self::Missing => c"missing",
            Self::Conflict => c"conflict",
            Self::File => c"file",
            Self::Content => c"content",
            Self::TokenNeeded => c"token_needed",
            Self::StartDeadline => c"start_deadline",
            Self::Unreachable => c"unreachable",
            Self::Authentication => c"authentication",
            Self::Disagreement => c"disagreement",
            Self::DuplicateRank => c"duplicate_rank",
            Self::RankFailed => c"rank_failed",
            Self::NoLink => c"no_link",
            Self::System => c"system",
            Self::SideChannel => c"side_channel",
            Self::StartInterrupted => c"start_interrupted",
            Self::RankDied => c"rank_died",
            Self::RankLeft => c"rank_left",
            Self::LinkLost => c"link_lost",
            Self::Deadline => c"deadline",
            Self::Mismatch => c"mismatch",
            Self::Interrupted => c"interrupted",
            Self::Closed => c"closed",
            Self::Forked => c"forked",
            Self::Protocol => c"protocol",
            Self::Panicked => c"panicked",
        }
    }

    /// What state is left behind.
    pub const fn family(self) -> lycaon_family {
        match self as u32 / 100 {
            1 => lycaon_family::Argument,
            2 => lycaon_family::Config,
            3 => lycaon_family::Start,
            4 => lycaon_family::Operation,
            _ => lycaon_family::Usage,
        }
    }

    /// The status with this number.
    pub fn from_number(number: u32) -> Option<lycaon_status> {
        Self::ALL.iter().copied().find(|status| *status as u32 == number)
    }
}

// Without an arm for the rest on purpose: a kind that the core gains needs a number here.
impl From<ErrorKind> for lycaon_status {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::UnknownDType => Self::UnknownDtype,
            ErrorKind::UnknownOp => Self::UnknownOp,
            ErrorKind::NoSuchRank => Self::NoSuchRank,
            ErrorKind::SelfMessage => Self::SelfMessage,
            ErrorKind::Length => Self::Length,
            ErrorKind::Ragged => Self::Ragged,
            ErrorKind::Indivisible => Self::Indivisible,
            ErrorKind::Counts => Self::Counts,
            ErrorKind::Overlap => Self::Overlap,
            ErrorKind::MissingBuffer => Self::MissingBuffer,
            ErrorKind::UnusedBuffer => Self::UnusedBuffer,
            ErrorKind::TooLarge => Self::TooLarge,
            ErrorKind::NotACollective => Self::NotACollective,
            ErrorKind::CountsForm => Self::CountsForm,
            ErrorKind::MissingOp => Self::MissingOp,
            ErrorKind::UnusedOp => Self::UnusedOp,
            ErrorKind::Value => Self::Value,
            ErrorKind::Missing => Self::Missing,
            ErrorKind::Conflict => Self::Conflict,
            ErrorKind::File => Self::File,
            ErrorKind::Content => Self::Content,
            ErrorKind::TokenNeeded => Self::TokenNeeded,
            ErrorKind::StartDeadline => Self::StartDeadline,
            ErrorKind::Unreachable => Self::Unreachable,
            ErrorKind::Authentication => Self::Authentication,
            ErrorKind::Disagreement => Self::Disagreement,
            ErrorKind::DuplicateRank => Self::DuplicateRank,
            ErrorKind::RankFailed => Self::RankFailed,
            ErrorKind::NoLink => Self::NoLink,
            ErrorKind::System => Self::System,
            ErrorKind::SideChannel => Self::SideChannel,
            ErrorKind::StartInterrupted => Self::StartInterrupted,
            ErrorKind::RankDied => Self::RankDied,
            ErrorKind::RankLeft => Self::RankLeft,
            ErrorKind::LinkLost => Self::LinkLost,
            ErrorKind::Deadline => Self::Deadline,
            ErrorKind::Mismatch => Self::Mismatch,
            ErrorKind::Interrupted => Self::Interrupted,
            ErrorKind::Closed => Self::Closed,
            ErrorKind::Forked => Self::Forked,
            ErrorKind::Protocol => Self::Protocol,
            ErrorKind::Panicked => Self::Panicked,
        }
    }
}
