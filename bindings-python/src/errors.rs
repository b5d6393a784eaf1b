//! Errors of the core as Python exceptions. The classes are in `lycaon._errors`.

use std::time::Duration;

use lycaon::Signature;
use lycaon::error::{
    ArgumentError, Cause, ConfigError, Error, ErrorKind, OperationError, StartError,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;

/// The class of each kind.
const fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unsupported
        | ErrorKind::UnknownDType
        | ErrorKind::UnknownOp
        | ErrorKind::NoSuchRank
        | ErrorKind::SelfMessage
        | ErrorKind::Length
        | ErrorKind::Ragged
        | ErrorKind::Indivisible
        | ErrorKind::Counts
        | ErrorKind::Overlap
        | ErrorKind::MissingBuffer
        | ErrorKind::UnusedBuffer
        | ErrorKind::TooLarge
        | ErrorKind::NotACollective
        | ErrorKind::CountsForm
        | ErrorKind::MissingOp
        | ErrorKind::UnusedOp => "ArgumentError",
        ErrorKind::Value
        | ErrorKind::Missing
        | ErrorKind::Conflict
        | ErrorKind::File
        | ErrorKind::Content
        | ErrorKind::TokenNeeded => "ConfigError",
        ErrorKind::StartDeadline => "StartTimeout",
        ErrorKind::Unreachable => "Unreachable",
        ErrorKind::Authentication => "AuthenticationFailed",
        ErrorKind::Disagreement => "Disagreement",
        ErrorKind::DuplicateRank => "DuplicateRank",
        ErrorKind::RankFailed => "RankFailed",
        ErrorKind::NoLink => "NoLink",
        ErrorKind::System => "SystemFailure",
        ErrorKind::SideChannel => "SideChannelFailed",
        ErrorKind::StartInterrupted => "StartInterrupted",
        ErrorKind::RankDied => "RankDied",
        ErrorKind::RankLeft => "RankLeft",
        ErrorKind::LinkLost => "LinkLost",
        ErrorKind::Deadline => "Timeout",
        ErrorKind::Mismatch => "Mismatch",
        ErrorKind::Interrupted => "Interrupted",
        ErrorKind::Closed => "Closed",
        ErrorKind::Forked => "Forked",
        ErrorKind::Protocol => "ProtocolError",
        ErrorKind::Panicked => "InternalError",
    }
}

/// An exception under construction.
struct Fields<'py> {
    exception: Bound<'py, PyAny>,
}

impl<'py> Fields<'py> {
    fn new(py: Python<'py>, class: &str, kind: &str, message: String) -> PyResult<Self> {
        let classes = py.import(intern!(py, "lycaon._errors"))?;
        let exception = classes.getattr(class)?.call1((message,))?;
        exception.setattr(intern!(py, "kind"), kind)?;
        Ok(Fields { exception })
    }

    fn set(&self, name: &str, value: impl IntoPyObject<'py>) -> PyResult<()> {
        self.exception.setattr(name, value)
    }

    fn texts<const N: usize>(&self, fields: [(&str, &str); N]) -> PyResult<()> {
        fields.into_iter().try_for_each(|(name, value)| self.set(name, value))
    }

    fn numbers<const N: usize>(&self, fields: [(&str, usize); N]) -> PyResult<()> {
        fields.into_iter().try_for_each(|(name, value)| self.set(name, value))
    }

    fn seconds(&self, name: &str, value: Duration) -> PyResult<()> {
        self.set(name, value.as_secs_f64())
    }

    fn calls<const N: usize>(&self, fields: [(&str, &Signature); N]) -> PyResult<()> {
        fields.into_iter().try_for_each(|(name, value)| self.set(name, value.to_string()))
    }
}

/// A wrong argument that only this binding can notice.
pub(crate) fn argument(py: Python<'_>, kind: &str, message: impl Into<String>) -> PyErr {
    finish(Fields::new(py, "ArgumentError", kind, message.into()))
}

