//! JACCL, by itself (`JACCL_*`) or under MLX: a rank, the coordinator's address, which is the
//! rendezvous, and a JSON file that names the RDMA devices of each rank towards each other one.
//!
//! The file is a table: its cell `[i][j]` says which devices rank i uses towards rank j: `null` (none), a
//! name, or a list of names, one per cable.

use serde_json::Value;

use super::{Found, Lookup, Place, need, value};
use crate::error::ConfigError;

/// No sensible file is larger.
const MAX_FILE: u64 = 16 << 20;

/// The names of one dialect.
struct Names {
    rank: &'static str,
    coordinator: &'static str,
    devices: &'static str,
    ring: &'static str,
}

const DIALECTS: [Names; 2] = [
    Names {
        rank: "JACCL_RANK",
        coordinator: "JACCL_COORDINATOR",
        devices: "JACCL_IBV_DEVICES",
        ring: "JACCL_RING",
    },
    Names {
        rank: "MLX_RANK",
        coordinator: "MLX_JACCL_COORDINATOR",
        devices: "MLX_IBV_DEVICES",
        ring: "MLX_JACCL_RING",
    },
];

/// By rank and peer, the devices towards it.
pub(crate) type Devices = Vec<Vec<Vec<String>>>;

pub(super) fn read(lookup: &Lookup<'_>) -> Result<Option<Found>, ConfigError> {
    for names in &DIALECTS {
        let Some(coordinator) = lookup(names.coordinator) else {
            // MLX's rank is also that of its other backends.
            if names.rank == "JACCL_RANK" && lookup(names.rank).is_some() {
                return need(lookup, names.coordinator, names.rank).map(|_| None);
            }
            continue;
        };
        let rank = value::rank(names.rank, &need(lookup, names.rank, names.coordinator)?)?;
        let path = need(lookup, names.devices, names.coordinator)?;
        let size = load(&path)?.len();
        if rank >= size {
            return Err(ConfigError::Conflict {
                first: format!("{}={rank}", names.rank),
                second: format!("{}={path}, which has {size} rows", names.devices),
                why: "ranks go from 0 to size - 1",
            });
        }
        let (host, port) = value::host_port(&coordinator)
            .filter(|(_, port)| *port > 0)
            .ok_or_else(|| ConfigError::Value {
                name: names.coordinator.to_owned(),
                value: coordinator.clone(),
                expected: "rank 0's address, ip:port",
            })?;
        let place = Place::Tcp { host, port };
        return Ok(Some(Found {
            rank: (names.rank, rank),
            size: (names.devices, size),
            place,
            job: None,
        }));
    }
    Ok(None)
}

/// The table of devices, whichever launcher has set it.
pub(super) fn devices(lookup: &Lookup<'_>) -> Result<Option<Devices>, ConfigError> {
    let path = DIALECTS.iter().find_map(|names| lookup(names.devices));
    path.map(|path| load(&path)).transpose()
}

/// Whether a ring is asked for.
pub(super) fn ring(lookup: &Lookup<'_>) -> Result<bool, ConfigError> {
    for names in &DIALECTS {
        if let Some(text) = lookup(names.ring) {
            return value::flag(names.ring, &text);
        }
    }
    Ok(false)
}

/// Reads such a table.
pub(crate) fn load(path: &str) -> Result<Devices, ConfigError> {
    let unreadable = |reason: String| ConfigError::File { path: path.to_owned(), reason };
    let length = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if length > MAX_FILE {
        return Err(unreadable(format!("{length} bytes are too many for a table of devices")));
    }
    let text = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    parse(path, &text)
}

