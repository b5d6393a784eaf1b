//! Which machine this is.

/// Two processes with the same identity can share memory: same boot of the same system, and the
/// same network namespace (local sockets, over which memory is handed on, end there).
pub(crate) fn identity() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let link = |path: &str| {
        std::fs::read_link(path).ok().map(|target| target.to_string_lossy().into_owned())
    };
    match read("/proc/sys/kernel/random/boot_id") {
        Some(boot) => {
            let net = link("/proc/self/ns/net").unwrap_or_default();
            format!("{} {boot} {net}", super::interfaces::host_name())
        }
        // One name per machine is what local networks of Macs have.
        None => super::interfaces::host_name(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_identity_is_stable_and_not_empty() {
        let first = super::identity();
        assert!(!first.trim().is_empty());
        assert_eq!(first, super::identity());
    }
}
