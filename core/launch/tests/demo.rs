//! `lycaon demo`: a table with a check mark on every line, or a failure.

mod support;

use support::{Done, Setup};

fn demo(args: &[&str]) -> Done {
    Setup::of("demo", args).start().finish()
}

fn marks(text: &str, mark: char) -> usize {
    text.chars().filter(|other| *other == mark).count()
}

#[test]
fn every_result_is_right_and_shown_in_eighty_columns() {
    for (ranks, args) in [(4, &[][..]), (2, &["-n", "2"]), (5, &["-n", "5"])] {
        let done = demo(args);
        done.expect_code(0);
        let text = done.text();
        assert_eq!(done.err, "");
        assert_eq!((marks(&text, '✓'), marks(&text, '✗')), (12, 0), "{text}");
        assert!(text.contains(&format!("All 12 results are right on all {ranks} ranks")), "{text}");
        assert!(text.contains("joined by shm"), "{text}");
        assert!(text.lines().any(|line| line.contains(" tcp ")), "a line over TCP: {text}");
        assert!(!text.contains('\x1b'), "plain where nobody looks: {text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80 && line.trim_end() == line, "{line:?}");
        }
        let last = text.lines().last().unwrap();
        assert!(last.contains("README.md") && last.contains("lycaon bench"), "{last}");
        for name in ["all_reduce #", "all_gather #", "rank 0"] {
            let quoted = text.split("what rank 0 is told").nth(1).unwrap();
            assert!(quoted.contains(name), "{name}: {text}");
        }
    }
}

#[test]
fn it_runs_over_the_links_that_are_allowed() {
    let setup = Setup::of("demo", &["-n", "3"]);
    let done = setup
        .with(|command| {
            command.env("LYCAON_LINKS", "tcp");
        })
        .start()
        .finish();
    done.expect_code(0);
    assert!(done.text().contains("joined by tcp"), "{}", done.text());
    assert!(!done.text().contains("shm"), "{}", done.text());
}

#[test]
fn under_a_launcher_it_is_a_rank() {
    let program = env!("CARGO_BIN_EXE_lycaon");
    let launch = ["-n", "3", "--no-tag-output", "--", program, "demo"];
    let done = Setup::new(&launch).start().finish();
    done.expect_code(0);
    assert!(done.text().contains("right on all 3 ranks"), "{}", done.text());
}

#[test]
fn a_wrong_result_is_marked_and_fails() {
    for rank in ["0", "2"] {
        let done = demo(&["-n", "3", "--corrupt", rank]);
        done.expect_code(1);
        let text = done.text();
        assert_eq!((marks(&text, '✓'), marks(&text, '✗')), (11, 1), "{text}");
        assert!(text.contains("1 of 12 results are WRONG"), "{text}");
    }
}

#[test]
fn it_takes_two_ranks() {
    for ranks in ["0", "1", "65", "x"] {
        demo(&["-n", ranks]).expect_code(2).expect_err("2 to 64 ranks");
    }
    let program = env!("CARGO_BIN_EXE_lycaon");
    let done = Setup::new(&["-n", "1", "--", program, "demo"]).start().finish();
    done.expect_code(1).expect_err("one rank only");
}
