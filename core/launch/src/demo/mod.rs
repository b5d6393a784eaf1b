//! `lycaon demo`: ranks on this machine compute something together, and every result is checked
//! against what one process computes alone.

mod steps;
mod table;
mod training;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use lycaon::config::{ConfigBuilder, Rendezvous};
use lycaon::error::LinkKind;
use lycaon::{Config, Group};

use crate::{Restart, ranks};
use steps::Stage;
use table::Table;

/// The options of `lycaon demo`.
#[derive(Args, Debug)]
pub(crate) struct DemoOptions {
    /// How many ranks to start on this machine [default: 4]
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = parse_ranks)]
    ranks: Option<usize>,

    /// Somebody looks at it
    #[arg(long, hide = true)]
    colour: bool,

    /// For tests of the checks: this rank's first result is made wrong
    #[arg(long, value_name = "RANK", hide = true)]
    corrupt: Option<usize>,
}

fn parse_ranks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(ranks @ 2..=64) => Ok(ranks),
        _ => Err("the demo takes 2 to 64 ranks".to_owned()),
    }
}

/// What may go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum DemoError {
    /// The library.
    #[error(transparent)]
    Group(#[from] lycaon::Error),
    /// Nobody reads the table.
    #[error("cannot write the table: {0}")]
    Output(#[from] io::Error),
    /// There is nobody to compute with.
    #[error("the launcher started one rank only; the demo takes two or more")]
    Alone,
}

/// Runs the demo to its end; gives the code to exit with. `arguments` are those of the program,
/// from `demo` on.
pub(crate) fn run(options: &DemoOptions, arguments: &[OsString], restart: &Restart) -> u8 {
    let result = match ranks::is_rank() {
        Ok(true) => take_part(options),
        Ok(false) => {
            let mut arguments = arguments.to_vec();
            if io::stdout().is_terminal() && wants_colour() {
                arguments.push("--colour".into());
            }
            return ranks::start(options.ranks.unwrap_or(4), arguments, restart);
        }
        Err(error) => Err(lycaon::Error::from(error).into()),
    };
    match result {
        Ok(right) => u8::from(!right),
        Err(error) => {
            let _ = writeln!(io::stderr(), "lycaon demo: {error}");
            1
        }
    }
}

fn wants_colour() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_some_and(|term| term != "dumb")
}

/// One rank of the demo; tells whether everything was right.
fn take_part(options: &DemoOptions) -> Result<bool, DemoError> {
    let config = Config::from_env().map_err(lycaon::Error::from)?;
    let group = lycaon::init_with(&config)?;
    if group.size() == 1 {
        return Err(DemoError::Alone);
    }
    let table = Table::new(group.rank() == 0, options.colour);
    let mut stage = Stage::new(&group, table)?;
    stage.title()?;
    stage.sum_of_readings(options.corrupt == Some(group.rank()))?;
    stage.sum_of_gradients()?;
    stage.histograms()?;
    stage.parts_of_a_sum()?;
    stage.first_rows()?;
    stage.transposed_matrix()?;
    stage.ring()?;
    stage.halves()?;
    stage.overlap()?;
    if let Some(tcp) = group_over_tcp(&config)? {
        stage.over_tcp(&tcp)?;
    }
    stage.training()?;
    stage.mismatch()?;
    stage.end().map(|right| right || group.rank() != 0)
}

/// The same ranks once more, joined by sockets, where a file can be the meeting place.
fn group_over_tcp(config: &Config) -> Result<Option<Group>, DemoError> {
    let Some(Rendezvous::File(path)) = config.rendezvous() else { return Ok(None) };
    let mut place = path.clone().into_os_string();
    place.push("-tcp");
    let builder = ConfigBuilder::from_env().map_err(lycaon::Error::from)?;
    let builder = builder.rendezvous(Rendezvous::File(PathBuf::from(place))).links([LinkKind::Tcp]);
    let config = builder.build().map_err(lycaon::Error::from)?;
    Ok(Some(lycaon::init_with(&config)?))
}
