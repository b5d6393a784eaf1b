//! Programs in C and C++, compiled by the compilers that are there (a C and a C++ compiler have to be)
//! against the shared library.

// Not every test uses all of it.
#![allow(dead_code, unreachable_pub)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// However long a program may take; it is ended then.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A folder with the library under the names that linkers and loaders look for.
pub struct Built {
    pub folder: tempfile::TempDir,
}

/// One way to compile.
#[derive(Clone, Copy, Debug)]
pub struct Compiler {
    pub program: &'static str,
    pub language: &'static [&'static str],
}

pub const COMPILERS: &[Compiler] = &[
    Compiler { program: "gcc", language: &["-std=c11", "-x", "c"] },
    Compiler { program: "clang", language: &["-std=c11", "-x", "c"] },
    Compiler { program: "g++", language: &["-std=c++17", "-x", "c++"] },
    Compiler { program: "clang++", language: &["-std=c++17", "-x", "c++"] },
];

/// The same for what is C++ only: each compiler, and each version of the language, once.
pub const CPP_COMPILERS: &[Compiler] = &[
    Compiler { program: "g++", language: &["-std=c++17", "-Wpedantic"] },
    Compiler { program: "clang++", language: &["-std=c++20", "-Wpedantic"] },
];

/// The other way round.
pub const CPP_CROSSED: &[Compiler] = &[
    Compiler { program: "g++", language: &["-std=c++20", "-Wpedantic"] },
    Compiler { program: "clang++", language: &["-std=c++17", "-Wpedantic"] },
];

/// Those that are installed: `make test` installs clang, and gcc has to be there.
pub fn compilers() -> Vec<Compiler> {
    installed(COMPILERS, &["gcc", "g++"])
}

/// As [`compilers`], for C++.
pub fn cpp_compilers() -> Vec<Compiler> {
    installed(CPP_COMPILERS, &["g++"])
}

/// As [`cpp_compilers`], each with the other version of the language.
pub fn cpp_crossed() -> Vec<Compiler> {
    installed(CPP_CROSSED, &["g++"])
}

fn installed(compilers: &[Compiler], needed: &[&str]) -> Vec<Compiler> {
    let there = |compiler: &&Compiler| {
        let asked = Command::new(compiler.program).arg("--version").output();
        asked.is_ok_and(|answer| answer.status.success())
    };
    let found: Vec<Compiler> = compilers.iter().filter(there).copied().collect();
    for needed in needed {
        assert!(
            found.iter().any(|compiler| compiler.program == *needed),
            "{needed} is missing: install build-essential"
        );
    }
    found
}

pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let folder = test.parent().expect("it is in a folder");
    let file =
        folder.join(if cfg!(target_os = "macos") { "liblycaon_c.dylib" } else { "liblycaon_c.so" });
    assert!(file.exists(), "{} is missing: cargo builds it with this test", file.display());
    file
}

/// The launcher, built as this test is.
pub fn launcher() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let profile = test.parent().and_then(Path::parent).expect("target/profile/deps");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "lycaon-cli", "--bin", "lycaon", "--target-dir"]);
    cargo.arg(profile.parent().expect("target/profile"));
    cargo.args(["--profile", if profile.ends_with("release") { "release" } else { "test" }]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null());
    assert!(cargo.status().expect("cargo starts").success(), "the launcher is not built");
    profile.join("lycaon")
}

impl Built {
    pub fn new() -> Built {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["liblycaon.so", "liblycaon.so.1"] {
            std::os::unix::fs::symlink(library(), folder.path().join(name)).expect("a link");
        }
        Built { folder }
    }

    /// Compiles a program of `tests/c`.
    pub fn compile(&self, compiler: Compiler, source: &str) -> PathBuf {
        self.compile_with(compiler, source, &[])
    }

    pub fn compile_with(&self, compiler: Compiler, source: &str, more: &[&str]) -> PathBuf {
        self.compile_file(compiler, format!("c/{source}.c"), more)
    }

