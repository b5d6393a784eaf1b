//! What became of a job, and how it is told. Pure.

use std::fmt::Write;
use std::time::Duration;

use super::signals;
use super::wire::{Ending, Exit};

/// Why a job came to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cause {
    /// This rank failed first.
    Failed(usize),
    /// The time was up.
    Timeout(Duration),
    /// The launcher received a signal.
    Signal(i32),
    /// The launcher gave up by itself, with this code, and has said why.
    Gave(u8),
}

/// The ends of the ranks, in their order.
pub(crate) struct Outcome {
    ranks: usize,
    exits: Vec<Told>,
    cause: Option<Cause>,
    /// Whether the launcher has begun to end the ranks.
    ending: bool,
    /// How many clean exits were named while others still ran.
    named: usize,
}

struct Told {
    exit: Exit,
    /// Others that still ran.
    others: usize,
    /// The launcher had begun to end the ranks.
    late: bool,
}

impl Told {
    fn is_clean(&self) -> bool {
        self.exit.ending == Ending::Code(0)
    }
}

impl Outcome {
    pub(crate) fn new(ranks: usize) -> Self {
        Self { ranks, exits: Vec::new(), cause: None, ending: false, named: 0 }
    }

    /// Notes ranks that were found to have ended at the same time.
    pub(crate) fn record(&mut self, batch: &[Exit]) {
        let mut batch = batch.to_vec();
        // why: their order is not known. Clean ends explain nothing, and a rank that a signal
        // killed is a more likely cause than one that had time to exit.
        batch.sort_by_key(|exit| match exit.ending {
            Ending::Code(0) => (0, exit.rank),
            Ending::Signal(_) => (1, exit.rank),
            Ending::Code(_) => (2, exit.rank),
        });
        for exit in batch {
            let others = self.ranks - self.exits.len() - 1;
            if exit.ending != Ending::Code(0) {
                self.set_cause(Cause::Failed(exit.rank));
            }
            self.exits.push(Told { exit, others, late: self.ending });
        }
    }

    /// Notes why the job ends; only the first cause counts.
    pub(crate) fn set_cause(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Notes that from now on the launcher ends the ranks.
    pub(crate) fn set_ending(&mut self) {
        self.ending = true;
    }

    pub(crate) fn running(&self) -> usize {
        self.ranks - self.exits.len()
    }

    /// The code to exit with.
    pub(crate) fn code(&self) -> u8 {
        match self.cause {
            None => 0,
            Some(Cause::Timeout(_)) => 124,
            Some(Cause::Signal(signal)) => code_of(Ending::Signal(signal)),
            Some(Cause::Gave(code)) => code,
            Some(Cause::Failed(rank)) => {
                self.find(rank).map_or(125, |told| code_of(told.exit.ending))
            }
        }
    }

    fn find(&self, rank: usize) -> Option<&Told> {
        self.exits.iter().find(|told| told.exit.rank == rank)
    }

    /// Names the clean exits that were not named yet, for people who wonder why nothing happens.
    pub(crate) fn name_clean(&mut self) -> Option<String> {
        let running = self.running();
        let news: Vec<_> = self.exits[self.named..].iter().filter(|told| told.is_clean()).collect();
        let text = (!news.is_empty() && running > 0).then(|| {
            let verb = if running == 1 { "still runs" } else { "still run" };
            format!("{} while {} {verb}", describe(&news), others(running))
        });
        self.named = self.exits.len();
        text
    }

    /// Whether there are clean exits that were not named yet while others run.
    pub(crate) fn has_news(&self) -> bool {
        self.running() > 0 && self.exits[self.named..].iter().any(Told::is_clean)
    }

    /// Tells what happened, in the order in which it matters; nothing if all is well.
    pub(crate) fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let Some(cause) = self.cause else { return lines };
        let mut first = None;
        match cause {
            Cause::Failed(rank) => {
                first = Some(rank);
                if let Some(told) = self.find(rank) {
                    let alone = if self.ranks > 1 { " first" } else { "" };
                    let ending = explain(told.exit.ending);
                    let after = seconds(told.exit.after_us);
                    lines.push(format!("rank {rank} failed{alone}: {ending}, after {after}"));
                }
            }
            Cause::Timeout(limit) => {
                lines.push(format!("the job was ended: it took longer than {limit:?} (--timeout)"));
            }
            Cause::Signal(signal) => {
                lines.push(format!("the job was ended by {}", signals::name(signal)));
            }
            Cause::Gave(_) => {}
        }
        for told in self.exits.iter().filter(|told| told.is_clean() && !told.late) {
            // why: a clean end after the first failure explains nothing.
            if first.is_some_and(|rank| self.position(rank) < self.position(told.exit.rank)) {
                break;
            }
            if told.others > 0 {
                let (what, others) = (describe(&[told]), others(told.others));
                lines.push(format!("  {what} while {others} still ran"));
            }
        }
        self.add_others(first, &mut lines);
        lines
    }