/// An error of the core.
pub(crate) fn from_core(py: Python<'_>, error: &Error) -> PyErr {
    let kind = error.kind();
    finish(Fields::new(py, class(kind), kind.name(), error.to_string()).and_then(|fields| {
        match error {
            Error::Argument(error) => of_argument(&fields, error),
            Error::Config(error) => of_config(&fields, error),
            Error::Start(error) => of_start(&fields, error),
            Error::Operation(error) => of_operation(&fields, error),
            // A family of the future has its message and its kind.
            _ => Ok(()),
        }?;
        Ok(fields)
    }))
}

/// Any error of the core, in a result.
pub(crate) fn raise<T, E: Into<Error>>(py: Python<'_>, result: Result<T, E>) -> PyResult<T> {
    result.map_err(|error| from_core(py, &error.into()))
}

fn finish(fields: PyResult<Fields<'_>>) -> PyErr {
    match fields {
        Ok(fields) => PyErr::from_value(fields.exception),
        Err(error) => PyRuntimeError::new_err(format!("cannot make an exception: {error}")),
    }
}

// The enums of the core may grow. The arm at the end of each match below is what the compiler asks
// for; that each kind has its fields here is shown by the table in `tests/test_errors.py`.

fn of_argument(fields: &Fields<'_>, error: &ArgumentError) -> PyResult<()> {
    match error {
        ArgumentError::Unsupported { op, dtype } => {
            fields.texts([("op", op.name()), ("dtype", dtype.name())])
        }
        ArgumentError::UnknownDType { name } | ArgumentError::UnknownOp { name } => {
            fields.texts([("name", name)])
        }
        ArgumentError::NoSuchRank { what, rank, size } => {
            fields.texts([("what", what)])?;
            fields.numbers([("rank", *rank), ("size", *size)])
        }
        ArgumentError::SelfMessage { what, rank } => {
            fields.texts([("what", what)])?;
            fields.numbers([("rank", *rank)])
        }
        ArgumentError::Length { what, expected, actual } => {
            fields.texts([("what", what)])?;
            fields.set("expected", expected)?;
            fields.set("actual", actual)
        }
        ArgumentError::Ragged { what, bytes, dtype } => {
            fields.texts([("what", what), ("dtype", dtype.name())])?;
            fields.set("bytes", bytes)
        }
        ArgumentError::Indivisible { what, count, size } => {
            fields.texts([("what", what)])?;
            fields.set("count", count)?;
            fields.numbers([("size", *size)])
        }
        ArgumentError::Counts { what, actual, size } => {
            fields.texts([("what", what)])?;
            fields.numbers([("actual", *actual), ("size", *size)])
        }
        ArgumentError::MissingBuffer { rank, what }
        | ArgumentError::UnusedBuffer { rank, what } => {
            fields.texts([("what", what)])?;
            fields.numbers([("rank", *rank)])
        }
        ArgumentError::TooLarge { what } => fields.texts([("what", what)]),
        ArgumentError::NotACollective { operation } | ArgumentError::MissingOp { operation } => {
            fields.texts([("operation", operation.name())])
        }
        ArgumentError::CountsForm { operation, takes, given } => {
            fields.texts([("operation", operation.name()), ("takes", takes), ("given", given)])
        }
        ArgumentError::UnusedOp { operation, op } => {
            fields.texts([("operation", operation.name()), ("op", op.name())])
        }
        ArgumentError::Overlap => Ok(()),
        _ => Ok(()),
    }
}

fn of_config(fields: &Fields<'_>, error: &ConfigError) -> PyResult<()> {
    match error {
        ConfigError::Value { name, value, expected } => {
            fields.texts([("name", name), ("value", value), ("expected", expected)])
        }
        ConfigError::Missing { missing, present } => {
            fields.texts([("missing", missing), ("present", present)])
        }
        ConfigError::Conflict { first, second, why } => {
            fields.texts([("first", first), ("second", second), ("why", why)])
        }
        ConfigError::File { path, reason } => fields.texts([("path", path), ("reason", reason)]),
        ConfigError::Content { path, place, reason } => {
            fields.texts([("path", path), ("place", place), ("reason", reason)])
        }
        ConfigError::TokenNeeded { address } => fields.texts([("address", address)]),
        _ => Ok(()),
    }
}

