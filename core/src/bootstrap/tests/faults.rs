//! Groups that do not form, or fail later.

use std::net::TcpStream;

use super::super::handshake::{self, Introduction, Verdict};
use super::*;
use crate::error::StartError;
use crate::interrupt::with_interrupt;

fn start_error(result: Result<Session, Error>) -> StartError {
    match result {
        Err(Error::Start(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the group has formed"),
    }
}

#[test]
fn a_missing_worker_is_named_by_everybody() {
    let port = free_port();
    let began = Instant::now();
    let errors = ranks([0, 1, 4], move |rank| {
        let config = local(rank, 5, port).start_timeout(Duration::from_millis(900));
        start_error(start(&config.build().unwrap()))
    });
    for error in &errors {
        assert!(matches!(error, StartError::Deadline { .. }), "{error}");
        assert!(error.to_string().contains("no word from ranks 2, 3"), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_worker_with_a_shorter_deadline_names_the_missing_too() {
    let port = free_port();
    let errors = ranks([0, 1], move |rank| {
        let within = Duration::from_millis([5000, 800][rank]);
        start_error(start(&local(rank, 3, port).start_timeout(within).build().unwrap()))
    });
    assert!(matches!(errors[1], StartError::Deadline { rank: 1, .. }), "{}", errors[1]);
    assert!(errors[1].to_string().contains("no word from rank 2"), "{}", errors[1]);
    assert_eq!(errors[0], errors[1], "the first cause is everybody's");
}

#[test]
fn a_wrong_token_is_noticed_at_once_by_the_worker_and_named_at_the_deadline() {
    for tokens in [(Some("a"), Some("b")), (Some("a"), None), (None, Some("a"))] {
        let port = free_port();
        let began = Instant::now();
        let errors = ranks(0..2, move |rank| {
            let mut config = local(rank, 2, port).start_timeout(Duration::from_millis(1500));
            if let Some(token) = [tokens.0, tokens.1][rank] {
                config = config.token(token);
            }
            (start_error(start(&config.build().unwrap())), began.elapsed())
        });
        let (worker, after) = &errors[1];
        assert!(matches!(worker, StartError::Authentication { rank: 1, .. }), "{worker}");
        assert!(worker.to_string().contains("LYCAON_TOKEN"), "{worker}");
        assert!(*after < Duration::from_secs(1), "{after:?}");
        let zero = errors[0].0.to_string();
        assert!(zero.contains("no word from rank 1"), "{zero}");
        assert!(zero.contains("claims to be rank 1 but does not know the token"), "{zero}");
    }
}

#[test]
fn another_job_at_the_address_is_named() {
    let port = free_port();
    let errors = ranks(0..2, move |rank| {
        let config = local(rank, 2, port).job(["one", "two"][rank]);
        start_error(start(&config.start_timeout(Duration::from_millis(700)).build().unwrap()))
    });
    assert_eq!(
        errors[1].to_string(),
        "rank 0 has job \"one\", rank 1 has \"two\"; they must be equal"
    );
}

#[test]
fn configurations_that_differ_fail_on_every_rank_with_both_values() {
    let port = free_port();
    let began = Instant::now();
    let errors = ranks(0..4, move |rank| {
        // Rank 3 comes when all is over and must hear the reason as well.
        std::thread::sleep(Duration::from_millis([0, 0, 150, 500][rank]));
        let config = local(rank, 4, port).rails(if rank == 2 { 3 } else { 1 });
        start_error(start(&config.build().unwrap()))
    });
    for error in &errors {
        assert_eq!(error.to_string(), "rank 0 has rails 1, rank 2 has 3; they must be equal");
    }
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn sizes_that_differ() {
    let port = free_port();
    let errors =
        ranks(0..2, move |rank| start_error(start(&local(rank, 2 + rank, port).build().unwrap())));
    for error in &errors {
        assert_eq!(error.to_string(), "rank 0 has size 2, rank 1 has 3; they must be equal");
    }
}

/// A worker made by hand.
fn introduce(port: u16, change: impl FnOnce(&mut Introduction)) -> Verdict {
    use std::io::{Read, Write};
    let mut stream = None;
    eventually("rank 0 listens", WATCHDOG, || {
        stream = TcpStream::connect(("127.0.0.1", port)).ok();
        stream.is_some()
    });
    let mut stream = stream.expect("it is connected");
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut own = Introduction::new(&local(1, 2, port).build().unwrap());
    change(&mut own);
    let hello = own.encode();
    stream.write_all(&hello).unwrap();
    let mut zero = vec![0; handshake::HEAD];
    stream.read_exact(&mut zero).unwrap();
    let length = Introduction::body_length(zero[..].try_into().unwrap()).unwrap();
    zero.resize(handshake::HEAD + length, 0);
    stream.read_exact(&mut zero[handshake::HEAD..]).unwrap();
    let key = handshake::handshake_key(b"", b"");
    stream.write_all(&handshake::worker_proof(&key, &hello, &zero)).unwrap();
    let mut verdict = Vec::new();
    stream.read_to_end(&mut verdict).unwrap();
    Verdict::decode(&verdict, &key, &hello, &zero).unwrap()
}

#[test]
fn versions_that_differ_fail_on_both_sides() {
    type Change = fn(&mut Introduction);
    let cases: [(Change, String); 2] = [
        (
            |own| own.release = "9.9.9".to_owned(),
            format!("rank 0 has lycaon {}, rank 1 has 9.9.9", env!("CARGO_PKG_VERSION")),
        ),
        (|own| own.protocol = 77, "rank 0 has protocol version 1, rank 1 has 77".to_owned()),
    ];
    for (change, expected) in cases {
        let port = free_port();
        let zero =
            std::thread::spawn(move || start_error(start(&local(0, 2, port).build().unwrap())));
        let verdict = introduce(port, change);
        let error = zero.join().unwrap();
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!(verdict, Verdict::Refused(Box::new(error)));
    }
}

#[test]
fn two_processes_that_claim_one_rank_are_both_named() {
    let port = free_port();
    let errors =
        ranks([0, 1, 1], move |rank| start_error(start(&local(rank, 3, port).build().unwrap())));
    for error in &errors {
        let StartError::DuplicateRank { rank, first, second } = error else { panic!("{error}") };
        assert_eq!(*rank, 1);
        for place in [first, second] {
            assert!(place.contains("127.0.0.1:") && place.contains("process "), "{place}");
        }
        assert_ne!(first, second);
        assert_eq!(error, &errors[0]);
    }
}

#[test]
fn two_processes_that_claim_rank_0_are_both_named() {
    let port = free_port();
    let errors =
        ranks([0, 0, 1], move |rank| start_error(start(&local(rank, 3, port).build().unwrap())));
    for error in &errors {
        assert!(matches!(error, StartError::DuplicateRank { rank: 0, .. }), "{error}");
        assert_eq!(error, &errors[0]);
    }
}

#[test]
fn a_rank_that_fails_while_forming_is_quoted_by_all() {
    for culprit in [0, 2] {
        let port = free_port();
        let errors = ranks(0..4, move |rank| {
            let mut session = met(&local(rank, 4, port).build().unwrap()).unwrap();
            if rank == culprit {
                let error = StartError::System {
                    rank,
                    action: "map shared memory".to_owned(),
                    reason: "no space left".to_owned(),
                };
                session.fail(&error);
                assert_eq!(session.failure(), Some(error.clone()));
                return error;
            }
            // The failure shows in a wait of another kind, too.
            if rank == 1 {
                eventually("the failure", Duration::from_secs(5), || session.failure().is_some());
                return session.check(|| "nothing".to_owned()).unwrap_err();
            }
            session.exchange("links", &[1]).unwrap_err()
        });
        for (rank, error) in errors.iter().enumerate().filter(|(rank, _)| *rank != culprit) {
            assert_eq!(
                error.to_string(),
                format!(
                    "rank {culprit} failed while the group was forming: map shared memory: no space left"
                ),
                "on rank {rank}"
            );
        }
    }
}

#[test]
fn a_rank_that_gives_up_silently_is_named() {
    let port = free_port();
    let errors = ranks(0..3, move |rank| {
        let mut session = met(&local(rank, 3, port).build().unwrap()).unwrap();
        if rank == 1 {
            return None;
        }
        Some(session.exchange("links", &[]).unwrap_err().to_string())
    });
    for error in [&errors[0], &errors[2]] {
        let error = error.as_ref().unwrap();
        assert!(error.starts_with("rank 1 failed while the group was forming"), "{error}");
    }
}

#[test]
fn an_exchange_that_a_rank_does_not_join_ends_at_the_deadline() {
    let port = free_port();
    let errors = ranks(0..3, move |rank| {
        let config = local(rank, 3, port).start_timeout(Duration::from_millis(900));
        let mut session = met(&config.build().unwrap()).unwrap();
        if rank == 2 {
            std::thread::sleep(Duration::from_millis(2000));
            return session.failure().unwrap();
        }
        session.exchange("links", &[]).unwrap_err()
    });
    for error in errors {
        let text = error.to_string();
        assert!(text.contains("no word from rank 2 in the exchange of links"), "{text}");
    }
}

#[test]
fn ranks_in_different_steps_of_the_start_say_so() {
    let port = free_port();
    let errors = ranks(0..2, move |rank| {
        let mut session = met(&local(rank, 2, port).build().unwrap()).unwrap();
        session.exchange(["links", "capabilities"][rank], &[]).unwrap_err().to_string()
    });
    for error in errors {
        assert!(error.contains("links") && error.contains("capabilities"), "{error}");
    }
}

#[test]
fn a_start_can_be_interrupted_and_the_others_hear_of_it() {
    // Alone on the way to rank 0, alone as rank 0, and in the middle of an exchange.
    for rank in [0, 1] {
        let port = free_port();
        let began = Instant::now();
        let until = began + Duration::from_millis(300);
        let config = local(rank, 2, port).build().unwrap();
        let result = with_interrupt(move || Instant::now() >= until, || start(&config));
        assert_eq!(start_error(result), StartError::Interrupted { rank });
        assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    }
    let port = free_port();
    let errors = ranks(0..3, move |rank| {
        let mut session = met(&local(rank, 3, port).build().unwrap()).unwrap();
        if rank == 2 {
            let until = Instant::now() + Duration::from_millis(200);
            return with_interrupt(
                move || Instant::now() >= until,
                || session.exchange("links", &[]).unwrap_err(),
            );
        }
        if rank == 1 {
            eventually("the failure", Duration::from_secs(5), || session.failure().is_some());
        }
        session.exchange("links", &[]).unwrap_err()
    });
    assert_eq!(errors[2], StartError::Interrupted { rank: 2 });
    for error in &errors[..2] {
        let StartError::RankFailed { rank: 2, reason } = error else { panic!("{error}") };
        assert!(reason.contains("interrupted"), "{reason}");
    }
}
