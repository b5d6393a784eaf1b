//! Joining this rank with its peers: the lower rank of a pair connects, the higher one accepts.
//! One thread does all of it at the same time, without threads or blocking calls per connection.
//!
//! The connecting side tries all addresses of its peer at once and takes, of those that answer with
//! the job's proof, the best: first by medium (loopback, wired, wireless, virtual; of the two ends
//! the worse counts), then by nominal speed where both ends know it, then by the time it took to
//! connect. It waits [`GRACE`] for an address that would be better than what has answered.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::handshake::{CHALLENGE, CHOICE, Choice, HELLO, Hello, Secret, Stranger, WELCOME};
use super::listener::{Candidate, Listener};
use super::{Link, Rail, Route};
use crate::sys::fork::Private;
use crate::sys::interfaces::{self, LocalAddress, Medium};
use crate::sys::socket;

/// How long better addresses are waited for once one has answered.
const GRACE: Duration = Duration::from_millis(100);
/// How long one conversation may take before it is given up (and, if it is ours, begun again).
const CONVERSATION: Duration = Duration::from_secs(5);
/// First and longest pause before an address is tried again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// How often the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(50);
/// Strangers talked to at the same time; more have to wait in the system's queue.
const MOST_ACCEPTED: usize = 512;
/// Addresses tried per peer.
const MOST_CANDIDATES: usize = 32;

/// What to establish.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    /// This rank.
    pub me: usize,
    /// The peers to be joined with and where they listen.
    pub peers: &'a [(usize, Vec<Candidate>)],
    /// Both sides of every link must know it.
    pub key: &'a [u8; 32],
    /// Both sides of every link must belong to the same job.
    pub job: &'a [u8],
    /// Sockets per link.
    pub rails: usize,
    /// When to give up.
    pub deadline: Instant,
}

/// Not all links came into being.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum EstablishError {
    /// The caller asked for an end.
    #[error("interrupted while data links were being established")]
    Interrupted,
    /// The operating system refused something that concerns all links.
    #[error("{action}: {source}")]
    System {
        /// What was asked for.
        action: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// Some peers could not be joined.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Failed(Vec<LinkFailure>),
}

/// Why one link did not come into being.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkFailure {
    /// The other side (rank of the job).
    pub peer: usize,
    /// For how long it was tried.
    pub tried: Duration,
    /// The connecting side: what happened at each address. The accepting side: none.
    pub attempts: Vec<Attempt>,
    /// The accepting side: where it listened.
    pub listened: Vec<SocketAddr>,
}

/// What happened at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The peer's address.
    pub remote: SocketAddr,
    /// The own address on the way there, if there is a way.
    pub local: Option<IpAddr>,
    /// The interface it belongs to.
    pub interface: Option<String>,
    /// What went wrong last.
    pub reason: String,
}

impl fmt::Display for LinkFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no TCP link to rank {} after {:.1?}: ", self.peer, self.tried)?;
        if !self.listened.is_empty() {
            let at: Vec<_> = self.listened.iter().map(ToString::to_string).collect();
            return write!(f, "it did not connect to this rank at {}", at.join(", "));
        }
        if self.attempts.is_empty() {
            return f.write_str("it has published no address");
        }
        for (k, attempt) in self.attempts.iter().enumerate() {
            write!(f, "{}{}", if k > 0 { ", " } else { "" }, attempt.remote)?;
            match (&attempt.local, &attempt.interface) {
                (Some(local), Some(interface)) => write!(f, " from {local} ({interface})")?,
                (Some(local), None) => write!(f, " from {local}")?,
                (None, _) => f.write_str(" (no route)")?,
            }
            write!(f, ": {}", attempt.reason)?;
        }
        Ok(())
    }
}

