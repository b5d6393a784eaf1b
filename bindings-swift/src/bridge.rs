//! What Swift sees. The Swift side of it is generated from this file; everything that is public
//! in Swift is written by hand around it.

use crate::failure::{Failure, sample_failure, sample_names};
use crate::setup::{Setup, Started, setup_by_hand, setup_from_environment};
use crate::view::{LinkParts, RecordParts, View, version_text, view};

// The names on the other side of the bridge are those of the core.
#[swift_bridge::bridge]
pub(crate) mod ffi {
    // What one rank has called.
    #[swift_bridge(swift_repr = "struct")]
    struct CallParts {
        operation: u8,
        sequence: u64,
        dtype: u8,
        op: Option<u8>,
        root: Option<u32>,
        count: u64,
        text: String,
    }

    // How far a group has come.
    #[swift_bridge(swift_repr = "struct")]
    struct ProgressParts {
        started: u64,
        completed: u64,
        failed: u64,
        bytes_sent: u64,
        bytes_received: u64,
    }

    // Where and when an operation failed.
    #[swift_bridge(swift_repr = "struct")]
    struct Place {
        rank: u64,
        peer: Option<u64>,
        link: u8,
        elapsed: u64,
    }

    // What went wrong, with its fields. One variant per kind of the core; durations are in
    // nanoseconds; operators, element types, operations and links are their numbers.
    enum Problem {
        Unsupported {
            op: u8,
            dtype: u8,
        },
        UnknownDType {
            name: String,
        },
        UnknownOp {
            name: String,
        },
        NoSuchRank {
            what: String,
            rank: u64,
            size: u64,
        },
        SelfMessage {
            what: String,
            rank: u64,
        },
        Length {
            what: String,
            expected: u64,
            actual: u64,
        },
        Ragged {
            what: String,
            bytes: u64,
            dtype: u8,
        },
        Indivisible {
            what: String,
            count: u64,
            size: u64,
        },
        Counts {
            what: String,
            actual: u64,
            size: u64,
        },
        Overlap,
        MissingBuffer {
            rank: u64,
            what: String,
        },
        UnusedBuffer {
            rank: u64,
            what: String,
        },
        TooLarge {
            what: String,
        },
        NotACollective {
            operation: u8,
        },
        CountsForm {
            operation: u8,
            takes: String,
            given: String,
        },
        MissingOp {
            operation: u8,
        },
        UnusedOp {
            operation: u8,
            op: u8,
        },

        Value {
            name: String,
            value: String,
            expected: String,
        },
        Missing {
            missing: String,
            present: String,
        },
        Conflict {
            first: String,
            second: String,
            why: String,
        },
        File {
            path: String,
            reason: String,
        },
        Content {
            path: String,
            place: String,
            reason: String,
        },
        TokenNeeded {
            address: String,
        },

        StartDeadline {
            rank: u64,
            within: u64,
            waiting_for: String,
        },
        Unreachable {
            rank: u64,
            action: String,
            address: String,
            local: String,
            tried: u64,
            reason: String,
        },
        Authentication {
            rank: u64,
            peer: String,
        },
        Disagreement {
            what: String,
            first: u64,
            first_value: String,
            second: u64,
            second_value: String,
        },
        DuplicateRank {
            rank: u64,
            first: String,
            second: String,
        },
        RankFailed {
            rank: u64,
            reason: String,
        },
        NoLink {
            first: u64,
            second: u64,
            reason: String,
        },
        System {
            rank: u64,
            action: String,
            reason: String,
        },
        SideChannel {
            rank: u64,
            reason: String,
        },
        StartInterrupted {
            rank: u64,
        },

        RankDied {
            rank: u64,
            how: String,
        },
        RankLeft {
            rank: u64,
        },
        LinkLost {
            first: u64,
            second: u64,
            link: u8,
            reason: String,
        },
        Deadline {
            rank: u64,
            operation: CallParts,
            peer: Option<u64>,
            waited: u64,
        },
        Mismatch {
            first: u64,
            first_call: CallParts,
            second: u64,
            second_call: CallParts,
        },
        Interrupted {
            rank: u64,
            operation: CallParts,
        },
        Closed,
        Forked {
            owner: u32,
        },
        Violation {
            rank: u64,
            peer: u64,
            what: String,
        },
        Panicked {
            rank: u64,
            message: String,
        },

