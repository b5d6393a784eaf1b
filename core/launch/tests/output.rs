//! Output of many ranks at once, to pipes and to a terminal.

mod support;

use std::collections::HashMap;
use support::{Setup, shell};

fn python(args: &[&str], script: &str) -> support::Done {
    Setup::new(&[args, &["--", "python3", "-c", script]].concat()).start().finish()
}

#[test]
fn lines_of_chatty_ranks_stay_whole() {
    // Lines of 0 to 5000 bytes, written in pieces that end anywhere.
    let script = r#"
import os, random
rank = int(os.environ["LYCAON_RANK"])
random.seed(rank)
text = b"".join(
    b"%d:%d:" % (rank, i) + bytes([97 + (rank + i) % 26]) * random.choice([0, 3, 40, 5000]) + b"\n"
    for i in range(2000))
while text:
    n = random.randint(1, 20000)
    os.write(1, text[:n]); text = text[n:]
"#;
    let done = python(&["-n", "8"], script);
    done.expect_code(0);
    let mut next = HashMap::new();
    for line in done.text().lines() {
        let (tag, rest) = line.split_once("] ").expect("a tag");
        let mut parts = rest.splitn(3, ':');
        let rank: usize = parts.next().unwrap().parse().expect(line);
        let number: usize = parts.next().unwrap().parse().expect(line);
        let body = parts.next().unwrap();
        assert_eq!(tag, format!("[{rank}"), "the tag is the writer's");
        let expected = next.entry(rank).or_insert(0);
        assert_eq!(number, *expected, "lines of rank {rank} are in order");
        *expected += 1;
        let letter = char::from(97 + ((rank + number) % 26) as u8);
        assert!([0, 3, 40, 5000].contains(&body.len()) && body.chars().all(|c| c == letter));
    }
    assert_eq!(next.len(), 8);
    assert!(next.values().all(|&count| count == 2000));
}

#[test]
fn long_and_binary_lines_pass_byte_for_byte() {
    let script = r#"
import os
rank = int(os.environ["LYCAON_RANK"])
line = bytes(b for b in range(256) if b != 10) * 4000 + b"%d" % rank
out = os.fdopen(1, "wb")
for _ in range(3):
    out.write(line + b"\n")
"#;
    let done = python(&["-n", "8", "--no-tag-output"], script);
    done.expect_code(0);
    let bytes: Vec<u8> = (0..=255).filter(|&byte| byte != b'\n').collect();
    let mut counts = [0; 8];
    for line in done.out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let (last, body) = line.split_last().unwrap();
        counts[usize::from(last - b'0')] += 1;
        assert_eq!(body.len(), 255 * 4000);
        assert!(body.chunks(255).all(|chunk| chunk == bytes));
    }
    assert_eq!(counts, [3; 8]);
}

#[test]
fn a_single_rank_is_not_touched() {
    let script = r"printf 'a\r\n\377\376\000no end'; printf 'error' >&2";
    let done = shell(&["-n", "1"], script).finish();
    assert_eq!(done.out, b"a\r\n\xff\xfe\0no end");
    assert_eq!(done.err, "error");
    let done = shell(&["-n", "1", "--tag-output"], "printf x").finish();
    assert_eq!(done.text(), "[0] x\n");
}

#[test]
fn output_and_error_stay_apart() {
    let done = shell(&["-n", "2"], "echo out; echo err >&2; printf half >&2").finish();
    assert_eq!(done.sorted_lines(), ["[0] out", "[1] out"]);
    let mut err: Vec<_> = done.err.lines().collect();
    err.sort_unstable();
    assert_eq!(err, ["[0] err", "[0] half", "[1] err", "[1] half"]);
}

#[test]
fn an_unfinished_long_line_does_not_block_another_rank() {
    let script = r#"
        if [ $LYCAON_RANK = 0 ]; then
            head -c 100000 /dev/zero | tr '\0' x; touch $D/begun
            while [ ! -e $D/done ]; do sleep 0.02; done; echo end
        else
            while [ ! -e $D/begun ]; do sleep 0.02; done
            head -c 300000 /dev/zero | tr '\0' '\n'; echo through; touch $D/done
        fi"#;
    let done = shell(&["-n", "2"], script).finish();
    done.expect_code(0);
    let text = done.text();
    assert!(text.contains("\n[1] through\n") && text.contains("\n[0]+ end\n"));
    assert_eq!(text.matches('x').count(), 100_000);
}

