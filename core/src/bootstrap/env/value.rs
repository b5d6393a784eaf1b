//! Single values: each parser takes the name of the variable for its message.

use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use crate::call::Operation;
use crate::collective::Algorithm;
use crate::config::{Interface, QueuePairs, Rendezvous};
use crate::error::{ConfigError, LinkKind};

fn error(name: &str, value: &str, expected: &'static str) -> ConfigError {
    ConfigError::Value { name: name.to_owned(), value: value.to_owned(), expected }
}

/// A number in plain decimal digits: no sign, no space, nothing else.
pub(crate) fn number(
    name: &str,
    value: &str,
    expected: &'static str,
) -> Result<usize, ConfigError> {
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(error(name, value, expected));
    }
    value.parse().map_err(|_| error(name, value, expected))
}

pub(crate) fn rank(name: &str, value: &str) -> Result<usize, ConfigError> {
    number(name, value, "a rank (0, 1, …)")
}

pub(crate) fn size(name: &str, value: &str) -> Result<usize, ConfigError> {
    match number(name, value, "a number of processes (1, 2, …)")? {
        0 => Err(error(name, value, "a number of processes (1, 2, …)")),
        size => Ok(size),
    }
}

pub(crate) fn port(name: &str, value: &str) -> Result<u16, ConfigError> {
    match u16::try_from(number(name, value, "a port (1 to 65535)")?) {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(error(name, value, "a port (1 to 65535)")),
    }
}

pub(crate) fn flag(name: &str, value: &str) -> Result<bool, ConfigError> {
    match value {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(error(name, value, "0 or 1")),
    }
}

/// `60`, `1.5`, `30s`, `500ms`, `2m`.
pub(crate) fn duration(name: &str, value: &str) -> Result<Duration, ConfigError> {
    const EXPECTED: &str = "a time such as 60, 1.5s, 500ms or 2m";
    let (digits, scale) = if let Some(digits) = value.strip_suffix("ms") {
        (digits, 1e-3)
    } else if let Some(digits) = value.strip_suffix('s') {
        (digits, 1.0)
    } else if let Some(digits) = value.strip_suffix('m') {
        (digits, 60.0)
    } else {
        (value, 1.0)
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !plain {
        return Err(error(name, value, EXPECTED));
    }
    let seconds = digits.parse::<f64>().map_err(|_| error(name, value, EXPECTED))? * scale;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(error(name, value, EXPECTED)),
    }
}

/// `65536`, `64k`, `16M`, `1G`: powers of 1024.
pub(crate) fn bytes(name: &str, value: &str) -> Result<usize, ConfigError> {
    const EXPECTED: &str = "a number of bytes such as 65536, 64k, 16M or 1G";
    let digits = value.strip_suffix("iB").or_else(|| value.strip_suffix('B')).unwrap_or(value);
    let (digits, shift) = match digits.as_bytes().last() {
        Some(b'k' | b'K') => (&digits[..digits.len() - 1], 10),
        Some(b'm' | b'M') => (&digits[..digits.len() - 1], 20),
        Some(b'g' | b'G') => (&digits[..digits.len() - 1], 30),
        _ => (digits, 0),
    };
    let count = number(name, digits, EXPECTED).map_err(|_| error(name, value, EXPECTED))?;
    count.checked_mul(1 << shift).ok_or_else(|| error(name, value, EXPECTED))
}

pub(crate) fn links(name: &str, value: &str) -> Result<Vec<LinkKind>, ConfigError> {
    const EXPECTED: &str = "a list of shm, rdma and tcp, for example shm,tcp";
    value
        .split(',')
        .map(|part| match part.trim() {
            "shm" => Ok(LinkKind::Shm),
            "rdma" => Ok(LinkKind::Rdma),
            "tcp" => Ok(LinkKind::Tcp),
            _ => Err(error(name, value, EXPECTED)),
        })
        .collect()
}

pub(crate) fn queue_pairs(name: &str, value: &str) -> Result<QueuePairs, ConfigError> {
    match value.to_ascii_lowercase().as_str() {
        "rc" => Ok(QueuePairs::Reliable),
        "uc" => Ok(QueuePairs::Unreliable),
        _ => Err(error(name, value, "rc or uc")),
    }
}

pub(crate) fn interfaces(name: &str, value: &str) -> Result<Vec<Interface>, ConfigError> {
    value
        .split(',')
        .map(|part| match part.trim() {
            "" => Err(error(name, value, "a list of IP addresses and names of interfaces")),
            part => Ok(part
                .parse()
                .map_or_else(|_| Interface::Name(part.to_owned()), Interface::Address)),
        })
        .collect()
}

/// `ring`, or `all_reduce=ring,broadcast=log`, or both: `direct,all_reduce=ring`.
pub(crate) fn algorithms(
    name: &str,
    value: &str,
) -> Result<Vec<(Option<Operation>, Algorithm)>, ConfigError> {
    let algorithm = |text: &str| {
        text.parse::<Algorithm>()
            .map_err(|_| error(name, value, "made of direct, two-step, ring, log, arena"))
    };
    value
        .split(',')
        .map(|part| match part.trim().split_once('=') {
            None => Ok((None, algorithm(part.trim())?)),
            Some((operation, how)) => Operation::ALL
                .into_iter()
                .find(|known| known.name() == operation && !known.is_point_to_point())
                .ok_or_else(|| {
                    error(name, value, "made of operation=algorithm, such as all_reduce=ring")
                })
                .and_then(|operation| Ok((Some(operation), algorithm(how)?))),
        })
        .collect()
}

