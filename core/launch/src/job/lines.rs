//! Merges the output of all ranks so that lines stay whole. Pure: bytes and times in, bytes out.
//!
//! A stream is one output of one rank; a surface is where streams become visible: a terminal, a
//! file, a pipe. Usually only whole lines are put on a surface. A line that grows beyond
//! [`LONGEST_HELD`], or (on a terminal) a prompt that stays without an end, takes the *floor* of
//! its surface: it is passed on as it comes, and the others wait. Should it fall silent while
//! others wait, its line is broken, so that no rank is ever blocked by another's unfinished line.

use std::time::{Duration, Instant};

/// How much of a stream is held back at most.
pub(crate) const LONGEST_HELD: usize = 64 * 1024;

/// How long the owner of the floor may be silent while others wait: in the middle of a long line it
/// is still writing, and may only be short of processor time; at a prompt it waits itself.
const PATIENCE: Duration = Duration::from_secs(1);
const PROMPT_PATIENCE: Duration = Duration::from_millis(200);

/// How long an endless line may keep others waiting.
const LONGEST_FLOOR: Duration = Duration::from_secs(5);

/// How long a terminal waits for the rest of a line before it shows the beginning.
const PROMPT: Duration = Duration::from_millis(100);

/// Where a stream ends up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sink {
    Out,
    Err,
}

/// What is known of the two sinks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    /// Lines begin with their rank.
    pub(crate) tags: bool,
    /// Whether each sink shows colours.
    pub(crate) colour: [bool; 2],
    /// Whether each sink is looked at by a person.
    pub(crate) terminal: [bool; 2],
    /// Whether both sinks lead to the same place.
    pub(crate) shared: bool,
}

struct Stream {
    sink: Sink,
    held: Vec<u8>,
    /// `held` begins with this many bytes of whole lines.
    whole: usize,
    ended: bool,
    last: Instant,
    tag: Vec<u8>,
    continued: Vec<u8>,
    /// The beginning of its line was shown, then the line was broken.
    broken: bool,
}

impl Stream {
    /// Whether it has something that would be shown if it had the floor.
    fn waits(&self) -> bool {
        self.whole > 0 || self.held.len() >= LONGEST_HELD
    }
}

/// The right to an unfinished line on a surface.
#[derive(Clone, Copy)]
struct Floor {
    owner: usize,
    since: Instant,
    patience: Duration,
}

/// The merger of all streams: two for each rank, see [`Merger::stream`].
pub(crate) struct Merger {
    looks: Looks,
    streams: Vec<Stream>,
    /// By surface.
    floors: [Option<Floor>; 2],
    /// A single untagged rank: bytes are passed on as they come.
    raw: bool,
    ready: Vec<(Sink, Vec<u8>)>,
}

impl Merger {
    pub(crate) fn new(ranks: usize, looks: Looks, now: Instant) -> Self {
        let width = (ranks - 1).to_string().len();
        let mut streams = Vec::new();
        for rank in 0..ranks {
            for sink in [Sink::Out, Sink::Err] {
                let tag = |end: &str| {
                    if !looks.tags {
                        return Vec::new();
                    }
                    let number = format!("[{rank:>width$}]");
                    if looks.colour[sink as usize] {
                        // why: the six hues that are legible on light and on dark.
                        let hue = 31 + [5, 1, 2, 4, 3, 0][rank % 6];
                        format!("\x1b[{hue}m{number}\x1b[0m{end}").into_bytes()
                    } else {
                        format!("{number}{end}").into_bytes()
                    }
                };
                streams.push(Stream {
                    sink,
                    held: Vec::new(),
                    whole: 0,
                    ended: false,
                    last: now,
                    tag: tag(" "),
                    continued: tag("+ "),
                    broken: false,
                });
            }
        }
        let raw = ranks == 1 && !looks.tags;
        Self { looks, streams, floors: [None; 2], raw, ready: Vec::new() }
    }

    /// The number of a rank's stream.
    pub(crate) fn stream(rank: usize, sink: Sink) -> usize {
        2 * rank + sink as usize
    }

    /// Whether the stream may be read from now.
    pub(crate) fn accepts(&self, stream: usize) -> bool {
        self.streams[stream].held.len() < LONGEST_HELD
    }

    /// Takes bytes of a stream.
    pub(crate) fn feed(&mut self, stream: usize, bytes: &[u8], now: Instant) {
        let one = &mut self.streams[stream];
        one.last = now;
        if self.raw {
            let sink = one.sink;
            return self.put(sink, bytes);
        }
        if let Some(end) = memchr::memrchr(b'\n', bytes) {
            one.whole = one.held.len() + end + 1;
        }
        one.held.extend_from_slice(bytes);
        self.advance(stream, now);
    }

    /// Notes that nothing more comes from a stream. A last line without an end is given one.
    pub(crate) fn end(&mut self, stream: usize, now: Instant) {
        let surface = self.surface(stream);
        let one = &mut self.streams[stream];
        if one.ended || self.raw {
            return;
        }
        one.ended = true;
        let shown = self.floors[surface].is_some_and(|floor| floor.owner == stream);
        if one.held.len() > one.whole || shown {
            one.held.push(b'\n');
            one.whole = one.held.len();
        }
        self.advance(stream, now);
    }

