//! The frames of the control connection, once the handshake is over.
//!
//! A frame is a length (`u32`, little-endian, of what follows it), a kind (one byte) and a body.
//! `docs/wire-protocol.md` has the whole of it.

use serde::{Deserialize, Serialize};

use super::scope::Scope;
use crate::error::{Cause, StartError};

/// No frame is longer; a longer one is a broken peer.
pub(super) const MAX_FRAME: usize = 64 << 20;
/// The longest text of an error that travels.
const MAX_TEXT: usize = 64 << 10;

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Failure {
    /// While the group was forming.
    Start {
        /// The rank where it happened.
        rank: usize,
        /// What happened there.
        error: StartError,
    },
    /// Afterwards, or a death at any time.
    Cause {
        /// Which groups it concerns.
        scope: Scope,
        /// What happened.
        cause: Cause,
    },
}

/// One message of the control connection.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Frame {
    /// To rank 0: this rank's part of exchange number `step`.
    Contribution { step: u32, what: String, bytes: Vec<u8> },
    /// From rank 0: everybody's part.
    Gathered { step: u32, entries: Vec<Vec<u8>> },
    /// From rank 0: the ranks that are not there yet; none means that the group is complete.
    Missing { ranks: Vec<u32> },
    /// To rank 0: this rank failed while the group was forming. From rank 0: one more failure, for
    /// everybody and in the same order.
    Failure(Failure),
    /// To rank 0: what this rank saw.
    Report { scope: Scope, cause: Cause },
    /// From rank 0: this rank has said goodbye.
    Departed { rank: u32 },
    /// The sender closes this connection in peace.
    Goodbye,
    /// Asks for an answer.
    Ping,
    /// The answer.
    Pong,
}

impl Frame {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        match self {
            Frame::Contribution { step, what, bytes } => {
                out.push(1);
                put_u32(&mut out, *step);
                put_bytes(&mut out, what.as_bytes());
                put_bytes(&mut out, bytes);
            }
            Frame::Gathered { step, entries } => {
                out.push(2);
                put_u32(&mut out, *step);
                put_u32(&mut out, entries.len() as u32);
                for entry in entries {
                    put_bytes(&mut out, entry);
                }
            }
            Frame::Missing { ranks } => {
                out.push(3);
                put_u32(&mut out, ranks.len() as u32);
                for rank in ranks {
                    put_u32(&mut out, *rank);
                }
            }
            Frame::Failure(failure) => {
                out.push(4);
                out.extend(json(failure));
            }
            Frame::Report { scope, cause } => {
                out.push(5);
                out.extend(json(&(scope, cause)));
            }
            Frame::Departed { rank } => {
                out.push(6);
                put_u32(&mut out, *rank);
            }
            Frame::Goodbye => out.push(7),
            Frame::Ping => out.push(8),
            Frame::Pong => out.push(9),
        }
        let length = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&length.to_le_bytes());
        out
    }

    /// Reads what follows the length.
    fn decode(bytes: &[u8]) -> Result<Frame, String> {
        let (kind, body) = bytes.split_first().ok_or("an empty frame")?;
        let mut reader = Reader(body);
        let frame = match kind {
            1 => Frame::Contribution {
                step: reader.u32()?,
                what: reader.text()?,
                bytes: reader.bytes()?.to_vec(),
            },
            2 => {
                let step = reader.u32()?;
                let count = reader.u32()? as usize;
                // Each entry has a length, so a count beyond that is a lie.
                if count > reader.0.len() / 4 {
                    return Err(format!("{count} entries in {} bytes", reader.0.len()));
                }
                let entries = (0..count)
                    .map(|_| reader.bytes().map(<[u8]>::to_vec))
                    .collect::<Result<_, _>>()?;
                Frame::Gathered { step, entries }
            }
            3 => {
                let count = reader.u32()? as usize;
                if count > reader.0.len() / 4 {
                    return Err(format!("{count} ranks in {} bytes", reader.0.len()));
                }
                Frame::Missing {
                    ranks: (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?,
                }
            }
            4 => Frame::Failure(from_json(reader.rest())?),
            5 => {
                let (scope, cause) = from_json(reader.rest())?;
                Frame::Report { scope, cause }
            }
            6 => Frame::Departed { rank: reader.u32()? },
            7 => Frame::Goodbye,
            8 => Frame::Ping,
            9 => Frame::Pong,
            other => return Err(format!("a frame of unknown kind {other}")),
        };
        if !reader.0.is_empty() {
            return Err(format!("{} bytes too many in a frame of kind {kind}", reader.0.len()));
        }
        Ok(frame)
    }
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("errors are plain data, which always has a JSON form")
}

