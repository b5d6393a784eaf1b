//! The start of a group: from a configuration to a control connection between all ranks.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::connection::{Connection, patience};
use super::control::{Command, Control, Shared, end_thread, spawn};
use super::failure::{as_start_error, ranks};
use super::handshake::{Introduction, Key, handshake_key, random, session_key};
use super::hub::{Hub, MAX_CONTRIBUTION, Opening};
#[cfg(test)]
use super::interrupt;
use super::rendezvous;
use super::seeker::Seeker;
use super::spoke::Spoke;
use super::wire::{Failure, MAX_FRAME};
use crate::config::Config;
use crate::error::{Error, StartError};
use crate::sys::socket;

/// A worker leaves the verdict about a passed deadline to rank 0 for so long, so that all ranks
/// say the same.
pub(super) const GRACE: Duration = Duration::from_millis(250);

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
    hub: Option<IpAddr>,
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
        hub: None,
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
        session.hub = joined.stream.peer_addr().ok().map(|address| address.ip().to_canonical());
        if let Err(error) = socket::tune_control(&joined.stream, config.liveness()) {
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
    /// The addresses of the control connection: the own one, and that of rank 0. Rank 0 has none.
    pub(crate) fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        self.local.zip(self.hub)
    }

    /// This rank.
    pub(crate) fn rank(&self) -> usize {
        self.shared.rank
    }

    /// Ranks of the job.
    pub(crate) fn size(&self) -> usize {
        self.shared.size
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

    /// What failed first, if anything did anywhere.
    pub(crate) fn failure(&self) -> Option<StartError> {
        self.shared.failure().map(|failure| as_start_error(failure, self.rank()))
    }

    #[cfg(test)]
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
                let failed = |failure: &Failure| as_start_error(failure, rank);
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
