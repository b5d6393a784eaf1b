//! What the launcher and the guardian say to each other, over a pair of sockets: one JSON value
//! per line, some with file descriptors.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cli::StdinMode;

/// A string of the operating system: any bytes.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Raw(Vec<u8>);

impl From<OsString> for Raw {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}

impl From<Raw> for OsString {
    fn from(raw: Raw) -> Self {
        OsString::from_vec(raw.0)
    }
}

/// Everything the guardian needs to start the ranks. It holds the token, so it is never printed.
#[derive(Deserialize, Serialize)]
pub(crate) struct Spec {
    pub(crate) job: String,
    pub(crate) token: String,
    pub(crate) ranks: usize,
    pub(crate) command: Vec<Raw>,
    pub(crate) cwd: Option<Raw>,
    /// Variables that are the same for every rank.
    pub(crate) env: Vec<(Raw, Raw)>,
    pub(crate) stdin: StdinMode,
    /// How long the processes may take to end on SIGTERM.
    pub(crate) grace_ms: u64,
}

/// From the launcher to the guardian.
#[derive(Deserialize, Serialize)]
pub(crate) enum Order {
    Start(Spec),
    /// Sends a signal to the process group of every rank.
    Signal(i32),
    /// Ends everything: SIGTERM, and SIGKILL when the grace time is over.
    End,
    /// Ends everything at once.
    Kill,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub(crate) enum Ending {
    Code(i32),
    Signal(i32),
}

/// One rank that ended.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Exit {
    pub(crate) rank: usize,
    pub(crate) ending: Ending,
    pub(crate) after_us: u64,
}

/// What could not be done to start a rank.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Step {
    Folder,
    Pipe,
    Program,
}

/// From the guardian to the launcher.
#[derive(Deserialize, Serialize)]
pub(crate) enum Report {
    /// The private folder of the job, in which the ranks meet.
    Folder(Raw),
    /// A rank runs. Its standard output and error come along, and then, if it has one, its input.
    Started { rank: usize, pid: i32, input: bool },
    /// A rank could not be started; no further one was tried.
    NotStarted { rank: usize, step: Step, errno: i32 },
    /// Ranks whose end was noticed together, so that their order in time is not known.
    Exited(Vec<Exit>),
    /// Nothing of the job is left, except for what could not be killed.
    Over { left_behind: Vec<String>, immortal: Vec<String> },
}

/// One end of the connection.
pub(crate) struct Wire {
    stream: UnixStream,
    unread: Vec<u8>,
    descriptors: std::collections::VecDeque<OwnedFd>,
}

/// No message carries more descriptors than these: output, error, input.
const MOST_DESCRIPTORS: usize = 3;

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, unread: Vec::new(), descriptors: Default::default() }
    }

    /// Sends `message` whole; `descriptors` arrive with it or before it.
    pub(crate) fn send(
        &mut self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "no message carries more than {MOST_DESCRIPTORS} descriptors");
        }
        // why: a launcher that is gone is an error to handle, not a signal to die of.
        #[cfg(target_os = "linux")]
        let flags = SendFlags::NOSIGNAL;
        #[cfg(not(target_os = "linux"))]
        let flags = SendFlags::empty();
        let sent = rustix::io::retry_on_intr(|| {
            sendmsg(&self.stream, &[IoSlice::new(&line)], &mut control, flags)
        })?;
        self.stream.write_all(&line[sent..])
    }

    /// Takes in what has arrived; waits if nothing has. False when the other side is gone.
    pub(crate) fn receive(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 16 * 1024];
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4 * MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        #[cfg(target_os = "linux")]
        let flags = RecvFlags::CMSG_CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = RecvFlags::empty();
        let got = match rustix::io::retry_on_intr(|| {
            recvmsg(&self.stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)
        }) {
            Err(rustix::io::Errno::CONNRESET) => return Ok(false),
            answer => answer?,
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(arrived) = message {
                for descriptor in arrived {
                    #[cfg(not(target_os = "linux"))]
                    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
                    self.descriptors.push_back(descriptor);
                }
            }
        }
        self.unread.extend_from_slice(&bytes[..got.bytes]);
        Ok(got.bytes > 0)
    }

    /// The next whole message among what was received.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(end) = memchr::memchr(b'\n', &self.unread) else { return Ok(None) };
        let message = serde_json::from_slice(&self.unread[..end])?;
        self.unread.drain(..=end);
        Ok(Some(message))
    }

    /// The next descriptor that came with the messages so far.
    pub(crate) fn next_descriptor(&mut self) -> io::Result<OwnedFd> {
        self.descriptors.pop_front().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "a file descriptor of a rank was lost on the way; is the limit on open files too \
                 low? (ulimit -n)",
            )
        })
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn messages_and_descriptors_arrive_in_order_and_whole() {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let (mut near, mut far) = (Wire::new(near), Wire::new(far));
        let long = "x".repeat(50_000);
        let sender = std::thread::spawn(move || {
            for rank in 0..5 {
                let (reader, mut writer) = io::pipe().unwrap();
                write!(writer, "pipe of {rank}").unwrap();
                let started = Report::Started { rank, pid: 7, input: false };
                near.send(&started, &[reader.as_fd()]).unwrap();
                let over = Report::Over { left_behind: vec![long.clone()], immortal: vec![] };
                near.send(&over, &[]).unwrap();
            }
        });
        let mut expected = 0;
        while far.receive().unwrap() {
            while let Some(report) = far.next().unwrap() {
                match report {
                    Report::Started { rank, .. } => {
                        assert_eq!(rank, expected);
                        let mut text = String::new();
                        let descriptor = far.next_descriptor().unwrap();
                        std::fs::File::from(descriptor).read_to_string(&mut text).unwrap();
                        assert_eq!(text, format!("pipe of {rank}"));
                    }
                    Report::Over { left_behind, .. } => {
                        assert_eq!(left_behind[0].len(), 50_000);
                        expected += 1;
                    }
                    _ => panic!("not sent"),
                }
            }
        }
        assert_eq!(expected, 5);
        assert!(far.next_descriptor().is_err());
        sender.join().unwrap();
    }
}
