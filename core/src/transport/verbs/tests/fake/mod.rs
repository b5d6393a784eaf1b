//! Verbs without hardware: hosts with devices, joined by cables, within the process.
//!
//! It implements the traits of [`api`](crate::transport::verbs::api), not those of our links, and
//! imitates what providers do: limits, the errors of a path that leads elsewhere, frames that have
//! to match, depth in frames, receives in the order of their posts, nothing said of what is lost on
//! an unreliable connection. Messages are read from the sender's memory when they travel and not when
//! they are posted, and completions come late and in no order across queue pairs, as a seed says. What
//! a program must never do is written down as a [violation](Net::violations).

mod objects;
mod rules;
mod wire;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(super) use objects::Host;

use crate::transport::verbs::api::*;

/// A verb that hangs does so no longer than this.
const HANG: Duration = Duration::from_secs(30);

/// All hosts, and the cables between them.
#[derive(Debug, Default)]
pub(super) struct Net {
    state: Mutex<State>,
    released: Condvar,
}

/// A device: the host it is in, and its name there.
pub(super) type At<'a> = (usize, &'a str);

#[derive(Debug, Default)]
struct State {
    devices: Vec<DeviceState>,
    pairs: HashMap<u32, Pair>,
    rings: BTreeMap<u32, Ring>,
    regions: HashMap<u32, Registered>,
    contexts: u32,
    domains: u32,
    /// Queue pairs with something to send.
    busy: BTreeSet<u32>,
    next: u32,
    /// Counts what happens, to tell what was before.
    moment: u64,
    seed: u64,
    violations: Vec<String>,
    /// Devices cannot be listed.
    no_list: bool,
}

/// One device and what is wrong with it.
#[derive(Debug)]
pub(super) struct DeviceState {
    host: usize,
    name: String,
    quirks: Quirks,
    attributes: DeviceAttributes,
    /// The device at the other end of the cable.
    other: Option<usize>,
    gids: Vec<Option<Gid>>,
    queue_pairs: u32,
    regions: u32,
    domains: u32,
    queues: u32,
    /// Messages that it has sent, and their bytes.
    pub(super) sent: Sent,
    /// Its port.
    pub(super) port: PortState,
    /// Queue pairs that other processes have.
    pub(super) taken: u32,
    /// Regions that other processes have.
    pub(super) taken_regions: u32,
    /// Sends that vanish.
    pub(super) lose: u32,
    /// How many of its next queue pairs deliver nothing of what they send.
    pub(super) deaf: u32,
    /// Nothing leaves it and nothing arrives, and nobody is told.
    pub(super) silent: bool,
    /// There is no protection domain to be had.
    pub(super) no_domain: bool,
    /// What getting ready to receive is answered with, so many times.
    pub(super) refuse: Option<(i32, u32)>,
    /// Polls fail.
    pub(super) poll_fails: bool,
    /// The verb that does not return.
    pub(super) hang: Option<&'static str>,
    /// How often its table of identifiers is read before the address of its interface is there.
    pub(super) late: u32,
    /// The deepest queue it grants.
    pub(super) grant: u32,
    /// Reliable connections are refused, whatever its quirks say.
    no_reliable: bool,
    /// Changes a byte of the next so many messages.
    pub(super) corrupt: u32,
}

impl DeviceState {
    /// Reliable connections are refused from now on.
    pub(super) fn deny_reliable(&mut self) {
        self.no_reliable = true;
    }
}

/// Messages and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Reset,
    Init,
    Receiving,
    Sending,
    Failed,
}

#[derive(Debug)]
struct Pair {
    number: u32,
    device: usize,
    kind: QpType,
    depth: QpDepth,
    stage: Stage,
    /// Getting ready has failed: what was begun cannot be begun again.
    spoiled: bool,
    peer: u32,
    /// When it became ready to receive.
    ready: u64,
    ring: u32,
    sends: VecDeque<Posted>,
    receives: VecDeque<RecvRequest>,
    /// Frames in the queues, of requests that have not completed for the owner.
    sending: u32,
    receiving: u32,
    deaf: bool,
}

/// A send that is under way.
#[derive(Debug)]
struct Posted {
    id: u64,
    signaled: bool,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Region(Sge),
    Inline(Vec<u8>),
}

/// A completion queue: what has completed and was not polled yet, by queue pair and direction.
#[derive(Debug)]
struct Ring {
    device: usize,
    waiting: BTreeMap<(u32, bool), VecDeque<(Completion, u32)>>,
    armed: bool,
    channel: Option<Arc<(UnixStream, UnixStream)>>,
}

#[derive(Debug)]
struct Registered {
    memory: Arc<Memory>,
    born: u64,
}

