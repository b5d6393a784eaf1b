//! No panic crosses into Swift.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::Failure;

/// Runs what may fail; a panic becomes a failure of its own.
pub(crate) fn guard<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // What a panic has left half done is dropped with the closure: nothing of it is used again.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        Err(Failure::internal(format!("the library panicked: {text}; this is a bug to report")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_failure() {
        let failure = guard::<()>(|| panic!("on {}", "purpose")).expect_err("a failure");
        assert!(failure.message().contains("on purpose"), "{}", failure.message());
    }

    #[test]
    fn a_result_passes() {
        assert_eq!(guard(|| Ok(3)).ok(), Some(3));
    }
}
