//! How jobs end: exit codes, the first failure, early exits, time-outs, programs that do not start.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use support::{Setup, shell};

#[test]
fn all_ranks_are_well() {
    for ranks in ["1", "2", "9"] {
        let done = shell(&["-n", ranks], "exit 0").finish();
        done.expect_code(0);
        assert_eq!((done.text(), done.err.as_str()), (String::new(), ""));
    }
}

#[test]
fn the_code_of_the_failing_rank_is_the_launchers() {
    for code in [1, 3, 77, 255] {
        let script = format!("[ $LYCAON_RANK = 1 ] && exit {code}; exit 0");
        let done = shell(&["-n", "3"], &script).finish();
        done.expect_code(code).expect_err("rank 1 failed first: exit code");
    }
    let done = shell(&["-n", "1"], "exit 9").finish();
    done.expect_code(9).expect_err("lycaon: rank 0 failed: exit code 9, after 0.");
}

#[test]
fn signals_are_named_and_become_codes() {
    for (signal, code) in [("SEGV", 139), ("KILL", 137), ("ABRT", 134)] {
        let script = format!("[ $LYCAON_RANK = 2 ] && kill -{signal} $$; exit 0");
        let done = shell(&["-n", "3"], &script).finish();
        done.expect_code(code).expect_err(&format!("rank 2 failed first: killed by SIG{signal}"));
    }
}

#[test]
fn the_first_failure_counts_and_the_others_follow() {
    let script = r#"
        case $LYCAON_RANK in
            0) while [ ! -e $D/failed ]; do sleep 0.02; done; sleep 0.2; echo "rank 1 is gone"; exit 7;;
            1) touch $D/failed; exit 5;;
            *) exec sleep 100;;
        esac"#;
    let done = shell(&["-n", "4", "--grace", "1"], script).finish();
    done.expect_code(5)
        .expect_err("rank 1 failed first: exit code 5")
        .expect_err("as a consequence: rank 0 failed with exit code 7")
        .expect_err("as a consequence: ranks 2, 3 ended by the launcher (SIGTERM)");
    assert_eq!(done.text(), "[0] rank 1 is gone\n", "the others can still report");
    assert!(done.took > Duration::from_secs(1) && done.took < Duration::from_secs(8));
}

#[test]
fn a_rank_that_ignores_sigterm_is_killed() {
    let script = r#"
        if [ $LYCAON_RANK = 0 ]; then
            trap "" TERM; touch $D/trapped; while :; do sleep 0.05; done
        fi
        while [ ! -e $D/trapped ]; do sleep 0.02; done; exit 4"#;
    let done = shell(&["-n", "2", "--grace", "0.3"], script).finish();
    done.expect_code(4).expect_err("rank 0 ended by the launcher (SIGKILL)");
}

#[test]
fn a_stopped_rank_is_ended_too() {
    let script = r#"
        if [ $LYCAON_RANK = 0 ]; then touch $D/here; kill -STOP $$; fi
        while [ ! -e $D/here ]; do sleep 0.02; done; sleep 0.1; exit 4"#;
    let done = shell(&["-n", "2", "--grace", "0.2"], script).finish();
    done.expect_code(4).expect_err("rank 0 ended by the launcher (SIGTERM)");
}

#[test]
fn ranks_that_clean_up_on_sigterm_have_the_time() {
    let script = r#"
        if [ $LYCAON_RANK = 0 ]; then
            trap 'sleep 0.3; echo saved; exit 0' TERM; touch $D/trapped
            while :; do sleep 0.05; done
        fi
        while [ ! -e $D/trapped ]; do sleep 0.02; done; exit 4"#;
    let done = shell(&["-n", "2", "--grace", "3"], script).finish();
    done.expect_code(4).expect_err("rank 0 exited with 0 when asked to end");
    assert_eq!(done.text(), "[0] saved\n");
}

#[test]
fn an_early_clean_exit_is_named_when_others_fail() {
    let script = r#"
        case $LYCAON_RANK in
            2) touch $D/left; exit 0;;
            *) while [ ! -e $D/left ]; do sleep 0.02; done; sleep 0.3; exit 6;;
        esac"#;
    let done = shell(&["-n", "4"], script).finish();
    done.expect_code(6)
        .expect_err("rank 2 exited with 0 after 0.")
        .expect_err("3 others still ran");
}

#[test]
fn an_early_clean_exit_is_named_when_others_wait() {
    let script = "[ $LYCAON_RANK = 1 ] && exit 0; while [ ! -e $D/go ]; do sleep 0.05; done";
    let job = shell(&["-n", "3"], script);
    job.await_err("lycaon: rank 1 exited with 0 after 0.");
    job.await_err("while 2 others still run\n");
    std::fs::write(job.dir().join("go"), "").unwrap();
    let done = job.finish();
    done.expect_code(0);
    assert_eq!(done.err.lines().count(), 1, "it is named once: {}", done.err);
}

#[test]
fn the_time_limit_ends_the_job() {
    let script = "[ $LYCAON_RANK = 1 ] && exit 0; sleep 100";
    let done = shell(&["-n", "3", "--timeout", "0.5"], script).finish();
    done.expect_code(124)
        .expect_err("it took longer than 500ms (--timeout)")
        .expect_err("rank 1 exited with 0")
        .expect_err("ranks 0, 2 ended by the launcher (SIGTERM)");
    assert!(done.took >= Duration::from_millis(500) && done.took < Duration::from_secs(8));
    shell(&["-n", "2", "--timeout", "20"], "exit 3").finish().expect_code(3);
}

