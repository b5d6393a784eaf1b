//! Handing the segment from the leading rank of a host to the others.
//!
//! The leader makes an [`Offer`], which reaches the others over the control connections. They
//! connect to the socket it names, both sides prove that they know its secret, and the descriptors
//! of the segment and of everybody's bell are passed.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::layout::{Layout, Settings};
use super::{Segment, ShmError};
use crate::sys::doorbell::Doorbell;
use crate::sys::fdpass::{self, Listener};
use crate::sys::shm::Mapping;
use crate::sys::socket;
use crate::transport::arena::MAX_RANKS;

const MAGIC: [u8; 8] = *b"lycn-shm";
/// Changes whenever the layout of a segment or the messages of this module do.
const VERSION: u32 = 2;
/// Longest silence of one connection while it joins.
const SILENCE: Duration = Duration::from_secs(2);
/// Pause between two attempts to connect, and between two questions whether to stop.
const RETRY: Duration = Duration::from_millis(10);

const NONCE: usize = 16;
const MAC: usize = 32;
/// magic, version, rank, nonce, mac
const HELLO: usize = 8 + 4 + 4 + NONCE + MAC;
/// magic, version, layout, mac
const GRANT: usize = 8 + 4 + Layout::ENCODED + MAC;
const JOINED: u8 = 1;

const _: () = assert!(MAX_RANKS * Doorbell::PARTS < fdpass::MOST);

/// What the other ranks of the host need to know to join. It travels over authenticated
/// connections only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offer {
    name: [u8; 12],
    secret: [u8; 32],
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offer").field("name", &self.socket()).finish_non_exhaustive()
    }
}

impl Offer {
    /// A new one, not to be guessed.
    pub(crate) fn new() -> Result<Offer, ShmError> {
        let mut offer = Offer { name: [0; 12], secret: [0; 32] };
        fill(&mut offer.name)?;
        fill(&mut offer.secret)?;
        Ok(offer)
    }

    /// Bytes of the fixed form.
    pub(crate) const BYTES: usize = 44;

    /// The fixed form.
    pub(crate) fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..12].copy_from_slice(&self.name);
        bytes[12..].copy_from_slice(&self.secret);
        bytes
    }

    /// Reads the form that [`Offer::to_bytes`] writes.
    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Offer {
        let mut offer = Offer { name: [0; 12], secret: [0; 32] };
        offer.name.copy_from_slice(&bytes[..12]);
        offer.secret.copy_from_slice(&bytes[12..]);
        offer
    }

    fn socket(&self) -> String {
        self.name.iter().fold("lycaon-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.secret).expect("a key of any length will do");
        parts.iter().for_each(|part| mac.update(part));
        mac
    }

    fn sign(&self, parts: &[&[u8]]) -> [u8; MAC] {
        self.mac(parts).finalize().into_bytes().into()
    }

    fn is_signed(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        self.mac(parts).verify_slice(mac).is_ok()
    }
}

fn fill(bytes: &mut [u8]) -> Result<(), ShmError> {
    getrandom::fill(bytes)
        .map_err(|error| ShmError::System { what: "drawing random numbers", source: error.into() })
}

/// The leader's side, until all have joined. The leader is rank 0 of the host.
#[derive(Debug)]
pub(crate) struct ShmHost {
    listener: Listener,
    offer: Offer,
    layout: Layout,
    memory: Mapping,
    bells: Vec<Doorbell>,
}

impl ShmHost {
    /// Creates the segment and listens for the others. Those who try earlier keep trying.
    pub(crate) fn create(settings: &Settings, offer: Offer) -> Result<ShmHost, ShmError> {
        let layout = Layout::new(settings)?;
        let listener =
            Listener::bind(&offer.socket()).map_err(ShmError::system("listening for the ranks"))?;
        let memory =
            Mapping::create(layout.total()).map_err(ShmError::system("creating the segment"))?;
        let bells = (0..settings.ranks)
            .map(|_| Doorbell::new())
            .collect::<io::Result<_>>()
            .map_err(ShmError::system("creating the bells"))?;
        Ok(ShmHost { listener, offer, layout, memory, bells })
    }

