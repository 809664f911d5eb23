//! Rules that the compiler does not check: the directions between crates, the crates that may use a dependency, and
//! some conventions of this workspace. They are ordinary tests, so that they run with all others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates of the workspace that a crate may use outside of tests. Dependencies point from top to bottom only.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    (
        "segue",
        &[
            "segue-mcp",
            "segue-api",
            "segue-engine",
            "segue-config",
            "segue-sqlite",
            "segue-store",
            "segue-providers",
            "segue-acp",
            "segue-catalog",
            "segue-formats",
            "segue-core",
        ],
    ),
    ("segue-mcp", &["segue-api", "segue-engine", "segue-core"]),
    ("segue-api", &["segue-core"]),
    (
        "segue-engine",
        &[
            "segue-store",
            "segue-providers",
            "segue-catalog",
            "segue-formats",
            "segue-tokens",
            "segue-core",
        ],
    ),
    ("segue-config", &["segue-providers", "segue-core"]),
    ("segue-sqlite", &["segue-store", "segue-core"]),
    ("segue-store", &["segue-core"]),
    ("segue-catalog", &["segue-providers", "segue-core"]),
    ("segue-providers", &["segue-acp", "segue-core"]),
    ("segue-acp", &["segue-core"]),
    ("segue-formats", &["segue-core"]),
    ("segue-tokens", &[]),
    ("segue-core", &[]),
    ("segue-testkit", &[]),
    ("segue-bench", &[]),
    ("xtask", &[]),
];

/// Calls that no library may make: the caller passes in the time, random numbers and the environment.
const FORBIDDEN_CALLS: &[&str] = &[
    "Timestamp::now",
    "SystemTime::now",
    "env::var",
    "getrandom",
    "process::exit",
];

/// Crates to which [`FORBIDDEN_CALLS`] applies.
const LIBRARY_CRATES: &[&str] = &[
    "segue-core",
    "segue-api",
    "segue-store",
    "segue-sqlite",
    "segue-acp",
    "segue-providers",
    "segue-catalog",
    "segue-engine",
    "segue-config",
    "segue-mcp",
    "segue-formats",
    "segue-tokens",
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Returns each crate of the workspace with its dependencies outside of tests.
fn workspace_dependencies() -> BTreeMap<String, BTreeSet<String>> {
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
    assert!(output.status.success(), "{output:?}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let normal_dependencies = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let non_test = dependencies.filter(|dependency| dependency["kind"] != "dev");
        non_test.map(name).collect()
    };
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| (name(package), normal_dependencies(package)))
        .collect()
}

/// Returns all Rust files below a directory.
pub(crate) fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn crates_depend_in_the_agreed_directions() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED_DEPENDENCIES.iter().copied().collect();
    for (name, dependencies) in workspace_dependencies() {
        let allowed_dependencies = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("{name} is not in ALLOWED_DEPENDENCIES"));
        for dependency in dependencies.iter().filter(|name| name.starts_with("segue")) {
            assert!(
                allowed_dependencies.contains(&dependency.as_str()),
                "{name} may not depend on {dependency}; see ARCHITECTURE.md"
            );
        }
    }
}

/// A package that a build for this platform uses.
struct UsedPackage {
    name: String,
    version: String,
    licence: String,
}

