//! The example file and the reference are those of the table of settings.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reports a failure with a panic"
)]

use std::fs;
use std::path::Path;

/// Environment variable that makes the tests write the files instead of comparing them.
const UPDATE_VARIABLE: &str = "UPDATE_CONFIG_DOCS";

/// Comments in the documentation that enclose the reference.
const REFERENCE_MARKERS: [&str; 2] = [
    "<!-- begin of the generated reference -->\n",
    "<!-- end of the generated reference -->\n",
];

/// Compares a file of the repository with its generated content, or writes it.
fn check_file(name: &str, render: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name);
    let committed = fs::read_to_string(&path).unwrap();
    let generated = render(&committed);
    if std::env::var_os(UPDATE_VARIABLE).is_some() {
        fs::write(&path, &generated).unwrap();
    } else {
        assert!(
            committed == generated,
            "{name} is out of date; run `{UPDATE_VARIABLE}=1 cargo test -p segue-config`"
        );
    }
}

#[test]
fn the_example_file_is_that_of_the_settings() {
    check_file("examples/segue.example.toml", |_| {
        segue_config::render_example()
    });
}

#[test]
fn the_reference_is_that_of_the_settings() {
    check_file("docs/configuration.md", |committed| {
        let [begin, end] = REFERENCE_MARKERS;
        let (before, after) = committed.split_once(begin).unwrap();
        let (_, after) = after.split_once(end).unwrap();
        let reference = segue_config::render_reference();
        format!("{before}{begin}{reference}\n{end}{after}")
    });
}
