//! lycaon for C++ programs that are built together with Rust.
//!
//! The bridge is made by [cxx](https://cxx.rs): C++ gets `rust::Box<lycaon_cxx::Group>` and gives
//! `rust::Slice`, errors are thrown as `rust::Error`, whose text begins with the name of the kind
//! (`rank_died: …`), and a panic is caught before it reaches the bridge, which would abort.
//!
//! Its symbols carry the version of cxx and of this crate, so everything has to be compiled
//! together. A program that is not, or that wants the fields of errors, takes the C++ headers over
//! the C interface.

mod guard;
mod ops;
mod work;

use std::time::Duration;

use lycaon::error::LinkKind;
use lycaon::{Config, InProcess};

use guard::{Result, guard};
use work::{WorkF32, WorkF64};

/// The functions and types that both languages see.
#[cxx::bridge(namespace = "lycaon_cxx")]
pub mod ffi {
    /// How contributions are combined.
    #[repr(u8)]
    enum Op {
        /// The sum.
        Sum = 0,
        /// The product.
        Prod = 1,
        /// The smallest; NaN wins.
        Min = 2,
        /// The largest; NaN wins.
        Max = 3,
        /// The mean.
        Avg = 4,
        /// Bitwise and, of integers.
        BitAnd = 5,
        /// Bitwise or, of integers.
        BitOr = 6,
        /// Bitwise exclusive or, of integers.
        BitXor = 7,
        /// Whether all are not zero.
        LogicalAnd = 8,
        /// Whether any is not zero.
        LogicalOr = 9,
    }

    /// The type of one element, for the functions on bytes.
    #[repr(u8)]
    enum DType {
        /// One byte, 0 or 1.
        Bool = 0,
        /// Integer of 8 bits.
        I8 = 1,
        /// Integer of 16 bits.
        I16 = 2,
        /// Integer of 32 bits.
        I32 = 3,
        /// Integer of 64 bits.
        I64 = 4,
        /// Natural number of 8 bits.
        U8 = 5,
        /// Natural number of 16 bits.
        U16 = 6,
        /// Natural number of 32 bits.
        U32 = 7,
        /// Natural number of 64 bits.
        U64 = 8,
        /// IEEE half precision.
        F16 = 9,
        /// bfloat16.
        Bf16 = 10,
        /// IEEE single precision.
        F32 = 11,
        /// IEEE double precision.
        F64 = 12,
        /// Two `F32`.
        Complex64 = 13,
        /// Two `F64`.
        Complex128 = 14,
    }

    /// What a rank must know to join its group, where it is not read from the environment.
    struct Settings {
        /// This process in the group.
        rank: usize,
        /// Processes in the group.
        size: usize,
        /// Where the ranks meet: `host:port`, or `file:/path` on a disk that all see.
        rendezvous: String,
        /// The secret that all ranks share; empty for none, on this machine.
        token: String,
        /// How long an operation waits while nothing moves, in milliseconds; 0 for 30 s.
        timeout_ms: u64,
    }

    /// How far a group has come.
    struct Progress {
        /// Operations that have begun.
        started: u64,
        /// Operations that have ended well.
        completed: u64,
        /// Operations that have failed.
        failed: u64,
        /// Bytes that this rank has sent.
        bytes_sent: u64,
        /// Bytes that this rank has received.
        bytes_received: u64,
    }

    /// The link to another rank.
    struct Link {
        /// The other rank.
        peer: usize,
        /// `shm`, `tcp`, …
        kind: String,
        /// Addresses or devices.
        detail: String,
        /// Bytes that this rank has sent.
        bytes_sent: u64,
        /// Bytes that this rank has received.
        bytes_received: u64,
    }

