//! `lycaon tune`: prices that the library takes, and the table that follows from them.

mod support;

use support::Setup;

#[test]
fn measured_prices_can_be_used_and_are_shown() {
    let path = std::env::temp_dir().join(format!("lycaon-tune-{}.json", std::process::id()));
    let file = path.to_str().unwrap();
    let setup = Setup::of("tune", &["-n", "2", "--output", file]);
    let done = setup
        .with(|command| {
            command.env("LYCAON_LINKS", "tcp");
        })
        .start()
        .finish();
    let written = std::fs::read_to_string(&path);
    done.expect_code(0);
    let written = written.unwrap();
    assert!(written.contains("\"tcp\"") && written.contains("\"latency_ps\""), "{written}");
    for part in ["rank 0 of 2, mesh over tcp", "links of this rank", "all_reduce", "two-step"] {
        assert!(done.err.contains(part), "{part}: {}", done.err);
    }
    let with = |profile: &str| {
        let profile = profile.to_owned();
        Setup::of("demo", &["-n", "2"])
            .with(move |command| {
                command.env("LYCAON_PROFILE", &profile);
            })
            .start()
            .finish()
    };
    let done = with(file);
    std::fs::remove_file(&path).unwrap();
    done.expect_code(0);
    let done = with(file);
    done.expect_err(file);
    done.expect_code(1);
}
