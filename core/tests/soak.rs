//! Long runs: random operations with random skew, and many groups one after the other.

mod support;

use std::time::{Duration, Instant};

use lycaon::{DType, Group};

use support::Random;
use support::case::{Case, OPERATIONS, Order, has_counts, has_in_place};
use support::number::operators;
use support::processes::{Cluster, join_again, number, play};
use support::threads::{Way, run};

const WITHIN: Duration = Duration::from_secs(240);

#[test]
fn child_main() {
    play(&[
        ("soak", soak_in_processes),
        ("cycles", cycles_in_processes),
        ("memory", memory_in_processes),
    ]);
}

const EXACT: [DType; 9] = [
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
];

/// Random operations in a group and in two groups within it. What is called is the same on all
/// ranks; how long each of them dawdles before is not.
fn soak(group: &Group, operations: usize, seed: u64) {
    let rank = group.rank();
    let parity = group.split((rank % 2) as u32, 0).unwrap();
    let turned = group.split((rank / 3) as u32, -(rank as i64)).unwrap();
    let mut shared = Random::new(seed);
    let mut own = Random::new(seed ^ (rank as u64 + 1) << 40);
    for step in 0..operations {
        let where_to = shared.below(10);
        let draw = shared.next();
        let among = match where_to {
            0 | 1 => &parity,
            2 => &turned,
            _ => group,
        };
        let size = among.size();
        // Members of a sub-group draw alike, and each sub-group its own.
        let mut random = Random::new(draw ^ among.members()[0] as u64);
        let count = match random.below(40) {
            0 => 20_000 + random.below(60_000),
            1..8 => random.below(5000),
            _ => random.below(40),
        };
        let operation = random.pick(&OPERATIONS);
        let dtype = random.pick(&EXACT);
        let case = Case {
            operation,
            dtype,
            op: random.pick(&operators(dtype)),
            root: random.below(size),
            count,
            by_rank: has_counts(operation) && random.chance(4),
            in_place: has_in_place(operation) && random.chance(2),
            seed: random.next(),
        };
        match own.below(60) {
            0 => std::thread::sleep(Duration::from_micros(own.next() % 1500)),
            1..6 => std::thread::yield_now(),
            _ => {}
        }
        case.run(among, Order::Rank)
            .unwrap_or_else(|why| panic!("step {step}, among {:?}: {why}", among.members()));
    }
}

#[test]
fn ten_thousand_operations_on_threads() {
    for (way, seed, operations) in [
        (Way::messages(None).weather(17), 1, 10_000),
        (Way::memory(), 2, 10_000),
        (Way::messages(Some(lycaon::Algorithm::Ring)).weather(4), 3, 2000),
        (Way::messages(Some(lycaon::Algorithm::Logarithmic)).weather(5), 4, 2000),
    ] {
        run(way.groups(5), WITHIN, move |group| soak(&group, operations, seed));
    }
}

#[test]
fn thousands_of_operations_in_processes() {
    for (links, hosts) in [("shm", 1), ("tcp", 1), ("shm,tcp", 2)] {
        Cluster::start("soak", 5, WITHIN, |rank| {
            vec![
                ("LYCAON_LINKS", links.to_owned()),
                ("LYCAON_HOST_ID", format!("host-{}", rank * hosts / 5)),
                ("TEST_OPERATIONS", "3000".to_owned()),
            ]
        })
        .finish(&[]);
    }
}

fn soak_in_processes() {
    let group = join_again("soak", |builder| builder);
    soak(&group, number("TEST_OPERATIONS") as usize, 5);
}

/// Threads, file descriptors and bytes of memory of this process.
fn holdings() -> (usize, usize, usize) {
    let entries = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
    let pages: usize = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse().ok())
        .unwrap_or(0);
    (entries("/proc/self/task"), entries("/proc/self/fd"), pages * 4096)
}

/// Waits for threads that have ended to be gone from the list.
fn settled(threads: usize, files: usize) -> (usize, usize, usize) {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let now = holdings();
        if (now.0 <= threads && now.1 <= files) || Instant::now() > until {
            return now;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn one_cycle(group: &Group, number: usize) {
    let mut data = vec![number as u64 + group.rank() as u64; 5000];
    group.all_reduce(&mut data, lycaon::Op::Max).unwrap();
    assert_eq!(data, vec![(number + group.size() - 1) as u64; 5000]);
    let work = group.all_gather_async(vec![group.rank() as u8]).unwrap();
    if number.is_multiple_of(3) {
        let sub = group.split(group.rank() as u32 % 2, 0).unwrap();
        sub.barrier().unwrap();
    }
    assert_eq!(work.wait().unwrap().len(), group.size());
}

#[cfg(target_os = "linux")]
fn cycles_in_processes() {
    use lycaon::error::LinkKind::{Shm, Tcp};
    let mut before = (0, 0, 0);
    for number in 0..200 {
        let kind = if number % 2 == 0 { Shm } else { Tcp };
        let group = join_again(&format!("cycle-{number}"), |builder| builder.links([kind]));
        one_cycle(&group, number);
        if number % 5 == 4 {
            group.close();
            group.close();
        }
        drop(group);
        if number == 20 {
            before = settled(0, 0);
        }
    }
    let after = settled(before.0, before.1);
    assert!(after.0 <= before.0, "threads: {} before, {} after", before.0, after.0);
    assert!(after.1 <= before.1, "files: {} before, {} after", before.1, after.1);
    assert!(after.2 < before.2 + (32 << 20), "memory: {} before, {} after", before.2, after.2);
}

#[cfg(target_os = "linux")]
#[test]
fn two_hundred_groups_one_after_the_other() {
    Cluster::start("cycles", 3, WITHIN, |_| Vec::new()).finish(&[]);
}

/// A long-lived group does not grow with what it does.
#[cfg(target_os = "linux")]
#[test]
fn memory_is_bounded() {
    for links in ["shm", "tcp"] {
        Cluster::start("memory", 2, WITHIN, |_| vec![("LYCAON_LINKS", links.to_owned())])
            .finish(&[]);
    }
}

#[cfg(target_os = "linux")]
fn memory_in_processes() {
    let group = join_again("memory", |builder| builder);
    let peer = 1 - group.rank();
    let rounds = |count: usize| {
        for number in 0..count {
            let mut data = vec![number as u32; 250_000];
            group.all_reduce(&mut data, lycaon::Op::Sum).unwrap();
            // Every message on a tag of its own.
            let message = group.send_async(vec![1u8; 3000], peer, number as u32).unwrap();
            let mut into = [0u8; 3000];
            group.recv(&mut into, peer, number as u32).unwrap();
            let _ = message.wait().unwrap();
        }
    };
    rounds(30);
    let before = holdings();
    rounds(300);
    let after = holdings();
    assert!(after.2 < before.2 + (16 << 20), "{} bytes before, {} after", before.2, after.2);
    assert!(before.2 < 200 << 20, "{} bytes", before.2);
}
