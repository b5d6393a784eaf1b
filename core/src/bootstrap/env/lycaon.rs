//! `LYCAON_*`: set by `lycaon launch` or by hand. They win over every other launcher.

use std::time::Duration;

use super::{Lookup, jaccl, value};
use crate::config::ConfigBuilder;
use crate::error::ConfigError;

pub(super) fn read(lookup: &Lookup<'_>) -> Result<ConfigBuilder, ConfigError> {
    let mut builder = ConfigBuilder::default();
    let get = |name: &'static str| lookup(name).map(|value| (name, value));
    if let Some((name, text)) = get("LYCAON_RANK") {
        builder = builder.rank(value::rank(name, &text)?);
    }
    if let Some((name, text)) = get("LYCAON_SIZE") {
        builder = builder.size(value::size(name, &text)?);
    }
    if let Some((name, text)) = get("LYCAON_RENDEZVOUS") {
        builder = builder.rendezvous(value::rendezvous(name, &text)?);
    }
    if let Some((name, text)) = get("LYCAON_TOKEN") {
        if text.is_empty() {
            return Err(ConfigError::Value {
                name: name.to_owned(),
                value: text,
                expected: "a secret of at least one character",
            });
        }
        builder = builder.token(text);
    }
    if let Some((_, text)) = get("LYCAON_JOB") {
        builder = builder.job(text);
    }
    if let Some((name, text)) = get("LYCAON_START_TIMEOUT") {
        builder = builder.start_timeout(value::duration(name, &text)?);
    }
    if let Some((name, text)) = get("LYCAON_TIMEOUT") {
        builder = builder.timeout(value::duration(name, &text)?);
    }
    if let Some((name, text)) = get("LYCAON_LINKS") {
        builder = builder.links(value::links(name, &text)?);
    }
    if let Some((name, text)) = get("LYCAON_RAILS") {
        builder = builder.rails(value::number(name, &text, "a number of sockets (1 to 64)")?);
    }
    if let Some((_, text)) = get("LYCAON_HOST_ID") {
        builder = builder.host_id(text);
    }
    if let Some((name, text)) = get("LYCAON_INTERFACE") {
        builder = builder.interfaces(value::interfaces(name, &text)?);
    }
    if let Some((name, text)) = get("LYCAON_ALGORITHM") {
        for (operation, algorithm) in value::algorithms(name, &text)? {
            builder = builder.algorithm(operation, algorithm);
        }
    }
    if let Some((name, text)) = get("LYCAON_RANK_ORDER") {
        builder = builder.rank_order(value::flag(name, &text)?);
    }
    if let Some((name, text)) = get("LYCAON_SPIN_US") {
        let micros = value::number(name, &text, "a number of microseconds")?;
        builder = builder.spin(Duration::from_micros(micros as u64));
    }
    if let Some((name, text)) = get("LYCAON_STAGING") {
        builder = builder.staging(value::bytes(name, &text)?);
    }
    if let Some((name, text)) = get("LYCAON_RECORDER") {
        builder = builder.recorder(value::number(name, &text, "a number of operations")?);
    }
    if let Some((name, text)) = get("LYCAON_LIVENESS") {
        builder = builder.liveness(value::duration(name, &text)?);
    }
    if let Some((name, text)) = get("LYCAON_RDMA_QP") {
        builder = builder.rdma_queue_pairs(value::queue_pairs(name, &text)?);
    }
    if let Some((name, text)) = get("LYCAON_RDMA_GID_INDEX") {
        let index = value::number(name, &text, "the index of a GID (0, 1, …)")?;
        builder = builder.rdma_gid_index(index);
    }
    if let Some((_, path)) = get("LYCAON_PROFILE") {
        builder = builder.profile(path);
    }
    if let Some(devices) = jaccl::devices(lookup)? {
        builder = builder.rdma_devices(devices);
    }
    if jaccl::ring(lookup)? && lookup("LYCAON_ALGORITHM").is_none() {
        builder = builder.algorithm(None, crate::collective::Algorithm::Ring);
    }
    builder.names = ["LYCAON_RANK", "LYCAON_SIZE", "LYCAON_RENDEZVOUS"].map(str::to_owned);
    Ok(builder)
}
