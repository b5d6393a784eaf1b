//! The flight recorder: a fixed ring that keeps the last operations of a group.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::call::{Call, Signature};
use crate::collective::Algorithm;
use crate::sys::clock::Ticks;

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

/// Names an operation while it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    number: u64,
    began: Ticks,
}

impl Ticket {
    /// How long it has run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// What an operation is besides its signature.
#[derive(Clone, Copy, Debug, Default)]
struct Detail {
    peer: Option<usize>,
    tag: Option<u32>,
    algorithm: Option<Algorithm>,
}

/// One operation in one cache line. Writers never wait: each operation has a slot of its own until
/// the ring has come round, and readers take a slot whose version changes under them for forgotten.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// 0: empty; odd: being written; else 2 × (number + 1).
    version: AtomicU64,
    /// Sequence number; the first 16 bytes of the call; layout and peer; tag, algorithm and which
    /// of the three are there; when it began.
    words: [AtomicU64; 6],
    /// How it ended: its duration in ticks, the round of the ring, and one of the constants below;
    /// 0 while it runs.
    end: AtomicU64,
}

const COMPLETED: u64 = 1;
const FAILED: u64 = 2;
const STATE_BITS: u32 = 2;
const ROUND_BITS: u32 = 6;

const HAS_PEER: u64 = 1 << 40;
const HAS_TAG: u64 = 1 << 41;
const NO_ALGORITHM: u64 = 0xff;

impl Slot {
    fn write(&self, number: u64, signature: &Signature, detail: Detail, began: Ticks) {
        self.version.store(2 * number + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let words = encode(signature, detail, began);
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.end.store(0, Ordering::Relaxed);
        self.version.store(2 * (number + 1), Ordering::Release);
    }

    /// A ring that has come round has forgotten the operation already. One that comes round at this
    /// very moment may get an end that is not its own: the round in it tells.
    fn finish(&self, number: u64, round: u64, ticks: u64, state: u64) {
        if self.version.load(Ordering::Relaxed) == 2 * (number + 1) {
            let ticks = ticks.min(u64::MAX >> (STATE_BITS + ROUND_BITS));
            let end = ticks << (STATE_BITS + ROUND_BITS) | round << STATE_BITS | state;
            self.end.store(end, Ordering::Release);
        }
    }

    /// The words and the end of this operation, if they are still here and whole.
    fn read(&self, number: u64) -> Option<([u64; 6], u64)> {
        if self.version.load(Ordering::Acquire) != 2 * (number + 1) {
            return None;
        }
        let words = std::array::from_fn(|at| self.words[at].load(Ordering::Relaxed));
        let end = self.end.load(Ordering::Acquire);
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == 2 * (number + 1)).then_some((words, end))
    }
}

fn encode(signature: &Signature, detail: Detail, began: Ticks) -> [u64; 6] {
    let call = signature.call.encode();
    let (first, rest) = call.split_first_chunk::<8>().expect("a call has 20 bytes");
    let (second, rest) = rest.split_first_chunk::<8>().expect("a call has 20 bytes");
    let layout = rest.first_chunk::<4>().expect("a call has 20 bytes");
    let peer = detail.peer.map_or(0, |peer| peer as u64 & u64::from(u32::MAX));
    let algorithm = detail.algorithm.map_or(NO_ALGORITHM, |algorithm| algorithm as u64);
    let mut flags = u64::from(detail.tag.unwrap_or(0)) | algorithm << 32;
    flags |= if detail.peer.is_some() { HAS_PEER } else { 0 };
    flags |= if detail.tag.is_some() { HAS_TAG } else { 0 };
    [
        signature.sequence,
        u64::from_le_bytes(*first),
        u64::from_le_bytes(*second),
        u64::from(u32::from_le_bytes(*layout)) | peer << 32,
        flags,
        began.number(),
    ]
}

