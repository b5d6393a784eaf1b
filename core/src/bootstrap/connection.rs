//! One control connection after its handshake: frames in, frames out, nothing blocks.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use super::wire::{Frame, FrameBuffer};
use crate::sys::fork::Private;

/// Read at most this much before others have their turn.
const TURN: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Connection {
    stream: Private<TcpStream>,
    inbox: FrameBuffer,
    outbox: VecDeque<(Arc<[u8]>, usize)>,
    /// Writing failed; what the peer had to say may still be read.
    deaf: bool,
    heard: bool,
    unanswered: u32,
}

impl Connection {
    /// The stream is non-blocking; `early` was read beyond the handshake.
    pub(super) fn new(stream: Private<TcpStream>, early: &[u8]) -> Self {
        let mut inbox = FrameBuffer::default();
        inbox.push(early);
        let outbox = VecDeque::new();
        Connection { stream, inbox, outbox, deaf: false, heard: true, unanswered: 0 }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn wants_write(&self) -> bool {
        !self.outbox.is_empty()
    }

    pub(super) fn send(&mut self, frame: &Frame) {
        self.send_encoded(&frame.encode().into());
    }

    /// Sends a frame that goes to many without a copy for each.
    pub(super) fn send_encoded(&mut self, bytes: &Arc<[u8]>) {
        if !self.deaf {
            self.outbox.push_back((Arc::clone(bytes), 0));
            self.flush();
        }
    }

    /// Writes what fits. An error is not reported here: the end of the connection is found by
    /// reading, after everything the peer had sent before it.
    pub(super) fn flush(&mut self) {
        while let Some((bytes, sent)) = self.outbox.front_mut() {
            match (&*self.stream).write(&bytes[*sent..]) {
                Ok(count) => {
                    *sent += count;
                    if *sent == bytes.len() {
                        self.outbox.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.deaf = true;
                    self.outbox.clear();
                }
            }
        }
    }

    /// Reads what is there into `frames`; `Err` says how the connection ended.
    pub(super) fn receive(&mut self, frames: &mut Vec<Frame>) -> Result<(), End> {
        let mut buffer = [0; 16 << 10];
        let mut total = 0;
        let end = loop {
            match (&*self.stream).read(&mut buffer) {
                Ok(0) => break Some(End::Closed),
                Ok(count) => {
                    self.inbox.push(&buffer[..count]);
                    self.heard = true;
                    total += count;
                    // A short read has emptied the socket.
                    if count < buffer.len() || total >= TURN {
                        break None;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break None,
                Err(error) if is_cut(&error) => break Some(End::Closed),
                Err(error) => break Some(End::Lost(error.to_string())),
            }
        };
        loop {
            match self.inbox.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return end.map_or(Ok(()), Err),
                Err(what) => return Err(End::Garbage(what)),
            }
        }
    }

    /// Called once per interval: asks for a sign of life if nothing came since the last call.
    /// Returns how many intervals in which this process ran have passed in silence.
    pub(super) fn tick(&mut self) -> u32 {
        if std::mem::take(&mut self.heard) {
            self.unanswered = 0;
        } else {
            self.unanswered += 1;
            self.send(&Frame::Ping);
        }
        self.unanswered
    }

    /// Nothing more will be sent: ends the sending direction once everything is written.
    pub(super) fn finish(&mut self) {
        self.flush();
        if self.outbox.is_empty() {
            // A connection that is gone already needs no end.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The peer's process or system closed or reset it.
    Closed,
    /// The network gave up.
    Lost(String),
    /// The peer does not keep to the protocol.
    Garbage(String),
}

impl End {
    /// What a death noticed in this way is called, the same on every rank.
    pub(super) fn how(&self) -> String {
        match self {
            End::Closed => "its control connection ended without a goodbye".to_owned(),
            End::Lost(reason) => format!("its host can no longer be reached: {reason}"),
            End::Garbage(what) => format!("its control connection carried {what}"),
        }
    }
}

fn is_cut(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
    )
}

/// After so many silent intervals a peer whose system still answers is given up: never before
/// an operation that waits for it has run into its own deadline.
pub(super) fn patience(liveness: std::time::Duration, timeout: std::time::Duration) -> u32 {
    let intervals = timeout.as_secs_f64() / liveness.as_secs_f64();
    (intervals.ceil() as u32).saturating_add(3)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    fn pair() -> (Connection, Connection) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        one.set_nonblocking(true).unwrap();
        other.set_nonblocking(true).unwrap();
        (Connection::new(Private::new(one), &[]), Connection::new(Private::new(other), &[]))
    }

    fn read(connection: &mut Connection) -> (Vec<Frame>, Option<End>) {
        assert!(
            crate::sys::socket::wait(&connection.stream, false, Duration::from_secs(5)).unwrap()
        );
        let mut frames = Vec::new();
        let end = connection.receive(&mut frames).err();
        (frames, end)
    }

    #[test]
    fn what_was_sent_before_the_end_is_read() {
        let (mut one, mut other) = pair();
        one.send(&Frame::Departed { rank: 3 });
        one.send(&Frame::Goodbye);
        drop(one);
        std::thread::sleep(Duration::from_millis(20));
        // A write to the closed peer must not hide its last words.
        other.send(&Frame::Ping);
        other.send(&Frame::Ping);
        let mut all = Vec::new();
        loop {
            let (frames, end) = read(&mut other);
            all.extend(frames);
            if let Some(end) = end {
                assert!(matches!(end, End::Closed), "{end:?}");
                break;
            }
        }
        assert_eq!(all, [Frame::Departed { rank: 3 }, Frame::Goodbye]);
    }

    #[test]
    fn large_frames_pass_without_blocking() {
        let (mut one, mut other) = pair();
        let entries = (0..40u8).map(|rank| vec![rank; 1 << 18]).collect::<Vec<_>>();
        let frame = Frame::Gathered { step: 1, entries };
        one.send(&frame);
        assert!(one.wants_write(), "ten megabytes do not fit into the socket");
        let mut all = Vec::new();
        while all.is_empty() {
            one.flush();
            let (frames, end) = read(&mut other);
            assert!(end.is_none());
            all.extend(frames);
        }
        assert_eq!(all, [frame]);
    }

    #[test]
    fn silence_is_counted_and_an_answer_ends_it() {
        let (mut one, mut other) = pair();
        assert_eq!((one.tick(), one.tick(), one.tick()), (0, 1, 2));
        assert_eq!(read(&mut other).0, [Frame::Ping, Frame::Ping]);
        other.send(&Frame::Pong);
        assert_eq!(read(&mut one).0, [Frame::Pong]);
        assert_eq!((one.tick(), one.tick()), (0, 1));
    }

    #[test]
    fn patience_outlasts_the_deadline_of_an_operation() {
        let (second, limit) = (Duration::from_secs(1), Duration::from_secs(30));
        assert_eq!(patience(second * 5, limit), 9);
        assert!(patience(second * 7, limit) * 7 > 30);
        assert!(patience(Duration::from_millis(1), Duration::from_secs(8_640_000)) > 1_000_000);
    }
}
