//! From devices to links: what can be wrong with them, and what is said about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fake::Net;
use super::*;
use crate::transport::verbs::api::{PortState, QpType};

/// Why the first pair has no link, after hosts like this were joined.
fn failure(net: &Arc<Net>, kind: Kind, spoil: impl Fn(&Net)) -> String {
    failure_of(net, kind, &Wish::default(), spoil)
}

fn failure_of(net: &Arc<Net>, kind: Kind, wish: &Wish, spoil: impl Fn(&Net)) -> String {
    let libraries = hosts(net, 2, kind);
    spoil(net);
    let made = join_hosts(libraries, wish, Duration::from_millis(300));
    for other in &made {
        assert!(other.links.iter().all(Vec::is_empty));
        assert_eq!(other.failures, made[0].failures, "all ranks say the same");
    }
    let text = made[0].failures.get(&(0, 1)).cloned();
    drop(made);
    assert_eq!(net.resources(), [0; 5], "nothing is left over");
    text.unwrap_or_else(|| panic!("a link was made"))
}

#[test]
fn nothing_is_left_on_the_devices() {
    for kind in [APPLE, LINUX] {
        let net: Arc<Net> = Arc::default();
        let libraries = hosts(&net, 3, kind);
        for _ in 0..20 {
            let made = join_hosts(libraries.clone(), &Wish::default(), PATIENCE);
            assert_eq!(net.pairs(), 2 * 2 * 3);
            let [contexts, domains, queues, regions, _] = net.resources();
            assert_eq!((contexts, domains, queues, regions), (6, 6, 6, 6), "one of each a device");
            drop(made);
            assert_eq!(net.resources(), [0; 5]);
        }
        assert_eq!(net.violations(), Vec::<String>::new());
    }
}

#[test]
fn a_library_may_keep_its_devices_open_and_they_are_used_again() {
    let net: Arc<Net> = Arc::default();
    drop(hosts(&net, 2, APPLE));
    let host = |number| Host { net: Arc::clone(&net), number, keeps: true };
    let libraries: Vec<Arc<dyn Library>> =
        (0..2).map(|number| Arc::new(host(number)) as Arc<dyn Library>).collect();
    for _ in 0..70 {
        let made = join_hosts(libraries.clone(), &Wish::default(), PATIENCE);
        assert!(made.iter().all(|made| made.failures.is_empty()));
        drop(made);
        // Contexts, domains and regions of the two devices; no queue, no queue pair.
        assert_eq!(net.resources(), [2, 2, 0, 2, 0]);
    }
    assert_eq!(net.violations(), Vec::<String>::new());
}

#[test]
fn a_direction_that_does_not_deliver_is_connected_anew_once() {
    let net: Arc<Net> = Arc::default();
    let libraries = hosts(&net, 2, APPLE);
    net.on((0, "dev1_0"), |device| device.deaf = 2);
    let made = join_hosts(libraries, &Wish::default(), PATIENCE);
    assert!(made.iter().all(|made| made.failures.is_empty()));
    drop(made);
    let text = failure(&Arc::default(), APPLE, |net| {
        net.on((0, "dev1_0"), |device| device.deaf = 100);
    });
    assert!(text.contains("rank 1: the first message") && text.contains("dev0_0"), "{text}");
}

#[test]
fn a_cable_that_changes_bytes_is_found_at_the_start() {
    let text = failure(&Arc::default(), APPLE, |net| {
        net.on((1, "dev0_0"), |device| device.corrupt = 100);
    });
    assert!(text.contains("rank 0: the first message is not the one"), "{text}");
}

#[test]
fn a_budget_that_is_too_small_is_named_before_anything_is_made() {
    let attributes = DeviceAttributes { max_qp: 1, ..APPLE.attributes };
    let text = failure(&Arc::default(), Kind { attributes, ..APPLE }, |_| {});
    assert!(text.contains("has 1 queue pairs, 0 are in use by this process and 2 more"), "{text}");
    let attributes = DeviceAttributes { max_cqe: 16, ..APPLE.attributes };
    let text = failure(&Arc::default(), Kind { attributes, ..APPLE }, |_| {});
    assert!(text.contains("has 16 entries of a completion queue"), "{text}");
}

