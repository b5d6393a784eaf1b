//! The flight recorder: a fixed ring that keeps the last operations of a group.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::call::Signature;
use crate::collective::Algorithm;

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It has not.
    Running,
    /// It completed.
    Completed,
    /// It failed, with this error.
    Failed(String),
}

/// One operation in the flight recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What was called, with its number.
    pub signature: Signature,
    /// The other rank of a message, in the group.
    pub peer: Option<usize>,
    /// The tag of a message.
    pub tag: Option<u32>,
    /// How it was carried out; `None` for messages and in groups of one.
    pub algorithm: Option<Algorithm>,
    /// When it began, since the group was formed.
    pub began: Duration,
    /// How long it took, or has taken so far.
    pub took: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12.6} s  {}", self.began.as_secs_f64(), self.signature)?;
        if let Some(peer) = self.peer {
            let way = match self.signature.call.operation {
                crate::call::Operation::Recv => "from",
                _ => "to",
            };
            write!(f, " {way} rank {peer}")?;
        }
        if let Some(tag) = self.tag {
            write!(f, " tag {tag}")?;
        }
        if let Some(algorithm) = self.algorithm {
            write!(f, " by {algorithm}")?;
        }
        match &self.outcome {
            Outcome::Running => write!(f, "  running for {:.1?}", self.took),
            Outcome::Completed => write!(f, "  {:.1?}", self.took),
            Outcome::Failed(error) => write!(f, "  failed after {:.1?}: {error}", self.took),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    number: u64,
    signature: Signature,
    peer: Option<usize>,
    tag: Option<u32>,
    algorithm: Option<Algorithm>,
    began: Instant,
    took: Option<Duration>,
    error: Option<String>,
}

/// Names an operation while it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    number: u64,
    began: Instant,
}

impl Ticket {
    pub(crate) fn began(&self) -> Instant {
        self.began
    }
}

/// Keeps the last operations of one group.
#[derive(Debug)]
pub(crate) struct Recorder {
    origin: Instant,
    entries: Mutex<(u64, Box<[Option<Entry>]>)>,
    started: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
}

impl Recorder {
    /// A recorder for the last `length` operations; 0 keeps only the counts.
    pub(crate) fn new(length: usize) -> Self {
        Recorder {
            origin: Instant::now(),
            entries: Mutex::new((0, vec![None; length].into_boxed_slice())),
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// An operation begins.
    pub(crate) fn begin(
        &self,
        signature: Signature,
        peer: Option<usize>,
        tag: Option<u32>,
        algorithm: Option<Algorithm>,
    ) -> Ticket {
        self.started.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let mut guard = lock(&self.entries);
        let (next, ring) = &mut *guard;
        let number = *next;
        *next += 1;
        if !ring.is_empty() {
            let at = slot(number, ring.len());
            ring[at] = Some(Entry {
                number,
                signature,
                peer,
                tag,
                algorithm,
                began,
                took: None,
                error: None,
            });
        }
        Ticket { number, began }
    }

    /// It has ended.
    pub(crate) fn end(&self, ticket: Ticket, error: Option<&dyn fmt::Display>) {
        match error {
            None => self.completed.fetch_add(1, Ordering::Relaxed),
            Some(_) => self.failed.fetch_add(1, Ordering::Relaxed),
        };
        let mut guard = lock(&self.entries);
        let (_, ring) = &mut *guard;
        if ring.is_empty() {
            return;
        }
        let at = slot(ticket.number, ring.len());
        // A ring that has come round has forgotten the operation already.
        if let Some(entry) = ring[at].as_mut().filter(|entry| entry.number == ticket.number) {
            entry.took = Some(ticket.began.elapsed());
            entry.error = error.map(ToString::to_string);
        }
    }

    /// The operations it remembers, oldest first.
    pub(crate) fn records(&self) -> Vec<Record> {
        let guard = lock(&self.entries);
        let (next, ring) = &*guard;
        let oldest = next.saturating_sub(ring.len() as u64);
        (oldest..*next)
            .filter_map(|number| ring[slot(number, ring.len())].as_ref())
            .map(|entry| Record {
                signature: entry.signature,
                peer: entry.peer,
                tag: entry.tag,
                algorithm: entry.algorithm,
                began: entry.began.duration_since(self.origin),
                took: entry.took.unwrap_or_else(|| entry.began.elapsed()),
                outcome: match (&entry.took, &entry.error) {
                    (None, _) => Outcome::Running,
                    (Some(_), None) => Outcome::Completed,
                    (Some(_), Some(error)) => Outcome::Failed(error.clone()),
                },
            })
            .collect()
    }

    /// Operations begun, completed and failed.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (
            self.started.load(Ordering::Relaxed),
            self.completed.load(Ordering::Relaxed),
            self.failed.load(Ordering::Relaxed),
        )
    }
}

fn slot(number: u64, length: usize) -> usize {
    (number % length as u64) as usize
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Call, Operation};
    use crate::dtype::DType;

    fn signature(sequence: u64) -> Signature {
        Signature { sequence, call: Call::new(Operation::AllGather, DType::F32, sequence * 3) }
    }

    #[test]
    fn keeps_the_last_operations_in_order() {
        let recorder = Recorder::new(4);
        let tickets: Vec<Ticket> =
            (0..6).map(|n| recorder.begin(signature(n), None, None, None)).collect();
        recorder.end(tickets[1], None);
        recorder.end(tickets[4], None);
        recorder.end(tickets[5], Some(&"broken"));
        let records = recorder.records();
        let numbers: Vec<u64> = records.iter().map(|record| record.signature.sequence).collect();
        assert_eq!(numbers, [2, 3, 4, 5]);
        let outcomes: Vec<Outcome> = records.into_iter().map(|record| record.outcome).collect();
        assert_eq!(
            outcomes,
            [
                Outcome::Running,
                Outcome::Running,
                Outcome::Completed,
                Outcome::Failed("broken".to_owned())
            ]
        );
        assert_eq!(recorder.counts(), (6, 2, 1));
    }

    #[test]
    fn a_recorder_of_length_zero_only_counts() {
        let recorder = Recorder::new(0);
        let ticket = recorder.begin(signature(0), None, None, None);
        recorder.end(ticket, None);
        assert!(recorder.records().is_empty());
        assert_eq!(recorder.counts(), (1, 1, 0));
    }
}