#[test]
fn what_a_rank_leaves_running_is_ended_and_named() {
    let script = "setsid sleep 100 & echo $! > $D/pid.$LYCAON_RANK";
    let done = shell(&["-n", "2"], script).finish();
    done.expect_code(0).expect_err("left behind by a rank, and ended: sleep (process ");
    assert_eq!(done.err.lines().count(), 2);
}

#[test]
fn a_program_that_cannot_run_is_explained() {
    let setup = Setup::new(&["-n", "3", "--", "no-such-program", "x"]);
    setup.start().finish().expect_code(127).expect_err("command not found: no-such-program\n");
    let setup = Setup::new(&["-n", "3", "--", "/no/such/program"]);
    setup.start().finish().expect_code(127).expect_err("/no/such/program does not exist");
    let setup = Setup::new(&["-n", "2", "--", "/"]);
    setup.start().finish().expect_code(126).expect_err("it is a folder");
    let setup = Setup::new(&["-n", "2", "--", ""]);
    setup.start().finish().expect_code(127);

    let cases = [
        (0o644, "#!/bin/sh\n", "not executable"),
        (0o755, "#!/no/such/shell\n", "the interpreter that its first line names"),
    ];
    for (mode, text, advice) in cases {
        // why: root may run nothing that has no executable bit either.
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("program");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let setup = Setup::new(&["-n", "2", "--", path.to_str().unwrap()]);
        setup.start().finish().expect_code(126).expect_err(advice);
    }
}

#[test]
fn a_wrong_command_line_starts_nothing() {
    let setup = Setup::new(&["-n", "0", "--", "touch", "x"]);
    setup.start().finish().expect_code(2).expect_err("at least one rank");
    let setup = Setup::new(&["-n", "2", "--cwd", "/no/such/folder", "--", "true"]);
    setup.start().finish().expect_code(125).expect_err("--cwd /no/such/folder: No such file");
    let setup = Setup::new(&["-n", "2", "--cwd", "/etc/passwd", "--", "true"]);
    setup.start().finish().expect_code(125).expect_err("--cwd /etc/passwd: not a directory");
}

#[test]
fn many_more_ranks_than_cores() {
    let done = shell(&["-n", "64"], "echo $LYCAON_RANK").finish();
    done.expect_code(0);
    let mut expected: Vec<_> = (0..64).map(|rank| format!("[{rank:>2}] {rank}")).collect();
    expected.sort();
    assert_eq!(done.sorted_lines(), expected);
}

#[test]
fn few_descriptors_are_raised_or_refused() {
    let shell = |limit: &str| {
        let lycaon = env!("CARGO_BIN_EXE_lycaon");
        let script = format!("ulimit {limit}; exec {lycaon} launch -n 40 -- sh -c 'ulimit -Sn'");
        std::process::Command::new("sh").args(["-c", &script]).output().unwrap()
    };
    let done = shell("-Sn 32");
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.lines().all(|line| line.ends_with(" 32")), "the ranks keep the limit: {text}");
    assert_eq!(text.lines().count(), 40);
    let refused = shell("-n 32");
    assert_eq!(refused.status.code(), Some(125));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("40 ranks need about 184 open files, but at most 32"), "{text}");
}

#[test]
fn an_ended_rank_is_no_zombie() {
    let script = r#"
        echo $$ > $D/pid.$LYCAON_RANK
        [ $LYCAON_RANK = 0 ] || exit 0
        sh -c 'echo $$ > $D/orphan; sleep 0.2' &
        sh -c 'sh -c "echo \$\$ > \$D/second; sleep 0.2" & exit 0'
        while [ ! -e $D/go ]; do sleep 0.02; done"#;
    let job = shell(&["-n", "2"], script);
    for name in ["pid.1", "orphan", "second"] {
        let pid = job.pid_in(name);
        if name == "orphan" {
            // why: its parent, the shell of rank 0, reaps when it pleases.
            continue;
        }
        let gone = || !std::path::Path::new(&format!("/proc/{}", pid.as_raw_nonzero())).exists();
        assert!(support::eventually(support::DEADLINE, gone), "{name} stays in the table");
    }
    std::fs::write(job.dir().join("go"), "").unwrap();
    job.finish().expect_code(0);
}

/// Some runtimes start programs from threads that block all signals, and programs inherit that.
#[test]
#[cfg(target_os = "linux")]
fn signals_that_the_parent_has_blocked_do_not_hide_the_end() {
    let launch = |options: &str, script: &str| {
        let lycaon = env!("CARGO_BIN_EXE_lycaon");
        let inner = format!("exec env --block-signal {lycaon} launch {options} -- {script}");
        shell(&["-n", "1", "--timeout", "20"], &inner).finish()
    };
    launch("-n 3 --timeout 10", "sh -c 'sleep 0.$LYCAON_RANK'").expect_code(0);
    launch("-n 2 --timeout 1", "sleep 100").expect_code(124).expect_err("(SIGTERM)");
}
