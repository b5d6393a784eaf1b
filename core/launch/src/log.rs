//! The library's log on stderr, for programs that have no subscriber of their own.

use std::fmt;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

/// The variable that says how much is logged.
const VARIABLE: &str = "LYCAON_LOG";

/// Writes the library's log to stderr from now on, one line per event, unless the program has a
/// subscriber already. `LYCAON_LOG` says how much: `off`, `error`, `warn` (the default), `info` or
/// `debug`.
pub fn log_to_stderr() {
    let level = match std::env::var_os(VARIABLE) {
        None => LevelFilter::WARN,
        Some(text) => text.to_str().and_then(level).unwrap_or_else(|| {
            // why: a program must not fail for its log; but nobody should wait for lines in vain.
            eprintln!(
                "lycaon: {VARIABLE}={text:?} is none of off, error, warn, info and debug; using warn"
            );
            LevelFilter::WARN
        }),
    };
    let lines = tracing_subscriber::fmt::layer()
        .event_format(Line { rank: std::env::var("LYCAON_RANK").ok() })
        .with_writer(std::io::stderr)
        // why: it would report a closed stderr on stderr, and panic.
        .log_internal_errors(false);
    let subscriber = tracing_subscriber::registry()
        .with(Targets::new().with_target("lycaon", level))
        .with(lines);
    // why: an error says that there is a subscriber already, which then has the log.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

fn level(text: &str) -> Option<LevelFilter> {
    match text.trim().to_ascii_lowercase().as_str() {
        "off" => Some(LevelFilter::OFF),
        "error" => Some(LevelFilter::ERROR),
        // An empty variable is one that is not set, as everywhere in the environment.
        "warn" | "" => Some(LevelFilter::WARN),
        "info" => Some(LevelFilter::INFO),
        "debug" => Some(LevelFilter::DEBUG),
        _ => None,
    }
}

/// `lycaon[2]: WARN a connection was dropped peer=…`; several ranks write to one terminal.
struct Line {
    rank: Option<String>,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match &self.rank {
            Some(rank) => write!(writer, "lycaon[{rank}]: ")?,
            None => writer.write_str("lycaon: ")?,
        }
        write!(writer, "{} ", event.metadata().level())?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn levels_have_names() {
        assert_eq!(level("off"), Some(LevelFilter::OFF));
        assert_eq!(level(" Debug "), Some(LevelFilter::DEBUG));
        assert_eq!(level(""), Some(LevelFilter::WARN));
        assert_eq!(level("verbose"), None);
    }

    #[test]
    fn a_line_says_which_rank_how_grave_and_what() {
        for (rank, prefix) in [(Some("2".to_owned()), "lycaon[2]"), (None, "lycaon")] {
            let sink = Sink::default();
            let writer = sink.clone();
            let lines = tracing_subscriber::fmt::layer()
                .event_format(Line { rank })
                .with_writer(move || writer.clone());
            let subscriber = tracing_subscriber::registry()
                .with(Targets::new().with_target("lycaon", LevelFilter::WARN))
                .with(lines);
            tracing::subscriber::with_default(subscriber, || {
                tracing::warn!(target: "lycaon::bootstrap", peer = 7, "dropped a connection");
                tracing::info!(target: "lycaon::bootstrap", "the group is formed");
                tracing::error!(target: "somebody_else", "not ours");
            });
            let text = String::from_utf8(sink.0.lock().expect("no panic").clone());
            assert_eq!(
                text.expect("text"),
                format!("{prefix}: WARN dropped a connection peer=7\n")
            );
        }
    }
}
