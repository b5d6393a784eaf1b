//! The bytes of a frame header. `docs/wire-protocol.md`, "Data links", describes them.

use crate::call::{Call, Signature};
use crate::transport::{Lane, LaneKind};

/// Bytes of every frame header.
pub(super) const HEADER: usize = 64;

const MAGIC: [u8; 2] = *b"Ly";

const EAGER: u8 = 1;
const DATA: u8 = 2;
const CLEAR: u8 = 3;
const ANNOUNCE: u8 = 4;
const CREDIT: u8 = 5;
const REFUSED: u8 = 6;
const WITHDRAWN: u8 = 7;
const CLOSE: u8 = 8;

/// One frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A whole small message; its bytes follow.
    Eager(Subject),
    /// A part of a large message that was asked for; its bytes follow.
    Data {
        lane: Lane,
        index: u64,
        /// Length of the whole message.
        total: u64,
        /// Where in the message this part begins.
        offset: u64,
        /// Bytes that follow.
        len: u64,
    },
    /// From the receiver: the receive is posted, send the large message.
    Clear(Subject),
    /// From the sender: a large message waits to be asked for.
    Announce(Subject),
    /// From the receiver: these messages of a lane no longer occupy its buffers.
    Credit { lane: Lane, bytes: u64, messages: u64 },
    /// From the receiver of a message: it belongs to another call than the receive.
    Refused(Subject),
    /// From the sender of a message: the receive belongs to another call than the message.
    Withdrawn(Subject),
    /// Nothing more follows on this rail.
    Close,
}

/// Which message, in which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub lane: Lane,
    /// Its number in the lane and direction, from 0.
    pub index: u64,
    /// The call of the side that sends the frame.
    pub signature: Signature,
    /// Bytes of the message.
    pub len: u64,
}

/// Why a header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("a frame begins with {0:02x?} instead of {MAGIC:02x?}")]
    Magic([u8; 2]),
    #[error("the check of a frame header is {found:08x} instead of {computed:08x}")]
    Check { found: u32, computed: u32 },
    #[error("there is no frame kind {0}")]
    Kind(u8),
    #[error("there is no lane kind {0}")]
    LaneKind(u8),
    #[error("a frame carries a call with unknown numbers")]
    Call,
    #[error("a part of {len} bytes at {offset} does not fit a message of {total}")]
    Range { offset: u64, len: u64, total: u64 },
}

impl Frame {
    /// The 64 bytes.
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[0..2].copy_from_slice(&MAGIC);
        match self {
            Frame::Eager(subject) => subject.encode(EAGER, &mut out),
            Frame::Clear(subject) => subject.encode(CLEAR, &mut out),
            Frame::Announce(subject) => subject.encode(ANNOUNCE, &mut out),
            Frame::Refused(subject) => subject.encode(REFUSED, &mut out),
            Frame::Withdrawn(subject) => subject.encode(WITHDRAWN, &mut out),
            Frame::Data { lane, index, total, offset, len } => {
                out[2] = DATA;
                encode_lane(*lane, &mut out);
                put(&mut out, 16, *index);
                put(&mut out, 24, *offset);
                put(&mut out, 32, *len);
                put(&mut out, 52, *total);
            }
            Frame::Credit { lane, bytes, messages } => {
                out[2] = CREDIT;
                encode_lane(*lane, &mut out);
                put(&mut out, 24, *bytes);
                put(&mut out, 32, *messages);
            }
            Frame::Close => out[2] = CLOSE,
        }
        let check = check(&out);
        out[60..64].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// Reads what [`Frame::encode`] writes.
    pub(super) fn decode(bytes: &[u8; HEADER]) -> Result<Frame, FrameError> {
        if bytes[0..2] != MAGIC {
            return Err(FrameError::Magic([bytes[0], bytes[1]]));
        }
        let computed = check(bytes);
        let found = u32::from_le_bytes([bytes[60], bytes[61], bytes[62], bytes[63]]);
        if computed != found {
            return Err(FrameError::Check { found, computed });
        }
        Ok(match bytes[2] {
            EAGER => Frame::Eager(Subject::decode(bytes)?),
            CLEAR => Frame::Clear(Subject::decode(bytes)?),
            ANNOUNCE => Frame::Announce(Subject::decode(bytes)?),
            REFUSED => Frame::Refused(Subject::decode(bytes)?),
            WITHDRAWN => Frame::Withdrawn(Subject::decode(bytes)?),
            DATA => {
                let (offset, len, total) = (word(bytes, 24), word(bytes, 32), word(bytes, 52));
                if len == 0 || offset.checked_add(len).is_none_or(|end| end > total) {
                    return Err(FrameError::Range { offset, len, total });
                }
                let (lane, index) = (decode_lane(bytes)?, word(bytes, 16));
                Frame::Data { lane, index, total, offset, len }
            }
            CREDIT => Frame::Credit {
                lane: decode_lane(bytes)?,
                bytes: word(bytes, 24),
                messages: word(bytes, 32),
            },
            CLOSE => Frame::Close,
            kind => return Err(FrameError::Kind(kind)),
        })
    }
}