/// Joins this rank with all peers of the request. `interrupted` is asked several times a second.
pub(crate) fn establish(
    listener: &Listener,
    request: &Request<'_>,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Link>, EstablishError> {
    let system = |action| move |source| EstablishError::System { action, source };
    let locals = interfaces::local_addresses().map_err(system("listing network interfaces"))?;
    let mut work = Work {
        request,
        locals,
        secret: Secret::new(request.key, request.job),
        accepting: Vec::new(),
        dials: Vec::new(),
        awaited: Vec::new(),
        listened: listener.candidates().iter().map(|candidate| candidate.address).collect(),
    };
    for (peer, candidates) in request.peers {
        if *peer > request.me {
            work.dials.push(Dial::new(*peer, candidates, &work.locals, request.rails));
        } else {
            work.awaited.push(Awaited { peer: *peer, rails: empty_rails(request.rails) });
        }
    }
    let start = Instant::now();
    loop {
        work.accept(listener).map_err(system("accepting a data connection"))?;
        work.serve();
        work.dial();
        if work.is_complete() {
            return Ok(work.into_links());
        }
        if interrupted() {
            return Err(EstablishError::Interrupted);
        }
        let now = Instant::now();
        if now >= request.deadline {
            return Err(EstablishError::Failed(work.failures(start.elapsed())));
        }
        let timeout = TICK.min(request.deadline - now).min(work.next_timer(now));
        work.sleep(listener, timeout).map_err(system("waiting for data connections"))?;
    }
}

struct Work<'a> {
    request: &'a Request<'a>,
    locals: Vec<LocalAddress>,
    secret: Secret,
    accepting: Vec<Accepting>,
    dials: Vec<Dial>,
    awaited: Vec<Awaited>,
    listened: Vec<SocketAddr>,
}

/// A socket with what is to be written and what is to be read exactly.
struct Conversation {
    socket: Rail,
    remote: SocketAddr,
    since: Instant,
    output: Vec<u8>,
    input: Vec<u8>,
}

/// A connection that somebody opened.
struct Accepting {
    talk: Conversation,
    hello: Option<(Hello, [u8; 32])>,
}

/// A peer that has to connect.
struct Awaited {
    peer: usize,
    rails: Vec<Option<Rail>>,
}

/// A peer to connect to.
struct Dial {
    peer: usize,
    tries: Vec<Try>,
    /// When the first address answered.
    answered: Option<Instant>,
    /// Which address was chosen.
    chosen: Option<Chosen>,
    rails: Vec<Option<Rail>>,
}

#[derive(Clone)]
struct Chosen {
    candidate: Candidate,
    round_trip: Duration,
}

/// One address, or one rail once the address is chosen.
struct Try {
    candidate: Candidate,
    /// Which rail it is to become, if that is known.
    rail: Option<usize>,
    state: TryState,
    pause: Duration,
    reason: String,
}

enum TryState {
    Paused {
        until: Instant,
    },
    Connecting(Conversation),
    Challenged {
        talk: Conversation,
        hello: Hello,
        round_trip: Duration,
    },
    /// It has answered with the proof and waits to be chosen.
    Answered {
        talk: Conversation,
        hello: Hello,
        nonce: [u8; 32],
        round_trip: Duration,
    },
    Welcoming {
        talk: Conversation,
        hello: Hello,
        nonce: [u8; 32],
        round_trip: Duration,
    },
}

fn empty_rails(rails: usize) -> Vec<Option<Rail>> {
    (0..rails).map(|_| None).collect()
}

impl Conversation {
    fn new(socket: Rail, remote: SocketAddr) -> Self {
        let (output, input) = (Vec::new(), Vec::new());
        Conversation { socket, remote, since: Instant::now(), output, input }
    }

