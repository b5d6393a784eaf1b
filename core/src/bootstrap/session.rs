//! The start of a group: from a configuration to a control connection between all ranks.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::connection::{Connection, patience};
use super::control::{Command, Control, Shared, end_thread, spawn};
use super::handshake::{
    HEAD, Introduction, Key, PROOF, VERDICT_HEAD, Verdict, handshake_key, random, session_key,
    worker_proof,
};
use super::hub::{Hub, MAX_CONTRIBUTION, Opening, as_start_error, ranks};
use super::rendezvous::{self, Backoff, Place, Target};
use super::spoke::Spoke;
use super::wire::{Failure, MAX_FRAME};
use super::{file, interrupt};
use crate::config::Config;
use crate::error::{Error, StartError};
use crate::sys::net;

/// A worker leaves the verdict about a passed deadline to rank 0 for so long, so that all ranks
/// say the same.
const GRACE: Duration = Duration::from_millis(250);
/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How long rank 0 may take for its introduction, once connected.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// A group that is forming: every rank has met rank 0.
pub(crate) struct Session {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    key: Key,
    job: String,
    began: Instant,
    deadline: Instant,
    start_timeout: Duration,
    step: u32,
    local: Option<IpAddr>,
    over: bool,
}

/// Meets the other ranks. Returns when all are there, or with what went wrong first.
pub(crate) fn start(config: &Config) -> Result<Session, Error> {
    let began = Instant::now();
    let deadline = began + config.start_timeout();
    let (rank, size) = (config.rank(), config.size());
    let (shared, ear) = Shared::new(rank, size).map_err(|error| StartError::System {
        rank,
        action: "make a pair of sockets".to_owned(),
        reason: error.to_string(),
    })?;
    let mut session = Session {
        shared: Arc::clone(&shared),
        thread: None,
        key: session_key(&handshake_key(&[], &[]), config.job(), &random()),
        job: config.job().to_owned(),
        began,
        deadline,
        start_timeout: config.start_timeout(),
        step: 0,
        local: None,
        over: false,
    };
    let Some(ear) = ear else {
        shared.set_missing(Vec::new());
        return Ok(session);
    };
    let token = config.token().map_or(&[][..], |token| token.bytes());
    let introduction = Introduction::new(config);
    let patience = patience(config.liveness(), config.timeout());
    if rank == 0 {
        let meeting = match rendezvous::open(config, deadline) {
            Ok(meeting) => meeting,
            Err(error) => {
                let seeker = Seeker { config, introduction, token, began, deadline };
                return Err(seeker.twin().map_or(error, Error::Start));
            }
        };
        let key = handshake_key(token, &meeting.secret);
        let nonce = random();
        session.key = session_key(&key, config.job(), &nonce);
        let opening = Opening {
            listeners: meeting.listeners,
            published: meeting.published,
            introduction,
            key,
            session: nonce,
            start_timeout: config.start_timeout(),
            deadline,
            liveness: config.liveness(),
            patience,
        };
        let hub = Hub::new(Arc::clone(&shared), ear, opening);
        session.thread = Some(spawn(&shared, move || hub.run())?);
    } else {
        let joined = Seeker { config, introduction, token, began, deadline }.join()?;
        session.key = session_key(&joined.key, config.job(), &joined.session);
        session.local = joined.stream.local_addr().ok().map(|address| address.ip().to_canonical());
        if let Err(error) = net::tune_control(&joined.stream, config.liveness()) {
            tracing::warn!(%error, "options of the control connection could not be set");
        }
        let connection = Connection::new(joined.stream, &joined.early);
        let liveness = config.liveness();
        let spoke = Spoke { shared: Arc::clone(&shared), ear, connection, liveness, patience };
        session.thread = Some(spawn(&shared, move || spoke.run())?);
    }
    let complete = session.wait(|shared| shared.is_complete().then_some(()))?;
    match complete {
        Some(()) => Ok(session),
        None => {
            let missing = session.shared.missing();
            let waiting_for = missing.map_or_else(
                || "rank 0 did not say who is missing".to_owned(),
                |missing| format!("no word from {}", ranks(missing.iter().map(|r| *r as usize))),
            );
            Err(session.give_up(waiting_for).into())
        }
    }
}

impl Session {
    /// This rank.
    pub(crate) fn rank(&self) -> usize {
        self.shared.rank
    }

    /// Ranks of the job.
    pub(crate) fn size(&self) -> usize {
        self.shared.size
    }

    /// The process that is forming the group.
    pub(crate) fn owner(&self) -> u32 {
        self.shared.owner()
    }

    /// The name of the job.
    pub(crate) fn job(&self) -> &str {
        &self.job
    }

    /// A key that only the ranks of this very group have; data links authenticate each other
    /// with it.
    pub(crate) fn token_key(&self) -> &[u8; 32] {
        &self.key
    }

    /// When the group must have formed.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The address from which this rank reaches rank 0; `None` on rank 0 itself.
    pub(crate) fn local_address(&self) -> Option<IpAddr> {
        self.local
    }

    /// What failed first, if anything did anywhere.
    pub(crate) fn failure(&self) -> Option<StartError> {
        self.shared.failure().map(|(failure, _)| as_start_error(failure, self.rank()))
    }

