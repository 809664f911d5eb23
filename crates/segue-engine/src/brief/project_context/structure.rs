//! Structure of a project, derived from the names of its files. The number of names that are read is limited.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use segue_core::brief::ProjectStructure;

/// Maximum number of names to read.
const MAX_READ_NAMES: usize = 5_000;

/// Maximum number of source directories and of configuration files in a context.
const MAX_LISTED_ENTRIES: usize = 40;

/// Maximum depth of the directories to read.
const MAX_DIRECTORY_DEPTH: usize = 3;

/// Directories that contain no source code of the project.
const SKIPPED_DIRECTORIES: [&str; 11] = [
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

const TEST_DIRECTORIES: [&str; 6] = ["__tests__", "e2e", "spec", "specs", "test", "tests"];

const DOC_DIRECTORIES: [&str; 3] = ["doc", "docs", "documentation"];

const SOURCE_EXTENSIONS: [&str; 32] = [
    "c", "cc", "clj", "cpp", "cs", "dart", "erl", "ex", "exs", "go", "h", "hpp", "hs", "java",
    "jl", "js", "jsx", "kt", "lua", "ml", "php", "pl", "py", "rb", "rs", "scala", "sql", "svelte",
    "swift", "ts", "tsx", "vue",
];

const CONFIG_EXTENSIONS: [&str; 7] = ["cfg", "gradle", "ini", "json", "toml", "yaml", "yml"];

const CONFIG_FILE_NAMES: [&str; 8] = [
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
pub(super) fn read_structure(root: &Path) -> (ProjectStructure, bool) {
    let mut structure = ProjectStructure::default();
    let mut remaining_names = MAX_READ_NAMES;
    let mut is_complete = true;
    let mut directories: VecDeque<(PathBuf, usize)> = VecDeque::from([(PathBuf::new(), 0)]);
    while let Some((relative_dir, depth)) = directories.pop_front() {
        let Some((files, subdirectories)) =
            list_names(&root.join(&relative_dir), &mut remaining_names)
        else {
            is_complete = false;
            break;
        };
        let has_sources = files
            .iter()
            .any(|name| has_extension(name, &SOURCE_EXTENSIONS));
        structure.has_tests |= files.iter().any(|name| is_test_file(name));
        if depth == 0 {
            let is_config_file = |name: &&String| {
                CONFIG_FILE_NAMES.contains(&name.as_str())
                    || has_extension(name, &CONFIG_EXTENSIONS) && !name.contains("lock")
            };
            let config_files = files.iter().filter(is_config_file).take(MAX_LISTED_ENTRIES);
            structure.config_files = config_files.cloned().collect();
            structure.has_docs = files
                .iter()
                .any(|name| name.to_ascii_lowercase().starts_with("readme"));
        }
        if has_sources && depth > 0 {
            structure
                .src_dirs
                .push(relative_dir.to_string_lossy().into_owned());
            // Directories below a source directory belong to it.
            continue;
        }
        if has_sources {
            structure.src_dirs.push(".".to_owned());
        }
        for name in subdirectories {
            let is_one_of = |names: &[&str]| names.contains(&name.as_str());
            structure.has_tests |= is_one_of(&TEST_DIRECTORIES);
            structure.has_docs |= depth == 0 && is_one_of(&DOC_DIRECTORIES);
            let should_descend = !name.starts_with('.')
                && !is_one_of(&SKIPPED_DIRECTORIES)
                && !is_one_of(&TEST_DIRECTORIES)
                && !is_one_of(&DOC_DIRECTORIES);
            if should_descend && depth < MAX_DIRECTORY_DEPTH {
                directories.push_back((relative_dir.join(name), depth + 1));
            }
        }
    }
    is_complete &= structure.src_dirs.len() <= MAX_LISTED_ENTRIES;
    structure.src_dirs.truncate(MAX_LISTED_ENTRIES);
    (structure, is_complete)
}

/// Returns the names of the files and of the directories in a directory, sorted. `None` once `remaining_names` names
/// were read.
fn list_names(directory: &Path, remaining_names: &mut usize) -> Option<(Vec<String>, Vec<String>)> {
    let (mut files, mut subdirectories) = (Vec::new(), Vec::new());
    // A directory that cannot be read counts as empty.
    for entry in directory.read_dir().into_iter().flatten().flatten() {
        *remaining_names = remaining_names.checked_sub(1)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Links are not followed, because they may lead out of the project or form a cycle.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => subdirectories.push(name),
            Ok(kind) if kind.is_file() => files.push(name),
            Ok(_) | Err(_) => {}
        }
    }
    files.sort_unstable();
    subdirectories.sort_unstable();
    Some((files, subdirectories))
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    let extension = Path::new(name).extension().and_then(OsStr::to_str);
    extension.is_some_and(|extension| extensions.contains(&extension))
}

/// Returns `true` if a file contains tests, judged by its name: `x_test.go`, `x.test.ts`, `test_x.py`.
fn is_test_file(name: &str) -> bool {
    let Some((stem, _)) = name.rsplit_once('.') else {
        return false;
    };
    has_extension(name, &SOURCE_EXTENSIONS)
        && (stem.ends_with("_test")
            || has_extension(stem, &["test", "spec"])
            || stem.starts_with("test_")
            || stem == "tests")
}
