//! A worker on its way to rank 0.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::handshake::{
    HEAD, Introduction, Key, PROOF, VERDICT_HEAD, Verdict, handshake_key, random, worker_proof,
};
use super::rendezvous::{self, Backoff, Place, Target};
use super::session::GRACE;
use super::{file, interrupt};
use crate::config::Config;
use crate::error::{Error, StartError};
use crate::sys::fork::Private;
use crate::sys::interfaces;
use crate::sys::socket;

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How long rank 0 may take for its introduction, once connected.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// A worker on its way to rank 0.
pub(super) struct Seeker<'a> {
    pub(super) config: &'a Config,
    pub(super) introduction: Introduction,
    pub(super) token: &'a [u8],
    pub(super) began: Instant,
    pub(super) deadline: Instant,
}

/// A worker that rank 0 has welcomed.
pub(super) struct Joined {
    pub(super) stream: Private<TcpStream>,
    pub(super) early: Vec<u8>,
    pub(super) key: Key,
    pub(super) session: [u8; 32],
}

/// Why an attempt came to nothing.
enum Refusal {
    /// Worth another attempt.
    Again { peer: SocketAddr, reason: String },
    /// One side does not know the other's token.
    Unproven { peer: SocketAddr },
    /// Another job answered.
    OtherJob { theirs: String },
    /// The group cannot form, or the program does not want to wait.
    Final(StartError),
}

