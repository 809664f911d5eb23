//! Structure of a project, derived from the names of its files. The number of names that are read is limited.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use segue_core::brief::Structure;

/// Maximum number of names to read.
const LOOKED_AT: usize = 5_000;

/// Maximum number of source directories and of configuration files in a context.
const TOLD: usize = 40;

/// Maximum depth of the directories to read.
const DEPTH: usize = 3;

/// Directories that contain no source code of the project.
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

/// Returns the structure of a directory, and `true` if it is complete within the limits.
pub(super) fn survey(root: &Path) -> (Structure, bool) {
    let mut structure = Structure::default();
    let mut left = LOOKED_AT;
    let mut all = true;
    let mut directories: VecDeque<(PathBuf, usize)> = VecDeque::from([(PathBuf::new(), 0)]);
    while let Some((within, depth)) = directories.pop_front() {
        let Some((files, below)) = names(&root.join(&within), &mut left) else {
            all = false;
            break;
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
            // Directories below a source directory belong to it.
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

/// Returns the names of the files and of the directories in a directory, sorted. `None` once `left` names were read.
fn names(directory: &Path, left: &mut usize) -> Option<(Vec<String>, Vec<String>)> {
    let (mut files, mut below) = (Vec::new(), Vec::new());
    // A directory that cannot be read counts as empty.
    for entry in directory.read_dir().into_iter().flatten().flatten() {
        *left = left.checked_sub(1)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Links are not followed, because they may lead out of the project or form a cycle.
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

/// Returns `true` if a file contains tests, judged by its name: `x_test.go`, `x.test.ts`, `test_x.py`.
fn is_test(name: &str) -> bool {
    let Some((stem, _)) = name.rsplit_once('.') else {
        return false;
    };
    has_extension(name, &SOURCES)
        && (stem.ends_with("_test")
            || has_extension(stem, &["test", "spec"])
            || stem.starts_with("test_")
            || stem == "tests")
}
