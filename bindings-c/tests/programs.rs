//! The programs in `tests/c`, compiled as C11 and as C++17 by the compilers that are there (a C and
//! a C++ compiler have to be), against the shared library.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Built, Process, compilers, expect, library};

#[test]
fn the_header_alone_and_twice() {
    let built = Built::new();
    for compiler in compilers() {
        let program = built.compile(compiler, "headers");
        let process = Process(Some(built.command(&program).spawn().expect("it starts")));
        expect(&process.finish(), "");
    }
}

#[test]
fn every_operation_on_threads() {
    let built = Built::new();
    for compiler in compilers() {
        let program = built.compile(compiler, "threads");
        let process = Process(Some(built.command(&program).spawn().expect("it starts")));
        expect(&process.finish(), "threads: ok");
    }
}

#[test]
fn every_wrong_use_is_an_error() {
    let built = Built::new();
    for compiler in compilers() {
        let program = built.compile(compiler, "errors");
        let process = Process(Some(built.command(&program).spawn().expect("it starts")));
        expect(&process.finish(), "errors: ok");
    }
}

#[test]
fn the_library_can_be_unloaded() {
    let built = Built::new();
    for compiler in compilers() {
        let program = built.compile(compiler, "unload");
        let mut command = built.command(&program);
        command.arg(library());
        let process = Process(Some(command.spawn().expect("it starts")));
        expect(&process.finish(), "unload: ok");
    }
}

#[test]
fn every_operation_on_processes() {
    let built = Built::new();
    let program = built.compile(compilers()[0], "rank");
    for (size, links) in [(1, "shm,tcp"), (2, "shm"), (3, "tcp"), (4, "shm")] {
        let ranks = built.ranks(&program, size, "all", links);
        for (rank, process) in ranks.into_iter().enumerate() {
            expect(&process.finish(), &format!("rank {rank} of {size}: ok"));
        }
    }
}

#[test]
fn the_example_of_the_documentation_runs() {
    let text = include_str!("../../docs/c-abi.md");
    let (_, after) = text.split_once("```c\n").expect("an example");
    let (example, _) = after.split_once("```").expect("it ends");
    let built = Built::new();
    let file = built.folder.path().join("example.c");
    std::fs::write(&file, example).expect("it can be written");
    for compiler in compilers() {
        let program = built.compile_file(compiler, &file, &[]);
        for process in built.ranks(&program, 2, compiler.program, "shm") {
            expect(&process.finish(), "");
        }
    }
}

#[test]
fn a_killed_rank_is_named_in_the_error_of_the_others() {
    let built = Built::new();
    let program = built.compile(compilers()[0], "rank");
    for links in ["shm", "tcp"] {
        let mut ranks = built.ranks(&program, 3, "loop", links);
        built.await_ready(1, 3, "loop", links);
        drop(ranks.remove(1));
        for process in ranks {
            let output = process.finish();
            expect(&output, "rank_died dead_rank=1 ");
        }
    }
}

/// The programs of one process, and what each is given to do under valgrind and with sanitizers.
fn watched(library: &Path) -> [(&'static str, &str); 3] {
    let library = library.to_str().expect("UTF-8");
    [("errors", ""), ("threads", "3"), ("unload", library)]
}

#[test]
fn sanitizers_find_nothing() {
    let built = Built::new();
    let compiler = compilers()[0];
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    for (source, argument) in watched(&library()) {
        let program = built.compile_with(compiler, source, &flags);
        let mut command = built.command(&program);
        command.arg(argument);
        let process = Process(Some(command.spawn().expect("it starts")));
        expect(&process.finish(), &format!("{source}: ok"));
    }
    let program = built.compile_with(compiler, "rank", &flags);
    for (rank, process) in built.ranks(&program, 2, "all", "shm").into_iter().enumerate() {
        expect(&process.finish(), &format!("rank {rank} of 2: ok"));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn valgrind_finds_nothing() {
    let built = Built::new();
    for (source, argument) in watched(&library()) {
        let program = built.compile(compilers()[0], source);
        built.run_watched(&program, &[argument], &format!("{source}: ok"));
    }
    let program = built.compile(compilers()[0], "rank");
    for (rank, process) in built.ranks_watched(&program, 2, "all").into_iter().enumerate() {
        expect(&process.finish(), &format!("rank {rank} of 2: ok"));
    }
}

#[test]
fn only_names_of_this_library_are_exported() {
    let listed = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(library())
        .output()
        .expect("nm is there: install binutils");
    assert!(listed.status.success(), "{listed:?}");
    let text = String::from_utf8(listed.stdout).expect("text");
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    let strange: Vec<&&str> = names.iter().filter(|name| !name.starts_with("lycaon_")).collect();
    assert!(strange.is_empty(), "{strange:?}");
    let header = include_str!("../include/lycaon/lycaon.h");
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
        .filter(|line| !line.starts_with("typedef"))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .collect();
    let mut names: Vec<&str> = names;
    names.sort_unstable();
    declared.sort_unstable();
    assert_eq!(names, declared);
}

#[test]
#[cfg(target_os = "linux")]
fn the_library_knows_its_name() {
    let asked = Command::new("readelf").arg("--dynamic").arg(library()).output();
    let asked = asked.expect("readelf is there: install binutils");
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(text.contains("[liblycaon.so.1]"), "{text}");
}
