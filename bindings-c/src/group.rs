//! Groups: starting, asking, splitting, closing.

use std::time::Duration;

use lycaon::error::ArgumentError;
use lycaon::{Group, InProcess};

use crate::config::lycaon_config;
use crate::error::{Failure, Outcome};
use crate::guard::{OK, Place, guard, handle, interruptible};
use crate::status::lycaon_status;
use crate::types::{algorithm_number, lycaon_algorithm, operation, operation_number};

/// The color of a rank that joins none of the groups of lycaon_group_split().
pub const LYCAON_COLOR_NONE: i32 = -1;

/// A group of ranks that compute together.
///
/// Collectives complete in the order in which they were called, and every rank has to call the same
/// ones in the same order. Messages between two ranks are ordered per tag and do not wait for
/// collectives. A group may be used from many threads at a time; the order of collectives is then
/// the order of the calls. When an operation fails for another reason than a wrong argument, the
/// group is poisoned: every later call returns the first cause at once.
pub struct lycaon_group {
    pub(crate) group: Group,
}

impl lycaon_group {
    fn new(group: Group) -> *mut Self {
        Box::into_raw(Box::new(lycaon_group { group }))
    }
}

fn natural32(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Starts the group that the environment describes: `lycaon launch`, torchrun, Open MPI, MPICH,
/// Slurm and MLX's variables are understood. Without any of them it is a group of one, in which
/// everything works.
///
/// # Safety
/// `group` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_init(group: *mut *mut lycaon_group) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(group, "group") }?;
        place.set(lycaon_group::new(interruptible(lycaon::init)?))
    })
}

/// Starts the group that a configuration describes. The configuration can be freed afterwards.
///
/// # Safety
/// `config` is a configuration that nobody changes during the call; `group` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_init_with(
    config: *const lycaon_config,
    group: *mut *mut lycaon_group,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (config, place) = unsafe { (handle(config, "config")?, Place::new(group, "group")?) };
        let config = config.checked()?;
        place.set(lycaon_group::new(interruptible(|| lycaon::init_with(&config))?))
    })
}

/// Makes a group whose ranks are threads of this process, for tests and for trying things out:
/// `groups` gets `size` groups in rank order, each for a thread of its own.
///
/// # Safety
/// `groups` may be written with `size` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_in_process(
    size: i32,
    groups: *mut *mut lycaon_group,
) -> lycaon_status {
    guard(|| {
        let size = usize::try_from(size).ok().filter(|size| (1..=1024).contains(size)).ok_or_else(
            || {
                Failure::new(
                    lycaon_status::OutOfRange,
                    format!("size is {size}; a group of threads has 1 to 1024 ranks"),
                )
            },
        )?;
        if groups.is_null() {
            return Err(Failure::null("groups"));
        }
        let made = lycaon::in_process(size, &InProcess::default())?;
        for (rank, group) in made.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { groups.add(rank).write(lycaon_group::new(group)) };
        }
        OK
    })
}

/// Closes the group, if it has not been closed, and frees the handle; NULL is allowed. Operations
/// under way fail. Never hangs.
///
/// # Safety
/// `group` comes from this library, has not been freed, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_free(group: *mut lycaon_group) {
    guard(|| {
        if !group.is_null() {
            // SAFETY: the pointer came from `lycaon_group::new` and nobody else has it any more.
            let group = unsafe { Box::from_raw(group) };
            group.group.close();
        }
        Ok(())
    });
}

/// Closes the group: later calls fail, operations under way fail, and if it was the last group of
/// the job its links are closed. May be called more than once.
///
/// # Safety
/// `group` is a group that has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_close(group: *const lycaon_group) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { handle(group, "group") }?.group.close();
        OK
    })
}

/// This rank, from 0 to the size less 1; -1 if `group` is NULL.
///
/// # Safety
/// As for lycaon_group_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_rank(group: *const lycaon_group) -> i32 {
    // SAFETY: the caller's promise.
    guard(|| Ok(natural32(unsafe { handle(group, "group") }?.group.rank())))
}

/// The number of ranks; -1 if `group` is NULL.
///
/// # Safety
/// As for lycaon_group_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_size(group: *const lycaon_group) -> i32 {
    // SAFETY: the caller's promise.
    guard(|| Ok(natural32(unsafe { handle(group, "group") }?.group.size())))
}

