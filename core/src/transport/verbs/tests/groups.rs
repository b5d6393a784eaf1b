//! Whole groups over RDMA links, ranks as threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::fake::Net;
use super::*;
use crate::config::{Config, ConfigBuilder, Rendezvous};
use crate::error::{LinkKind, Result};
use crate::{Group, Op};

/// A file that is removed again.
struct Place(std::path::PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A group whose hosts are each of their own, with devices as `kinds` say.
pub(super) struct Job<'a> {
    pub(super) net: &'a Arc<Net>,
    pub(super) kinds: Vec<Kind>,
    pub(super) links: &'a [LinkKind],
    pub(super) timeout: Duration,
    /// Done to the devices before the ranks start.
    pub(super) spoil: &'a (dyn Fn(&Net) + Sync),
    pub(super) configure: &'a (dyn Fn(usize, ConfigBuilder) -> ConfigBuilder + Sync),
    /// Something stays on the devices, and what is done to them is not looked at.
    pub(super) leftovers: bool,
}

impl<'a> Job<'a> {
    pub(super) fn new(net: &'a Arc<Net>, size: usize, kind: Kind) -> Self {
        Job {
            net,
            kinds: vec![kind; size],
            links: &[LinkKind::Rdma, LinkKind::Tcp],
            timeout: Duration::from_secs(20),
            spoil: &|_| {},
            configure: &|_, builder| builder,
            leftovers: false,
        }
    }
}

