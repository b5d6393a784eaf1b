//! What goes wrong while links are in use, and how it is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fake::Net;
use super::groups::{Job, run};
use super::*;
use crate::error::LinkKind;
use crate::transport::conformance::{contents, tagged};
use crate::transport::verbs::api::PortState;
use crate::{Group, Op};

/// Two joined hosts between which messages are sent until something is wrong on `victim`; returns
/// what that is.
fn trouble(kind: Kind, spoil: impl Fn(&Net)) -> String {
    let net: Arc<Net> = Arc::default();
    let mut fabric = fabric_on(&net, 2, kind);
    let lane = tagged(1);
    spoil(&net);
    for k in 0..3 {
        fabric.nodes[1].recv(0, lane, 100);
        fabric.nodes[0].send(1, lane, contents(0, lane, k, 100));
    }
    fabric.until("the trouble", |nodes| nodes.iter().any(|node| !node.news.is_empty()));
    let text = format!("{:?} {:?}", fabric.nodes[0].news, fabric.nodes[1].news);
    drop(fabric);
    assert_eq!(net.resources(), [0; 5], "nothing is left over");
    text
}

#[test]
fn a_lost_message_breaks_the_link() {
    let text = trouble(APPLE, |net| net.on((0, "dev1_0"), |device| device.lose = 1));
    assert!(text.contains("dev0_0: 1 messages were lost on the way"), "{text}");
}

#[test]
fn a_completion_that_is_no_success_breaks_the_link() {
    let text = trouble(APPLE, |net| net.flush((0, "dev1_0")));
    assert!(text.contains("dev1_0: UC queue pair"), "{text}");
    assert!(
        text.contains("failed: flushed: the queue pair had failed before (status 5)"),
        "{text}"
    );
}

#[test]
fn a_poll_that_fails_breaks_the_link() {
    let text = trouble(APPLE, |net| net.on((1, "dev0_0"), |device| device.poll_fails = true));
    assert!(text.contains("dev0_0: ibv_poll_cq: no error number was given"), "{text}");
}

#[test]
fn a_port_that_goes_down_breaks_the_link_though_nothing_is_reported() {
    let text = trouble(APPLE, |net| {
        net.on((0, "dev1_0"), |device| device.port = PortState::DOWN);
    });
    assert!(text.contains("dev1_0: port 1 is down"), "{text}");
}

#[test]
fn a_reliable_connection_tells_that_the_peer_does_not_answer() {
    let text = trouble(LINUX, |net| net.on((1, "dev0_0"), |device| device.silent = true));
    assert!(text.contains("RC queue pair") && text.contains("did not acknowledge"), "{text}");
}

#[test]
fn bytes_that_are_changed_in_a_header_break_the_link() {
    // The middle of a message of 100 bytes is in its header or data; of none, in the header.
    let net: Arc<Net> = Arc::default();
    let mut fabric = fabric_on(&net, 2, APPLE);
    let lane = tagged(1);
    net.on((0, "dev1_0"), |device| device.corrupt = 1);
    fabric.nodes[1].recv(0, lane, 0);
    fabric.nodes[0].send(1, lane, contents(0, lane, 0, 0));
    fabric.until("the trouble", |nodes| nodes.iter().any(|node| !node.news.is_empty()));
    let text = format!("{:?}", fabric.nodes[1].news);
    assert!(text.contains("check") || text.contains("no header of ours"), "{text}");
}

