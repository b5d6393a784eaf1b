//! TCP links between threads and processes of this machine.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream as StdStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::error::LinkKind;
use crate::transport::conformance::{
    Fabric, Node, PATIENCE, collective, conformance, contents, signature, tagged,
};
use crate::transport::{Event, Loss};

const KEY: [u8; 32] = [5; 32];
const LOOPBACK: &str = "127.0.0.1:0";

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// Joins `size` ranks on one address; every rank establishes in a thread of its own.
fn links(size: usize, rails: usize, at: &str) -> Vec<Vec<Link>> {
    let at: SocketAddr = at.parse().unwrap();
    let listeners: Vec<_> = (0..size).map(|_| Listener::bind(&[at]).unwrap()).collect();
    let published: Vec<_> =
        listeners.iter().map(|listener| listener.candidates().to_vec()).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = listeners
            .iter()
            .enumerate()
            .map(|(me, listener)| {
                let peers: Vec<_> =
                    published.iter().cloned().enumerate().filter(|(rank, _)| *rank != me).collect();
                scope.spawn(move || {
                    let request = Request {
                        me,
                        peers: &peers,
                        key: &KEY,
                        job: b"tests",
                        rails,
                        deadline: soon(),
                    };
                    establish(listener, &request, &mut || false).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn fabric(size: usize, rails: usize) -> Fabric {
    let mut handles = Vec::new();
    let nodes = links(size, rails, LOOPBACK)
        .into_iter()
        .enumerate()
        .map(|(me, links)| {
            for link in &links {
                for rail in &link.rails {
                    handles.push((me, link.peer, rail.try_clone().unwrap()));
                }
            }
            let poller = Poller::new().unwrap();
            let settings = Settings::new(LinkKind::Tcp);
            let transport = transport(&poller, settings, size, links).unwrap();
            Node::new(me, Box::new(transport), poller)
        })
        .collect();
    Fabric { nodes, cut: Some(Box::new(move |first, second| cut(&handles, first, second))) }
}

/// Resets the connections between two ranks.
fn cut(handles: &[(usize, usize, StdStream)], first: usize, second: usize) {
    for (me, peer, socket) in handles {
        if (*me, *peer) == (first, second) || (*me, *peer) == (second, first) {
            socket.shutdown(Shutdown::Both).ok();
        }
    }
}

/// The clones that `cut` needs keep connections open; without them a dropped endpoint is gone.
fn fabric_without_cut(size: usize, rails: usize) -> Fabric {
    let mut fabric = fabric(size, rails);
    fabric.cut = None;
    fabric
}

mod one_rail {
    use super::*;
    conformance!(|size| fabric_without_cut(size, 1));
}

mod three_rails {
    use super::*;
    conformance!(|size| fabric_without_cut(size, 3));
}

#[test]
fn a_reset_link_is_fatal_at_once() {
    crate::transport::conformance::a_broken_link_is_fatal_at_once(|size| fabric(size, 2));
}

#[test]
fn ipv6_links_work() {
    let links = links(2, 1, "[::1]:0");
    assert!(links[0][0].route.remote.is_ipv6(), "{:?}", links[0][0].route);
    assert_eq!(links[0][0].route.medium, Medium::Loopback);
    assert!(links[0][0].route.interface.is_some());
}

#[test]
fn sixteen_ranks_join_at_once() {
    let start = Instant::now();
    let links = links(16, 2, LOOPBACK);
    for (me, links) in links.iter().enumerate() {
        let peers: Vec<_> = links.iter().map(|link| link.peer).collect();
        let expected: Vec<_> = (0..16).filter(|rank| *rank != me).collect();
        assert_eq!(peers, expected);
        assert!(links.iter().all(|link| link.rails.len() == 2));
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

/// One side of a pair, with the other one's listener given.
fn join(
    me: usize,
    listener: &Listener,
    other: &[Candidate],
    key: &[u8; 32],
    patience: Duration,
) -> Result<Vec<Link>, EstablishError> {
    let peers = [(1 - me, other.to_vec())];
    let deadline = Instant::now() + patience;
    let request = Request { me, peers: &peers, key, job: b"tests", rails: 1, deadline };
    establish(listener, &request, &mut || false)
}

#[test]
fn strangers_neither_get_in_nor_hold_up_the_start() {
    let at = [LOOPBACK.parse().unwrap()];
    let (low, high) = (Listener::bind(&at).unwrap(), Listener::bind(&at).unwrap());
    let address = high.candidates()[0].address;
    let silent: Vec<_> = (0..20).map(|_| StdStream::connect(address).unwrap()).collect();
    let mut browser = StdStream::connect(address).unwrap();
    browser.write_all(&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(5)).unwrap();
    let (low_candidates, high_candidates) = (low.candidates().to_vec(), high.candidates().to_vec());
    let start = Instant::now();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| join(1, &high, &low_candidates, &KEY, PATIENCE));
        // Somebody who speaks the protocol but does not know the key.
        let wrong = join(0, &low, &high_candidates, &[6; 32], Duration::from_millis(700));
        let Err(EstablishError::Failed(failures)) = wrong else { panic!("{wrong:?}") };
        let text = failures[0].to_string();
        assert!(text.contains("does not know the token"), "{text}");
        let right = join(0, &low, &high_candidates, &KEY, PATIENCE).unwrap();
        assert_eq!(right.len(), 1);
        assert_eq!(accepting.join().unwrap().unwrap().len(), 1);
    });
    assert!(start.elapsed() < Duration::from_secs(5));
    let mut answer = [0; 1];
    browser.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(browser.read(&mut answer), Ok(0) | Err(_)), "a stranger got an answer");
    drop(silent);
}

#[test]
fn an_address_that_does_not_answer_is_passed_over() {
    let at = [LOOPBACK.parse().unwrap()];
    let (low, high) = (Listener::bind(&at).unwrap(), Listener::bind(&at).unwrap());
    // One that refuses, one that accepts and says nothing, one without a route.
    let refusing = {
        let closed = Listener::bind(&at).unwrap();
        closed.candidates()[0].clone()
    };
    let mute = std::net::TcpListener::bind(LOOPBACK).unwrap();
    let mute = Candidate { address: mute.local_addr().unwrap(), ..refusing.clone() };
    let far = Candidate { address: "240.0.0.1:9".parse().unwrap(), ..refusing.clone() };
    let mut candidates = vec![refusing, mute, far];
    candidates.extend(high.candidates().to_vec());
    let low_candidates = low.candidates().to_vec();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| join(1, &high, &low_candidates, &KEY, PATIENCE));
        let links = join(0, &low, &candidates, &KEY, PATIENCE).unwrap();
        assert_eq!(links[0].route.remote, high.candidates()[0].address);
        assert!(links[0].route.round_trip.is_some());
        accepting.join().unwrap().unwrap();
    });
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

#[test]
fn a_link_that_cannot_be_says_what_was_tried() {
    let at = [LOOPBACK.parse().unwrap()];
    let low = Listener::bind(&at).unwrap();
    let closed = Listener::bind(&at).unwrap().candidates().to_vec();
    let error = join(0, &low, &closed, &KEY, Duration::from_millis(300)).unwrap_err();
    let text = error.to_string();
    for part in ["rank 1", "from 127.0.0.1 (lo", "refused", &closed[0].address.to_string(), "ms"] {
        assert!(text.contains(part), "{part:?} is missing in {text:?}");
    }
    let error = join(1, &low, &closed, &KEY, Duration::from_millis(50)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("rank 0") && text.contains("did not connect"), "{text}");
}

#[test]
fn establishing_can_be_interrupted() {
    let low = Listener::bind(&[LOOPBACK.parse().unwrap()]).unwrap();
    let peers = [(1, low.candidates().to_vec())];
    let request =
        Request { me: 2, peers: &peers, key: &KEY, job: b"j", rails: 1, deadline: soon() };
    let start = Instant::now();
    let result = establish(&low, &request, &mut || start.elapsed() > Duration::from_millis(100));
    assert!(matches!(result, Err(EstablishError::Interrupted)));
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn the_overhead_is_what_the_protocol_says() {
    let mut fabric = fabric_without_cut(2, 1);
    let lane = collective(1);
    for k in 0..40 {
        let send = fabric.nodes[0].send(1, lane, contents(0, lane, k, 100));
        let recv = fabric.nodes[1].recv(0, lane, 100);
        fabric.until("message", |nodes| nodes[0].is_done(send) && nodes[1].is_done(recv));
    }
    fabric.settle();
    let [sender, receiver] = [0, 1].map(|rank| fabric.nodes[rank].transport.counters(1 - rank));
    assert_eq!((sender.messages_sent, sender.bytes_sent, sender.overhead_sent), (40, 4000, 2560));
    // One return of credits for 32 messages.
    assert_eq!((receiver.messages_received, receiver.overhead_sent), (40, 64));
    let len = 3 * 1024 * 1024;
    let recv = fabric.nodes[1].recv(0, lane, len);
    fabric.nodes[0].send(1, lane, contents(0, lane, 40, len));
    fabric.until("message", |nodes| nodes[1].is_done(recv));
    let [sender, receiver] = [0, 1].map(|rank| fabric.nodes[rank].transport.counters(1 - rank));
    assert_eq!(sender.overhead_sent, 2560 + 3 * 64, "three parts");
    assert_eq!(receiver.overhead_sent, 2 * 64, "one clear-to-send");
    fabric.close();
}

/// The other process of the test below; alone it does nothing.
#[test]
fn child_that_is_killed() {
    let Ok(address) = std::env::var("LYCAON_TEST_ADDRESS") else { return };
    let candidate =
        Candidate { address: address.parse().unwrap(), medium: Medium::Loopback, speed: None };
    let listener = Listener::bind(&[LOOPBACK.parse().unwrap()]).unwrap();
    let links = join(0, &listener, &[candidate], &KEY, PATIENCE).unwrap();
    let poller = Poller::new().unwrap();
    let transport = transport(&poller, Settings::new(LinkKind::Tcp), 2, links).unwrap();
    let mut node = Node::new(0, Box::new(transport), poller);
    node.send(1, tagged(1), contents(0, tagged(1), 0, 5000));
    node.send(1, tagged(2), contents(0, tagged(2), 0, 8 << 20));
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        node.poll_or_sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_killed_process_is_noticed_and_its_whole_messages_are_kept() {
    let listener = Listener::bind(&[LOOPBACK.parse().unwrap()]).unwrap();
    let name = "transport::tcp::tests::child_that_is_killed";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--test-threads=1"])
        .env("LYCAON_TEST_ADDRESS", listener.candidates()[0].address.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let links = join(1, &listener, &[], &KEY, PATIENCE).unwrap();
    let poller = Poller::new().unwrap();
    let transport = transport(&poller, Settings::new(LinkKind::Tcp), 2, links).unwrap();
    let mut node = Node::new(1, Box::new(transport), poller);
    let call = signature(crate::call::Operation::Recv, crate::dtype::DType::U8, 8 << 20, 0);
    node.recv_as(0, tagged(2), call, 8 << 20);
    let start = Instant::now();
    while node.transport.unexpected(0).is_empty() {
        assert!(start.elapsed() < PATIENCE);
        node.poll_or_sleep(PATIENCE);
    }
    child.kill().unwrap();
    let killed = Instant::now();
    while node.news.is_empty() {
        assert!(killed.elapsed() < Duration::from_secs(1), "the death was not noticed");
        node.poll_or_sleep(PATIENCE);
    }
    assert!(
        matches!(&node.news[..], [Event::Lost { peer: 0, loss: Loss::Broken(_) }]),
        "{:?}",
        node.news
    );
    let id = node.recv(0, tagged(1), 5000);
    node.poll();
    assert!(node.take(id) == contents(0, tagged(1), 0, 5000));
    child.wait().unwrap();
}
