//! Programs written for JACCL, against the headers with its names and its environment variables.

mod common;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicU16, Ordering};

use common::{Built, Process, cpp_compilers, cpp_crossed, expect, launcher};

const HEADERS: &[&str] = &[
    "jaccl/group.h",
    "jaccl/jaccl.h",
    "jaccl/types.h",
    "jaccl/detail/environment.hpp",
    "jaccl/detail/linked.hpp",
    "jaccl/detail/start.hpp",
];

/// As JACCL's variables are called by JACCL and by MLX.
const DIALECTS: [[&str; 4]; 2] = [
    ["JACCL_RANK", "JACCL_COORDINATOR", "JACCL_IBV_DEVICES", "JACCL_RING"],
    ["MLX_RANK", "MLX_JACCL_COORDINATOR", "MLX_IBV_DEVICES", "MLX_JACCL_RING"],
];

#[test]
fn each_header_alone_and_twice() {
    let built = Built::new();
    for compiler in cpp_compilers().into_iter().chain(cpp_crossed()) {
        for header in HEADERS {
            let define = format!("-DHEADER=<{header}>");
            let flags = [define.as_str(), "-Wconversion", "-Wshadow"];
            built.understand(compiler, "cpp/headers.cpp", &flags);
        }
    }
}

#[test]
fn every_operation_under_the_launcher() {
    let built = Built::new();
    let launcher = launcher();
    for (compiler, sizes) in cpp_compilers().into_iter().zip([[2, 4], [4, 2]]) {
        let program = built.compile_file(compiler, "jaccl/operations.cpp", &["-O0", "-g0"]);
        for size in sizes {
            let mut command = built.command(&launcher);
            command.args(["launch", "-n", &size.to_string(), "--timeout", "100", "--"]);
            command.arg(&program);
            let output = Process(Some(command.spawn().expect("it starts"))).finish();
            for rank in 0..size {
                expect(&output, &format!("rank {rank} of {size}: ok"));
            }
        }
    }
}

#[test]
fn every_operation_with_jaccls_variables() {
    let built = Built::new();
    for (compiler, dialect) in cpp_crossed().into_iter().zip(DIALECTS) {
        let program = built.compile_file(compiler, "jaccl/operations.cpp", &["-O0", "-g0"]);
        for (size, table, links) in
            [(2, mesh(2), "shm,tcp"), (4, mesh(4), "tcp"), (4, ring(4), "shm,tcp")]
        {
            let file = built.folder.path().join("devices.json");
            std::fs::write(&file, &table).expect("it can be written");
            let job = Job { built: &built, program: &program, dialect, file, size, apart: false };
            let ring = if table == mesh(size) { "0" } else { "1" };
            let outputs = job.run(&[], &[(dialect[3], ring), ("LYCAON_LINKS", links)]);
            for (rank, output) in outputs.iter().enumerate() {
                let (out, err) = said(output);
                assert!(output.status.success(), "rank {rank} of {size}: {out}\n{err}");
                assert_eq!(out, format!("rank {rank} of {size}: ok\n"));
                // Rank 0 says for all which links there are.
                let first = links.split(',').next().expect("one");
                let note = format!("ranks with RDMA devices are joined by {first} 0-1");
                assert_eq!(err.contains(&note), rank == 0, "{err}");
                assert_eq!(err.lines().count(), usize::from(rank == 0), "{err}");
            }
        }
    }
}

#[test]
fn the_note_can_be_kept_back() {
    let built = Built::new();
    let program = built.compile_file(cpp_compilers()[0], "jaccl/start.cpp", &[]);
    let job = Job::of(&built, &program, &mesh(2), 2);
    for (rank, output) in job.run(&[], &[("JACCL_QUIET", "1")]).iter().enumerate() {
        expect(output, &format!("rank {rank} of 2: sum 3"));
    }
}

#[test]
fn hosts_without_rdma_are_joined_by_tcp() {
    let built = Built::new();
    let program = built.compile_file(cpp_compilers()[0], "jaccl/start.cpp", &[]);
    let job = Job { apart: true, ..Job::of(&built, &program, &mesh(2), 2) };
    for (rank, output) in job.run(&["strict"], &[]).iter().enumerate() {
        let (out, err) = said(output);
        assert_eq!(out, format!("rank {rank} of 2: sum 3\n"), "{err}");
        assert_eq!(err.contains("joined by tcp 0-1"), rank == 0, "{err}");
    }
}

