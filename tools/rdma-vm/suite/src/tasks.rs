//! What a rank process does. It speaks to the driver in lines that begin with `@`.

use std::io::BufRead;
use std::process::ExitCode;

use lycaon::{Config, Group};

use crate::data::{Value, compare, contribution, reduction};
use crate::matrix;
use crate::rows::QP_TYPE;

/// Elements of the operation that the fault rows repeat: several messages on every link.
const LOOP_COUNT: usize = 20_000;

pub(crate) fn main(task: &[String]) -> ExitCode {
    // What the library warns of is shown when the row fails.
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).without_time();
    log.with_max_level(tracing_subscriber::filter::LevelFilter::WARN).init();
    let words: Vec<&str> = task.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["matrix"] => whole_matrix(),
        ["some"] => some(),
        ["repeat", times] => number(times).and_then(repeat),
        ["cycles", times] => number(times).and_then(cycles),
        ["start"] => start().map(|_| say("started")),
        other => Err(format!("no task {other:?}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            say(&format!("failed {reason}"));
            ExitCode::FAILURE
        }
    }
}

fn say(word: &str) {
    println!("@{word}");
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a number"))
}

/// The kind of the error first, so that the driver can tell without reading prose.
fn told(error: lycaon::Error) -> String {
    format!("{}: {error}", error.kind())
}

fn start() -> Result<Group, String> {
    let group = lycaon::init().map_err(told)?;
    check_links(&group)?;
    Ok(group)
}

/// As [`start`], with another value of one variable.
fn start_with(name: &str, value: &str) -> Result<Group, String> {
    let lookup = |wanted: &str| match wanted {
        _ if wanted == name => Some(value.to_owned()),
        _ => std::env::var(wanted).ok(),
    };
    let config = Config::from_vars(lookup).map_err(|error| error.to_string())?;
    let group = lycaon::init_with(&config).map_err(told)?;
    check_links(&group)?;
    Ok(group)
}

/// Pairs with cables use all of them, all others use none.
fn check_links(group: &Group) -> Result<(), String> {
    let text = std::env::var("SUITE_EXPECTED").map_err(|error| error.to_string())?;
    let expected: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let texts = |value: &serde_json::Value| -> Vec<String> {
        let list = value.as_array().map_or(&[][..], Vec::as_slice);
        list.iter().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
    };
    let (cables, parts) = (texts(&expected["cables"][group.rank()]), texts(&expected["parts"]));
    for link in group.links() {
        let (peer, kind, detail) = (link.peer, link.kind.name(), &link.detail);
        let own: Vec<&str> =
            cables.iter().filter_map(|cable| cable.strip_prefix(&format!("{peer}:"))).collect();
        let wrong = |what: &str| format!("the link to rank {peer} is {kind} ({detail}), {what}");
        if own.is_empty() {
            if kind == "rdma" {
                return Err(wrong("but there is no cable"));
            }
            continue;
        }
        if kind != "rdma" {
            return Err(wrong("but there is a cable"));
        }
        // rxe_c0a to rxe_c0b (RC, MTU 4096, GID fe80::1), rxe_c1a to …
        let found: Vec<&str> = detail.split("), ").collect();
        if found.len() != own.len() {
            return Err(wrong(&format!("expected {} cables", own.len())));
        }
        for cable in own {
            let Some(this) = found.iter().find(|found| found.starts_with(&format!("{cable} (")))
            else {
                return Err(wrong(&format!("\"{cable}\" is missing")));
            };
            if let Some(part) = parts.iter().find(|part| !this.contains(part.as_str())) {
                return Err(wrong(&format!("expected \"{part}\" of each cable")));
            }
        }
    }
    Ok(())
}

fn whole_matrix() -> Result<(), String> {
    let group = start()?;
    for link in group.links() {
        println!("link to rank {}: {} {}", link.peer, link.kind.name(), link.detail);
    }
    say("running");
    let done = matrix::run(&group)?;
    group.barrier().map_err(told)?;
    say(&format!("done {done}"));
    Ok(())
}

/// A few operations, where it is the start that matters.
fn some() -> Result<(), String> {
    let group = start()?;
    let done = matrix::run_some(&group)?;
    group.barrier().map_err(told)?;
    say(&format!("done {done}"));
    Ok(())
}

/// One operation over and over, for the driver to disturb.
fn repeat(times: usize) -> Result<(), String> {
    let group = start()?;
    for round in 0..times {
        let mut data = contribution::<u32>(group.rank(), LOOP_COUNT, round);
        group.all_reduce(&mut data, u32::OP).map_err(told)?;
        let want = reduction::<u32>(0..group.size(), LOOP_COUNT, round);
        compare(&format!("round {round}"), &data, &want)?;
        if round == 5 {
            say("running");
        }
    }
    say("done");
    Ok(())
}

/// Groups that come and go in one process. Before the last and after a tenth of them the driver
/// looks at what is in use.
fn cycles(times: usize) -> Result<(), String> {
    for cycle in 1..=times {
        let kind = if cycle % 2 == 0 { "rc" } else { "uc" };
        let group = start_with(QP_TYPE, kind)?;
        let mut data = contribution::<u32>(group.rank(), 1000, cycle);
        group.all_reduce(&mut data, u32::OP).map_err(told)?;
        let want = reduction::<u32>(0..group.size(), 1000, cycle);
        compare(&format!("cycle {cycle}"), &data, &want)?;
        if cycle % (times / 10) == 0 {
            say("tenth");
        }
        if cycle == times / 10 || cycle == times {
            say(&format!("in-use {}", footprint()?));
            wait_for("go")?;
        }
        group.barrier().map_err(told)?;
        group.close();
    }
    say("done");
    Ok(())
}

fn wait_for(word: &str) -> Result<(), String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
    if line.trim() == word { Ok(()) } else { Err(format!("heard \"{}\"", line.trim())) }
}

/// Open files, threads, and the pages of memory in use.
fn footprint() -> Result<String, String> {
    let count = |folder: &str| {
        std::fs::read_dir(folder).map(Iterator::count).map_err(|error| format!("{folder}: {error}"))
    };
    let memory = std::fs::read_to_string("/proc/self/statm").map_err(|error| error.to_string())?;
    let resident = memory.split_whitespace().nth(1).unwrap_or("0");
    Ok(format!("{} {} {resident}", count("/proc/self/fd")?, count("/proc/self/task")?))
}