    fn position(&self, rank: usize) -> usize {
        self.exits.iter().position(|told| told.exit.rank == rank).unwrap_or(usize::MAX)
    }

    /// Adds how the other ranks ended, those with the same end together.
    fn add_others(&self, first: Option<usize>, lines: &mut Vec<String>) {
        let mut groups: Vec<(bool, Ending, Vec<&Told>)> = Vec::new();
        for told in &self.exits {
            if Some(told.exit.rank) == first || (told.is_clean() && !told.late) {
                continue;
            }
            let same = |group: &&mut (bool, Ending, Vec<&Told>)| {
                (group.0, group.1) == (told.late, told.exit.ending)
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.2.push(told),
                None => groups.push((told.late, told.exit.ending, vec![told])),
            }
        }
        for (_, _, group) in groups {
            let lead = if first.is_some() { "  as a consequence: " } else { "  " };
            lines.push(format!("{lead}{}", describe(&group)));
        }
    }
}

fn others(count: usize) -> String {
    if count == 1 { "1 other".to_owned() } else { format!("{count} others") }
}

/// Describes ranks with the same ending.
fn describe(group: &[&Told]) -> String {
    let mut ranks: Vec<_> = group.iter().map(|told| told.exit.rank).collect();
    ranks.sort_unstable();
    let earliest = group.iter().map(|told| told.exit.after_us).min().unwrap_or(0);
    let latest = group.iter().map(|told| told.exit.after_us).max().unwrap_or(0);
    let (from, to) = (seconds(earliest), seconds(latest));
    let when = if from == to { to } else { format!("{} to {to}", from.trim_end_matches(" s")) };
    let told = group[0];
    let what = match told.exit.ending {
        Ending::Signal(signal @ (libc::SIGTERM | libc::SIGKILL)) if told.late => {
            format!("ended by the launcher ({})", signals::name(signal))
        }
        Ending::Code(code) if told.late => format!("exited with {code} when asked to end"),
        Ending::Code(0) => "exited with 0".to_owned(),
        Ending::Code(code) => format!("failed with exit code {code}"),
        Ending::Signal(signal) => format!("killed by {}", signals::name(signal)),
    };
    format!("{} {what} after {when}", list(&ranks))
}

/// `rank 3`, `ranks 0, 2–5`.
fn list(ranks: &[usize]) -> String {
    let mut text = String::from(if ranks.len() == 1 { "rank " } else { "ranks " });
    let mut rest = ranks;
    while let Some(&from) = rest.first() {
        let run = (0..rest.len()).take_while(|&i| rest[i] == from + i).count();
        let (separator, to) = (if rest.len() < ranks.len() { ", " } else { "" }, from + run - 1);
        let _ = match run {
            1 => write!(text, "{separator}{from}"),
            2 => write!(text, "{separator}{from}, {to}"),
            _ => write!(text, "{separator}{from}–{to}"),
        };
        rest = &rest[run..];
    }
    text
}

fn explain(ending: Ending) -> String {
    match ending {
        Ending::Code(code) => match code - 128 {
            // why: shells report the death of their child in this way.
            signal @ 1..=31 => format!("exit code {code} (as after {})", signals::name(signal)),
            _ => format!("exit code {code}"),
        },
        Ending::Signal(libc::SIGKILL) => {
            "killed by SIGKILL (if nobody sent it, the host may have run out of memory)".to_owned()
        }
        Ending::Signal(signal) => format!("killed by {}", signals::name(signal)),
    }
}

fn code_of(ending: Ending) -> u8 {
    let code = match ending {
        Ending::Code(code) => code,
        Ending::Signal(signal) => 128 + signal,
    };
    u8::try_from(code).unwrap_or(125)
}