/// Runs `each` on every rank.
pub(super) fn run<T: Send>(job: &Job<'_>, each: impl Fn(Result<Group>) -> T + Sync) -> Vec<T> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("lycaon-rdma-{}-{count}", std::process::id());
    let place = Place(std::env::temp_dir().join(name));
    let libraries = mixed(job.net, &job.kinds);
    (job.spoil)(job.net);
    let size = job.kinds.len();
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = libraries
            .into_iter()
            .enumerate()
            .map(|(rank, library)| {
                let (each, place) = (&each, &place);
                scope.spawn(move || {
                    let builder = Config::builder()
                        .rank(rank)
                        .size(size)
                        .rendezvous(Rendezvous::File(place.0.clone()))
                        .token("between threads")
                        .host_id(format!("host{rank}"))
                        .start_timeout(Duration::from_secs(30))
                        .timeout(job.timeout)
                        .links(job.links.iter().copied())
                        .verbs(library);
                    let config = (job.configure)(rank, builder).build().unwrap();
                    each(crate::init_with(&config))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    if !job.leftovers {
        assert_eq!(job.net.resources(), [0; 5], "nothing is left on the devices");
        assert_eq!(job.net.violations(), Vec::<String>::new());
    }
    results
}

/// Every operation and size, with late completions; which links are RDMA is checked.
fn every_operation(seed: u64, kinds: Vec<Kind>) {
    let net = Net::with_weather(seed);
    let (size, Kind { cables, shape, .. }) = (kinds.len(), kinds[0]);
    let job = Job { kinds, ..Job::new(&net, size, APPLE) };
    run(&job, |group| {
        let group = group.unwrap();
        for link in group.links() {
            let joined = shape.joins(size, group.rank(), link.peer);
            assert_eq!(link.kind, if joined { LinkKind::Rdma } else { LinkKind::Tcp });
            let found = link.detail.matches(" to dev").count();
            assert_eq!(found, if joined { cables } else { 0 }, "{link:?}");
        }
        let checks = matrix::run(&group).unwrap();
        assert!(checks > 300, "{checks}");
    });
}

#[test]
fn two_macs_do_every_operation() {
    every_operation(1, vec![APPLE; 2]);
}

#[test]
fn a_mesh_of_macs_does_every_operation() {
    every_operation(2, vec![APPLE; 4]);
}

#[test]
fn a_ring_of_macs_does_every_operation() {
    every_operation(3, vec![Kind { shape: Shape::Ring, ..APPLE }; 4]);
}

#[test]
fn a_line_of_macs_does_every_operation() {
    every_operation(4, vec![Kind { shape: Shape::Line, ..APPLE }; 4]);
}

#[test]
fn two_cables_per_pair_do_every_operation() {
    every_operation(5, vec![Kind { cables: 2, ..APPLE }; 3]);
}

#[test]
fn a_ring_with_two_cables_does_every_operation() {
    every_operation(6, vec![Kind { cables: 2, shape: Shape::Ring, ..APPLE }; 4]);
}

#[test]
fn reliable_connections_do_every_operation() {
    every_operation(7, vec![LINUX; 3]);
}

#[test]
fn macs_and_linux_hosts_together_do_every_operation() {
    every_operation(8, vec![APPLE, USB4, APPLE]);
}

/// Names devices for every rank and peer that are `apart`.
fn named(size: usize, cell: impl Fn(usize, usize) -> Vec<String>) -> Vec<Vec<Vec<String>>> {
    (0..size).map(|rank| (0..size).map(|peer| cell(rank, peer)).collect()).collect()
}

#[test]
fn pairs_without_a_named_device_use_something_else() {
    // A line: 0 - 1 - 2, although all have cables.
    let line = named(3, |rank, peer| match rank.abs_diff(peer) {
        1 => vec![device(peer, 0)],
        _ => Vec::new(),
    });
    let net = Net::with_weather(9);
    let job = Job {
        configure: &|_, builder| builder.rdma_devices(line.clone()),
        ..Job::new(&net, 3, APPLE)
    };
    run(&job, |group| {
        let group = group.unwrap();
        for link in group.links() {
            let near = link.peer.abs_diff(group.rank()) == 1;
            assert_eq!(link.kind, if near { LinkKind::Rdma } else { LinkKind::Tcp });
        }
        let text = group.describe();
        assert!(text.contains("line over rdma"), "{text}");
        assert!(text.contains("    0       -    rdma     tcp\n"), "{text}");
        let part = group.split((group.rank() % 2) as u32, 0).unwrap();
        let mut sum = [part.rank() as u64 + 5];
        part.all_reduce(&mut sum, Op::Sum).unwrap();
        assert_eq!(sum, [if part.size() == 2 { 11 } else { 5 }]);
    });
}

#[test]
fn the_choice_is_the_same_on_all_ranks_and_can_be_shown() {
    let show = |kind: Kind, size: usize| {
        let net: Arc<Net> = Arc::default();
        let shown = run(&Job::new(&net, size, kind), |group| {
            let group = group.unwrap();
            let table = group.explain(crate::Operation::AllReduce, 64 << 20);
            (group.choices(), table, group.describe())
        });
        assert!(shown.iter().all(|(choices, ..)| *choices == shown[0].0));
        assert!(shown.iter().all(|(_, table, _)| *table == shown[0].1));
        (shown[0].1.clone(), shown[0].2.clone())
    };
    let marked = |table: &str| table.lines().find(|line| line.starts_with('*')).unwrap().to_owned();
    // A cable for each pair: all of a rank's cables at once.
    let (table, text) = show(APPLE, 4);
    assert!(marked(&table).contains("two-step    rdma       3.0"), "{table}");
    assert!(text.starts_with("rank 0 of 4, mesh over rdma\n"), "{text}");
    // A ring: what is far goes over TCP, so that neighbours pass it on.
    let (table, text) = show(Kind { shape: Shape::Ring, ..APPLE }, 4);
    assert!(marked(&table).contains("ring        rdma       2.0"), "{table}");
    assert!(text.contains("ring over rdma\n"), "{text}");
    let (table, text) = show(Kind { shape: Shape::Ring, cables: 2, ..APPLE }, 4);
    assert!(marked(&table).contains("ring        rdma       4.0"), "{table}");
    assert!(text.contains("2 rdma"), "{text}");
    // A line: neither.
    let (table, text) = show(Kind { shape: Shape::Line, ..APPLE }, 4);
    assert!(marked(&table).contains("tcp"), "{table}");
    assert!(text.contains("line over rdma\n"), "{text}");
}

#[test]
fn a_pair_that_cannot_be_joined_says_why_on_every_rank() {
    let net: Arc<Net> = Arc::default();
    let job = Job { links: &[LinkKind::Rdma], ..Job::new(&net, 2, Kind { cables: 0, ..APPLE }) };
    for text in run(&job, |group| group.unwrap_err().to_string()) {
        assert!(text.contains("no link joins ranks 0 and 1"), "{text}");
        assert!(text.contains("rank 0: fake is there but knows no device"), "{text}");
        assert!(text.contains("rank 1: fake is there but knows no device"), "{text}");
    }
}

#[test]
fn a_library_without_a_kernel_for_it_is_told() {
    let net: Arc<Net> = Arc::default();
    let spoil: &(dyn Fn(&Net) + Sync) = &|net| net.deny_listing();
    let job = Job { spoil, links: &[LinkKind::Rdma], ..Job::new(&net, 2, LINUX) };
    for text in run(&job, |group| group.unwrap_err().to_string()) {
        assert!(text.contains("rank 1: fake is there but cannot list devices: any"), "{text}");
        assert!(text.contains("not supported (errno 38)"), "{text}");
        assert!(cfg!(not(target_os = "linux")) || text.contains("/sys/class/infiniband"), "{text}");
    }
    // Devices that are named are missed also where there is another kind of link.
    let net: Arc<Net> = Arc::default();
    let table = named(2, |rank, peer| match rank == peer {
        true => Vec::new(),
        false => vec![device(peer, 0)],
    });
    let configure: &(dyn Fn(usize, ConfigBuilder) -> ConfigBuilder + Sync) =
        &|_, builder| builder.rdma_devices(table.clone());
    let job = Job { spoil, configure, ..Job::new(&net, 2, LINUX) };
    for text in run(&job, |group| group.unwrap_err().to_string()) {
        assert!(text.contains("rank 0: no device dev1_0: fake is there but cannot"), "{text}");
    }
}

#[test]
fn a_named_device_that_does_not_exist_is_an_error_on_every_rank() {
    let table = named(2, |rank, peer| match rank {
        0 if peer == 1 => vec![device(1, 0), "rdma_en9".to_owned()],
        1 if peer == 0 => vec![device(0, 0)],
        _ => Vec::new(),
    });
    let net: Arc<Net> = Arc::default();
    let job = Job {
        links: &[LinkKind::Shm, LinkKind::Rdma, LinkKind::Tcp],
        configure: &|_, builder| builder.rdma_devices(table.clone()),
        ..Job::new(&net, 2, APPLE)
    };
    for text in run(&job, |group| group.unwrap_err().to_string()) {
        assert!(text.contains("rank 0: fake knows no device rdma_en9; it has dev1_0"), "{text}");
        assert!(text.contains("LYCAON_LINKS"), "{text}");
    }
    // Without RDMA nobody minds.
    let job = Job { links: &[LinkKind::Tcp], ..job };
    run(&job, |group| group.unwrap().barrier().unwrap());
}

#[test]
fn what_is_asked_for_by_hand_and_cannot_be_is_an_error_on_every_rank() {
    let net: Arc<Net> = Arc::default();
    let job = Job {
        configure: &|rank, builder| match rank {
            1 => builder.rdma_gid_index(9),
            _ => builder,
        },
        ..Job::new(&net, 2, APPLE)
    };
    for text in run(&job, |group| group.unwrap_err().to_string()) {
        assert!(text.contains("rank 1: dev0_0 has no GID at index 9"), "{text}");
    }
    let net: Arc<Net> = Arc::default();
    let job = Job {
        configure: &|_, builder| builder.rdma_queue_pairs(crate::config::QueuePairs::Reliable),
        ..Job::new(&net, 2, APPLE)
    };
    for text in run(&job, |group| group.unwrap_err().to_string()) {
        assert!(text.contains("RC queue pairs are asked for (LYCAON_RDMA_QP)"), "{text}");
    }
}