    /// Hands the segment to all other ranks. Strangers are dropped and hold nobody up. `stop` is
    /// asked all the time, on this thread; if it says so, this ends with [`ShmError::Stopped`].
    pub(crate) fn serve(
        self,
        deadline: Instant,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Segment, ShmError> {
        let start = Instant::now();
        let ranks = self.layout.geometry.ranks;
        let joined = Mutex::new(vec![false; ranks]);
        let set = |rank: usize| joined.lock().expect("nobody panics with it")[rank] = true;
        let missing = || -> Vec<usize> {
            let joined = joined.lock().expect("nobody panics with it");
            (0..ranks).filter(|rank| !joined[*rank]).collect()
        };
        set(0);
        std::thread::scope(|scope| {
            let mut streams = Vec::new();
            let mut welcome = || {
                while !missing().is_empty() {
                    if stop() {
                        return Err(ShmError::Stopped);
                    }
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    // In short steps, because a rank may be joining on another thread.
                    let connection = self.listener.accept(left.min(RETRY));
                    match connection.map_err(ShmError::system("accepting a rank"))? {
                        Some(stream) if fdpass::same_user(&stream) => {
                            let stream = Arc::new(stream);
                            streams.push(Arc::clone(&stream));
                            let host = &self;
                            scope.spawn(move || match host.admit(&stream, left.min(SILENCE)) {
                                Ok(rank) => set(rank),
                                Err(error) => tracing::warn!(%error, "a process did not join"),
                            });
                        }
                        Some(_) => tracing::warn!("a process of another user tried to join"),
                        None => (),
                    }
                }
                Ok(())
            };
            let outcome = welcome();
            // Those who still talk are not waited for. Ranks that joined have said all they had to.
            for stream in &streams {
                let _ = stream.shutdown(Shutdown::Both);
            }
            outcome
        })?;
        let missing = missing();
        if !missing.is_empty() {
            return Err(ShmError::Missing { missing, waited: start.elapsed() });
        }
        Segment::new(self.memory, self.layout, 0, self.bells)
    }

    /// Hands the segment to one rank, if it is one.
    fn admit(&self, stream: &UnixStream, silence: Duration) -> io::Result<usize> {
        limit(stream, silence)?;
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce)?;
        (&*stream).write_all(&nonce)?;
        let mut hello = [0; HELLO];
        (&*stream).read_exact(&mut hello)?;
        let (signed, mac) = hello.split_at(HELLO - MAC);
        let refuse = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if signed[..8] != MAGIC {
            return refuse("it is no rank of this library");
        }
        if !self.offer.is_signed(&[b"member", &nonce, signed], mac) {
            return refuse("it does not know the secret of this start");
        }
        // A rank of another version learns of it from the grant.
        let rank = u32::from_le_bytes(signed[12..16].try_into().expect("4 bytes")) as usize;
        if rank == 0 || rank >= self.layout.geometry.ranks {
            return refuse("its rank is not one of this host");
        }
        let mut grant = [0; GRANT];
        grant[..8].copy_from_slice(&MAGIC);
        grant[8..12].copy_from_slice(&VERSION.to_le_bytes());
        grant[12..GRANT - MAC].copy_from_slice(&self.layout.encode());
        let mac = self.offer.sign(&[b"leader", &signed[16..], &grant[..GRANT - MAC]]);
        grant[GRANT - MAC..].copy_from_slice(&mac);
        let memory = self.memory.file().expect("a segment to hand on is a file");
        let descriptors: Vec<_> =
            std::iter::once(memory).chain(self.bells.iter().flat_map(Doorbell::parts)).collect();
        fdpass::send(stream, &grant, &descriptors)?;
        let mut answer = [0];
        (&*stream).read_exact(&mut answer)?;
        if answer != [JOINED] {
            return refuse("it could not use the segment");
        }
        Ok(rank)
    }
}

fn limit(stream: &UnixStream, silence: Duration) -> io::Result<()> {
    let silence = silence.max(Duration::from_millis(1));
    stream.set_read_timeout(Some(silence))?;
    stream.set_write_timeout(Some(silence))
}

