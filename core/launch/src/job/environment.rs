//! The environment of the ranks: what the launcher adds to its own.

use std::ffi::{OsStr, OsString};

use crate::cli::LaunchOptions;

/// Variables with which other launchers number processes. They are left alone, for programs that
/// use something else besides lycaon, which prefers its own.
const OTHER_LAUNCHERS: [&str; 14] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MLX_RANK",
    "MLX_WORLD_SIZE",
    "JACCL_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
    "SLURM_PROCID",
];

/// Variables that make ranks compute differently; shown, so that runs can be compared.
const TELLING: [&str; 9] = [
    "LYCAON_LINKS",
    "LYCAON_ALGORITHM",
    "LYCAON_TIMEOUT",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "PYTHONUNBUFFERED",
];

/// What is set for every rank in the same way, and what is to be said about it.
pub(crate) struct Environment {
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) remarks: Vec<String>,
}

impl Environment {
    /// `inherited` looks into the launcher's own environment.
    pub(crate) fn new(
        options: &LaunchOptions,
        cores: usize,
        inherited: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let mut variables = options.env.clone();
        let mut remarks = Vec::new();
        let mut chosen = Vec::new();
        let given = |variables: &[(OsString, OsString)], key: &str| {
            let chosen = variables.iter().rev().find(|(name, _)| name == OsStr::new(key));
            chosen.map(|(_, value)| value.clone()).or_else(|| inherited(key))
        };
        if let Some(links) = &options.links {
            variables.push(("LYCAON_LINKS".into(), links.into()));
        }
        // why: without it the output of a Python rank appears only when 8 KiB have come together.
        if given(&variables, "PYTHONUNBUFFERED").is_none() {
            variables.push(("PYTHONUNBUFFERED".into(), "1".into()));
            chosen.push("PYTHONUNBUFFERED");
        }
        // why: otherwise every rank's arithmetic uses a thread per core, and all are slower.
        if options.ranks > 1 && given(&variables, "OMP_NUM_THREADS").is_none() {
            let share = (cores / options.ranks).max(1);
            variables.push(("OMP_NUM_THREADS".into(), share.to_string().into()));
            chosen.push("OMP_NUM_THREADS");
        }
        for key in TELLING {
            if let Some(value) = given(&variables, key) {
                let by = if chosen.contains(&key) { " (unset, so chosen here)" } else { "" };
                remarks.push(format!("{key}={}{by}", value.to_string_lossy().escape_debug()));
            }
        }
        let others: Vec<_> =
            OTHER_LAUNCHERS.into_iter().filter(|key| given(&variables, key).is_some()).collect();
        if !others.is_empty() {
            remarks.push(format!("passed on, but lycaon prefers LYCAON_*: {}", others.join(", ")));
        }
        Self { variables, remarks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn options(args: &[&str]) -> LaunchOptions {
        let cli = Cli::parse_from(["lycaon", "launch"].iter().chain(args).chain(&["x"]));
        let Command::Launch(options) = cli.command else { panic!("not a launch") };
        options
    }

    fn value(environment: &Environment, key: &str) -> Option<String> {
        let found = environment.variables.iter().rev().find(|(name, _)| name == OsStr::new(key));
        found.map(|(_, value)| value.to_string_lossy().into_owned())
    }

    #[test]
    fn cores_are_shared_out_unless_somebody_chose() {
        let share = |args: &[&str], cores| {
            value(&Environment::new(&options(args), cores, |_| None), "OMP_NUM_THREADS")
        };
        assert_eq!(share(&["-n", "4"], 10).as_deref(), Some("2"));
        assert_eq!(share(&["-n", "4"], 2).as_deref(), Some("1"));
        assert_eq!(share(&["-n", "1"], 10), None);
        assert_eq!(share(&["-n", "4", "--env", "OMP_NUM_THREADS=7"], 2).as_deref(), Some("7"));
        let own = |key: &str| (key == "OMP_NUM_THREADS").then(|| "5".into());
        let environment = Environment::new(&options(&["-n", "4"]), 2, own);
        assert_eq!(value(&environment, "OMP_NUM_THREADS"), None, "inherited as it is");
    }

    #[test]
    fn python_is_unbuffered_unless_somebody_chose() {
        let plain = Environment::new(&options(&["-n", "1"]), 2, |_| None);
        assert_eq!(value(&plain, "PYTHONUNBUFFERED").as_deref(), Some("1"));
        let chosen = options(&["-n", "1", "--env", "PYTHONUNBUFFERED="]);
        let chosen = Environment::new(&chosen, 2, |_| None);
        assert_eq!(value(&chosen, "PYTHONUNBUFFERED").as_deref(), Some(""));
    }

    #[test]
    fn other_launchers_are_remarked_on() {
        let slurm = |key: &str| (key == "SLURM_PROCID").then(|| "3".into());
        let environment = Environment::new(&options(&["-n", "2", "--links", "tcp"]), 2, slurm);
        assert!(environment.remarks.iter().any(|line| line.ends_with("LYCAON_*: SLURM_PROCID")));
        assert!(environment.remarks.iter().any(|line| line == "LYCAON_LINKS=tcp"));
    }
}
