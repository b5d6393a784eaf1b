//! The control thread of rank 0: admits the workers, carries the exchanges of the start, watches
//! over everybody afterwards, and keeps the list of what failed, which is the same for all.

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::connection::{Connection, End};
use super::control::{Command, Shared, hush};
use super::failure::{as_cause, as_start_error, ranks};
use super::file::Published;
use super::guest::{Guest, Outcome};
use super::handshake::{Introduction, Key, Verdict};
use super::scope::{Failures, Scope};
use super::wire::{Failure, Frame};
use crate::error::{Cause, StartError};
use crate::sys::fork::Private;
use crate::sys::socket;

/// For so long the end of a rank's own control connection is awaited after another rank has lost
/// its link to it: a death explains more than a broken link.
const DOUBT: Duration = Duration::from_millis(100);
/// How long closing waits for the others to close their side.
const LINGER: Duration = Duration::from_millis(300);
/// How long a start that has failed still answers late ranks.
const LATE: Duration = Duration::from_millis(700);
/// At most so often the ranks that are waiting hear who is missing.
const NEWS: Duration = Duration::from_millis(200);
/// So often rank 0 looks whether its rendezvous file is still its own.
const RECHECK: Duration = Duration::from_millis(500);
/// Strangers that may be in their handshake at the same time, beside the group's own.
const MAX_GUESTS: usize = 64;
/// The largest contribution of a rank to an exchange.
pub(super) const MAX_CONTRIBUTION: usize = 4 << 20;

enum Slot {
    Absent,
    Here(Connection),
    /// Said goodbye; the connection may still be open.
    Left(Option<Connection>),
    Gone,
}

impl Slot {
    fn connection(&mut self) -> Option<&mut Connection> {
        match self {
            Slot::Here(connection) | Slot::Left(Some(connection)) => Some(connection),
            Slot::Absent | Slot::Left(None) | Slot::Gone => None,
        }
    }
}

/// A report that waits for a better explanation.
struct Doubt {
    until: Instant,
    from: usize,
    scope: Scope,
    cause: Cause,
}

pub(super) struct Hub {
    shared: Arc<Shared>,
    ear: UnixStream,
    listeners: Vec<Private<TcpListener>>,
    published: Option<Published>,
    introduction: Introduction,
    key: Key,
    session: [u8; 32],
    start_timeout: Duration,
    deadline: Instant,
    liveness: Duration,
    patience: u32,
    guests: Vec<Guest>,
    /// By rank; rank 0 itself is `Absent` in it.
    slots: Vec<Slot>,
    /// Where each rank is, for messages.
    places: Vec<String>,
    complete: bool,
    started: bool,
    news: Option<Instant>,
    recheck: Instant,
    /// What could not prove itself, for the message of the deadline.
    unproven: Vec<String>,
    step: u32,
    contributions: Vec<Option<(String, Vec<u8>)>>,
    doubts: Vec<Doubt>,
    failures: Failures,
    /// The first of them: what ends a start that is not over.
    failure: Option<Failure>,
    left: bool,
    closing: Option<Instant>,
}

/// What the hub needs to begin.
pub(super) struct Opening {
    pub(super) listeners: Vec<Private<TcpListener>>,
    pub(super) published: Option<Published>,
    pub(super) introduction: Introduction,
    pub(super) key: Key,
    pub(super) session: [u8; 32],
    pub(super) start_timeout: Duration,
    pub(super) deadline: Instant,
    pub(super) liveness: Duration,
    pub(super) patience: u32,
}

#[derive(Clone, Copy)]
enum Source {
    Bell,
    Listener(usize),
    Guest(usize),
    Member(usize),
}

impl Hub {
    pub(super) fn new(shared: Arc<Shared>, ear: UnixStream, opening: Opening) -> Self {
        let size = shared.size;
        let mut places = vec![String::new(); size];
        places[0].clone_from(&opening.introduction.process);
        Hub {
            shared,
            ear,
            listeners: opening.listeners,
            published: opening.published,
            introduction: opening.introduction,
            key: opening.key,
            session: opening.session,
            start_timeout: opening.start_timeout,
            deadline: opening.deadline,
            liveness: opening.liveness,
            patience: opening.patience,
            guests: Vec::new(),
            slots: (0..size).map(|_| Slot::Absent).collect(),
            places,
            complete: false,
            started: false,
            news: None,
            recheck: Instant::now() + RECHECK,
            unproven: Vec::new(),
            step: 0,
            contributions: (0..size).map(|_| None).collect(),
            doubts: Vec::new(),
            failures: Failures::default(),
            failure: None,
            left: false,
            closing: None,
        }
    }

