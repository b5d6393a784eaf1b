//! What every transport has to do, as tests that take a factory of connected endpoints.
//! `conformance!` makes them tests of a module.

mod harness;

use std::time::{Duration, Instant};

pub(crate) use self::harness::{
    Fabric, Factory, Node, PATIENCE, collective, contents, signature, tagged,
};
use super::{Event, Loss};
use crate::call::{Call, Operation, Signature};
use crate::dtype::DType;

fn edge_sizes(limit: usize) -> Vec<usize> {
    const PART: usize = 1024 * 1024;
    let mut sizes = vec![0, 1, 2, 3, 7, 64, 4095, 4096, 4097, limit - 1, limit, limit + 1];
    sizes.extend([PART - 1, PART, PART + 1, 3 * PART + 5, 8 * PART]);
    sizes
}

pub(crate) fn every_size_whichever_side_posts_first(factory: Factory) {
    let mut fabric = factory(2);
    let lane = tagged(5);
    let sizes = edge_sizes(fabric.nodes[0].transport.capabilities().eager_limit);
    for (round, &len) in sizes.iter().enumerate() {
        let sent = contents(0, lane, round as u64, len);
        // Receive first, then send first.
        for first in [true, false] {
            let (mut recv, mut send) = (None, None);
            for posts in [first, !first] {
                if posts {
                    recv = Some(fabric.nodes[1].recv(0, lane, len));
                } else {
                    send = Some(fabric.nodes[0].send(1, lane, sent.clone()));
                }
                if recv.is_none() || send.is_none() {
                    fabric.settle();
                }
            }
            let got = fabric.received(1, recv.expect("posted"));
            assert!(got == sent, "{len} bytes, receive first: {first}");
            let send = send.expect("posted");
            fabric.until("send", |nodes| nodes[0].is_done(send));
            assert!(fabric.nodes[0].take(send) == sent, "the sender's buffer is only read");
        }
    }
    fabric.close();
}

pub(crate) fn order_on_a_lane_is_kept(factory: Factory) {
    let mut fabric = factory(2);
    let lane = collective(3);
    let limit = fabric.nodes[0].transport.capabilities().eager_limit;
    let length = |k: u64| if k % 5 == 2 { limit + 1 + k as usize } else { k as usize * 13 };
    for k in 0..60 {
        let bytes = contents(0, lane, k, length(k));
        fabric.nodes[0].send(1, lane, bytes);
        if k % 3 == 0 {
            fabric.settle();
        }
    }
    let recvs: Vec<_> = (0..60).map(|k| fabric.nodes[1].recv(0, lane, length(k))).collect();
    for (k, recv) in (0..).zip(recvs) {
        assert!(fabric.received(1, recv) == contents(0, lane, k, length(k)), "message {k}");
    }
    fabric.close();
}

pub(crate) fn an_unread_lane_blocks_no_other(factory: Factory) {
    let mut fabric = factory(2);
    let (unread, read) = (tagged(1), tagged(2));
    let limit = fabric.nodes[0].transport.capabilities().eager_limit;
    let unread_len = |k: u64| if k % 7 == 3 { 4 * limit } else { limit / 2 + k as usize };
    // Far more than the lane's credits.
    let sends: Vec<_> = (0..500)
        .map(|k| fabric.nodes[0].send(1, unread, contents(0, unread, k, unread_len(k))))
        .collect();
    fabric.settle();
    let pending = sends.iter().filter(|id| !fabric.nodes[0].is_done(**id)).count();
    assert!(pending > 300, "memory is bounded, yet only {pending} of 500 sends wait");
    assert!(fabric.nodes[1].transport.unexpected(0).len() <= 65);
    for k in 0..100 {
        let len = if k % 2 == 0 { 10 } else { 2 * limit };
        fabric.nodes[0].send(1, read, contents(0, read, k, len));
        let recv = fabric.nodes[1].recv(0, read, len);
        assert!(fabric.received(1, recv) == contents(0, read, k, len), "message {k}");
    }
    for k in 0..500 {
        let recv = fabric.nodes[1].recv(0, unread, unread_len(k));
        assert!(fabric.received(1, recv) == contents(0, unread, k, unread_len(k)), "message {k}");
    }
    fabric.until("all sends", |nodes| sends.iter().all(|id| nodes[0].is_done(*id)));
    fabric.close();
}

