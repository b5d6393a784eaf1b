//! `lycaon bench`: what it prints and writes, and that it notices wrong data.

mod support;

use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Done, Setup};

const OPERATIONS: [&str; 11] = [
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
    "scan",
    "send_recv",
    "barrier",
];

/// As little as can be measured.
const QUICK: [&str; 4] = ["--seconds", "0.002", "-w", "1"];

fn bench(args: &[&str]) -> Done {
    Setup::of("bench", &[args, &QUICK].concat()).start().finish()
}

/// The lines that hold data, cut into columns.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let data = text.lines().filter(|line| !line.starts_with('#'));
    data.map(|line| line.split_whitespace().collect()).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn close(text: &str, value: &Value) -> bool {
    let (is, should): (f64, f64) = (text.parse().unwrap(), value.as_f64().unwrap());
    (is - should).abs() <= 0.006 + should * 0.01
}

#[test]
fn the_table_has_the_columns_of_nccl_tests() {
    let done = bench(&["-n", "2", "-b", "8", "-e", "8K", "-f", "32"]);
    done.expect_code(0);
    assert_eq!(done.err, "");
    let text = done.text();
    let rows = rows(&text);
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["8", "256", "8192"]);
    for row in &rows {
        assert_eq!(row.len(), 13, "{text}");
        let size: u64 = row[0].parse().unwrap();
        assert_eq!(row[1].parse::<u64>().unwrap() * 4, size);
        assert_eq!(row[2..5], ["f32", "sum", "-1"]);
        for half in [&row[5..9], &row[9..13]] {
            let number = |at: usize| half[at].parse::<f64>().unwrap();
            assert!(number(0) > 0.0, "{text}");
            let bandwidth = size as f64 / number(0) / 1e3;
            // Both are rounded to two places.
            let rounding = 0.006 + bandwidth * 0.006 / number(0);
            assert!((number(1) - bandwidth).abs() <= rounding, "{text}");
            assert!((number(2) - number(1)).abs() < 0.011, "two ranks: the factor is 1: {text}");
            assert_eq!(half[3], "0", "{text}");
        }
    }
    for part in [
        "# lycaon ",
        "2 ranks on 1 host",
        "links: shm x 1",
        "# algorithm: ",
        "size         count       type   redop    root",
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn all_operations_are_measured_and_right() {
    let setup = Setup::of(
        "bench",
        &[
            &["all", "-n", "3", "--sizes", "12,3K", "-r", "1", "-c", "2", "-J", "out.json"][..],
            &QUICK,
        ]
        .concat(),
    );
    let dir = setup.dir();
    let job = setup
        .with(|command| {
            command.current_dir(&dir);
        })
        .start();
    let path = job.dir().join("out.json");
    // why: the folder goes with the job.
    let (mut written, mut text) = (None, String::new());
    assert!(support::eventually(support::DEADLINE, || {
        text = std::fs::read_to_string(&path).unwrap_or_default();
        written = serde_json::from_str::<Value>(&text).ok();
        written.is_some()
    }));
    let done = job.finish();
    done.expect_code(0);
    let report = written.unwrap();
    assert_eq!(report["ranks"], 3);
    assert_eq!(report["hosts"].as_array().unwrap().len(), 3);
    assert_eq!(report["links"][0][1], 3);
    assert_eq!(report["out_of_bounds"]["okay"], true);
    let results = report["results"].as_array().unwrap();
    let table = done.text();
    let rows = rows(&table);
    assert_eq!(rows.len(), results.len());
    let mut measured = Vec::new();
    for (row, result) in rows.iter().zip(results) {
        let name = result["operation"].as_str().unwrap();
        if measured.last() != Some(&name) {
            measured.push(name);
        }
        let in_blocks = ["all_gather", "reduce_scatter", "gather", "scatter", "all_to_all"];
        let blocks = if in_blocks.contains(&name) { 3 } else { 1 };
        let count = result["count"].as_u64().unwrap();
        assert_eq!(result["size"].as_u64().unwrap(), count * 4 * blocks, "{name}");
        assert_eq!((row[0].parse(), row[1].parse()), (Ok(count * 4 * blocks), Ok(count)));
        assert_eq!(result["type"], "f32");
        let reduces = ["all_reduce", "reduce_scatter", "reduce", "scan"].contains(&name);
        assert_eq!(result["redop"], if reduces { "sum" } else { "none" }, "{name}");
        let rooted = ["broadcast", "reduce", "gather", "scatter"].contains(&name);
        assert_eq!(result["root"], if rooted { 1 } else { -1 }, "{name}");
        let mut halves = 0;
        for (half, columns) in [("out_of_place", &row[5..9]), ("in_place", &row[9..13])] {
            let half = &result[half];
            if half.is_null() {
                assert_eq!(columns, ["N/A"; 4], "{name}");
                continue;
            }
            halves += 1;
            assert!(close(columns[0], &half["time"]), "{name}: {columns:?} {half}");
            assert!(close(columns[1], &half["alg_bw"]), "{name}: {columns:?} {half}");
            assert!(close(columns[2], &half["bus_bw"]), "{name}: {columns:?} {half}");
            let factor = match name {
                "all_reduce" => 4.0 / 3.0,
                name if in_blocks.contains(&name) => 2.0 / 3.0,
                _ => 1.0,
            };
            let number = |key: &str| half[key].as_f64().unwrap();
            assert!((number("bus_bw") - number("alg_bw") * factor).abs() < 1e-9, "{name}");
            assert!(number("time_min") <= number("time") && number("time") <= number("time_max"));
            if name == "barrier" {
                assert!(half["nwrong"].is_null());
            } else {
                assert_eq!(half["nwrong"], 0, "{name}");
            }
        }
        let single = ["broadcast", "send_recv", "barrier"].contains(&name);
        assert_eq!(halves, if single { 1 } else { 2 }, "{name}");
    }
    assert_eq!(measured, OPERATIONS);
}

#[test]
fn json_can_be_the_only_output() {
    let args = ["all_gather", "-n", "2", "--sizes", "1K", "--iters", "7", "-J", "-"];
    let done = Setup::of("bench", &args).start().finish();
    done.expect_code(0);
    let report = json(&done.text());
    let half = &report["results"][0]["out_of_place"];
    // Five batches of two are the fewest that are at least seven.
    assert_eq!(half["iterations"], 10);
    assert_eq!(half["nwrong"], 0);
}

#[test]
fn wrong_data_is_counted_and_fails() {
    for operation in OPERATIONS.into_iter().filter(|name| *name != "barrier") {
        // Where only the root has a result, that is the one to spoil.
        let args = [operation, "-n", "2", "--sizes", "4K", "-r", "1", "--corrupt", "1"];
        let done = bench(&args);
        done.expect_code(1);
        let text = done.text();
        assert!(text.contains(" FAILED"), "{operation}: {text}");
        let wrong = |at: usize| rows(&text)[0][at].to_owned();
        let found = [wrong(8), wrong(12)];
        assert!(found.contains(&"1".to_owned()), "{operation}: {text}");
    }
}

#[test]
fn nothing_is_said_about_data_that_was_not_checked() {
    let args = ["-n", "2", "--sizes", "64", "-c", "0", "--corrupt", "0", "-J", "-"];
    let done = bench(&args);
    done.expect_code(0);
    let report = json(&done.text());
    assert_eq!(report["checked"], false);
    assert!(report["results"][0]["in_place"]["nwrong"].is_null());
    let done = bench(&args[..args.len() - 2]);
    done.expect_code(0);
    assert!(done.text().contains("NOT CHECKED"), "{}", done.text());
}

#[test]
fn types_operators_links_and_algorithms_can_be_chosen() {
    let args = ["-n", "3", "--sizes", "3000", "-d", "half", "-o", "max", "--links", "tcp"];
    let done = bench(&[&args[..], &["--algorithm", "ring", "--pin"]].concat());
    done.expect_code(0);
    let text = done.text();
    assert!(text.contains("links: tcp x 3; one core for each rank"), "{text}");
    assert!(text.contains("# algorithm: ring from 3000"), "{text}");
    assert_eq!(rows(&text)[0][..5], ["3000", "1500", "f16", "max", "-1"]);
    for (dtype, op) in [("i8", "prod"), ("bf16", "avg"), ("u64", "band"), ("complex64", "sum")] {
        let done = bench(&["-n", "2", "--sizes", "20K", "-d", dtype, "-o", op]);
        done.expect_code(0);
    }
}

#[test]
fn a_group_of_one_is_measured_too() {
    let done = bench(&["all", "-n", "1", "--sizes", "64"]);
    done.expect_code(0);
    let text = done.text();
    assert_eq!(rows(&text).len(), OPERATIONS.len() - 1, "nobody to send to: {text}");
    assert!(text.contains("1 rank on 1 host") && text.contains("links: none"), "{text}");
}

#[test]
fn under_a_launcher_it_is_a_rank() {
    let program = env!("CARGO_BIN_EXE_lycaon");
    let launch = ["-n", "2", "--no-tag-output", "--", program, "bench", "--sizes", "1K"];
    let done = Setup::new(&[&launch[..], &QUICK].concat()).start().finish();
    done.expect_code(0);
    assert!(done.text().contains("2 ranks on 1 host"), "{}", done.text());
    assert_eq!(rows(&done.text()).len(), 1, "one rank prints: {}", done.text());

    let done = Setup::new(&[&launch[..], &QUICK, &["-n", "3"]].concat()).start().finish();
    done.expect_code(2).expect_err("-n 3, but the launcher started 2 ranks");
}

#[test]
fn under_the_variables_of_torchrun_it_is_a_rank() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rank = |rank: &str| {
        Command::new(env!("CARGO_BIN_EXE_lycaon"))
            .args(["bench", "broadcast", "--sizes", "4K"])
            .args(QUICK)
            .envs([("RANK", rank), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1")])
            .env("MASTER_PORT", port.to_string())
            .envs([("LYCAON_START_TIMEOUT", "20s"), ("LYCAON_TIMEOUT", "20s")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    };
    let ranks = [rank("0"), rank("1")].map(|rank| rank.wait_with_output().unwrap());
    for output in &ranks {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&ranks[0].stdout);
    assert!(text.contains("2 ranks on 1 host"), "{text}");
    assert_eq!(rows(&text).len(), 1, "{text}");
    assert!(ranks[1].stdout.is_empty());
}

#[test]
fn wrong_command_lines_start_nothing() {
    for (args, advice) in [
        (vec!["-n", "2", "-r", "2"], "the ranks are 0 to 1"),
        (vec!["-b", "9", "-e", "8"], "nothing is between"),
        (vec!["-o", "avg", "-d", "i32"], "avg is not defined for i32"),
        (vec!["-n", "1", "send_recv"], "two ranks"),
        (vec!["all_produce"], "all_to_all"),
    ] {
        let done = bench(&args);
        done.expect_code(2).expect_err(advice);
        assert_eq!(done.text(), "");
    }
}
