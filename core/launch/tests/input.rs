//! Who receives the standard input.

mod support;

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;
use support::{DEADLINE, Job, Setup, eventually};

fn piped(args: &[&str], script: &str) -> Job {
    let setup = Setup::new(&[args, &["--", "sh", "-c", script]].concat());
    setup.with(|command| _ = command.stdin(Stdio::piped())).start()
}

#[test]
fn rank_0_receives_the_input_and_the_others_nothing() {
    let mut job = piped(&["-n", "3"], "cat; echo end");
    job.feed(b"one\ntwo\n");
    let done = job.finish();
    done.expect_code(0);
    assert_eq!(done.sorted_lines(), ["[0] end", "[0] one", "[0] two", "[1] end", "[2] end"]);
}

#[test]
fn all_ranks_receive_all_of_it() {
    let mut job = piped(&["-n", "3", "--stdin", "all"], "cksum");
    let data: Vec<u8> = (0..20_000_000_u32).map(|i| (i * 7 / 3) as u8).collect();
    job.feed(&data);
    let done = job.finish();
    done.expect_code(0);
    let sums: Vec<_> = done.sorted_lines().iter().map(|line| line[4..].to_owned()).collect();
    assert_eq!(sums.len(), 3);
    assert!(sums.iter().all(|sum| sum == &sums[0] && sum.ends_with(" 20000000")), "{sums:?}");
}

#[test]
fn nobody_receives_it() {
    let mut job = piped(&["-n", "2", "--stdin", "none"], "cat; echo end");
    let mut stdin = job.stdin();
    let done = job.finish();
    assert_eq!(done.sorted_lines(), ["[0] end", "[1] end"]);
    let _ = stdin.write_all(b"late");
}

#[test]
fn input_flows_while_the_job_runs_and_its_end_is_passed_on() {
    let mut job = piped(&["-n", "2"], "while read line; do echo got $line; done; echo end");
    let mut stdin = job.stdin();
    for word in ["a", "b"] {
        writeln!(stdin, "{word}").unwrap();
        assert!(eventually(DEADLINE, || job.out_so_far().contains(&format!("[0] got {word}\n"))));
    }
    assert!(!job.out_so_far().contains("[0] end"));
    drop(stdin);
    assert!(eventually(DEADLINE, || job.out_so_far().contains("[0] end")));
    job.finish().expect_code(0);
}

#[test]
fn a_slow_rank_does_not_hold_up_the_others() {
    let script = r#"
        if [ $LYCAON_RANK = 0 ]; then
            while [ ! -e $D/go ]; do sleep 0.02; done
        fi
        cksum; touch $D/done.$LYCAON_RANK"#;
    let mut job = piped(&["-n", "3", "--stdin", "all"], script);
    job.feed(&vec![b'x'; 3_000_000]);
    job.await_files(&["done.1", "done.2"]);
    assert!(!job.dir().join("done.0").exists());
    std::fs::write(job.dir().join("go"), "").unwrap();
    let done = job.finish();
    assert!(done.sorted_lines().iter().all(|line| line.ends_with(" 3000000")));
}

#[test]
fn the_launcher_reads_no_further_ahead_than_stated() {
    let mut job = piped(&["-n", "2", "--stdin", "all"], "exec sleep 100");
    let mut stdin = job.stdin();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let piece = [b'x'; 65536];
        while stdin.write_all(&piece).is_ok() && tell.send(piece.len()).is_ok() {}
    });
    let mut sent = 0;
    while let Ok(bytes) = told.recv_timeout(Duration::from_secs(1)) {
        sent += bytes;
    }
    let (low, high) = (4 * 1024 * 1024, 5 * 1024 * 1024);
    assert!((low..high).contains(&sent), "{sent} bytes were taken");
    job.signal(rustix::process::Signal::TERM);
    job.finish().expect_code(143);
}

#[test]
fn ranks_that_end_or_do_not_listen_are_no_obstacle() {
    let script = r#"
        [ $LYCAON_RANK = 0 ] && exit 0
        [ $LYCAON_RANK = 1 ] && { exec <&-; while [ ! -e $D/done ]; do sleep 0.02; done; exit 0; }
        cksum; touch $D/done"#;
    let mut job = piped(&["-n", "3", "--stdin", "all"], script);
    job.feed(&vec![b'x'; 10_000_000]);
    let done = job.finish();
    done.expect_code(0);
    assert_eq!(done.text().matches(" 10000000\n").count(), 1);
}

#[test]
fn an_idle_job_uses_no_processor_time() {
    let mut job =
        piped(&["-n", "4", "--stdin", "all"], "touch $D/ready.$LYCAON_RANK; exec sleep 2");
    let stdin = job.stdin();
    job.await_files(&["ready.0", "ready.1", "ready.2", "ready.3"]);
    let ticks = |pid: rustix::process::Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let (launcher, guardian) = (job.pid(), job.guardian());
    let before = ticks(launcher) + ticks(guardian);
    std::thread::sleep(Duration::from_secs(1));
    let used = ticks(launcher) + ticks(guardian) - before;
    assert!(used <= 1, "{used} hundredths of a second within one second");
    let done = job.finish();
    done.expect_code(0);
    drop(stdin);
}
