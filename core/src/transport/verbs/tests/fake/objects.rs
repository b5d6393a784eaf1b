//! The objects of verbs.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::{Bytes, Net, Pair, Posted, Registered, Ring, Stage};
use crate::transport::verbs::api::*;

/// Regions must not cross a line that this divides.
const FOUR_GIB: u64 = 4 << 30;

/// The verbs of one host.
#[derive(Debug)]
pub(in super::super) struct Host {
    pub net: Arc<Net>,
    pub number: usize,
    pub keeps: bool,
}

impl Library for Host {
    fn name(&self) -> String {
        "fake".to_owned()
    }

    fn devices(&self) -> Result<Vec<DeviceName>, VerbsError> {
        let state = self.net.lock();
        if state.no_list {
            let errno = Errno { number: 38, system: System::Linux };
            let (device, verb) = ("any device".to_owned(), "ibv_get_device_list");
            return Err(VerbsError::Verb { device, verb, errno });
        }
        let own = state.devices.iter().filter(|device| device.host == self.number);
        Ok(own.map(|device| DeviceName { name: device.name.clone(), guid: 1 }).collect())
    }

    fn keeps_devices_open(&self) -> bool {
        self.keeps
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>, VerbsError> {
        let known: Vec<String> = self.devices()?.into_iter().map(|device| device.name).collect();
        if !known.iter().any(|known| known == name) {
            let (library, device) = (self.name(), name.to_owned());
            return Err(VerbsError::NoDevice { library, device, known });
        }
        let mut state = self.net.lock();
        let id = state.find((self.number, name));
        state.contexts += 1;
        let (name, net) = (name.to_owned(), Arc::clone(&self.net));
        drop(state);
        Ok(Arc::new(Context { net, id, name }))
    }
}

#[derive(Debug)]
struct Context {
    net: Arc<Net>,
    id: usize,
    name: String,
}

impl Drop for Context {
    fn drop(&mut self) {
        self.net.verb(self.id, "ibv_close_device").contexts -= 1;
    }
}

impl Device for Context {
    fn name(&self) -> &str {
        &self.name
    }

    fn quirks(&self) -> Quirks {
        self.net.lock().devices[self.id].quirks
    }

    fn attributes(&self) -> Result<DeviceAttributes, VerbsError> {
        Ok(self.net.verb(self.id, "ibv_query_device").devices[self.id].attributes)
    }

    fn port(&self, port: u8) -> Result<PortAttributes, VerbsError> {
        let state = self.net.verb(self.id, "ibv_query_port");
        if port != 1 {
            return Err(state.refused(self.id, "ibv_query_port", 22, 22));
        }
        let device = &state.devices[self.id];
        Ok(PortAttributes {
            state: device.port,
            active_mtu: Mtu(5),
            lid: u16::from(device.quirks.frame.is_some()),
            gid_table_len: 8,
            max_message: 4095 * 4096,
            link_layer: 2,
        })
    }

    fn gid(&self, _: u8, index: u32) -> Result<Option<Gid>, VerbsError> {
        let mut state = self.net.lock();
        let device = &mut state.devices[self.id];
        let found = device.gids.get(index as usize).copied().flatten();
        if found.is_some_and(|gid| gid.ipv4().is_some()) && device.late > 0 {
            device.late -= 1;
            return Ok(None);
        }
        Ok(found)
    }

