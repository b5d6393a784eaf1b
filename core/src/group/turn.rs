//! The order of a group's collectives: each takes a number when it is called and runs when all
//! before it have ended.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Hands out numbers and says whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    next: AtomicU64,
    serving: AtomicU64,
    waiting: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Turn {
    /// Takes the next number.
    pub(crate) fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// Whether it is this number's turn.
    pub(crate) fn is(&self, number: u64) -> bool {
        self.serving.load(Ordering::SeqCst) == number
    }

    /// Waits a while for this number's turn.
    pub(crate) fn wait(&self, number: u64, limit: Duration) -> bool {
        if self.is(number) {
            return true;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is(number) {
            let _ = self.changed.wait_timeout(guard, limit);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.is(number)
    }

    /// The operation whose turn it was has ended. Returns whether others wait.
    pub(crate) fn done(&self, number: u64) -> bool {
        debug_assert!(self.is(number), "out of turn");
        self.serving.store(number + 1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.changed.notify_all();
            true
        } else {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn turns_come_in_the_order_of_the_numbers() {
        let turn = Arc::new(Turn::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        let numbers: Vec<u64> = (0..4).map(|_| turn.take()).collect();
        let threads: Vec<_> = numbers
            .into_iter()
            .rev()
            .map(|number| {
                let (turn, order) = (Arc::clone(&turn), Arc::clone(&order));
                std::thread::spawn(move || {
                    for _ in 0..1000 {
                        if turn.wait(number, Duration::from_millis(100)) {
                            order.lock().expect("no panic").push(number);
                            turn.done(number);
                            return;
                        }
                    }
                    panic!("number {number} never had its turn");
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("in time");
        }
        assert_eq!(*order.lock().expect("no panic"), [0, 1, 2, 3]);
    }
}
