//! What keeps a driver that hangs, and a cable that is pulled, from holding anybody up.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::RdmaError;
use super::port::Port;
use crate::sys::poller::Poller;

/// How long verbs may take that make or connect something.
pub(super) const VERBS: Duration = Duration::from_secs(10);
/// How long the destruction of something is waited for.
const RETIRE: Duration = Duration::from_secs(5);
/// How often ports are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// A port that is down so many times in a row is.
const TIMES: u32 = 2;

/// Runs verbs that may block for ever on a thread of their own, at most for `patience`.
pub(super) fn timed<T: Send + 'static>(
    what: &'static str,
    patience: Duration,
    work: impl FnOnce() -> Result<T, RdmaError> + Send + 'static,
) -> Result<T, RdmaError> {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name("lycaon-verbs".to_owned());
    // Nobody listens any more if it took too long.
    let spawned = thread.spawn(move || drop(sender.send(work())));
    match spawned {
        Ok(_) => receiver
            .recv_timeout(patience)
            .unwrap_or_else(|_| Err(RdmaError::Stuck { what, patience })),
        Err(error) => Err(RdmaError::Memory { wanted: 0, reason: error.to_string() }),
    }
}

/// Drops something whose verb of destruction may block for ever. If it does, it stays with its
/// thread: it cannot be helped, and whoever closes a group is not to wait for it.
pub(super) fn retire<T: Send + 'static>(what: &'static str, value: T) {
    let (sender, receiver) = mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name("lycaon-verbs".to_owned());
    let spawned = thread.spawn(move || {
        drop(value);
        drop(sender);
    });
    // Without a thread the value was dropped here and now.
    if spawned.is_ok() && receiver.recv_timeout(RETIRE) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!(what, "giving back a resource of an RDMA device has not ended: it hangs");
    }
}

/// Looks at the state of ports as long as it lives. Unreliable connections report nothing when a
/// cable is pulled, and posting afterwards may not be safe, so that the links of a port that is
/// down are ended from here.
#[derive(Debug)]
pub(super) struct PortWatch {
    stop: Arc<Stop>,
    ended: mpsc::Receiver<()>,
}

#[derive(Debug, Default)]
struct Stop {
    wanted: Mutex<bool>,
    changed: Condvar,
}

impl PortWatch {
    pub(super) fn start(ports: &[Arc<Port>], poller: &Arc<Poller>) -> std::io::Result<PortWatch> {
        let stop: Arc<Stop> = Arc::default();
        let (sender, ended) = mpsc::channel();
        let its = Arc::clone(&stop);
        let (ports, poller) = (ports.to_vec(), Arc::clone(poller));
        let thread = std::thread::Builder::new().name("lycaon-ports".to_owned());
        thread.spawn(move || {
            watch(&its, &ports, &poller);
            drop(ports);
            drop(sender);
        })?;
        Ok(PortWatch { stop, ended })
    }
}

impl Drop for PortWatch {
    fn drop(&mut self) {
        *self.stop.wanted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        // why: the thread holds on to the devices, which are to be given back when this returns.
        if self.ended.recv_timeout(RETIRE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("asking for the state of an RDMA port has not ended: the driver hangs");
        }
    }
}

fn watch(stop: &Stop, ports: &[Arc<Port>], poller: &Poller) {
    let mut down = vec![0; ports.len()];
    let mut wanted = stop.wanted.lock().unwrap_or_else(PoisonError::into_inner);
    while !*wanted {
        wanted = stop.changed.wait_timeout(wanted, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        if *wanted {
            return;
        }
        drop(wanted);
        for (port, times) in ports.iter().zip(&mut down) {
            match port.trouble() {
                Some(text) => {
                    *times += 1;
                    if *times == TIMES {
                        port.fail(text);
                        poller.notify();
                    }
                }
                None => *times = 0,
            }
        }
        wanted = stop.wanted.lock().unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_blocks_is_given_up_and_what_does_not_is_done() {
        assert_eq!(timed("nothing", Duration::from_secs(5), || Ok(7)), Ok(7));
        let (release, blocked) = mpsc::channel::<()>();
        let patience = Duration::from_millis(20);
        let stuck = timed("blocking", patience, move || {
            // Ends with the test at the latest.
            let _ = blocked.recv();
            Ok(())
        });
        assert_eq!(
            stuck.unwrap_err().to_string(),
            "blocking has not returned within 20ms: the driver hangs"
        );
        drop(release);
    }

    #[test]
    fn what_is_retired_is_gone_afterwards() {
        let value = Arc::new(());
        retire("a count", Arc::clone(&value));
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
