//! How two ranks make sure of each other: a challenge in both directions, answered with a keyed
//! hash over everything that was said.
//!
//! The worker that connects sends its [`Introduction`], rank 0 answers with its own; the worker
//! proves that it knows the key, rank 0 checks that before it compares anything, and proves it in
//! turn. The layout is the same in every version of the protocol, so that versions can be
//! compared at all, and by ranks that trust each other.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::wire::Reader;
use crate::config::Config;
use crate::error::StartError;

/// The first bytes of everything; the high bit and the line end show a mangled transfer.
pub(super) const MAGIC: [u8; 8] = *b"\x89LYCAON\n";
/// Version of what follows the handshake.
pub(super) const PROTOCOL: u16 = 1;
/// Magic, version and length.
pub(super) const HEAD: usize = 12;
/// The longest introduction behind its head.
pub(super) const MAX_INTRODUCTION: usize = 8 << 10;
pub(super) const PROOF: usize = 32;
/// Code and length of rank 0's last word.
pub(super) const VERDICT_HEAD: usize = 3;

pub(super) type Key = [u8; 32];

/// What each side says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Introduction {
    pub protocol: u16,
    pub rank: u32,
    pub size: u32,
    pub nonce: [u8; 32],
    pub release: String,
    pub job: String,
    /// Where the process is, for messages: host name and process id.
    pub process: String,
    /// What must be equal on all ranks, `name=value`, one a line.
    pub settings: String,
}

impl Introduction {
    pub(super) fn new(config: &Config) -> Self {
        let settings = config
            .shared_settings()
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join("\n");
        Introduction {
            protocol: PROTOCOL,
            rank: config.rank() as u32,
            size: config.size() as u32,
            nonce: random(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            job: config.job().to_owned(),
            process: process_name(),
            settings,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.protocol.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.rank.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        out.extend_from_slice(&self.nonce);
        for text in [&self.release, &self.job, &self.process, &self.settings] {
            super::wire::put_bytes(&mut out, text.as_bytes());
        }
        let length = (out.len() - HEAD) as u16;
        out[10..12].copy_from_slice(&length.to_le_bytes());
        out
    }

    /// The length of the body, if the head is one of ours.
    pub(super) fn body_length(head: &[u8; HEAD]) -> Result<usize, String> {
        if head[..8] != MAGIC {
            let seen = String::from_utf8_lossy(head);
            return Err(format!("it does not speak this protocol (it began with {seen:?})"));
        }
        let length = usize::from(u16::from_le_bytes([head[10], head[11]]));
        if length > MAX_INTRODUCTION {
            return Err(format!("its introduction has {length} bytes"));
        }
        Ok(length)
    }

    /// Reads head and body.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader(bytes);
        let head: [u8; HEAD] = reader.array()?;
        let length = Self::body_length(&head)?;
        if reader.0.len() != length {
            return Err(format!("an introduction of {} bytes, not {length}", reader.0.len()));
        }
        let introduction = Introduction {
            protocol: u16::from_le_bytes([head[8], head[9]]),
            rank: reader.u32()?,
            size: reader.u32()?,
            nonce: reader.array()?,
            release: reader.text()?,
            job: reader.text()?,
            process: reader.text()?,
            settings: reader.text()?,
        };
        // Later versions may add to the end; what is there is covered by the proofs all the same.
        if introduction.protocol == PROTOCOL && !reader.0.is_empty() {
            return Err(format!("{} bytes too many in an introduction", reader.0.len()));
        }
        Ok(introduction)
    }

    /// The first difference between rank 0 (`self`) and a worker in what must be equal.
    pub(super) fn disagreement(&self, worker: &Introduction) -> Option<StartError> {
        let differ = |what: &str, first: String, second: String| {
            (first != second).then(|| StartError::Disagreement {
                what: what.to_owned(),
                first: self.rank as usize,
                first_value: first,
                second: worker.rank as usize,
                second_value: second,
            })
        };
        differ("lycaon", self.release.clone(), worker.release.clone())
            .or_else(|| {
                differ("protocol version", self.protocol.to_string(), worker.protocol.to_string())
            })
            .or_else(|| differ("size", self.size.to_string(), worker.size.to_string()))
            .or_else(|| {
                let value = |settings: &str, name: &str| {
                    settings
                        .lines()
                        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
                        .unwrap_or("nothing")
                        .to_owned()
                };
                let names = self.settings.lines().chain(worker.settings.lines());
                names.filter_map(|line| line.split_once('=')).find_map(|(name, _)| {
                    differ(name, value(&self.settings, name), value(&worker.settings, name))
                })
            })
    }
}

/// `host node7, process 4242`.
pub(super) fn process_name() -> String {
    format!("host {}, process {}", crate::sys::interfaces::host_name(), std::process::id())
}

/// Random bytes of the operating system.
pub(super) fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    bytes
}

