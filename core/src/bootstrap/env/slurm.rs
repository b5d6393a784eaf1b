//! Slurm's `srun`: `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` and the step's id and nodes.
//!
//! A batch script and an interactive shell have most of these variables too, without being one of
//! several tasks; only what a step has counts. On one node the ranks meet at a private file. On
//! several, rank 0 listens on the first node of the step at a port derived from the step's id;
//! where tasks are distributed so that rank 0 is elsewhere, `LYCAON_RENDEZVOUS` must say so.

use super::{Found, Lookup, Place, derived_port, need, value};
use crate::error::ConfigError;

const RANK: &str = "SLURM_PROCID";
const SIZE: &str = "SLURM_STEP_NUM_TASKS";
const ALL_TASKS: &str = "SLURM_NTASKS";
const STEP: &str = "SLURM_STEP_ID";
const JOB: &str = "SLURM_JOB_ID";
const NODES: &str = "SLURM_STEP_NUM_NODES";
const LIST: &str = "SLURM_STEP_NODELIST";
/// Step ids from here on are not steps of `srun`: the batch script and the like.
const FIRST_SPECIAL: usize = 0xffff_fff0;

pub(super) fn read(lookup: &Lookup<'_>) -> Result<Option<Found>, ConfigError> {
    let Some(step) = lookup(STEP) else { return Ok(None) };
    if value::number(STEP, &step, "the number of a step")? >= FIRST_SPECIAL {
        return Ok(None);
    }
    let rank = value::rank(RANK, &need(lookup, RANK, STEP)?)?;
    let (size_name, size) = match lookup(SIZE) {
        Some(size) => (SIZE, size),
        None => (ALL_TASKS, need(lookup, ALL_TASKS, STEP)?),
    };
    let size = value::size(size_name, &size)?;
    let found = |place, job| Found { rank: (RANK, rank), size: (size_name, size), place, job };
    if size == 1 {
        return Ok(Some(found(Place::Unknown, None)));
    }
    let job = format!("slurm-{}.{step}", need(lookup, JOB, STEP)?);
    let nodes = lookup(LIST);
    let count = lookup(NODES).map(|text| value::size(NODES, &text)).transpose()?;
    let one = match (&nodes, count) {
        (_, Some(count)) => count == 1,
        (Some(list), None) => !list.contains([',', '[']),
        (None, None) => false,
    };
    let place = if one {
        Place::ThisHost(job.clone())
    } else {
        match nodes {
            None => Place::Unknown,
            Some(list) => match first_node(&list) {
                Some(host) => Place::Tcp { host, port: derived_port(&job) },
                None => {
                    return Err(ConfigError::Value {
                        name: LIST.to_owned(),
                        value: list,
                        expected: "a list of nodes such as node[003-005,7]",
                    });
                }
            },
        }
    };
    Ok(Some(found(place, Some(job))))
}

/// The first name of `node[003-005,7],login1`: `node003`.
fn first_node(list: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = list.trim();
    loop {
        let end = rest.find(['[', ',']).unwrap_or(rest.len());
        name.push_str(&rest[..end]);
        if !rest[end..].starts_with('[') {
            break;
        }
        let (inner, after) = rest[end + 1..].split_once(']')?;
        let first = inner.split([',', '-']).next().unwrap_or_default();
        if first.is_empty() || !first.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        name.push_str(first);
        rest = after;
    }
    let good = !name.is_empty()
        && !name.starts_with('-')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    good.then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn first_nodes_of_lists() {
        for (list, first) in [
            ("node7", Some("node7")),
            ("a,b", Some("a")),
            ("node[003-005,7],login1", Some("node003")),
            ("r[1-2]n[04,06]", Some("r1n04")),
            ("c[12]-ib", Some("c12-ib")),
            ("", None),
            (",", None),
            ("n[", None),
            ("n[]", None),
            ("n[a-b]", None),
            ("-x", None),
            ("a b", None),
        ] {
            assert_eq!(first_node(list).as_deref(), first, "{list:?}");
        }
    }

    proptest! {
        #[test]
        fn no_list_panics(list in "\\PC{0,30}") {
            let _ = first_node(&list);
        }
    }
}
