//! Ends waits at the program's wish.
//!
//! A call of this library that waits asks the hooks of its own thread now and then whether it
//! should give up. A binding to a language with its own signal handling (Ctrl-C in a notebook)
//! sets such a hook around each call.

use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    static HOOKS: RefCell<Vec<Rc<dyn Fn() -> bool>>> = const { RefCell::new(Vec::new()) };
}

/// Takes the hook away when the call is over, also by a panic.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        // A hook's own destructor may call back into this module: it runs outside of the borrow.
        let hook = HOOKS.with_borrow_mut(Vec::pop);
        drop(hook);
    }
}

/// Runs `f`; its waits on this thread end with an error once `check` returns `true`.
///
/// Calls may be nested: a wait ends if any of the hooks says so. `check` is called at least every
/// 50 ms while the thread waits, never from another thread.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// let wanted = Rc::new(Cell::new(false));
/// let hook = Rc::clone(&wanted);
/// let config = lycaon::config::Config::builder().build()?;
/// let rank = lycaon::interrupt::with_interrupt(move || hook.get(), || config.rank());
/// assert_eq!(rank, 0);
/// # Ok::<(), lycaon::error::ConfigError>(())
/// ```
pub fn with_interrupt<R>(check: impl Fn() -> bool + 'static, f: impl FnOnce() -> R) -> R {
    HOOKS.with_borrow_mut(|hooks| hooks.push(Rc::new(check)));
    let _guard = Guard;
    f()
}

/// Whether a hook of this thread asks for an end.
pub(crate) fn requested() -> bool {
    // The hooks run outside of the borrow, since they may call into this library themselves.
    let count = HOOKS.with_borrow(Vec::len);
    (0..count)
        .any(|at| HOOKS.with_borrow(|hooks| hooks.get(at).cloned()).is_some_and(|hook| hook()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn hooks_nest_and_end_with_their_call() {
        assert!(!requested());
        let outer = Rc::new(Cell::new(false));
        let seen = Rc::clone(&outer);
        with_interrupt(
            move || seen.get(),
            || {
                assert!(!requested());
                with_interrupt(|| true, || assert!(requested()));
                assert!(!requested());
                with_interrupt(
                    || false,
                    || {
                        outer.set(true);
                        assert!(requested(), "an outer hook counts inside of an inner one");
                    },
                );
            },
        );
        assert!(!requested());
    }

    #[test]
    fn a_panic_takes_the_hook_away() {
        let result = std::panic::catch_unwind(|| with_interrupt(|| true, || panic!("on purpose")));
        assert!(result.is_err());
        assert!(!requested());
    }

    #[test]
    fn a_hook_may_call_back() {
        let result = with_interrupt(|| with_interrupt(|| true, || true), requested);
        assert!(result);
    }

    #[test]
    fn hooks_belong_to_their_thread() {
        with_interrupt(
            || true,
            || assert!(!std::thread::spawn(requested).join().expect("no panic")),
        );
    }
}
