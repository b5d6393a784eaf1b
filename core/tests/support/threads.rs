//! Ranks as threads of the test.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use lycaon::{Algorithm, Group, InProcess, Operation};

/// How the ranks of a thread group reach each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    pub(crate) arena: bool,
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) rank_order: bool,
    pub(crate) weather: Option<u64>,
}

impl Way {
    /// Messages by each algorithm and by the library's choice, and shared memory.
    pub(crate) const ALL: [Way; 7] = [
        Way::messages(None),
        Way::messages(Some(Algorithm::Direct)),
        Way::messages(Some(Algorithm::TwoStep)),
        Way::messages(Some(Algorithm::Ring)),
        Way::messages(Some(Algorithm::Logarithmic)),
        Way { arena: true, algorithm: None, rank_order: false, weather: None },
        Way { arena: true, algorithm: Some(Algorithm::Arena), rank_order: false, weather: None },
    ];

    pub(crate) const fn messages(algorithm: Option<Algorithm>) -> Way {
        Way { arena: false, algorithm, rank_order: false, weather: None }
    }

    pub(crate) const fn memory() -> Way {
        Way { arena: true, algorithm: None, rank_order: false, weather: None }
    }

    pub(crate) fn weather(self, seed: u64) -> Way {
        Way { weather: Some(seed), ..self }
    }

    pub(crate) fn groups(&self, size: usize) -> Vec<Group> {
        self.groups_with(size, Duration::from_secs(60))
    }

    pub(crate) fn groups_with(&self, size: usize, timeout: Duration) -> Vec<Group> {
        let mut options = InProcess::default();
        options.arena = self.arena;
        options.timeout = timeout;
        options.rank_order = self.rank_order;
        options.weather = self.weather;
        if let Some(algorithm) = self.algorithm {
            options.algorithms = Operation::ALL.into_iter().map(|of| (of, algorithm)).collect();
        }
        lycaon::in_process(size, &options).expect("threads need nothing but memory")
    }
}

/// Runs `body` on a thread per group and returns the results in rank order. All have to end
/// `within` that time.
///
/// # Panics
/// If one of them panics, with the words of all that did, or if one does not end.
pub(crate) fn run<R: Send + 'static>(
    groups: Vec<Group>,
    within: Duration,
    body: impl Fn(Group) -> R + Send + Sync + 'static,
) -> Vec<R> {
    let deadline = Instant::now() + within;
    let body = Arc::new(body);
    let (sender, ended) = mpsc::channel();
    let size = groups.len();
    for (rank, group) in groups.into_iter().enumerate() {
        let (sender, body) = (sender.clone(), Arc::clone(&body));
        std::thread::Builder::new()
            .name(format!("rank {rank}"))
            .spawn(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| body(group)));
                // Nobody listens any more if the test has given up.
                let _ = sender.send((rank, outcome));
            })
            .unwrap();
    }
    let mut results: Vec<Option<R>> = (0..size).map(|_| None).collect();
    let mut panics = Vec::new();
    for _ in 0..size {
        let left = deadline.saturating_duration_since(Instant::now());
        match ended.recv_timeout(left) {
            Ok((rank, Ok(result))) => results[rank] = Some(result),
            Ok((rank, Err(panic))) => {
                let text = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("no text");
                panics.push(format!("rank {rank}: {text}"));
            }
            Err(_) => {
                let missing: Vec<usize> = (0..size).filter(|r| results[*r].is_none()).collect();
                panic!("not ended within {within:?}: ranks {missing:?}; panics: {panics:#?}");
            }
        }
    }
    assert!(panics.is_empty(), "{}", panics.join("\n"));
    results.into_iter().map(|result| result.expect("ended without a panic")).collect()
}

/// Runs something that has to end within a time.
pub(crate) fn bounded<R: Send + 'static>(
    within: Duration,
    what: &str,
    body: impl FnOnce() -> R + Send + 'static,
) -> R {
    let (sender, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = sender.send(body());
    });
    match ended.recv_timeout(within) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: not ended within {within:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it sent nothing"))
        }
    }
}