fn decode(words: &[u64; 6]) -> Option<(Signature, Detail, Ticks)> {
    let [sequence, first, second, layout, flags, began] = *words;
    let mut call = [0; Call::ENCODED];
    call[..8].copy_from_slice(&first.to_le_bytes());
    call[8..16].copy_from_slice(&second.to_le_bytes());
    call[16..].copy_from_slice(&layout.to_le_bytes()[..4]);
    let detail = Detail {
        peer: (flags & HAS_PEER != 0).then_some((layout >> 32) as usize),
        tag: (flags & HAS_TAG != 0).then_some((flags & u64::from(u32::MAX)) as u32),
        algorithm: Algorithm::ALL.get((flags >> 32 & 0xff) as usize).copied(),
    };
    let signature = Signature { sequence, call: Call::decode(&call)? };
    Some((signature, detail, Ticks::from_number(began)))
}

/// Keeps the last operations of one group.
#[derive(Debug)]
pub(crate) struct Recorder {
    origin: Ticks,
    /// How many operations it shows.
    length: usize,
    /// As many and more, a power of two.
    ring: Box<[Slot]>,
    /// Operations begun, which is the number of the next one.
    started: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    /// The errors of the last failed operations, by number.
    errors: Mutex<VecDeque<(u64, String)>>,
}

