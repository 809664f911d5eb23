//! The configuration files: where they are, and what is in them.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::position;
use super::problem::{Place, Problem, Wrong};

/// The name of a project's file.
pub(crate) const PROJECT_FILE: &str = "segue.toml";

/// How large a file may be.
const LARGEST: u64 = 1 << 20;

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    User,
    Project,
}

/// A file that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) owner: Owner,
    pub(crate) path: PathBuf,
    /// Whether it was asked for by name, so that it must be there.
    pub(crate) named: bool,
}

/// The directory whose `segue.toml` applies: the top of the git work tree, or outside of git the directory itself.
pub(crate) fn project_root(cwd: &Path) -> &Path {
    cwd.ancestors()
        .find(|directory| directory.join(".git").exists())
        .unwrap_or(cwd)
}

/// The bytes of a file, or none if there is no such file and need not be.
pub(crate) fn bytes(source: &Source) -> Result<Option<Vec<u8>>, Problem> {
    let path = &source.path;
    let wrong = |message: String| Wrong::new(message).at(Place::File(path.clone()));
    let found = match path.metadata() {
        Ok(found) => found,
        Err(error) if is_absent(&error) && !source.named => return Ok(None),
        Err(error) => return Err(wrong(format!("cannot read it: {error}"))),
    };
    // A pipe or a device could keep us for ever.
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

/// The text of a file.
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
