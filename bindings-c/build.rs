//! Gives the shared library its name: without one, programs would look for the file they were
//! linked with.

use std::env;

/// As `LYCAON_ABI_VERSION`; `tests/header.rs` compares the two.
const ABI_VERSION: u32 = 1;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match system.as_str() {
        "linux" => {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblycaon.so.{ABI_VERSION}");
        }
        "macos" => {
            let name = format!("@rpath/liblycaon.{ABI_VERSION}.dylib");
            println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,{name}");
        }
        _ => {}
    }
}
