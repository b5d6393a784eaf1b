//! A connection at rank 0 that has not proven itself yet. It costs a bounded amount of memory and
//! time, and never blocks anybody.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::handshake::{
    HEAD, Introduction, Key, MAX_INTRODUCTION, PROOF, Verdict, worker_is_genuine,
};
use crate::sys::fork::Private;

/// A handshake takes a few round trips; whoever needs longer is dropped.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Guest {
    stream: Private<TcpStream>,
    peer: SocketAddr,
    deadline: Instant,
    received: Vec<u8>,
    /// Both introductions as they were sent, once they were.
    said: Option<(Introduction, Vec<u8>, Vec<u8>)>,
}

/// How far a guest has come.
pub(super) enum Outcome {
    /// There is more to come.
    Pending,
    /// Not one of ours.
    Stranger(String),
    /// It speaks the protocol but does not know the key.
    Unproven(String),
    /// A rank of this job.
    Genuine(Box<Introduction>),
}

impl Guest {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        crate::sys::socket::quiet(&stream)?;
        let deadline = Instant::now() + PATIENCE;
        let stream = Private::new(stream);
        Ok(Guest { stream, peer, deadline, received: Vec::new(), said: None })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The address, in its IPv4 form where it is one.
    pub(super) fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.peer.ip().to_canonical(), self.peer.port())
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Reads what is there.
    pub(super) fn advance(&mut self, own: &Introduction, key: &Key) -> Outcome {
        let mut buffer = [0; 4096];
        let mut ended = None;
        while ended.is_none() && self.received.len() <= HEAD + MAX_INTRODUCTION + PROOF {
            match (&*self.stream).read(&mut buffer) {
                Ok(0) => ended = Some("it closed the connection".to_owned()),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => ended = Some(error.to_string()),
            }
        }
        match self.judge(own, key) {
            Outcome::Pending => ended.map_or(Outcome::Pending, Outcome::Stranger),
            outcome => outcome,
        }
    }

    fn judge(&mut self, own: &Introduction, key: &Key) -> Outcome {
        if self.said.is_none() {
            // Whoever begins with something else need not send a whole head to be known.
            let known = self.received.len().min(super::handshake::MAGIC.len());
            if self.received[..known] != super::handshake::MAGIC[..known] {
                let seen = &self.received[..self.received.len().min(HEAD)];
                let seen = String::from_utf8_lossy(seen).into_owned();
                return Outcome::Stranger(format!("it began with {seen:?}"));
            }
            let Some(head) = self.received.first_chunk::<HEAD>() else { return Outcome::Pending };
            let length = match Introduction::body_length(head) {
                Ok(length) => HEAD + length,
                Err(why) => return Outcome::Stranger(why),
            };
            if self.received.len() < length {
                return Outcome::Pending;
            }
            let worker: Vec<u8> = self.received.drain(..length).collect();
            let introduction = match Introduction::decode(&worker) {
                Ok(introduction) => introduction,
                Err(why) => return Outcome::Stranger(why),
            };
            // A fresh nonce for each guest: no proof fits twice.
            let nonce = super::handshake::random();
            // Where rank 0 is, is nobody's business before the proof.
            let zero = Introduction { nonce, process: String::new(), ..own.clone() }.encode();
            if let Err(error) = self.write(&zero) {
                return Outcome::Stranger(error.to_string());
            }
            self.said = Some((introduction, worker, zero));
        }
        let Some((worker, hello, zero)) = &self.said else { return Outcome::Pending };
        if worker.job != own.job {
            return Outcome::Stranger(format!(
                "it belongs to job {:?}, this one is {:?}",
                worker.job, own.job
            ));
        }
        let Some(proof) = self.received.first_chunk::<PROOF>() else { return Outcome::Pending };
        if !worker_is_genuine(key, hello, zero, proof) {
            return Outcome::Unproven(format!(
                "it claims to be rank {} but does not know the token",
                worker.rank
            ));
        }
        let worker = worker.clone();
        self.received.drain(..PROOF);
        Outcome::Genuine(Box::new(worker))
    }

    /// Rank 0's last word.
    pub(super) fn say(&mut self, verdict: &Verdict, key: &Key) {
        let Some((_, hello, zero)) = &self.said else { return };
        let bytes = verdict.encode(key, hello, zero);
        if let Err(error) = self.write(&bytes) {
            tracing::warn!(peer = %self.peer(), %error, "the end of a handshake could not be sent");
        }
    }

    /// The buffer of a fresh connection takes the whole of a handshake at once; a peer that has
    /// arranged otherwise is not served.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match (&*self.stream).write(bytes)? {
            count if count == bytes.len() => Ok(()),
            count => Err(io::Error::other(format!("only {count} bytes could be sent"))),
        }
    }

    /// The stream, and what was read beyond the handshake.
    pub(super) fn into_parts(self) -> (Private<TcpStream>, Vec<u8>) {
        (self.stream, self.received)
    }
}
