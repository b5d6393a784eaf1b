//! What the fabric itself is held to: it notices everything that a program must not do.

use std::sync::Arc;

use super::super::{APPLE, device, hosts};
use super::Net;
use crate::transport::verbs::api::*;

/// Two queue pairs of Macs, joined, with a region of their own each.
struct Two {
    net: Arc<Net>,
    queues: Vec<Arc<dyn CompletionQueue>>,
    domains: Vec<Arc<dyn Domain>>,
    regions: Vec<Box<dyn Region>>,
    pairs: Vec<Box<dyn QueuePair>>,
}

const DEPTH: u32 = 8;

impl Two {
    fn new() -> Two {
        let net: Arc<Net> = Arc::default();
        let libraries = hosts(&net, 2, APPLE);
        let mut two = Two {
            net,
            queues: Vec::new(),
            domains: Vec::new(),
            regions: Vec::new(),
            pairs: Vec::new(),
        };
        let mut gids = Vec::new();
        for (host, library) in libraries.iter().enumerate() {
            let open = library.open(&device(1 - host, 0)).unwrap();
            gids.push(open.gid(1, 1).unwrap().unwrap());
            let domain = open.alloc_domain().unwrap();
            let memory = Memory::new(1 << 20, 1 << 30).unwrap();
            two.regions.push(Arc::clone(&domain).register(memory).unwrap());
            let queue = Arc::clone(&domain).create_cq(64, false).unwrap();
            let request = QpRequest {
                kind: QpType::Uc,
                depth: QpDepth { send: DEPTH, recv: DEPTH, inline: 0 },
                signal_all: true,
            };
            two.pairs.push(Arc::clone(&queue).create_qp(&request).unwrap());
            two.queues.push(queue);
            two.domains.push(domain);
        }
        let numbers: Vec<u32> = two.pairs.iter().map(|pair| pair.number()).collect();
        for (host, pair) in two.pairs.iter_mut().enumerate() {
            pair.modify(&Transition::Init { port: 1, remote: true }).unwrap();
            let path = Path {
                kind: QpType::Uc,
                port: 1,
                mtu: Mtu(5),
                number: numbers[1 - host],
                psn: 0,
                lid: 1,
                gid: gids[1 - host],
                gid_index: 1,
                hop_limit: 1,
                min_rnr_timer: 0,
            };
            pair.modify(&Transition::ReadyToReceive(path)).unwrap();
            pair.modify(&Transition::ReadyToSend { psn: 0, reliability: None }).unwrap();
        }
        two
    }

    fn sge(&self, host: usize, len: u32) -> Sge {
        let region = &self.regions[host];
        Sge { address: region.memory().address(), len, lkey: region.lkey() }
    }

    fn send(&mut self, len: u32) -> Result<(), VerbsError> {
        let payload = Payload::Region(self.sge(0, len));
        self.pairs[0].post_send(&[SendRequest { id: 7, payload, signaled: true }])
    }

    fn receive(&mut self, into: Sge) -> Result<(), VerbsError> {
        self.pairs[1].post_recv(&[RecvRequest { id: 9, into }])
    }

    /// The status of the receiver's next completion, if there is one.
    fn status(&self) -> Option<Status> {
        let mut found = Vec::new();
        self.queues[1].poll(1, &mut found).unwrap();
        found.first().map(|completion| completion.status)
    }

    fn violation(&self, part: &str) {
        let found = self.net.violations();
        assert!(found.len() == 1 && found[0].contains(part), "{part}: {found:?}");
    }
}

#[test]
fn what_is_allowed_is_no_violation() {
    let mut two = Two::new();
    for len in [1_u32, 4096, 4097, 8192] {
        two.receive(two.sge(1, len.next_multiple_of(4096))).unwrap();
        two.send(len).unwrap();
        assert_eq!(two.status(), Some(Status::SUCCESS), "{len}");
    }
    assert_eq!(two.net.violations(), Vec::<String>::new());
}

#[test]
fn frames_have_to_match() {
    for (sent, posted) in [(4096, 8192), (1, 4097), (8192, 4096)] {
        let mut two = Two::new();
        two.receive(two.sge(1, posted)).unwrap();
        two.send(sent).unwrap();
        assert_eq!(two.status(), Some(Status::LOCAL_LENGTH), "{sent} into {posted}");
        two.violation("met a receive of");
    }
}

#[test]
fn depth_is_counted_in_frames() {
    let mut two = Two::new();
    two.receive(two.sge(1, 4 * 4096)).unwrap();
    two.receive(two.sge(1, 4 * 4096)).unwrap();
    let error = two.receive(two.sge(1, 1)).unwrap_err().to_string();
    assert!(error.contains("ibv_post_recv: out of memory (errno 12)"), "{error}");
    two.violation("the receive queue overflows");
}

#[test]
fn nothing_may_be_sent_without_a_receive() {
    let mut two = Two::new();
    two.send(10).unwrap();
    assert_eq!(two.status(), None);
    two.violation("where no receive was posted");
}

#[test]
fn memory_has_to_be_registered_before_the_queue_pair_is_ready() {
    let mut two = Two::new();
    let memory = Memory::new(4096, 1 << 30).unwrap();
    let late = Arc::clone(&two.domains[1]).register(memory).unwrap();
    let into = Sge { address: late.memory().address(), len: 4096, lkey: late.lkey() };
    two.receive(into).unwrap();
    two.send(4096).unwrap();
    assert_eq!(two.status(), Some(Status::LOCAL_PROTECTION));
    two.violation("registered too late");
}

#[test]
fn messages_are_read_when_they_travel() {
    let mut two = Two::new();
    two.net.lock().seed = 5;
    two.receive(two.sge(1, 4096)).unwrap();
    two.regions[0].memory().write(0, b"early");
    two.send(5).unwrap();
    // A sender that writes before its send has completed changes the message.
    two.regions[0].memory().write(0, b"later");
    while two.status().is_none() {}
    let mut found = [0; 5];
    two.regions[1].memory().read(0, &mut found);
    assert_eq!(&found, b"later");
}

#[test]
fn a_failed_queue_pair_flushes_what_is_posted_and_what_comes() {
    let mut two = Two::new();
    two.receive(two.sge(1, 4096)).unwrap();
    two.pairs[1].modify(&Transition::Error).unwrap();
    two.receive(two.sge(1, 4096)).unwrap();
    assert_eq!(two.status(), Some(Status::FLUSHED));
    assert_eq!(two.status(), Some(Status::FLUSHED));
    assert_eq!(two.status(), None);
}