#[test]
fn python_shows_its_lines_at_once() {
    let script = r#"
import os, time
print("early")
while not os.path.exists(os.environ["D"] + "/go"): time.sleep(0.02)
"#;
    let job = Setup::new(&["-n", "2", "--", "python3", "-c", script]).start();
    let shown = || job.out_so_far().matches("early\n").count() == 2;
    assert!(support::eventually(support::DEADLINE, shown));
    std::fs::write(job.dir().join("go"), "").unwrap();
    job.finish().expect_code(0);
}

#[test]
fn a_reader_that_goes_away_is_told_to_the_ranks() {
    let setup = Setup::new(&["-n", "2", "--grace", "0.2", "--", "yes", "go on"]);
    let dir = setup.dir();
    // why: the shell keeps the code of the launcher, while head keeps the pipe.
    let setup = setup.with(|command| {
        let words: Vec<_> = command.get_args().map(|word| word.to_owned()).collect();
        let mut piped = std::process::Command::new("sh");
        let script = r#"{ env "$@"; echo $? > $D/code; } | head -n 5"#;
        piped.args(["-c", script, "sh"]).args(words);
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                piped.env(key, value);
            }
        }
        piped.stdin(std::process::Stdio::null());
        piped.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        *command = piped;
    });
    let job = setup.start();
    let code = || std::fs::read_to_string(dir.join("code")).unwrap_or_default();
    assert!(support::eventually(support::DEADLINE, || code().ends_with('\n')));
    assert_eq!(code(), "141\n", "{}", job.err_so_far());
    let done = job.finish();
    assert_eq!(done.text().lines().count(), 5);
    done.expect_err("killed by SIGPIPE");
}

#[test]
fn a_stuck_reader_keeps_neither_failures_nor_signals_away() {
    // The output of this job is a pipe that nobody reads.
    let (reader, writer) = std::io::pipe().unwrap();
    let script = "[ $LYCAON_RANK = 0 ] && exec yes; touch $D/ready; exec sleep 100";
    let setup = Setup::new(&["-n", "2", "--", "sh", "-c", script]);
    let job = setup.with(|command| _ = command.stdout(writer)).start();
    job.await_files(&["ready"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    for _ in 0..3 {
        job.signal(rustix::process::Signal::INT);
        std::thread::sleep(std::time::Duration::from_millis(100));
        if job.left().is_empty() {
            break;
        }
    }
    job.finish().expect_code(130);
    drop(reader);
}

#[test]
fn output_waits_for_a_slow_reader_after_the_ranks_have_ended() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let script = "head -c 3000000 /dev/zero | tr '\\0' '\\n'; touch $D/done.$LYCAON_RANK";
    let setup = Setup::new(&["-n", "2", "--no-tag-output", "--", "sh", "-c", script]);
    let job = setup.with(|command| _ = command.stdout(writer)).start();
    let reading = std::thread::spawn(move || {
        let (mut total, mut piece) = (0, vec![0; 100_000]);
        let mut pauses = 0;
        while let Ok(got @ 1..) = std::io::Read::read(&mut reader, &mut piece) {
            total += got;
            if total > pauses * 1_000_000 {
                pauses += 1;
                std::thread::sleep(std::time::Duration::from_millis(700));
            }
        }
        total
    });
    job.finish().expect_code(0);
    assert_eq!(reading.join().unwrap(), 6_000_000);
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_gets_colours_and_prompts() {
    // Python's pty module makes the terminal.
    let lycaon = env!("CARGO_BIN_EXE_lycaon");
    let script = r#"
import os, pty, sys
seen = b""
def read(fd):
    global seen
    data = os.read(fd, 1024)
    seen += data
    if b"name? " in seen and b"typed" not in seen:
        os.write(fd, b"typed\n")
    return data
os.environ["TERM"] = "xterm"; os.environ.pop("NO_COLOR", None)
code = pty.spawn(sys.argv[1:], read)
sys.exit(os.waitstatus_to_exitcode(code))
"#;
    let ranks = r#"[ $LYCAON_RANK = 0 ] || exit 0; printf 'name? '; read x; echo "hello $x""#;
    let setup = Setup::new(&[]).with(|command| {
        let mut python = std::process::Command::new("python3");
        python.args(["-c", script, lycaon, "launch", "-n", "2", "--", "sh", "-c", ranks]);
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                python.env(key, value);
            }
        }
        python.stdin(std::process::Stdio::null());
        python.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        *command = python;
    });
    let done = setup.start().finish();
    done.expect_code(0);
    let text = done.text().replace('\r', "");
    assert!(text.contains("\x1b[36m[0]\x1b[0m name? "), "{text:?}");
    assert!(text.contains("hello typed\n"), "{text:?}");
}
