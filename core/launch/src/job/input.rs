//! Passes the launcher's standard input on to ranks.
//!
//! Each rank has a queue of its own, so that one that reads slowly does not hold up the others,
//! until it is [`FURTHEST_BEHIND`] bytes behind: then reading pauses.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;

/// How far a rank may be behind the input.
pub(crate) const FURTHEST_BEHIND: usize = 4 * 1024 * 1024;

const PIECE: usize = 64 * 1024;

/// How often a job in the background looks whether it was brought to the foreground.
const FOREGROUND_CHECK: Duration = Duration::from_millis(300);

struct Target {
    rank: usize,
    pipe: OwnedFd,
    queue: VecDeque<Arc<[u8]>>,
    /// How much of the first piece is written.
    written: usize,
    bytes: usize,
}

pub(crate) struct Input {
    targets: Vec<Target>,
    wanted: Sender<()>,
    pieces: Receiver<io::Result<Vec<u8>>>,
    reading: bool,
    ended: bool,
}

impl Input {
    /// Starts the thread that reads; `waker` is written to when it has read something.
    ///
    /// why: a thread, since waiting for any kind of input together with other things is not
    /// possible everywhere. It reads only when asked to, and is left alone at the end.
    pub(crate) fn start(waker: UnixStream) -> io::Result<Self> {
        let (wanted, requests) = channel();
        let (answers, pieces) = channel();
        std::thread::Builder::new().name("lycaon-input".into()).spawn(move || {
            while requests.recv().is_ok() {
                await_foreground();
                let mut piece = vec![0; PIECE];
                let answer = io::stdin().read(&mut piece).map(|got| {
                    piece.truncate(got);
                    piece
                });
                if answers.send(answer).is_err() {
                    return;
                }
                let _ = (&waker).write(&[0]);
            }
        })?;
        Ok(Self { targets: Vec::new(), wanted, pieces, reading: false, ended: false })
    }

    /// Adds a rank that receives everything from now on.
    pub(crate) fn add(&mut self, rank: usize, pipe: OwnedFd) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        self.targets.push(Target { rank, pipe, queue: VecDeque::new(), written: 0, bytes: 0 });
        Ok(())
    }

    /// Forgets a rank that has ended.
    pub(crate) fn remove(&mut self, rank: usize) {
        self.targets.retain(|target| target.rank != rank);
    }

    /// What to wait for: a rank's end of its pipe always, room in it if something is queued.
    pub(crate) fn interests(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>, PollFlags)> {
        use std::os::fd::AsFd;
        self.targets.iter().map(|target| {
            let room = if target.queue.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            (target.rank, target.pipe.as_fd(), room)
        })
    }

    /// Acts on what became of a rank's pipe.
    pub(crate) fn ready(&mut self, rank: usize, events: PollFlags) {
        let Some(at) = self.targets.iter().position(|target| target.rank == rank) else { return };
        // why: a rank that reads no more is not an error, as with any pipe.
        let closed = events.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        if closed || self.targets[at].write().is_err() {
            self.targets.swap_remove(at);
        }
    }

    /// Takes what was read, asks for more if there is room, and closes what is complete.
    ///
    /// An error is the input's; it ends like an empty input.
    pub(crate) fn advance(&mut self) -> io::Result<()> {
        let mut problem = Ok(());
        if self.reading {
            match self.pieces.try_recv() {
                Ok(Ok(piece)) => {
                    self.reading = false;
                    self.ended = piece.is_empty();
                    self.distribute(&piece.into());
                }
                Ok(Err(error)) => {
                    self.reading = false;
                    self.ended = true;
                    problem = Err(error);
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => self.ended = true,
            }
        }
        if self.ended {
            self.targets.retain(|target| !target.queue.is_empty());
        }
        let room = self.targets.iter().all(|target| target.bytes < FURTHEST_BEHIND);
        if !self.ended && !self.reading && !self.targets.is_empty() && room {
            self.reading = self.wanted.send(()).is_ok();
        }
        problem
    }

    fn distribute(&mut self, piece: &Arc<[u8]>) {
        if piece.is_empty() {
            return;
        }
        self.targets.retain_mut(|target| {
            target.queue.push_back(Arc::clone(piece));
            target.bytes += piece.len();
            target.write().is_ok()
        });
    }
}

impl Target {
    /// Writes what the pipe takes.
    fn write(&mut self) -> Result<(), Errno> {
        while let Some(piece) = self.queue.front() {
            match rustix::io::write(&self.pipe, &piece[self.written..]) {
                Ok(written) => {
                    self.written += written;
                    self.bytes -= written;
                    if self.written == piece.len() {
                        self.queue.pop_front();
                        self.written = 0;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Waits until reading from a terminal does not stop the launcher, as it would in the background.
fn await_foreground() {
    let input = io::stdin();
    // why: a terminal that is not ours to control does not stop anybody.
    let foreground = || {
        rustix::termios::tcgetpgrp(&input)
            .map_or(true, |group| group.as_raw_nonzero().get() == crate::sys::process_group())
    };
    while input.is_terminal() && !foreground() {
        std::thread::sleep(FOREGROUND_CHECK);
    }
}