    /// Writes what there is to write and reads towards a message of exactly `N` bytes, no further:
    /// what follows the handshake belongs to the link.
    fn pump<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        while !self.output.is_empty() {
            match socket::send(&self.socket, &[io::IoSlice::new(&self.output)]) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        while self.input.len() < N {
            let mut bytes = [0; N];
            let wanted = &mut bytes[..N - self.input.len()];
            match socket::receive(&self.socket, &mut [io::IoSliceMut::new(wanted)]) {
                Ok(0) => {
                    let what = "the other side ended the connection during the handshake";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
                }
                Ok(n) => self.input.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let message = self.input.as_slice().try_into().expect("exactly N bytes");
        self.input.clear();
        Ok(Some(message))
    }

    /// Whether connecting has come to an end.
    fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_overdue(&self) -> bool {
        self.since.elapsed() > CONVERSATION
    }
}

impl Work<'_> {
    fn accept(&mut self, listener: &Listener) -> io::Result<()> {
        for socket in &listener.sockets {
            while self.accepting.len() < MOST_ACCEPTED {
                match socket.accept() {
                    Ok((socket, remote)) => {
                        if let Err(error) = socket::prepare_data_socket(&socket) {
                            tracing::debug!(%remote, %error, "a data connection ended at once");
                            continue;
                        }
                        let talk = Conversation::new(Private::new(socket), remote);
                        self.accepting.push(Accepting { talk, hello: None });
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // The connection was gone before it was taken.
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
                        ) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Goes on with the connections that others have opened.
    fn serve(&mut self) {
        for mut accepting in std::mem::take(&mut self.accepting) {
            match self.serve_one(&mut accepting) {
                Ok(Served::Waiting) if accepting.talk.is_overdue() => {
                    let remote = accepting.talk.remote;
                    tracing::warn!(%remote, "a data connection was dropped: it said too little");
                }
                Ok(Served::Waiting) => self.accepting.push(accepting),
                Ok(Served::Rail { peer, rail }) => {
                    let awaited = self.awaited.iter_mut().find(|awaited| awaited.peer == peer);
                    let awaited = awaited.expect("checked with the first message");
                    awaited.rails[rail] = Some(accepting.talk.socket);
                }
                Err(Refusal::Stranger(reason)) => {
                    let remote = accepting.talk.remote;
                    tracing::warn!(%remote, %reason, "a data connection was dropped");
                }
                Err(Refusal::Io(error)) => {
                    // Most often an address that the other side did not choose.
                    let remote = accepting.talk.remote;
                    tracing::debug!(%remote, %error, "a data connection ended");
                }
            }
        }
    }

    fn serve_one(&self, accepting: &mut Accepting) -> Result<Served, Refusal> {
        let Accepting { talk, hello } = accepting;
        let me = self.request.me;
        if hello.is_none() {
            let Some(message) = talk.pump::<HELLO>()? else { return Ok(Served::Waiting) };
            let read = self.secret.read_hello(&message)?;
            if read.to as usize != me {
                return Err(Stranger::Misdirected { to: read.to, me }.into());
            }
            if !self.awaited.iter().any(|awaited| awaited.peer == read.from as usize) {
                return Err(Stranger::Unexpected { from: read.from }.into());
            }
            let nonce = nonce()?;
            talk.output.extend(self.secret.challenge(&read, &nonce));
            *hello = Some((read, nonce));
        }
        let Some((hello, nonce)) = hello else { return Ok(Served::Waiting) };
        let Some(message) = talk.pump::<CHOICE>()? else { return Ok(Served::Waiting) };
        let choice = self.secret.read_choice(hello, nonce, &message)?;
        let expected = self.request.rails;
        if usize::from(choice.rails) != expected || choice.rail >= choice.rails {
            return Err(Stranger::Rails { choice, expected }.into());
        }
        // why: the few bytes always fit the buffer of a fresh connection.
        let welcome = self.secret.welcome(hello, nonce);
        if socket::send(&talk.socket, &[io::IoSlice::new(&welcome)])? != WELCOME {
            return Err(io::Error::from(io::ErrorKind::WriteZero).into());
        }
        Ok(Served::Rail { peer: hello.from as usize, rail: usize::from(choice.rail) })
    }

    /// Goes on with the connections to others.
    fn dial(&mut self) {
        let now = Instant::now();
        for dial in &mut self.dials {
            if dial.rails.iter().all(Option::is_some) {
                continue;
            }
            let mut failed = false;
            for attempt in &mut dial.tries {
                let state = std::mem::replace(&mut attempt.state, TryState::Paused { until: now });
                let context = (self.request, &self.secret, dial.peer);
                match attempt.step(state, context) {
                    Ok(Step::Going(state)) => attempt.state = state,
                    Ok(Step::Rail { socket, rail }) => dial.rails[rail] = Some(socket),
                    Err(reason) => {
                        tracing::debug!(peer = dial.peer, address = %attempt.candidate.address,
                            %reason, "a data connection failed");
                        attempt.reason = reason;
                        attempt.state = TryState::Paused { until: now + jittered(attempt.pause) };
                        attempt.pause = (attempt.pause * 2).min(BACK_OFF.1);
                        failed = true;
                    }
                }
            }
            let rails = &dial.rails;
            dial.tries.retain(|attempt| attempt.rail.is_none_or(|rail| rails[rail].is_none()));
            if dial.chosen.is_none() {
                dial.choose(&self.locals, &self.secret, now);
            } else if failed && dial.rails.iter().all(Option::is_none) {
                // The chosen address does not keep what it promised: all are looked at again.
                let peer = dial.peer;
                let found = self.request.peers.iter().find(|(rank, _)| *rank == peer);
                if let Some((_, candidates)) = found {
                    let reasons = std::mem::take(&mut dial.tries);
                    let size = self.request.rails;
                    *dial = Dial::new(peer, candidates, &self.locals, size);
                    dial.remember(&reasons, now);
                }
            }
        }
    }

    fn is_complete(&self) -> bool {
        let dialled = self.dials.iter().map(|dial| &dial.rails);
        let mut all = dialled.chain(self.awaited.iter().map(|awaited| &awaited.rails));
        all.all(|rails| rails.iter().all(Option::is_some))
    }

    fn into_links(self) -> Vec<Link> {
        let locals = self.locals;
        let dialled = self
            .dials
            .into_iter()
            .map(|dial| (dial.peer, dial.rails, dial.chosen.map(|chosen| chosen.round_trip)));
        let accepted = self.awaited.into_iter().map(|awaited| (awaited.peer, awaited.rails, None));
        let mut links: Vec<Link> = dialled
            .chain(accepted)
            .map(|(peer, rails, round_trip)| {
                let rails: Vec<Rail> = rails.into_iter().flatten().collect();
                let route = route(&rails[0], &locals, round_trip);
                tracing::debug!(peer, local = %route.local, remote = %route.remote,
                    interface = route.interface, medium = %route.medium, "data link");
                Link { peer, rails, route }
            })
            .collect();
        links.sort_by_key(|link| link.peer);
        links
    }

    fn failures(&self, tried: Duration) -> Vec<LinkFailure> {
        let incomplete = |rails: &[Option<Rail>]| rails.iter().any(Option::is_none);
        let mut failures = Vec::new();
        for dial in self.dials.iter().filter(|dial| incomplete(&dial.rails)) {
            let attempts = dial.tries.iter().map(|attempt| attempt.describe(&self.locals));
            failures.push(LinkFailure {
                peer: dial.peer,
                tried,
                attempts: attempts.collect(),
                listened: Vec::new(),
            });
        }
        for awaited in self.awaited.iter().filter(|awaited| incomplete(&awaited.rails)) {
            let (attempts, listened) = (Vec::new(), self.listened.clone());
            failures.push(LinkFailure { peer: awaited.peer, tried, attempts, listened });
        }
        failures
    }

    /// When something is due without a socket becoming ready.
    fn next_timer(&self, now: Instant) -> Duration {
        let mut next = CONVERSATION;
        for dial in &self.dials {
            if let (None, Some(answered)) = (&dial.chosen, dial.answered) {
                next = next.min((answered + GRACE).saturating_duration_since(now));
            }
            for attempt in &dial.tries {
                if let TryState::Paused { until } = attempt.state {
                    next = next.min(until.saturating_duration_since(now));
                }
            }
        }
        next
    }

    fn sleep(&self, listener: &Listener, timeout: Duration) -> io::Result<()> {
        let mut waits: Vec<PollFd<'_>> = Vec::new();
        if self.accepting.len() < MOST_ACCEPTED {
            waits.extend(listener.sockets.iter().map(|s| PollFd::new(s, PollFlags::IN)));
        }
        let flags = |talk: &Conversation| {
            if talk.output.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
        };
        for Accepting { talk, .. } in &self.accepting {
            waits.push(PollFd::new(&talk.socket, flags(talk)));
        }
        for attempt in self.dials.iter().flat_map(|dial| &dial.tries) {
            match &attempt.state {
                TryState::Paused { .. } => {}
                TryState::Connecting(talk) => {
                    waits.push(PollFd::new(&talk.socket, PollFlags::OUT));
                }
                TryState::Challenged { talk, .. }
                | TryState::Answered { talk, .. }
                | TryState::Welcoming { talk, .. } => {
                    waits.push(PollFd::new(&talk.socket, flags(talk)));
                }
            }
        }
        socket::poll(&mut waits, Some(timeout))
    }
}

enum Served {
    Waiting,
    Rail { peer: usize, rail: usize },
}

enum Refusal {
    Stranger(Stranger),
    Io(io::Error),
}

impl From<Stranger> for Refusal {
    fn from(stranger: Stranger) -> Self {
        Refusal::Stranger(stranger)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal::Io(error)
    }
}

impl Dial {
    fn new(peer: usize, candidates: &[Candidate], locals: &[LocalAddress], rails: usize) -> Self {
        let now = Instant::now();
        let tries = candidates
            .iter()
            .flat_map(|candidate| with_own_scopes(candidate, locals))
            .take(MOST_CANDIDATES)
            .map(|candidate| Try::new(candidate, None, now))
            .collect();
        Dial { peer, tries, answered: None, chosen: None, rails: empty_rails(rails) }
    }

    /// Takes over what an earlier round has learnt.
    fn remember(&mut self, before: &[Try], now: Instant) {
        for attempt in &mut self.tries {
            let same = |old: &&Try| old.candidate.address == attempt.candidate.address;
            if let Some(old) = before.iter().find(same) {
                attempt.reason.clone_from(&old.reason);
                attempt.pause = old.pause;
                attempt.state = TryState::Paused { until: now + old.pause };
            }
        }
    }

    /// Takes the best address that has answered, unless a better one may still do.
    fn choose(&mut self, locals: &[LocalAddress], secret: &Secret, now: Instant) {
        let rank_of = |attempt: &Try| {
            let answered = match &attempt.state {
                TryState::Answered { talk, round_trip, .. } => {
                    Some((talk.socket.local_addr().ok()?, *round_trip))
                }
                _ => None,
            };
            let (local, round_trip) = answered?;
            let local = locals.iter().find(|address| address.ip == local.ip());
            let medium = local.map_or(Medium::Wired, |local| local.medium);
            let speed = local.and_then(|local| local.speed).zip(attempt.candidate.speed);
            let slowness = u32::MAX - speed.map_or(0, |(here, there)| here.min(there));
            Some((medium.max(attempt.candidate.medium), slowness, round_trip))
        };
        let best = (0..self.tries.len())
            .filter_map(|at| rank_of(&self.tries[at]).map(|rank| (rank, at)))
            .min();
        let Some(((medium, ..), at)) = best else { return };
        let answered = *self.answered.get_or_insert(now);
        let open = |attempt: &Try| !matches!(attempt.state, TryState::Answered { .. });
        let better = |attempt: &Try| {
            open(attempt) && attempt.candidate.medium <= medium && medium != Medium::Loopback
        };
        if self.tries.iter().any(better) && now < answered + GRACE {
            return;
        }
        let mut chosen = self.tries.swap_remove(at);
        let TryState::Answered { mut talk, hello, nonce, round_trip } = chosen.state else {
            unreachable!("only what has answered has a rank");
        };
        let rails = u16::try_from(self.rails.len()).expect("few rails");
        talk.output.extend(secret.choice(&hello, &nonce, Choice { rail: 0, rails }));
        chosen.state = TryState::Welcoming { talk, hello, nonce, round_trip };
        chosen.rail = Some(0);
        let candidate = chosen.candidate.clone();
        self.tries = vec![chosen];
        let others = (1..self.rails.len()).map(|rail| Try::new(candidate.clone(), Some(rail), now));
        self.tries.extend(others);
        self.chosen = Some(Chosen { candidate, round_trip });
        let Some(chosen) = &self.chosen else { return };
        tracing::debug!(peer = self.peer, address = %chosen.candidate.address, "address chosen");
    }
}

enum Step {
    Going(TryState),
    Rail { socket: Rail, rail: usize },
}

impl Try {
    fn new(candidate: Candidate, rail: Option<usize>, now: Instant) -> Self {
        let state = TryState::Paused { until: now };
        let reason = "no answer".to_owned();
        Try { candidate, rail, state, pause: BACK_OFF.0, reason }
    }

    /// Goes on as far as possible without waiting.
    fn step(
        &self,
        mut state: TryState,
        (request, secret, peer): (&Request<'_>, &Secret, usize),
    ) -> Result<Step, String> {
        let text = |error: io::Error| error.to_string();
        let number = |rank: usize| u32::try_from(rank).expect("ranks fit 32 bits");
        loop {
            state = match state {
                TryState::Paused { until } if Instant::now() < until => {
                    return Ok(Step::Going(state));
                }
                TryState::Paused { .. } => {
                    let (socket, _) = socket::connect(self.candidate.address).map_err(text)?;
                    TryState::Connecting(Conversation::new(socket, self.candidate.address))
                }
                TryState::Connecting(mut talk) => {
                    if !talk.is_connected().map_err(text)? {
                        overdue(&talk, "no answer")?;
                        return Ok(Step::Going(TryState::Connecting(talk)));
                    }
                    let round_trip = talk.since.elapsed();
                    socket::prepare_data_socket(&talk.socket).map_err(text)?;
                    let nonce = nonce().map_err(text)?;
                    let hello = Hello { from: number(request.me), to: number(peer), nonce };
                    talk.output.extend(secret.hello(&hello));
                    TryState::Challenged { talk, hello, round_trip }
                }
                TryState::Challenged { mut talk, hello, round_trip } => {
                    let Some(message) = talk.pump::<CHALLENGE>().map_err(text)? else {
                        overdue(&talk, "connected, but the other side does not greet")?;
                        return Ok(Step::Going(TryState::Challenged { talk, hello, round_trip }));
                    };
                    let nonce = secret
                        .read_challenge(&hello, &message)
                        .map_err(|stranger| format!("another program answers: {stranger}"))?;
                    let Some(rail) = self.rail else {
                        let state = TryState::Answered { talk, hello, nonce, round_trip };
                        return Ok(Step::Going(state));
                    };
                    let rail = u16::try_from(rail).expect("few rails");
                    let rails = u16::try_from(request.rails).expect("few rails");
                    talk.output.extend(secret.choice(&hello, &nonce, Choice { rail, rails }));
                    TryState::Welcoming { talk, hello, nonce, round_trip }
                }
                TryState::Answered { mut talk, hello, nonce, round_trip } => {
                    // Nothing is expected; this only notices that the other side has gone.
                    if talk.pump::<WELCOME>().map_err(text)?.is_some() {
                        return Err("the other side does not keep to the handshake".to_owned());
                    }
                    return Ok(Step::Going(TryState::Answered { talk, hello, nonce, round_trip }));
                }
                TryState::Welcoming { mut talk, hello, nonce, round_trip } => {
                    let Some(message) = talk.pump::<WELCOME>().map_err(text)? else {
                        overdue(&talk, "the other side does not finish the handshake")?;
                        let state = TryState::Welcoming { talk, hello, nonce, round_trip };
                        return Ok(Step::Going(state));
                    };
                    secret
                        .read_welcome(&hello, &nonce, &message)
                        .map_err(|stranger| stranger.to_string())?;
                    let rail = self.rail.expect("set before the choice was sent");
                    return Ok(Step::Rail { socket: talk.socket, rail });
                }
            };
        }
    }

    fn describe(&self, locals: &[LocalAddress]) -> Attempt {
        let remote = self.candidate.address;
        let local = interfaces::source_address(remote).ok();
        let interface = local.and_then(|ip| interface_of(ip, locals));
        Attempt { remote, local, interface, reason: self.reason.clone() }
    }
}

fn overdue(talk: &Conversation, what: &str) -> Result<(), String> {
    if talk.is_overdue() { Err(format!("{what} within {CONVERSATION:?}")) } else { Ok(()) }
}

fn nonce() -> io::Result<[u8; 32]> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(nonce)
}

/// Between three quarters and all of a pause, so that many ranks do not knock at the same time.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0];
    // why: without randomness all pauses are whole, which is only less polite.
    let _ = getrandom::fill(&mut byte);
    pause * 3 / 4 + pause * u32::from(byte[0]) / 1024
}

/// The scope of a link-local address means something only on the machine that published it: here
/// it is tried on every interface.
fn with_own_scopes(candidate: &Candidate, locals: &[LocalAddress]) -> Vec<Candidate> {
    match candidate.address {
        SocketAddr::V6(address) if address.ip().is_unicast_link_local() => {
            let scopes = locals.iter().filter(|local| local.up && local.scope != 0);
            let scoped = |local: &LocalAddress| {
                let mut address = address;
                address.set_scope_id(local.scope);
                Candidate { address: address.into(), ..candidate.clone() }
            };
            scopes.map(scoped).collect()
        }
        _ => vec![candidate.clone()],
    }
}

fn interface_of(ip: IpAddr, locals: &[LocalAddress]) -> Option<String> {
    locals.iter().find(|local| local.ip == ip).map(|local| local.interface.clone())
}

fn route(socket: &Rail, locals: &[LocalAddress], round_trip: Option<Duration>) -> Route {
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    let local = socket.local_addr().unwrap_or(unknown);
    let remote = socket.peer_addr().unwrap_or(unknown);
    let interface = locals.iter().find(|address| address.ip == local.ip());
    Route {
        local,
        remote,
        medium: interface.map_or(Medium::Wired, |interface| interface.medium),
        interface: interface.map(|interface| interface.interface.clone()),
        round_trip,
    }
}