/// Runs one function per node in a thread of its own.
pub(crate) fn in_threads(nodes: Vec<Node>, work: impl Fn(&mut Node) + Clone + Send + 'static) {
    let threads: Vec<_> = nodes
        .into_iter()
        .map(|mut node| {
            let work = work.clone();
            std::thread::spawn(move || work(&mut node))
        })
        .collect();
    let outcomes: Vec<_> = threads.into_iter().map(std::thread::JoinHandle::join).collect();
    for outcome in outcomes {
        outcome.expect("a rank failed");
    }
}

pub(crate) fn anyone_to_anyone_with_skew(factory: Factory) {
    const SIZE: usize = 5;
    const ROUNDS: u64 = 120;
    let length = |from: usize, to: usize, round: u64| {
        let x =
            (from as u64 * 31 + to as u64 * 17 + round * 7919).wrapping_mul(0x9e37_79b9_7f4a) >> 20;
        match x % 10 {
            0 => 0,
            1..=5 => (x / 10 % 300) as usize,
            6..=8 => (x / 10 % 70_000) as usize,
            _ => (x / 10 % 400_000) as usize,
        }
    };
    let fabric = factory(SIZE);
    in_threads(fabric.nodes, move |node| {
        let me = node.rank;
        let lane_of = |round: u64| {
            if round.is_multiple_of(3) { collective(1) } else { tagged(round as u32 % 4) }
        };
        let peers: Vec<usize> = (0..SIZE).filter(|peer| *peer != me).collect();
        let (mut sends, mut recvs) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let lane = lane_of(round);
            for &peer in &peers {
                let bytes = contents(me, lane, round, length(me, peer, round));
                sends.push(node.send(peer, lane, bytes));
            }
            // why: receives trail behind by a number of rounds that differs by rank.
            let skew = (me as u64 * 3) % 8;
            if round >= skew {
                let round = round - skew;
                for &peer in &peers {
                    let len = length(peer, me, round);
                    recvs.push((peer, round, node.recv(peer, lane_of(round), len)));
                }
            }
            if (round + me as u64).is_multiple_of(5) {
                node.poll();
                std::thread::sleep(Duration::from_micros(300 * me as u64));
            }
            if round % 16 == 15 {
                for (peer, round, id) in recvs.drain(..) {
                    let expected = contents(peer, lane_of(round), round, length(peer, me, round));
                    assert!(node.wait(id) == expected, "{peer} to {me}, round {round}");
                }
            }
        }
        let skew = (me as u64 * 3) % 8;
        for round in ROUNDS - skew..ROUNDS {
            for &peer in &peers {
                let len = length(peer, me, round);
                recvs.push((peer, round, node.recv(peer, lane_of(round), len)));
            }
        }
        for (peer, round, id) in recvs {
            let expected = contents(peer, lane_of(round), round, length(peer, me, round));
            assert!(node.wait(id) == expected, "{peer} to {me}, round {round}");
        }
        for id in sends {
            node.wait(id);
        }
        for &peer in &peers {
            let counters = node.transport.counters(peer);
            let sum =
                |from, to| (0..ROUNDS).map(|round| length(from, to, round) as u64).sum::<u64>();
            assert_eq!(counters.messages_sent, ROUNDS);
            assert_eq!(counters.messages_received, ROUNDS);
            assert_eq!(counters.bytes_sent, sum(me, peer));
            assert_eq!(counters.bytes_received, sum(peer, me));
        }
        node.close();
    });
}

pub(crate) fn sleepers_are_woken(factory: Factory) {
    let fabric = factory(2);
    in_threads(fabric.nodes, move |node| {
        let (peer, lane) = (1 - node.rank, tagged(0));
        for round in 0..1500_u64 {
            let len = if round % 50 == 49 { 700_000 } else { (round % 90) as usize };
            let start = Instant::now();
            let send = node.rank as u64 == round % 2;
            let bytes = contents((round % 2) as usize, lane, round, len);
            if send {
                let id = node.send(peer, lane, bytes);
                node.wait(id);
            } else {
                let id = node.recv(peer, lane, len);
                assert!(node.wait(id) == bytes, "round {round}");
            }
            assert!(start.elapsed() < PATIENCE / 3, "a wake-up was lost in round {round}");
        }
        node.close();
    });
}

