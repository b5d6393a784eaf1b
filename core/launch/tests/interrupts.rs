//! Signals to the launcher, and the sudden death of the launcher, of its guardian, and of both.
#![cfg(target_os = "linux")]

mod support;

use std::os::unix::process::CommandExt;
use std::time::Duration;

use rustix::process::{Signal, kill_process, kill_process_group};
use support::{DEADLINE, Job, Setup, eventually, lives, shell};

/// Ranks with children, grandchildren in sessions of their own, and orphans, that wait.
const FAMILY: &str = r#"
    echo $$ > $D/rank.$LYCAON_RANK
    sh -c 'echo $$ > $D/child.$LYCAON_RANK; sleep 100; :' &
    setsid sh -c 'echo $$ > $D/session.$LYCAON_RANK; sleep 100; :' &
    sh -c 'setsid sh -c "echo \$\$ > \$D/orphan.\$LYCAON_RANK; trap : TERM; while :; do sleep 1; done" & exit 0'
    touch $D/ready.$LYCAON_RANK
    wait; sleep 100"#;

fn family() -> Job {
    let job = shell(&["-n", "2", "--grace", "0.5"], FAMILY);
    job.await_files(&["ready.0", "ready.1"]);
    for rank in 0..2 {
        for who in ["rank", "child", "session", "orphan"] {
            assert!(lives(job.pid_in(&format!("{who}.{rank}"))));
        }
    }
    job
}

#[test]
fn ctrl_c_reaches_every_rank_once() {
    let script = r#"
        trap 'echo caught; n=$((n+1))' INT
        touch $D/ready.$LYCAON_RANK
        while [ ! -e $D/go ]; do sleep 0.02; done
        echo total $n; exit 0"#;
    let job = shell(&["-n", "3"], script);
    job.await_files(&["ready.0", "ready.1", "ready.2"]);
    job.signal(Signal::INT);
    assert!(eventually(DEADLINE, || job.out_so_far().matches("caught").count() == 3));
    std::fs::write(job.dir().join("go"), "").unwrap();
    let done = job.finish();
    done.expect_code(130).expect_err("the job was ended by SIGINT");
    let lines = done.sorted_lines();
    let expected = ["[0] caught", "[0] total 1", "[1] caught", "[1] total 1", "[2] caught"];
    assert_eq!(lines[..5], expected);
}

#[test]
fn ctrl_c_ends_ordinary_ranks() {
    let job = shell(&["-n", "3"], "touch $D/ready.$LYCAON_RANK; exec sleep 100");
    job.await_files(&["ready.0", "ready.1", "ready.2"]);
    std::thread::sleep(Duration::from_millis(50));
    job.signal(Signal::INT);
    let done = job.finish();
    done.expect_code(130).expect_err("ranks 0–2 killed by SIGINT");
    assert!(done.took < Duration::from_secs(5));
}

#[test]
fn ctrl_c_twice_terms_and_thrice_kills() {
    let script = r#"
        trap "echo int" INT; trap "echo term" TERM
        touch $D/ready.$LYCAON_RANK; while :; do sleep 0.02; done"#;
    let job = shell(&["-n", "2", "--grace", "1000"], script);
    job.await_files(&["ready.0", "ready.1"]);
    for (signal, word) in [(Signal::INT, "int"), (Signal::INT, "term")] {
        job.signal(signal);
        let all = || job.out_so_far().matches(word).count() == 2;
        assert!(eventually(DEADLINE, all), "{word}: {}", job.out_so_far());
    }
    assert!(lives(job.pid()));
    job.signal(Signal::INT);
    job.finish().expect_code(130).expect_err("ranks 0, 1 ended by the launcher (SIGKILL)");
}

#[test]
fn one_rank_that_goes_on_after_ctrl_c_is_ended_after_the_grace_time() {
    let script = r#"
        [ $LYCAON_RANK = 0 ] && trap "" INT
        touch $D/ready.$LYCAON_RANK; while :; do sleep 0.02; done"#;
    let job = shell(&["-n", "2", "--grace", "0.3"], script);
    job.await_files(&["ready.0", "ready.1"]);
    job.signal(Signal::INT);
    let done = job.finish();
    done.expect_code(130).expect_err("rank 0 ended by the launcher (SIGTERM)");
}

#[test]
fn sigterm_and_sighup_end_the_job() {
    for (signal, code, name) in [(Signal::TERM, 143, "SIGTERM"), (Signal::HUP, 129, "SIGHUP")] {
        let job = family();
        job.signal(signal);
        let done = job.finish();
        done.expect_code(code).expect_err(&format!("the job was ended by {name}"));
    }
}

