//! Processes.

/// A process that all local ranks of a PMI job have in common and no other job has: the parent of
/// the leader of this session (each rank gets a session of its own), whatever wrappers stand in
/// between; else this process's parent.
pub(crate) fn launcher() -> u32 {
    #[cfg(target_os = "linux")]
    if let Some(parent) = session().and_then(parent_of) {
        return parent;
    }
    std::os::unix::process::parent_id()
}

/// The leader of this process's session; none where it is outside of this PID namespace, as for a
/// program that a container runtime or a job's supervisor put into a namespace of its own.
#[cfg(target_os = "linux")]
fn session() -> Option<u32> {
    field("self", 3).filter(|leader| *leader != 0)
}

#[cfg(target_os = "linux")]
fn parent_of(process: u32) -> Option<u32> {
    field(&process.to_string(), 1)
}

/// A number of `/proc/PROCESS/stat`, counted from the state of the process, which is field 0.
#[cfg(target_os = "linux")]
fn field(process: &str, index: usize) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(index)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_this_process() {
        // Which number that is depends on the namespace that /proc shows.
        assert!(field("self", 1).is_some());
        // A leader in another namespace is none here.
        assert_ne!(session(), Some(0));
        assert_eq!(field("self", 1000), None);
        assert_eq!(parent_of(u32::MAX), None);
        assert_eq!(launcher(), launcher());
    }
}