    /// For loops that wait while the group forms: an error if another rank has failed, the
    /// program asks for an end, or the deadline has passed. `waiting_for` goes into the message.
    pub(crate) fn check(&self, waiting_for: impl FnOnce() -> String) -> Result<(), StartError> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let rank = self.rank();
        if interrupt::requested() {
            return Err(StartError::Interrupted { rank });
        }
        if Instant::now() >= self.deadline {
            let (within, waiting_for) = (self.start_timeout, waiting_for());
            return Err(StartError::Deadline { rank, within, waiting_for });
        }
        Ok(())
    }

    /// Every rank gives `mine` and gets what all have given, in rank order. All ranks make the
    /// same exchanges in the same order; `what` says what for.
    pub(crate) fn exchange(&mut self, what: &str, mine: &[u8]) -> Result<Vec<Vec<u8>>, StartError> {
        let (rank, size) = (self.rank(), self.size());
        if size == 1 {
            return Ok(vec![mine.to_vec()]);
        }
        let most = MAX_CONTRIBUTION.min(MAX_FRAME / 2 / size);
        if mine.len() > most {
            let error = StartError::System {
                rank,
                action: format!("exchange {what}"),
                reason: format!("{} bytes are more than the {most} allowed", mine.len()),
            };
            self.fail(&error);
            return Err(error);
        }
        let step = self.step;
        self.step += 1;
        let (name, bytes) = (what.to_owned(), mine.to_vec());
        self.shared.command(Command::Contribute { step, what: name, bytes });
        match self.wait(|shared| shared.take_gathered(step))? {
            Some(entries) => Ok(entries),
            None => Err(self.give_up(format!("the exchange of {what} did not end"))),
        }
    }

    /// Makes `error` everybody's first cause, unless there is one already.
    pub(crate) fn fail(&mut self, error: &StartError) {
        let rank = self.rank();
        let failure = Failure::Start { rank, error: error.clone() };
        if self.thread.is_none() {
            self.shared.fail(failure);
            return;
        }
        self.shared.command(Command::Fail(failure.clone()));
        // Its echo shows that rank 0 has it; without one this process must not wait for long.
        let until = Instant::now() + GRACE;
        let heard =
            |shared: &Shared| (shared.failure().is_some() || shared.is_alone()).then_some(());
        let _ = self.shared.wait(until, heard);
        self.shared.fail(failure);
    }

    /// The start is over.
    pub(crate) fn into_control(mut self) -> Control {
        self.over = true;
        self.shared.command(Command::Started);
        Control::new(Arc::clone(&self.shared), self.thread.take())
    }

    /// Waits for `done`, a failure anywhere (`Err`), or the deadline (`Ok(None)`).
    fn wait<T>(
        &mut self,
        mut done: impl FnMut(&Shared) -> Option<T>,
    ) -> Result<Option<T>, StartError> {
        let rank = self.rank();
        // Rank 0's thread watches the deadline for all.
        let until = self.deadline + GRACE;
        let result = self.shared.wait(until, |shared| match done(shared) {
            Some(found) => Some(Ok(found)),
            None => {
                let failed = |(failure, _): &(Failure, _)| as_start_error(failure, rank);
                let left = || {
                    shared.is_alone().then(|| StartError::RankFailed {
                        rank: 0,
                        reason: "it closed the group while others were forming it".to_owned(),
                    })
                };
                // Whoever ends the control thread has said why before.
                let alone = left();
                shared.failure().map(failed).or(alone).map(Err)
            }
        });
        match result {
            Ok(found) => found.transpose(),
            Err(()) => {
                let error = StartError::Interrupted { rank };
                self.fail(&error);
                Err(error)
            }
        }
    }

    fn give_up(&mut self, waiting_for: String) -> StartError {
        let (rank, within) = (self.rank(), self.start_timeout);
        let error = StartError::Deadline { rank, within, waiting_for };
        self.fail(&error);
        error
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.over || self.thread.is_none() {
            return;
        }
        if self.shared.is_forked() {
            std::mem::forget(self.thread.take());
            return;
        }
        if self.shared.failure().is_none() {
            let (rank, after) = (self.rank(), self.began.elapsed());
            let reason = format!("it gave up after {after:.1?}");
            self.fail(&StartError::RankFailed { rank, reason });
        }
        end_thread(&self.shared, &mut self.thread);
    }
}

/// A worker on its way to rank 0.
struct Seeker<'a> {
    config: &'a Config,
    introduction: Introduction,
    token: &'a [u8],
    began: Instant,
    deadline: Instant,
}

/// A worker that rank 0 has welcomed.
struct Joined {
    stream: TcpStream,
    early: Vec<u8>,
    key: Key,
    session: [u8; 32],
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
    fn join(&self) -> Result<Joined, Error> {
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
    fn twin(&self) -> Option<StartError> {
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
        let local = match peer.map(net::source_for) {
            Some(Ok(source)) => net::describe(source),
            Some(Err(error)) => format!("no local address leads there: {error}"),
            None => net::host_name(),
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
        let (stream, connected) = net::connect(peer).map_err(io)?;
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
            match net::wait(stream, write, left.min(Duration::from_millis(50))) {
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
