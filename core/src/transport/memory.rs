//! Links between the threads of one process: bounded byte rings behind a lock, and a simulated
//! weather of delays, short writes and broken links for tests.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::message::{Messenger, Settings};
use super::stream::Stream;
use crate::error::LinkKind;
use crate::sys::poller::Poller;

/// How a memory fabric behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Cuts and bounds of the message layer.
    pub settings: Settings,
    /// Bytes that one direction of a stream holds.
    pub capacity: usize,
    /// Streams per pair.
    pub rails: usize,
    /// Delays and short transfers, drawn from this seed.
    pub weather: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        let settings = Settings::new(LinkKind::Memory);
        Options { settings, capacity: 256 * 1024, rails: 1, weather: None }
    }
}

/// One rank's end of a fabric in memory.
pub(crate) struct Endpoint {
    /// Its links.
    pub transport: Messenger<MemoryStream>,
    /// What its thread sleeps on.
    pub poller: Arc<Poller>,
}

/// Breaks links while they are used.
// why: groups in one process keep it only in tests.
#[cfg_attr(not(test), allow(dead_code))]
#[derive(Clone, Debug)]
pub(crate) struct Scissors {
    pipes: Vec<(usize, usize, Arc<Pipe>)>,
}

impl Scissors {
    /// Breaks all rails between two ranks, in both directions: reads and writes fail with `reason`
    /// after what had arrived was read.
    #[cfg_attr(not(test), allow(dead_code))]
    pub(crate) fn cut(&self, first: usize, second: usize, reason: &str) {
        for (from, to, pipe) in &self.pipes {
            if (*from, *to) == (first, second) || (*from, *to) == (second, first) {
                pipe.change(|state| state.broken = Some(reason.to_owned()));
            }
        }
    }
}

/// Joins `size` ranks with each other. Every rank's transport may move to its own thread.
pub(crate) fn fabric(size: usize, options: &Options) -> io::Result<(Vec<Endpoint>, Scissors)> {
    let pollers = (0..size).map(|_| Poller::new()).collect::<io::Result<Vec<_>>>()?;
    let mut links: Vec<Vec<Vec<MemoryStream>>> =
        (0..size).map(|_| (0..size).map(|_| Vec::new()).collect()).collect();
    let mut pipes = Vec::new();
    let mut streams = 0;
    for low in 0..size {
        for high in low + 1..size {
            for _ in 0..options.rails {
                let up = Pipe::new(options.capacity, &pollers[low], &pollers[high]);
                let down = Pipe::new(options.capacity, &pollers[high], &pollers[low]);
                pipes.push((low, high, Arc::clone(&up)));
                pipes.push((high, low, Arc::clone(&down)));
                let mut weather = || {
                    streams += 1;
                    options.weather.map(|seed| Weather::new(seed.wrapping_add(streams)))
                };
                let near = MemoryStream::new(Arc::clone(&down), Arc::clone(&up), weather());
                let far = MemoryStream::new(up, down, weather());
                links[low][high].push(near);
                links[high][low].push(far);
            }
        }
    }
    let endpoints = links
        .into_iter()
        .zip(pollers)
        .map(|(links, poller)| Endpoint {
            transport: Messenger::new(options.settings, Arc::clone(&poller), links),
            poller,
        })
        .collect();
    Ok((endpoints, Scissors { pipes }))
}

/// One direction of a stream.
#[derive(Debug)]
struct Pipe {
    state: Mutex<PipeState>,
    /// Woken when a sleeping writer can go on.
    writer: Arc<Poller>,
    /// Woken when a sleeping reader can go on.
    reader: Arc<Poller>,
}

#[derive(Debug)]
struct PipeState {
    ring: Box<[u8]>,
    start: usize,
    len: usize,
    /// The writer has finished, or is gone.
    ended: bool,
    /// The reader is gone.
    deaf: bool,
    broken: Option<String>,
    reader_sleeps: bool,
    writer_sleeps: bool,
}

impl Pipe {
    fn new(capacity: usize, writer: &Arc<Poller>, reader: &Arc<Poller>) -> Arc<Self> {
        let state = PipeState {
            ring: vec![0; capacity].into_boxed_slice(),
            start: 0,
            len: 0,
            ended: false,
            deaf: false,
            broken: None,
            reader_sleeps: false,
            writer_sleeps: false,
        };
        let (writer, reader) = (Arc::clone(writer), Arc::clone(reader));
        Arc::new(Pipe { state: Mutex::new(state), writer, reader })
    }

    fn lock(&self) -> MutexGuard<'_, PipeState> {
        // why: the state is consistent after every statement that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something both sides have to notice.
    fn change(&self, change: impl FnOnce(&mut PipeState)) {
        let mut state = self.lock();
        change(&mut state);
        state.reader_sleeps = false;
        state.writer_sleeps = false;
        drop(state);
        self.reader.notify();
        self.writer.notify();
    }
}

impl PipeState {
    fn push(&mut self, mut bytes: &[u8]) -> usize {
        let mut pushed = 0;
        while !bytes.is_empty() && self.len < self.ring.len() {
            let capacity = self.ring.len();
            let at = (self.start + self.len) % capacity;
            let run = (capacity - at).min(capacity - self.len).min(bytes.len());
            self.ring[at..at + run].copy_from_slice(&bytes[..run]);
            self.len += run;
            pushed += run;
            bytes = &bytes[run..];
        }
        pushed
    }