fn parse(path: &str, text: &[u8]) -> Result<Devices, ConfigError> {
    let content = |place: String, reason: String| ConfigError::Content {
        path: path.to_owned(),
        place,
        reason,
    };
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let whole: Value = serde_json::from_slice(text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        content(place, format!("not JSON: {error}"))
    })?;
    let form = "expected a row per rank, each with a cell per rank: [[null, \"rdma_en5\"], …]";
    let Value::Array(rows) = whole else {
        return Err(content("the whole".to_owned(), form.to_owned()));
    };
    if rows.is_empty() {
        return Err(content("the whole".to_owned(), "has no row".to_owned()));
    }
    let size = rows.len();
    let mut table = Devices::with_capacity(size);
    for (rank, row) in rows.into_iter().enumerate() {
        let Value::Array(cells) = row else {
            return Err(content(format!("[{rank}]"), form.to_owned()));
        };
        if cells.len() != size {
            let reason = format!("has {} cells, but there are {size} rows", cells.len());
            return Err(content(format!("[{rank}]"), reason));
        }
        let mut read = Vec::with_capacity(size);
        for (peer, cell) in cells.into_iter().enumerate() {
            let place = format!("[{rank}][{peer}]");
            let name = |value: Value| match value {
                Value::String(name) if !name.is_empty() => Ok(name),
                other => Err(content(
                    place.clone(),
                    format!("{other} is no name of a device; write null, a name, or a list"),
                )),
            };
            let names = match cell {
                Value::Null => Vec::new(),
                Value::Array(names) => names.into_iter().map(name).collect::<Result<_, _>>()?,
                one => vec![name(one)?],
            };
            if peer == rank && !names.is_empty() {
                return Err(content(place, "a rank has no device towards itself".to_owned()));
            }
            read.push(names);
        }
        table.push(read);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<Devices, String> {
        parse("devices.json", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn cells_are_null_a_name_or_a_list() {
        let table = parsed(r#"[[null,"rdma_en5",["a","b"]],["x",null,null],[["c"],[],null]]"#);
        let words = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            table.unwrap(),
            vec![
                vec![words(&[]), words(&["rdma_en5"]), words(&["a", "b"])],
                vec![words(&["x"]), words(&[]), words(&[])],
                vec![words(&["c"]), words(&[]), words(&[])],
            ]
        );
    }

    #[test]
    fn errors_name_file_place_and_remedy() {
        for (text, part) in [
            ("", "devices.json, line 1"),
            ("{}", "expected a row per rank"),
            ("[]", "has no row"),
            ("[[null],[null,null]]", "[0]: has 1 cells, but there are 2 rows"),
            ("[[null,1],[null,null]]", "[0][1]: 1 is no name of a device"),
            ("[[null,[\"\"]],[null,null]]", "[0][1]: \"\" is no name"),
            ("[[\"x\"]]", "[0][0]: a rank has no device towards itself"),
            ("[null]", "[0]: expected"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn both_dialects_say_who_and_where() {
        let path = std::env::temp_dir().join(format!("lycaon-jaccl-{}.json", std::process::id()));
        std::fs::write(&path, r#"[[null,"a"],["b",null]]"#).unwrap();
        let file = path.to_str().unwrap().to_owned();
        for (rank, place, devices) in [
            ("MLX_RANK", "MLX_JACCL_COORDINATOR", "MLX_IBV_DEVICES"),
            ("JACCL_RANK", "JACCL_COORDINATOR", "JACCL_IBV_DEVICES"),
        ] {
            let all = [(rank, "1"), (place, "192.0.2.1:5000"), (devices, file.as_str())];
            let lookup = |name: &str| {
                all.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            let found = read(&lookup).unwrap().unwrap();
            assert_eq!((found.rank.1, found.size.1), (1, 2));
            assert_eq!(super::devices(&lookup).unwrap().unwrap()[0][1], ["a"]);
            let without = |name: &str| lookup(name).filter(|_| name != devices);
            let error = read(&without).unwrap_err().to_string();
            assert!(error.contains(devices), "{error}");
            let beyond =
                |name: &str| lookup(name).map(|v| if name == rank { "2".into() } else { v });
            assert!(read(&beyond).unwrap_err().to_string().contains("2 rows"));
        }
        std::fs::remove_file(&path).unwrap();
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse("f", &bytes);
        }
    }
}
