//! What a call through C and through C++ costs more than the same call from Rust: all_reduce of
//! 8 bytes in a group of one, and between two processes over shared memory.
//!
//! `make bench-overhead`, or `cargo bench -p lycaon-c --bench overhead`. Rust calls the library that is
//! linked into this program; the loops in `overhead.c` and `overhead.cpp` call `liblycaon.so`, as
//! programs do, and are loaded into the same process. All take turns in batches, so that what
//! disturbs one disturbs all; Rust has two turns in each round, and the difference between these is
//! how far the numbers can be trusted.

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use lycaon::config::Rendezvous;
use lycaon::error::LinkKind;
use lycaon::{Config, Group, Op};

const ROLE: &str = "LYCAON_BENCH_RANK";
const FOLDER: &str = "LYCAON_BENCH_FOLDER";

/// Calls without a look at the clock: so few that most batches are over before the scheduler takes one
/// of the ranks away.
const BATCH: u32 = 50;

const ROUNDS: usize = 10_000;

const LIBRARY: &str =
    if cfg!(target_os = "macos") { "liblycaon_c.dylib" } else { "liblycaon_c.so" };

/// What both loops export: so many calls, and the nanoseconds that they took.
type Loop = unsafe extern "C" fn(calls: u32) -> u64;

fn main() {
    if let Ok(rank) = std::env::var(ROLE) {
        let folder = PathBuf::from(std::env::var_os(FOLDER).expect("the parent sets it"));
        let rank = rank.parse().expect("the parent's number");
        pin(rank);
        return measure(&folder, rank, 2);
    }
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path());
    println!("nanoseconds per all_reduce of 8 bytes, medians of batches of {BATCH} calls; in");
    println!("brackets what lies between the quartiles of the differences of one round\n");
    println!("| | Rust | Rust again | C | C++ |");
    println!("|---|---|---|---|---|");
    measure(folder.path(), 0, 1);
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("two processes would not tell anything: there is one core");
        return;
    }
    let program = std::env::current_exe().expect("this program has a path");
    let ranks: Vec<_> = ["0", "1"]
        .map(|rank| {
            let mut command = Command::new(&program);
            command.env(ROLE, rank).env(FOLDER, folder.path()).stdin(Stdio::null());
            command.spawn().expect("a rank starts")
        })
        .into_iter()
        .collect();
    for mut rank in ranks {
        assert!(rank.wait().expect("it is a child").success(), "a rank failed");
    }
}

/// A core of its own for each rank: on one core they would wait for each other's time slices.
#[cfg(not(target_os = "linux"))]
fn pin(_: usize) {}

/// A core of its own for each rank: on one core they would wait for each other's time slices.
#[cfg(target_os = "linux")]
fn pin(rank: usize) {
    // SAFETY: all zeroes is the empty set; the macro writes into it alone, and the call reads it.
    unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(rank, &mut cores);
        // Without the right to choose, the scheduler does.
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const cores);
    }
}

