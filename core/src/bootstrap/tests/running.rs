//! Groups that have formed: what is announced, to whom and in which order.

use super::super::control::Control;
use super::super::scope::Scope;
use super::*;
use crate::error::{Cause, LinkKind};

/// A running group: each rank does its part, all wait for all, then all close.
fn running<T: Send + 'static>(
    size: usize,
    body: impl Fn(usize, &Control) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let port = free_port();
    let barrier = Arc::new(std::sync::Barrier::new(size));
    ranks(0..size, move |rank| {
        let control = met(&local(rank, size, port).build().unwrap()).unwrap().into_control();
        let result = body(rank, &control);
        barrier.wait();
        control.close();
        result
    })
}

fn lost(first: usize, second: usize) -> Cause {
    let reason = "reset".to_owned();
    Cause::LinkLost { first, second, link: LinkKind::Tcp, reason }
}

#[test]
fn every_failure_is_announced_once_and_in_one_order_on_every_rank() {
    let lists = running(4, |rank, control| {
        let called = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&called);
        control.on_announcement(move || {
            seen.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!((control.announcements(), control.since(0)), (0, vec![]));
        // Three links break, and all ranks find something of their own in two groups.
        if rank < 3 {
            assert_eq!(*report(control, lost(rank, 3)), lost(rank, 3));
        }
        for group in [70, 71] {
            let what = format!("group {group} on rank {rank}");
            let own = Cause::RankDied { rank, how: what };
            let verdict = control.report(Scope::Group(group), own);
            assert!(verdict.to_string().contains(&format!("group {group} on rank")), "{verdict}");
            assert_eq!(control.report(Scope::Group(group), Cause::Closed), verdict);
        }
        eventually("all of them", Duration::from_secs(5), || control.announcements() == 5);
        eventually("the hook", Duration::from_secs(5), || called.load(Ordering::SeqCst) == 5);
        // A hook that comes late is called at once.
        let seen = Arc::clone(&called);
        control.on_announcement(move || {
            seen.fetch_add(10, Ordering::SeqCst);
        });
        assert_eq!(called.load(Ordering::SeqCst), 15);
        assert_eq!(control.since(2), control.since(0)[2..]);
        control.since(0)
    });
    assert!(lists.iter().all(|list| *list == lists[0]), "{lists:?}");
    let mut scopes: Vec<_> = lists[0].iter().map(|one| format!("{:?}", one.scope)).collect();
    scopes.sort();
    assert_eq!(scopes, ["Group(70)", "Group(71)", "Pair(0, 3)", "Pair(1, 3)", "Pair(2, 3)"]);
}

#[test]
fn a_failure_leaves_the_watch_up_for_goodbyes_and_for_later_failures() {
    let lists = running(4, |rank, control| {
        if rank == 0 {
            report(control, lost(0, 3));
        }
        eventually("the first", Duration::from_secs(5), || control.announcements() == 1);
        match rank {
            1 => {
                control.leave();
                return Vec::new();
            }
            2 => {
                eventually("the goodbye", Duration::from_secs(5), || control.departed(1));
                assert_eq!(*report(control, lost(1, 2)), Cause::RankLeft { rank: 1 });
            }
            _ => eventually("the goodbye", Duration::from_secs(5), || control.departed(1)),
        }
        eventually("the second", Duration::from_secs(5), || control.announcements() == 2);
        control.since(0)
    });
    assert_eq!(lists[0], lists[2]);
    assert_eq!(lists[0], lists[3]);
    assert_eq!(lists[0][1].scope, Scope::Rank(1));
}

#[test]
fn a_report_is_answered_at_once_where_there_is_no_doubt() {
    // The machine may be busy: one quick answer of several shows that nothing was waited for.
    let quick = (0..6).any(|_| {
        let times = running(3, |rank, control| {
            if rank != 1 {
                eventually("the cause", Duration::from_secs(5), || control.announcements() > 0);
                return Duration::MAX;
            }
            let began = Instant::now();
            let what = "an unknown frame".to_owned();
            let cause = report(control, Cause::Protocol { rank, peer: 2, what: what.clone() });
            assert_eq!(*cause, Cause::Protocol { rank, peer: 2, what });
            began.elapsed()
        });
        times[1] < Duration::from_millis(80)
    });
    assert!(quick);
}

#[test]
fn a_link_lost_to_a_rank_that_left_is_that_ranks_leaving() {
    let causes = running(4, |rank, control| {
        match rank {
            1 => {
                std::thread::sleep(Duration::from_millis(30));
                control.close();
                return None;
            }
            // One rank sees it before the goodbye has come, the other one long after.
            2 => assert_eq!(*report(control, lost(2, 1)), Cause::RankLeft { rank: 1 }),
            3 => {
                eventually("the goodbye", Duration::from_secs(5), || control.departed(1));
                assert_eq!(*report(control, lost(1, 3)), Cause::RankLeft { rank: 1 });
            }
            _ => eventually("the cause", Duration::from_secs(5), || control.announcements() > 0),
        }
        first(control)
    });
    for rank in [0, 2, 3] {
        assert_eq!(causes[rank].as_deref(), Some(&Cause::RankLeft { rank: 1 }));
    }
}

#[test]
fn goodbyes_in_any_order_fail_nobody() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        for drop_only in [false, true] {
            let port = free_port();
            let failures = ranks(0..3, move |rank| {
                let session = met(&local(rank, 3, port).build().unwrap()).unwrap();
                let control = session.into_control();
                let place = order.iter().position(|other| *other == rank).unwrap();
                std::thread::sleep(Duration::from_millis(40 * place as u64));
                for earlier in &order[..place] {
                    let rank_0_is_gone = order[..place].contains(&0);
                    if !rank_0_is_gone || *earlier == 0 {
                        eventually("the goodbye", Duration::from_secs(5), || {
                            control.departed(*earlier)
                        });
                    }
                }
                let failure = first(&control);
                let began = Instant::now();
                if !drop_only {
                    control.leave();
                    control.close();
                    control.close();
                }
                drop(control);
                assert!(began.elapsed() < Duration::from_secs(1));
                failure
            });
            assert_eq!(failures, [None, None, None], "{order:?}");
        }
    }
}

#[test]
fn without_rank_0_a_rank_is_its_own_judge() {
    let causes = running(3, |rank, control| {
        if rank == 0 {
            control.close();
            return None;
        }
        eventually("the goodbye", Duration::from_secs(5), || control.departed(0));
        assert!(control.announcements() == 0);
        let began = Instant::now();
        let cause = report(control, lost(rank, [0, 2, 0][rank]));
        assert!(began.elapsed() < Duration::from_millis(350));
        Some(cause)
    });
    assert_eq!(causes[1].as_deref(), Some(&lost(1, 2)));
    assert_eq!(causes[2].as_deref(), Some(&Cause::RankLeft { rank: 0 }), "it still needed it");
}

#[test]
fn the_last_handle_closes_and_a_hook_that_panics_harms_nobody() {
    running(2, |rank, control| {
        let clone = control.clone();
        control.on_announcement(|| panic!("on purpose"));
        drop(clone);
        if rank == 1 {
            assert!(control.announcements() == 0, "dropping one of two handles closes nothing");
            control.report(Scope::Job, Cause::Closed);
        }
        eventually("the cause", Duration::from_secs(5), || control.announcements() > 0);
    });
}
