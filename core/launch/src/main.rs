//! The program `lycaon`.

use std::process::ExitCode;

use lycaon_cli::Restart;

fn main() -> ExitCode {
    match Restart::this_executable() {
        Ok(restart) => ExitCode::from(lycaon_cli::main(std::env::args_os(), &restart)),
        Err(error) => {
            eprintln!("lycaon: cannot find the running program: {error}");
            ExitCode::from(125)
        }
    }
}
