//! Configurations, and the program's own all-gather in place of a rendezvous.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use lycaon::Config;
use lycaon::config::{ConfigBuilder, Interface, Rendezvous, SideChannel};

use crate::error::{Failure, Outcome};
use crate::guard::{OK, Place, array, guard, handle, handle_mut, natural, text};
use crate::status::lycaon_status;
use crate::types::{
    algorithm, algorithm_number, link_kind, link_kind_number, operation, operation_number,
};

/// What a rank must know to join its group. Values that are not set have their defaults; docs/
/// launching.md has the list. One thread at a time may use it.
pub struct lycaon_config {
    builder: ConfigBuilder,
}

impl lycaon_config {
    pub(crate) fn checked(&self) -> Outcome<Config> {
        Ok(self.builder.clone().build()?)
    }

    fn change(&mut self, change: impl FnOnce(ConfigBuilder) -> ConfigBuilder) {
        self.builder = change(std::mem::take(&mut self.builder));
    }
}

/// Makes a configuration of which nothing is set: without more, a group of one.
#[unsafe(no_mangle)]
pub extern "C" fn lycaon_config_new() -> *mut lycaon_config {
    guard(|| Ok(Box::into_raw(Box::new(lycaon_config { builder: Config::builder() }))))
}

/// Makes a configuration from the environment, of which single values can then be replaced.
///
/// # Safety
/// `config` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_from_env(config: *mut *mut lycaon_config) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(config, "config") }?;
        let builder = ConfigBuilder::from_env()?;
        place.set(Box::into_raw(Box::new(lycaon_config { builder })))
    })
}

/// Makes a configuration from the settings in the environment (the LYCAON_ variables: token,
/// deadlines, links, …) without those that say which rank this is and where the ranks meet: the
/// program says that.
///
/// # Safety
/// `config` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_settings_from_env(
    config: *mut *mut lycaon_config,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(config, "config") }?;
        let builder = ConfigBuilder::settings_from_env()?;
        place.set(Box::into_raw(Box::new(lycaon_config { builder })))
    })
}

/// Frees a configuration; NULL is allowed.
///
/// # Safety
/// `config` comes from this library, has not been freed, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_free(config: *mut lycaon_config) {
    guard(|| {
        if !config.is_null() {
            // SAFETY: the pointer came from a box, and nobody else has it any more.
            drop(unsafe { Box::from_raw(config) });
        }
        Ok(())
    });
}

/// Checks the values against one another, as lycaon_init_with() does.
///
/// # Safety
/// `config` is a configuration that nobody changes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_check(config: *const lycaon_config) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { handle(config, "config") }?.checked()?;
        OK
    })
}

/// Changes a configuration.
///
/// # Safety
/// As for the exported functions: a configuration that nobody else uses during the call.
pub(crate) unsafe fn change(
    config: *mut lycaon_config,
    change: impl FnOnce(ConfigBuilder) -> Outcome<ConfigBuilder>,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let config = unsafe { handle_mut(config, "config") }?;
        // What fails leaves everything as it was.
        let changed = change(config.builder.clone())?;
        config.change(|_| changed);
        OK
    })
}

/// Sets the rank of this process.
///
/// # Safety
/// `config` is a configuration that nobody else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_rank(
    config: *mut lycaon_config,
    rank: i32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.rank(natural(rank, "rank")?))) }
}

/// Sets the number of ranks.
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_size(
    config: *mut lycaon_config,
    size: i32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.size(natural(size, "size")?))) }
}

/// Sets where the ranks meet: `host:port` or `[v6]:port` where rank 0 listens, or `file:/path` on a
/// disk that all ranks see.
///
/// # Safety
/// As for lycaon_config_set_rank(); `place` is a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_rendezvous(
    config: *mut lycaon_config,
    place: *const c_char,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe {
        change(config, |builder| {
            Ok(builder.rendezvous(text(place, "place")?.parse::<Rendezvous>()?))
        })
    }
}

