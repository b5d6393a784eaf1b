//! Open devices, shared by everything in the process that uses them.
//!
//! A device is opened once per process: one context, one protection domain, and registered memory
//! out of which all links take their slots. With the library of the system it stays open until the
//! process ends: there are drivers that do not get back all of what is given back to them, and
//! opening takes time. Each transport has one completion queue per device, its
//! [`Port`].

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::RdmaError;
use super::api::{
    self, Completion, CompletionQueue, Device, DeviceAttributes, Domain, Library, Memory,
    QpRequest, QueuePair, Quirks, Reason, Region,
};
use super::guard::retire;
use crate::sys::owner::Owner;

/// Memory is taken in pieces of at least this size.
const PIECE: usize = 4 << 20;
/// Completions taken at a time.
const BATCH: usize = 64;

/// A device that this process has opened.
#[derive(Debug)]
pub(crate) struct OpenDevice {
    slab: Mutex<Vec<Piece>>,
    used: Mutex<Used>,
    /// There until this is dropped.
    domain: Option<Arc<dyn Domain>>,
    pub(super) device: Arc<dyn Device>,
    pub(super) attributes: DeviceAttributes,
    pub(super) quirks: Quirks,
    /// Keeps the address by which devices are known, too.
    library: Arc<dyn Library>,
}

/// What this process has of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    queue_pairs: u32,
    regions: u32,
    queues: u32,
}

/// One registered piece of memory.
#[derive(Debug)]
struct Piece {
    region: Arc<dyn Region>,
    /// What nobody has, ordered, no two touching.
    free: Vec<Range<usize>>,
}

/// A device that was opened.
struct Known {
    /// Its library.
    library: usize,
    name: String,
    device: Weak<OpenDevice>,
    /// Where devices stay open as long as the process lives.
    _kept: Option<Arc<OpenDevice>>,
    owner: Owner,
}

impl OpenDevice {
    /// The device, opened if it is not yet.
    pub(super) fn get(library: &Arc<dyn Library>, name: &str) -> Result<Arc<Self>, RdmaError> {
        static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
        let key = Arc::as_ptr(library).cast::<()>() as usize;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        // What a forked child finds here is its parent's, and is left alone.
        for entry in known.extract_if(.., |entry| entry.owner.if_not_us().is_some()) {
            std::mem::forget(entry);
        }
        known.retain(|entry| entry.device.strong_count() > 0);
        let same = |entry: &Known| entry.library == key && entry.name == name;
        if let Some(open) = known.iter().find(|e| same(e)).and_then(|e| e.device.upgrade()) {
            if open.device.attributes().is_ok() {
                return Ok(open);
            }
            // why: a device that was taken out and put in again has its name, and needs opening.
            known.retain(|entry| !same(entry));
        }
        let device = library.open(name)?;
        let mut attributes = device.attributes()?;
        let quirks = device.quirks();
        if let Some(most) = quirks.queue_pairs {
            attributes.max_qp = attributes.max_qp.min(most);
        }
        // why: some providers open a device whose port is down, and give no domain without a word.
        let domain = Arc::clone(&device).alloc_domain().map_err(|error| {
            let state = |port| match device.port(port) {
                Ok(found) => format!("port {port} is {}", found.state),
                Err(error) => error.to_string(),
            };
            let states: Vec<String> = (1..=attributes.ports.max(1)).map(state).collect();
            RdmaError::Domain { device: name.to_owned(), states: states.join(", "), error }
        })?;
        let open = Arc::new(OpenDevice {
            slab: Mutex::new(Vec::new()),
            used: Mutex::new(Used::default()),
            domain: Some(domain),
            device,
            attributes,
            quirks,
            library: Arc::clone(library),
        });
        known.push(Known {
            library: key,
            name: name.to_owned(),
            device: Arc::downgrade(&open),
            _kept: library.keeps_devices_open().then(|| Arc::clone(&open)),
            owner: Owner::this(),
        });
        Ok(open)
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        self.device.name()
    }

