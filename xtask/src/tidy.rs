//! What the compiler does not hold: the directions between crates, the fences around dependencies, and a few
//! habits of the house. Ordinary tests, so that they run with all others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// Which crates of ours a crate may use outside of tests. Read it from top to bottom: arrows go down only.
const DIRECTIONS: &[(&str, &[&str])] = &[
    (
        "segue",
        &[
            "segue-mcp",
            "segue-engine",
            "segue-sqlite",
            "segue-store",
            "segue-agents",
            "segue-acp",
            "segue-catalog",
            "segue-formats",
            "segue-core",
        ],
    ),
    ("segue-mcp", &["segue-engine", "segue-core"]),
    (
        "segue-engine",
        &[
            "segue-store",
            "segue-agents",
            "segue-catalog",
            "segue-formats",
            "segue-tokens",
            "segue-core",
        ],
    ),
    ("segue-sqlite", &["segue-store", "segue-core"]),
    ("segue-store", &["segue-core"]),
    ("segue-agents", &["segue-acp", "segue-core"]),
    ("segue-acp", &["segue-core"]),
    ("segue-catalog", &["segue-core"]),
    ("segue-formats", &["segue-core"]),
    ("segue-tokens", &[]),
    ("segue-core", &[]),
    ("segue-testkit", &[]),
    ("xtask", &[]),
];

/// Dependencies that only these crates may see.
const FENCES: &[(&str, &[&str])] = &[
    ("agent-client-protocol", &["segue-acp"]),
    ("rmcp", &["segue-mcp"]),
    // The store; the index, and the one agent whose sessions are in a database of its own.
    ("rusqlite", &["segue-sqlite", "segue-catalog"]),
    ("clap", &["segue"]),
    ("clap_complete", &["segue"]),
    ("etcetera", &["segue"]),
    ("getrandom", &["segue"]),
    ("ratatui", &["segue"]),
    ("tiktoken", &["segue-tokens"]),
    ("reedline", &["segue"]),
    // Our own configuration, and that of Codex, which is asked whether a folder is trusted.
    ("toml", &["segue", "segue-agents"]),
];

/// What no library may do: it is told the time, chance and the environment by its caller.
const WORLDLY: &[&str] = &[
    "Timestamp::now",
    "SystemTime::now",
    "env::var",
    "getrandom",
    "process::exit",
];

/// Crates that are libraries in this sense.
const LIBRARIES: &[&str] = &[
    "segue-core",
    "segue-store",
    "segue-sqlite",
    "segue-acp",
    "segue-agents",
    "segue-catalog",
    "segue-engine",
    "segue-mcp",
    "segue-formats",
    "segue-tokens",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Each crate of the workspace with what it depends on outside of tests.
fn packages() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Metadata = serde_json::from_slice(&output.stdout).unwrap();
    let normal = |package: &Package| {
        let dependencies = package.dependencies.iter();
        dependencies
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
            .map(|dependency| dependency.name.clone())
            .collect()
    };
    metadata
        .packages
        .iter()
        .map(|package| (package.name.clone(), normal(package)))
        .collect()
}

/// All Rust files below a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn crates_depend_in_the_agreed_directions() {
    let allowed: BTreeMap<&str, &[&str]> = DIRECTIONS.iter().copied().collect();
    for (name, dependencies) in packages() {
        let may_use = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("{name} is not in the table of directions"));
        for dependency in dependencies.iter().filter(|name| name.starts_with("segue")) {
            assert!(
                may_use.contains(&dependency.as_str()),
                "{name} may not depend on {dependency}; see ARCHITECTURE.md"
            );
        }
    }
}

#[test]
fn fenced_dependencies_stay_behind_their_fence() {
    for (name, dependencies) in packages() {
        for (fenced, keepers) in FENCES {
            assert!(
                !dependencies.contains(*fenced) || keepers.contains(&name.as_str()),
                "{fenced} is only for {}, not for {name}",
                keepers.join(" and ")
            );
        }
    }
}

#[test]
fn libraries_are_told_about_the_world() {
    for library in LIBRARIES {
        for path in sources(&root().join("crates").join(library).join("src")) {
            let text = fs::read_to_string(&path).unwrap();
            // An example in the documentation is a caller.
            let is_code = |line: &&str| !line.trim_start().starts_with("//");
            let code: Vec<&str> = text.lines().filter(is_code).collect();
            for call in WORLDLY {
                assert!(
                    !code.iter().any(|line| line.contains(call)),
                    "{} uses {call}; let the caller pass it in",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn every_integration_test_is_part_of_its_binary() {
    for directory in fs::read_dir(root().join("crates")).unwrap().flatten() {
        let tests = directory.path().join("tests/it");
        for path in sources(&tests) {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let within = path.parent().unwrap();
            // A module in a directory is listed by the file that is named like the directory.
            let parent = if within == tests {
                tests.join("main.rs")
            } else {
                within.with_extension("rs")
            };
            let listing = fs::read_to_string(&parent).unwrap_or_default();
            assert!(
                name == "main" || listing.contains(&format!("mod {name};")),
                "{} is not listed in {}, so it never runs",
                path.display(),
                parent.display()
            );
        }
    }
}

#[test]
fn modules_are_named_after_what_they_hold() {
    const VAGUE: [&str; 7] = [
        "mod", "util", "utils", "helpers", "common", "misc", "manager",
    ];
    for path in sources(&root().join("crates")) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(
            !VAGUE.contains(&name.as_str()),
            "{} says nothing",
            path.display()
        );
    }
}
