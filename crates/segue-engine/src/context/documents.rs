//! Documents that people wrote for agents and for each other, up to a maximum size.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use segue_core::brief::{Document, excerpt};

use super::Place;

/// File names of the documents.
const NAMES: [&str; 4] = ["CLAUDE.md", "AGENTS.md", "GEMINI.md", "PROJECT.md"];

/// Number of bytes left for all documents, and maximum number for each of them.
pub(super) struct Room {
    left: usize,
    each: usize,
}

impl Room {
    pub(super) fn of(bytes: usize) -> Self {
        Self {
            left: bytes,
            each: bytes / 2,
        }
    }

    /// Reads a file, up to the number of bytes left. `None` if the file does not exist or is blank. If it cannot be
    /// read, adds the reason to `notes` and returns `None`.
    pub(super) fn take(
        &mut self,
        name: &str,
        path: &Path,
        notes: &mut Vec<String>,
    ) -> Option<Document> {
        let most = self.left.min(self.each);
        match beginning(path, most) {
            Ok(found) => {
                let (text, size) = found?;
                self.left -= text.len().min(self.left);
                Some(Document {
                    name: name.to_owned(),
                    text,
                    size,
                })
            }
            Err(why) => {
                notes.push(format!("{name} can't be read: {why}"));
                None
            }
        }
    }
}

/// Reads at most `most` bytes from the beginning of a file, and returns them with the size of the complete file. `None`
/// if the file does not exist or is blank.
fn beginning(path: &Path, most: usize) -> Result<Option<(String, u64)>, String> {
    let about = match path.metadata() {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if !about.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    let file = File::open(path).map_err(|error| error.to_string())?;
    // Reads a few bytes more, so that `excerpt` makes the cut, at the end of a line or of a character.
    let read = file.take(limit.saturating_add(8)).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.contains(&0) {
        return Err("it is no text in UTF-8".to_owned());
    }
    let whole = bytes.len() <= most;
    let text = String::from_utf8_lossy(&bytes);
    let text = excerpt(&text, most).to_owned();
    // The conversion of invalid UTF-8 changes the length, so a complete file has the size of its text.
    let size = if whole {
        text.len().try_into().unwrap_or(u64::MAX)
    } else {
        about.len()
    };
    Ok((!text.trim().is_empty() || !whole).then_some((text, size)))
}

/// Returns the paths at which documents may exist, with their names relative to the project: in its root and in the
/// working directory.
pub(super) fn places(place: &Place) -> Vec<(String, PathBuf)> {
    let mut places: Vec<(String, PathBuf)> = Vec::new();
    let mut above = vec![place.root.as_path()];
    if place.cwd != place.root {
        above.push(&place.cwd);
    }
    for directory in above {
        let within = directory.strip_prefix(&place.root).unwrap_or(directory);
        for name in NAMES {
            let shown = within.join(name).to_string_lossy().into_owned();
            places.push((shown, directory.join(name)));
        }
    }
    places
}

/// Reads all documents that exist. A link to a document that was read before only refers to it.
pub(super) fn read(place: &Place, room: &mut Room, notes: &mut Vec<String>) -> Vec<Document> {
    let mut found: Vec<(Document, Option<PathBuf>)> = Vec::new();
    for (name, path) in places(place) {
        let real = path.canonicalize().ok();
        let same = found
            .iter()
            .find(|(_, other)| other.is_some() && *other == real);
        if let Some((other, _)) = same {
            let text = format!("The same as {}.\n", other.name);
            let size = text.len().try_into().unwrap_or(u64::MAX);
            found.push((Document { name, text, size }, None));
        } else if let Some(document) = room.take(&name, &path, notes) {
            found.push((document, real));
        }
    }
    found.into_iter().map(|(document, _)| document).collect()
}
