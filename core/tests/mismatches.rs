//! Ranks that call different things: whatever differs is an error on every rank that shows both sides.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lycaon::error::Cause;
use lycaon::{Error, Group, Op, Result};

use support::processes::{Cluster, join_again, play, say};
use support::threads::{Way, run};

const WITHIN: Duration = Duration::from_secs(60);

#[test]
fn child_main() {
    play(&[("mismatch", mismatches_in_processes)]);
}

fn ways() -> [Way; 3] {
    [Way::memory(), Way::messages(None), Way::messages(None).weather(8)]
}

fn cause_of(error: &Error) -> Arc<Cause> {
    match error {
        Error::Operation(error) => Arc::clone(&error.cause),
        other => panic!("no failed operation: {other}"),
    }
}

/// What a rank calls, and what every rank's error must contain.
type Mismatch = (&'static str, fn(&Group) -> Result<()>, [&'static str; 2]);

/// In all of these rank 1 does something else than ranks 0 and 2.
const MISMATCHES: [Mismatch; 15] = [
    (
        "swapped operations",
        |group| {
            let (mut one, mut all) = ([1i32; 2], [0i32; 6]);
            if group.rank() == 1 {
                group.all_gather(&one, &mut all)?;
                group.all_reduce(&mut one, Op::Sum)
            } else {
                group.all_reduce(&mut one, Op::Sum)?;
                group.all_gather(&one, &mut all)
            }
        },
        ["in all_reduce #0 (i32 × 2, sum)", "in all_gather #0 (i32 × 2)"],
    ),
    (
        "counts of an all_reduce",
        |group| group.all_reduce(&mut vec![1.0f32; 5 + group.rank() % 2], Op::Sum),
        ["in all_reduce #0 (f32 × 5, sum)", "in all_reduce #0 (f32 × 6, sum)"],
    ),
    (
        "counts, one of them large",
        |group| group.all_reduce(&mut vec![1u8; 7 + 500_000 * (group.rank() % 2)], Op::Sum),
        ["in all_reduce #0 (u8 × 7, sum)", "in all_reduce #0 (u8 × 500007, sum)"],
    ),
    (
        "counts, one of them zero",
        |group| group.all_reduce(&mut vec![1u64; group.rank() % 2], Op::Sum),
        ["in all_reduce #0 (u64 × 0, sum)", "in all_reduce #0 (u64 × 1, sum)"],
    ),
    (
        "element types",
        |group| match group.rank() {
            1 => group.all_reduce(&mut [1u32; 4], Op::Sum),
            _ => group.all_reduce(&mut [1.0f32; 4], Op::Sum),
        },
        ["(f32 × 4, sum)", "(u32 × 4, sum)"],
    ),
    (
        "operators",
        |group| {
            let op = if group.rank() == 1 { Op::Max } else { Op::Min };
            group.reduce_scatter(&[1i64; 3], &mut [0], op)
        },
        ["in reduce_scatter #0 (i64 × 1, min)", "in reduce_scatter #0 (i64 × 1, max)"],
    ),
    (
        "roots",
        |group| group.broadcast(&mut [1u8; 9], group.rank() % 2),
        // Small data is sent before anybody looks, so it may be the next call that finds it.
        ["in broadcast #0 (u8 × 9, root ", "rank 1 "],
    ),
    (
        "roots of large data",
        |group| group.broadcast(&mut vec![1u8; 400_000], group.rank() % 2),
        ["in broadcast #0 (u8 × 400000, root ", "rank 1 "],
    ),
    (
        "counts by rank",
        |group| {
            let counts = if group.rank() == 1 { [1, 1, 2] } else { [2, 1, 1] };
            group.all_gather_v(&vec![1i32; counts[group.rank()]], &mut [0; 4], &counts)
        },
        ["in all_gather #0 (i32 × 4, layout", "in all_gather #0 (i32 × 4, layout"],
    ),
    (
        "counts of a gather that only the root knows",
        |group| {
            let own = vec![1i16; 2 + group.rank() % 2];
            let mut all = [0; 6];
            match group.rank() {
                0 => group.gather_v(&own, Some((&mut all, &[2, 2, 2])), 0),
                _ => group.gather_v(&own, None, 0),
            }
        },
        ["in gather #0 (i16 × ", "in gather #0 (i16 × "],
    ),
    (
        "counts of a scatter that only the root knows",
        |group| {
            let mut own = vec![1i16; 2 + group.rank() % 2];
            match group.rank() {
                0 => group.scatter_v(Some((&[1; 6], &[2, 2, 2])), &mut own, 0),
                _ => group.scatter_v(None, &mut own, 0),
            }
        },
        ["in scatter #0 (i16 × ", "in scatter #0 (i16 × "],
    ),
    (
        "counts of one pair in an all_to_all",
        |group| {
            let mut counts = [1; 3];
            let other = [1; 3];
            if group.rank() == 1 {
                // One more for rank 2, which does not know.
                counts[2] = 2;
            }
            let input = vec![1u32; counts.iter().sum()];
            group.all_to_all_v(&input, &counts, &mut [0; 3], &other)
        },
        ["in all_to_all #0 (u32 × ", "in all_to_all #0 (u32 × "],
    ),
    (
        "a collective and a barrier",
        |group| match group.rank() {
            1 => group.barrier(),
            _ => group.scan(&mut [1u8; 3], Op::Sum),
        },
        // Rank 0 only sends in a scan, so it may be in the next call when it is found.
        ["rank 1 ", "in barrier #0"],
    ),
    (
        "lengths of a message",
        |group| match group.rank() {
            0 => group.send(&[1u16; 40], 1, 5),
            1 => group.recv(&mut [0u16; 41], 0, 5),
            _ => Ok(()),
        },
        ["in send #0 (u16 × 40)", "in recv #0 (u16 × 41)"],
    ),
    (
        "element types of a message",
        |group| match group.rank() {
            0 => group.send(&vec![1u16; 100_000], 1, 5),
            1 => group.recv(&mut vec![half::f16::ONE; 100_000], 0, 5),
            _ => Ok(()),
        },
        ["in send #0 (u16 × 100000)", "in recv #0 (f16 × 100000)"],
    ),
];