/// Ranks that sum until it fails, `spoil` being called on rank 0 after a while; their errors.
fn until_failure(net: &Arc<Net>, kind: Kind, spoil: impl Fn(&Net) + Sync) -> Vec<String> {
    let job = Job { timeout: Duration::from_secs(2), ..Job::new(net, 3, kind) };
    run(&job, |group| {
        let group: Group = group.unwrap();
        let until = Instant::now() + PATIENCE;
        for round in 0_u32.. {
            assert!(Instant::now() < until, "it has not failed");
            if round == 20 && group.rank() == 0 {
                spoil(net);
            }
            let mut data = vec![round; 3000];
            match group.all_reduce(&mut data, Op::Sum) {
                Ok(()) => assert_eq!(data, vec![3 * round; 3000]),
                Err(error) => {
                    let again = group.barrier().unwrap_err().to_string();
                    let cause = group.failure().unwrap().to_string();
                    assert!(again.contains(&cause), "{again} is not about {cause}");
                    return error.to_string();
                }
            }
        }
        unreachable!("the loop ends by returning")
    })
}

#[test]
fn a_lost_message_poisons_the_group_on_every_rank() {
    let net: Arc<Net> = Arc::default();
    let texts = until_failure(&net, APPLE, |net| {
        net.on((1, "dev2_0"), |device| device.lose = 1);
    });
    for text in texts {
        assert!(text.contains("all_reduce") && text.contains("lost on the way"), "{text}");
        assert!(text.contains("rdma"), "{text}");
    }
}

#[test]
fn a_peer_that_falls_silent_ends_the_wait_at_the_deadline() {
    let net: Arc<Net> = Arc::default();
    let began = Instant::now();
    let texts = until_failure(&net, APPLE, |net| net.on_host(2, |device| device.silent = true));
    assert!(began.elapsed() < PATIENCE);
    for text in texts {
        assert!(text.contains("all_reduce") && text.contains('2'), "{text}");
    }
}

#[test]
fn a_cable_that_is_pulled_ends_the_group_and_names_it() {
    let net: Arc<Net> = Arc::default();
    let texts = until_failure(&net, APPLE, |net| {
        net.on((0, "dev1_0"), |device| device.port = PortState::DOWN);
        net.on((1, "dev0_0"), |device| device.port = PortState::DOWN);
    });
    for text in texts {
        assert!(text.contains("port 1 is down"), "{text}");
    }
}

#[test]
fn a_device_whose_polls_fail_ends_the_group() {
    let net: Arc<Net> = Arc::default();
    let texts = until_failure(&net, LINUX, |net| {
        net.on((1, "dev0_0"), |device| device.poll_fails = true);
    });
    for text in texts {
        assert!(text.contains("ibv_poll_cq") || text.contains("did not acknowledge"), "{text}");
    }
}

#[test]
fn closing_does_not_wait_for_a_driver_that_hangs() {
    let net: Arc<Net> = Arc::default();
    let job = Job { leftovers: true, ..Job::new(&net, 2, APPLE) };
    let took = run(&job, |group| {
        let group = group.unwrap();
        group.barrier().unwrap();
        if group.rank() == 0 {
            net.on((0, "dev1_0"), |device| device.hang = Some("ibv_destroy_qp"));
        }
        let began = Instant::now();
        drop(group);
        began.elapsed()
    });
    assert!(took.iter().all(|took| *took < Duration::from_secs(15)), "{took:?}");
    net.on((0, "dev1_0"), |device| device.hang = None);
    let until = Instant::now() + PATIENCE;
    while net.resources() != [0; 5] {
        assert!(Instant::now() < until, "{:?}", net.resources());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn links_of_another_kind_are_taken_where_rdma_does_not_come_up() {
    let net: Arc<Net> = Arc::default();
    let job = Job {
        links: &[LinkKind::Rdma, LinkKind::Tcp],
        spoil: &|net| net.on((0, "dev1_0"), |device| device.refuse = Some((60, 100))),
        ..Job::new(&net, 3, APPLE)
    };
    run(&job, |group| {
        let group = group.unwrap();
        for link in group.links() {
            let bad = link.peer + group.rank() == 1;
            assert_eq!(link.kind, if bad { LinkKind::Tcp } else { LinkKind::Rdma });
        }
        let mut sum = [group.rank() as u64];
        group.all_reduce(&mut sum, Op::Sum).unwrap();
        assert_eq!(sum, [3]);
    });
}
