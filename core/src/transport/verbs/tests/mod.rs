//! Links between threads, over a fabric in memory that imitates what providers do.

mod counts;
// These two are shared with the program that runs over real devices, which uses more of them.
#[allow(dead_code)]
#[path = "../../../../../tools/rdma-vm/suite/src/data.rs"]
mod data;
mod fake;
mod faults;
mod groups;
#[allow(dead_code)]
#[path = "../../../../../tools/rdma-vm/suite/src/matrix.rs"]
mod matrix;
mod starting;

use std::net::Ipv6Addr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use self::fake::{Host, Net};
use super::api::{DeviceAttributes, Gid, Library, Quirks};
use super::cards::{Cards, Wish, look};
use super::establish::{Made, Request, establish};
use super::transport;
use crate::sys::poller::Poller;
use crate::transport::conformance::{self, Fabric, Node};

const PATIENCE: Duration = Duration::from_secs(20);

/// An all-gather between threads.
struct Meeting {
    size: usize,
    state: Mutex<Steps>,
    changed: Condvar,
}

/// What was said in each step by each rank, and how many steps each rank has taken.
#[derive(Default)]
struct Steps {
    said: Vec<Vec<Vec<u8>>>,
    taken: Vec<usize>,
}

impl Meeting {
    fn new(size: usize) -> Self {
        let state = Mutex::new(Steps { said: Vec::new(), taken: vec![0; size] });
        Meeting { size, state, changed: Condvar::new() }
    }

    fn exchange(&self, rank: usize, mine: &[u8]) -> Vec<Vec<u8>> {
        let mut state = self.state.lock().unwrap();
        let step = state.taken[rank];
        state.taken[rank] += 1;
        while state.said.len() <= step {
            let empty = vec![Vec::new(); self.size];
            state.said.push(empty);
        }
        state.said[step][rank] = mine.to_vec();
        self.changed.notify_all();
        let until = Instant::now() + PATIENCE;
        while state.taken.iter().any(|steps| *steps <= step) {
            assert!(Instant::now() < until, "the other ranks have not come to the exchange");
            state = self.changed.wait_timeout(state, Duration::from_millis(100)).unwrap().0;
        }
        state.said[step].clone()
    }
}

/// What a host is like.
#[derive(Clone, Copy)]
struct Kind {
    quirks: Quirks,
    attributes: DeviceAttributes,
    /// Cables between two hosts that have any.
    cables: usize,
    shape: Shape,
}

/// Which hosts have cables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Mesh,
    Ring,
    Line,
}

impl Shape {
    fn joins(self, size: usize, a: usize, b: usize) -> bool {
        let apart = a.abs_diff(b);
        match self {
            Shape::Mesh => true,
            Shape::Ring => apart == 1 || apart + 1 == size,
            Shape::Line => apart == 1,
        }
    }
}

const APPLE: Kind = Kind {
    quirks: Quirks::APPLE,
    attributes: DeviceAttributes {
        max_qp: 11,
        max_qp_wr: 4095,
        max_cq: 11,
        max_cqe: 65536,
        max_mr: 100,
        max_mr_size: 16_384_000,
        max_pd: 11,
        ports: 1,
    },
    cables: 1,
    shape: Shape::Mesh,
};

const LINUX: Kind = Kind {
    quirks: Quirks::STANDARD,
    attributes: DeviceAttributes { max_qp: 1000, max_mr: 1000, max_cq: 1000, ..APPLE.attributes },
    cables: 1,
    shape: Shape::Mesh,
};

/// Linux's provider for USB4 towards Macs.
const USB4: Kind = Kind { quirks: Quirks::USB4, ..LINUX };

/// The device of a host that leads to another one.
fn device(other: usize, cable: usize) -> String {
    format!("dev{other}_{cable}")
}

/// Hosts with a device per cable: the cable k between hosts a and b is a network of its own.
fn hosts(net: &Arc<Net>, size: usize, kind: Kind) -> Vec<Arc<dyn Library>> {
    mixed(net, &vec![kind; size])
}

