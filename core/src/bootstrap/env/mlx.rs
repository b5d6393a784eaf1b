//! MLX's ring: `MLX_RANK`, and `MLX_HOSTFILE`, a JSON file with the listening addresses of every
//! rank. Rank 0's first address is the rendezvous.
//!
//! Two forms of the file are in use: `[["ip:port", …], …]`, the same on every rank, and the flat
//! `["ip:port", …]`, which differs from rank to rank: a rank's own entry is `0.0.0.0:port`, and a
//! rank that is no neighbour has an address with port 0 that stands for nothing.

use serde_json::Value;

use super::{Found, Lookup, Place, need, value};
use crate::error::ConfigError;

const RANK: &str = "MLX_RANK";
const FILE: &str = "MLX_HOSTFILE";
/// No sensible file is larger.
const MAX_FILE: u64 = 16 << 20;

pub(super) fn read(lookup: &Lookup<'_>) -> Result<Option<Found>, ConfigError> {
    let (rank, path) = match (lookup(RANK), lookup(FILE)) {
        (None, None) => return Ok(None),
        // With the coordinator it is the rank of MLX's other backend.
        (Some(_), None) if lookup("MLX_JACCL_COORDINATOR").is_some() => return Ok(None),
        (Some(_), None) => return need(lookup, FILE, RANK).map(|_| None),
        (None, Some(_)) => return need(lookup, RANK, FILE).map(|_| None),
        (Some(rank), Some(path)) => (value::rank(RANK, &rank)?, path),
    };
    let unreadable = |reason: String| ConfigError::File { path: path.clone(), reason };
    let length = std::fs::metadata(&path).map_err(|error| unreadable(error.to_string()))?.len();
    if length > MAX_FILE {
        return Err(unreadable(format!("{length} bytes are too many for a hostfile")));
    }
    let text = std::fs::read(&path).map_err(|error| unreadable(error.to_string()))?;
    let ranks = parse(&path, &text)?;
    let size = ranks.len();
    if rank >= size {
        return Err(ConfigError::Conflict {
            first: format!("{RANK}={rank}"),
            second: format!("{FILE}={path}, which lists {size} ranks"),
            why: "ranks go from 0 to size - 1",
        });
    }
    let (host, port) = ranks[0][0].clone();
    if size > 1 && (port == 0 || (is_unspecified(&host) && rank != 0)) {
        return Err(ConfigError::Content {
            path,
            place: "[0]".to_owned(),
            reason: format!(
                "rank {rank} has no address of rank 0 ({host}:{port} stands for none); set LYCAON_RENDEZVOUS to rank 0's host:port on every rank"
            ),
        });
    }
    let place = Place::Tcp { host, port };
    Ok(Some(Found { rank: (RANK, rank), size: (FILE, size), place, job: None }))
}

fn is_unspecified(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_unspecified())
}

/// The listening addresses of every rank; no list is empty.
fn parse(path: &str, text: &[u8]) -> Result<Vec<Vec<(String, u16)>>, ConfigError> {
    let content = |place: String, reason: &str| ConfigError::Content {
        path: path.to_owned(),
        place,
        reason: reason.to_owned(),
    };
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let whole: Value = serde_json::from_slice(text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        content(place, &format!("not JSON: {error}"))
    })?;
    let form = "expected a list with the addresses of each rank, [[\"ip:port\", …], …]";
    let Value::Array(entries) = whole else { return Err(content("the whole".to_owned(), form)) };
    if entries.is_empty() {
        return Err(content("the whole".to_owned(), "lists no rank"));
    }
    let flat = entries.iter().all(Value::is_string);
    let mut ranks = Vec::with_capacity(entries.len());
    for (rank, entry) in entries.iter().enumerate() {
        let addresses = match entry {
            Value::String(_) => std::slice::from_ref(entry),
            Value::Array(addresses) => addresses,
            _ => return Err(content(format!("[{rank}]"), form)),
        };
        if addresses.is_empty() {
            return Err(content(format!("[{rank}]"), "the rank has no address"));
        }
        let mut read = Vec::with_capacity(addresses.len());
        for (place, address) in addresses.iter().enumerate() {
            let place = if flat { format!("[{rank}]") } else { format!("[{rank}][{place}]") };
            let Value::String(text) = address else {
                return Err(content(place, "an address must be a string, \"ip:port\""));
            };
            let Some((host, port)) = value::host_port(text) else {
                let reason =
                    format!("{text:?} is no address; write ip:port, or [address]:port for IPv6");
                return Err(content(place, &reason));
            };
            if port == 0 && !flat {
                return Err(content(place, "port 0 is no port to listen on"));
            }
            read.push((host, port));
        }
        ranks.push(read);
    }
    for (rank, addresses) in ranks.iter().enumerate() {
        for address in addresses.iter().filter(|address| address.1 != 0) {
            if let Some(other) = ranks[..rank].iter().position(|all| all.contains(address)) {
                let reason = format!("ranks {other} and {rank} listen on the same address");
                return Err(content(format!("[{rank}]"), &reason));
            }
        }
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<Vec<Vec<(String, u16)>>, String> {
        parse("ring.json", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn both_forms_are_read() {
        let nested =
            parsed(r#"[["198.51.100.1:32323","198.51.100.65:32324"],["[2001:db8::c]:1"]]"#);
        assert_eq!(
            nested.unwrap(),
            vec![
                vec![("198.51.100.1".to_owned(), 32323), ("198.51.100.65".to_owned(), 32324)],
                vec![("2001:db8::c".to_owned(), 1)]
            ]
        );
        let flat =
            parsed(r#"["0.0.0.0:52415","192.0.2.22:52415","198.51.100.1:0","198.51.100.1:0"]"#);
        assert_eq!(flat.unwrap().len(), 4);
        assert_eq!(parsed(r#"[["192.0.2.21:5000"],"192.0.2.22:5000"]"#).unwrap().len(), 2);
    }

    #[test]
    fn errors_name_file_place_and_remedy() {
        for (text, parts) in [
            ("", "line 1"),
            ("{}", "expected a list"),
            ("[]", "lists no rank"),
            ("[[\"192.0.2.21:1\"],[]]", "ring.json, [1]: the rank has no address"),
            ("[[\"192.0.2.21\"]]", "[0][0]: \"192.0.2.21\" is no address"),
            ("[[\"2001:db8::b:32323\"]]", "write ip:port, or [address]:port"),
            ("[[\"192.0.2.21:99999\"]]", "[0][0]"),
            ("[[\"192.0.2.21:1\"],[\"192.0.2.22:x\"]]", "[1][0]"),
            ("[[1]]", "must be a string"),
            ("[[\"192.0.2.21:1\"],[\"192.0.2.21:1\"]]", "ranks 0 and 1 listen on the same"),
            ("[[\"192.0.2.21:0\"]]", "port 0"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(parts), "{text}: {error}");
            assert!(error.contains("ring.json"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse("f", &bytes);
        }
    }
}