    fn alloc_domain(self: Arc<Self>) -> Result<Arc<dyn Domain>, VerbsError> {
        let mut state = self.net.verb(self.id, "ibv_alloc_pd");
        let device = &state.devices[self.id];
        if device.no_domain || device.port != PortState::ACTIVE {
            return Err(state.refused(self.id, "ibv_alloc_pd", 0, 0));
        }
        if device.domains >= device.attributes.max_pd {
            return Err(state.refused(self.id, "ibv_alloc_pd", 96, 12));
        }
        state.devices[self.id].domains += 1;
        state.domains += 1;
        drop(state);
        Ok(Arc::new(Pd(self)))
    }
}

#[derive(Debug)]
struct Pd(Arc<Context>);

impl Drop for Pd {
    fn drop(&mut self) {
        let mut state = self.0.net.verb(self.0.id, "ibv_dealloc_pd");
        state.devices[self.0.id].domains -= 1;
        state.domains -= 1;
    }
}

impl Domain for Pd {
    fn register(self: Arc<Self>, memory: Arc<Memory>) -> Result<Box<dyn Region>, VerbsError> {
        let id = self.0.id;
        let mut state = self.0.net.verb(id, "ibv_reg_mr");
        let device = &state.devices[id];
        if device.regions + device.taken_regions >= device.attributes.max_mr {
            return Err(state.refused(id, "ibv_reg_mr", 12, 12));
        }
        let (first, last) = (memory.address(), memory.address() + memory.len() as u64 - 1);
        if let Some(most) = device.quirks.region
            && (first / FOUR_GIB != last / FOUR_GIB
                || memory.len() as u64 > most
                || !first.is_multiple_of(16 << 10))
        {
            state.violation(format!("a region of {} bytes at {first:#x}", memory.len()));
        }
        state.devices[id].regions += 1;
        let (key, born) = (state.number(), state.now());
        state.regions.insert(key, Registered { memory: Arc::clone(&memory), born });
        drop(state);
        Ok(Box::new(Mr { domain: self, memory, key }))
    }

    fn create_cq(
        self: Arc<Self>,
        _: u32,
        channel: bool,
    ) -> Result<Arc<dyn CompletionQueue>, VerbsError> {
        let id = self.0.id;
        let mut state = self.0.net.verb(id, "ibv_create_cq");
        let device = &mut state.devices[id];
        assert!(!channel || device.quirks.completion_channel, "it has none");
        if device.queues >= device.attributes.max_cq {
            return Err(state.refused(id, "ibv_create_cq", 12, 12));
        }
        device.queues += 1;
        let channel = channel.then(|| {
            let (reader, writer) = UnixStream::pair().expect("a pair of sockets");
            reader.set_nonblocking(true).expect("it can be asked not to block");
            Arc::new((reader, writer))
        });
        let number = state.number();
        let waiting = std::collections::BTreeMap::new();
        let ring = Ring { device: id, waiting, armed: false, channel: channel.clone() };
        state.rings.insert(number, ring);
        drop(state);
        Ok(Arc::new(Cq { domain: self, number, channel }))
    }
}

#[derive(Debug)]
struct Mr {
    domain: Arc<Pd>,
    memory: Arc<Memory>,
    key: u32,
}

impl Region for Mr {
    fn lkey(&self) -> u32 {
        self.key
    }

    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        let context = &self.domain.0;
        let mut state = context.net.verb(context.id, "ibv_dereg_mr");
        state.regions.remove(&self.key);
        state.devices[context.id].regions -= 1;
    }
}

#[derive(Debug)]
struct Cq {
    domain: Arc<Pd>,
    number: u32,
    channel: Option<Arc<(UnixStream, UnixStream)>>,
}

impl Cq {
    fn context(&self) -> &Context {
        &self.domain.0
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        let context = self.context();
        let mut state = context.net.verb(context.id, "ibv_destroy_cq");
        let ring = state.rings.remove(&self.number).expect("it is destroyed once");
        state.devices[ring.device].queues -= 1;
    }
}

impl CompletionQueue for Cq {
    fn poll(&self, most: usize, into: &mut Vec<Completion>) -> Result<usize, VerbsError> {
        let context = self.context();
        let mut state = context.net.lock();
        if state.devices[context.id].poll_fails {
            return Err(state.refused(context.id, "ibv_poll_cq", 0, 0));
        }
        state.travel(false);
        Ok(state.take(self.number, most, into))
    }

    fn channel(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(|channel| channel.0.as_fd())
    }

    fn arm(&self) -> Result<(), VerbsError> {
        let mut state = self.context().net.lock();
        state.travel(true);
        let ring = state.rings.get_mut(&self.number).expect("it exists");
        ring.armed = true;
        if !ring.waiting.is_empty() {
            ring.notify();
        }
        Ok(())
    }

    fn answer(&self) -> Result<(), VerbsError> {
        if let Some(channel) = &self.channel {
            while (&channel.0).read(&mut [0; 16]).is_ok() {}
        }
        Ok(())
    }

