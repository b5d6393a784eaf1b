//! Who is at the other end of a data connection: both sides prove that they know the job's key.
//!
//! `docs/wire-protocol.md`, "Data links", describes the four messages.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Version of the data protocol, of this handshake and of the frames after it.
const VERSION: u16 = 1;
const MAGIC: [u8; 8] = *b"lycaonDL";

pub(super) const HELLO: usize = 68;
pub(super) const CHALLENGE: usize = 64;
pub(super) const CHOICE: usize = 36;
pub(super) const WELCOME: usize = 32;

type Nonce = [u8; 32];

/// What both sides know before they meet.
#[derive(Clone)]
pub(super) struct Secret {
    key: [u8; 32],
    job: [u8; 16],
}

/// The connecting side's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub from: u32,
    pub to: u32,
    pub nonce: Nonce,
}

/// Which rail a connection becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub rail: u16,
    pub rails: u16,
}

/// Why the other side is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stranger {
    #[error("it does not speak this protocol")]
    Magic,
    #[error("it speaks version {theirs} of the data protocol, this is version {VERSION}")]
    Version { theirs: u16 },
    #[error("it belongs to another job")]
    Job,
    #[error("it looks for rank {to}, this is rank {me}")]
    Misdirected { to: u32, me: usize },
    #[error("it says it is rank {from}, which is not expected here")]
    Unexpected { from: u32 },
    #[error("it does not know the token of the job")]
    Key,
    #[error("it wants rail {} of {}, this rank expects {expected}", .choice.rail, .choice.rails)]
    Rails { choice: Choice, expected: usize },
}

impl Secret {
    pub(super) fn new(key: &[u8; 32], job: &[u8]) -> Self {
        let digest = Sha256::digest(job);
        let job = digest[..16].try_into().expect("a digest has 32 bytes");
        Secret { key: *key, job }
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("any key length will do");
        for part in parts {
            mac.update(part);
        }
        mac
    }

