//! The built segue program, and directories for its data.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

/// Directory of this package. Cargo sets the variable of the same name when it runs a benchmark.
const MANIFEST_DIR: &str = env!("CARGO_MANIFEST_DIR");

static SEGUE_PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory = build_directory();
    if env::var_os("CARGO_MANIFEST_DIR").is_some_and(|directory| directory == MANIFEST_DIR) {
        build_segue(&directory);
    }
    let program = directory.join("segue");
    assert!(
        program.is_file(),
        "{} not found: run `cargo build --release --package segue`",
        program.display()
    );
    program
});

/// Returns the path of the segue program of the same build, which is also the rehearsal agent and the leash. Builds it
/// first if cargo runs the benchmark.
pub fn segue_program() -> &'static Path {
    &SEGUE_PROGRAM
}

/// Creates a directory in the build directory, because the default temporary directory may be in memory.
pub fn create_temp_dir() -> TempDir {
    let directory = build_directory().join("tmp");
    fs::create_dir_all(&directory).unwrap();
    TempDir::new_in(directory).unwrap()
}

/// Returns the directory of the profile in the build directory. The programs of benchmarks are in `deps` below it.
fn build_directory() -> PathBuf {
    let program = env::current_exe().unwrap();
    let mut ancestors = program.ancestors().skip(1);
    let directory = ancestors.find(|directory| !directory.ends_with("deps"));
    directory.unwrap().to_owned()
}

fn build_segue(directory: &Path) {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--package", "segue"])
        .current_dir(MANIFEST_DIR);
    if directory.ends_with("release") {
        command.arg("--release");
    }
    assert!(command.status().unwrap().success(), "{command:?} failed");
}
