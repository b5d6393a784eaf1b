//! What every message of a link carries on the wire beside its bytes.

/// Bytes of the header, at the beginning of every slot.
pub(super) const HEADER: usize = 24;

const MAGIC: [u8; 2] = *b"Lv";

/// What a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes of the stream.
    Data,
    /// Nothing but permissions to send.
    Credit,
    /// Nothing more follows.
    End,
    /// The first message of a connection, which proves that it works.
    Proof,
}

/// The header of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    /// Its place among all slots of this direction.
    pub sequence: u32,
    /// Its place among those of its queue pair: what is missing there was lost.
    pub place: u32,
    /// Bytes that follow.
    pub len: u32,
    /// Receives that were posted since the last slot, by class.
    pub credits: [u16; 2],
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[0..2].copy_from_slice(&MAGIC);
        out[2] = match self.kind {
            Kind::Data => 1,
            Kind::Credit => 2,
            Kind::End => 3,
            Kind::Proof => 4,
        };
        out[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        out[8..12].copy_from_slice(&self.place.to_le_bytes());
        out[12..16].copy_from_slice(&self.len.to_le_bytes());
        out[16..18].copy_from_slice(&self.credits[0].to_le_bytes());
        out[18..20].copy_from_slice(&self.credits[1].to_le_bytes());
        let check = check(&out);
        out[20..24].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// `None` for what no peer has written.
    pub(super) fn decode(bytes: &[u8; HEADER]) -> Option<Header> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if bytes[0..2] != MAGIC || word(20) != check(bytes) {
            return None;
        }
        let kind = match bytes[2] {
            1 => Kind::Data,
            2 => Kind::Credit,
            3 => Kind::End,
            4 => Kind::Proof,
            _ => return None,
        };
        let credits = [half(16), half(18)];
        Some(Header { kind, sequence: word(4), place: word(8), len: word(12), credits })
    }
}

/// Folds the first 20 bytes. It finds what was overwritten or never written; it is no protection
/// against an enemy.
fn check(bytes: &[u8; HEADER]) -> u32 {
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    for word in bytes[..20].chunks_exact(4) {
        let word = u32::from_le_bytes(word.try_into().expect("4 bytes"));
        hash = (hash ^ u64::from(word)).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29);
    }
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_every_flipped_bit_is_noticed() {
        for kind in [Kind::Data, Kind::Credit, Kind::End, Kind::Proof] {
            let header =
                Header { kind, sequence: u32::MAX, place: 7, len: 131_048, credits: [3, 65_535] };
            let bytes = header.encode();
            assert_eq!(Header::decode(&bytes), Some(header));
            for bit in 0..HEADER * 8 {
                let mut bad = bytes;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::decode(&bad), None, "bit {bit}");
            }
        }
        assert_eq!(Header::decode(&[0; HEADER]), None);
    }
}