    fn domain(&self) -> Arc<dyn Domain> {
        Arc::clone(self.domain.as_ref().expect("it is there until this is dropped"))
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the device has enough of everything before anything is made.
    pub(super) fn check_budget(&self, queue_pairs: u32) -> Result<(), RdmaError> {
        let used = *self.used();
        for (what, limit, used, wanted) in [
            ("queue pairs", self.attributes.max_qp, used.queue_pairs, queue_pairs),
            ("memory regions", self.attributes.max_mr, used.regions, 1),
            ("completion queues", self.attributes.max_cq, used.queues, 1),
        ] {
            if limit > 0 && used.saturating_add(wanted) > limit {
                let device = self.name().to_owned();
                return Err(RdmaError::Budget { device, what, limit, used, wanted });
            }
        }
        Ok(())
    }

    /// Registered memory. All that a start needs is asked for at once, so that one region holds
    /// it.
    pub(super) fn take(self: &Arc<Self>, len: usize) -> Result<Share, RdmaError> {
        let len = len.next_multiple_of(16 << 10);
        let mut slab = self.slab.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in slab.iter_mut() {
            if let Some(range) = carve(&mut piece.free, len) {
                let (device, region) = (Arc::clone(self), piece.region.clone());
                return Ok(Share { region, range, device });
            }
        }
        let most = self.quirks.region.unwrap_or(u64::MAX);
        if len as u64 > most {
            let (device, limit) = (self.name().to_owned(), most);
            return Err(RdmaError::Slab { device, wanted: len as u64, limit });
        }
        self.check_budget(0)?;
        let size = len.max(PIECE).min(usize::try_from(most).unwrap_or(usize::MAX));
        let align = self.quirks.region.map_or(16 << 10, |region| region as usize);
        let memory = Memory::new(size, align)
            .map_err(|error| RdmaError::Memory { wanted: size, reason: error.to_string() })?;
        let region = self.domain().register(memory).map_err(|error| {
            let device = self.name().to_owned();
            match (error.reason(), lockable()) {
                // why: the word for too little lockable memory and for too many regions is "out of
                // memory". Without a limit it is the regions.
                (Some(Reason::Memory), None) if self.attributes.max_mr > 0 => {
                    let (limit, used) = (self.attributes.max_mr, self.used().regions);
                    RdmaError::Taken { device, what: "memory regions", limit, used, error }
                }
                (Some(Reason::Memory), limit) => {
                    RdmaError::Locked { device, wanted: size, limit, error }
                }
                _ => RdmaError::Verbs(error),
            }
        })?;
        let region: Arc<dyn Region> = region.into();
        self.used().regions += 1;
        let range = 0..len;
        let free = std::iter::once(len..region.memory().len()).collect();
        let piece = Piece { region: region.clone(), free };
        slab.push(piece);
        Ok(Share { region, range, device: Arc::clone(self) })
    }

    fn give_back(&self, region: &Arc<dyn Region>, range: Range<usize>) {
        let mut slab = self.slab.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(piece) = slab.iter_mut().find(|piece| Arc::ptr_eq(&piece.region, region)) {
            release(&mut piece.free, range);
        }
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        let slab = std::mem::take(self.slab.get_mut().unwrap_or_else(PoisonError::into_inner));
        let device = Arc::clone(&self.device);
        retire("memory, domain and device", (slab, self.domain.take(), device));
    }
}

/// How much memory this process may lock.
fn lockable() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Memlock).current
}

/// Takes `len` out of a list of free ranges.
fn carve(free: &mut Vec<Range<usize>>, len: usize) -> Option<Range<usize>> {
    let at = free.iter().position(|range| range.len() >= len)?;
    let start = free[at].start;
    free[at].start += len;
    if free[at].is_empty() {
        free.remove(at);
    }
    Some(start..start + len)
}

/// Puts a range back and joins it with its neighbours.
fn release(free: &mut Vec<Range<usize>>, range: Range<usize>) {
    let at = free.partition_point(|other| other.start < range.start);
    free.insert(at, range);
    if at + 1 < free.len() && free[at].end == free[at + 1].start {
        free[at].end = free.remove(at + 1).end;
    }
    if at > 0 && free[at - 1].end == free[at].start {
        free[at - 1].end = free.remove(at).end;
    }
}

/// A part of a device's registered memory.
#[derive(Debug)]
pub(super) struct Share {
    region: Arc<dyn Region>,
    range: Range<usize>,
    /// After the region, so that it is the device that lets go of it last.
    device: Arc<OpenDevice>,
}

impl Share {
    pub(super) fn lkey(&self) -> u32 {
        self.region.lkey()
    }

    /// Where byte `at` is, for the device.
    pub(super) fn address(&self, at: usize) -> u64 {
        self.region.memory().address() + (self.range.start + at) as u64
    }