#[test]
fn ten_queue_pairs_are_all_that_an_apple_device_has_whatever_it_says() {
    let net: Arc<Net> = Arc::default();
    let libraries = hosts(&net, 2, APPLE);
    let again = || join_hosts(libraries.clone(), &Wish::default(), PATIENCE);
    let jobs: Vec<_> = (0..5).map(|_| again()).collect();
    assert!(jobs.iter().flatten().all(|made| made.failures.is_empty()));
    assert_eq!(net.pairs(), 2 * 10);
    let one_more = again();
    let text = &one_more[0].failures[&(0, 1)];
    assert!(text.contains("has 10 queue pairs, 10 are in use by this process"), "{text}");
    // One device, one domain, one region for all of them.
    let [contexts, domains, queues, regions, _] = net.resources();
    assert_eq!((contexts, domains, queues), (2, 2, 10));
    assert!(regions <= 2 * 5, "{regions}");
    drop((jobs, one_more));
    assert_eq!(net.resources(), [0; 5]);
    assert_eq!(net.violations(), Vec::<String>::new());
}

#[test]
fn what_others_have_taken_is_told_apart_from_what_is_ours() {
    let text = failure(&Arc::default(), APPLE, |net| {
        net.on((1, "dev0_0"), |device| device.taken = 9);
    });
    assert!(text.contains("rank 1: dev0_0: ibv_create_qp: busy"), "{text}");
    assert!(text.contains("dev0_0 has 10 queue pairs, 1 of them are in use by this"), "{text}");
    let text = failure(&Arc::default(), APPLE, |net| {
        net.on((0, "dev1_0"), |device| device.taken_regions = 100);
    });
    assert!(text.contains("rank 0: dev1_0: ibv_reg_mr: out of memory (errno 12)"), "{text}");
    assert!(text.contains("memory regions") || text.contains("locked in memory"), "{text}");
}

#[test]
fn a_path_that_is_refused_says_between_which_identifiers() {
    for (number, meaning) in [(22, "invalid argument (errno 22)"), (60, "timed out (errno 60)")] {
        let text = failure(&Arc::default(), APPLE, |net| {
            net.on((1, "dev0_0"), |device| device.refuse = Some((number, 100)));
        });
        assert!(text.contains(&format!("rank 1: dev0_0: ibv_modify_qp: {meaning}")), "{text}");
        assert!(text.contains("from ::ffff:10.0.4.2 (GID index 1) to ::ffff:10.0.4.1"), "{text}");
    }
    // Once is not for ever: the second try has new queue pairs.
    let net: Arc<Net> = Arc::default();
    let libraries = hosts(&net, 2, APPLE);
    net.on((1, "dev0_0"), |device| device.refuse = Some((60, 1)));
    let made = join_hosts(libraries, &Wish::default(), PATIENCE);
    assert!(made.iter().all(|made| made.failures.is_empty() && made.links[..].len() == 2));
}

#[test]
fn crossed_cables_are_refused_and_not_paired_by_their_order() {
    // Two cables whose devices have no address of a network, and whose other ends are named in
    // the wrong order.
    let net: Arc<Net> = Arc::default();
    let kind = Kind { cables: 2, ..APPLE };
    let libraries = hosts(&net, 2, kind);
    let named = |first: &str, second: &str, peer: usize| Wish {
        named: Some([(peer, vec![first.to_owned(), second.to_owned()])].into()),
        ..Wish::default()
    };
    let cards = [
        look(&libraries[0], &named("dev1_0", "dev1_1", 1)),
        look(&libraries[1], &named("dev0_1", "dev0_0", 0)),
    ];
    let pairs: Vec<(String, String)> = super::super::cards::cables((0, &cards[0]), (1, &cards[1]))
        .into_iter()
        .map(|cable| (cable.own.name.clone(), cable.other.name.clone()))
        .collect();
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(pairs, [pair("dev1_0", "dev0_0"), pair("dev1_1", "dev0_1")]);
}

#[test]
fn reliable_connections_are_not_asked_of_a_mac() {
    let net: Arc<Net> = Arc::default();
    let libraries = mixed(&net, &[USB4, APPLE]);
    let made = join_hosts(libraries, &Wish::default(), PATIENCE);
    for (rank, made) in made.iter().enumerate() {
        assert!(made.failures.is_empty(), "{:?}", made.failures);
        assert!(made.details[1 - rank].contains("(UC, MTU 4096"), "{:?}", made.details);
    }
    drop(made);
    assert_eq!(net.violations(), Vec::<String>::new());
    // A device that says it has them and refuses: errno 102.
    let wrong = Quirks { rc: true, ..Quirks::APPLE };
    let net: Arc<Net> = Arc::default();
    let text = failure(&net, Kind { quirks: Quirks { uc: false, ..wrong }, ..APPLE }, |net| {
        net.on_host(0, |device| device.deny_reliable());
    });
    assert!(text.contains("ibv_create_qp: not supported (errno 102)"), "{text}");
}

