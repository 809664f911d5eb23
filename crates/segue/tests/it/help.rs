//! Snapshots of all help texts and of all names in JSON and in the store, so that a review shows every change.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use segue_testkit::TestHome;

use super::new_test_home;

/// Appends the help of a command and of all its subcommands.
fn append_help(home: &TestHome, command: &[String], text: &mut String) {
    let mut arguments = command.to_vec();
    arguments.push("--help".to_owned());
    let output = home.run_segue(&arguments);
    assert_eq!(output.code, Some(0), "{output}");
    let _ = writeln!(text, "$ segue {}\n\n{}", arguments.join(" "), output.stdout);
    let commands = output
        .stdout
        .lines()
        .skip_while(|line| *line != "Commands:");
    let commands = commands.skip(1).take_while(|line| !line.is_empty());
    // Continuation lines of a description are indented further.
    let names = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        if name != "help" {
            let mut subcommand = command.to_vec();
            subcommand.push(name.to_owned());
            append_help(home, &subcommand, text);
        }
    }
}

#[test]
fn every_command_has_help() {
    let mut text = String::new();
    append_help(&new_test_home(), &[], &mut text);
    insta::assert_snapshot!(text);
}

/// Returns the Rust files below a directory, sorted by path.
fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn names_in_json_and_in_the_store_are_stable() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../segue-core/src");
    let mut tables = Vec::new();
    for path in rust_files(&core) {
        let source = fs::read_to_string(path).unwrap();
        for definition in source.split("\nnamed_enum! {").skip(1) {
            let (definition, _) = definition.split_once("\n}\n").unwrap();
            let (_, definition) = definition.split_once("pub enum ").unwrap();
            let (name, variants) = definition.split_once(" {").unwrap();
            let names = variants.lines().filter_map(|line| line.split_once(" => "));
            let names: Vec<&str> = names
                .map(|(_, name)| name.trim_end_matches(',').trim_matches('"'))
                .collect();
            tables.push(format!("{name}: {}", names.join(", ")));
        }
    }
    tables.sort();
    insta::assert_snapshot!(tables.join("\n"));
}