pub(crate) fn both_directions_of_large_messages_at_once(factory: Factory) {
    let mut fabric = factory(3);
    let lane = collective(0);
    let len = 5 * 1024 * 1024 + 3;
    let mut recvs = Vec::new();
    for me in 0..3 {
        for peer in (0..3).filter(|peer| *peer != me) {
            recvs.push((me, peer, fabric.nodes[me].recv(peer, lane, len)));
            fabric.nodes[me].send(peer, lane, contents(me, lane, peer as u64, len));
        }
    }
    for (me, peer, id) in recvs {
        assert!(fabric.received(me, id) == contents(peer, lane, me as u64, len), "{peer} to {me}");
    }
    fabric.close();
}

fn mismatches(node: &Node) -> Vec<(usize, Signature, Signature)> {
    let mismatch = |event: &Event| match event {
        Event::Mismatch { peer, local, remote, .. } => (*peer, *local, *remote),
        other => panic!("rank {}: {other:?}", node.rank),
    };
    node.news.iter().map(mismatch).collect()
}

pub(crate) fn a_mismatch_is_seen_by_both_sides(factory: Factory) {
    let limit = factory(2).nodes[0].transport.capabilities().eager_limit;
    let op = |op, dtype, count, sequence| signature(op, dtype, count, sequence);
    let group = collective(9);
    // Lane, the sender's and the receiver's call, and the lengths of message and receive.
    let large = 3 * limit;
    let cases = [
        (
            group,
            op(Operation::AllReduce, DType::F32, 4, 0),
            op(Operation::AllReduce, DType::I32, 4, 0),
            16,
            16,
        ),
        (
            group,
            op(Operation::AllReduce, DType::F32, 4, 0),
            op(Operation::AllGather, DType::F32, 4, 0),
            16,
            16,
        ),
        (
            group,
            op(Operation::AllReduce, DType::F32, 4, 0),
            op(Operation::AllReduce, DType::F32, 4, 1),
            16,
            16,
        ),
        (
            group,
            op(Operation::AllReduce, DType::U8, 4, 0),
            op(Operation::AllReduce, DType::U8, 5, 0),
            4,
            5,
        ),
        (
            group,
            op(Operation::Gather, DType::U8, 4, 0),
            op(Operation::Gather, DType::U8, 9, 0),
            4,
            large,
        ),
        (
            group,
            op(Operation::Gather, DType::U8, 9, 0),
            op(Operation::Gather, DType::U8, 4, 0),
            large,
            4,
        ),
        (
            group,
            op(Operation::Gather, DType::U8, 9, 0),
            op(Operation::Gather, DType::I8, 9, 0),
            large,
            large,
        ),
        (
            tagged(1),
            op(Operation::Send, DType::F32, 9, 0),
            op(Operation::Recv, DType::F64, 9, 0),
            36,
            72,
        ),
        (
            tagged(1),
            op(Operation::Send, DType::F32, 9, 0),
            op(Operation::Recv, DType::F32, 9, 1),
            36,
            36,
        ),
        (
            tagged(1),
            op(Operation::Send, DType::U8, 9, 0),
            op(Operation::Send, DType::U8, 9, 0),
            9,
            9,
        ),
        (
            tagged(1),
            op(Operation::Send, DType::U8, 9, 4),
            op(Operation::Recv, DType::U8, 8, 4),
            large,
            large - 1,
        ),
    ];
    for (case, (lane, sent, posted, send_len, recv_len)) in cases.into_iter().enumerate() {
        for receive_first in [true, false] {
            let mut fabric = factory(2);
            let mut recv = None;
            for posts in [receive_first, !receive_first] {
                if posts {
                    recv = Some(fabric.nodes[1].recv_as(0, lane, posted, recv_len));
                } else {
                    let bytes = contents(0, lane, case as u64, send_len);
                    fabric.nodes[0].send_as(1, lane, sent, bytes);
                }
                fabric.settle();
            }
            fabric.until("mismatch on both sides", |nodes| {
                for node in nodes.iter_mut() {
                    node.transport.prepare_sleep();
                }
                nodes.iter().all(|node| !node.news.is_empty())
            });
            fabric.settle();
            let what = format!("case {case}, receive first: {receive_first}");
            assert_eq!(mismatches(&fabric.nodes[0]), [(1, sent, posted)], "{what}");
            assert_eq!(mismatches(&fabric.nodes[1]), [(0, posted, sent)], "{what}");
            let recv = recv.expect("posted");
            assert!(fabric.nodes[1].peek(recv).iter().all(|byte| *byte == 0xEE), "{what}");
            fabric.nodes[1].transport.cancel(recv);
            // Other lanes go on.
            let other = tagged(77);
            fabric.nodes[0].send(1, other, contents(0, other, 0, 100));
            let recv = fabric.nodes[1].recv(0, other, 100);
            assert!(fabric.received(1, recv) == contents(0, other, 0, 100), "{what}");
        }
    }
}

