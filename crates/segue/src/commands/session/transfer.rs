//! The commands `segue session export`, `import` and `migrate`, which exchange sessions with other programs.

mod dagent_dirs;
mod export;
mod import;
mod migrate;
mod report;

use std::fs;
use std::io;
use std::path::Path;

pub(super) use export::run as export;
pub(super) use import::run as import;
pub(super) use migrate::run as migrate;

/// Writes a file atomically. Creates its directory.
fn write_atomically(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory)?;
    let draft = directory.join(format!(".segue-{}", std::process::id()));
    fs::write(&draft, text)?;
    fs::rename(&draft, path).inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}
