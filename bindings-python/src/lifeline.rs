//! The end of a rank whose guardian has gone, also while Python code holds the GIL.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::thread;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rustix::process::{Signal, getpgrp, getpid, kill_process, kill_process_group};

/// Ends this process, and its process group if it leads one, when the pipe `descriptor` ends.
///
/// The other end of the pipe is held by one process alone, and nothing is ever written into it: the
/// kernel ends it together with that process, in whatever way that goes. The descriptor belongs to
/// this function from now on.
#[pyfunction]
#[pyo3(name = "_end_with")]
pub(crate) fn end_with(descriptor: RawFd) -> PyResult<()> {
    if descriptor < 0 {
        return Err(PyOSError::new_err(format!("{descriptor} is not a descriptor")));
    }
    // SAFETY: the caller hands over an open descriptor, which is no longer used in any other way.
    let mut pipe = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    thread::Builder::new()
        .name("lycaon-lifeline".to_owned())
        .spawn(move || {
            loop {
                match pipe.read(&mut [0; 16]) {
                    Ok(1..) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // An error means too that nobody can be known to watch over this process.
                    Ok(0) | Err(_) => break,
                }
            }
            end();
        })
        .map_err(|error| PyOSError::new_err(format!("cannot start a thread: {error}")))?;
    hand_over();
    Ok(())
}

/// What the kernel does at the death of the parent is done by the thread from now on: the kernel's
/// signal, which was there for the time before, ends this process alone and not its group.
#[cfg(target_os = "linux")]
fn hand_over() {
    // Nothing is lost where it fails: both are in force then.
    let _ = rustix::process::set_parent_process_death_signal(None);
}

#[cfg(not(target_os = "linux"))]
fn hand_over() {}

fn end() {
    if getpgrp() == getpid() {
        let _ = kill_process_group(getpgrp(), Signal::KILL);
    }
    let _ = kill_process(getpid(), Signal::KILL);
}