    fn create_qp(self: Arc<Self>, request: &QpRequest) -> Result<Box<dyn QueuePair>, VerbsError> {
        let context = self.context();
        let (id, verb) = (context.id, "ibv_create_qp");
        let mut state = context.net.verb(id, verb);
        let device = &state.devices[id];
        let allowed = match request.kind {
            QpType::Rc => device.quirks.rc && !device.no_reliable,
            QpType::Uc => device.quirks.uc,
        };
        if !allowed {
            return Err(state.refused(id, verb, 102, 95));
        }
        let QpDepth { send, recv, inline } = request.depth;
        if (inline > 0 && !device.quirks.inline) || send.max(recv) > device.attributes.max_qp_wr {
            return Err(state.refused(id, verb, 22, 22));
        }
        let most = device.quirks.queue_pairs.unwrap_or(device.attributes.max_qp);
        if device.queue_pairs + device.taken >= most {
            return Err(state.refused(id, verb, 16, 12));
        }
        let device = &mut state.devices[id];
        device.queue_pairs += 1;
        let deaf = device.deaf > 0;
        device.deaf = device.deaf.saturating_sub(1);
        let grant = device.grant;
        let number = state.number();
        let depth = QpDepth { send: send.min(grant), recv: recv.min(grant), inline };
        let pair = Pair {
            number,
            device: id,
            kind: request.kind,
            depth,
            stage: Stage::Reset,
            spoiled: false,
            peer: 0,
            ready: 0,
            ring: self.number,
            sends: Default::default(),
            receives: Default::default(),
            sending: 0,
            receiving: 0,
            deaf,
        };
        state.pairs.insert(number, pair);
        drop(state);
        Ok(Box::new(Qp { queue: self, number }))
    }
}

#[derive(Debug)]
struct Qp {
    queue: Arc<Cq>,
    number: u32,
}

impl Drop for Qp {
    fn drop(&mut self) {
        let context = self.queue.context();
        let mut state = context.net.verb(context.id, "ibv_destroy_qp");
        // What is on its way has left.
        while state.transmit(self.number) {}
        state.pairs.remove(&self.number);
        state.busy.remove(&self.number);
        if let Some(ring) = state.rings.get_mut(&self.queue.number) {
            ring.waiting.retain(|(pair, _), _| *pair != self.number);
        }
        state.devices[context.id].queue_pairs -= 1;
    }
}

impl QueuePair for Qp {
    fn number(&self) -> u32 {
        self.number
    }

    fn depth(&mut self) -> Result<QpDepth, VerbsError> {
        Ok(self.queue.context().net.lock().pairs[&self.number].depth)
    }

    fn modify(&mut self, transition: &Transition) -> Result<(), VerbsError> {
        let context = self.queue.context();
        let (id, verb) = (context.id, "ibv_modify_qp");
        let mut state = context.net.verb(id, verb);
        let stage = state.pairs[&self.number].stage;
        let next = match transition {
            Transition::Init { port: 1, .. } if stage == Stage::Reset => Stage::Init,
            Transition::ReadyToReceive(path) if stage == Stage::Init => {
                if state.pairs[&self.number].spoiled {
                    return Err(state.refused(id, verb, 16, 16));
                }
                let device = &mut state.devices[id];
                let forced = match &mut device.refuse {
                    Some((number, left)) if *left > 0 => {
                        *left -= 1;
                        Some(*number)
                    }
                    _ => None,
                };
                let device = &state.devices[id];
                let own = device.gids.get(usize::from(path.gid_index)).copied().flatten();
                let there = |gid: Gid| {
                    device.other.is_some_and(|other| state.devices[other].gids.contains(&Some(gid)))
                };
                let answer = match forced {
                    Some(number) => Some((number, number)),
                    None if path.gid.is_empty() || own.is_none() => Some((22, 22)),
                    None if path.mtu > Mtu(5) || path.kind != state.pairs[&self.number].kind => {
                        Some((22, 22))
                    }
                    None if !there(path.gid) => Some((60, 110)),
                    None => None,
                };
                if let Some((darwin, linux)) = answer {
                    state.pairs.get_mut(&self.number).expect("it exists").spoiled = true;
                    return Err(state.refused(id, verb, darwin, linux));
                }
                let now = state.now();
                let pair = state.pairs.get_mut(&self.number).expect("it exists");
                (pair.peer, pair.ready) = (path.number, now);
                Stage::Receiving
            }
            Transition::ReadyToSend { reliability, .. } if stage == Stage::Receiving => {
                let reliable = state.pairs[&self.number].kind == QpType::Rc;
                if reliability.is_some() != reliable {
                    return Err(state.refused(id, verb, 22, 22));
                }
                Stage::Sending
            }
            Transition::Error => {
                state.fail(self.number);
                return Ok(());
            }
            _ => return Err(state.refused(id, verb, 22, 22)),
        };
        state.pairs.get_mut(&self.number).expect("it exists").stage = next;
        Ok(())
    }

