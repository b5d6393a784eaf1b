//! Which cases are tried: draws from the cross product of everything a call can be.

use lycaon::{Algorithm, DType};

use super::Random;
use super::case::{Case, OPERATIONS, Order, has_counts, has_in_place, has_root};
use super::number::operators;

/// Sizes in bytes at which something changes: what fits on a card of shared memory, the eager
/// limits of memory, shared memory and TCP, the staging slots of an arena with 2 to 16 ranks, the
/// chunk of a plan, the fragment of a link, the piece of a message.
pub(crate) const EDGES: [usize; 13] = [
    56,
    64,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    (1 << 20) + (128 << 10),
    2 << 20,
    4 << 20,
];

impl Case {
    /// Any case whose data per rank or block has `count` elements.
    pub(crate) fn draw(random: &mut Random, size: usize, count: usize) -> Case {
        let dtype = random.pick(&DType::ALL);
        Case::draw_of(random, size, count, dtype)
    }

    pub(crate) fn draw_of(random: &mut Random, size: usize, count: usize, dtype: DType) -> Case {
        let operation = random.pick(&OPERATIONS);
        let op = random.pick(&operators(dtype));
        Case {
            operation,
            dtype,
            op,
            // For a send_recv it says how far.
            root: if has_root(operation) || size > 1 { random.below(size) } else { 0 },
            count,
            by_rank: has_counts(operation) && random.chance(3),
            in_place: has_in_place(operation) && random.chance(2),
            seed: random.next(),
        }
    }

    /// A case whose data is one element less, as much or one more than an edge of `bytes` bytes.
    pub(crate) fn draw_at_edge(random: &mut Random, size: usize, bytes: usize) -> Case {
        let dtype = random.pick(&DType::ALL);
        let count = (bytes / dtype.size() + random.below(3)).saturating_sub(1);
        Case::draw_of(random, size, count, dtype)
    }

    /// A case with a size as they come: mostly small, some of a few kilobytes, few large.
    pub(crate) fn draw_any(random: &mut Random, size: usize) -> Case {
        match random.below(20) {
            0..8 => {
                let count = random.pick(&[0, 1, 2, 3, 5, 7, 8, 13, 17]);
                Case::draw(random, size, count)
            }
            8..14 => {
                let count = random.below(3000);
                Case::draw(random, size, count)
            }
            14..19 => {
                let edge = random.pick(&EDGES[..7]);
                Case::draw_at_edge(random, size, edge)
            }
            _ => {
                let edge = random.pick(&EDGES[7..]);
                Case::draw_at_edge(random, size, edge / size)
            }
        }
    }
}

/// How exactly all results are known with an algorithm chosen by hand. (Operations that do not have
/// it take another one.)
pub(crate) fn order(algorithm: Option<Algorithm>) -> Order {
    match algorithm {
        Some(Algorithm::Direct | Algorithm::Arena) => Order::Rank,
        _ => Order::Any,
    }
}
