//! What the operating system offers only through unsafe calls.

use std::process::Command;

/// Arranges that the process started by `command` is killed when the calling thread ends.
///
/// This is the second line of defence, for a guardian that is killed itself. macOS has nothing
/// like it.
pub(crate) fn die_with_parent(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
        use std::os::unix::process::CommandExt;

        let parent = getpid();
        let prepare = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // why: the parent may have died before the request was made.
            if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
        };
        // SAFETY: between fork and exec the closure makes two system calls, takes no lock and
        // allocates nothing, so it is sound however many threads the parent has.
        unsafe { command.pre_exec(prepare) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// The process group of this process; 0 where its leader is outside of this PID namespace.
pub(crate) fn process_group() -> i32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::getpgrp() }
}

/// Whether `signal` was set to be ignored, as `nohup` and shells do for background jobs.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut current = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; `current` is a valid place for the answer, and all
    // zeroes are a valid `sigaction` should the call fail.
    let current = unsafe {
        libc::sigaction(signal, std::ptr::null(), current.as_mut_ptr());
        current.assume_init()
    };
    current.sa_sigaction == libc::SIG_IGN
}

/// Lets through every signal that whoever started this program has blocked.
///
/// A blocked signal is passed on to children, and some runtimes (Dispatch, the JVM) start programs
/// from threads that block all of them: the end of a rank would not be noticed, and no rank could
/// be asked to end.
pub(crate) fn unblock_signals() {
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `sigemptyset` fills the set that it is given, and `pthread_sigmask` reads it; the old
    // mask is not asked for.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}
