//! Location and content of the configuration files.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::parse::line_and_column;
use crate::problem::{ConfigProblem, ProblemLocation, ValueError};

/// File name of a project's configuration.
pub const PROJECT_FILE_NAME: &str = "segue.toml";

/// Maximum size of a configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Owner of a configuration file: the user, whose file applies to all projects, or one project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOwner {
    /// The user.
    User,
    /// A project.
    Project,
}

/// Location of a configuration file that segue reads if it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSource {
    /// Owner of the file.
    pub owner: ConfigOwner,
    /// Path of the file.
    pub path: PathBuf,
    /// Whether a missing file is an error. It is one if the user named the file, for example in `SEGUE_CONFIG`.
    pub is_required: bool,
}

/// Reads a file. `None` if a file that is not required does not exist. Fails if the file is larger than [`MAX_FILE_BYTES`] or is
/// not a regular file.
pub(crate) fn read_bytes(path: &Path, is_required: bool) -> Result<Option<Vec<u8>>, ConfigProblem> {
    let to_problem = |message: String| {
        ValueError::new(message).into_problem(ProblemLocation::File(path.to_owned()))
    };
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if is_absent(&error) && !is_required => return Ok(None),
        Err(error) => return Err(to_problem(format!("cannot read the file: {error}"))),
    };
    // Reading a pipe or a device could block forever.
    if !metadata.is_file() && path != Path::new("/dev/null") {
        return Err(to_problem("not a regular file".into()));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| to_problem(format!("cannot read the file: {error}")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(to_problem(format!(
            "the file is larger than {} KiB",
            MAX_FILE_BYTES >> 10
        )));
    }
    Ok(Some(bytes))
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Decodes the text of a file. Fails if it is not valid UTF-8.
pub(crate) fn decode_text<'b>(bytes: &'b [u8], path: &Path) -> Result<&'b str, ConfigProblem> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid_bytes = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let valid_text = String::from_utf8_lossy(valid_bytes);
        let (line, column) = line_and_column(&valid_text, valid_text.len());
        ValueError::new("invalid UTF-8").into_problem(ProblemLocation::Position {
            path: path.to_owned(),
            line,
            column,
        })
    })
}