fn keyed(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    for part in parts {
        // With its length before it no part can be read as the beginning of the next.
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    mac
}

fn tag(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    keyed(key, parts).finalize().into_bytes().into()
}

/// The key of the handshake: from the job's token and from what the place of meeting adds to it
/// (the secret in a rendezvous file). Both may be empty.
pub(super) fn handshake_key(token: &[u8], place: &[u8]) -> Key {
    tag(token, &[b"lycaon handshake key", place])
}

/// The key with which the data links of this very group make sure of each other.
pub(super) fn session_key(key: &Key, job: &str, session: &[u8; 32]) -> Key {
    tag(key, &[b"lycaon session key", job.as_bytes(), session])
}

/// The worker's proof over both introductions.
pub(super) fn worker_proof(key: &Key, worker: &[u8], zero: &[u8]) -> [u8; PROOF] {
    tag(key, &[b"lycaon worker", worker, zero])
}

pub(super) fn worker_is_genuine(key: &Key, worker: &[u8], zero: &[u8], proof: &[u8]) -> bool {
    keyed(key, &[b"lycaon worker", worker, zero]).verify_slice(proof).is_ok()
}

/// Rank 0's last word of the handshake.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The worker is a member. The bytes make the session's key.
    Welcome([u8; 32]),
    /// The worker is genuine, but the group cannot form.
    Refused(Box<StartError>),
    /// The worker's proof was wrong. This verdict is not proven.
    Unknown,
}

impl Verdict {
    pub(super) fn encode(&self, key: &Key, worker: &[u8], zero: &[u8]) -> Vec<u8> {
        let (code, detail) = match self {
            Verdict::Welcome(session) => (0, session.to_vec()),
            Verdict::Refused(error) => {
                (1, serde_json::to_vec(error).expect("errors are plain data"))
            }
            Verdict::Unknown => (2, Vec::new()),
        };
        let mut out = vec![code];
        out.extend_from_slice(&(detail.len() as u16).to_le_bytes());
        out.extend_from_slice(&detail);
        let proof = match self {
            Verdict::Unknown => [0; PROOF],
            _ => tag(key, &[b"lycaon rank 0", worker, zero, &out]),
        };
        out.extend_from_slice(&proof);
        out
    }

    /// Length of detail and proof behind the head.
    pub(super) fn rest_length(head: &[u8; VERDICT_HEAD]) -> usize {
        usize::from(u16::from_le_bytes([head[1], head[2]])) + PROOF
    }