impl Subject {
    fn encode(&self, kind: u8, out: &mut [u8; HEADER]) {
        out[2] = kind;
        encode_lane(self.lane, out);
        put(out, 16, self.index);
        put(out, 24, self.signature.sequence);
        out[32..52].copy_from_slice(&self.signature.call.encode());
        put(out, 52, self.len);
    }

    fn decode(bytes: &[u8; HEADER]) -> Result<Subject, FrameError> {
        let call: &[u8; Call::ENCODED] = bytes[32..52].try_into().expect("20 bytes");
        let call = Call::decode(call).ok_or(FrameError::Call)?;
        Ok(Subject {
            lane: decode_lane(bytes)?,
            index: word(bytes, 16),
            signature: Signature { sequence: word(bytes, 24), call },
            len: word(bytes, 52),
        })
    }
}

fn encode_lane(lane: Lane, out: &mut [u8; HEADER]) {
    let (kind, tag) = match lane.kind {
        LaneKind::Collective => (0, 0),
        LaneKind::Message { tag } => (1, tag),
    };
    out[3] = kind;
    out[4..8].copy_from_slice(&tag.to_le_bytes());
    put(out, 8, lane.group);
}

fn decode_lane(bytes: &[u8; HEADER]) -> Result<Lane, FrameError> {
    let tag = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let kind = match bytes[3] {
        0 => LaneKind::Collective,
        1 => LaneKind::Message { tag },
        kind => return Err(FrameError::LaneKind(kind)),
    };
    Ok(Lane { group: word(bytes, 8), kind })
}

fn put(out: &mut [u8; HEADER], at: usize, value: u64) {
    out[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn word(bytes: &[u8; HEADER], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Folds the first 60 bytes, as seven words and a half, into 32 bits. It finds a stream that is
/// out of step or overwritten; it is no protection against an enemy.
fn check(bytes: &[u8; HEADER]) -> u32 {
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    for at in [0, 8, 16, 24, 32, 40, 48] {
        hash = (hash ^ word(bytes, at)).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29);
    }
    let tail = u32::from_le_bytes([bytes[56], bytes[57], bytes[58], bytes[59]]);
    hash = (hash ^ u64::from(tail)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Operation;
    use crate::dtype::DType;

    fn frames() -> Vec<Frame> {
        let lane = Lane { group: 0x1122_3344_5566_7788, kind: LaneKind::Message { tag: 0xa1b2 } };
        let call = Call::new(Operation::Send, DType::F32, 3 << 33);
        let signature = Signature { sequence: 1 << 40, call };
        let subject = Subject { lane, index: 7 << 32, signature, len: 3 << 35 };
        let collective = Lane { group: 0, kind: LaneKind::Collective };
        vec![
            Frame::Eager(subject),
            Frame::Clear(Subject { lane: collective, ..subject }),
            Frame::Announce(subject),
            Frame::Refused(subject),
            Frame::Withdrawn(subject),
            Frame::Data { lane, index: 3, total: 5 << 32, offset: 4 << 32, len: 1 << 32 },
            Frame::Credit { lane, bytes: 1 << 20, messages: 32 },
            Frame::Close,
        ]
    }

    #[test]
    fn every_kind_round_trips() {
        for frame in frames() {
            assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for frame in frames() {
            let good = frame.encode();
            for bit in 0..HEADER * 8 {
                let mut bad = good;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(Frame::decode(&bad).is_err(), "{frame:?}, bit {bit}");
            }
        }
    }

    #[test]
    fn impossible_headers_say_what_is_wrong() {
        let sealed = |edit: &dyn Fn(&mut [u8; HEADER])| {
            let mut bytes = frames()[0].encode();
            edit(&mut bytes);
            let check = check(&bytes);
            bytes[60..64].copy_from_slice(&check.to_le_bytes());
            Frame::decode(&bytes).expect_err("impossible")
        };
        assert_eq!(sealed(&|bytes| bytes[2] = 0), FrameError::Kind(0));
        assert_eq!(sealed(&|bytes| bytes[2] = 9), FrameError::Kind(9));
        assert_eq!(sealed(&|bytes| bytes[3] = 2), FrameError::LaneKind(2));
        assert_eq!(sealed(&|bytes| bytes[33] = 0xee), FrameError::Call);
        let beyond = sealed(&|bytes| {
            bytes[2] = DATA;
            put(bytes, 24, u64::MAX);
        });
        assert!(matches!(beyond, FrameError::Range { offset: u64::MAX, .. }), "{beyond:?}");
        assert_eq!(
            Frame::decode(&[0; HEADER]).expect_err("no magic").to_string(),
            "a frame begins with [00, 00] instead of [4c, 79]"
        );
    }
}