/// Hosts of different kinds; the first one says which of them are joined by how many cables.
fn mixed(net: &Arc<Net>, kinds: &[Kind]) -> Vec<Arc<dyn Library>> {
    let (size, Kind { cables, shape, .. }) = (kinds.len(), kinds[0]);
    let gid = |text: String| Some(Gid(text.parse::<Ipv6Addr>().unwrap().octets()));
    for low in 0..size {
        for high in low + 1..size {
            for cable in 0..if shape.joins(size, low, high) { cables } else { 0 } {
                for (host, other) in [(low, high), (high, low)] {
                    let place = low * 64 + high * 8 + cable;
                    let gids = vec![
                        gid(format!("fe80::{host:x}:{place:x}")),
                        gid(format!("::ffff:10.{low}.{}.{}", high * 4 + cable, 1 + host)),
                        gid(format!("fe80::1:{host:x}:{place:x}")),
                        None,
                    ];
                    let Kind { quirks, attributes, .. } = kinds[host];
                    net.add((host, &device(other, cable)), quirks, attributes, gids);
                }
                net.cable((low, &device(high, cable)), (high, &device(low, cable)));
            }
        }
    }
    let host = |number| Host { net: Arc::clone(net), number, keeps: false };
    (0..size).map(|number| Arc::new(host(number)) as Arc<dyn Library>).collect()
}

fn join(net: &Arc<Net>, size: usize, kind: Kind) -> Vec<Made> {
    let libraries = hosts(net, size, kind);
    join_hosts(libraries, &Wish::default(), PATIENCE)
}

/// Looks at the devices of hosts and joins them.
fn join_hosts(libraries: Vec<Arc<dyn Library>>, wish: &Wish, patience: Duration) -> Vec<Made> {
    let size = libraries.len();
    let cards: Vec<Cards> = libraries.iter().map(|library| look(library, wish)).collect();
    let meeting = Meeting::new(size);
    std::thread::scope(|scope| {
        let threads: Vec<_> = libraries
            .into_iter()
            .enumerate()
            .map(|(me, library)| {
                let (cards, meeting) = (&cards, &meeting);
                scope.spawn(move || {
                    let deadline = Instant::now() + PATIENCE;
                    let request = Request {
                        patience,
                        ..Request::new(me, cards, &|_, _| true, Some(library), 4711, deadline)
                    };
                    let mut exchange =
                        |_: &str, mine: &[u8]| Ok::<_, ()>(meeting.exchange(me, mine));
                    establish(&request, &mut exchange).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn fabric(size: usize, kind: Kind) -> Fabric {
    fabric_on(&Arc::default(), size, kind)
}

fn fabric_on(net: &Arc<Net>, size: usize, kind: Kind) -> Fabric {
    let made = join(net, size, kind);
    let nodes = made.into_iter().enumerate().map(|(rank, made)| {
        assert!(made.failures.is_empty(), "{:?}", made.failures);
        let cables = |(peer, links): (usize, &Vec<_>)| {
            assert_eq!(links.len(), if peer == rank { 0 } else { kind.cables }, "{rank} to {peer}");
        };
        made.links.iter().enumerate().for_each(cables);
        let poller = Poller::new().unwrap();
        let transport = transport(&poller, made.links, &made.ports).unwrap();
        Node::new(rank, Box::new(transport), poller)
    });
    let nodes = nodes.collect();
    assert_eq!(net.violations(), Vec::<String>::new());
    Fabric { nodes, cut: None }
}

/// Unreliable connections with frames, as on Macs.
mod apple {
    use super::*;
    conformance::conformance!(|size| fabric(size, APPLE));
}

/// Reliable connections.
mod linux {
    use super::*;
    conformance::conformance!(|size| fabric(size, LINUX));
}

/// Several cables, and completions that come late and out of order.
mod rails {
    use super::*;
    conformance::conformance!(|size| fabric_on(
        &Net::with_weather(77),
        size,
        Kind { cables: 3, ..APPLE }
    ));
}
