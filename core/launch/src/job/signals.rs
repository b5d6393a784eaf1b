//! Signals as something a poller can wait for.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;

use crate::sys;

/// Signals that are noted and wake a poller, for as long as this lives.
pub(crate) struct Signals {
    noted: Vec<(i32, Arc<AtomicBool>)>,
    handlers: Vec<SigId>,
}

impl Signals {
    /// Notes `signals`, except those that are ignored: a job under `nohup` outlives its terminal.
    /// From here on no signal is blocked.
    pub(crate) fn install(signals: &[i32], waker: &UnixStream) -> io::Result<Self> {
        sys::unblock_signals();
        let mut installed = Self { noted: Vec::new(), handlers: Vec::new() };
        for &signal in signals {
            if !sys::is_ignored(signal) {
                installed.add(signal, waker)?;
            }
        }
        Ok(installed)
    }

    /// Notes `signal` even if it was ignored.
    pub(crate) fn add(&mut self, signal: i32, waker: &UnixStream) -> io::Result<()> {
        let flag = Arc::new(AtomicBool::new(false));
        // why: handlers run in this order, so the flag is up before the poller wakes.
        self.handlers.push(signal_hook::flag::register(signal, Arc::clone(&flag))?);
        self.handlers.push(signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?);
        self.noted.push((signal, flag));
        Ok(())
    }

    /// The signals that came since the last call.
    pub(crate) fn take(&self) -> Vec<i32> {
        let came = |(signal, flag): &(i32, Arc<AtomicBool>)| {
            flag.swap(false, Ordering::SeqCst).then_some(*signal)
        };
        self.noted.iter().filter_map(came).collect()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}

/// What wakes a poller: one end is written to by handlers and threads, the other is polled.
pub(crate) fn waker() -> io::Result<(UnixStream, UnixStream)> {
    let (write, read) = UnixStream::pair()?;
    write.set_nonblocking(true)?;
    read.set_nonblocking(true)?;
    Ok((write, read))
}

/// Forgets the wake-ups so far.
pub(crate) fn drain(mut read: &UnixStream) {
    let mut sink = [0; 256];
    while io::Read::read(&mut read, &mut sink).is_ok_and(|got| got == sink.len()) {}
}

/// The name of a signal, as people know it.
pub(crate) fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal)
        .map_or_else(|| format!("signal {signal}"), str::to_owned)
}