/// Sets the secret that all ranks share: `length` bytes. It is needed if the rendezvous is not on
/// this machine.
///
/// # Safety
/// As for lycaon_config_set_rank(); `token` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_token(
    config: *mut lycaon_config,
    token: *const u8,
    length: usize,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.token(array(token, length, "token")?))) }
}

/// Sets a name that keeps jobs apart.
///
/// # Safety
/// As for lycaon_config_set_rank(); `job` is a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_job(
    config: *mut lycaon_config,
    job: *const c_char,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.job(text(job, "job")?))) }
}

/// Sets how long forming the group may take, in nanoseconds (60 s).
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_start_timeout_ns(
    config: *mut lycaon_config,
    timeout_ns: u64,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.start_timeout(Duration::from_nanos(timeout_ns)))) }
}

/// Sets how long an operation waits while nothing moves, in nanoseconds (30 s).
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_timeout_ns(
    config: *mut lycaon_config,
    timeout_ns: u64,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.timeout(Duration::from_nanos(timeout_ns)))) }
}

/// Sets the kinds of link that may be used, in order of preference.
///
/// # Safety
/// As for lycaon_config_set_rank(); `kinds` points to `count` kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_links(
    config: *mut lycaon_config,
    kinds: *const link_kind_number,
    count: usize,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe {
        change(config, |builder| {
            let kinds = array(kinds, count, "kinds")?;
            let kinds = kinds.iter().map(|kind| link_kind(*kind)).collect::<Outcome<Vec<_>>>()?;
            Ok(builder.links(kinds))
        })
    }
}

/// Sets the number of TCP sockets of a link, 1 to 64.
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_rails(
    config: *mut lycaon_config,
    rails: i32,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.rails(natural(rails, "rails")?))) }
}

/// Sets a name for this host; ranks with different names share no memory.
///
/// # Safety
/// As for lycaon_config_set_rank(); `id` is a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_host_id(
    config: *mut lycaon_config,
    id: *const c_char,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.host_id(text(id, "id")?))) }
}

/// Sets the local addresses or the names of interfaces that data may use, separated by commas.
///
/// # Safety
/// As for lycaon_config_set_rank(); `interfaces` is a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_interfaces(
    config: *mut lycaon_config,
    interfaces: *const c_char,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe {
        change(config, |builder| {
            let list = text(interfaces, "interfaces")?;
            Ok(builder.interfaces(
                list.split(',').map(str::trim).filter(|one| !one.is_empty()).map(|one| {
                    match one.parse() {
                        Ok(address) => Interface::Address(address),
                        Err(_) => Interface::Name(one.to_owned()),
                    }
                }),
            ))
        })
    }
}

/// Fixes the algorithm of an operation, or of all operations (LYCAON_OPERATION_NONE).
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_algorithm(
    config: *mut lycaon_config,
    of: operation_number,
    by: algorithm_number,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.algorithm(operation(of)?, algorithm(by)?))) }
}

/// Sets whether only algorithms that sum in rank order may be used.
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_rank_order(
    config: *mut lycaon_config,
    only: bool,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.rank_order(only))) }
}

/// Sets how long a wait polls before it sleeps in the kernel, in nanoseconds.
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_spin_ns(
    config: *mut lycaon_config,
    spin_ns: u64,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.spin(Duration::from_nanos(spin_ns)))) }
}

/// Sets the upper bound of the staging memory of a rank, in bytes (16 MiB).
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_staging(
    config: *mut lycaon_config,
    bytes: usize,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.staging(bytes))) }
}

/// Sets how many operations the flight recorder of a group keeps (256).
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_recorder(
    config: *mut lycaon_config,
    operations: usize,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.recorder(operations))) }
}

/// Sets the interval of the keep-alive on the control connection, in nanoseconds (5 s).
///
/// # Safety
/// As for lycaon_config_set_rank().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_liveness_ns(
    config: *mut lycaon_config,
    interval_ns: u64,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe { change(config, |builder| Ok(builder.liveness(Duration::from_nanos(interval_ns)))) }
}