    fn post_send(&mut self, requests: &[SendRequest<'_>]) -> Result<(), VerbsError> {
        let context = self.queue.context();
        let (id, verb) = (context.id, "ibv_post_send");
        let mut state = context.net.lock();
        for request in requests {
            let len = match request.payload {
                Payload::Region(sge) => sge.len,
                Payload::Inline(bytes) => bytes.len() as u32,
            };
            let frames = state.frames(id, len);
            let pair = state.pairs.get_mut(&self.number).expect("it exists");
            if pair.stage == Stage::Failed {
                let flushed = Status::FLUSHED;
                let done = Completion {
                    id: request.id,
                    status: flushed,
                    qp: self.number,
                    bytes: 0,
                    vendor: 0,
                };
                state.complete(self.number, false, done, 0);
                continue;
            }
            let bytes = match request.payload {
                Payload::Region(sge) => Bytes::Region(sge),
                Payload::Inline(bytes) => Bytes::Inline(bytes.to_vec()),
            };
            let fits = match &bytes {
                Bytes::Inline(bytes) => bytes.len() <= pair.depth.inline as usize,
                Bytes::Region(_) => true,
            };
            if pair.stage != Stage::Sending || !fits {
                return Err(state.refused(id, verb, 22, 22));
            }
            if pair.sending + frames > pair.depth.send {
                state.violation("the send queue overflows".to_owned());
                return Err(state.refused(id, verb, 12, 12));
            }
            pair.sending += frames;
            pair.sends.push_back(Posted { id: request.id, signaled: request.signaled, bytes });
            let peer = pair.peer;
            state.busy.insert(self.number);
            // A peer that sleeps is woken by what arrives.
            let ring = state.pairs.get(&peer).map(|peer| peer.ring);
            let sleeps = ring.and_then(|ring| state.rings.get(&ring)).is_some_and(|r| r.armed);
            if sleeps || state.seed == 0 {
                while state.transmit(self.number) {}
            }
        }
        Ok(())
    }

    fn post_recv(&mut self, requests: &[RecvRequest]) -> Result<(), VerbsError> {
        let context = self.queue.context();
        let (id, verb) = (context.id, "ibv_post_recv");
        let mut state = context.net.lock();
        for request in requests {
            let frames = state.frames(id, request.into.len);
            let pair = state.pairs.get_mut(&self.number).expect("it exists");
            match pair.stage {
                Stage::Failed => {
                    let status = Status::FLUSHED;
                    let done =
                        Completion { id: request.id, status, qp: self.number, bytes: 0, vendor: 0 };
                    state.complete(self.number, true, done, 0);
                    continue;
                }
                Stage::Sending => {}
                _ => return Err(state.refused(id, verb, 22, 22)),
            }
            if pair.receiving + frames > pair.depth.recv {
                state.violation("the receive queue overflows".to_owned());
                return Err(state.refused(id, verb, 12, 12));
            }
            pair.receiving += frames;
            pair.receives.push_back(*request);
            let peer = pair.peer;
            // What waits for a receive goes on.
            if pair.kind == QpType::Rc && state.busy.contains(&peer) {
                state.transmit(peer);
            }
        }
        Ok(())
    }
}