/// Calls it and returns the error that comes of it, on this rank or by word of another.
fn mismatch(group: &Group, number: usize) -> String {
    let (name, call, sides) = MISMATCHES[number];
    let began = Instant::now();
    let error = match call(group) {
        Err(error) => error,
        // It may have had all it needed before another noticed; then the next call says it.
        Ok(()) => loop {
            match group.barrier() {
                Err(error) => break error,
                Ok(()) => assert!(began.elapsed() < Duration::from_secs(3), "{name}: no error"),
            }
        },
    };
    assert!(began.elapsed() < Duration::from_secs(3), "{name}: {:?}", began.elapsed());
    let text = cause_of(&error).to_string();
    assert!(matches!(*cause_of(&error), Cause::Mismatch { .. }), "{name}: {text}");
    let places: Vec<_> = sides.iter().map(|side| text.find(side)).collect();
    let last = text.rfind(sides[1]);
    assert!(
        places.iter().all(Option::is_some) && (sides[0] != sides[1] || last != places[0]),
        "{name}: {text:?} lacks one of {sides:?}"
    );
    text
}

#[test]
fn whatever_differs_is_an_error_on_every_rank() {
    for way in ways() {
        for number in 0..MISMATCHES.len() {
            let texts = run(way.groups(3), WITHIN, move |group| mismatch(&group, number));
            assert!(texts.iter().all(|text| *text == texts[0]), "not one first cause: {texts:?}");
        }
    }
    Cluster::start("mismatch", 3, WITHIN, |_| Vec::new()).finish(&[]);
}

fn mismatches_in_processes() {
    use lycaon::error::LinkKind::{Shm, Tcp};
    for kind in [Shm, Tcp] {
        for number in 0..MISMATCHES.len() {
            let group = join_again(&format!("{kind}-{number}"), |builder| builder.links([kind]));
            say(mismatch(&group, number));
        }
    }
}
