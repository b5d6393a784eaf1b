//! What stands between C++ and the library: cxx aborts on a panic, so none gets there.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What functions of the bridge give.
pub(crate) type Result<T> = std::result::Result<T, Thrown>;

/// Becomes a `rust::Error` with this text.
#[derive(Debug)]
pub(crate) struct Thrown(String);

impl fmt::Display for Thrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Runs a function of the bridge. The text of an error begins with the name of its kind.
pub(crate) fn guard<T>(f: impl FnOnce() -> lycaon::Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Thrown(format!("{}: {error}", error.kind()))),
        Err(panic) => Err(panicked(panic)),
    }
}

fn panicked(panic: Box<dyn Any + Send>) -> Thrown {
    let message = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    // Dropping what was thrown may panic again.
    std::mem::forget(panic);
    Thrown(format!("internal: a bug of this library: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_begins_with_its_kind() {
        let error =
            guard(|| lycaon::init_with(&lycaon::Config::builder().rank(3).size(2).build()?))
                .expect_err("contradicting");
        assert!(error.to_string().starts_with("conflict: rank=3 and size=2"), "{error}");
    }

    #[test]
    fn a_panic_is_an_error() {
        let error = guard::<()>(|| panic!("on {}", "purpose")).expect_err("it panics");
        assert_eq!(error.to_string(), "internal: a bug of this library: on purpose");
    }
}