/// Joins as `rank` (not 0) of the `ranks` of this host what the leader has offered. `stop` is asked
/// all the time; if it says so, this ends with [`ShmError::Stopped`].
pub(crate) fn attach(
    offer: &Offer,
    ranks: usize,
    rank: usize,
    deadline: Instant,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Segment, ShmError> {
    let start = Instant::now();
    loop {
        if stop() {
            return Err(ShmError::Stopped);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let attempt = fdpass::connect(&offer.socket())
            .map_err(Attempt::Again)
            .and_then(|stream| join(offer, ranks, rank, &stream, left.min(SILENCE), stop));
        match attempt {
            Ok(segment) => return Ok(segment),
            Err(Attempt::Final(error)) => return Err(error),
            Err(Attempt::Again(last)) if Instant::now() + RETRY >= deadline => {
                return Err(ShmError::NoLeader { waited: start.elapsed(), last });
            }
            Err(Attempt::Again(_)) => std::thread::sleep(RETRY),
        }
    }
}

enum Attempt {
    /// The leader is not there yet, or was too slow.
    Again(io::Error),
    /// It will not get better.
    Final(ShmError),
}

impl From<io::Error> for Attempt {
    fn from(error: io::Error) -> Self {
        Attempt::Again(error)
    }
}

impl From<ShmError> for Attempt {
    fn from(error: ShmError) -> Self {
        Attempt::Final(error)
    }
}

/// Until the leader says something. What it says comes in one piece.
fn await_answer(
    stream: &UnixStream,
    silence: Duration,
    stop: &mut dyn FnMut() -> bool,
) -> Result<(), Attempt> {
    let until = Instant::now() + silence;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if socket::wait(stream, false, left.min(RETRY))? {
            return Ok(());
        }
        if stop() {
            return Err(ShmError::Stopped.into());
        }
        if left.is_zero() {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
    }
}

fn join(
    offer: &Offer,
    ranks: usize,
    rank: usize,
    stream: &UnixStream,
    silence: Duration,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Segment, Attempt> {
    limit(stream, silence)?;
    await_answer(stream, silence, stop)?;
    let mut theirs = [0; NONCE];
    (&*stream).read_exact(&mut theirs)?;
    let mut hello = [0; HELLO];
    let number = u32::try_from(rank).expect("a host has few ranks");
    hello[..8].copy_from_slice(&MAGIC);
    hello[8..12].copy_from_slice(&VERSION.to_le_bytes());
    hello[12..16].copy_from_slice(&number.to_le_bytes());
    fill(&mut hello[16..16 + NONCE])?;
    let mac = offer.sign(&[b"member", &theirs, &hello[..HELLO - MAC]]);
    hello[HELLO - MAC..].copy_from_slice(&mac);
    (&*stream).write_all(&hello)?;

    await_answer(stream, silence, stop)?;
    let mut grant = [0; GRANT];
    let descriptors = fdpass::receive(stream, &mut grant)?;
    let (signed, mac) = grant.split_at(GRANT - MAC);
    if !offer.is_signed(&[b"leader", &hello[16..16 + NONCE], signed], mac) || signed[..8] != MAGIC {
        let what = "an answer that is not signed with the secret of this start";
        return Err(ShmError::Protocol { what }.into());
    }
    let version = u32::from_le_bytes(signed[8..12].try_into().expect("4 bytes"));
    let same = |what, theirs: u64, ours: u64| {
        if theirs == ours { Ok(()) } else { Err(ShmError::Differs { what, theirs, ours }) }
    };
    same("the version of the segment", version.into(), VERSION.into())?;
    let layout = Layout::decode(signed[12..].try_into().expect("the length of a layout"))
        .ok_or(ShmError::Protocol { what: "a layout that makes no sense" })?;
    same("the number of ranks of this host", layout.geometry.ranks as u64, ranks as u64)?;
    let mut descriptors = descriptors.into_iter();
    let few = ShmError::Protocol { what: "too few descriptors" };
    let Some(memory) = descriptors.next() else { return Err(few.into()) };
    let bells: Vec<_> = (0..ranks).map_while(|_| Doorbell::from_parts(&mut descriptors)).collect();
    if bells.len() != ranks {
        return Err(few.into());
    }
    let memory =
        Mapping::open(memory, layout.total()).map_err(ShmError::system("mapping the segment"))?;
    let segment = Segment::new(memory, layout, rank, bells)?;
    (&*stream).write_all(&[JOINED])?;
    Ok(segment)
}
