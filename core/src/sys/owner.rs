//! Noticing that this process is a forked child of the one that made something.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process id as of the last fork; asking the kernel each time would cost a system call per
/// operation.
static PID: AtomicU32 = AtomicU32::new(0);
static REGISTER: Once = Once::new();

extern "C" fn in_child() {
    // Only what is safe after a fork: one system call and one store.
    PID.store(std::process::id(), Ordering::Relaxed);
}

fn pid() -> u32 {
    REGISTER.call_once(|| {
        PID.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: `in_child` is a plain function that lives as long as the program and does
        // nothing that is not allowed in a forked child.
        let status = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // Out of memory at most: forks are then not noticed, which is no worse than before.
        debug_assert_eq!(status, 0);
    });
    PID.load(Ordering::Relaxed)
}

/// The process that made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// This process.
    pub(crate) fn this() -> Self {
        Owner(pid())
    }

    /// The owner's process id, if this process is another one.
    pub(crate) fn if_not_us(self) -> Option<u32> {
        (pid() != self.0).then_some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_is_not_the_owner() {
        let owner = Owner::this();
        assert_eq!(owner.if_not_us(), None);
        // SAFETY: the child only compares two numbers and leaves with `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let noticed = owner.if_not_us() == Some(owner.0);
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(i32::from(!noticed)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status}");
    }
}
