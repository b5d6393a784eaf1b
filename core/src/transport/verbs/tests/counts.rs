//! What goes over the cables: no message and no byte more than it has to.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use super::fake::{Net, Sent};
use super::groups::{Job, run};
use super::*;
use crate::Op;
use crate::call::Operation;
use crate::collective::Algorithm;
use crate::transport::stream::Stream;

/// Headers of both layers, for one message of a link.
const HEADERS: u64 = 64 + 24;

/// Messages and payload bytes that rank 0 has sent for one all_reduce of so many bytes, and what
/// its devices have sent for it.
fn all_reduce(kind: Kind, size: usize, algorithm: Algorithm, bytes: usize) -> (Sent, Sent) {
    let net: Arc<Net> = Arc::default();
    let job = Job {
        links: &[crate::error::LinkKind::Rdma],
        configure: &|_, builder| builder.algorithm(Operation::AllReduce, algorithm),
        ..Job::new(&net, size, kind)
    };
    let found = run(&job, |group| {
        let group = group.unwrap();
        let me = group.rank();
        let mut data: Vec<u32> = (0..bytes / 4).map(|at| (at * (me + 1)) as u32).collect();
        let passed = || {
            let links = group.links();
            Sent {
                messages: links.iter().map(|link| link.messages_sent).sum(),
                bytes: links.iter().map(|link| link.bytes_sent).sum(),
            }
        };
        // why: the first barrier parts the counting from the start; the last one, whose messages
        // are taken off again, lets every rank's messages get to the devices.
        let settle = || {
            group.barrier().unwrap();
            (passed(), net.sent(me))
        };
        group.barrier().unwrap();
        let before = settle();
        let middle = settle();
        group.all_reduce(&mut data, Op::Sum).unwrap();
        let after = settle();
        let factor = (1..=size).sum::<usize>();
        assert!(data.iter().enumerate().all(|(at, sum)| *sum == (at * factor) as u32));
        let part = |before: Sent, middle: Sent, after: Sent| Sent {
            messages: after.messages - middle.messages - (middle.messages - before.messages),
            bytes: after.bytes - middle.bytes - (middle.bytes - before.bytes),
        };
        (part(before.0, middle.0, after.0), part(before.1, middle.1, after.1))
    });
    found[0]
}

#[test]
fn messages_and_bytes_of_all_reduce_are_those_of_the_textbook() {
    for kind in [APPLE, LINUX] {
        for size in [2_u64, 3, 4] {
            let others = size - 1;
            // Small in a mesh: everybody sends everything to everybody, in one step.
            let (sent, wire) = all_reduce(kind, size as usize, Algorithm::Direct, 1200);
            assert_eq!(sent, Sent { messages: others, bytes: others * 1200 });
            assert_eq!(wire.messages, others, "one work request for a message");
            assert_eq!(wire.bytes, others * (1200 + HEADERS));

            // Large in a mesh: a part to each owner, the results back: 2·n·(p−1)/p.
            let bytes = 12_000;
            let (sent, wire) = all_reduce(kind, size as usize, Algorithm::TwoStep, bytes as usize);
            assert_eq!(sent, Sent { messages: 2 * others, bytes: 2 * bytes * others / size });
            assert_eq!(wire.bytes, sent.bytes + wire.messages * 24 + sent.messages * 64);

            // A ring: 2·(p−1) steps with 1/p of the bytes in each.
            let (sent, _) = all_reduce(kind, size as usize, Algorithm::Ring, bytes as usize);
            assert_eq!(sent.bytes, 2 * bytes * others / size);
            let ways = if size > 2 { 1..=2 } else { 1..=1 };
            assert!(
                ways.contains(&(sent.messages / (2 * others)))
                    && sent.messages.is_multiple_of(2 * others),
                "{sent:?}"
            );
        }
    }
}