    pub(super) fn hello(&self, hello: &Hello) -> [u8; HELLO] {
        let mut out = [0; HELLO];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&hello.from.to_le_bytes());
        out[16..20].copy_from_slice(&hello.to.to_le_bytes());
        out[20..36].copy_from_slice(&self.job);
        out[36..68].copy_from_slice(&hello.nonce);
        out
    }

    pub(super) fn read_hello(&self, bytes: &[u8; HELLO]) -> Result<Hello, Stranger> {
        if bytes[0..8] != MAGIC {
            return Err(Stranger::Magic);
        }
        let theirs = u16::from_le_bytes([bytes[8], bytes[9]]);
        if theirs != VERSION {
            return Err(Stranger::Version { theirs });
        }
        if bytes[20..36] != self.job {
            return Err(Stranger::Job);
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let nonce = bytes[36..68].try_into().expect("32 bytes");
        Ok(Hello { from: word(12), to: word(16), nonce })
    }

    /// The accepting side's answer: its nonce, and proof that it knows the key.
    pub(super) fn challenge(&self, hello: &Hello, nonce: &Nonce) -> [u8; CHALLENGE] {
        let mut out = [0; CHALLENGE];
        out[..32].copy_from_slice(nonce);
        let mac = self.mac(&[b"accept", &self.hello(hello), nonce]).finalize();
        out[32..].copy_from_slice(&mac.into_bytes());
        out
    }

    pub(super) fn read_challenge(
        &self,
        hello: &Hello,
        bytes: &[u8; CHALLENGE],
    ) -> Result<Nonce, Stranger> {
        let nonce: Nonce = bytes[..32].try_into().expect("32 bytes");
        let mac = self.mac(&[b"accept", &self.hello(hello), &nonce]);
        mac.verify_slice(&bytes[32..]).map_err(|_| Stranger::Key)?;
        Ok(nonce)
    }

    /// The connecting side's proof, with what the connection is for.
    pub(super) fn choice(&self, hello: &Hello, nonce: &Nonce, choice: Choice) -> [u8; CHOICE] {
        let mut out = [0; CHOICE];
        out[0..2].copy_from_slice(&choice.rail.to_le_bytes());
        out[2..4].copy_from_slice(&choice.rails.to_le_bytes());
        let mac = self.mac(&[b"connect", &self.hello(hello), nonce, &out[..4]]).finalize();
        out[4..].copy_from_slice(&mac.into_bytes());
        out
    }

    pub(super) fn read_choice(
        &self,
        hello: &Hello,
        nonce: &Nonce,
        bytes: &[u8; CHOICE],
    ) -> Result<Choice, Stranger> {
        let mac = self.mac(&[b"connect", &self.hello(hello), nonce, &bytes[..4]]);
        mac.verify_slice(&bytes[4..]).map_err(|_| Stranger::Key)?;
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Ok(Choice { rail: half(0), rails: half(2) })
    }

    /// The accepting side's last word: the connection is a rail now.
    pub(super) fn welcome(&self, hello: &Hello, nonce: &Nonce) -> [u8; WELCOME] {
        self.mac(&[b"welcome", &self.hello(hello), nonce]).finalize().into_bytes().into()
    }

    pub(super) fn read_welcome(
        &self,
        hello: &Hello,
        nonce: &Nonce,
        bytes: &[u8; WELCOME],
    ) -> Result<(), Stranger> {
        let mac = self.mac(&[b"welcome", &self.hello(hello), nonce]);
        mac.verify_slice(bytes).map_err(|_| Stranger::Key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_meet_and_every_flipped_bit_is_noticed() {
        let secret = Secret::new(&[7; 32], b"job");
        let hello = Hello { from: 1, to: 2, nonce: [3; 32] };
        let nonce = [4; 32];
        let choice = Choice { rail: 1, rails: 2 };
        assert_eq!(secret.read_hello(&secret.hello(&hello)), Ok(hello));
        assert_eq!(secret.read_challenge(&hello, &secret.challenge(&hello, &nonce)), Ok(nonce));
        let proof = secret.choice(&hello, &nonce, choice);
        assert_eq!(secret.read_choice(&hello, &nonce, &proof), Ok(choice));
        assert_eq!(secret.read_welcome(&hello, &nonce, &secret.welcome(&hello, &nonce)), Ok(()));
        for bit in 0..CHOICE * 8 {
            let mut bad = proof;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(secret.read_choice(&hello, &nonce, &bad), Err(Stranger::Key));
        }
        for bit in 0..CHALLENGE * 8 {
            let mut bad = secret.challenge(&hello, &nonce);
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(secret.read_challenge(&hello, &bad), Err(Stranger::Key));
        }
    }

    #[test]
    fn strangers_are_told_apart() {
        let secret = Secret::new(&[7; 32], b"job");
        let hello = Hello { from: 1, to: 2, nonce: [3; 32] };
        let other_job = Secret::new(&[7; 32], b"another job");
        assert_eq!(secret.read_hello(&other_job.hello(&hello)), Err(Stranger::Job));
        let other_key = Secret::new(&[8; 32], b"job");
        let challenge = other_key.challenge(&hello, &[4; 32]);
        assert_eq!(secret.read_challenge(&hello, &challenge), Err(Stranger::Key));
        let mut newer = secret.hello(&hello);
        newer[8] = 9;
        assert_eq!(secret.read_hello(&newer), Err(Stranger::Version { theirs: 9 }));
        assert_eq!(secret.read_hello(&[b'G'; HELLO]), Err(Stranger::Magic));
        // A proof for one connection is none for another.
        let choice = Choice { rail: 0, rails: 1 };
        let proof = secret.choice(&hello, &[4; 32], choice);
        assert_eq!(secret.read_choice(&hello, &[5; 32], &proof), Err(Stranger::Key));
    }
}
