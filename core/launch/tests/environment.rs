//! What ranks find in their environment.

mod support;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use support::{Setup, shell};

#[test]
fn every_rank_knows_its_place() {
    let script = "echo $LYCAON_RANK $LYCAON_SIZE $LYCAON_LOCAL_RANK $LYCAON_LOCAL_SIZE";
    let done = shell(&["-n", "3", "--no-tag-output"], script).finish();
    assert_eq!(done.sorted_lines(), ["0 3 0 3", "1 3 1 3", "2 3 2 3"]);
}

#[test]
fn the_rendezvous_is_private_and_common() {
    let script = r#"
        path=${LYCAON_RENDEZVOUS#file:}
        stat -c '%a %U' "$(dirname "$path")" && ls "$path" 2>/dev/null; echo "$LYCAON_RENDEZVOUS""#;
    let done = shell(&["-n", "2", "--no-tag-output"], script).finish();
    let lines: HashSet<_> = done.sorted_lines().into_iter().collect();
    assert_eq!(lines.len(), 2, "both see the same: {lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("700 ")));
    let rendezvous = lines.iter().find(|line| line.starts_with("file:/")).unwrap();
    assert!(rendezvous.contains("/run/lycaon-job-") && rendezvous.ends_with("/rendezvous"));
}

#[test]
fn the_token_is_random_common_and_in_no_command_line() {
    let script = r#"echo $LYCAON_TOKEN $LYCAON_JOB
        for one in /proc/[0-9]*; do
            tr '\0' ' ' < $one/cmdline 2>/dev/null | grep -F -e "$LYCAON_TOKEN" && echo in $one
        done; true"#;
    let mut seen = HashSet::new();
    for _ in 0..2 {
        let done = shell(&["-n", "2", "--no-tag-output", "--verbose"], script).finish();
        let lines: HashSet<_> = done.sorted_lines().into_iter().collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let line = lines.into_iter().next().unwrap();
        let (token, job) = line.split_once(' ').unwrap();
        assert_eq!((token.len(), job.len()), (64, 16));
        assert!(token.chars().all(|c| c.is_ascii_hexdigit()));
        assert!(!done.err.contains(token), "it is not printed");
        assert!(done.err.contains(job));
        assert!(seen.insert(token.to_owned()));
    }
}

#[test]
fn values_and_arguments_are_passed_as_they_are() {
    let odd = "a'b\"c\n$(touch $D/bad) `touch $D/bad` $HOME \\ * ; & é";
    let script = r#"printf '%s|%s|%s' "$ODD" "$1" "$EMPTY""#;
    let pair = format!("ODD={odd}");
    let args = ["-n", "1", "--env", &pair, "--env", "EMPTY=", "--", "sh", "-c", script, "sh", odd];
    let setup = Setup::new(&args);
    let dir = setup.dir();
    let job = setup.start();
    let done = job.finish();
    done.expect_code(0);
    assert_eq!(done.text(), format!("{odd}|{odd}|"));
    assert!(!dir.join("bad").exists());
}

#[test]
fn bytes_that_are_no_text_are_passed_too() {
    let odd = OsStr::from_bytes(b"\xff\xfe=\x01");
    let setup = Setup::new(&["-n", "1", "--env"]).with(|command| {
        command.arg(OsStr::from_bytes(b"ODD=\xff\xfe=\x01"));
        command.args(["--", "sh", "-c", r#"printf '%s|%s' "$ODD" "$1""#, "sh"]).arg(odd);
    });
    let done = setup.start().finish();
    assert_eq!(done.out, b"\xff\xfe=\x01|\xff\xfe=\x01");
}

#[test]
fn the_last_setting_of_a_variable_wins_over_what_is_inherited() {
    let setup = Setup::new(&["-n", "1", "--env", "A=1", "--env", "A=2", "--", "printenv", "A"]);
    let done = setup.with(|command| _ = command.env("A", "0")).start().finish();
    assert_eq!(done.text(), "2\n");
}

#[test]
fn the_folder_may_have_any_name() {
    let setup = Setup::new(&["-n", "2"]);
    let folder = setup.dir().join("a folder $(x) 'quoted'");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("here"), "").unwrap();
    let setup = setup.with(|command| _ = command.arg("--cwd").arg(&folder).args(["--", "ls"]));
    let done = setup.start().finish();
    done.expect_code(0);
    assert_eq!(done.sorted_lines(), ["[0] here", "[1] here"]);
}

#[test]
fn stale_variables_of_another_job_do_not_reach_the_ranks() {
    let script = "echo $LYCAON_RANK/$LYCAON_SIZE ${#LYCAON_TOKEN} $RANK";
    let setup = Setup::new(&["-n", "2", "--no-tag-output", "--verbose", "--", "sh", "-c", script]);
    let done = setup
        .with(|command| {
            command.env("LYCAON_RANK", "7").env("LYCAON_SIZE", "9").env("LYCAON_TOKEN", "old");
            command.env("RANK", "5").env("WORLD_SIZE", "6");
        })
        .start()
        .finish();
    assert_eq!(done.sorted_lines(), ["0/2 64 5", "1/2 64 5"]);
    done.expect_err("passed on, but lycaon prefers LYCAON_*: RANK, WORLD_SIZE");
}

#[test]
fn threads_and_links_are_shown_when_asked() {
    let script = "echo $OMP_NUM_THREADS $LYCAON_LINKS";
    let args = ["-n", "2", "-v", "--links", "shm,tcp", "--no-tag-output"];
    let done = shell(&args, script).finish();
    let cores = std::thread::available_parallelism().unwrap().get();
    let line = format!("{} shm,tcp", (cores / 2).max(1));
    assert_eq!(done.sorted_lines(), [line.clone(), line]);
    done.expect_err("LYCAON_LINKS=shm,tcp")
        .expect_err("OMP_NUM_THREADS=")
        .expect_err("(unset, so chosen here)")
        .expect_err("rank 1 is process")
        .expect_err("the job ended with code 0");
}

#[test]
fn a_place_that_cannot_be_used_is_passed_over() {
    let setup = Setup::new(&["-n", "1", "--", "sh", "-c", "echo $LYCAON_RENDEZVOUS"]);
    let temp = setup.dir();
    let setup = setup.with(|command| {
        command.env("XDG_RUNTIME_DIR", "/no/such/folder").env("TMPDIR", &temp);
    });
    let job = setup.start();
    let dir = job.dir();
    // why: the folder of the job is below it, so the place is kept until it was looked at.
    let done = job.finish();
    done.expect_code(0);
    assert!(done.text().starts_with(&format!("file:{}/lycaon-job-", dir.display())));
}

#[test]
fn versions_are_printed() {
    let lycaon = env!("CARGO_BIN_EXE_lycaon");
    let done = std::process::Command::new(lycaon).arg("version").output().unwrap();
    assert!(done.status.success());
    let text = String::from_utf8(done.stdout).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(text.starts_with(&format!("lycaon {version}\nlibrary ")), "{text}");
    assert!(text.contains(&format!("\nprotocol {}\n", lycaon::PROTOCOL_VERSION)), "{text}");
}
