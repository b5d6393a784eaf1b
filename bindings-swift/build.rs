//! Writes the Swift and the C side of the bridge into the build folder, from where
//! `tools/build-library` takes them.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=src/bridge.rs");
    let folder = env::var("OUT_DIR").expect("cargo says where to");
    swift_bridge_build::parse_bridges(["src/bridge.rs"]).write_all_concatenated(folder, "bridge");
}