/// `host:port`, `[v6]:port`, `file:/path` or a path that contains a slash.
pub(crate) fn rendezvous(name: &str, value: &str) -> Result<Rendezvous, ConfigError> {
    const EXPECTED: &str = "host:port, [IPv6 address]:port, file:/path or a path with a slash";
    if let Some(path) = value.strip_prefix("file:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err(error(name, value, EXPECTED));
        }
        return Ok(Rendezvous::File(PathBuf::from(path)));
    }
    if value.contains('/') {
        return Ok(Rendezvous::File(PathBuf::from(value)));
    }
    let (host, port) = host_port(value).ok_or_else(|| error(name, value, EXPECTED))?;
    if port == 0 {
        return Err(error(name, value, "an address with a port other than 0"));
    }
    Ok(Rendezvous::Tcp { host, port })
}

/// Splits `host:port` and `[v6]:port`; port 0 is let through.
pub(crate) fn host_port(value: &str) -> Option<(String, u16)> {
    let (host, port) = value.rsplit_once(':')?;
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let port = port.parse().ok()?;
    let host = match host.strip_prefix('[') {
        Some(inner) => {
            let inner = inner.strip_suffix(']')?;
            let (address, zone) = inner.split_once('%').unwrap_or((inner, "0"));
            address.parse::<Ipv6Addr>().ok()?;
            if zone.is_empty() || !zone.bytes().all(is_host_byte) {
                return None;
            }
            inner
        }
        None => {
            if host.is_empty() || host.starts_with('-') || !host.bytes().all(is_host_byte) {
                return None;
            }
            // Four numbers that are no address are a slip of the pen, not a name.
            let numeric = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            if numeric && host.parse::<IpAddr>().is_err() {
                return None;
            }
            host
        }
    };
    Some((host.to_owned(), port))
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_') || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_strict() {
        assert_eq!(rank("R", "7"), Ok(7));
        for bad in ["", "x", "+1", "-1", " 1", "1 ", "0x1", "1.0", "99999999999999999999"] {
            assert!(rank("R", bad).is_err(), "{bad:?}");
            assert!(size("S", bad).is_err(), "{bad:?}");
        }
        assert!(size("S", "0").is_err());
        assert!(port("P", "0").is_err() && port("P", "65536").is_err());
        assert_eq!(port("P", "65535"), Ok(65535));
        let text = rank("LYCAON_RANK", "x").unwrap_err().to_string();
        assert_eq!(text, "LYCAON_RANK=\"x\" is not a rank (0, 1, …)");
    }

    #[test]
    fn durations_and_sizes() {
        assert_eq!(duration("D", "60"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("D", "1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("D", "250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("D", "2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "0", "-1", "nan", "inf", "1e9", "1h", "..", "1 s"] {
            assert!(duration("D", bad).is_err(), "{bad:?}");
        }
        assert_eq!(bytes("B", "65536"), Ok(65536));
        assert_eq!(bytes("B", "64k"), Ok(65536));
        assert_eq!(bytes("B", "16MiB"), Ok(16 << 20));
        assert_eq!(bytes("B", "1G"), Ok(1 << 30));
        for bad in ["", "k", "1.5M", "-1", "1T", "99999999999G"] {
            assert!(bytes("B", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn addresses_of_every_form() {
        let read = |text: &str| rendezvous("R", text).map(|found| found.to_string());
        assert_eq!(read("10.0.0.1:5000").unwrap(), "10.0.0.1:5000");
        assert_eq!(read("[::1]:5000").unwrap(), "[::1]:5000");
        assert_eq!(read("[fe80::1%en5]:5000").unwrap(), "[fe80::1%en5]:5000");
        assert_eq!(read("node-3.lab:5000").unwrap(), "node-3.lab:5000");
        assert_eq!(read("file:/tmp/x").unwrap(), "file:/tmp/x");
        assert_eq!(read("file:///tmp/x").unwrap(), "file:/tmp/x");
        assert_eq!(read("./x").unwrap(), "file:./x");
        for bad in [
            "",
            "host",
            "host:",
            ":5000",
            "host:x",
            "host:0",
            "host:65536",
            "::1:5000",
            "[::1]",
            "[::1:5000",
            "[x]:1",
            "a b:1",
            "-o:1",
            "10.0.0.999:1",
            "file:",
            "h:+1",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn algorithms_by_operation() {
        assert_eq!(algorithms("A", "ring"), Ok(vec![(None, Algorithm::Ring)]));
        assert_eq!(
            algorithms("A", "all_reduce=ring,broadcast=log"),
            Ok(vec![
                (Some(Operation::AllReduce), Algorithm::Ring),
                (Some(Operation::Broadcast), Algorithm::Logarithmic)
            ])
        );
        for bad in ["", "fast", "all_reduce=", "send=ring", "x=ring", "ring,"] {
            assert!(algorithms("A", bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = rank("R", &text);
            let _ = duration("D", &text);
            let _ = bytes("B", &text);
            let _ = links("L", &text);
            let _ = interfaces("I", &text);
            let _ = algorithms("A", &text);
            let _ = rendezvous("R", &text);
        }

        #[test]
        fn what_is_shown_is_read_again(host in "[a-z][a-z0-9.-]{0,20}", port in 1u16..) {
            let text = format!("{host}:{port}");
            prop_assert_eq!(rendezvous("R", &text).unwrap().to_string(), text);
        }
    }
}
