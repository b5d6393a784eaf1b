//! Groups within groups.

use std::sync::Arc;
use std::time::Duration;

use crate::call::{Call, Operation, Signature};
use crate::collective::{Algorithm, Counts, Problem};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::fabric::{Stop, Trouble};
use crate::sys::buf::Buffers;

use super::core::GroupCore;
use super::request::Checked;
use super::{Group, start};

/// Bytes that every rank says of itself: whether it takes part, its colour, its key.
const CARD: usize = 17;

impl Group {
    /// Forms sub-groups: ranks that give the same colour form one, ordered by `key` and, where keys
    /// are equal, by their rank here. All ranks have to call it. It works on every topology and to
    /// any depth; the new group has an order and an error state of its own and uses the links of
    /// this one.
    pub fn split(&self, color: u32, key: i64) -> Result<Group> {
        let group = self.split_optional(Some(color), key)?;
        Ok(group.expect("a rank with a colour is in the group of that colour"))
    }

    /// As [`split`](Group::split); ranks that give no colour join no group and get `None`.
    pub fn split_optional(&self, color: Option<u32>, key: i64) -> Result<Option<Group>> {
        let core = self.core();
        core.usable()?;
        let mut own = [0; CARD];
        own[0] = u8::from(color.is_some());
        own[1..5].copy_from_slice(&color.unwrap_or(0).to_le_bytes());
        own[5..13].copy_from_slice(&key.to_le_bytes());
        let mut cards = vec![0; CARD * core.size];
        let number = core.exchange(&own, &mut cards)?;
        let Some(color) = color else { return Ok(None) };

        let mut colors = Vec::new();
        let mut ranks: Vec<(i64, usize)> = Vec::new();
        for (rank, card) in cards.chunks_exact(CARD).enumerate() {
            let other = u32::from_le_bytes(card[1..5].try_into().expect("4 bytes"));
            let key = i64::from_le_bytes(card[5..13].try_into().expect("8 bytes"));
            if card[0] == 1 {
                colors.push(other);
                if other == color {
                    ranks.push((key, rank));
                }
            }
        }
        colors.sort_unstable();
        colors.dedup();
        let place = colors.iter().position(|other| *other == color).unwrap_or(0);
        ranks.sort_unstable();
        let members: Arc<[usize]> = ranks.iter().map(|(_, rank)| core.members[*rank]).collect();
        let rank = ranks
            .iter()
            .position(|(_, rank)| *rank == core.rank)
            .expect("this rank has this colour");
        let id = sub_group_id(core.id, number, place);
        start::sub_group(core, id, rank, members).map(Some)
    }
}

impl GroupCore {
    /// An all-gather of equal numbers of bytes for the library's own use. Returns its number.
    pub(super) fn exchange(&self, own: &[u8], all: &mut [u8]) -> Result<u64> {
        let place = self.take_place();
        let call = Call::new(Operation::Split, DType::U8, own.len() as u64);
        let checked = Checked {
            call,
            problem: Problem {
                operation: Operation::AllGather,
                rank: self.rank,
                size: self.size,
                dtype: DType::U8,
                op: None,
                root: 0,
                counts: Counts::Uniform(own.len() as u64),
                in_place: false,
            },
        };
        self.run_in_turn(&checked, Buffers::new(own, all), place.number)?;
        Ok(place.number)
    }

    /// The same before the group has all it needs to choose an algorithm.
    pub(super) fn exchange_directly(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut all = vec![0; own.len() * self.size];
        let place = self.take_place();
        let call = Call::new(Operation::Split, DType::U8, own.len() as u64);
        let signature = Signature { sequence: place.number, call };
        let problem = Problem {
            operation: Operation::AllGather,
            rank: self.rank,
            size: self.size,
            dtype: DType::U8,
            op: None,
            root: 0,
            counts: Counts::Uniform(own.len() as u64),
            in_place: false,
        };
        let buffers = Buffers::new(own, &mut all);
        self.over_messages(&problem, signature, Algorithm::Direct, buffers)?;
        Ok(all.chunks_exact(own.len()).map(<[u8]>::to_vec).collect())
    }

    /// What [`GroupCore::exchange_directly`] gives if the program has asked for an end before it.
    pub(super) fn interrupt_exchange(&self, own: &[u8]) -> Error {
        let number = self.turn.take();
        let call = Call::new(Operation::Split, DType::U8, own.len() as u64);
        let trouble = Trouble::Stop { stop: Stop::Interrupted, peer: None };
        let signature = Signature { sequence: number, call };
        let error = self.fail(signature, Duration::ZERO, trouble);
        self.end_turn(number);
        error
    }
}

/// An id that all members compute alike and that no other group of the job has: the parent's id,
/// the number of the split in it, and the place of the colour, mixed by the finaliser of
/// `SplitMix64` (Steele, Lea, Flood 2014).
fn sub_group_id(parent: u64, number: u64, place: usize) -> u64 {
    let mut id = parent;
    for part in [number, place as u64] {
        id = id.wrapping_add(part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        id ^= id >> 31;
    }
    // 0 is the whole job.
    id.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_of_sub_groups_differ() {
        let mut ids = HashSet::from([0]);
        let mut parents = vec![0];
        for _ in 0..2 {
            let mut next = Vec::new();
            for parent in parents {
                for number in 0..20 {
                    for place in 0..10 {
                        let id = sub_group_id(parent, number, place);
                        assert!(ids.insert(id), "{parent} {number} {place}");
                        if number < 2 {
                            next.push(id);
                        }
                    }
                }
            }
            parents = next;
        }
    }
}