/// Where an all-gather function puts its answer, with lycaon_gathered_set().
pub struct lycaon_gathered {
    entries: Vec<Option<Vec<u8>>>,
    error: Option<String>,
}

/// An all-gather of the program itself, in place of a rendezvous: every rank gives `mine`, and the
/// answer holds what each rank gave. It is called on the thread that starts the group, as often as
/// forming it needs, and returns 0; anything else is a failure, which lycaon_gathered_fail() can
/// explain.
pub type lycaon_all_gather_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        rank: i32,
        size: i32,
        mine: *const u8,
        length: usize,
        answer: *mut lycaon_gathered,
    ) -> i32,
>;

/// Puts what `rank` gave into the answer; the bytes are copied.
///
/// # Safety
/// `answer` is what an all-gather function was called with, during that call; `bytes` points to
/// `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_gathered_set(
    answer: *mut lycaon_gathered,
    rank: i32,
    bytes: *const u8,
    length: usize,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let answer = unsafe { handle_mut(answer, "answer") }?;
        let size = answer.entries.len();
        let at = crate::guard::rank(rank, size, "rank")?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { array(bytes, length, "bytes") }?.to_vec();
        let Some(entry) = answer.entries.get_mut(at) else {
            return Err(Failure::new(
                lycaon_status::NoSuchRank,
                format!("rank {rank} is not in the group, whose ranks are 0 to {}", size - 1),
            ));
        };
        *entry = Some(bytes);
        OK
    })
}

/// Says why the all-gather failed; the text is copied.
///
/// # Safety
/// As for lycaon_gathered_set(); `reason` is a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_gathered_fail(
    answer: *mut lycaon_gathered,
    reason: *const c_char,
) -> lycaon_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let (answer, reason) = unsafe { (handle_mut(answer, "answer")?, text(reason, "reason")?) };
        answer.error = Some(reason.to_owned());
        OK
    })
}

struct Callback {
    function:
        unsafe extern "C" fn(*mut c_void, i32, i32, *const u8, usize, *mut lycaon_gathered) -> i32,
    user_data: *mut c_void,
}

// SAFETY: who gives the function promises that it may be called with this from the thread that
// starts the group, whichever that is.
unsafe impl Send for Callback {}
// SAFETY: as above; one thread at a time starts a group with one configuration.
unsafe impl Sync for Callback {}

impl SideChannel for Callback {
    fn all_gather(&self, rank: usize, size: usize, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut answer = lycaon_gathered { entries: vec![None; size], error: None };
        let narrow = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
        // SAFETY: the promise of whoever gave the function; the arguments live through the call.
        let status = unsafe {
            (self.function)(
                self.user_data,
                narrow(rank),
                narrow(size),
                mine.as_ptr(),
                mine.len(),
                &raw mut answer,
            )
        };
        if let Some(error) = answer.error {
            return Err(error);
        }
        if status != 0 {
            return Err(format!("the function returned {status}"));
        }
        answer
            .entries
            .into_iter()
            .enumerate()
            .map(|(rank, entry)| {
                entry.ok_or_else(|| {
                    format!("the answer has nothing of rank {rank}; call lycaon_gathered_set() for every rank")
                })
            })
            .collect()
    }
}

/// Sets the program's own all-gather in place of a rendezvous.
///
/// # Safety
/// As for lycaon_config_set_rank(). The function may be called with `user_data` by every
/// lycaon_init_with() of this configuration, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lycaon_config_set_all_gather(
    config: *mut lycaon_config,
    function: lycaon_all_gather_fn,
    user_data: *mut c_void,
) -> lycaon_status {
    // SAFETY: the caller's promise.
    unsafe {
        change(config, |builder| {
            let function = function.ok_or_else(|| Failure::null("function"))?;
            let callback = Arc::new(Callback { function, user_data });
            Ok(builder.rendezvous(Rendezvous::SideChannel(callback)))
        })
    }
}
