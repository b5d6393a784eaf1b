//! The programs in `tests/cpp`, compiled as C++17 and C++20 against the headers and the library.

mod common;

use std::path::Path;

use common::{Built, Process, cpp_compilers, cpp_crossed, expect, launcher};

const HEADERS: &[&str] = &[
    "lycaon/config.hpp",
    "lycaon/error.hpp",
    "lycaon/group.hpp",
    "lycaon/kinds.hpp",
    "lycaon/lycaon.hpp",
    "lycaon/raise.hpp",
    "lycaon/trace.hpp",
    "lycaon/types.hpp",
    "lycaon/work.hpp",
];

#[test]
fn each_header_alone_and_twice() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/lycaon");
    let there = std::fs::read_dir(folder).expect("the headers").filter(|entry| {
        let path = entry.as_ref().expect("an entry").path();
        path.extension().is_some_and(|extension| extension == "hpp")
    });
    assert_eq!(there.count(), HEADERS.len(), "this list has all headers");
    let built = Built::new();
    let understand = |compiler, header: &str| {
        let define = format!("-DHEADER=<{header}>");
        built.understand(compiler, "cpp/headers.cpp", &[&define, "-Wconversion", "-Wshadow"]);
    };
    for header in HEADERS {
        understand(cpp_compilers()[0], header);
    }
    for compiler in cpp_compilers().into_iter().skip(1).chain(cpp_crossed()) {
        understand(compiler, "lycaon/lycaon.hpp");
    }
}

// The programs are large for a compiler: each is compiled once, and then run in all ways.

#[test]
fn every_operation_of_every_type() {
    let built = Built::new();
    let mut programs = Vec::new();
    for compiler in cpp_compilers() {
        let program = built.compile_file(compiler, "cpp/operations.cpp", &["-O0", "-g0"]);
        built.run(&program, &["threads", "4"], "operations: ok");
        programs.push(program);
    }
    let program = &programs[0];
    for (size, links) in [(1, "shm,tcp"), (2, "tcp"), (3, "shm")] {
        let ranks = built.ranks(program, size, "environment", links);
        for (rank, process) in ranks.into_iter().enumerate() {
            expect(&process.finish(), &format!("rank {rank} of {size}: ok"));
        }
    }
    let c = built.compile(common::compilers()[0], "rank");
    let launcher = launcher();
    for (program, argument, size) in [(program, "environment", 2), (&c, "all", 4)] {
        let mut command = built.command(&launcher);
        command.args(["launch", "-n", &size.to_string(), "--"]).arg(program).arg(argument);
        let output = Process(Some(command.spawn().expect("it starts"))).finish();
        for rank in 0..size {
            expect(&output, &format!("rank {rank} of {size}: ok"));
        }
    }
}

#[test]
fn errors_are_exceptions_with_their_fields() {
    let built = Built::new();
    for compiler in cpp_crossed() {
        let program = built.compile_file(compiler, "cpp/errors.cpp", &["-O0", "-g0"]);
        built.run(&program, &[], "errors: ok");
    }
}

/// What goes wrong between processes, of which the ranks print the same.
const FAULTS: [(&str, &str); 4] = [
    ("late", "late: ok"),
    ("mismatch", "mismatch: ok"),
    ("wrong", "wrong: ok"),
    ("leaves", "leaves: ok"),
];

#[test]
fn faults_between_processes_are_exceptions_on_every_rank() {
    let built = Built::new();
    let program = built.compile_file(cpp_crossed()[0], "cpp/rank.cpp", &["-O0", "-g0"]);
    for (size, links) in [(3, "shm"), (2, "tcp")] {
        let mut ranks = built.ranks(&program, size, "killed", links);
        built.await_ready(1, size, "killed", links);
        drop(ranks.remove(1));
        for process in ranks {
            expect(&process.finish(), "rank 1 is dead\nkilled: ok");
        }
        for (what, text) in FAULTS {
            for process in built.ranks(&program, size, what, links) {
                expect(&process.finish(), text);
            }
        }
    }
}

#[test]
fn the_example_of_the_documentation_runs() {
    let text = include_str!("../../docs/c-abi.md");
    let (_, after) = text.split_once("```cpp\n").expect("an example");
    let (example, _) = after.split_once("```").expect("it ends");
    let built = Built::new();
    let file = built.folder.path().join("example.cpp");
    std::fs::write(&file, example).expect("it can be written");
    for compiler in cpp_crossed() {
        let program = built.compile_file(compiler, &file, &["-O0", "-g0"]);
        let mut ranks = built.ranks(&program, 2, compiler.program, "tcp").into_iter();
        // Rank 1 adds 1, rank 0 nothing.
        expect(&ranks.next().expect("rank 0").finish(), "1 of 2 ranks");
        expect(&ranks.next().expect("rank 1").finish(), "");
    }
}

#[test]
fn half_types_convert_exactly() {
    let built = Built::new();
    for compiler in cpp_compilers() {
        let program = built.compile_file(compiler, "cpp/types.cpp", &["-O2"]);
        built.run(&program, &[], "types: ok");
    }
}

#[test]
fn sanitizers_find_nothing() {
    let built = Built::new();
    let flags =
        ["-O0", "-g1", "-DFEW", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let compiler = cpp_compilers()[0];
    let program = built.compile_file(compiler, "cpp/operations.cpp", &flags);
    built.run(&program, &["threads", "2"], "operations: ok");
    for (source, text) in [("cpp/errors.cpp", "errors: ok"), ("cpp/types.cpp", "types: ok")] {
        let program = built.compile_file(compiler, source, &flags);
        built.run(&program, &[], text);
    }
    let program = built.compile_file(compiler, "cpp/rank.cpp", &flags);
    for (what, text) in FAULTS {
        for process in built.ranks(&program, 2, what, "shm") {
            expect(&process.finish(), text);
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn valgrind_finds_nothing() {
    let built = Built::new();
    // valgrind does not read the debugging information of every clang.
    let compiler = cpp_compilers()[0];
    let flags = ["-O1", "-g1", "-DFEW"];
    let program = built.compile_file(compiler, "cpp/operations.cpp", &flags);
    built.run_watched(&program, &["threads", "2"], "operations: ok");
    for (source, text) in [("cpp/errors.cpp", "errors: ok"), ("cpp/types.cpp", "types: ok")] {
        let program = built.compile_file(compiler, source, &flags);
        built.run_watched(&program, &[], text);
    }
    let program = built.compile_file(compiler, "cpp/rank.cpp", &flags);
    for (what, text) in FAULTS {
        for process in built.ranks_watched(&program, 2, what) {
            expect(&process.finish(), text);
        }
    }
}