pub(crate) fn messages_match_send_recv(factory: Factory) {
    let mut fabric = factory(2);
    let lane = tagged(4);
    let both = signature(Operation::SendRecv, DType::U8, 10, 0);
    for (send, recv) in
        [(Operation::Send, Operation::SendRecv), (Operation::SendRecv, Operation::Recv)]
    {
        let call = |operation| Signature { call: Call { operation, ..both.call }, ..both };
        fabric.nodes[0].send_as(1, lane, call(send), contents(0, lane, 0, 10));
        let id = fabric.nodes[1].recv_as(0, lane, call(recv), 10);
        assert!(fabric.received(1, id) == contents(0, lane, 0, 10));
    }
    fabric.close();
}

pub(crate) fn cancelled_posts_leave_the_stream_in_step(factory: Factory) {
    let lane = tagged(3);
    let large = 3 * 1024 * 1024 + 1;
    for len in [1000, large] {
        let messages: Vec<_> = (0..8).map(|k| contents(0, lane, k, len)).collect();
        for turns in [0, 1, 2, 3, 5, 10, 40] {
            let mut fabric = factory(2);
            let recv = fabric.nodes[1].recv(0, lane, len);
            let send = fabric.nodes[0].send(1, lane, messages[0].clone());
            for _ in 0..turns {
                fabric.nodes[0].poll();
                fabric.nodes[1].poll();
            }
            let cancel_recv = !fabric.nodes[1].is_done(recv);
            fabric.nodes[1].transport.cancel(recv);
            let before = if cancel_recv { fabric.nodes[1].peek(recv).to_vec() } else { Vec::new() };
            for message in &messages[1..4] {
                fabric.nodes[0].send(1, lane, message.clone());
                let next = fabric.nodes[1].recv(0, lane, len);
                assert!(fabric.received(1, next) == *message, "{len}, {turns}");
            }
            if cancel_recv {
                assert!(
                    fabric.nodes[1].peek(recv) == before,
                    "written after cancel: {len}, {turns}"
                );
            }
            fabric.until("send", |nodes| nodes[0].is_done(send));
            // Now the sender lets go, and its buffer changes.
            let recv = fabric.nodes[1].recv(0, lane, len);
            let send = fabric.nodes[0].send(1, lane, messages[4].clone());
            for _ in 0..turns {
                fabric.nodes[0].poll();
                fabric.nodes[1].poll();
            }
            fabric.nodes[0].transport.cancel(send);
            for message in &messages[5..8] {
                fabric.nodes[0].send(1, lane, message.clone());
                let next = fabric.nodes[1].recv(0, lane, len);
                assert!(fabric.received(1, next) == *message, "{len}, {turns}");
            }
            if fabric.nodes[1].is_done(recv) {
                assert!(fabric.nodes[1].take(recv) == messages[4], "{len}, {turns}");
            } else {
                fabric.nodes[1].transport.cancel(recv);
            }
            fabric.close();
        }
    }
}

