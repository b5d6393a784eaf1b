//! The header in `include/` is the one that the sources make. `make header` writes it anew.

use std::path::Path;

fn generated() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let builder = cbindgen::Builder::new().with_config(config).with_src(root.join("src/lib.rs"));
    let mut text = Vec::new();
    builder.generate().expect("a header").write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    // What Rust asks of callers by the word "Safety" is what C asks by "requires".
    text.replace(" * # Safety\n", " * Requires:\n")
}

#[test]
fn the_header_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/lycaon/lycaon.h");
    let new = generated();
    if std::env::var_os("LYCAON_WRITE_HEADER").is_some() {
        std::fs::write(&path, &new).expect("the header can be written");
    }
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = old.lines().zip(new.lines()).position(|(old, new)| old != new);
    assert!(
        old == new,
        "{} is not what the sources make (first difference in line {}): run make header",
        path.display(),
        differs.map_or_else(|| old.lines().count().min(new.lines().count()) + 1, |line| line + 1),
    );
}

#[test]
fn the_name_of_the_library_has_the_version_of_the_interface() {
    let build = include_str!("../build.rs");
    let line = format!("const ABI_VERSION: u32 = {};", lycaon_c::LYCAON_ABI_VERSION);
    assert!(build.contains(&line), "build.rs does not have `{line}`");
    // What cargo-c installs has the same name.
    let cargo = include_str!("../Cargo.toml");
    let line = format!(
        "version = \"{}.0.0\"\nversion_suffix_components = 1",
        lycaon_c::LYCAON_ABI_VERSION
    );
    assert!(cargo.contains(&line), "Cargo.toml does not have `{line}`");
}
