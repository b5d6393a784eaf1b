//! Commands that are groups themselves (`bench`, `demo`): started by hand they start their own
//! ranks, the way `lycaon launch` does; started by a launcher they are one rank.

use std::ffi::OsString;
use std::time::Duration;

use lycaon::Config;
use lycaon::error::ConfigError;

use crate::Restart;
use crate::cli::{LaunchOptions, StdinMode};
use crate::job;

/// Whether some launcher started this process as a rank of a group, be it a group of one.
pub(crate) fn is_rank() -> Result<bool, ConfigError> {
    let config = Config::from_env()?;
    let named = ["LYCAON_RANK", "LYCAON_SIZE"].iter().any(|name| std::env::var_os(name).is_some());
    Ok(config.size() > 1 || named)
}

/// Starts this program as `ranks` ranks with `arguments`; gives the code to exit with.
pub(crate) fn start(ranks: usize, arguments: Vec<OsString>, restart: &Restart) -> u8 {
    let mut command = Vec::with_capacity(arguments.len() + 2);
    match std::env::current_exe() {
        // why: it reads better in `ps` than a link that every process has.
        Ok(path) if restart.arguments.is_empty() && path.exists() => command.push(path.into()),
        _ => command.push(restart.program.clone().into()),
    }
    command.extend(restart.arguments.iter().cloned());
    command.extend(arguments);
    let options = LaunchOptions {
        ranks,
        env: Vec::new(),
        cwd: None,
        timeout: None,
        tag_output: false,
        no_tag_output: true,
        stdin: StdinMode::None,
        links: None,
        grace: Duration::from_secs(2),
        verbose: false,
        command,
    };
    job::launch(options, restart)
}
