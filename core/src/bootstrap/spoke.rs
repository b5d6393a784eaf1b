//! The control thread of every rank but 0: one connection to rank 0.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::connection::{Connection, End};
use super::control::{Command, Shared, hush};
use super::scope::Scope;
use super::wire::{Failure, Frame};
use crate::error::Cause;
use crate::sys::socket;

/// How long the end of the connection is waited for after the goodbye, so that nothing in flight
/// is lost by a reset.
const LINGER: Duration = Duration::from_millis(300);

pub(super) struct Spoke {
    pub(super) shared: Arc<Shared>,
    pub(super) ear: UnixStream,
    pub(super) connection: Connection,
    pub(super) liveness: Duration,
    /// Silent intervals after which rank 0 is given up.
    pub(super) patience: u32,
}

impl Spoke {
    pub(super) fn run(mut self) {
        let mut left = false;
        let mut closing: Option<Instant> = None;
        let mut next_tick = Instant::now() + self.liveness;
        let mut frames = Vec::new();
        // Bytes that came with the end of the handshake are waiting already.
        let mut ready = true;
        loop {
            for command in self.shared.take_commands() {
                match command {
                    Command::Contribute { step, what, bytes } => {
                        self.connection.send(&Frame::Contribution { step, what, bytes });
                    }
                    Command::Fail(failure) => self.connection.send(&Frame::Failure(failure)),
                    Command::Report { scope, cause } => {
                        self.connection.send(&Frame::Report { scope, cause });
                    }
                    Command::Started => {}
                    Command::Leave if left => {}
                    Command::Leave => {
                        left = true;
                        self.connection.send(&Frame::Goodbye);
                    }
                    Command::Close if closing.is_some() => {}
                    Command::Close => {
                        closing = Some(Instant::now() + LINGER);
                        self.connection.finish();
                    }
                }
            }
            if ready {
                let end = self.connection.receive(&mut frames);
                let mut orphaned = false;
                for frame in frames.drain(..) {
                    orphaned |= self.hear(frame);
                }
                if orphaned {
                    self.shared.set_alone();
                    return;
                }
                if let Err(end) = end {
                    // After one's own goodbye rank 0 closes in turn.
                    if closing.is_none() && !(left && matches!(end, End::Closed)) {
                        self.fail(end.how());
                    }
                    return;
                }
            }
            let now = Instant::now();
            if closing.is_some_and(|until| now >= until) {
                return;
            }
            if now >= next_tick {
                next_tick = now + self.liveness;
                let silent = self.connection.tick();
                if silent > self.patience {
                    let silence = self.liveness * silent;
                    self.fail(format!("it gave no sign of life for {silence:.1?}"));
                    return;
                }
            }
            let until = closing.map_or(next_tick, |until| until.min(next_tick));
            let mut interest = PollFlags::IN;
            if self.connection.wants_write() {
                interest |= PollFlags::OUT;
            }
            let mut fds = [
                PollFd::new(&self.ear, PollFlags::IN),
                PollFd::new(self.connection.stream(), interest),
            ];
            if let Err(error) = socket::poll(&mut fds, Some(until.saturating_duration_since(now))) {
                self.fail(format!("the control connection cannot be watched: {error}"));
                return;
            }
            let (bell, events) = (fds[0].revents(), fds[1].revents());
            if !bell.is_empty() {
                hush(&self.ear);
            }
            if events.contains(PollFlags::OUT) {
                if closing.is_some() {
                    self.connection.finish();
                } else {
                    self.connection.flush();
                }
            }
            ready = events.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
        }
    }

    /// Rank 0 is gone.
    fn fail(&self, how: String) {
        let cause = Cause::RankDied { rank: 0, how };
        self.shared.fail(Failure::Cause { scope: Scope::Rank(0), cause });
    }

    /// Returns whether rank 0 has closed the group.
    fn hear(&mut self, frame: Frame) -> bool {
        match frame {
            Frame::Gathered { step, entries } if entries.len() == self.shared.size => {
                self.shared.deliver(step, entries);
            }
            Frame::Missing { ranks } => self.shared.set_missing(ranks),
            Frame::Failure(failure) => self.shared.fail(failure),
            Frame::Departed { rank } => self.shared.depart(rank as usize),
            Frame::Ping => self.connection.send(&Frame::Pong),
            Frame::Pong => {}
            Frame::Goodbye => {
                self.shared.depart(0);
                return true;
            }
            Frame::Gathered { .. } | Frame::Contribution { .. } | Frame::Report { .. } => {
                let rank = self.shared.rank;
                let what = "a frame on the control connection that is not for workers".to_owned();
                let cause = Cause::Protocol { rank, peer: 0, what };
                self.shared.fail(Failure::Cause { scope: Scope::Pair(rank, 0), cause });
            }
        }
        false
    }
}