#[test]
fn large_messages_cost_their_bytes_and_a_fiftieth_at_most() {
    // Sizes that are no powers of two, and do not fill their last frames.
    for bytes in [65_540, 100_000, 540_000, 1_000_004, 3_333_332] {
        for (size, algorithm) in [
            (2, Algorithm::Direct),
            (2, Algorithm::TwoStep),
            (3, Algorithm::TwoStep),
            (3, Algorithm::Ring),
        ] {
            let (sent, wire) = all_reduce(APPLE, size, algorithm, bytes);
            let payload = match algorithm {
                Algorithm::Direct => (size - 1) * bytes,
                _ => 2 * bytes * (size - 1) / size,
            } as u64;
            // Parts are whole elements and begin at whole lines.
            assert!(sent.bytes.abs_diff(payload) <= 256, "{algorithm}: {} {payload}", sent.bytes);
            let most = payload * 102 / 100 + sent.messages * (HEADERS + 128);
            assert!(
                wire.bytes <= most,
                "{algorithm}, {size} ranks: {bytes} bytes, {} on the wire, {most} allowed",
                wire.bytes
            );
        }
    }
}

#[test]
fn only_the_bytes_of_a_stream_travel() {
    for kind in [APPLE, LINUX] {
        let net: Arc<Net> = Arc::default();
        let made = join(&net, 2, kind);
        let mut made = made.into_iter();
        let mut ends = [0, 1].map(|rank| made.next().unwrap().links[1 - rank].pop().unwrap());
        for len in [65_537, 100_000, 540_000, 1_000_003] {
            let bytes = vec![7; len];
            let before = ends[0].wire().bytes;
            let (mut sent, mut read) = (0, 0);
            let mut into = vec![0; len];
            while read < len {
                if sent < len {
                    let (part, whole) = (IoSlice::new(&bytes[sent..]), sent);
                    sent = whole + ends[0].write(&[part]).unwrap_or(0);
                }
                let part = IoSliceMut::new(&mut into[read..]);
                read += ends[1].read(&mut [part]).unwrap_or(0);
            }
            assert!(into == bytes);
            let wire = ends[0].wire().bytes - before;
            assert!(wire as f64 <= 1.02 * len as f64, "{len} bytes travelled as {wire}");
        }
        assert_eq!(net.violations(), Vec::<String>::new());
    }
}

#[test]
fn small_messages_are_inside_of_their_requests_where_the_device_lets_them() {
    for (kind, inline) in [(APPLE, false), (LINUX, true)] {
        let net: Arc<Net> = Arc::default();
        let mut made = join(&net, 2, kind).into_iter();
        let mut ends = [0, 1].map(|rank| made.next().unwrap().links[1 - rank].pop().unwrap());
        for len in [1, 100, 196, 197, 4000] {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let before = ends[0].wire();
            assert_eq!(ends[0].write(&[IoSlice::new(&bytes)]).unwrap(), len);
            let (mut into, mut read) = (vec![0; len], 0);
            while read < len {
                read += ends[1].read(&mut [IoSliceMut::new(&mut into[read..])]).unwrap_or(0);
            }
            assert!(into == bytes);
            let wire = ends[0].wire();
            assert_eq!(
                (wire.sends - before.sends, wire.bytes - before.bytes),
                (1, len as u64 + 24)
            );
            assert_eq!(wire.inline - before.inline, u64::from(inline && len <= 196), "{len}");
        }
    }
}

#[test]
fn both_cables_of_a_pair_carry_their_share() {
    for kind in [Kind { cables: 2, ..APPLE }, Kind { cables: 2, ..LINUX }] {
        for shape in [Shape::Mesh, Shape::Ring] {
            for bytes in [2000, 60_000, 100_000, 3_000_000] {
                let net = Net::with_weather(5);
                let job = Job::new(&net, 3, Kind { shape, ..kind });
                run(&job, |group| {
                    let group = group.unwrap();
                    for _ in 0..8 {
                        let mut data = vec![1_u8; bytes];
                        group.all_reduce(&mut data, Op::Max).unwrap();
                    }
                });
                for (host, other) in [(0, 1), (1, 2), (2, 0)] {
                    let [a, b] = [0, 1].map(|cable| {
                        net.on((host, &device(other, cable)), |device| device.sent.bytes)
                    });
                    assert!(a.min(b) * 4 >= a.max(b), "{shape:?}, {bytes} bytes: {a} and {b}");
                }
            }
        }
    }
}
