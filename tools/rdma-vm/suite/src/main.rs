//! Runs the RDMA transport over the verbs devices of this machine, and prints a table of what
//! passed over which device, queue pair type and topology.
//!
//! It is meant for the virtual machine of `tools/rdma-vm`: the devices have the names given there,
//! and cables are taken down. Called as `rdma-suite rank …` it is one rank of a row.

mod data;
mod fabric;
mod job;
mod matrix;
mod rows;
mod tasks;

use std::process::ExitCode;
use std::time::Instant;

use rows::{Break, Row};

const USAGE: &str = "usage: rdma-suite [--only TEXT] [--break gid|flush]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "rank") {
        return tasks::main(&arguments[1..]);
    }
    match parse(&arguments) {
        Some((only, broken)) => table(&only, broken),
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(arguments: &[String]) -> Option<(String, Option<Break>)> {
    let (mut only, mut broken) = (String::new(), None);
    for pair in arguments.chunks(2) {
        match pair {
            [flag, value] if flag == "--only" => only.clone_from(value),
            [flag, value] if flag == "--break" && value == "gid" => broken = Some(Break::Gid),
            [flag, value] if flag == "--break" && value == "flush" => broken = Some(Break::Flush),
            _ => return None,
        }
    }
    Some((only, broken))
}

fn line(row: &Row) -> String {
    let Row { devices, qp, topology, ranks, what, .. } = row;
    format!("{devices:<13} {qp:<5}  {topology:<15} {ranks:>5}  {what:<36}")
}

fn table(only: &str, broken: Option<Break>) -> ExitCode {
    let started = Instant::now();
    println!("device        QP     topology        ranks  {:<36}  result", "what");
    let (mut passed, mut failed) = (0, 0);
    for row in rows::all(broken) {
        let named = line(&row);
        if !named.contains(only) {
            continue;
        }
        let began = Instant::now();
        let outcome = (row.run)();
        let seconds = began.elapsed().as_secs_f32();
        match outcome {
            Ok(detail) => {
                passed += 1;
                println!("{named}  ok {seconds:>6.1} s  {detail}");
            }
            Err(reason) => {
                failed += 1;
                println!("{named}  FAIL {seconds:>4.1} s\n      {}", reason.trim_end());
            }
        }
    }
    let seconds = started.elapsed().as_secs();
    println!("{passed} passed, {failed} failed, {seconds} s");
    // A filter that matches nothing must not look like a success.
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
