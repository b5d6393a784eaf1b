//! Where the results of rank 0 appear, and the bar that shows how far it is.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::thread::JoinHandle;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::io::FdFlags;

use super::BenchError;

/// What rank 0 writes to.
pub(super) enum Screen {
    /// Nothing: this is another rank.
    Dark,
    /// Standard output.
    Plain,
    /// The process that draws: see [`Drawn`].
    Remote(File),
}

impl Screen {
    /// The screen of this rank.
    pub(super) fn of(rank: usize, descriptor: Option<u32>) -> Result<Self, BenchError> {
        match (rank, descriptor) {
            (0, None) => Ok(Screen::Plain),
            (0, Some(number)) => OpenOptions::new()
                .write(true)
                .open(format!("/dev/fd/{number}"))
                .map(Screen::Remote)
                .map_err(|source| BenchError::System { what: "reach the screen", source }),
            _ => Ok(Screen::Dark),
        }
    }

    /// Shows a line.
    pub(super) fn line(&mut self, text: &str) -> Result<(), BenchError> {
        let result = match self {
            Screen::Dark => Ok(()),
            Screen::Plain => writeln!(io::stdout(), "{text}"),
            Screen::Remote(remote) => text
                .split('\n')
                .try_for_each(|line| remote.write_all(format!("L{line}\n").as_bytes())),
        };
        result.map_err(|source| BenchError::Output { place: "the results".to_owned(), source })
    }

    /// Shows what is under way.
    pub(super) fn progress(&mut self, done: usize, all: usize, what: &str) {
        if let Screen::Remote(remote) = self {
            // why: the bar is a courtesy; the work does not end with it.
            let _ = remote.write_all(format!("P{done} {all} {what}\n").as_bytes());
        }
    }
}

/// The other end: draws the bar and prints the lines of rank 0 above it.
pub(super) struct Drawn {
    writer: PipeWriter,
    thread: JoinHandle<()>,
}

impl Drawn {
    /// Starts drawing; gives the argument that tells rank 0 where.
    pub(super) fn start() -> Result<(Self, [OsString; 2]), BenchError> {
        let system = |what| move |source| BenchError::System { what, source };
        let (reader, writer) = io::pipe().map_err(system("make a pipe"))?;
        // why: the ranks inherit it through the guardian.
        rustix::io::fcntl_setfd(&writer, FdFlags::empty())
            .map_err(|errno| system("pass on a pipe")(errno.into()))?;
        let argument = ["--screen".into(), writer.as_raw_fd().to_string().into()];
        let thread = std::thread::Builder::new()
            .name("lycaon-screen".to_owned())
            .spawn(move || draw(reader))
            .map_err(system("start a thread"))?;
        Ok((Drawn { writer, thread }, argument))
    }

    /// Waits until everything is shown. The ranks have ended by now.
    pub(super) fn finish(self) {
        drop(self.writer);
        let _ = self.thread.join();
    }
}

fn draw(reader: PipeReader) {
    // why: an empty bar above the first lines tells nothing; it appears with the first progress.
    let mut bar: Option<ProgressBar> = None;
    for line in BufReader::new(reader).lines() {
        let Ok(line) = line else { break };
        if let Some(text) = line.strip_prefix('L') {
            // why: with no reader left the results are lost, but the ranks may still end in order.
            let print = || drop(writeln!(io::stdout(), "{text}"));
            match &bar {
                Some(bar) => bar.suspend(print),
                None => print(),
            }
        } else if let Some((done, all, what)) = progress(&line) {
            let bar = bar.get_or_insert_with(|| start_bar(all));
            bar.set_message(what.to_owned());
            bar.set_position(done);
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn start_bar(all: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {msg}");
    ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::stderr())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn progress(line: &str) -> Option<(u64, u64, &str)> {
    let (done, rest) = line.strip_prefix('P')?.split_once(' ')?;
    let (all, what) = rest.split_once(' ')?;
    Some((done.parse().ok()?, all.parse().ok()?, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_it_is_written() {
        assert_eq!(progress("P3 12 all_reduce 64K"), Some((3, 12, "all_reduce 64K")));
        assert_eq!(progress("P3"), None);
        assert_eq!(progress("Px 1 y"), None);
    }
}