    /// Reads and checks a whole verdict; `Unknown` if rank 0's proof is wrong, too.
    pub(super) fn decode(
        bytes: &[u8],
        key: &Key,
        worker: &[u8],
        zero: &[u8],
    ) -> Result<Self, String> {
        let mut reader = Reader(bytes);
        let head: [u8; VERDICT_HEAD] = reader.array()?;
        let detail = reader.take(Self::rest_length(&head) - PROOF)?;
        let proof: [u8; PROOF] = reader.array()?;
        let said = &bytes[..VERDICT_HEAD + detail.len()];
        let genuine =
            keyed(key, &[b"lycaon rank 0", worker, zero, said]).verify_slice(&proof).is_ok();
        match head[0] {
            _ if !genuine => Ok(Verdict::Unknown),
            0 => detail
                .try_into()
                .map(Verdict::Welcome)
                .map_err(|_| format!("a welcome of {} bytes", detail.len())),
            1 => serde_json::from_slice(detail)
                .map(|error| Verdict::Refused(Box::new(error)))
                .map_err(|error| format!("a refusal that cannot be read: {error}")),
            other => Err(format!("a verdict of unknown kind {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn introduction(rank: u32) -> Introduction {
        Introduction {
            protocol: PROTOCOL,
            rank,
            size: 3,
            nonce: [rank as u8; 32],
            release: "0.1.0".to_owned(),
            job: "test".to_owned(),
            process: "host a, process 7".to_owned(),
            settings: "rails=1\nstaging=65536".to_owned(),
        }
    }

    #[test]
    fn introductions_round_trip() {
        let one = introduction(2);
        assert_eq!(Introduction::decode(&one.encode()), Ok(one));
    }

    #[test]
    fn proofs_bind_key_role_and_both_sides() {
        let (worker, zero) = (introduction(1).encode(), introduction(0).encode());
        let key = handshake_key(b"secret", b"");
        let proof = worker_proof(&key, &worker, &zero);
        assert!(worker_is_genuine(&key, &worker, &zero, &proof));
        assert!(!worker_is_genuine(&handshake_key(b"Secret", b""), &worker, &zero, &proof));
        assert!(!worker_is_genuine(&handshake_key(b"secret", b"f"), &worker, &zero, &proof));
        assert!(!worker_is_genuine(&key, &zero, &worker, &proof));
        let mut other = introduction(1);
        other.nonce[31] ^= 1;
        assert!(!worker_is_genuine(&key, &other.encode(), &zero, &proof));
        assert!(!worker_is_genuine(&key, &worker, &zero, &proof[..31]));

        let welcome = Verdict::Welcome([5; 32]);
        let bytes = welcome.encode(&key, &worker, &zero);
        assert_eq!(Verdict::decode(&bytes, &key, &worker, &zero), Ok(welcome));
        // The worker's own proof sent back to it is no proof of rank 0.
        let mut reflected = bytes.clone();
        let end = reflected.len() - PROOF;
        reflected[end..].copy_from_slice(&proof);
        assert_eq!(Verdict::decode(&reflected, &key, &worker, &zero), Ok(Verdict::Unknown));
        // A genuine refusal cannot be turned into a welcome.
        let refusal = Verdict::Refused(Box::new(StartError::Interrupted { rank: 0 }));
        let mut forged = refusal.encode(&key, &worker, &zero);
        assert_eq!(Verdict::decode(&forged, &key, &worker, &zero), Ok(refusal));
        forged[0] = 0;
        assert_eq!(Verdict::decode(&forged, &key, &worker, &zero), Ok(Verdict::Unknown));
    }

    #[test]
    fn session_keys_differ_by_job_session_and_token() {
        let key = handshake_key(b"a", b"");
        let one = session_key(&key, "j", &[1; 32]);
        assert_ne!(one, session_key(&key, "k", &[1; 32]));
        assert_ne!(one, session_key(&key, "j", &[2; 32]));
        assert_ne!(one, session_key(&handshake_key(b"b", b""), "j", &[1; 32]));
    }

    #[test]
    fn disagreements_say_who_has_what() {
        let zero = introduction(0);
        assert_eq!(zero.disagreement(&introduction(1)), None);
        let text = |change: fn(&mut Introduction)| {
            let mut worker = introduction(2);
            change(&mut worker);
            zero.disagreement(&worker).expect("they differ").to_string()
        };
        assert_eq!(
            text(|worker| worker.release = "0.2.0".to_owned()),
            "rank 0 has lycaon 0.1.0, rank 2 has 0.2.0; they must be equal"
        );
        assert_eq!(
            text(|worker| worker.protocol = 9),
            "rank 0 has protocol version 1, rank 2 has 9; they must be equal"
        );
        assert!(text(|worker| worker.size = 4).contains("rank 0 has size 3, rank 2 has 4"));
        assert!(
            text(|worker| worker.settings = "rails=1\nstaging=4".to_owned())
                .contains("rank 0 has staging 65536, rank 2 has 4")
        );
        assert!(
            text(|worker| worker.settings = "rails=1\nstaging=65536\nnew=1".to_owned())
                .contains("rank 0 has new nothing, rank 2 has 1")
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Introduction::decode(&bytes);
            let mut magical = MAGIC.to_vec();
            magical.extend_from_slice(&bytes);
            let _ = Introduction::decode(&magical);
            let _ = Verdict::decode(&bytes, &[0; 32], b"", b"");
        }

        #[test]
        fn damaged_introductions_do_not_panic(at in any::<prop::sample::Index>(), with: u8) {
            let mut bytes = introduction(1).encode();
            let at = at.index(bytes.len());
            bytes[at] = with;
            let _ = Introduction::decode(&bytes);
        }
    }
}
