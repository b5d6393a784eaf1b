//! Every kind of error of the core, with its fields, in C and as a class of the C++ headers.

mod common;

use std::ffi::CStr;
use std::fmt::Write;

use lycaon::error::ErrorKind;
use lycaon_c::error::{keep_sample, lycaon_error, lycaon_error_field, lycaon_last_error};
use lycaon_c::status::{lycaon_family, lycaon_status};

/// The last error of this thread and its fields.
fn last() -> (&'static lycaon_error, &'static [lycaon_error_field]) {
    // SAFETY: the caller reads before the next failure on this thread.
    let error = unsafe { lycaon_last_error().as_ref() }.expect("there is one");
    let fields = if error.field_count == 0 {
        &[]
    } else {
        // SAFETY: as many as it says, for as long as the error.
        unsafe { std::slice::from_raw_parts(error.fields, error.field_count) }
    };
    (error, fields)
}

fn text(pointer: *const std::ffi::c_char) -> &'static str {
    assert!(!pointer.is_null());
    // SAFETY: texts of the library end with a NUL.
    unsafe { CStr::from_ptr(pointer) }.to_str().expect("UTF-8")
}

fn class(name: &str) -> String {
    name.split('_').fold(String::new(), |mut class, word| {
        class.push_str(&word[..1].to_uppercase());
        class.push_str(&word[1..]);
        class
    })
}

const fn family(family: lycaon_family) -> &'static str {
    match family {
        lycaon_family::Usage => "UsageError",
        lycaon_family::Argument => "ArgumentError",
        lycaon_family::Config => "ConfigError",
        lycaon_family::Start => "StartError",
        lycaon_family::Operation => "OperationError",
    }
}

/// Fields whose names mean something else in the base class.
fn method(field: &str) -> &str {
    match field {
        "what" => "subject",
        "operation" => "operation_name",
        "peer" => "peer_name",
        other => other,
    }
}

#[test]
fn every_kind_has_its_fields() {
    for kind in ErrorKind::ALL.iter().copied() {
        keep_sample(kind);
        let (error, fields) = last();
        assert_eq!(error.status, lycaon_status::from(kind));
        assert_eq!(text(error.kind), lycaon_status::from(kind).name().to_str().expect("text"));
        assert_eq!(text(error.message), kind.sample().to_string());
        // Two kinds have nothing to tell beyond what they are.
        let bare = matches!(kind, ErrorKind::Overlap | ErrorKind::Closed);
        assert_eq!(fields.is_empty(), bare, "{kind:?}");
        assert_eq!(error.cause.is_null(), error.family != lycaon_family::Operation, "{kind:?}");
    }
}

#[test]
fn the_documentation_has_the_fields_of_every_kind() {
    let documentation = include_str!("../../docs/c-abi.md");
    let quoted = |text: &str| -> Vec<String> {
        text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let lines: Vec<(Vec<String>, Vec<String>)> = documentation
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once(" | "))
        .map(|(left, right)| (quoted(&format!("`{left}")), quoted(right)))
        .collect();
    for kind in ErrorKind::ALL.iter().copied() {
        keep_sample(kind);
        let (error, fields) = last();
        let status = text(error.kind).to_uppercase();
        let names: Vec<&str> = fields.iter().map(|field| text(field.name)).collect();
        let listed = lines.iter().find(|(left, _)| left.contains(&status)).map(|(_, right)| right);
        let mut listed: Vec<&str> = listed.into_iter().flatten().map(String::as_str).collect();
        let mut names = names;
        listed.sort_unstable();
        names.sort_unstable();
        assert_eq!(listed, names, "{status} in docs/c-abi.md");
    }
}

#[test]
fn every_kind_is_a_class_in_cpp() {
    let built = common::Built::new();
    let mut code = String::new();
    for kind in ErrorKind::ALL.iter().copied() {
        keep_sample(kind);
        let (error, fields) = last();
        let name = class(text(error.kind));
        let mut checks = String::new();
        writeln!(code, "{{").expect("text");
        writeln!(code, "lycaon_error error = {{}};").expect("text");
        if !fields.is_empty() {
            writeln!(code, "static const lycaon_error_field fields[] = {{").expect("text");
            for (at, field) in fields.iter().enumerate() {
                let (field_name, value) = (text(field.name), text(field.text));
                writeln!(code, "{{{field_name:?}, {value:?}, {}}},", field.number).expect("text");
                // The rank is one of the fields that all errors have.
                if field_name != "rank" {
                    let method = method(field_name);
                    writeln!(checks, "same(kind.{method}(), fields[{at}]);").expect("text");
                }
            }
            writeln!(code, "}};\nerror.fields = fields;").expect("text");
        }
        let cause = if error.cause.is_null() {
            "nullptr".to_owned()
        } else {
            format!("{:?}", text(error.cause))
        };
        writeln!(
            code,
            "error.field_count = {};
            error.status = static_cast<lycaon_status>({});
            error.family = static_cast<lycaon_family>({});
            error.kind = {:?};
            error.message = {:?};
            error.rank = {};
            error.peer = {};
            error.operation = static_cast<lycaon_operation>({});
            error.link = static_cast<lycaon_link_kind>({});
            error.sequence = {};
            error.elapsed_ns = {};
            error.cause = {cause};
            expect<lycaon::errors::{name}, lycaon::{}>(error, [](const auto& kind) {{
            (void)kind;
            {checks}}});
            }}",
            error.field_count,
            error.status as u32,
            error.family as u32,
            text(error.kind),
            text(error.message),
            error.rank,
            error.peer,
            error.operation as u32,
            error.link as u32,
            error.sequence,
            error.elapsed_ns,
            family(error.family),
        )
        .expect("text");
    }
    std::fs::write(built.folder.path().join("kinds.inc"), code).expect("a file");
    for compiler in common::cpp_compilers() {
        let program = built.compile_file(compiler, "cpp/kinds.cpp", &["-O0", "-g0"]);
        built.run(&program, &[], "kinds: ok");
        // valgrind does not read the debugging information of every clang.
        #[cfg(target_os = "linux")]
        if compiler.program == "g++" {
            built.run_watched(&program, &[], "kinds: ok");
        }
    }
}