    pub(super) fn read(&self, at: usize, into: &mut [u8]) {
        assert!(at + into.len() <= self.range.len(), "outside of the share");
        self.region.memory().read(self.range.start + at, into);
    }

    pub(super) fn write(&self, at: usize, from: &[u8]) {
        assert!(at + from.len() <= self.range.len(), "outside of the share");
        self.region.memory().write(self.range.start + at, from);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.device.give_back(&self.region, self.range.clone());
    }
}

/// A queue pair that is counted.
#[derive(Debug)]
pub(super) struct CountedPair {
    /// There until this is dropped.
    pair: Option<Box<dyn QueuePair>>,
    device: Arc<OpenDevice>,
}

impl CountedPair {
    pub(super) fn pair(&mut self) -> &mut dyn QueuePair {
        &mut **self.pair.as_mut().expect("it is there until this is dropped")
    }

    pub(super) fn number(&self) -> u32 {
        self.pair.as_ref().expect("it is there until this is dropped").number()
    }
}

impl Drop for CountedPair {
    fn drop(&mut self) {
        retire("a queue pair", self.pair.take());
        self.device.used().queue_pairs -= 1;
    }
}

/// A device as one transport uses it.
#[derive(Debug)]
pub(crate) struct Port {
    /// There until this is dropped.
    queue: Option<Arc<dyn CompletionQueue>>,
    state: Mutex<PortState>,
    pub(super) can_sleep: bool,
    pub(super) device: Arc<OpenDevice>,
}

#[derive(Debug, Default)]
struct PortState {
    /// By link; `None` where the link is gone.
    inboxes: Vec<Option<VecDeque<Completion>>>,
    batch: Vec<Completion>,
    armed: bool,
    failed: Option<String>,
    /// Numbers of the physical ports that links use.
    used: Vec<u8>,
}

/// A name for a posted request: whose it is, of which class, in which direction, which slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub inbox: u32,
    pub class: u8,
    pub receive: bool,
    pub slot: u16,
}

impl Ticket {
    pub(super) fn encode(self) -> u64 {
        u64::from(self.inbox) << 32
            | u64::from(self.class) << 24
            | u64::from(self.receive) << 16
            | u64::from(self.slot)
    }

    pub(super) fn decode(id: u64) -> Ticket {
        Ticket {
            inbox: (id >> 32) as u32,
            class: (id >> 24) as u8,
            receive: id >> 16 & 1 == 1,
            slot: id as u16,
        }
    }
}

impl Port {
    /// A port for so many completions at a time.
    pub(super) fn new(device: Arc<OpenDevice>, entries: u32) -> Result<Arc<Port>, RdmaError> {
        let limit = device.attributes.max_cqe;
        if limit > 0 && entries > limit {
            return Err(RdmaError::Budget {
                device: device.name().to_owned(),
                what: "entries of a completion queue",
                limit,
                used: 0,
                wanted: entries,
            });
        }
        let can_sleep = device.quirks.completion_channel;
        let queue = device.domain().create_cq(entries, can_sleep)?;
        device.used().queues += 1;
        Ok(Arc::new(Port { queue: Some(queue), state: Mutex::default(), can_sleep, device }))
    }