    /// Compiles a file, of `tests` if its path is relative.
    pub fn compile_file(
        &self,
        compiler: Compiler,
        file: impl AsRef<Path>,
        more: &[&str],
    ) -> PathBuf {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
        let stem = file.file_stem().expect("a file").to_string_lossy();
        let language = if file.extension().is_some_and(|c| c == "c") { "c" } else { "cpp" };
        let name = format!("{stem}-{language}-{}", compiler.program);
        let program = self.folder.path().join(name);
        let mut command = self.compiler(compiler, &file, more);
        command.args(["-x", "none", "-L"]).arg(self.folder.path());
        command.args(["-llycaon", "-ldl", "-o"]).arg(&program);
        succeed(command);
        program
    }

    /// Has a compiler read a file of `tests` without making anything of it.
    pub fn understand(&self, compiler: Compiler, file: &str, more: &[&str]) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
        let mut command = self.compiler(compiler, &file, more);
        command.arg("-fsyntax-only");
        succeed(command);
    }

    fn compiler(&self, compiler: Compiler, file: &Path, more: &[&str]) -> Command {
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
        let mut command = Command::new(compiler.program);
        command
            .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
            .args(compiler.language)
            .args(more)
            .arg("-I")
            .arg(include)
            .arg("-I")
            .arg(self.folder.path())
            .arg(file);
        command
    }

    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let launches = ["LYCAON_", "JACCL_", "MLX_"];
            if launches.iter().any(|start| name.to_string_lossy().starts_with(start)) {
                command.env_remove(name);
            }
        }
        command.env("LD_LIBRARY_PATH", self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a program to its end, which it says on stdout.
    pub fn run(&self, program: &Path, arguments: &[&str], text: &str) {
        let mut command = self.command(program);
        command.args(arguments);
        expect(&Process(Some(command.spawn().expect("it starts"))).finish(), text);
    }

    fn valgrind(&self, program: &Path) -> Command {
        let mut command = self.command(Path::new("valgrind"));
        command
            .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
            .arg("--show-leak-kinds=definite,indirect,possible")
            .arg(concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/tests/valgrind.supp"))
            .arg(program);
        command
    }

    /// The same under valgrind, which finds nothing.
    pub fn run_watched(&self, program: &Path, arguments: &[&str], text: &str) {
        let mut command = self.valgrind(program);
        command.args(arguments);
        let process = Process(Some(command.spawn().expect("valgrind is there: make c-tools")));
        expect(&process.finish(), text);
    }

    fn meeting(&self, what: &str, links: &str, size: usize) -> PathBuf {
        self.folder.path().join(format!("meet-{what}-{links}-{size}"))
    }

    /// Waits until a rank of [`ranks`](Self::ranks) says that it is in the middle of things.
    pub fn await_ready(&self, rank: usize, size: usize, what: &str, links: &str) {
        let file =
            self.meeting(what, links, size).display().to_string() + &format!(".ready-{rank}");
        let start = Instant::now();
        while !Path::new(&file).exists() {
            assert!(start.elapsed() < LIMIT, "rank {rank} is not ready within {LIMIT:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The ranks of a group of processes.
    pub fn ranks(&self, program: &Path, size: usize, what: &str, links: &str) -> Vec<Process> {
        self.ranks_by(|| self.command(program), size, what, links)
    }

    /// The same, each under valgrind.
    pub fn ranks_watched(&self, program: &Path, size: usize, what: &str) -> Vec<Process> {
        self.ranks_by(|| self.valgrind(program), size, what, "shm")
    }

    fn ranks_by(
        &self,
        command: impl Fn() -> Command,
        size: usize,
        what: &str,
        links: &str,
    ) -> Vec<Process> {
        let meeting = self.meeting(what, links, size);
        (0..size)
            .map(|rank| {
                let mut command = command();
                command
                    .arg(what)
                    .env("READY", format!("{}.ready-{rank}", meeting.display()))
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
pub struct Process(pub Option<Child>);

impl Process {
    pub fn finish(mut self) -> Output {
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

fn succeed(mut compiler: Command) {
    let done = compiler.output().expect("the compiler starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{compiler:?}: {said}");
}

pub fn expect(output: &Output, text: &str) {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(text), "{:?}\n{out}\n{err}", output.status);
    assert_eq!(err, "");
}
