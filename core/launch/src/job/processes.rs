//! Finding and signalling everything that a job started.
//!
//! On Linux the guardian adopts every orphan of the job (it is their subreaper), so its
//! descendants are the whole job, whatever sessions and groups they have made for themselves.
//! macOS knows no such thing: there, the process groups of the ranks are what can be reached.

use rustix::process::{Pid, Signal};

/// A process below ours.
#[derive(Clone, Debug)]
pub(crate) struct Descendant {
    pub(crate) pid: Pid,
    pub(crate) group: Pid,
    pub(crate) name: String,
}

impl std::fmt::Display for Descendant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid.as_raw_nonzero())
    }
}

/// Makes this process the parent of all orphans below it.
pub(crate) fn adopt_orphans(adopt: bool) {
    // why: where it is refused, process groups remain, as on macOS.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(adopt.then(rustix::process::getpid));
    #[cfg(not(target_os = "linux"))]
    let _ = adopt;
}

/// Signals the process group of each of `leaders`, and everything below this process that has
/// left those groups. Each process is signalled once.
pub(crate) fn signal_all(leaders: &[Pid], signal: Signal) {
    signal_groups(leaders, signal);
    for one in descendants() {
        if !leaders.contains(&one.group) {
            let _ = rustix::process::kill_process(one.pid, signal);
        }
    }
}

/// Signals the process group of each of `leaders`.
pub(crate) fn signal_groups(leaders: &[Pid], signal: Signal) {
    for &leader in leaders {
        // why: a group that has just ended is what was wanted.
        let _ = rustix::process::kill_process_group(leader, signal);
    }
}

/// Everything below this process that has not ended.
#[cfg(target_os = "linux")]
pub(crate) fn descendants() -> Vec<Descendant> {
    below(&[rustix::process::getpid().as_raw_nonzero().get()], &table())
}

/// Everything below this process that has not ended.
#[cfg(not(target_os = "linux"))]
pub(crate) fn descendants() -> Vec<Descendant> {
    Vec::new()
}

#[cfg(target_os = "linux")]
struct Entry {
    pid: i32,
    parent: i32,
    group: i32,
    dead: bool,
    name: String,
}

/// All processes of the host that can be seen.
#[cfg(target_os = "linux")]
fn table() -> Vec<Entry> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut table = Vec::new();
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.parse::<i32>().is_ok())
            && let Ok(stat) = std::fs::read(entry.path().join("stat"))
        {
            table.extend(parse_stat(&String::from_utf8_lossy(&stat)));
        }
    }
    table
}

/// Reads `pid (name) state parent group …`; the name may hold spaces and parentheses.
#[cfg(target_os = "linux")]
fn parse_stat(stat: &str) -> Option<Entry> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    Some(Entry {
        pid: pid.parse().ok()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        dead: matches!(state, "Z" | "X" | "x"),
        name: name.to_owned(),
    })
}

#[cfg(target_os = "linux")]
fn below(roots: &[i32], table: &[Entry]) -> Vec<Descendant> {
    let mut children = std::collections::HashMap::<i32, Vec<&Entry>>::new();
    for entry in table {
        children.entry(entry.parent).or_default().push(entry);
    }
    let mut found = Vec::new();
    let mut parents = roots.to_vec();
    while let Some(parent) = parents.pop() {
        // why: removal makes the walk end even if a recycled id closes a circle.
        for entry in children.remove(&parent).unwrap_or_default() {
            parents.push(entry.pid);
            if !entry.dead
                && let (Some(pid), Some(group)) =
                    (Pid::from_raw(entry.pid), Pid::from_raw(entry.group))
            {
                found.push(Descendant { pid, group, name: entry.name.clone() });
            }
        }
    }
    found
}

/// Whether a process was started with the variable `LYCAON_JOB` naming `job`.
#[cfg(target_os = "linux")]
fn belongs_to(pid: Pid, job: &str) -> bool {
    let wanted = format!("LYCAON_JOB={job}");
    std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()))
        .is_ok_and(|all| all.split(|&byte| byte == 0).any(|one| one == wanted.as_bytes()))
}

/// Kills what is left of `job` below this process, after its guardian was killed.
///
/// Unlike the guardian, the launcher may have children that are none of the job's, so a process
/// must be known by its group or by its environment. The ones found are also reaped.
pub(crate) fn kill_rest_of(job: &str, leaders: &[Pid], deadline: std::time::Instant) {
    #[cfg(target_os = "linux")]
    loop {
        let rest: Vec<_> = descendants()
            .into_iter()
            .filter(|one| leaders.contains(&one.group) || belongs_to(one.pid, job))
            .collect();
        for one in &rest {
            let _ = rustix::process::kill_process(one.pid, Signal::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        let known = leaders.iter().chain(rest.iter().map(|one| &one.pid));
        for &pid in known {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
        }
        if rest.is_empty() || std::time::Instant::now() >= deadline {
            break;
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (job, deadline);
        signal_groups(leaders, Signal::KILL);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_confuse_the_parser() {
        let entry = parse_stat("42 (a) b (c) S 7 9 9 0 -1").unwrap();
        assert_eq!((entry.pid, entry.parent, entry.group), (42, 7, 9));
        assert_eq!(entry.name, "a) b (c");
        assert!(!entry.dead);
        assert!(parse_stat("42 (x) Z 7 9").unwrap().dead);
        assert!(parse_stat("42 (x").is_none());
        assert!(parse_stat("").is_none());
    }

    #[test]
    fn the_walk_finds_all_generations_and_nobody_else() {
        let entry = |pid, parent, dead| Entry { pid, parent, group: pid, dead, name: "x".into() };
        let table = [
            entry(10, 1, false),
            entry(11, 10, true),
            entry(12, 11, false),
            entry(13, 12, false),
            entry(20, 1, false),
        ];
        let mut pids: Vec<_> =
            below(&[10], &table).iter().map(|one| one.pid.as_raw_nonzero().get()).collect();
        pids.sort_unstable();
        assert_eq!(pids, [12, 13], "the children of the dead count, the dead do not");
    }
}
