//! Makes the C++ half of the bridge and compiles it into the static library.

fn main() {
    println!("cargo::rerun-if-changed=src/lib.rs");
    cxx_build::bridge("src/lib.rs").std("c++17").compile("lycaon_cxx_bridge");
}