pub(crate) fn what_arrived_whole_survives_the_sender(factory: Factory) {
    let mut fabric = factory(2);
    let lane = tagged(8);
    let early = fabric.nodes[1].recv(0, lane, 100);
    for k in 0..3 {
        let send = fabric.nodes[0].send(1, lane, contents(0, lane, k, 100 + k as usize));
        fabric.until("send", |nodes| nodes[0].is_done(send));
    }
    let sender = fabric.nodes.remove(0);
    // The endpoint goes away without a word.
    drop(sender);
    let receiver = &mut fabric.nodes[0];
    assert!(
        wait_for_news(receiver, |event| matches!(
            event,
            Event::Lost { peer: 0, loss: Loss::Broken(_) }
        )),
        "{:?}",
        receiver.news
    );
    assert!(receiver.take(early) == contents(0, lane, 0, 100), "it was reported before the loss");
    for k in 1..3 {
        let late = receiver.recv(0, lane, 100 + k as usize);
        receiver.poll();
        assert!(receiver.take(late) == contents(0, lane, k, 100 + k as usize));
    }
    assert_eq!(receiver.news.len(), 1, "{:?}", receiver.news);
    receiver.recv(0, lane, 5);
    receiver.send(0, lane, vec![1]);
    receiver.poll();
    assert_eq!(receiver.news.len(), 3, "later posts are reported lost: {:?}", receiver.news);
    assert!(receiver.transport.prepare_sleep(), "a lost peer lets the others sleep");
}

fn wait_for_news(node: &mut Node, mut wanted: impl FnMut(&Event) -> bool) -> bool {
    let start = Instant::now();
    while node.news.is_empty() && start.elapsed() < PATIENCE {
        node.poll_or_sleep(PATIENCE);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "noticed late: {:?}", start.elapsed());
    node.news.iter().any(&mut wanted)
}

pub(crate) fn a_broken_link_is_fatal_at_once(factory: Factory) {
    let fabric = factory(3);
    let cut = fabric.cut.expect("only for links that can be broken from outside");
    let mut nodes = fabric.nodes;
    let lane = collective(0);
    let len = 4 * 1024 * 1024;
    nodes[0].recv(1, lane, len);
    nodes[1].send(0, lane, contents(1, lane, 0, len));
    for _ in 0..2 {
        nodes[1].poll();
        nodes[0].poll();
    }
    cut(0, 1);
    for (rank, peer) in [(0, 1), (1, 0)] {
        let node = &mut nodes[rank];
        let broken = |event: &Event| match event {
            Event::Lost { peer: lost, loss: Loss::Broken(reason) } => {
                *lost == peer && !reason.is_empty()
            }
            _ => false,
        };
        assert!(wait_for_news(node, broken), "rank {rank}: {:?}", node.news);
    }
    // The third rank is not concerned.
    let mut fabric = Fabric { nodes, cut: None };
    for rank in [0, 1] {
        fabric.nodes[rank].send(2, lane, contents(rank, lane, 0, len));
        let recv = fabric.nodes[2].recv(rank, lane, len);
        assert!(fabric.received(2, recv) == contents(rank, lane, 0, len));
    }
}

pub(crate) fn a_closing_peer_is_told_apart(factory: Factory) {
    let mut fabric = factory(2);
    let lane = tagged(2);
    let mut receiver = fabric.nodes.pop().expect("two nodes");
    let mut sender = fabric.nodes.pop().expect("two nodes");
    // why: more than one socket buffer, so that closing has something to hand on.
    let lens: Vec<usize> = (0..60).map(|k| 1000 + k * 50).collect();
    for (k, &len) in lens.iter().enumerate() {
        sender.send(1, lane, contents(0, lane, k as u64, len));
    }
    // The receiver has something on the way that the closing side never reads.
    receiver.send(0, tagged(6), vec![9; 3000]);
    receiver.poll();
    let closing = std::thread::spawn(move || {
        let start = Instant::now();
        sender.close();
        assert!(start.elapsed() < Duration::from_secs(9), "close ran into its time-out");
        sender.poll();
        sender.news.clear();
        sender.send(1, lane, vec![1]);
        sender.poll();
        assert_eq!(sender.news, [Event::Lost { peer: 1, loss: Loss::Closed }]);
    });
    std::thread::sleep(Duration::from_millis(50));
    for (k, &len) in lens.iter().enumerate() {
        let recv = receiver.recv(0, lane, len);
        let start = Instant::now();
        while !receiver.is_done(recv) {
            assert!(start.elapsed() < PATIENCE, "message {k} was lost");
            receiver.poll_or_sleep(PATIENCE);
        }
        assert!(receiver.take(recv) == contents(0, lane, k as u64, len), "message {k}");
    }
    receiver.recv(0, lane, 1);
    assert!(wait_for_news(&mut receiver, |event| {
        *event == Event::Lost { peer: 0, loss: Loss::Closed }
    }));
    receiver.close();
    receiver.close();
    closing.join().expect("closing side");
}

