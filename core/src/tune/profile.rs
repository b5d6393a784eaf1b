//! What messages, bytes and reductions cost.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::call::fnv1a;
use crate::error::{ConfigError, LinkKind};

/// What a message over a link costs. Whole picoseconds, so that all machines compute alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkProfile {
    /// α: from the start of a small message to its arrival.
    pub latency_ps: u64,
    /// What each message costs a rank beside that, when it has several on their way at once.
    pub message_ps: u64,
    /// β: what each 1024 bytes cost a rank that sends or receives them.
    pub kib_ps: u64,
    /// How much of all this is work of a processor, in thousandths: this part takes longer if
    /// ranks share cores.
    pub processor_permille: u32,
}

/// What everything costs: α, β and γ of each kind of link.
///
/// All ranks of a group must use the same profile: see [`Profile::digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// Between threads of one process.
    pub memory: LinkProfile,
    /// Messages through shared memory.
    pub shm: LinkProfile,
    /// Messages over RDMA, for each cable.
    #[serde(default = "rdma")]
    pub rdma: LinkProfile,
    /// Messages over TCP.
    pub tcp: LinkProfile,
    /// The arena: `latency_ps` is one synchronisation of all ranks, `message_ps` the look at one
    /// other rank's flag, `kib_ps` copying into or out of the arena.
    pub arena: LinkProfile,
    /// γ: what a reduction costs for each 1024 bytes that it reads.
    pub reduce_kib_ps: u64,
}

/// As reported for one Thunderbolt 5 cable.
const RDMA: LinkProfile = LinkProfile {
    latency_ps: 5_000_000,
    message_ps: 1_000_000,
    kib_ps: 130_000,
    processor_permille: 500,
};

/// For profiles written before there was RDMA.
fn rdma() -> LinkProfile {
    RDMA
}

impl Profile {
    /// Plausible numbers for a machine of today; TCP as over loopback.
    pub(crate) const BUILT_IN: Profile = Profile {
        memory: LinkProfile {
            latency_ps: 1_000_000,
            message_ps: 300_000,
            kib_ps: 102_400,
            processor_permille: 1000,
        },
        shm: LinkProfile {
            latency_ps: 500_000,
            message_ps: 200_000,
            kib_ps: 102_400,
            processor_permille: 1000,
        },
        rdma: RDMA,
        tcp: LinkProfile {
            latency_ps: 16_000_000,
            message_ps: 4_000_000,
            kib_ps: 512_000,
            processor_permille: 1000,
        },
        arena: LinkProfile {
            latency_ps: 300_000,
            message_ps: 60_000,
            kib_ps: 102_400,
            processor_permille: 1000,
        },
        reduce_kib_ps: 102_400,
    };

    /// The profile of a kind of link.
    pub(crate) fn link(&self, kind: LinkKind) -> &LinkProfile {
        match kind {
            LinkKind::Memory => &self.memory,
            LinkKind::Shm => &self.shm,
            LinkKind::Rdma => &self.rdma,
            LinkKind::Tcp => &self.tcp,
        }
    }

    /// As [`Profile::link`], to be changed.
    pub(crate) fn link_mut(&mut self, kind: LinkKind) -> &mut LinkProfile {
        match kind {
            LinkKind::Memory => &mut self.memory,
            LinkKind::Shm => &mut self.shm,
            LinkKind::Rdma => &mut self.rdma,
            LinkKind::Tcp => &mut self.tcp,
        }
    }

    /// Reads a file.
    pub(crate) fn load(path: &Path) -> Result<Profile, ConfigError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::File { path: name.clone(), reason: error.to_string() })?;
        Profile::from_json(&text, &name)
    }

    /// Reads a profile from JSON. `path` is named in the error.
    pub(crate) fn from_json(text: &str, path: &str) -> Result<Profile, ConfigError> {
        let profile: Profile =
            serde_json::from_str(text).map_err(|error| ConfigError::Content {
                path: path.to_owned(),
                place: format!("line {}, column {}", error.line(), error.column()),
                reason: format!("{error}; `lycaon tune` writes a profile that fits this version"),
            })?;
        for (place, link) in [
            ("memory", &profile.memory),
            ("shm", &profile.shm),
            ("rdma", &profile.rdma),
            ("tcp", &profile.tcp),
            ("arena", &profile.arena),
        ] {
            if link.processor_permille > 1000 {
                return Err(ConfigError::Content {
                    path: path.to_owned(),
                    place: format!("{place}.processor_permille"),
                    reason: format!(
                        "{} is more than the whole; it must be 0 to 1000",
                        link.processor_permille
                    ),
                });
            }
        }
        Ok(profile)
    }

    /// The form that [`Profile::from_json`] reads.
    pub(crate) fn to_json(self) -> String {
        serde_json::to_string_pretty(&self).expect("numbers are always valid JSON")
    }

    /// A digest to compare between ranks: ranks with different profiles could choose differently.
    pub(crate) fn digest(&self) -> u32 {
        let links = [&self.memory, &self.shm, &self.rdma, &self.tcp, &self.arena];
        let mut bytes = Vec::with_capacity(links.len() * 28 + 8);
        for link in links {
            for number in [link.latency_ps, link.message_ps, link.kib_ps] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(link.processor_permille.to_le_bytes());
        }
        bytes.extend(self.reduce_kib_ps.to_le_bytes());
        fnv1a(&bytes)
    }
}

impl Default for Profile {
    fn default() -> Self {
        Profile::BUILT_IN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trips() {
        let mut profile = Profile::BUILT_IN;
        profile.tcp.latency_ps = u64::MAX;
        assert_eq!(Profile::from_json(&profile.to_json(), "p.json"), Ok(profile));
    }

    #[test]
    fn errors_say_where() {
        let json = Profile::BUILT_IN.to_json();
        let misspelt = json.replacen("kib_ps", "kb_ps", 1);
        let error = Profile::from_json(&misspelt, "p.json").unwrap_err().to_string();
        assert!(error.starts_with("p.json, line 5, column "), "{error}");
        assert!(error.contains("kb_ps") && error.contains("lycaon tune"), "{error}");
        let too_much =
            json.replacen("\"processor_permille\": 1000", "\"processor_permille\": 1001", 1);
        let error = Profile::from_json(&too_much, "p.json").unwrap_err().to_string();
        assert!(error.contains("memory.processor_permille"), "{error}");
    }

    #[test]
    fn every_number_changes_the_digest() {
        let json = Profile::BUILT_IN.to_json();
        let mut digests = vec![Profile::BUILT_IN.digest()];
        for (at, _) in json.match_indices("00,").chain(json.match_indices("00\n")) {
            let mut changed = json.clone();
            changed.replace_range(at..at + 2, "01");
            // The share of the processor stays within its bounds.
            let changed = changed.replace(" 1001", " 999");
            digests.push(Profile::from_json(&changed, "p.json").unwrap().digest());
        }
        assert_eq!(digests.len(), 22);
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 22);
    }
}