impl Net {
    /// With completions that come late and out of order, as a seed says.
    pub(super) fn with_weather(seed: u64) -> Arc<Net> {
        let net = Net::default();
        net.lock().seed = seed | 1;
        Arc::new(net)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a device with one port and this table of identifiers.
    pub(super) fn add(
        &self,
        (host, name): At<'_>,
        quirks: Quirks,
        attributes: DeviceAttributes,
        gids: Vec<Option<Gid>>,
    ) {
        self.lock().devices.push(DeviceState {
            host,
            name: name.to_owned(),
            quirks,
            attributes,
            other: None,
            gids,
            queue_pairs: 0,
            regions: 0,
            domains: 0,
            queues: 0,
            sent: Sent::default(),
            port: PortState::ACTIVE,
            taken: 0,
            taken_regions: 0,
            lose: 0,
            deaf: 0,
            silent: false,
            no_domain: false,
            refuse: None,
            poll_fails: false,
            hang: None,
            late: 0,
            grant: 4095,
            no_reliable: false,
            corrupt: 0,
        });
    }

    /// Joins two devices by a cable.
    pub(super) fn cable(&self, first: At<'_>, second: At<'_>) {
        let mut state = self.lock();
        let (first, second) = (state.find(first), state.find(second));
        state.devices[first].other = Some(second);
        state.devices[second].other = Some(first);
    }

    /// Changes or reads a device.
    pub(super) fn on<T>(&self, device: At<'_>, change: impl FnOnce(&mut DeviceState) -> T) -> T {
        let mut state = self.lock();
        let at = state.find(device);
        let result = change(&mut state.devices[at]);
        drop(state);
        self.released.notify_all();
        result
    }

    /// Changes all devices of a host.
    pub(super) fn on_host(&self, host: usize, change: impl Fn(&mut DeviceState)) {
        let mut state = self.lock();
        state.devices.iter_mut().filter(|device| device.host == host).for_each(change);
    }

    /// From now on devices cannot be listed, as where the kernel has no RDMA.
    pub(super) fn deny_listing(&self) {
        self.lock().no_list = true;
    }

    /// Everything posted on a device's queue pairs is flushed.
    pub(super) fn flush(&self, device: At<'_>) {
        let mut state = self.lock();
        let at = state.find(device);
        let pairs: Vec<u32> =
            state.pairs.values().filter(|pair| pair.device == at).map(|pair| pair.number).collect();
        for pair in pairs {
            state.fail(pair);
        }
    }

    /// What was done that must not be.
    pub(super) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Queue pairs that exist.
    pub(super) fn pairs(&self) -> usize {
        self.lock().pairs.len()
    }

    /// Everything that exists: contexts, domains, completion queues, regions and queue pairs.
    pub(super) fn resources(&self) -> [usize; 5] {
        let state = self.lock();
        [
            state.contexts as usize,
            state.domains as usize,
            state.rings.len(),
            state.regions.len(),
            state.pairs.len(),
        ]
    }

    /// What all devices of a host have sent.
    pub(super) fn sent(&self, host: usize) -> Sent {
        let state = self.lock();
        let of = state.devices.iter().filter(|device| device.host == host);
        of.fold(Sent::default(), |sum, device| Sent {
            messages: sum.messages + device.sent.messages,
            bytes: sum.bytes + device.sent.bytes,
        })
    }

    /// Waits as long as this verb of a device hangs.
    fn verb(&self, device: usize, verb: &'static str) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        let until = Instant::now() + HANG;
        while state.devices[device].hang == Some(verb) && Instant::now() < until {
            let wait = self.released.wait_timeout(state, Duration::from_millis(50));
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

impl State {
    fn find(&self, (host, name): At<'_>) -> usize {
        let found = self.devices.iter().position(|d| d.host == host && d.name == name);
        found.unwrap_or_else(|| panic!("host {host} has no device {name}"))
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn now(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// A number below `limit`; always 0 in fine weather.
    fn dice(&mut self, limit: u64) -> u64 {
        if self.seed == 0 {
            return 0;
        }
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % limit
    }

    fn violation(&mut self, text: String) {
        self.violations.push(text);
    }

    /// A verb of a device is refused, with the number of its system: Darwin where frames count.
    fn refused(&self, device: usize, verb: &'static str, darwin: i32, linux: i32) -> VerbsError {
        let apple = self.devices[device].quirks.frame.is_some();
        let errno = match apple {
            true => Errno { number: darwin, system: System::Darwin },
            false => Errno { number: linux, system: System::Linux },
        };
        VerbsError::Verb { device: self.devices[device].name.clone(), verb, errno }
    }

    /// How much of a queue's depth a request of so many bytes takes.
    fn frames(&self, device: usize, bytes: u32) -> u32 {
        self.devices[device].quirks.frame.map_or(1, |frame| bytes.div_ceil(frame).max(1))
    }

    /// Something has completed on a queue pair; `frames` of its queue become free with it.
    fn complete(&mut self, pair: u32, receive: bool, completion: Completion, frames: u32) {
        let Some(ring) = self.pairs.get(&pair).map(|pair| pair.ring) else { return };
        let Some(ring) = self.rings.get_mut(&ring) else { return };
        ring.waiting.entry((pair, receive)).or_default().push_back((completion, frames));
        ring.notify();
    }
}

impl Ring {
    fn notify(&mut self) {
        if let Some(channel) = &self.channel
            && std::mem::take(&mut self.armed)
        {
            (&channel.1).write_all(&[1]).expect("the channel has room for an event");
        }
    }
}