#[test]
fn a_start_that_cannot_be_says_why() {
    let built = Built::new();
    let program = built.compile_file(cpp_compilers()[0], "jaccl/start.cpp", &[]);
    let folder = built.folder.path();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.to_str().expect("a path").to_owned()
    };
    let good = write("good.json", &mesh(2));
    let ragged = write("ragged.json", r#"[[null, "a"], ["b"]]"#);
    let broken = write("broken.json", r#"[[null, "a"], ["b", null]"#);
    let one_way =
        write("one-way.json", r#"[[null, "a", null], ["b", null, "c"], ["d", null, null]]"#);
    let absent = folder.join("absent.json").to_str().expect("a path").to_owned();
    let place = "127.0.0.1:12000";
    /// Variables, and what the message has to have.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (&[], &["JACCL_RANK", "lycaon launch"]),
        (&[("JACCL_RANK", "0")], &["JACCL_IBV_DEVICES"]),
        (&[("MLX_RANK", "0")], &["MLX_IBV_DEVICES"]),
        (&[("JACCL_RANK", "0"), ("JACCL_COORDINATOR", place)], &["no table of devices"]),
        (&[("JACCL_RANK", "0"), ("JACCL_IBV_DEVICES", &good)], &["JACCL_COORDINATOR", "ip:port"]),
        (
            &[("JACCL_RANK", "2"), ("JACCL_COORDINATOR", place), ("JACCL_IBV_DEVICES", &good)],
            &["rank 2", "0 to 1"],
        ),
        (
            &[("JACCL_RANK", "one"), ("JACCL_COORDINATOR", place), ("JACCL_IBV_DEVICES", &good)],
            &["JACCL_RANK", "one"],
        ),
        (
            &[("JACCL_RANK", "-1"), ("JACCL_COORDINATOR", place), ("JACCL_IBV_DEVICES", &good)],
            &["JACCL_RANK", "-1"],
        ),
        (
            &[("JACCL_RANK", "0"), ("JACCL_COORDINATOR", place), ("JACCL_IBV_DEVICES", &absent)],
            &["absent.json", "No such file"],
        ),
        (
            &[("JACCL_RANK", "0"), ("JACCL_COORDINATOR", place), ("JACCL_IBV_DEVICES", &ragged)],
            &["ragged.json", "[1]: has 1 cells, but there are 2 rows"],
        ),
        (
            &[("JACCL_RANK", "0"), ("JACCL_COORDINATOR", place), ("JACCL_IBV_DEVICES", &broken)],
            &["broken.json", "not JSON"],
        ),
        (
            &[("JACCL_RANK", "0"), ("JACCL_COORDINATOR", place), ("JACCL_IBV_DEVICES", &one_way)],
            &["no mesh (rank 0 has no device towards rank 2)", "no ring"],
        ),
        (
            &[("JACCL_RANK", "0"), ("JACCL_COORDINATOR", "nowhere"), ("JACCL_IBV_DEVICES", &good)],
            &["nowhere", "host:port"],
        ),
        (
            &[
                ("JACCL_RANK", "0"),
                ("JACCL_COORDINATOR", "192.0.2.1:12000"),
                ("JACCL_IBV_DEVICES", &good),
            ],
            &["LYCAON_TOKEN"],
        ),
        (
            &[
                ("JACCL_RANK", "0"),
                ("JACCL_COORDINATOR", place),
                ("JACCL_IBV_DEVICES", &good),
                ("JACCL_RING", "perhaps"),
            ],
            &["JACCL_RING", "perhaps", "0 or 1"],
        ),
        (
            &[
                ("JACCL_RANK", "1"),
                ("JACCL_COORDINATOR", place),
                ("JACCL_IBV_DEVICES", &good),
                ("LYCAON_START_TIMEOUT", "300ms"),
            ],
            &["127.0.0.1:12000"],
        ),
        (&[("JACCL_STRICT_RDMA", "1"), ("LYCAON_SIZE", "1")], &["JACCL_IBV_DEVICES"]),
    ];
    for (variables, parts) in cases {
        let run = |how: &str| {
            let mut command = built.command(&program);
            command.arg(how).envs(variables.iter().copied());
            Process(Some(command.spawn().expect("it starts"))).finish()
        };
        let (strict, strict_err) = said(&run("strict"));
        assert!(strict.starts_with("thrown: "), "{variables:?}: {strict}{strict_err}");
        assert_eq!(strict_err, "", "{variables:?}");
        // Without strictness there is no group, and the same text is on stderr.
        let (lenient, note) = said(&run("lenient"));
        assert_eq!(lenient, "no group\n", "{variables:?}: {note}");
        for part in *parts {
            assert!(strict.contains(part), "{variables:?}: no {part} in {strict}");
            assert!(note.contains(part), "{variables:?}: no {part} in {note}");
        }
        assert!(note.starts_with("lycaon: no group: "), "{note}");
    }
}

#[test]
fn other_links_can_be_refused() {
    let built = Built::new();
    let program = built.compile_file(cpp_compilers()[0], "jaccl/start.cpp", &[]);
    // In a ring the ranks without a cable may be joined by anything.
    for (table, size) in [(mesh(2), 2), (ring(4), 4)] {
        let job = Job::of(&built, &program, &table, size);
        for output in job.run(&["strict"], &[("JACCL_STRICT_RDMA", "1")]) {
            let (out, err) = said(&output);
            assert!(output.status.success() && err.is_empty(), "{out}\n{err}");
            assert!(out.starts_with("thrown: ") && out.contains("RDMA"), "{out}");
        }
    }
}

#[test]
fn configurations_by_hand() {
    let built = Built::new();
    let file = built.folder.path().join("table.json");
    let run = |program: &Path, watched: bool| {
        let mut command = built.command(if watched { Path::new("valgrind") } else { program });
        if watched {
            command.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
            command.args(["--show-leak-kinds=definite,indirect,possible"]).arg(program);
        }
        command.arg(&file).env("JACCL_QUIET", "1");
        expect(&Process(Some(command.spawn().expect("it starts"))).finish(), "config: ok");
    };
    for compiler in cpp_compilers() {
        run(&built.compile_file(compiler, "jaccl/config.cpp", &["-O0", "-g1"]), false);
    }
    let sanitized = ["-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    run(&built.compile_file(cpp_crossed()[0], "jaccl/config.cpp", &sanitized), false);
    #[cfg(target_os = "linux")]
    run(&built.compile_file(cpp_compilers()[0], "jaccl/config.cpp", &["-O1", "-g1"]), true);
}

/// A group of processes that are started with JACCL's variables.
struct Job<'a> {
    built: &'a Built,
    program: &'a Path,
    dialect: [&'a str; 4],
    file: PathBuf,
    size: usize,
    /// Each rank takes itself for the only one on its host.
    apart: bool,
}

impl<'a> Job<'a> {
    fn of(built: &'a Built, program: &'a Path, table: &str, size: usize) -> Self {
        let file = built.folder.path().join(format!("devices-{size}.json"));
        std::fs::write(&file, table).expect("it can be written");
        Job { built, program, dialect: DIALECTS[0], file, size, apart: false }
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Vec<Output> {
        let place = format!("127.0.0.1:{}", port());
        let [rank_name, place_name, file_name, _] = self.dialect;
        let ranks: Vec<Process> = (0..self.size)
            .map(|rank| {
                let mut command = self.built.command(self.program);
                command
                    .args(arguments)
                    .env(rank_name, rank.to_string())
                    .env(place_name, &place)
                    .env(file_name, &self.file)
                    .envs(variables.iter().copied());
                if self.apart {
                    command.env("LYCAON_HOST_ID", format!("host{rank}"));
                }
                Process(Some(command.spawn().expect("the program starts")))
            })
            .collect();
        ranks.into_iter().map(Process::finish).collect()
    }
}

/// A port that nobody uses, below those that the system gives to others.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = u16::try_from(std::process::id() % 17_000).expect("small");
    (0..1000)
        .map(|_| 12_001 + (process + NEXT.fetch_add(1, Ordering::Relaxed)) % 17_999)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("one of a thousand ports is free")
}

/// A table in which each pair of ranks has a device. No host has one of this name.
fn mesh(size: usize) -> String {
    table(size, |from, to| from != to)
}

/// A table in which only neighbours have one.
fn ring(size: usize) -> String {
    table(size, |from, to| (from + 1) % size == to || (to + 1) % size == from)
}

fn table(size: usize, joined: impl Fn(usize, usize) -> bool) -> String {
    let cell = |from, to| match joined(from, to) {
        true => format!("\"rdma_nowhere{to}\""),
        false => "null".to_owned(),
    };
    let row = |from| (0..size).map(|to| cell(from, to)).collect::<Vec<_>>().join(", ");
    let rows: Vec<String> = (0..size).map(|from| format!("[{}]", row(from))).collect();
    format!("[{}]", rows.join(", "))
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