    pub(super) fn run(mut self) {
        let mut next_tick = Instant::now() + self.liveness;
        self.shared.set_missing(self.missing());
        loop {
            for command in self.shared.take_commands() {
                self.obey(command);
            }
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + self.liveness;
                self.tick();
            }
            self.look_at_clock(now);
            if self.is_done(now) {
                return;
            }
            let wake = self.next_wake(next_tick);
            let ready = match self.wait(wake.saturating_duration_since(now)) {
                Ok(ready) => ready,
                Err(error) => {
                    let reason = format!("the control connections cannot be watched: {error}");
                    self.end_of(0, Cause::RankDied { rank: 0, how: reason });
                    return;
                }
            };
            // Guests are taken from the back, so that removing one leaves the others in place.
            for (source, events) in ready.into_iter().rev() {
                match source {
                    Source::Bell => hush(&self.ear),
                    Source::Listener(at) => self.accept(at),
                    Source::Guest(at) => self.attend(at),
                    Source::Member(rank) => self.listen_to(rank, events),
                }
            }
        }
    }

    fn wait(&self, timeout: Duration) -> std::io::Result<Vec<(Source, PollFlags)>> {
        let mut sources = vec![Source::Bell];
        let mut fds = vec![PollFd::new(&self.ear, PollFlags::IN)];
        for (at, listener) in self.listeners.iter().enumerate() {
            sources.push(Source::Listener(at));
            fds.push(PollFd::new(&**listener, PollFlags::IN));
        }
        for (rank, slot) in self.slots.iter().enumerate() {
            if let Slot::Here(connection) | Slot::Left(Some(connection)) = slot {
                let mut flags = PollFlags::IN;
                if connection.wants_write() {
                    flags |= PollFlags::OUT;
                }
                sources.push(Source::Member(rank));
                fds.push(PollFd::new(connection.stream(), flags));
            }
        }
        for (at, guest) in self.guests.iter().enumerate() {
            sources.push(Source::Guest(at));
            fds.push(PollFd::new(guest.stream(), PollFlags::IN));
        }
        socket::poll(&mut fds, Some(timeout))?;
        Ok(sources
            .into_iter()
            .zip(&fds)
            .map(|(source, fd)| (source, fd.revents()))
            .filter(|(_, events)| !events.is_empty())
            .collect())
    }

    fn next_wake(&self, next_tick: Instant) -> Instant {
        let pending = self.contributions.iter().any(Option::is_some);
        let start = (!self.started && self.failure.is_none() && (!self.complete || pending))
            .then_some(self.deadline);
        let due = self.guests.iter().map(Guest::deadline);
        due.chain(self.doubts.iter().map(|doubt| doubt.until))
            .chain(start)
            .chain(self.news)
            .chain(self.published.is_some().then_some(self.recheck))
            .chain(self.closing)
            .fold(next_tick, Instant::min)
    }

    fn look_at_clock(&mut self, now: Instant) {
        let (late, guests): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.guests).into_iter().partition(|guest| now >= guest.deadline());
        self.guests = guests;
        for guest in late {
            tracing::warn!(peer = %guest.peer(), "dropped a connection that said too little in time");
        }
        while let Some(at) = self.doubts.iter().position(|doubt| now >= doubt.until) {
            let Doubt { scope, cause, .. } = self.doubts.remove(at);
            self.fail(Failure::Cause { scope, cause });
        }
        if self.news.is_some_and(|due| now >= due) {
            self.news = None;
            let frame = Frame::Missing { ranks: self.missing() };
            self.broadcast(&frame, None);
        }
        if now >= self.recheck {
            self.recheck = now + RECHECK;
            let job = &self.introduction.job;
            if let Some(note) = self.published.as_ref().and_then(|own| own.replaced(job)) {
                let (first, second) = (self.places[0].clone(), note.process);
                let error = StartError::DuplicateRank { rank: 0, first, second };
                self.fail(Failure::Start { rank: 0, error });
            }
        }
        if !self.started && self.failure.is_none() && now >= self.deadline {
            let waiting_for = if self.complete {
                let pending = self.contributions.iter().flatten().next();
                pending.map(|(what, _)| {
                    let missing = self.contributions.iter().enumerate();
                    let silent = missing.filter(|(_, part)| part.is_none()).map(|(rank, _)| rank);
                    format!("no word from {} in the exchange of {what}", ranks(silent))
                })
            } else {
                let missing = ranks(self.missing().into_iter().map(|rank| rank as usize));
                let mut text = format!("no word from {missing}");
                if let Some(last) = self.unproven.last() {
                    let count = self.unproven.len();
                    text += &format!("; {count} connection(s) came to nothing, the last {last}");
                }
                Some(text)
            };
            if let Some(waiting_for) = waiting_for {
                let error =
                    StartError::Deadline { rank: 0, within: self.start_timeout, waiting_for };
                self.fail(Failure::Start { rank: 0, error });
            }
        }
    }

    fn missing(&self) -> Vec<u32> {
        let absent = |rank: &usize| matches!(self.slots[*rank], Slot::Absent);
        (1..self.slots.len()).filter(absent).map(|rank| rank as u32).collect()
    }

    fn tick(&mut self) {
        for rank in 1..self.slots.len() {
            let Slot::Here(connection) = &mut self.slots[rank] else { continue };
            let silent = connection.tick();
            if silent > self.patience {
                let silence = self.liveness * silent;
                self.lose(rank, format!("it gave no sign of life for {silence:.1?}"));
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Contribute { step, what, bytes } => self.contribute(0, step, what, bytes),
            Command::Fail(failure) => self.fail(failure),
            Command::Report { scope, cause } => self.report(0, scope, cause),
            Command::Started => self.started = true,
            Command::Leave if self.left => {}
            Command::Leave => {
                self.left = true;
                self.broadcast(&Frame::Departed { rank: 0 }, None);
                self.settle(0);
            }
            Command::Close if self.closing.is_some() => {}
            Command::Close => {
                let late = self.answers_late_ranks();
                self.closing = Some(Instant::now() + if late { LATE } else { LINGER });
                if !late {
                    self.listeners.clear();
                    self.guests.clear();
                    self.published = None;
                }
                let goodbye: Arc<[u8]> = Frame::Goodbye.encode().into();
                for slot in &mut self.slots {
                    if let Some(connection) = slot.connection() {
                        connection.send_encoded(&goodbye);
                        connection.finish();
                    }
                }
            }
        }
    }

    /// Whether the start failed for a reason that ranks still to come should hear.
    fn answers_late_ranks(&self) -> bool {
        let told = match &self.failure {
            None => false,
            Some(Failure::Start { error, .. }) => {
                !matches!(error, StartError::Deadline { .. } | StartError::Interrupted { .. })
            }
            Some(Failure::Cause { .. }) => true,
        };
        told && !self.complete
    }

    fn is_done(&self, now: Instant) -> bool {
        let Some(until) = self.closing else { return false };
        let open =
            self.slots.iter().any(|slot| matches!(slot, Slot::Here(_) | Slot::Left(Some(_))));
        let expected = self.answers_late_ranks() && !self.missing().is_empty();
        now >= until || !(open || expected)
    }

    fn accept(&mut self, at: usize) {
        loop {
            // The group may have become complete in this very turn.
            let Some(listener) = self.listeners.get(at) else { return };
            match listener.accept() {
                Ok((stream, peer)) => {
                    if self.guests.len() >= MAX_GUESTS + self.slots.len() {
                        let oldest = self.guests.remove(0);
                        let peer = oldest.peer();
                        tracing::warn!(%peer, "dropped the oldest of too many connections");
                    }
                    match Guest::new(stream, peer) {
                        Ok(guest) => self.guests.push(guest),
                        Err(error) => {
                            tracing::warn!(%peer, %error, "dropped a connection");
                        }
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Out of descriptors, or a connection that was gone before it was taken. The
                    // pause keeps a lasting error from filling the log.
                    tracing::warn!(%error, "a connection could not be accepted");
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            }
        }
    }

    fn attend(&mut self, at: usize) {
        if at >= self.guests.len() {
            // The group has become complete in this very turn, and nobody else is awaited.
            return;
        }
        let outcome = self.guests[at].advance(&self.introduction, &self.key);
        let drop_guest = |hub: &mut Self, why: String| {
            let guest = hub.guests.remove(at);
            tracing::warn!(peer = %guest.peer(), "dropped a connection: {why}");
            why
        };
        match outcome {
            Outcome::Pending => {}
            Outcome::Stranger(why) => {
                drop_guest(self, why);
            }
            Outcome::Unproven(why) => {
                self.guests[at].say(&Verdict::Unknown, &self.key);
                let peer = self.guests[at].peer();
                let why = drop_guest(self, why);
                self.unproven.push(format!("from {peer}: {why}"));
                self.unproven.drain(..self.unproven.len().saturating_sub(1000));
            }
            Outcome::Genuine(worker) => {
                let guest = self.guests.remove(at);
                self.admit(guest, *worker);
            }
        }
    }

    fn admit(&mut self, mut guest: Guest, worker: Introduction) {
        let rank = worker.rank as usize;
        let place = format!("{} ({})", guest.peer(), worker.process);
        let refusal = match &self.failure {
            Some(failure) => Some(as_start_error(failure, rank)),
            None => self.introduction.disagreement(&worker).or_else(|| {
                let taken = rank == 0 || !matches!(self.slots.get(rank), Some(Slot::Absent));
                taken.then(|| StartError::DuplicateRank {
                    rank,
                    first: self.places.get(rank).cloned().unwrap_or_default(),
                    second: place.clone(),
                })
            }),
        };
        if let Some(error) = refusal {
            guest.say(&Verdict::Refused(Box::new(error.clone())), &self.key);
            if let Some(slot @ Slot::Absent) = self.slots.get_mut(rank)
                && rank != 0
            {
                *slot = Slot::Gone;
            }
            // A genuine rank that does not fit means that the group cannot form.
            self.fail(Failure::Start { rank: 0, error });
            return;
        }
        guest.say(&Verdict::Welcome(self.session), &self.key);
        let (stream, early) = guest.into_parts();
        if let Err(error) = socket::tune_control(&stream, self.liveness) {
            tracing::warn!(%error, "options of a control connection could not be set");
        }
        self.places[rank] = place;
        self.slots[rank] = Slot::Here(Connection::new(stream, &early));
        let missing = self.missing();
        self.shared.set_missing(missing.clone());
        if missing.is_empty() {
            self.complete = true;
            self.news = None;
            self.listeners.clear();
            self.published = None;
            self.guests.clear();
            self.broadcast(&Frame::Missing { ranks: missing }, None);
        } else {
            self.news.get_or_insert_with(|| Instant::now() + NEWS);
        }
        // What came with the proof is not announced by the socket any more.
        self.listen_to(rank, PollFlags::IN);
    }

    fn listen_to(&mut self, rank: usize, events: PollFlags) {
        let closing = self.closing.is_some();
        let Some(connection) = self.slots[rank].connection() else { return };
        if events.contains(PollFlags::OUT) {
            if closing { connection.finish() } else { connection.flush() }
        }
        if !events.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            return;
        }
        let mut frames = Vec::new();
        let end = connection.receive(&mut frames);
        for frame in frames {
            self.hear(rank, frame);
        }
        if let Err(end) = end {
            match (&self.slots[rank], end) {
                (Slot::Left(_), _) => self.slots[rank] = Slot::Left(None),
                (_, end) => self.lose(rank, end.how()),
            }
        }
    }

    fn hear(&mut self, rank: usize, frame: Frame) {
        match frame {
            Frame::Contribution { step, what, bytes } => self.contribute(rank, step, what, bytes),
            Frame::Failure(failure) => self.fail(failure),
            Frame::Report { scope, cause } => self.report(rank, scope, cause),
            Frame::Goodbye => self.depart(rank),
            Frame::Ping => {
                if let Some(connection) = self.slots[rank].connection() {
                    connection.send(&Frame::Pong);
                }
            }
            Frame::Pong => {}
            Frame::Gathered { .. } | Frame::Missing { .. } | Frame::Departed { .. } => {
                let what = "a frame that only rank 0 may send";
                self.lose(rank, End::Garbage(what.to_owned()).how());
            }
        }
    }

    fn depart(&mut self, rank: usize) {
        let slot = std::mem::replace(&mut self.slots[rank], Slot::Gone);
        self.slots[rank] = match slot {
            Slot::Here(connection) => Slot::Left(Some(connection)),
            other => other,
        };
        self.shared.depart(rank);
        self.broadcast(&Frame::Departed { rank: rank as u32 }, Some(rank));
        self.settle(rank);
    }

    /// A rank has said goodbye: whoever is still waiting for it waits in vain.
    fn settle(&mut self, rank: usize) {
        let needed = |doubt: &Doubt| {
            doubt.from != rank && doubt.scope.suspects().any(|suspect| suspect == rank)
        };
        if self.doubts.iter().any(needed) {
            self.end_of(rank, Cause::RankLeft { rank });
        }
    }

    /// The end of a rank concerns all groups that have it.
    fn end_of(&mut self, rank: usize, cause: Cause) {
        self.fail(Failure::Cause { scope: Scope::Rank(rank), cause });
    }

    /// A rank is gone without a goodbye.
    fn lose(&mut self, rank: usize, how: String) {
        self.slots[rank] = Slot::Gone;
        // While the group is being closed nobody needs anybody any more.
        if self.closing.is_none() {
            self.end_of(rank, Cause::RankDied { rank, how });
        }
    }

    fn contribute(&mut self, rank: usize, step: u32, what: String, bytes: Vec<u8>) {
        if self.failure.is_some() {
            return;
        }
        if step != self.step || self.contributions[rank].is_some() {
            let how = format!("it took part in exchange {step} ({what}) out of turn");
            self.end_of(rank, Cause::RankDied { rank, how });
            return;
        }
        let first = self
            .contributions
            .iter()
            .enumerate()
            .find_map(|(rank, part)| part.as_ref().map(|(what, _)| (rank, what.clone())));
        if let Some((first, first_value)) = first
            && first_value != what
        {
            let error = StartError::Disagreement {
                what: "step of the start".to_owned(),
                first,
                first_value,
                second: rank,
                second_value: what,
            };
            self.fail(Failure::Start { rank, error });
            return;
        }
        self.contributions[rank] = Some((what, bytes));
        if self.contributions.iter().all(Option::is_some) {
            let parts = self.contributions.iter_mut().filter_map(Option::take);
            let entries: Vec<Vec<u8>> = parts.map(|(_, bytes)| bytes).collect();
            self.step += 1;
            let frame = Frame::Gathered { step, entries };
            self.broadcast(&frame, None);
            if let Frame::Gathered { entries, .. } = frame {
                self.shared.deliver(step, entries);
            }
        }
    }

    /// Rank `from` has seen something go wrong.
    fn report(&mut self, from: usize, scope: Scope, cause: Cause) {
        if self.failures.verdict(scope).is_some() {
            // The answer is on its way.
            return;
        }
        let suspects = || scope.suspects().filter(|rank| *rank != from);
        let left = |rank: &usize| match self.slots.get(*rank) {
            Some(Slot::Left(_)) => true,
            _ => *rank == 0 && self.left,
        };
        let by_end = matches!(
            cause,
            Cause::LinkLost { .. } | Cause::RankDied { .. } | Cause::RankLeft { .. }
        );
        if !by_end {
            self.fail(Failure::Cause { scope, cause });
        } else if let Some(rank) = suspects().find(left) {
            self.end_of(rank, Cause::RankLeft { rank });
        } else if suspects().any(|rank| matches!(self.slots.get(rank), Some(Slot::Here(_)))) {
            self.doubts.push(Doubt { until: Instant::now() + DOUBT, from, scope, cause });
        } else {
            self.fail(Failure::Cause { scope, cause });
        }
    }

    /// Adds a failure to everybody's list, unless an earlier one explains it.
    fn fail(&mut self, failure: Failure) {
        let (scope, cause) = as_cause(&failure);
        if !self.failures.add(scope, Arc::new(cause)) {
            return;
        }
        let known = &self.failures;
        self.doubts.retain(|doubt| known.verdict(doubt.scope).is_none());
        self.failure.get_or_insert_with(|| failure.clone());
        self.broadcast(&Frame::Failure(failure.clone()), None);
        self.shared.fail(failure);
    }

    fn broadcast(&mut self, frame: &Frame, except: Option<usize>) {
        let bytes: Arc<[u8]> = frame.encode().into();
        for (rank, slot) in self.slots.iter_mut().enumerate() {
            if Some(rank) != except
                && let Some(connection) = slot.connection()
            {
                connection.send_encoded(&bytes);
            }
        }
    }
}