fn seconds(us: u64) -> String {
    let seconds = Duration::from_micros(us).as_secs_f64();
    if seconds < 10.0 { format!("{seconds:.2} s") } else { format!("{seconds:.1} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(rank: usize, ending: Ending, ms: u64) -> Exit {
        Exit { rank, ending, after_us: ms * 1000 }
    }

    #[test]
    fn all_well_needs_no_words() {
        let mut outcome = Outcome::new(2);
        outcome.record(&[exit(1, Ending::Code(0), 10)]);
        outcome.record(&[exit(0, Ending::Code(0), 20)]);
        assert_eq!((outcome.code(), outcome.running()), (0, 0));
        assert!(outcome.summary().is_empty());
        assert_eq!(outcome.name_clean(), None);
    }

    #[test]
    fn the_first_failure_leads_and_the_others_follow_from_it() {
        let mut outcome = Outcome::new(7);
        outcome.record(&[exit(2, Ending::Code(0), 1300)]);
        outcome.record(&[exit(1, Ending::Code(3), 1500)]);
        outcome.record(&[exit(0, Ending::Code(1), 1600)]);
        outcome.set_ending();
        let term = Ending::Signal(libc::SIGTERM);
        outcome.record(&[exit(6, term, 3501), exit(3, term, 3501), exit(4, term, 3502)]);
        outcome.record(&[exit(5, Ending::Code(0), 3600)]);
        assert_eq!(outcome.code(), 3);
        assert_eq!(
            outcome.summary(),
            [
                "rank 1 failed first: exit code 3, after 1.50 s",
                "  rank 2 exited with 0 after 1.30 s while 6 others still ran",
                "  as a consequence: rank 0 failed with exit code 1 after 1.60 s",
                "  as a consequence: ranks 3, 4, 6 ended by the launcher (SIGTERM) after 3.50 s",
                "  as a consequence: rank 5 exited with 0 when asked to end after 3.60 s",
            ]
        );
    }

    #[test]
    fn among_ranks_found_together_the_killed_one_is_the_cause() {
        let mut outcome = Outcome::new(3);
        let batch = [
            exit(0, Ending::Code(1), 500),
            exit(2, Ending::Signal(libc::SIGSEGV), 500),
            exit(1, Ending::Code(0), 500),
        ];
        outcome.record(&batch);
        assert_eq!(outcome.cause(), Some(Cause::Failed(2)));
        assert_eq!(outcome.code(), 139);
        let summary = outcome.summary();
        assert_eq!(summary[0], "rank 2 failed first: killed by SIGSEGV, after 0.50 s");
        assert_eq!(summary[1], "  rank 1 exited with 0 after 0.50 s while 2 others still ran");
    }

    #[test]
    fn the_first_cause_counts() {
        let mut outcome = Outcome::new(1);
        outcome.set_cause(Cause::Signal(libc::SIGINT));
        outcome.set_cause(Cause::Timeout(Duration::from_secs(1)));
        outcome.record(&[exit(0, Ending::Code(7), 10)]);
        assert_eq!(outcome.code(), 130);
        assert_eq!(outcome.summary()[0], "the job was ended by SIGINT");
        let mut outcome = Outcome::new(1);
        outcome.set_cause(Cause::Timeout(Duration::from_millis(1500)));
        assert_eq!(outcome.code(), 124);
        assert!(outcome.summary()[0].contains("1.5s (--timeout)"));
    }

    #[test]
    fn clean_exits_are_named_once() {
        let mut outcome = Outcome::new(4);
        assert!(!outcome.has_news());
        outcome.record(&[exit(2, Ending::Code(0), 1300)]);
        outcome.record(&[exit(0, Ending::Code(0), 1400)]);
        assert!(outcome.has_news());
        let text = outcome.name_clean().unwrap();
        assert_eq!(text, "ranks 0, 2 exited with 0 after 1.30 to 1.40 s while 2 others still run");
        assert!(!outcome.has_news());
        assert_eq!(outcome.name_clean(), None);
    }

    #[test]
    fn codes_that_stand_for_signals_are_explained() {
        assert_eq!(explain(Ending::Code(134)), "exit code 134 (as after SIGABRT)");
        assert_eq!(explain(Ending::Code(255)), "exit code 255");
        assert_eq!(explain(Ending::Code(128)), "exit code 128");
        assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "ranks 0–2, 5, 7, 8");
    }
}