        // A failure of the interface itself: a bug of the library.
        Internal,
    }

    extern "Rust" {
        type Failure;
        // A failure of each kind, for tests.
        fn sample_failure(kind: &str) -> Option<Failure>;
        fn sample_names() -> Vec<String>;
        fn message(self: &Failure) -> String;
        fn problem(self: &Failure) -> Problem;
        // Only of failed operations.
        fn place(self: &Failure) -> Option<Place>;
        fn call(self: &Failure) -> Option<CallParts>;

        type Setup;
        fn setup_by_hand() -> Setup;
        fn setup_from_environment() -> Result<Setup, Failure>;
        fn rank(self: &mut Setup, rank: u64);
        fn size(self: &mut Setup, size: u64);
        fn rendezvous(self: &mut Setup, place: &str);
        // Addresses of two functions and of a context; see side_channel.rs.
        fn side_channel(self: &mut Setup, function: usize, release: usize, context: usize);
        fn token(self: &mut Setup, token: &str);
        fn job(self: &mut Setup, job: &str);
        fn start_timeout(self: &mut Setup, nanoseconds: u64);
        fn timeout(self: &mut Setup, nanoseconds: u64);
        fn liveness(self: &mut Setup, nanoseconds: u64);
        fn spin(self: &mut Setup, nanoseconds: u64);
        fn link(self: &mut Setup, kind: u8);
        fn rails(self: &mut Setup, rails: u64);
        fn host_id(self: &mut Setup, id: &str);
        fn interface(self: &mut Setup, name: &str);
        fn algorithm(self: &mut Setup, operation: Option<u8>, algorithm: &str);
        fn rank_order(self: &mut Setup, only: bool);
        fn staging(self: &mut Setup, bytes: u64);
        fn recorder(self: &mut Setup, operations: u64);
        // Checks everything without starting.
        fn check(self: &Setup) -> Option<Failure>;
        fn start(self: Setup) -> Result<Started, Failure>;

        type Started;
        // The handle for the calls. Whoever takes it frees it with lycaon_swift_free.
        fn take_handle(self: &mut Started) -> usize;

        // A group as its handle says; the handle must be alive.
        type View;
        fn view(handle: usize) -> View;
        fn member(self: &View, rank: u64) -> u64;
        fn timeout_nanoseconds(self: &View) -> u64;
        fn set_timeout(self: &View, nanoseconds: u64);
        fn progress(self: &View) -> ProgressParts;
        fn is_closed(self: &View) -> bool;
        // What every later call would fail with.
        fn failure(self: &View) -> Option<Failure>;
        fn links(self: &View) -> Vec<LinkParts>;
        fn records(self: &View) -> Vec<RecordParts>;
        // The name of the algorithm that a request would take.
        fn algorithm_for(self: &View, operation: u8, bytes: u64) -> String;

        type LinkParts;
        fn peer(self: &LinkParts) -> u64;
        fn kind(self: &LinkParts) -> u8;
        fn detail(self: &LinkParts) -> String;
        fn bytes_sent(self: &LinkParts) -> u64;
        fn bytes_received(self: &LinkParts) -> u64;
        fn messages_sent(self: &LinkParts) -> u64;
        fn messages_received(self: &LinkParts) -> u64;

        type RecordParts;
        fn call(self: &RecordParts) -> CallParts;
        fn peer(self: &RecordParts) -> Option<u64>;
        fn tag(self: &RecordParts) -> Option<u32>;
        fn algorithm(self: &RecordParts) -> Option<String>;
        fn began(self: &RecordParts) -> u64;
        fn took(self: &RecordParts) -> u64;
        // 0 while it runs, 1 when it has completed, 2 when it has failed.
        fn outcome(self: &RecordParts) -> u8;
        fn error(self: &RecordParts) -> Option<String>;

        fn version_text() -> String;
    }
}