    fn pop(&mut self, mut into: &mut [u8]) -> usize {
        let mut popped = 0;
        while !into.is_empty() && self.len > 0 {
            let capacity = self.ring.len();
            let run = (capacity - self.start).min(self.len).min(into.len());
            into[..run].copy_from_slice(&self.ring[self.start..self.start + run]);
            self.start = (self.start + run) % capacity;
            self.len -= run;
            popped += run;
            into = &mut into[run..];
        }
        popped
    }
}

/// A stream to another thread.
#[derive(Debug)]
pub(crate) struct MemoryStream {
    from: Arc<Pipe>,
    to: Arc<Pipe>,
    weather: Option<Weather>,
}

impl MemoryStream {
    fn new(from: Arc<Pipe>, to: Arc<Pipe>, weather: Option<Weather>) -> Self {
        MemoryStream { from, to, weather }
    }
}

impl Stream for MemoryStream {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut limit = self.weather.as_mut().map_or(usize::MAX, Weather::limit);
        let mut state = self.to.lock();
        if let Some(reason) = &state.broken {
            return Err(io::Error::new(ErrorKind::ConnectionReset, reason.clone()));
        }
        if state.deaf {
            return Err(io::Error::new(ErrorKind::BrokenPipe, "the other endpoint is gone"));
        }
        let mut written = 0;
        for part in parts {
            let wanted = part.len().min(limit);
            let pushed = state.push(&part[..wanted]);
            written += pushed;
            limit -= pushed;
            if pushed < part.len() {
                break;
            }
        }
        if written == 0 && parts.iter().any(|part| !part.is_empty()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let wake = std::mem::take(&mut state.reader_sleeps);
        drop(state);
        if wake {
            self.to.reader.notify();
        }
        Ok(written)
    }

    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut limit = self.weather.as_mut().map_or(usize::MAX, Weather::limit);
        let mut state = self.from.lock();
        if state.len == 0 {
            if let Some(reason) = &state.broken {
                return Err(io::Error::new(ErrorKind::ConnectionReset, reason.clone()));
            }
            return if state.ended { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        let mut read = 0;
        for part in parts {
            let wanted = part.len().min(limit);
            let popped = state.pop(&mut part[..wanted]);
            read += popped;
            limit -= popped;
            if popped < part.len() {
                break;
            }
        }
        if read == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let wake = std::mem::take(&mut state.writer_sleeps);
        drop(state);
        if wake {
            self.from.writer.notify();
        }
        Ok(read)
    }

    fn prepare_sleep(&mut self, for_write: bool) -> io::Result<bool> {
        let mut from = self.from.lock();
        if from.len > 0 || from.ended || from.broken.is_some() {
            return Ok(false);
        }
        from.reader_sleeps = true;
        drop(from);
        if for_write {
            let mut to = self.to.lock();
            if to.len < to.ring.len() || to.deaf || to.broken.is_some() {
                return Ok(false);
            }
            to.writer_sleeps = true;
        }
        Ok(true)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.to.change(|state| state.ended = true);
        Ok(())
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        self.to.change(|state| state.ended = true);
        self.from.change(|state| state.deaf = true);
    }
}

/// Randomly delayed and shortened transfers (SplitMix64).
#[derive(Debug)]
struct Weather(u64);

impl Weather {
    fn new(seed: u64) -> Self {
        Weather(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// How many bytes the next transfer may move; 0 lets it wait.
    fn limit(&mut self) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        match z % 8 {
            0..=2 => 0,
            3 => 1 + (z >> 32) as usize % 100,
            4 => 1 + (z >> 32) as usize % 5000,
            _ => usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::conformance::{self, Fabric, Node};

    fn nodes(size: usize, options: &Options) -> Fabric {
        let (endpoints, scissors) = fabric(size, options).unwrap();
        let nodes = endpoints
            .into_iter()
            .enumerate()
            .map(|(rank, end)| Node::new(rank, Box::new(end.transport), end.poller))
            .collect();
        let cut = move |first, second| scissors.cut(first, second, "the cable was cut");
        Fabric { nodes, cut: Some(Box::new(cut)) }
    }

    mod plain {
        use super::*;
        conformance::conformance!(|size| nodes(size, &Options::default()));
    }

    #[test]
    fn a_cut_link_is_fatal_at_once() {
        conformance::a_broken_link_is_fatal_at_once(|size| nodes(size, &Options::default()));
        conformance::a_broken_link_is_fatal_at_once(|size| {
            nodes(size, &Options { weather: Some(7), rails: 3, ..Options::default() })
        });
    }

    /// Rings that hold hardly more than a header.
    mod narrow {
        use super::*;
        conformance::conformance!(|size| {
            nodes(size, &Options { capacity: 1500, ..Options::default() })
        });
    }

    /// Delays and short transfers, several rails.
    mod stormy {
        use super::*;
        conformance::conformance!(|size| {
            nodes(size, &Options { weather: Some(42), rails: 3, ..Options::default() })
        });
    }
}