    /// Puts the launcher's own words on the standard error.
    pub(crate) fn notice(&mut self, text: &str) {
        self.break_line(self.surface_of(Sink::Err));
        self.put(Sink::Err, format!("{text}\n").as_bytes());
    }

    /// Acts on time that has passed.
    pub(crate) fn tick(&mut self, now: Instant) {
        for surface in 0..self.floors.len() {
            if self.breaks_at(surface).is_some_and(|at| now >= at) {
                self.break_line(surface);
                self.advance_all(surface, now);
            }
        }
        for stream in 0..self.streams.len() {
            if self.prompts_at(stream).is_some_and(|at| now >= at) {
                self.take_floor(stream, now, PROMPT_PATIENCE);
            }
        }
    }

    /// Notes that nothing was read up to `now`, so that silence means nothing.
    pub(crate) fn excuse(&mut self, now: Instant) {
        for floor in self.floors.iter_mut().flatten() {
            floor.since = now;
            self.streams[floor.owner].last = now;
        }
    }

    /// When [`Merger::tick`] has something to do.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        let breaks = (0..self.floors.len()).filter_map(|surface| self.breaks_at(surface));
        let prompts = (0..self.streams.len()).filter_map(|stream| self.prompts_at(stream));
        breaks.chain(prompts).min()
    }

    /// What is to be written now, in this order.
    pub(crate) fn take(&mut self) -> Vec<(Sink, Vec<u8>)> {
        std::mem::take(&mut self.ready)
    }

    fn surface_of(&self, sink: Sink) -> usize {
        if self.looks.shared { 0 } else { sink as usize }
    }

    fn surface(&self, stream: usize) -> usize {
        self.surface_of(self.streams[stream].sink)
    }

    fn put(&mut self, sink: Sink, bytes: &[u8]) {
        match self.ready.last_mut() {
            Some((last, buffer)) if *last == sink => buffer.extend_from_slice(bytes),
            _ => self.ready.push((sink, bytes.to_vec())),
        }
    }

    /// When the unfinished line on a surface has to be broken.
    fn breaks_at(&self, surface: usize) -> Option<Instant> {
        let Floor { owner, since, patience } = self.floors[surface]?;
        let other_waits = (0..self.streams.len()).any(|stream| {
            stream != owner && self.surface(stream) == surface && self.streams[stream].waits()
        });
        let silent = self.streams[owner].last + patience;
        other_waits.then(|| silent.min(since + LONGEST_FLOOR))
    }

    /// When the beginning of a line is to be shown.
    fn prompts_at(&self, stream: usize) -> Option<Instant> {
        let one = &self.streams[stream];
        let visible = self.looks.terminal[one.sink as usize];
        let free = self.floors[self.surface(stream)].is_none();
        (visible && free && one.whole == 0 && !one.held.is_empty()).then(|| one.last + PROMPT)
    }

    fn break_line(&mut self, surface: usize) {
        if let Some(Floor { owner, .. }) = self.floors[surface].take() {
            self.streams[owner].broken = true;
            let sink = self.streams[owner].sink;
            self.put(sink, b"\n");
        }
    }

    fn begin_line(&mut self, stream: usize) {
        let one = &mut self.streams[stream];
        let tag = if std::mem::take(&mut one.broken) { &one.continued } else { &one.tag };
        let (sink, tag) = (one.sink, tag.clone());
        self.put(sink, &tag);
    }

    fn take_floor(&mut self, stream: usize, now: Instant, patience: Duration) {
        self.begin_line(stream);
        let surface = self.surface(stream);
        self.floors[surface] = Some(Floor { owner: stream, since: now, patience });
        self.pass_partial(stream);
    }

    fn pass_partial(&mut self, stream: usize) {
        let bytes = std::mem::take(&mut self.streams[stream].held);
        let sink = self.streams[stream].sink;
        self.put(sink, &bytes);
    }

    /// Shows what can be shown of a stream, and then of those that waited for it.
    fn advance(&mut self, stream: usize, now: Instant) {
        let surface = self.surface(stream);
        let owned = match self.floors[surface] {
            Some(floor) if floor.owner != stream => return,
            floor => floor.is_some(),
        };
        self.show(stream, owned, now);
        if owned && self.floors[surface].is_none() {
            self.advance_all(surface, now);
        }
    }

    fn advance_all(&mut self, surface: usize, now: Instant) {
        for stream in 0..self.streams.len() {
            if self.floors[surface].is_some() {
                return;
            }
            if self.surface(stream) == surface && self.streams[stream].waits() {
                self.show(stream, false, now);
            }
        }
    }

    /// Shows a stream on a surface that is free or (`owned`) its own.
    fn show(&mut self, stream: usize, mut owned: bool, now: Instant) {
        let surface = self.surface(stream);
        let one = &mut self.streams[stream];
        let whole = std::mem::take(&mut one.whole);
        if whole > 0 {
            let rest = one.held.split_off(whole);
            let lines = std::mem::replace(&mut one.held, rest);
            for line in lines.split_inclusive(|&byte| byte == b'\n') {
                if !std::mem::take(&mut owned) {
                    self.begin_line(stream);
                }
                let sink = self.streams[stream].sink;
                self.put(sink, line);
            }
            self.floors[surface] = None;
        }
        if owned {
            self.pass_partial(stream);
        } else if self.streams[stream].held.len() >= LONGEST_HELD {
            self.take_floor(stream, now, PATIENCE);
        }
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
