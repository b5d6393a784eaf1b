//! The numbers of the interface against the enumerations of the core: none is missing, none has
//! moved, none is used twice.

use std::collections::HashSet;

use lycaon::error::{ErrorKind, LinkKind};
use lycaon::{Algorithm, DType, Op, Operation};
use lycaon_c::status::{lycaon_family, lycaon_status};
use lycaon_c::types::{
    lycaon_algorithm, lycaon_dtype, lycaon_link_kind, lycaon_op, lycaon_operation,
};

#[test]
fn every_kind_of_error_has_a_status_of_its_own() {
    let mut seen = HashSet::new();
    for kind in ErrorKind::ALL.iter().copied() {
        let status = lycaon_status::from(kind);
        assert!(seen.insert(status), "{kind:?} shares {status:?}");
        assert_eq!(lycaon_status::from_number(status as u32), Some(status));
        assert_ne!(status.family(), lycaon_family::Usage, "{kind:?}");
    }
    let numbers: HashSet<u32> = lycaon_status::ALL.iter().map(|status| *status as u32).collect();
    assert_eq!(numbers.len(), lycaon_status::ALL.len());
    assert_eq!(lycaon_status::from_number(4711), None);
}

#[test]
fn the_numbers_of_statuses_stay() {
    // A number in this list is never changed; new ones are added at the end.
    let fixed = [
        (lycaon_status::Ok, 0),
        (lycaon_status::NullPointer, 1),
        (lycaon_status::UnknownNumber, 2),
        (lycaon_status::NotText, 3),
        (lycaon_status::OutOfRange, 4),
        (lycaon_status::Internal, 5),
        (lycaon_status::Unsupported, 100),
        (lycaon_status::UnknownDtype, 101),
        (lycaon_status::UnknownOp, 102),
        (lycaon_status::NoSuchRank, 103),
        (lycaon_status::SelfMessage, 104),
        (lycaon_status::Length, 105),
        (lycaon_status::Ragged, 106),
        (lycaon_status::Indivisible, 107),
        (lycaon_status::Counts, 108),
        (lycaon_status::Overlap, 109),
        (lycaon_status::MissingBuffer, 110),
        (lycaon_status::UnusedBuffer, 111),
        (lycaon_status::TooLarge, 112),
        (lycaon_status::NotACollective, 113),
        (lycaon_status::CountsForm, 114),
        (lycaon_status::MissingOp, 115),
        (lycaon_status::UnusedOp, 116),
        (lycaon_status::Value, 200),
        (lycaon_status::Missing, 201),
        (lycaon_status::Conflict, 202),
        (lycaon_status::File, 203),
        (lycaon_status::Content, 204),
        (lycaon_status::TokenNeeded, 205),
        (lycaon_status::StartDeadline, 300),
        (lycaon_status::Unreachable, 301),
        (lycaon_status::Authentication, 302),
        (lycaon_status::Disagreement, 303),
        (lycaon_status::DuplicateRank, 304),
        (lycaon_status::RankFailed, 305),
        (lycaon_status::NoLink, 306),
        (lycaon_status::System, 307),
        (lycaon_status::SideChannel, 308),
        (lycaon_status::StartInterrupted, 309),
        (lycaon_status::RankDied, 400),
        (lycaon_status::RankLeft, 401),
        (lycaon_status::LinkLost, 402),
        (lycaon_status::Deadline, 403),
        (lycaon_status::Mismatch, 404),
        (lycaon_status::Interrupted, 405),
        (lycaon_status::Closed, 406),
        (lycaon_status::Forked, 407),
        (lycaon_status::Protocol, 408),
        (lycaon_status::Panicked, 409),
    ];
    assert_eq!(fixed.map(|(status, _)| status), *lycaon_status::ALL);
    for (status, number) in fixed {
        assert_eq!(status as u32, number, "{status:?}");
    }
}

#[test]
fn names_of_statuses_are_those_of_the_core_and_distinct() {
    let names: HashSet<_> = lycaon_status::ALL.iter().map(|status| status.name()).collect();
    assert_eq!(names.len(), lycaon_status::ALL.len());
}

#[test]
fn every_type_operator_operation_and_algorithm_has_a_number() {
    for dtype in DType::ALL {
        assert_eq!(lycaon_dtype::from(dtype) as u32, dtype as u32, "{dtype}");
    }
    for op in Op::ALL {
        assert_eq!(lycaon_op::from(op) as u32, op as u32, "{op}");
    }
    for operation in Operation::ALL {
        assert_eq!(lycaon_operation::from(operation) as u32, operation as u32, "{operation}");
    }
    let algorithms: HashSet<u32> =
        Algorithm::ALL.iter().map(|algorithm| lycaon_algorithm::from(*algorithm) as u32).collect();
    assert_eq!(algorithms.len(), Algorithm::ALL.len());
    assert!(!algorithms.contains(&(lycaon_algorithm::None as u32)));
    let links = [LinkKind::Memory, LinkKind::Shm, LinkKind::Tcp, LinkKind::Rdma];
    assert_eq!(links.map(|kind| lycaon_link_kind::from(kind) as u32), [1, 2, 3, 4]);
}