/// For each rank of this group, its rank in the job: `members` gets as many as the group has.
///
/// # Safety
/// As for lycaon_group_close(); `members` may be written with that many numbers. `capacity` is how
/// many it holds; a smaller one is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_members(
    group: *const lycaon_group,
    members: *mut i32,
    capacity: usize,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let of = unsafe { handle(group, "group") }?.group.members();
        if members.is_null() {
            return Err(Failure::null("members"));
        }
        if capacity < of.len() {
            return Err(ArgumentError::Length {
                what: "members",
                expected: of.len() as u64,
                actual: capacity as u64,
            }
            .into());
        }
        for (rank, member) in of.iter().enumerate() {
            // SAFETY: the caller's promise, and the check above.
            unsafe { members.add(rank).write(natural32(*member)) };
        }
        OK
    })
}

/// How long an operation waits while nothing moves before it fails, in nanoseconds; 0 if `group` is
/// NULL.
///
/// # Safety
/// As for lycaon_group_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_timeout_ns(group: *const lycaon_group) -> u64 {
    guard(|| {
        // SAFETY: the caller's promise.
        let timeout = unsafe { handle(group, "group") }?.group.timeout();
        Ok(timeout.as_nanos().try_into().unwrap_or(u64::MAX))
    })
}

/// Sets how long operations called from now on wait while nothing moves before they fail.
///
/// # Safety
/// As for lycaon_group_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_set_timeout_ns(
    group: *const lycaon_group,
    timeout_ns: u64,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { handle(group, "group") }?.group.set_timeout(Duration::from_nanos(timeout_ns));
        OK
    })
}

/// The algorithm that an operation on `bytes` bytes (of one rank's contribution, or of one block for
/// reduce_scatter, scatter and all_to_all) would take.
///
/// # Safety
/// As for lycaon_group_close(); `algorithm` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_algorithm(
    group: *const lycaon_group,
    number: operation_number,
    bytes: u64,
    algorithm: *mut algorithm_number,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (group, place) =
            unsafe { (handle(group, "group")?, Place::new(algorithm, "algorithm")?) };
        let Some(operation) = operation(number)? else {
            return Err(unknown_operation(number));
        };
        place.set(lycaon_algorithm::from(group.group.algorithm(operation, bytes)) as u32)
    })
}

fn unknown_operation(number: u32) -> Failure {
    Failure::new(
        lycaon_status::UnknownNumber,
        format!("{number} is no operation; use one of the LYCAON_OPERATION constants"),
    )
}

/// LYCAON_STATUS_OK if the group can be used; else the first cause of its failure, as every
/// operation would return it.
///
/// # Safety
/// As for lycaon_group_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_failure(group: *const lycaon_group) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let group = &unsafe { handle(group, "group") }?.group;
        failure(group)
    })
}

fn failure(group: &Group) -> Outcome<lycaon_status> {
    let Some(cause) = group.failure() else { return OK };
    let error = lycaon::error::OperationError {
        rank: group.rank(),
        operation: None,
        peer: None,
        link: None,
        elapsed: Duration::ZERO,
        cause,
    };
    Err(lycaon::Error::Operation(error).into())
}

/// Forms a group of all ranks that give the same `color`, ordered by `key` and then by rank. A
/// collective: every rank of `group` calls it. `sub_group` gets NULL where the color is
/// LYCAON_COLOR_NONE. The new group has its own order and its own failures, and must be freed.
///
/// # Safety
/// As for lycaon_group_close(); `sub_group` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_group_split(
    group: *const lycaon_group,
    color: i32,
    key: i64,
    sub_group: *mut *mut lycaon_group,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (group, place) =
            unsafe { (handle(group, "group")?, Place::new(sub_group, "sub_group")?) };
        let color = match color {
            LYCAON_COLOR_NONE => None,
            color => Some(u32::try_from(color).map_err(|_| {
                Failure::new(
                    lycaon_status::OutOfRange,
                    format!("color is {color}; it is 0 or more, or LYCAON_COLOR_NONE"),
                )
            })?),
        };
        let sub_group = interruptible(|| group.group.split_optional(color, key))?;
        place.set(sub_group.map_or(std::ptr::null_mut(), lycaon_group::new))
    })
}