/// Makes a library of each loop, linked with the library beside this program.
fn compile(folder: &Path) {
    let program = std::env::current_exe().expect("this program has a path");
    let library = program.parent().expect("it is in a folder").join(LIBRARY);
    for name in if cfg!(target_os = "macos") {
        ["liblycaon.dylib", "liblycaon.1.dylib"]
    } else {
        ["liblycaon.so", "liblycaon.so.1"]
    } {
        std::os::unix::fs::symlink(&library, folder.join(name)).expect("a link");
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (compiler, language, source) in
        [("cc", "-std=c11", "overhead.c"), ("c++", "-std=c++17", "overhead.cpp")]
    {
        let done = Command::new(compiler)
            .args([language, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"])
            .arg(here.join("include"))
            .arg(here.join("benches").join(source))
            .arg("-L")
            .arg(folder)
            .arg("-llycaon")
            .arg(format!("-Wl,-rpath,{}", folder.display()))
            .arg("-o")
            .arg(folder.join(source).with_extension(if language == "-std=c11" {
                "c.so"
            } else {
                "cpp.so"
            }))
            .status();
        assert!(done.is_ok_and(|status| status.success()), "{compiler} does not compile {source}");
    }
}

/// One rank: Rust, C, C++ and Rust again, many times; rank 0 prints.
fn measure(folder: &Path, rank: usize, size: usize) {
    let group = rust_group(folder, rank, size);
    let loops = [("c.so", c"in_c"), ("cpp.so", c"in_cpp")].map(|(library, name)| {
        let meeting = folder.join(format!("{library}-{size}"));
        load(&folder.join("overhead").with_extension(library), name, &meeting, rank, size)
    });
    let mut value = [1.0f64];
    let mut rust = || {
        let began = Instant::now();
        for _ in 0..BATCH {
            group.all_reduce(&mut value, Op::Max).expect("the group works");
        }
        began.elapsed().as_nanos() as f64 / f64::from(BATCH)
    };
    // SAFETY: they are functions of this type, and their groups are open.
    let [c, cpp] = loops.map(|f| move || unsafe { f(BATCH) } as f64 / f64::from(BATCH));
    let mut times: [Vec<f64>; 4] = Default::default();
    for round in 0..ROUNDS + ROUNDS / 10 {
        let mut took = [0.0; 4];
        // Nobody always comes first.
        for turn in (0..4).map(|turn| (turn + round) % 4) {
            took[turn] = match turn {
                0 | 2 => rust(),
                1 => c(),
                _ => cpp(),
            };
        }
        // The first ones warm caches, predictors and the clock of the processor.
        if round >= ROUNDS / 10 {
            times.iter_mut().zip(took).for_each(|(times, took)| times.push(took));
        }
    }
    if rank == 0 {
        print(size, &times);
    }
}

fn print(size: usize, times: &[Vec<f64>; 4]) {
    let [first, c, second, cpp] = times;
    let against = |other: &[f64]| {
        let differences = other.iter().zip(first.iter().zip(second));
        let mut differences: Vec<f64> =
            differences.map(|(other, (first, second))| other - (first + second) / 2.0).collect();
        differences.sort_by(f64::total_cmp);
        let at = |part: f64| differences[((differences.len() - 1) as f64 * part) as usize];
        format!("{:.1}: {:+.1} [{:+.1}, {:+.1}]", median(other), at(0.5), at(0.25), at(0.75))
    };
    let name = if size == 1 { "a group of one" } else { "two processes, shm" };
    println!(
        "| {name} | {:.1} | {} | {} | {} |",
        median(first),
        against(second),
        against(c),
        against(cpp)
    );
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn rust_group(folder: &Path, rank: usize, size: usize) -> Group {
    let mut config = Config::builder().rank(rank).size(size).links([LinkKind::Shm]);
    if size > 1 {
        config = config.rendezvous(Rendezvous::File(folder.join("rust")));
    }
    let config = config.build().expect("it makes sense");
    lycaon::init_with(&config).expect("a group of Rust")
}

/// Loads a loop and forms the group that it works with.
fn load(library: &Path, name: &CStr, meeting: &Path, rank: usize, size: usize) -> Loop {
    let path = CString::new(library.to_str().expect("text")).expect("without NUL");
    let meeting = CString::new(format!("file:{}", meeting.display())).expect("without NUL");
    // SAFETY: the library is ours, and stays loaded.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{} cannot be loaded", library.display());
    let symbol = |name: &CStr| {
        // SAFETY: the handle is open.
        let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?} is missing");
        symbol
    };
    type Start = unsafe extern "C" fn(meeting: *const c_char, rank: i32, size: i32) -> i32;
    // SAFETY: the functions have these types, see their sources.
    let (start, run) = unsafe {
        (
            std::mem::transmute::<*mut libc::c_void, Start>(symbol(c"start")),
            std::mem::transmute::<*mut libc::c_void, Loop>(symbol(name)),
        )
    };
    // SAFETY: the text ends with a NUL and outlives the call.
    let status = unsafe { start(meeting.as_ptr(), rank as i32, size as i32) };
    assert_eq!(status, 0, "the group of {name:?} does not start");
    run
}
