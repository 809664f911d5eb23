//! What people wrote down for agents and for each other, as far as there is room.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use segue_core::{Document, excerpt};

use super::Place;

/// What is looked for.
const NAMES: [&str; 4] = ["CLAUDE.md", "AGENTS.md", "GEMINI.md", "PROJECT.md"];

/// How many bytes are left for documents, and what one of them may have at most.
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

    /// A file, as far as there is room; none if there is none. What can't be read is noted.
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

/// The beginning of a file of so many bytes at most, and how long the whole of it is.
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
    // A little more, so that what is cut is cut here, where lines and characters are known.
    let read = file.take(limit.saturating_add(8)).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.contains(&0) {
        return Err("it is no text in UTF-8".to_owned());
    }
    let whole = bytes.len() <= most;
    let text = String::from_utf8_lossy(&bytes);
    let text = excerpt(&text, most).to_owned();
    // What is not text is longer, or shorter, once it is made text.
    let size = if whole {
        text.len().try_into().unwrap_or(u64::MAX)
    } else {
        about.len()
    };
    Ok((!text.trim().is_empty() || !whole).then_some((text, size)))
}

/// Where they may be, with their names as seen from the project: at its top, and where the work is done.
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

/// All of them that there are. One that says the same as another is told once.
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