fn from_json<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, String> {
    if bytes.len() > MAX_TEXT {
        return Err(format!("an error of {} bytes", bytes.len()));
    }
    serde_json::from_slice(bytes).map_err(|error| format!("an error that cannot be read: {error}"))
}

pub(super) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

/// Takes values off the front of a slice.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (head, tail) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| format!("{count} bytes wanted where {} are left", self.0.len()))?;
        self.0 = tail;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N).map(|bytes| bytes.try_into().expect("take gives the wanted length"))
    }

    pub(super) fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Result<String, String> {
        let bytes = self.bytes()?;
        if bytes.len() > MAX_TEXT {
            return Err(format!("a text of {} bytes", bytes.len()));
        }
        String::from_utf8(bytes.to_vec()).map_err(|_| "a text that is not UTF-8".to_owned())
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub(super) struct FrameBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl FrameBuffer {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, String> {
        let waiting = &self.bytes[self.start..];
        let Some((length, rest)) = waiting.split_first_chunk::<4>() else {
            self.compact();
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_FRAME {
            return Err(format!("a frame of {length} bytes"));
        }
        let Some(frame) = rest.get(..length) else {
            self.compact();
            return Ok(None);
        };
        let frame = Frame::decode(frame)?;
        self.start += 4 + length;
        Ok(Some(frame))
    }

    fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        // A large exchange happens once; its memory is not kept for the life of the group.
        if self.bytes.is_empty() && self.bytes.capacity() > 64 << 10 {
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples() -> Vec<Frame> {
        vec![
            Frame::Contribution { step: 3, what: "links".to_owned(), bytes: vec![1, 2, 3] },
            Frame::Gathered { step: 3, entries: vec![vec![], vec![9; 5], vec![1]] },
            Frame::Missing { ranks: vec![2, 7] },
            Frame::Failure(Failure::Start {
                rank: 1,
                error: StartError::RankFailed { rank: 1, reason: "no memory".to_owned() },
            }),
            Frame::Failure(Failure::Cause {
                scope: Scope::Rank(2),
                cause: Cause::RankLeft { rank: 2 },
            }),
            Frame::Report {
                scope: Scope::Group(u64::MAX),
                cause: Cause::RankDied { rank: 4, how: "cut".to_owned() },
            },
            Frame::Departed { rank: 3 },
            Frame::Goodbye,
            Frame::Ping,
            Frame::Pong,
        ]
    }

    #[test]
    fn frames_survive_any_cutting() {
        let stream: Vec<u8> = samples().iter().flat_map(Frame::encode).collect();
        for piece in [1, 2, 3, 7, stream.len()] {
            let mut buffer = FrameBuffer::default();
            let mut read = Vec::new();
            for part in stream.chunks(piece) {
                buffer.push(part);
                while let Some(frame) = buffer.next().unwrap() {
                    read.push(frame);
                }
            }
            assert_eq!(read, samples(), "pieces of {piece}");
        }
    }

    #[test]
    fn lies_are_refused_without_large_allocations() {
        for bytes in [
            &[255, 255, 255, 255, 1][..],
            &[0, 0, 0, 0],
            &[1, 0, 0, 0, 99],
            &[9, 0, 0, 0, 2, 0, 0, 0, 0, 255, 255, 255, 255],
            &[5, 0, 0, 0, 3, 255, 255, 255, 255],
            &[2, 0, 0, 0, 7, 7],
            &[3, 0, 0, 0, 4, b'{', b'}'],
        ] {
            let mut buffer = FrameBuffer::default();
            buffer.push(bytes);
            assert!(buffer.next().is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Frame::decode(&bytes);
            let mut buffer = FrameBuffer::default();
            buffer.push(&bytes);
            while let Ok(Some(_)) = buffer.next() {}
        }

        #[test]
        fn damaged_frames_do_not_panic(which in 0usize..10, at in any::<prop::sample::Index>(), with: u8) {
            let mut bytes = samples()[which].encode();
            let at = at.index(bytes.len());
            bytes[at] = with;
            let mut buffer = FrameBuffer::default();
            buffer.push(&bytes);
            let _ = buffer.next();
        }
    }
}