fn of_start(fields: &Fields<'_>, error: &StartError) -> PyResult<()> {
    match error {
        StartError::Deadline { rank, within, waiting_for } => {
            fields.numbers([("rank", *rank)])?;
            fields.seconds("within", *within)?;
            fields.texts([("waiting_for", waiting_for)])
        }
        StartError::Unreachable { rank, action, address, local, tried, reason } => {
            fields.numbers([("rank", *rank)])?;
            fields.seconds("tried", *tried)?;
            fields.texts([
                ("action", action),
                ("address", address),
                ("local", local),
                ("reason", reason),
            ])
        }
        StartError::Authentication { rank, peer } => {
            fields.numbers([("rank", *rank)])?;
            fields.texts([("peer", peer)])
        }
        StartError::Disagreement { what, first, first_value, second, second_value } => {
            fields.numbers([("first", *first), ("second", *second)])?;
            fields.texts([
                ("what", what),
                ("first_value", first_value),
                ("second_value", second_value),
            ])
        }
        StartError::DuplicateRank { rank, first, second } => {
            fields.numbers([("rank", *rank)])?;
            fields.texts([("first", first), ("second", second)])
        }
        StartError::RankFailed { rank, reason } | StartError::SideChannel { rank, reason } => {
            fields.numbers([("rank", *rank)])?;
            fields.texts([("reason", reason)])
        }
        StartError::NoLink { first, second, reason } => {
            fields.numbers([("first", *first), ("second", *second)])?;
            fields.texts([("reason", reason)])
        }
        StartError::System { rank, action, reason } => {
            fields.numbers([("rank", *rank)])?;
            fields.texts([("action", action), ("reason", reason)])
        }
        StartError::Interrupted { rank } => fields.numbers([("rank", *rank)]),
        _ => Ok(()),
    }
}

fn of_operation(fields: &Fields<'_>, error: &OperationError) -> PyResult<()> {
    fields.numbers([("rank", error.rank)])?;
    fields.set("operation", error.operation.map(|of| of.call.operation.name()))?;
    fields.set("sequence", error.operation.map(|of| of.sequence))?;
    fields.set("peer", error.peer)?;
    fields.set("link", error.link.map(|link| link.name()))?;
    fields.seconds("elapsed", error.elapsed)?;
    fields.set("cause", error.cause.to_string())?;
    match &*error.cause {
        Cause::RankDied { rank, how } => {
            fields.numbers([("dead_rank", *rank)])?;
            fields.texts([("how", how)])
        }
        Cause::RankLeft { rank } => fields.numbers([("left_rank", *rank)]),
        Cause::LinkLost { first, second, link, reason } => {
            fields.numbers([("first", *first), ("second", *second)])?;
            fields.texts([("lost_link", link.name()), ("reason", reason)])
        }
        Cause::Deadline { rank, operation, peer, waited } => {
            fields.numbers([("late_rank", *rank)])?;
            fields.calls([("late_call", operation)])?;
            fields.set("late_peer", peer)?;
            fields.seconds("waited", *waited)
        }
        Cause::Mismatch { first, first_call, second, second_call } => {
            fields.numbers([("first", *first), ("second", *second)])?;
            fields.calls([("first_call", first_call), ("second_call", second_call)])
        }
        Cause::Interrupted { rank, operation } => {
            fields.numbers([("interrupted_rank", *rank)])?;
            fields.calls([("interrupted_call", operation)])
        }
        Cause::Forked { owner } => fields.set("owner", owner),
        Cause::Protocol { rank, peer, what } => {
            fields.numbers([("receiver", *rank), ("sender", *peer)])?;
            fields.texts([("what", what)])
        }
        Cause::Panicked { rank, message } => {
            fields.numbers([("panicked_rank", *rank)])?;
            fields.texts([("panic", message)])
        }
        Cause::Closed => Ok(()),
        _ => Ok(()),
    }
}

/// One exception of each kind that the core knows, with made-up fields: for the tests.
#[pyfunction]
#[pyo3(name = "_sample_errors")]
pub(crate) fn sample_errors(py: Python<'_>) -> Vec<PyErr> {
    ErrorKind::ALL.iter().map(|kind| from_core(py, &kind.sample())).collect()
}