impl Seeker<'_> {
    pub(super) fn join(&self) -> Result<Joined, Error> {
        let rank = self.config.rank();
        let place = rendezvous::place(self.config)?;
        // A file may be stale and is read again soon; an address will not change.
        let longest = match place {
            Place::File(_) => Duration::from_millis(100),
            Place::Tcp { .. } | Place::Known(_) => Duration::from_millis(500),
        };
        let mut backoff = Backoff::new(longest);
        let mut last: Option<StartError> = None;
        loop {
            match self.target(&place) {
                Err(Error::Start(error @ StartError::Unreachable { .. })) => last = Some(error),
                Err(error) => return Err(error),
                Ok(target) => {
                    let key = handshake_key(self.token, &target.secret);
                    for address in &target.addresses {
                        match self.attempt(*address, &key) {
                            Ok(joined) => return Ok(joined),
                            Err(Refusal::Final(error)) => return Err(error.into()),
                            Err(Refusal::Unproven { peer }) => {
                                let peer = format!("rank 0 at {peer}");
                                let error = StartError::Authentication { rank, peer };
                                // A fresh secret comes with every file, so a stale one shows in
                                // this way; an address with a wrong token stays wrong.
                                if matches!(place, Place::Tcp { .. }) {
                                    return Err(error.into());
                                }
                                last = Some(error);
                            }
                            Err(Refusal::OtherJob { theirs }) => {
                                last = Some(StartError::Disagreement {
                                    what: "job".to_owned(),
                                    first: 0,
                                    first_value: format!("{theirs:?}"),
                                    second: rank,
                                    second_value: format!("{:?}", self.config.job()),
                                });
                            }
                            // The deadline may have cut the last attempt short; what ended the
                            // one before says more.
                            Err(Refusal::Again { .. })
                                if last.is_some() && Instant::now() >= self.deadline => {}
                            Err(Refusal::Again { peer, reason }) => {
                                last = Some(self.unreachable(&place, Some(peer), reason));
                            }
                        }
                    }
                }
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let nothing = || self.unreachable(&place, None, "nothing was found".to_owned());
                let mut error = last.unwrap_or_else(nothing);
                if let StartError::Unreachable { tried, .. } = &mut error {
                    *tried = self.began.elapsed();
                }
                return Err(error.into());
            }
            rendezvous::pause(rank, backoff.next().min(left))?;
        }
    }

    /// Rank 0 cannot listen: if it is because another rank 0 of this job does, both are named,
    /// here and there.
    pub(super) fn twin(&self) -> Option<StartError> {
        let place @ Place::Tcp { .. } = rendezvous::place(self.config).ok()? else { return None };
        let target = self.target(&place).ok()?;
        let key = handshake_key(self.token, &target.secret);
        target.addresses.iter().find_map(|address| match self.attempt(*address, &key) {
            Err(Refusal::Final(error @ StartError::DuplicateRank { .. })) => Some(error),
            _ => None,
        })
    }

    fn target(&self, place: &Place<'_>) -> Result<Target, Error> {
        let rank = self.config.rank();
        match place {
            Place::Known(target) => Ok(target.clone()),
            Place::File(path) => match file::read(path, self.config.job()) {
                Ok(note) => Ok(rendezvous::target(&note)),
                Err(reason) => Err(self.unreachable(place, None, reason).into()),
            },
            Place::Tcp { host, port } => {
                let addresses = rendezvous::resolve(rank, host, *port, self.deadline)?;
                rendezvous::check_loopback(self.config, host, &addresses)?;
                Ok(Target { addresses, secret: Vec::new() })
            }
        }
    }

    fn unreachable(
        &self,
        place: &Place<'_>,
        peer: Option<SocketAddr>,
        reason: String,
    ) -> StartError {
        let place = place.to_string();
        let address = match peer {
            Some(peer) if peer.to_string() != place => format!("{place} ({peer})"),
            _ => place,
        };
        let local = match peer.map(interfaces::source_address) {
            Some(Ok(source)) => interfaces::describe(source),
            Some(Err(error)) => format!("no local address leads there: {error}"),
            None => interfaces::host_name(),
        };
        StartError::Unreachable {
            rank: self.config.rank(),
            action: "connect to".to_owned(),
            address,
            local,
            tried: self.began.elapsed(),
            reason,
        }
    }

    fn attempt(&self, peer: SocketAddr, key: &Key) -> Result<Joined, Refusal> {
        let again = |reason: String| Refusal::Again { peer, reason };
        let io = |error: io::Error| again(error.to_string());
        let now = Instant::now();
        let until = self.deadline.min(now + ATTEMPT);
        let (stream, connected) = socket::connect(peer).map_err(io)?;
        if !connected {
            self.wait(&stream, true, until, peer)?;
            if let Some(error) = stream.take_error().map_err(io)? {
                return Err(io(error));
            }
        }
        // A free port of this host may connect to itself before rank 0 listens on it.
        if stream.local_addr().ok() == stream.peer_addr().ok() {
            return Err(again("the connection led back to itself".to_owned()));
        }
        stream.set_nodelay(true).map_err(io)?;
        let own = Introduction { nonce: random(), ..self.introduction.clone() };
        let hello = own.encode();
        self.write(&stream, &hello, peer)?;

        let until = self.deadline.min(Instant::now() + INTRODUCTION);
        let mut received = Vec::new();
        self.read(&stream, &mut received, HEAD, until, peer)?;
        let head = received.first_chunk::<HEAD>().expect("read gives at least this much");
        let length = HEAD + Introduction::body_length(head).map_err(again)?;
        self.read(&stream, &mut received, length, until, peer)?;
        let zero: Vec<u8> = received.drain(..length).collect();
        let theirs = Introduction::decode(&zero).map_err(again)?;
        if theirs.job != own.job {
            return Err(Refusal::OtherJob { theirs: theirs.job });
        }
        self.write(&stream, &worker_proof(key, &hello, &zero), peer)?;

        // From here on rank 0 may count this worker in, so it does not turn away any more.
        let until = self.deadline + GRACE;
        self.read(&stream, &mut received, VERDICT_HEAD, until, peer)?;
        let head = received.first_chunk::<VERDICT_HEAD>().expect("read gives at least this much");
        let length = VERDICT_HEAD + Verdict::rest_length(head);
        self.read(&stream, &mut received, length, until, peer)?;
        let verdict: Vec<u8> = received.drain(..length).collect();
        debug_assert!(verdict.len() >= VERDICT_HEAD + PROOF);
        match Verdict::decode(&verdict, key, &hello, &zero).map_err(again)? {
            Verdict::Welcome(session) => Ok(Joined { stream, early: received, key: *key, session }),
            Verdict::Refused(error) => Err(Refusal::Final(*error)),
            Verdict::Unknown => Err(Refusal::Unproven { peer }),
        }
    }

    fn wait(
        &self,
        stream: &TcpStream,
        write: bool,
        until: Instant,
        peer: SocketAddr,
    ) -> Result<(), Refusal> {
        loop {
            if interrupt::requested() {
                let rank = self.config.rank();
                return Err(Refusal::Final(StartError::Interrupted { rank }));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let reason = if write { "no answer" } else { "it said nothing more" };
                return Err(Refusal::Again { peer, reason: reason.to_owned() });
            }
            match socket::wait(stream, write, left.min(Duration::from_millis(50))) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => return Err(Refusal::Again { peer, reason: error.to_string() }),
            }
        }
    }

    /// Reads until `received` holds at least `length` bytes.
    fn read(
        &self,
        stream: &TcpStream,
        received: &mut Vec<u8>,
        length: usize,
        until: Instant,
        peer: SocketAddr,
    ) -> Result<(), Refusal> {
        let again = |reason: String| Refusal::Again { peer, reason };
        let mut buffer = [0; 4096];
        while received.len() < length {
            match (&*stream).read(&mut buffer) {
                Ok(0) => return Err(again("it closed the connection".to_owned())),
                Ok(count) => received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(stream, false, until, peer)?;
                }
                Err(error) => return Err(again(error.to_string())),
            }
        }
        Ok(())
    }

    /// A few kilobytes always fit into the buffer of a fresh connection.
    fn write(&self, stream: &TcpStream, bytes: &[u8], peer: SocketAddr) -> Result<(), Refusal> {
        match (&*stream).write(bytes) {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(count) => {
                Err(Refusal::Again { peer, reason: format!("only {count} bytes could be sent") })
            }
            Err(error) => Err(Refusal::Again { peer, reason: error.to_string() }),
        }
    }
}