impl Recorder {
    /// A recorder for the last `length` operations; 0 keeps only the counts.
    pub(crate) fn new(length: usize) -> Self {
        Recorder {
            origin: Ticks::now(),
            length,
            ring: match length {
                0 => Box::default(),
                _ => (0..length.next_power_of_two()).map(|_| Slot::default()).collect(),
            },
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            errors: Mutex::default(),
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
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let began = Ticks::now();
        if let Some(slot) = self.slot(number) {
            slot.write(number, &signature, Detail { peer, tag, algorithm }, began);
        }
        Ticket { number, began }
    }

    /// It has ended.
    pub(crate) fn end(&self, ticket: Ticket, error: Option<&dyn fmt::Display>) {
        let (count, state) = match error {
            None => (&self.completed, COMPLETED),
            Some(_) => (&self.failed, FAILED),
        };
        count.fetch_add(1, Ordering::Relaxed);
        let Some(slot) = self.slot(ticket.number) else { return };
        if let Some(error) = error {
            let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
            if errors.len() == self.length {
                errors.pop_front();
            }
            errors.push_back((ticket.number, error.to_string()));
        }
        let ticks = Ticks::now().number().saturating_sub(ticket.began.number());
        slot.finish(ticket.number, self.round(ticket.number), ticks, state);
    }

    /// The operations it remembers, oldest first.
    pub(crate) fn records(&self) -> Vec<Record> {
        let next = self.started.load(Ordering::Acquire);
        let oldest = next.saturating_sub(self.length as u64);
        (oldest..next).filter_map(|number| self.record(number)).collect()
    }

    fn record(&self, number: u64) -> Option<Record> {
        let (words, end) = self.slot(number)?.read(number)?;
        let (signature, detail, began) = decode(&words)?;
        let is_mine = end >> STATE_BITS & ((1 << ROUND_BITS) - 1) == self.round(number);
        let took = || {
            let ticks = end >> (STATE_BITS + ROUND_BITS);
            Ticks::from_number(began.number() + ticks).duration_since(began)
        };
        let (took, outcome) = match end & ((1 << STATE_BITS) - 1) {
            COMPLETED if is_mine => (took(), Outcome::Completed),
            FAILED if is_mine => (took(), Outcome::Failed(self.error(number))),
            _ => (began.elapsed(), Outcome::Running),
        };
        Some(Record {
            signature,
            peer: detail.peer,
            tag: detail.tag,
            algorithm: detail.algorithm,
            began: began.duration_since(self.origin),
            took,
            outcome,
        })
    }

    fn error(&self, number: u64) -> String {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors
            .iter()
            .find(|(of, _)| *of == number)
            .map(|(_, text)| text.clone())
            .unwrap_or_default()
    }

    fn slot(&self, number: u64) -> Option<&Slot> {
        let mask = (self.ring.len() as u64).wrapping_sub(1);
        self.ring.get((number & mask) as usize)
    }

    /// How often the ring had come round when this operation began, as far as that is kept.
    fn round(&self, number: u64) -> u64 {
        number >> self.ring.len().trailing_zeros() & ((1 << ROUND_BITS) - 1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Operation;
    use crate::dtype::{DType, Op};

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
    #[test]
    fn everything_that_was_given_comes_back() {
        let recorder = Recorder::new(16);
        let mut call = Call::new(Operation::Reduce, DType::Complex128, u64::MAX / 3);
        (call.op, call.root, call.layout) = (Some(Op::Max), Some(7), 0xdead_beef);
        let signature = Signature { sequence: u64::MAX - 1, call };
        for algorithm in Algorithm::ALL.map(Some).into_iter().chain([None]) {
            recorder.begin(signature, Some(12), None, algorithm);
        }
        recorder.begin(signature, None, Some(u32::MAX), None);
        let records = recorder.records();
        assert!(records.iter().all(|record| record.signature == signature));
        let algorithms: Vec<_> = records.iter().map(|record| record.algorithm).collect();
        assert_eq!(algorithms[..5], Algorithm::ALL.map(Some));
        assert_eq!(algorithms[5..], [None, None]);
        assert_eq!((records[0].peer, records[0].tag), (Some(12), None));
        assert_eq!((records[6].peer, records[6].tag), (None, Some(u32::MAX)));
    }

    #[test]
    fn a_late_end_does_not_touch_what_took_its_place() {
        let recorder = Recorder::new(2);
        let late = recorder.begin(signature(0), None, None, None);
        let tickets: Vec<Ticket> =
            (1..3).map(|n| recorder.begin(signature(n), None, None, None)).collect();
        recorder.end(tickets[1], None);
        recorder.end(late, Some(&"too late"));
        let outcomes: Vec<Outcome> =
            recorder.records().into_iter().map(|record| record.outcome).collect();
        assert_eq!(outcomes, [Outcome::Running, Outcome::Completed]);
        // The end of an operation of another round is not taken for that of this one.
        recorder.slot(2).expect("a ring").finish(2, recorder.round(0), 5, COMPLETED);
        assert_eq!(recorder.records()[1].outcome, Outcome::Running);
    }

    #[test]
    fn durations_are_those_of_the_operations() {
        let recorder = Recorder::new(3);
        let ticket = recorder.begin(signature(0), None, None, None);
        std::thread::sleep(Duration::from_millis(20));
        recorder.end(ticket, None);
        std::thread::sleep(Duration::from_millis(20));
        let running = recorder.begin(signature(1), None, None, None);
        let records = recorder.records();
        let (first, second) = (&records[0], &records[1]);
        assert!(first.took >= Duration::from_millis(19), "{first}");
        assert!(second.began >= first.began + first.took, "{first}, {second}");
        assert!(running.elapsed() < first.took + Duration::from_secs(5));
    }

    #[test]
    fn many_threads_write_while_one_reads() {
        let recorder = Recorder::new(64);
        let reader = || {
            let mut seen = 0;
            while recorder.counts().1 < 4 * 5000 {
                for record in recorder.records() {
                    // The count belongs to the sequence: nothing is mixed from two operations.
                    assert_eq!(record.signature.call.count, record.signature.sequence * 3);
                    assert_eq!(record.peer, Some(record.signature.sequence as usize % 7));
                    seen += 1;
                }
            }
            seen
        };
        let writer = |from: u64| {
            for n in 0..5000 {
                let sequence = from * 5000 + n;
                let peer = Some(sequence as usize % 7);
                let ticket = recorder.begin(signature(sequence), peer, None, None);
                recorder.end(ticket, None);
            }
        };
        std::thread::scope(|scope| {
            for from in 0..4 {
                scope.spawn(move || writer(from));
            }
            scope.spawn(reader);
        });
        assert_eq!(recorder.counts(), (20_000, 20_000, 0));
        assert_eq!(recorder.records().len(), 64);
    }
}