#[test]
fn a_port_that_is_down_is_read_before_anything_is_made() {
    let net: Arc<Net> = Arc::default();
    let libraries = hosts(&net, 2, APPLE);
    net.on((0, "dev1_0"), |device| device.port = PortState::DOWN);
    let cards = look(&libraries[0], &Wish::default());
    assert_eq!(cards.problems, ["dev1_0 cannot be used: port 1 is down"]);
    assert!(cards.devices.is_empty() && cards.mistakes.is_empty());
    assert_eq!(net.resources(), [0; 5]);
    // It goes down between looking and opening: no domain is given, and why is said.
    let text = failure(&Arc::default(), APPLE, |net| {
        net.on((0, "dev1_0"), |device| device.no_domain = true);
    });
    assert!(
        text.contains("rank 0: dev1_0: ibv_alloc_pd: no error number was given; dev1_0: port 1"),
        "{text}"
    );
}

#[test]
fn a_driver_that_hangs_is_given_up() {
    for verb in ["ibv_alloc_pd", "ibv_create_qp", "ibv_modify_qp"] {
        let net: Arc<Net> = Arc::default();
        let libraries = hosts(&net, 2, APPLE);
        net.on((0, "dev1_0"), |device| device.hang = Some(verb));
        let began = Instant::now();
        let made = join_hosts(libraries, &Wish::default(), Duration::from_millis(200));
        assert!(began.elapsed() < Duration::from_secs(15), "{verb}");
        let text = &made[1].failures[&(0, 1)];
        assert!(text.contains("has not returned within 200ms: the driver hangs"), "{verb}: {text}");
        net.on((0, "dev1_0"), |device| device.hang = None);
        drop(made);
        // What hung ends, and gives back what it had.
        let until = Instant::now() + PATIENCE;
        while net.resources() != [0; 5] {
            assert!(Instant::now() < until, "{verb}: {:?}", net.resources());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn fewer_places_than_asked_for_are_kept_to() {
    let net: Arc<Net> = Arc::default();
    let libraries = hosts(&net, 2, APPLE);
    // 16 large slots of 32 frames were asked for; 5 fit. Of the small ones, 64.
    net.on_host(0, |device| device.grant = 160);
    let made = join_hosts(libraries, &Wish::default(), PATIENCE);
    assert!(made.iter().all(|made| made.failures.is_empty()));
    assert_eq!(net.violations(), Vec::<String>::new());
    let text = failure(&Arc::default(), APPLE, |net| net.on_host(1, |device| device.grant = 63));
    assert!(text.contains("has 63 places in a queue") && text.contains("128 more"), "{text}");
}

#[test]
fn an_address_that_comes_late_is_waited_for() {
    let net: Arc<Net> = Arc::default();
    let libraries = hosts(&net, 2, APPLE);
    net.on_host(0, |device| device.late = 5);
    let made = join_hosts(libraries, &Wish::default(), PATIENCE);
    assert!(made[0].details[1].contains("GID ::ffff:10.0.4.1"), "{:?}", made[0].details);
}

#[test]
fn without_addresses_of_a_network_the_identifiers_of_the_link_are_used() {
    let net: Arc<Net> = Arc::default();
    let libraries = hosts(&net, 2, LINUX);
    for host in 0..2 {
        net.on_host(host, |device| device.late = u32::MAX);
    }
    let made = join_hosts(libraries, &Wish::default(), PATIENCE);
    for (rank, made) in made.iter().enumerate() {
        assert!(made.failures.is_empty(), "{:?}", made.failures);
        assert!(made.details[1 - rank].contains("GID fe80::"), "{:?}", made.details);
    }
}

#[test]
fn an_index_by_hand_is_taken_or_refused_with_what_there_is() {
    let net: Arc<Net> = Arc::default();
    let libraries = hosts(&net, 2, APPLE);
    let wish = |index| Wish { gid_index: Some(index), ..Wish::default() };
    let made = join_hosts(libraries.clone(), &wish(2), PATIENCE);
    assert!(made[0].details[1].contains("GID fe80::1:"), "{:?}", made[0].details);
    let cards = look(&libraries[0], &wish(7));
    let text = &cards.mistakes["dev1_0"];
    assert!(
        text.starts_with("dev1_0 has no GID at index 7 (LYCAON_RDMA_GID_INDEX); it has 0 (fe80")
    );
    assert!(text.contains("1 (::ffff:10.0.4.1)"), "{text}");
}

#[test]
fn the_type_by_hand_is_taken_where_both_have_it() {
    for (kind, name) in [(QpType::Rc, "(RC"), (QpType::Uc, "(UC")] {
        let net: Arc<Net> = Arc::default();
        let libraries = hosts(&net, 2, LINUX);
        let wish = Wish { kind: Some(kind), ..Wish::default() };
        let made = join_hosts(libraries, &wish, PATIENCE);
        assert!(made[1].details[0].contains(name), "{:?}", made[1].details);
    }
}
