//! RDMA: which devices join which ranks, and what else can be said about it by hand.

use std::ffi::{CString, c_char};
use std::ptr;

use lycaon::config::read_rdma_devices;

use crate::config::{change, lycaon_config};
use crate::error::{Failure, Outcome, text as to_c};
use crate::guard::{OK, Place, guard, handle, handle_mut, natural, rank, text};
use crate::status::lycaon_status;
use crate::types::{queue_pairs, queue_pairs_number};

/// No table is larger: it has a cell for each pair.
const MAX_RANKS: usize = 1024;

/// The number of RDMA devices that the system lists; 0 where it has no library for them. Whether their
/// ports are up turns out at start.
#[unsafe(no_mangle)]
pub extern "C" fn lycaon_rdma_device_count() -> usize {
    guard(|| Ok(lycaon::rdma_devices().len()))
}

/// A table with the RDMA devices of each rank towards each other one, as many as there are cables.
/// One thread at a time may change it; while nobody does, any number may read it.
pub struct lycaon_rdma_devices {
    table: Vec<Vec<Vec<CString>>>,
}

impl lycaon_rdma_devices {
    fn cell(&self, from: i32, to: i32) -> Outcome<(usize, usize)> {
        let size = self.table.len();
        let of = |given: i32, what| match rank(given, size, what)? {
            at if at < size => Ok(at),
            _ => Err(Failure::new(
                lycaon_status::NoSuchRank,
                format!("{what} {given} is not in the table, whose ranks are 0 to {}", size - 1),
            )),
        };
        Ok((of(from, "from")?, of(to, "to")?))
    }
}

/// Makes a table for so many ranks in which no device is named.
///
/// # Safety
/// `devices` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_rdma_devices_new(
    ranks: i32,
    devices: *mut *mut lycaon_rdma_devices,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(devices, "devices") }?;
        let ranks = natural(ranks, "ranks")?;
        if ranks == 0 || ranks > MAX_RANKS {
            let message = format!("ranks is {ranks}, expected 1 to {MAX_RANKS}");
            return Err(Failure::new(lycaon_status::OutOfRange, message));
        }
        let table = vec![vec![Vec::new(); ranks]; ranks];
        place.set(Box::into_raw(Box::new(lycaon_rdma_devices { table })))
    })
}

/// Reads a table from a JSON file: the cell of row i and column j is null, the name of the device
/// that rank i uses towards rank j, or a list of names. JACCL_IBV_DEVICES names such a file.
///
/// # Safety
/// `path` is a text that ends with a NUL; `devices` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_rdma_devices_read(
    path: *const c_char,
    devices: *mut *mut lycaon_rdma_devices,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (path, place) = unsafe { (text(path, "path")?, Place::new(devices, "devices")?) };
        let table = read_rdma_devices(path)?
            .into_iter()
            .map(|row| {
                row.iter().map(|cell| cell.iter().map(|name| to_c(name)).collect()).collect()
            })
            .collect();
        place.set(Box::into_raw(Box::new(lycaon_rdma_devices { table })))
    })
}

/// Frees a table; NULL is allowed.
///
/// # Safety
/// `devices` comes from this library, has not been freed, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_rdma_devices_free(devices: *mut lycaon_rdma_devices) {
    guard(|| {
        if !devices.is_null() {
            // SAFETY: the pointer came from a box, and nobody else has it any more.
            drop(unsafe { Box::from_raw(devices) });
        }
        Ok(())
    });
}

/// Adds a device that rank `from` uses towards rank `to`. Devices of both directions belong
/// together by their order.
///
/// # Safety
/// `devices` is a table that nobody else uses during the call; `name` is a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_rdma_devices_add(
    devices: *mut lycaon_rdma_devices,
    from: i32,
    to: i32,
    name: *const c_char,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (devices, name) =
            unsafe { (handle_mut(devices, "devices")?, text(name, "name")?.to_owned()) };
        let (from, to) = devices.cell(from, to)?;
        if name.is_empty() || from == to {
            let message = match name.is_empty() {
                true => "name is empty, expected the name of a device".to_owned(),
                false => format!("rank {from} has no device towards itself"),
            };
            return Err(Failure::new(lycaon_status::OutOfRange, message));
        }
        devices.table[from][to].push(to_c(&name));
        OK
    })
}

/// How many ranks a table is for.
///
/// # Safety
/// `devices` is a table that nobody changes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_rdma_devices_ranks(devices: *const lycaon_rdma_devices) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise.
        let devices = unsafe { handle(devices, "devices") }?;
        Ok(i32::try_from(devices.table.len()).unwrap_or(i32::MAX))
    })
}

/// How many devices rank `from` uses towards rank `to`.
///
/// # Safety
/// As for lycaon_rdma_devices_ranks().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_rdma_devices_count(
    devices: *const lycaon_rdma_devices,
    from: i32,
    to: i32,
) -> usize {
    guard(|| {
        // SAFETY: the caller's promise.
        let devices = unsafe { handle(devices, "devices") }?;
        let (from, to) = devices.cell(from, to)?;
        Ok(devices.table[from][to].len())
    })
}

/// The name of one of them, valid until the table is changed or freed; NULL if there are not so
/// many.
///
/// # Safety
/// As for lycaon_rdma_devices_ranks().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_rdma_devices_name(
    devices: *const lycaon_rdma_devices,
    from: i32,
    to: i32,
    index: usize,
) -> *const c_char {
    guard(|| {
        // SAFETY: the caller's promise.
        let devices = unsafe { handle(devices, "devices") }?;
        let (from, to) = devices.cell(from, to)?;
        Ok(devices.table[from][to].get(index).map_or(ptr::null(), |name| name.as_ptr()))
    })
}

/// Sets the RDMA devices of each rank towards each other one; the table is copied. Without this the
/// devices are found.
///
/// # Safety
/// As for lycaon_config_set_rank(); `devices` is a table that nobody changes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_rdma_devices(
    config: *mut lycaon_config,
    devices: *const lycaon_rdma_devices,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe {
        change(config, |builder| {
            let of = |name: &CString| name.to_string_lossy().into_owned();
            let cells = |row: &Vec<Vec<CString>>| {
                row.iter().map(|cell| cell.iter().map(of).collect()).collect()
            };
            let table = handle(devices, "devices")?.table.iter().map(cells).collect();
            Ok(builder.rdma_devices(table))
        })
    }
}

/// Sets the type of RDMA queue pairs.
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_rdma_queue_pairs(
    config: *mut lycaon_config,
    kind: queue_pairs_number,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe {
        change(config, |builder| {
            Ok(match queue_pairs(kind)? {
                Some(kind) => builder.rdma_queue_pairs(kind),
                None => builder,
            })
        })
    }
}

/// Sets which of its identifiers (GIDs) an RDMA device uses. Without this, one that fits the peer's.
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_rdma_gid_index(
    config: *mut lycaon_config,
    index: i32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.rdma_gid_index(natural(index, "index")?))) }
}
