//! How groups come into being: from the environment, from a configuration, as threads of one
//! process, or as a part of another group.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::bootstrap::{self, interrupt};
use crate::call::Operation;
use crate::collective::Algorithm;
use crate::config::Config;
use crate::error::{LinkKind, Result, StartError};
use crate::fabric::{self, Arenas, Fabric, LocalWatch, Matrix, WaitPolicy, Watch};
use crate::transport::memory;

use super::Group;
use super::core::{GroupCore, Settings};
use super::tuner::{Hand, Tuner};

/// Starts the group that the environment describes.
///
/// `LYCAON_*` variables come first, then those of other launchers; [`Config`] lists them. Without
/// any of them the result is a group of one, in which everything works and moves no data. If some
/// are there but not all that are needed, that is an error and not a group of one.
pub fn init() -> Result<Group> {
    init_with(&Config::from_env()?)
}

/// Starts the group that a configuration describes.
///
/// All ranks have to call it; it returns when all links are there, and fails on every rank with the
/// same first cause if that does not happen within the configuration's start-up deadline.
pub fn init_with(config: &Config) -> Result<Group> {
    let settings = Arc::new(Settings {
        recorder_length: config.recorder(),
        start_timeout: config.start_timeout(),
    });
    let hand = Hand::from_config(config);
    let size = config.size();
    let fabric = if size == 1 {
        None
    } else {
        let session = bootstrap::session::start(config)?;
        Some(fabric::join(session, config)?)
    };
    let members: Arc<[usize]> = (0..size).collect();
    let group = assemble(0, config.rank(), members, fabric, hand, settings, config.timeout())?;
    tracing::info!(rank = group.rank(), size = group.size(), "the group is formed");
    Ok(group)
}

/// Operations that the flight recorder of a group keeps unless told otherwise.
const RECORDER: usize = 256;

/// How groups of threads behave; for [`in_process`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InProcess {
    /// How long an operation waits while nothing moves.
    pub timeout: Duration,
    /// Use memory that all threads see, as processes of one host do; else messages only.
    pub arena: bool,
    /// Algorithms chosen by hand.
    pub algorithms: Vec<(Operation, Algorithm)>,
    /// Only algorithms that sum in rank order.
    pub rank_order: bool,
    /// Random short transfers and delays in the links, drawn from this seed: weather for tests.
    pub weather: Option<u64>,
}

impl Default for InProcess {
    fn default() -> Self {
        InProcess {
            timeout: Duration::from_secs(30),
            arena: true,
            algorithms: Vec::new(),
            rank_order: false,
            weather: None,
        }
    }
}

/// Makes a group whose ranks are threads of this process: for tests and for trying things out. The
/// groups are returned in rank order; give each to a thread of its own.
///
/// ```
/// # fn main() -> lycaon::Result<()> {
/// let threads: Vec<_> = lycaon::in_process(3, &Default::default())?
///     .into_iter()
///     .map(|group| {
///         std::thread::spawn(move || {
///             let mut data = [group.rank() as i64 + 1];
///             group.all_reduce(&mut data, lycaon::Op::Sum)?;
///             Ok::<i64, lycaon::Error>(data[0])
///         })
///     })
///     .collect();
/// for thread in threads {
///     assert_eq!(thread.join().unwrap()?, 6);
/// }
/// # Ok(())
/// # }
/// ```
pub fn in_process(size: usize, options: &InProcess) -> Result<Vec<Group>> {
    let system = |action: &str, error: std::io::Error| StartError::System {
        rank: 0,
        action: action.to_owned(),
        reason: error.to_string(),
    };
    let memory_options = memory::Options { weather: options.weather, ..memory::Options::default() };
    let (endpoints, _) = memory::fabric(size, &memory_options)
        .map_err(|error| system("make links of memory", error))?;
    let arenas = Arenas::in_process(options.arena);
    let policy = WaitPolicy::for_ranks(size, None);
    let settings = Arc::new(Settings { recorder_length: RECORDER, start_timeout: options.timeout });
    let members: Arc<[usize]> = (0..size).collect();
    let hand = Hand {
        algorithms: options.algorithms.clone(),
        rank_order: options.rank_order,
        ..Hand::default()
    };
    let watches = LocalWatch::for_job(size);
    let mut groups = Vec::with_capacity(size);
    for (rank, (endpoint, watch)) in endpoints.into_iter().zip(watches).enumerate() {
        let links = (0..size)
            .map(|peer| (peer != rank).then(|| (LinkKind::Memory, "threads".to_owned())))
            .collect();
        let watch: Arc<dyn Watch> = Arc::new(watch);
        let fabric = (size > 1).then(|| {
            Fabric::new(
                rank,
                watch,
                policy,
                links,
                endpoint.poller,
                vec![Box::new(endpoint.transport)],
                Matrix::uniform(size, LinkKind::Memory),
                arenas.clone(),
            )
        });
        groups.push(assemble(
            0,
            rank,
            Arc::clone(&members),
            fabric,
            hand.clone(),
            Arc::clone(&settings),
            options.timeout,
        )?);
    }
    Ok(groups)
}

/// A part of a group as a group of its own; called by `split` on every member.
pub(super) fn sub_group(
    parent: &GroupCore,
    id: u64,
    rank: usize,
    members: Arc<[usize]>,
) -> Result<Group> {
    let fabric = if members.len() == 1 { None } else { parent.fabric.clone() };
    assemble(
        id,
        rank,
        members,
        fabric,
        parent.tuner.hand().clone(),
        Arc::clone(&parent.settings),
        parent.timeout(),
    )
}

fn assemble(
    id: u64,
    rank: usize,
    members: Arc<[usize]>,
    fabric: Option<Arc<Fabric>>,
    hand: Hand,
    settings: Arc<Settings>,
    timeout: Duration,
) -> Result<Group> {
    let tuner = Tuner::new(&members, fabric.as_ref().map(|fabric| &fabric.matrix), hand);
    let mut core = GroupCore::new(id, rank, members, fabric, tuner, settings, timeout);
    if let Some(fabric) = core.fabric.clone() {
        let members = Arc::clone(&core.members);
        // A hook may report an interruption once only, so it is kept until the exchange.
        let interrupted = Cell::new(false);
        let arena = fabric.arenas.form(
            id,
            rank,
            &members,
            &fabric.matrix,
            core.settings.start_timeout,
            &mut |own| {
                if interrupted.get() {
                    return Err(core.interrupt_exchange(own));
                }
                core.exchange_directly(own)
            },
            &mut || {
                interrupted.set(interrupted.get() || interrupt::requested());
                interrupted.get() || core.health.failure().is_some()
            },
        )?;
        core.set_arena(arena);
    }
    Ok(Group::from_core(core))
}
