//! Errors on their way to C: the last one of each thread, with its fields.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::time::Duration;

use lycaon::Signature;
use lycaon::error::{
    ArgumentError, Cause, ConfigError, Error, ErrorKind, OperationError, StartError,
};

use crate::guard::guard;
use crate::status::{lycaon_family, lycaon_status};
use crate::types::{lycaon_link_kind, lycaon_operation};

/// What a call inside of the library gives.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// An error before it has become the last one of its thread. It is one pointer, since calls that
/// succeed hand it through all their functions, too.
pub(crate) struct Failure(Box<Details>);

struct Details {
    status: lycaon_status,
    text: String,
    error: Option<Error>,
}

impl Failure {
    /// An error that only this interface can notice.
    #[cold]
    pub(crate) fn new(status: lycaon_status, text: impl Into<String>) -> Self {
        Failure(Box::new(Details { status, text: text.into(), error: None }))
    }

    pub(crate) fn status(&self) -> lycaon_status {
        self.0.status
    }

    /// A pointer that must not be NULL is.
    #[cold]
    pub(crate) fn null(what: &str) -> Self {
        Self::new(lycaon_status::NullPointer, format!("{what} must not be NULL"))
    }
}

impl<E: Into<Error>> From<E> for Failure {
    #[cold]
    fn from(error: E) -> Self {
        let error = error.into();
        Failure(Box::new(Details {
            status: error.kind().into(),
            text: error.to_string(),
            error: Some(error),
        }))
    }
}

/// One field of an error that only errors of its kind have.
#[repr(C)]
pub struct lycaon_error_field {
    /// Its name, for example "dead_rank".
    pub name: *const c_char,
    /// Its value as text. Never NULL.
    pub text: *const c_char,
    /// Its value if it is a number (ranks, counts, nanoseconds), else -1.
    pub number: i64,
}

/// Everything about an error. It belongs to the library; see lycaon_last_error().
///
/// Later versions may add members at the end.
#[repr(C)]
pub struct lycaon_error {
    /// What the call returned.
    pub status: lycaon_status,
    /// What state is left behind.
    pub family: lycaon_family,
    /// The name of the status, for example "rank_died". Never NULL.
    pub kind: *const c_char,
    /// What happened, where, and how to put it right. Never NULL.
    pub message: *const c_char,
    /// Of an operation that failed: this rank, in the group of the operation. Else the rank that the
    /// error is about, or -1.
    pub rank: i32,
    /// The rank of the group that was waited for, or -1.
    pub peer: i32,
    /// The operation that failed here; LYCAON_OPERATION_NONE if the call was refused, or is none.
    pub operation: lycaon_operation,
    /// The link to the peer.
    pub link: lycaon_link_kind,
    /// The number of the operation in its group (of a message: on its tag between its two ranks),
    /// or -1.
    pub sequence: i64,
    /// How long the operation had run, in nanoseconds.
    pub elapsed_ns: u64,
    /// What went wrong first, anywhere in the group: the same text on all ranks. NULL unless an
    /// operation failed.
    pub cause: *const c_char,
    /// The fields that only errors of this kind have; docs/c-abi.md lists them.
    pub fields: *const lycaon_error_field,
    /// How many there are.
    pub field_count: usize,
}

thread_local! {
    static LAST: RefCell<Option<Box<Kept>>> = const { RefCell::new(None) };
}

/// An error with the memory that it points into.
struct Kept {
    error: lycaon_error,
    _texts: Vec<CString>,
    _fields: Vec<lycaon_error_field>,
}

/// The last error of the calling thread: that of the last call on this thread that did not
/// succeed. A call that succeeds leaves it as it is. NULL if there was none.
///
/// The result and everything in it stays as it is until the next call on this thread that does not
/// succeed, or lycaon_clear_last_error(), or the end of the thread.
#[unsafe(no_mangle)]
pub extern "C" fn lycaon_last_error() -> *const lycaon_error {
    guard(|| {
        Ok(LAST.with_borrow(|last| last.as_ref().map_or(ptr::null(), |kept| &raw const kept.error)))
    })
}

