//! Location and content of the configuration files.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::position;
use super::problem::{Place, Problem, Wrong};

/// File name of a project's configuration.
pub(crate) const PROJECT_FILE: &str = "segue.toml";

/// Maximum size of a file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Owner of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    User,
    Project,
}

/// A configuration file that segue looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) owner: Owner,
    pub(crate) path: PathBuf,
    /// Whether the user named the file, so that it must exist.
    pub(crate) named: bool,
}

/// Returns the directory whose `segue.toml` applies: the top of the git work tree, or `cwd` outside of git.
pub(crate) fn project_root(cwd: &Path) -> &Path {
    segue_catalog::work_tree_root(cwd).unwrap_or(cwd)
}

/// Reads a file. `None` if an optional file does not exist.
pub(crate) fn bytes(source: &Source) -> Result<Option<Vec<u8>>, Problem> {
    let path = &source.path;
    let wrong = |message: String| Wrong::new(message).at(Place::File(path.clone()));
    let found = match path.metadata() {
        Ok(found) => found,
        Err(error) if is_absent(&error) && !source.named => return Ok(None),
        Err(error) => return Err(wrong(format!("cannot read it: {error}"))),
    };
    // Reading a pipe or a device could block forever.
    if !found.is_file() && path != Path::new("/dev/null") {
        return Err(wrong("it is not a file".into()));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| wrong(format!("cannot read it: {error}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(wrong(format!(
            "it is larger than {} KiB, which no configuration is",
            LARGEST >> 10
        )));
    }
    Ok(Some(bytes))
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Decodes the text of a file. Fails if it is not valid UTF-8.
pub(crate) fn text<'b>(bytes: &'b [u8], path: &Path) -> Result<&'b str, Problem> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let before = String::from_utf8_lossy(before);
        let (line, column) = position(&before, before.len());
        Wrong::new("it is not valid UTF-8 from here on").at(Place::At {
            path: path.to_owned(),
            line,
            column,
        })
    })
}