#[test]
fn under_nohup_the_job_goes_on() {
    let lycaon = env!("CARGO_BIN_EXE_lycaon");
    let script = "touch $D/ready; while [ ! -e $D/go ]; do sleep 0.02; done; echo done";
    let setup = Setup::new(&["-n", "1", "--", "sh", "-c", script]).with(|command| {
        let mut nohup = std::process::Command::new("nohup");
        nohup.arg(lycaon).args(command.get_args().skip(2));
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                nohup.env(key, value);
            }
        }
        nohup.stdin(std::process::Stdio::null());
        nohup.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        *command = nohup;
    });
    let job = setup.start();
    job.await_files(&["ready"]);
    job.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(200));
    std::fs::write(job.dir().join("go"), "").unwrap();
    let done = job.finish();
    done.expect_code(0);
    assert_eq!(done.text(), "done\n");
}

#[test]
fn ctrl_z_stops_the_ranks_and_continuing_continues_them() {
    // why: not a shell, which cannot stop while it waits for a child to execute.
    let script = r#"
import os, time
folder = os.environ["D"]
print(os.getpid(), file=open(folder + "/pid", "w"))
while not os.path.exists(folder + "/go"): time.sleep(0.02)
print("done")
"#;
    let job = Setup::new(&["-n", "1", "--", "python3", "-c", script]).start();
    let rank = job.pid_in("pid");
    let state = |pid: rustix::process::Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    job.signal(Signal::TSTP);
    assert!(eventually(DEADLINE, || state(job.pid()) == 'T' && state(rank) == 'T'));
    job.signal(Signal::CONT);
    assert!(eventually(DEADLINE, || state(job.pid()) != 'T' && state(rank) != 'T'));
    std::fs::write(job.dir().join("go"), "").unwrap();
    let done = job.finish();
    done.expect_code(0);
    assert_eq!(done.text(), "done\n");
}

#[test]
fn a_killed_launcher_leaves_nothing() {
    let job = family();
    assert!(!job.left().is_empty(), "there is something to be left");
    job.signal(Signal::KILL);
    let err = job.await_nothing_left();
    assert!(err.contains("the launcher was killed; its ranks are ended too"), "{err}");
}

#[test]
fn a_killed_process_group_of_the_launcher_leaves_nothing() {
    let script = FAMILY;
    let setup = Setup::new(&["-n", "2", "--grace", "0.5", "--", "sh", "-c", script]);
    let job = setup.with(|command| _ = command.process_group(0)).start();
    job.await_files(&["ready.0", "ready.1"]);
    kill_process_group(job.pid(), Signal::KILL).unwrap();
    job.await_nothing_left();
}

#[test]
fn a_launcher_killed_while_it_starts_leaves_nothing() {
    for delay in 0..40 {
        let job = shell(&["-n", "20", "--grace", "0.2"], "setsid sleep 100 & exec sleep 100");
        std::thread::sleep(Duration::from_micros(500 * delay));
        job.signal(Signal::KILL);
        job.await_nothing_left();
    }
}

#[test]
fn a_killed_guardian_ends_the_job() {
    let job = family();
    kill_process(job.guardian(), Signal::KILL).unwrap();
    let done = job.finish();
    done.expect_code(125).expect_err("the process that holds the ranks ended (signal: 9");
}

#[test]
fn launcher_and_guardian_killed_together_take_the_ranks_along() {
    let job = shell(&["-n", "3"], "touch $D/ready.$LYCAON_RANK; exec sleep 100");
    job.await_files(&["ready.0", "ready.1", "ready.2"]);
    let guardian = job.guardian();
    // why: stopped, neither can act on the other's death.
    job.signal(Signal::STOP);
    kill_process(guardian, Signal::KILL).unwrap();
    job.signal(Signal::KILL);
    let sleeping = |job: &Job| job.left().iter().any(|left| left.contains("sleep"));
    assert!(eventually(DEADLINE, || !sleeping(&job)), "{:?}", job.left());
}

#[test]
fn a_job_within_a_job_ends_with_it() {
    let lycaon = env!("CARGO_BIN_EXE_lycaon");
    let script = format!(
        "exec {lycaon} launch -n 2 --grace 0.5 -- sh -c '{}'",
        r#"
        setsid sh -c "touch \$D/deep.\$LYCAON_RANK; sleep 100" & wait"#
    );
    let job = shell(&["-n", "1", "--grace", "3"], &script);
    job.await_files(&["deep.0", "deep.1"]);
    job.signal(Signal::KILL);
    job.await_nothing_left();
}