/// The text of the last error of the calling thread; "" if there was none. It stays as it is for
/// as long as what lycaon_last_error() returns.
#[unsafe(no_mangle)]
pub extern "C" fn lycaon_last_error_message() -> *const c_char {
    guard(|| {
        Ok(LAST.with_borrow(|last| last.as_ref().map_or(c"".as_ptr(), |kept| kept.error.message)))
    })
}

/// Forgets the last error of the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn lycaon_clear_last_error() {
    guard(|| {
        LAST.set(None);
        Ok(())
    });
}

/// Makes a failure the last error of this thread.
pub(crate) fn keep(failure: &Failure) {
    let kept = Kept::new(failure);
    // During the end of a thread there is no last error any more.
    let _ = LAST.try_with(|last| last.replace(Some(kept)));
}

/// Makes an error of this kind with made-up fields the last one of this thread, for tests of
/// translations.
#[doc(hidden)]
pub fn keep_sample(kind: ErrorKind) {
    keep(&kind.sample().into());
}

/// A text for C. A NUL inside, which no message has, would end it early; it becomes a space.
pub(crate) fn text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("without NUL")
}

fn number(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

fn rank(rank: usize) -> i32 {
    i32::try_from(rank).unwrap_or(i32::MAX)
}

impl Kept {
    fn new(Failure(failure): &Failure) -> Box<Self> {
        let mut texts = vec![text(&failure.text)];
        let message = texts[0].as_ptr();
        let mut error = lycaon_error {
            status: failure.status,
            family: failure.status.family(),
            kind: failure.status.name().as_ptr(),
            message,
            rank: -1,
            peer: -1,
            operation: lycaon_operation::None,
            link: lycaon_link_kind::None,
            sequence: -1,
            elapsed_ns: 0,
            cause: ptr::null(),
            fields: ptr::null(),
            field_count: 0,
        };
        let mut fields = Fields::default();
        match &failure.error {
            Some(Error::Argument(of)) => of_argument(&mut fields, of),
            Some(Error::Config(of)) => of_config(&mut fields, of),
            Some(Error::Start(of)) => of_start(&mut fields, of),
            Some(Error::Operation(of)) => {
                of_operation(&mut fields, of);
                error.rank = rank(of.rank);
                error.peer = of.peer.map_or(-1, rank);
                error.link = of.link.map_or(lycaon_link_kind::None, Into::into);
                error.elapsed_ns = of.elapsed.as_nanos().try_into().unwrap_or(u64::MAX);
                if let Some(signature) = &of.operation {
                    error.operation = signature.call.operation.into();
                    error.sequence = number(signature.sequence);
                }
                let cause = text(&of.cause.to_string());
                error.cause = cause.as_ptr();
                texts.push(cause);
            }
            _ => {}
        }
        if error.rank < 0
            && let Some(field) = fields.0.iter().find(|field| field.name == c"rank")
        {
            error.rank = i32::try_from(field.number).unwrap_or(i32::MAX);
        }
        let mut listed = Vec::with_capacity(fields.0.len());
        for field in fields.0 {
            listed.push(lycaon_error_field {
                name: field.name.as_ptr(),
                text: field.text.as_ptr(),
                number: field.number,
            });
            texts.push(field.text);
        }
        error.fields = if listed.is_empty() { ptr::null() } else { listed.as_ptr() };
        error.field_count = listed.len();
        Box::new(Kept { error, _texts: texts, _fields: listed })
    }
}

/// The fields that an error has beside those that all have.
#[derive(Default)]
struct Fields(Vec<Field>);

struct Field {
    name: &'static CStr,
    text: CString,
    number: i64,
}

impl Fields {
    fn texts<const N: usize>(&mut self, fields: [(&'static CStr, &str); N]) {
        for (name, value) in fields {
            self.0.push(Field { name, text: text(value), number: -1 });
        }
    }

    fn numbers<const N: usize>(&mut self, fields: [(&'static CStr, u64); N]) {
        for (name, value) in fields {
            self.0.push(Field { name, text: text(&value.to_string()), number: number(value) });
        }
    }

    fn ranks<const N: usize>(&mut self, fields: [(&'static CStr, usize); N]) {
        self.numbers(fields.map(|(name, rank)| (name, rank as u64)));
    }

    fn duration(&mut self, name: &'static CStr, value: Duration) {
        let number = number(value.as_nanos());
        self.0.push(Field { name, text: text(&format!("{value:?}")), number });
    }

    fn call(&mut self, name: &'static CStr, value: &Signature) {
        self.texts([(name, &value.to_string())]);
    }
}

// The enums of the core may grow. The arm at the end of each match below is what the compiler asks
// for; that each kind has its fields here is shown by the table in tests/kinds.rs.

fn of_argument(fields: &mut Fields, error: &ArgumentError) {
    match error {
        ArgumentError::Unsupported { op, dtype } => {
            fields.texts([(c"op", op.name()), (c"dtype", dtype.name())]);
        }
        ArgumentError::UnknownDType { name } | ArgumentError::UnknownOp { name } => {
            fields.texts([(c"name", name)]);
        }
        ArgumentError::NoSuchRank { what, rank, size } => {
            fields.texts([(c"what", what)]);
            fields.ranks([(c"rank", *rank), (c"size", *size)]);
        }
        ArgumentError::SelfMessage { what, rank }
        | ArgumentError::MissingBuffer { rank, what }
        | ArgumentError::UnusedBuffer { rank, what } => {
            fields.texts([(c"what", what)]);
            fields.ranks([(c"rank", *rank)]);
        }
        ArgumentError::Length { what, expected, actual } => {
            fields.texts([(c"what", what)]);
            fields.numbers([(c"expected", *expected), (c"actual", *actual)]);
        }
        ArgumentError::Ragged { what, bytes, dtype } => {
            fields.texts([(c"what", what), (c"dtype", dtype.name())]);
            fields.numbers([(c"bytes", *bytes)]);
        }
        ArgumentError::Indivisible { what, count, size } => {
            fields.texts([(c"what", what)]);
            fields.numbers([(c"count", *count), (c"size", *size as u64)]);
        }
        ArgumentError::Counts { what, actual, size } => {
            fields.texts([(c"what", what)]);
            fields.ranks([(c"actual", *actual), (c"size", *size)]);
        }
        ArgumentError::TooLarge { what } => fields.texts([(c"what", what)]),
        ArgumentError::NotACollective { operation } | ArgumentError::MissingOp { operation } => {
            fields.texts([(c"operation", operation.name())]);
        }
        ArgumentError::CountsForm { operation, takes, given } => {
            fields.texts([(c"operation", operation.name()), (c"takes", takes), (c"given", given)]);
        }
        ArgumentError::UnusedOp { operation, op } => {
            fields.texts([(c"operation", operation.name()), (c"op", op.name())]);
        }
        ArgumentError::Overlap => {}
        _ => {}
    }
}

fn of_config(fields: &mut Fields, error: &ConfigError) {
    match error {
        ConfigError::Value { name, value, expected } => {
            fields.texts([(c"name", name), (c"value", value), (c"expected", expected)]);
        }
        ConfigError::Missing { missing, present } => {
            fields.texts([(c"missing", missing), (c"present", present)]);
        }
        ConfigError::Conflict { first, second, why } => {
            fields.texts([(c"first", first), (c"second", second), (c"why", why)]);
        }
        ConfigError::File { path, reason } => {
            fields.texts([(c"path", path), (c"reason", reason)]);
        }
        ConfigError::Content { path, place, reason } => {
            fields.texts([(c"path", path), (c"place", place), (c"reason", reason)]);
        }
        ConfigError::TokenNeeded { address } => fields.texts([(c"address", address)]),
        _ => {}
    }
}

fn of_start(fields: &mut Fields, error: &StartError) {
    match error {
        StartError::Deadline { rank, within, waiting_for } => {
            fields.ranks([(c"rank", *rank)]);
            fields.duration(c"within", *within);
            fields.texts([(c"waiting_for", waiting_for)]);
        }
        StartError::Unreachable { rank, action, address, local, tried, reason } => {
            fields.ranks([(c"rank", *rank)]);
            fields.duration(c"tried", *tried);
            fields.texts([
                (c"action", action),
                (c"address", address),
                (c"local", local),
                (c"reason", reason),
            ]);
        }
        StartError::Authentication { rank, peer } => {
            fields.ranks([(c"rank", *rank)]);
            fields.texts([(c"peer", peer)]);
        }
        StartError::Disagreement { what, first, first_value, second, second_value } => {
            fields.ranks([(c"first", *first), (c"second", *second)]);
            fields.texts([
                (c"what", what),
                (c"first_value", first_value),
                (c"second_value", second_value),
            ]);
        }
        StartError::DuplicateRank { rank, first, second } => {
            fields.ranks([(c"rank", *rank)]);
            fields.texts([(c"first", first), (c"second", second)]);
        }
        StartError::RankFailed { rank, reason } | StartError::SideChannel { rank, reason } => {
            fields.ranks([(c"rank", *rank)]);
            fields.texts([(c"reason", reason)]);
        }
        StartError::NoLink { first, second, reason } => {
            fields.ranks([(c"first", *first), (c"second", *second)]);
            fields.texts([(c"reason", reason)]);
        }
        StartError::System { rank, action, reason } => {
            fields.ranks([(c"rank", *rank)]);
            fields.texts([(c"action", action), (c"reason", reason)]);
        }
        StartError::Interrupted { rank } => fields.ranks([(c"rank", *rank)]),
        _ => {}
    }
}

fn of_operation(fields: &mut Fields, error: &OperationError) {
    match &*error.cause {
        Cause::RankDied { rank, how } => {
            fields.ranks([(c"dead_rank", *rank)]);
            fields.texts([(c"how", how)]);
        }
        Cause::RankLeft { rank } => fields.ranks([(c"left_rank", *rank)]),
        Cause::LinkLost { first, second, link, reason } => {
            fields.ranks([(c"first", *first), (c"second", *second)]);
            fields.texts([(c"lost_link", link.name()), (c"reason", reason)]);
        }
        Cause::Deadline { rank, operation, peer, waited } => {
            fields.ranks([(c"late_rank", *rank)]);
            fields.call(c"late_call", operation);
            if let Some(peer) = peer {
                fields.ranks([(c"late_peer", *peer)]);
            }
            fields.duration(c"waited", *waited);
        }
        Cause::Mismatch { first, first_call, second, second_call } => {
            fields.ranks([(c"first", *first), (c"second", *second)]);
            fields.call(c"first_call", first_call);
            fields.call(c"second_call", second_call);
        }
        Cause::Interrupted { rank, operation } => {
            fields.ranks([(c"interrupted_rank", *rank)]);
            fields.call(c"interrupted_call", operation);
        }
        Cause::Forked { owner } => fields.numbers([(c"owner", u64::from(*owner))]),
        Cause::Protocol { rank, peer, what } => {
            fields.ranks([(c"receiver", *rank), (c"sender", *peer)]);
            fields.texts([(c"what", what)]);
        }
        Cause::Panicked { rank, message } => {
            fields.ranks([(c"panicked_rank", *rank)]);
            fields.texts([(c"panic", message)]);
        }
        Cause::Closed => {}
        _ => {}
    }
}