    fn state(&self) -> MutexGuard<'_, PortState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> &Arc<dyn CompletionQueue> {
        self.queue.as_ref().expect("it is there until this is dropped")
    }

    /// What keeps the physical ports from being used, if something does.
    pub(super) fn trouble(&self) -> Option<String> {
        let used = self.state().used.clone();
        used.into_iter().find_map(|port| match self.device.device.port(port) {
            Ok(found) if found.state == api::PortState::ACTIVE => None,
            Ok(found) => Some(format!("port {port} is {}", found.state)),
            Err(error) => Some(error.to_string()),
        })
    }

    /// Ends all links of this port.
    pub(super) fn fail(&self, reason: String) {
        self.state().failed.get_or_insert(reason);
    }

    /// A place for the completions of one link, which uses this physical port.
    pub(super) fn open_inbox(&self, port: u8) -> u32 {
        let mut state = self.state();
        if !state.used.contains(&port) {
            state.used.push(port);
        }
        state.inboxes.push(Some(VecDeque::new()));
        u32::try_from(state.inboxes.len() - 1).expect("fewer than 2^32 links")
    }

    /// A queue pair whose completions come to this port.
    pub(super) fn create_qp(&self, request: &QpRequest) -> Result<CountedPair, RdmaError> {
        let mut made = Arc::clone(self.queue()).create_qp(request);
        if made.as_ref().is_err_and(|error| error.reason() != Some(Reason::Busy))
            && request.depth.inline > 0
        {
            // why: how much may be inline is not told before; without it, it goes as well.
            let depth = api::QpDepth { inline: 0, ..request.depth };
            made = Arc::clone(self.queue()).create_qp(&QpRequest { depth, ..*request });
        }
        let pair = made.map_err(|error| match error.reason() {
            Some(Reason::Busy) => {
                let (limit, used) = (self.device.attributes.max_qp, self.device.used().queue_pairs);
                let device = self.device.name().to_owned();
                RdmaError::Taken { device, what: "queue pairs", limit, used, error }
            }
            _ => RdmaError::Verbs(error),
        })?;
        self.device.used().queue_pairs += 1;
        Ok(CountedPair { pair: Some(pair), device: Arc::clone(&self.device) })
    }

    /// Takes the completions of one link.
    pub(super) fn collect(
        &self,
        inbox: u32,
        into: &mut VecDeque<Completion>,
    ) -> Result<(), String> {
        let mut state = self.state();
        let at = inbox as usize;
        if state.inboxes[at].as_ref().is_none_or(VecDeque::is_empty) {
            if std::mem::take(&mut state.armed) {
                self.queue().answer().map_err(|error| error.to_string())?;
            }
            self.poll(&mut state)?;
        }
        if let Some(inbox) = &mut state.inboxes[at] {
            into.append(inbox);
        }
        Ok(())
    }

    fn poll(&self, state: &mut PortState) -> Result<(), String> {
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        loop {
            let count = match self.queue().poll(BATCH, &mut state.batch) {
                Ok(count) => count,
                Err(error) => {
                    let text = error.to_string();
                    state.failed = Some(text.clone());
                    return Err(text);
                }
            };
            let PortState { inboxes, batch, .. } = state;
            for completion in batch.drain(..) {
                // What belongs to nobody is of a queue pair that was given up.
                let at = Ticket::decode(completion.id).inbox as usize;
                if let Some(Some(inbox)) = inboxes.get_mut(at) {
                    inbox.push_back(completion);
                }
            }
            if count < BATCH {
                return Ok(());
            }
        }
    }

    /// For a link that begins (anew): drops what has come.
    pub(super) fn clear(&self, inbox: u32) {
        self.state().inboxes[inbox as usize] = Some(VecDeque::new());
    }

    /// For a link that is gone: what still comes for it must not keep others from sleeping.
    pub(super) fn close_inbox(&self, inbox: u32) {
        self.state().inboxes[inbox as usize] = None;
    }

    /// Prepares for sleep. Returns `false` if there is something to look at.
    pub(super) fn arm(&self) -> Result<bool, String> {
        let mut state = self.state();
        if self.can_sleep {
            self.queue().arm().map_err(|error| error.to_string())?;
            state.armed = true;
        }
        self.poll(&mut state)?;
        Ok(state.inboxes.iter().flatten().all(VecDeque::is_empty))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        retire("a completion queue", self.queue.take());
        self.device.used().queues -= 1;
    }
}

/// The completion channel of a port, for the poller.
#[derive(Debug)]
pub(super) struct Channel(pub(super) Arc<Port>);

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.queue().channel().expect("only ports that can sleep are registered")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_round_trip() {
        for ticket in [
            Ticket { inbox: 0, class: 0, receive: false, slot: 0 },
            Ticket { inbox: u32::MAX, class: 1, receive: true, slot: u16::MAX },
            Ticket { inbox: 77, class: 1, receive: false, slot: 3 },
        ] {
            assert_eq!(Ticket::decode(ticket.encode()), ticket);
        }
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let mut free: Vec<_> = std::iter::once(0..100).collect();
        let parts: Vec<_> = (0..10).map(|_| carve(&mut free, 10).unwrap()).collect();
        assert!(free.is_empty() && carve(&mut free, 1).is_none());
        for at in [3, 5, 4, 0, 9, 8, 1, 2, 7, 6] {
            release(&mut free, parts[at].clone());
        }
        assert!(free.len() == 1 && free[0] == (0..100), "{free:?}");
    }
}