pub(crate) fn closing_under_load_ends(factory: Factory) {
    let fabric = factory(3);
    in_threads(fabric.nodes, move |node| {
        let lane = tagged(1);
        let peers: Vec<usize> = (0..3).filter(|peer| *peer != node.rank).collect();
        let mut posts = Vec::new();
        for k in 0..40 {
            for &peer in &peers {
                let len = if k % 4 == 0 { 300_000 } else { 5000 };
                posts.push(node.send(peer, lane, contents(node.rank, lane, k, len)));
                posts.push(node.recv(peer, lane, len));
            }
            node.poll();
        }
        for id in posts {
            node.transport.cancel(id);
        }
        let start = Instant::now();
        node.close();
        assert!(start.elapsed() < Duration::from_secs(9), "close ran into its time-out");
    });
}

pub(crate) fn a_stalled_peer_resumes(factory: Factory) {
    let mut fabric = factory(2);
    let lane = collective(5);
    // why: four of them are more than the buffers of a connection hold.
    let len = 12 * 1024 * 1024;
    let sends: Vec<_> =
        (0..4).map(|k| fabric.nodes[0].send(1, lane, contents(0, lane, k, len))).collect();
    let recvs: Vec<_> = (0..4).map(|_| fabric.nodes[1].recv(0, lane, len)).collect();
    fabric.nodes[0].poll();
    fabric.nodes[1].poll();
    // Only the sender goes on, until nothing moves any more.
    let start = Instant::now();
    let mut still = 0;
    while still < 1000 {
        assert!(start.elapsed() < PATIENCE);
        still = if fabric.nodes[0].poll() { 0 } else { still + 1 };
    }
    assert!(!fabric.nodes[0].is_done(sends[3]), "a send overran the receiver");
    assert!(fabric.nodes[0].news.is_empty());
    for (k, recv) in (0..).zip(recvs) {
        assert!(fabric.received(1, recv) == contents(0, lane, k, len), "message {k}");
    }
    fabric.close();
}

pub(crate) fn forgotten_groups_take_nothing_with_them(factory: Factory) {
    let mut fabric = factory(2);
    for group in 1..200 {
        let lane = collective(group);
        let send = fabric.nodes[0].send(1, lane, contents(0, lane, 0, 90_000));
        let recv = fabric.nodes[1].recv(0, lane, 90_000);
        assert!(fabric.received(1, recv) == contents(0, lane, 0, 90_000));
        fabric.until("send", |nodes| nodes[0].is_done(send));
        // Something is still on its way, and something is still posted.
        fabric.nodes[0].send(1, lane, contents(0, lane, 1, 10));
        let late = fabric.nodes[1].recv(0, tagged(0), 1);
        fabric.nodes[1].transport.cancel(late);
        fabric.nodes[0].send(1, tagged(0), vec![1]);
        for node in &mut fabric.nodes {
            node.transport.forget_group(group);
        }
    }
    fabric.settle();
    assert!(fabric.nodes.iter().all(|node| node.news.is_empty()));
    assert!(fabric.nodes[1].transport.unexpected(0).is_empty());
    fabric.close();
}

/// Makes the tests of this module tests of a transport. Where links can be broken from outside,
/// `a_broken_link_is_fatal_at_once` is called beside it.
macro_rules! conformance {
    ($factory:expr) => {
        $crate::transport::conformance::conformance! { $factory;
            every_size_whichever_side_posts_first
            order_on_a_lane_is_kept
            an_unread_lane_blocks_no_other
            anyone_to_anyone_with_skew
            sleepers_are_woken
            both_directions_of_large_messages_at_once
            a_mismatch_is_seen_by_both_sides
            messages_match_send_recv
            cancelled_posts_leave_the_stream_in_step
            what_arrived_whole_survives_the_sender
            a_closing_peer_is_told_apart
            closing_under_load_ends
            a_stalled_peer_resumes
            forgotten_groups_take_nothing_with_them
        }
    };
    ($factory:expr; $($name:ident)*) => {$(
        #[test]
        fn $name() {
            $crate::transport::conformance::$name($factory);
        }
    )*};
}
pub(crate) use conformance;
