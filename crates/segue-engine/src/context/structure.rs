//! What is where in a project, by a look at the names of its files, and at no more than some of them.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use segue_core::Structure;

/// How many names are looked at.
const LOOKED_AT: usize = 5_000;

/// How many directories or files are told.
const TOLD: usize = 40;

/// How deep is looked.
const DEPTH: usize = 3;

/// Directories in which nobody's own work is.
const SKIPPED: [&str; 11] = [
    "__pycache__",
    "build",
    "coverage",
    "dist",
    "fixtures",
    "node_modules",
    "out",
    "target",
    "third_party",
    "vendor",
    "venv",
];

const TESTS: [&str; 6] = ["__tests__", "e2e", "spec", "specs", "test", "tests"];

const DOCS: [&str; 3] = ["doc", "docs", "documentation"];

const SOURCES: [&str; 32] = [
    "c", "cc", "clj", "cpp", "cs", "dart", "erl", "ex", "exs", "go", "h", "hpp", "hs", "java",
    "jl", "js", "jsx", "kt", "lua", "ml", "php", "pl", "py", "rb", "rs", "scala", "sql", "svelte",
    "swift", "ts", "tsx", "vue",
];

const CONFIGURATION: [&str; 7] = ["cfg", "gradle", "ini", "json", "toml", "yaml", "yml"];

const CONFIGURING: [&str; 8] = [
    "CMakeLists.txt",
    "Dockerfile",
    "Gemfile",
    "Makefile",
    "go.mod",
    "justfile",
    "pom.xml",
    "requirements.txt",
];

/// What is where below a directory, and whether all of it was looked at.
pub(super) fn survey(root: &Path) -> (Structure, bool) {
    let mut structure = Structure::default();
    let mut left = LOOKED_AT;
    let mut all = true;
    let mut directories: VecDeque<(PathBuf, usize)> = VecDeque::from([(PathBuf::new(), 0)]);
    while let Some((within, depth)) = directories.pop_front() {
        let (files, below) = match names(&root.join(&within), &mut left) {
            Some(names) => names,
            None => {
                all = false;
                break;
            }
        };
        let sources = files.iter().any(|name| has_extension(name, &SOURCES));
        structure.has_tests |= files.iter().any(|name| is_test(name));
        if depth == 0 {
            let configures = |name: &&String| {
                CONFIGURING.contains(&name.as_str())
                    || has_extension(name, &CONFIGURATION) && !name.contains("lock")
            };
            let configuring = files.iter().filter(configures).take(TOLD);
            structure.config_files = configuring.cloned().collect();
            structure.has_docs = files
                .iter()
                .any(|name| name.to_ascii_lowercase().starts_with("readme"));
        }
        if sources && depth > 0 {
            structure
                .src_dirs
                .push(within.to_string_lossy().into_owned());
            // What is below belongs to it.
            continue;
        }
        if sources {
            structure.src_dirs.push(".".to_owned());
        }
        for name in below {
            let is = |names: &[&str]| names.contains(&name.as_str());
            structure.has_tests |= is(&TESTS);
            structure.has_docs |= depth == 0 && is(&DOCS);
            let leads_on = !name.starts_with('.') && !is(&SKIPPED) && !is(&TESTS) && !is(&DOCS);
            if leads_on && depth < DEPTH {
                directories.push_back((within.join(name), depth + 1));
            }
        }
    }
    all &= structure.src_dirs.len() <= TOLD;
    structure.src_dirs.truncate(TOLD);
    (structure, all)
}

/// The names of files and of directories in a directory, in order; none once enough was looked at.
fn names(directory: &Path, left: &mut usize) -> Option<(Vec<String>, Vec<String>)> {
    let (mut files, mut below) = (Vec::new(), Vec::new());
    // What can't be looked into has nothing to tell.
    for entry in directory.read_dir().into_iter().flatten().flatten() {
        *left = left.checked_sub(1)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A link is not followed: it may lead anywhere, and back.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => below.push(name),
            Ok(kind) if kind.is_file() => files.push(name),
            Ok(_) | Err(_) => {}
        }
    }
    files.sort_unstable();
    below.sort_unstable();
    Some((files, below))
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    let extension = Path::new(name).extension().and_then(OsStr::to_str);
    extension.is_some_and(|extension| extensions.contains(&extension))
}

/// Whether a file is one of tests, by its name: `x_test.go`, `x.test.ts`, `test_x.py`.
fn is_test(name: &str) -> bool {
    let Some((stem, _)) = name.rsplit_once('.') else {
        return false;
    };
    has_extension(name, &SOURCES)
        && (stem.ends_with("_test")
            || stem.ends_with(".test")
            || stem.ends_with(".spec")
            || stem.starts_with("test_")
            || stem == "tests")
}
