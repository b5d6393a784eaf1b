//! Processes.

/// A process that all local ranks of a PMI job have in common and no other job has: the parent of
/// the leader of this session (each rank gets a session of its own), whatever wrappers stand in
/// between; else this process's parent.
pub(crate) fn launcher() -> u32 {
    #[cfg(target_os = "linux")]
    if let Ok(leader) = rustix::process::getsid(None)
        && let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", leader.as_raw_nonzero()))
        // The name in parentheses may hold anything; what follows it are state and parent.
        && let Some((_, after)) = stat.rsplit_once(')')
        && let Some(parent) = after.split_whitespace().nth(1).and_then(|word| word.parse().ok())
    {
        return parent;
    }
    std::os::unix::process::parent_id()
}