fn used_packages() -> Vec<UsedPackage> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--workspace",
            "--edges=normal,build,dev",
            "--prefix=none",
        ])
        .args(["--format={p}|{l}", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // Cargo marks a package that it has already printed with ` (*)`.
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    let lines: BTreeSet<&str> = lines.filter(|line| line.contains('|')).collect();
    let parse = |line: &&str| {
        let (package, licence) = line.split_once('|').unwrap();
        let mut words = package.split(' ');
        let name = words.next().unwrap().to_owned();
        let version = words.next().unwrap().trim_start_matches('v').to_owned();
        UsedPackage {
            name,
            version,
            licence: licence.to_owned(),
        }
    };
    lines.iter().map(parse).collect()
}

fn deny_rules() -> toml::Table {
    let text = fs::read_to_string(root().join("deny.toml")).unwrap();
    text.parse().unwrap()
}

fn string_items(array: &toml::Value) -> Vec<&str> {
    let array = array.as_array().unwrap().iter();
    array.map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn licences_are_allowed() {
    let rules = deny_rules();
    let allowed = string_items(&rules["licenses"]["allow"]);
    let allowed: Vec<spdx::Licensee> = allowed
        .iter()
        .map(|licence| spdx::Licensee::parse(licence).unwrap())
        .collect();
    let mut used_licences = BTreeSet::new();
    for package in used_packages() {
        let (name, licence) = (&package.name, &package.licence);
        let expression = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX)
            .unwrap_or_else(|error| panic!("{name} has the licence {licence:?}: {error}"));
        let satisfies = |requirement: &spdx::LicenseReq| {
            let index = allowed
                .iter()
                .position(|licence| licence.satisfies(requirement));
            used_licences.extend(index);
            index.is_some()
        };
        assert!(
            expression.evaluate(satisfies),
            "{name} has the licence {licence}, which deny.toml does not allow"
        );
    }
    for (index, licence) in allowed.iter().enumerate() {
        assert!(
            used_licences.contains(&index),
            "deny.toml allows the licence {licence}, but no package has it"
        );
    }
}

#[test]
fn a_dependency_has_one_version() {
    let rules = deny_rules();
    let skipped = rules["bans"]["skip"].as_array().unwrap().iter();
    let mut skipped: BTreeSet<&str> = skipped
        .map(|entry| entry["crate"].as_str().unwrap())
        .collect();
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in used_packages() {
        versions
            .entry(package.name)
            .or_default()
            .insert(package.version);
    }
    for (name, versions) in &versions {
        // Exactly one version must remain; every other version is skipped by its prefix, such as `syn@2`.
        let mut remaining = versions.len();
        for version in versions.iter().filter(|_| versions.len() > 1) {
            let mut prefixes = version.match_indices('.').map(|(end, _)| &version[..end]);
            let is_skipped =
                prefixes.any(|prefix| skipped.remove(format!("{name}@{prefix}").as_str()));
            remaining -= usize::from(is_skipped);
        }
        assert_eq!(remaining, 1, "{name} is used in the versions {versions:?}");
    }
    assert!(
        skipped.is_empty(),
        "deny.toml skips {skipped:?}, which is no longer necessary"
    );
}

#[test]
fn restricted_dependencies_are_used_only_by_their_wrappers() {
    let rules = deny_rules();
    for (name, dependencies) in workspace_dependencies() {
        for rule in rules["bans"]["deny"].as_array().unwrap() {
            let restricted = rule["crate"].as_str().unwrap();
            let wrappers = string_items(&rule["wrappers"]);
            assert!(
                !dependencies.contains(restricted) || wrappers.contains(&name.as_str()),
                "{name} may not depend on {restricted}; only {} may",
                wrappers.join(" and ")
            );
        }
    }
}

#[test]
fn libraries_receive_time_randomness_and_environment_from_the_caller() {
    for library in LIBRARY_CRATES {
        let files = sources(&root().join("crates").join(library).join("src"));
        assert!(!files.is_empty(), "{library} has no source files");
        for path in files {
            let text = fs::read_to_string(&path).unwrap();
            // Comments are excluded, because an example in the documentation acts as a caller.
            let is_code = |line: &&str| !line.trim_start().starts_with("//");
            let code: Vec<&str> = text.lines().filter(is_code).collect();
            for call in FORBIDDEN_CALLS {
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
    let crates = fs::read_dir(root().join("crates")).unwrap().flatten();
    let directories = crates.map(|entry| entry.path());
    for directory in directories.chain([root().join("xtask")]) {
        let tests = directory.join("tests/it");
        for path in sources(&tests) {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let parent_directory = path.parent().unwrap();
            // The file with the name of a directory declares the modules in that directory.
            let parent = if parent_directory == tests {
                tests.join("main.rs")
            } else {
                parent_directory.with_extension("rs")
            };
            let declarations = fs::read_to_string(&parent).unwrap_or_default();
            let declaration = format!("mod {name};");
            assert!(
                name == "main" || declarations.lines().any(|line| line.trim() == declaration),
                "{} is not listed in {}, so it never runs",
                path.display(),
                parent.display()
            );
        }
    }
}
