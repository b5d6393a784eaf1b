//! The programs in `tests/c`, compiled as C11 and as C++17 by the compilers that are there (a C and
//! a C++ compiler have to be), against the shared library.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// However long a program may take; it is ended then.
const LIMIT: Duration = Duration::from_secs(120);

/// A folder with the library under the names that linkers and loaders look for.
struct Built {
    folder: tempfile::TempDir,
}

/// One way to compile.
#[derive(Clone, Copy, Debug)]
struct Compiler {
    program: &'static str,
    language: &'static [&'static str],
}

const COMPILERS: &[Compiler] = &[
    Compiler { program: "gcc", language: &["-std=c11", "-x", "c"] },
    Compiler { program: "clang", language: &["-std=c11", "-x", "c"] },
    Compiler { program: "g++", language: &["-std=c++17", "-x", "c++"] },
    Compiler { program: "clang++", language: &["-std=c++17", "-x", "c++"] },
];

/// Those that are installed: `make test` installs clang, and gcc has to be there.
fn compilers() -> Vec<Compiler> {
    let there = |compiler: &&Compiler| {
        let asked = Command::new(compiler.program).arg("--version").output();
        asked.is_ok_and(|answer| answer.status.success())
    };
    let found: Vec<Compiler> = COMPILERS.iter().filter(there).copied().collect();
    for needed in ["gcc", "g++"] {
        assert!(
            found.iter().any(|compiler| compiler.program == needed),
            "{needed} is missing: install build-essential"
        );
    }
    found
}

fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let folder = test.parent().expect("it is in a folder");
    let file =
        folder.join(if cfg!(target_os = "macos") { "liblycaon_c.dylib" } else { "liblycaon_c.so" });
    assert!(file.exists(), "{} is missing: cargo builds it with this test", file.display());
    file
}

impl Built {
    fn new() -> Built {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["liblycaon.so", "liblycaon.so.1"] {
            std::os::unix::fs::symlink(library(), folder.path().join(name)).expect("a link");
        }
        Built { folder }
    }

    /// Compiles a program of `tests/c`.
    fn compile(&self, compiler: Compiler, source: &str) -> PathBuf {
        self.compile_with(compiler, source, &[])
    }

    fn compile_with(&self, compiler: Compiler, source: &str, more: &[&str]) -> PathBuf {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
        self.compile_file(compiler, &tests.join(format!("{source}.c")), source, more)
    }

    fn compile_file(
        &self,
        compiler: Compiler,
        file: &Path,
        source: &str,
        more: &[&str],
    ) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = self.folder.path().join(format!("{source}-{}", compiler.program));
        let done = Command::new(compiler.program)
            .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
            .args(compiler.language)
            .args(more)
            .arg(file)
            .args(["-x", "none", "-I"])
            .arg(root.join("include"))
            .arg("-L")
            .arg(self.folder.path())
            .args(["-llycaon", "-ldl", "-o"])
            .arg(&program)
            .output()
            .expect("the compiler starts");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{compiler:?} {source}: {said}");
        program
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LYCAON_") {
                command.env_remove(name);
            }
        }
        command.env("LD_LIBRARY_PATH", self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The ranks of a group of processes.
    fn ranks(&self, program: &Path, size: usize, what: &str, links: &str) -> Vec<Process> {
        let meeting = self.folder.path().join(format!("meet-{what}-{links}-{size}"));
        (0..size)
            .map(|rank| {
                let mut command = self.command(program);
                command
                    .arg(what)
                    .env("LYCAON_RANK", rank.to_string())
                    .env("LYCAON_SIZE", size.to_string())
                    .env("LYCAON_LINKS", links)
                    .env("LYCAON_RENDEZVOUS", format!("file:{}", meeting.display()));
                Process(Some(command.spawn().expect("the program starts")))
            })
            .collect()
    }
}

/// A process that does not outlive the test.
struct Process(Option<Child>);

impl Process {
    fn finish(mut self) -> Output {
        let mut child = self.0.take().expect("it is finished once");
        let start = Instant::now();
        while child.try_wait().expect("a child").is_none() {
            if start.elapsed() > LIMIT {
                child.kill().expect("it is ours");
                let output = child.wait_with_output().expect("it has ended");
                panic!("it did not end within {LIMIT:?}: {output:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait_with_output().expect("it has ended")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn expect(output: &Output, text: &str) {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(text), "{:?}\n{out}\n{err}", output.status);
    assert_eq!(err, "");
}

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
        let program = built.compile_file(compiler, &file, "example", &[]);
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
        std::thread::sleep(Duration::from_millis(500));
        drop(ranks.remove(1));
        for process in ranks {
            let output = process.finish();
            expect(&output, "rank_died dead_rank=1 ");
        }
    }
}

#[test]
fn sanitizers_find_nothing() {
    let built = Built::new();
    let compiler = compilers()[0];
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    for (source, argument) in [("errors", ""), ("threads", "3")] {
        let program = built.compile_with(compiler, source, &flags);
        let mut command = built.command(&program);
        command.arg(argument);
        let process = Process(Some(command.spawn().expect("it starts")));
        expect(&process.finish(), &format!("{source}: ok"));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn valgrind_finds_nothing() {
    let built = Built::new();
    for (source, argument) in [("errors", ""), ("threads", "3")] {
        let program = built.compile(compilers()[0], source);
        let mut command = built.command(Path::new("valgrind"));
        command
            .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
            .arg("--show-leak-kinds=definite,indirect,possible")
            .arg(&program)
            .arg(argument);
        let process = Process(Some(command.spawn().expect("valgrind is there: make c-tools")));
        expect(&process.finish(), &format!("{source}: ok"));
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
