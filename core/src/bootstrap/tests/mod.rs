//! Groups of threads and of processes, without any data link.

mod faults;
mod forming;
mod processes;
mod running;
mod strangers;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::control::Control;
use super::scope::Scope;
use super::session::{Session, start};
use crate::config::{Config, ConfigBuilder, Rendezvous};
use crate::error::{Cause, Error};

/// No test takes longer.
const WATCHDOG: Duration = Duration::from_secs(40);

/// A fresh folder for one test.
pub(super) fn folder(name: &str) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let own = format!("lycaon-test-{name}-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(own);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A port below the range of outgoing connections, that is free on both loopback addresses.
fn free_port() -> u16 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    for _ in 0..2000 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) + std::process::id() as usize * 37;
        let port = 12_000 + (number % 18_000) as u16;
        let free = |host: &str| TcpListener::bind((host, port)).is_ok();
        if free("127.0.0.1") && free("::1") {
            return port;
        }
    }
    panic!("no free port");
}

fn tcp(host: &str, port: u16) -> Rendezvous {
    Rendezvous::Tcp { host: host.to_owned(), port }
}

fn base(rank: usize, size: usize) -> ConfigBuilder {
    Config::builder().rank(rank).size(size).start_timeout(Duration::from_secs(20))
}

fn local(rank: usize, size: usize, port: u16) -> ConfigBuilder {
    base(rank, size).rendezvous(tcp("127.0.0.1", port))
}

/// Runs one thread per rank, all within the watchdog's time, and gives what they returned.
fn ranks<T: Send + 'static>(
    of: impl IntoIterator<Item = usize>,
    body: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let body = Arc::new(body);
    let (done, results) = mpsc::channel();
    let mut order = Vec::new();
    for (at, rank) in of.into_iter().enumerate() {
        let (body, done) = (Arc::clone(&body), done.clone());
        order.push(rank);
        std::thread::spawn(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(rank)));
            let _ = done.send((at, result));
        });
    }
    drop(done);
    let until = Instant::now() + WATCHDOG;
    let mut all: Vec<Option<T>> = order.iter().map(|_| None).collect();
    for _ in 0..order.len() {
        let left = until.saturating_duration_since(Instant::now());
        let (at, result) = results.recv_timeout(left).expect("every rank ends in time");
        match result {
            Ok(value) => all[at] = Some(value),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    all.into_iter().map(|value| value.expect("every rank gave a result")).collect()
}

/// Starts a group and makes one exchange that shows who is who.
fn met(config: &Config) -> Result<Session, Error> {
    let (rank, size) = (config.rank(), config.size());
    let mut session = start(config)?;
    for round in 0..3u8 {
        let mine: Vec<u8> = (0..=rank).map(|at| (at * 3 + rank * 7) as u8 ^ round).collect();
        let all = session.exchange("test", &mine)?;
        assert_eq!(all.len(), size);
        for (of, entry) in all.iter().enumerate() {
            let expected: Vec<u8> = (0..=of).map(|at| (at * 3 + of * 7) as u8 ^ round).collect();
            assert_eq!(*entry, expected, "entry {of} on rank {rank}");
        }
    }
    Ok(session)
}

fn eventually(what: &str, within: Duration, mut check: impl FnMut() -> bool) {
    let until = Instant::now() + within;
    while !check() {
        assert!(Instant::now() < until, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The cause that was announced first.
fn first(control: &Control) -> Option<Arc<Cause>> {
    control.since(0).into_iter().next().map(|announced| announced.cause)
}

/// Reports a cause that group 0 has found.
fn report(control: &Control, cause: Cause) -> Arc<Cause> {
    control.report(Scope::of(&cause, 0), cause)
}