    extern "Rust" {
        type Group;
        type WorkF32;
        type WorkF64;

        /// Joins the group that the environment describes; without any launch variable a group of one.
        fn init() -> Result<Box<Group>>;
        /// Joins a group that the program describes; nothing comes from the environment.
        fn init_with(settings: &Settings) -> Result<Box<Group>>;
        /// Groups whose ranks are threads of this process, for tests.
        fn in_process(size: usize) -> Result<Vec<Group>>;
        /// The version of the library.
        fn version() -> String;

        /// This rank, from 0 to size - 1.
        fn rank(self: &Group) -> usize;
        /// The number of ranks.
        fn size(self: &Group) -> usize;
        /// For each rank of this group, its rank in the job.
        fn members(self: &Group) -> Vec<usize>;
        /// How long operations called from now on wait while nothing moves; at least 1 ms.
        fn set_timeout_ms(self: &Group, timeout: u64);
        /// How far this group has come; any thread at any time.
        fn progress(self: &Group) -> Result<Progress>;
        /// The links to the other ranks.
        fn links(self: &Group) -> Result<Vec<Link>>;
        /// The last operations of this group, oldest first, a line each.
        fn flight_recorder(self: &Group) -> Result<Vec<String>>;
        /// A group of all ranks that give the same color, ordered by key and then by rank.
        fn split(self: &Group, color: u32, key: i64) -> Result<Box<Group>>;
        /// Later calls fail, operations under way fail; may be called more than once.
        fn close(self: &Group) -> Result<()>;
        /// Ends when all ranks have called it.
        fn barrier(self: &Group) -> Result<()>;

        /// Every rank gets the reduction of all, in place.
        fn all_reduce_f32(self: &Group, data: &mut [f32], op: Op) -> Result<()>;
        fn all_reduce_f64(self: &Group, data: &mut [f64], op: Op) -> Result<()>;
        fn all_reduce_i32(self: &Group, data: &mut [i32], op: Op) -> Result<()>;
        fn all_reduce_i64(self: &Group, data: &mut [i64], op: Op) -> Result<()>;
        /// Every rank gets the inputs of all, in rank order: `output` is size times as long.
        fn all_gather_f32(self: &Group, input: &[f32], output: &mut [f32]) -> Result<()>;
        fn all_gather_f64(self: &Group, input: &[f64], output: &mut [f64]) -> Result<()>;
        fn all_gather_i32(self: &Group, input: &[i32], output: &mut [i32]) -> Result<()>;
        fn all_gather_i64(self: &Group, input: &[i64], output: &mut [i64]) -> Result<()>;
        /// Every rank gets the root's data.
        fn broadcast_f32(self: &Group, data: &mut [f32], root: usize) -> Result<()>;
        fn broadcast_f64(self: &Group, data: &mut [f64], root: usize) -> Result<()>;
        fn broadcast_i32(self: &Group, data: &mut [i32], root: usize) -> Result<()>;
        fn broadcast_i64(self: &Group, data: &mut [i64], root: usize) -> Result<()>;
        /// Sends to a rank; it receives as many elements with the same tag.
        fn send_f32(self: &Group, data: &[f32], to: usize, tag: u32) -> Result<()>;
        fn send_f64(self: &Group, data: &[f64], to: usize, tag: u32) -> Result<()>;
        fn send_i32(self: &Group, data: &[i32], to: usize, tag: u32) -> Result<()>;
        fn send_i64(self: &Group, data: &[i64], to: usize, tag: u32) -> Result<()>;
        /// Receives from a rank.
        fn recv_f32(self: &Group, data: &mut [f32], from: usize, tag: u32) -> Result<()>;
        fn recv_f64(self: &Group, data: &mut [f64], from: usize, tag: u32) -> Result<()>;
        fn recv_i32(self: &Group, data: &mut [i32], from: usize, tag: u32) -> Result<()>;
        fn recv_i64(self: &Group, data: &mut [i64], from: usize, tag: u32) -> Result<()>;

        /// The functions below take the bytes of elements of any type; lengths are multiples of theirs.
        fn all_reduce(self: &Group, dtype: DType, data: &mut [u8], op: Op) -> Result<()>;
        fn all_gather(self: &Group, dtype: DType, input: &[u8], output: &mut [u8]) -> Result<()>;
        /// Rank i gets the reduction of the i-th block: `input` is size times as long as `output`.
        fn reduce_scatter(
            self: &Group,
            dtype: DType,
            input: &[u8],
            output: &mut [u8],
            op: Op,
        ) -> Result<()>;
        fn broadcast(self: &Group, dtype: DType, data: &mut [u8], root: usize) -> Result<()>;
        /// The root's data becomes the reduction; the data of the others stays as it is.
        fn reduce(self: &Group, dtype: DType, data: &mut [u8], op: Op, root: usize) -> Result<()>;
        /// The root gets the inputs in rank order; the output of others is not looked at.
        fn gather(
            self: &Group,
            dtype: DType,
            input: &[u8],
            output: &mut [u8],
            root: usize,
        ) -> Result<()>;
        /// Rank i gets the i-th block of the root's input; the input of others is not looked at.
        fn scatter(
            self: &Group,
            dtype: DType,
            input: &[u8],
            output: &mut [u8],
            root: usize,
        ) -> Result<()>;
        /// Rank i gets the i-th block of every rank.
        fn all_to_all(self: &Group, dtype: DType, input: &[u8], output: &mut [u8]) -> Result<()>;
        /// Every rank gets the reduction of the ranks up to itself, in place.
        fn scan(self: &Group, dtype: DType, data: &mut [u8], op: Op) -> Result<()>;
        fn send(self: &Group, dtype: DType, data: &[u8], to: usize, tag: u32) -> Result<()>;
        fn recv(self: &Group, dtype: DType, data: &mut [u8], from: usize, tag: u32) -> Result<()>;
        /// Sends to one rank and receives from one, at the same time.
        fn send_recv(
            self: &Group,
            dtype: DType,
            data: &[u8],
            to: usize,
            into: &mut [u8],
            from: usize,
            tag: u32,
        ) -> Result<()>;

        /// Starts all_reduce in the background; `wait_f32` gives the data back.
        fn all_reduce_f32_async(self: &Group, data: Vec<f32>, op: Op) -> Result<Box<WorkF32>>;
        fn all_reduce_f64_async(self: &Group, data: Vec<f64>, op: Op) -> Result<Box<WorkF64>>;
        /// Whether waiting would return at once.
        fn is_done(self: &WorkF32) -> bool;
        fn is_done(self: &WorkF64) -> bool;
        /// Waits for the end of the operation.
        fn wait_f32(work: Box<WorkF32>) -> Result<Vec<f32>>;
        fn wait_f64(work: Box<WorkF64>) -> Result<Vec<f64>>;
    }
}

