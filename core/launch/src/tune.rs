//! `lycaon tune`: what messages and bytes cost here, and which algorithms follow from that.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use lycaon::Group;

use crate::{Restart, ranks};

/// The options of `lycaon tune`.
#[derive(Args, Debug)]
#[command(
    after_help = "Under a launcher it is one rank of the group that it finds; else it starts ranks \
on this machine. Give the file to every rank of a job with LYCAON_PROFILE=FILE.

Examples:
  lycaon tune -n 2 --output profile.json
  lycaon launch -n 4 -- lycaon tune --output profile.json"
)]
pub(crate) struct TuneOptions {
    /// How many ranks to start on this machine [default: 2]
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = parse_ranks)]
    ranks: Option<usize>,

    /// Where the prices go; standard output without this
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn parse_ranks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(ranks @ 2..=64) => Ok(ranks),
        _ => Err("2 to 64 ranks can be started on one machine".to_owned()),
    }
}

/// What may go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum TuneError {
    /// The library.
    #[error(transparent)]
    Group(#[from] lycaon::Error),
    /// The prices could not be written.
    #[error("cannot write {place}: {source}")]
    Output {
        /// Where to.
        place: String,
        source: io::Error,
    },
    /// There is nobody to exchange messages with.
    #[error("the launcher started one rank only; it takes two or more to measure a link")]
    Alone,
}

/// Measures; gives the code to exit with. `arguments` are those of the program, from `tune` on.
pub(crate) fn run(options: &TuneOptions, arguments: &[OsString], restart: &Restart) -> u8 {
    let result = match ranks::is_rank() {
        Ok(true) => take_part(options),
        Ok(false) => return ranks::start(options.ranks.unwrap_or(2), arguments.to_vec(), restart),
        Err(error) => Err(lycaon::Error::from(error).into()),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "lycaon tune: {error}");
            1
        }
    }
}

fn take_part(options: &TuneOptions) -> Result<(), TuneError> {
    let group: Group = lycaon::init()?;
    if group.size() == 1 {
        return Err(TuneError::Alone);
    }
    let prices = group.measure()?;
    if group.rank() == 0 {
        // why: what people read goes beside what programs read.
        let _ = write!(io::stderr(), "{}", group.describe());
        let written = match &options.output {
            Some(path) => std::fs::write(path, format!("{prices}\n")),
            None => writeln!(io::stdout(), "{prices}"),
        };
        written.map_err(|source| TuneError::Output {
            place: options
                .output
                .as_ref()
                .map_or_else(|| "standard output".to_owned(), |path| path.display().to_string()),
            source,
        })?;
    }
    group.barrier()?;
    Ok(())
}
