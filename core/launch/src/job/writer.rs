//! Writes the merged output, on a thread of its own: a terminal that is held with Ctrl-S or a pager
//! that is not read must not keep the launcher from noticing failures and signals.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::lines::Sink;

/// How much may be waiting to be written before the ranks are read from no more.
const MOST_WAITING: usize = 1024 * 1024;

#[derive(Default)]
struct Queue {
    chunks: VecDeque<(Sink, Vec<u8>)>,
    bytes: usize,
    closed: bool,
    failed: [Option<Errno>; 2],
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // why: the queue is consistent between any two statements.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts the thread; `waker` is written to when there is room again or a sink has failed.
    pub(crate) fn start(waker: UnixStream) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("lycaon-output".into())
            .spawn(move || write_all(&theirs, &waker))?;
        Ok(Self { shared, thread })
    }

    pub(crate) fn push(&self, chunks: Vec<(Sink, Vec<u8>)>) {
        if chunks.is_empty() {
            return;
        }
        let mut queue = self.shared.lock();
        for (sink, bytes) in chunks {
            if queue.failed[sink as usize].is_none() {
                queue.bytes += bytes.len();
                queue.chunks.push_back((sink, bytes));
            }
        }
        self.shared.changed.notify_all();
    }

    pub(crate) fn has_room(&self) -> bool {
        self.shared.lock().bytes < MOST_WAITING
    }

    /// Whether everything was written.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.lock().bytes == 0
    }

    /// Why a sink takes no more.
    pub(crate) fn failure(&self, sink: Sink) -> Option<Errno> {
        self.shared.lock().failed[sink as usize]
    }

    /// Lets the thread end after what is waiting. It is left alone if that is stuck.
    pub(crate) fn close(self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        if self.is_idle() {
            // why: a panic there has been printed already.
            let _ = self.thread.join();
        }
    }
}

fn write_all(shared: &Shared, waker: &UnixStream) {
    loop {
        let mut queue = shared.lock();
        let (sink, bytes) = loop {
            match queue.chunks.pop_front() {
                Some(chunk) => break chunk,
                None if queue.closed => return,
                None => {
                    queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        let failed = queue.failed[sink as usize].is_some();
        drop(queue);
        let answer = if failed { Ok(()) } else { write_chunk(sink, &bytes) };
        let mut queue = shared.lock();
        let had_room = queue.bytes < MOST_WAITING;
        queue.bytes -= bytes.len();
        let failed_now = answer.is_err();
        if let Err(error) = answer {
            queue.failed[sink as usize] = Some(error);
        }
        let room_now = queue.bytes < MOST_WAITING;
        if failed_now || (room_now && !had_room) || queue.bytes == 0 {
            // why: when the waker is full, the launcher is being woken already.
            let _ = (&*waker).write(&[0]);
        }
    }
}

fn write_chunk(sink: Sink, mut bytes: &[u8]) -> Result<(), Errno> {
    let (out, err) = (io::stdout(), io::stderr());
    let place: BorrowedFd<'_> = match sink {
        Sink::Out => out.as_fd(),
        Sink::Err => err.as_fd(),
    };
    while !bytes.is_empty() {
        match rustix::io::write(place, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // why: another program may have made the shared terminal non-blocking.
                match poll(&mut [PollFd::new(&place, PollFlags::OUT)], None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