/// A group of ranks. It may be used from many threads; when the last handle goes it is closed.
pub struct Group(lycaon::Group);

fn init() -> Result<Box<Group>> {
    guard(|| Ok(Box::new(Group(lycaon::init()?))))
}

fn init_with(settings: &ffi::Settings) -> Result<Box<Group>> {
    guard(|| {
        let mut builder = Config::builder().rank(settings.rank).size(settings.size);
        if !settings.rendezvous.is_empty() {
            builder = builder.rendezvous(settings.rendezvous.parse()?);
        }
        if !settings.token.is_empty() {
            builder = builder.token(&settings.token);
        }
        if settings.timeout_ms > 0 {
            builder = builder.timeout(Duration::from_millis(settings.timeout_ms));
        }
        Ok(Box::new(Group(lycaon::init_with(&builder.build()?)?)))
    })
}

fn in_process(size: usize) -> Result<Vec<Group>> {
    guard(|| Ok(lycaon::in_process(size, &InProcess::default())?.into_iter().map(Group).collect()))
}

fn version() -> String {
    lycaon::VERSION.to_owned()
}

#[expect(clippy::boxed_local, reason = "C++ can only move boxes")]
fn wait_f32(work: Box<WorkF32>) -> Result<Vec<f32>> {
    work.wait()
}

#[expect(clippy::boxed_local, reason = "C++ can only move boxes")]
fn wait_f64(work: Box<WorkF64>) -> Result<Vec<f64>> {
    work.wait()
}

impl Group {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn members(&self) -> Vec<usize> {
        self.0.members().to_vec()
    }

    fn set_timeout_ms(&self, timeout: u64) {
        self.0.set_timeout(Duration::from_millis(timeout));
    }

    fn progress(&self) -> Result<ffi::Progress> {
        guard(|| {
            let now = self.0.progress();
            Ok(ffi::Progress {
                started: now.started,
                completed: now.completed,
                failed: now.failed,
                bytes_sent: now.bytes_sent,
                bytes_received: now.bytes_received,
            })
        })
    }

    fn links(&self) -> Result<Vec<ffi::Link>> {
        let name = |kind: LinkKind| kind.name().to_owned();
        guard(|| {
            let links = self.0.links().into_iter().map(|link| ffi::Link {
                peer: link.peer,
                kind: name(link.kind),
                detail: link.detail,
                bytes_sent: link.bytes_sent,
                bytes_received: link.bytes_received,
            });
            Ok(links.collect())
        })
    }

    fn flight_recorder(&self) -> Result<Vec<String>> {
        guard(|| Ok(self.0.flight_recorder().iter().map(ToString::to_string).collect()))
    }

    fn split(&self, color: u32, key: i64) -> Result<Box<Group>> {
        guard(|| Ok(Box::new(Group(self.0.split(color, key)?))))
    }

    fn close(&self) -> Result<()> {
        guard(|| {
            self.0.close();
            Ok(())
        })
    }

    fn barrier(&self) -> Result<()> {
        guard(|| self.0.barrier())
    }
}
