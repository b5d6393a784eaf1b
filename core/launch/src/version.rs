//! `lycaon version`.

use std::io::Write;

/// Prints the versions of the program, the library and the wire protocol.
pub(crate) fn print() -> u8 {
    let text = format!(
        "lycaon {}\nlibrary {}\nprotocol {}\nplatform {}-{}\n",
        env!("CARGO_PKG_VERSION"),
        lycaon::VERSION,
        lycaon::PROTOCOL_VERSION,
        std::env::consts::ARCH,
        std::env::consts::OS,
    );
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}
