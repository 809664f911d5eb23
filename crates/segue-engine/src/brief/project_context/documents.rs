//! Documents that people wrote for agents and for each other, up to a maximum size.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use segue_core::brief::{Document, excerpt};

use super::ContextInputs;

/// File names of the documents.
const DOCUMENT_FILE_NAMES: [&str; 4] = ["CLAUDE.md", "AGENTS.md", "GEMINI.md", "PROJECT.md"];

/// Number of bytes left for all documents, and maximum number for each of them.
pub(super) struct DocumentBudget {
    remaining_bytes: usize,
    max_bytes_each: usize,
}

impl DocumentBudget {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            remaining_bytes: bytes,
            max_bytes_each: bytes / 2,
        }
    }

    /// Reads a file, up to the number of bytes left. `None` if the file does not exist or is blank. If it cannot be
    /// read, adds the reason to `notes` and returns `None`.
    pub(super) fn read_document(
        &mut self,
        name: &str,
        path: &Path,
        notes: &mut Vec<String>,
    ) -> Option<Document> {
        let max_bytes = self.remaining_bytes.min(self.max_bytes_each);
        match read_beginning(path, max_bytes) {
            Ok(content) => {
                let (text, size) = content?;
                self.remaining_bytes -= text.len().min(self.remaining_bytes);
                Some(Document {
                    name: name.to_owned(),
                    text,
                    size,
                })
            }
            Err(reason) => {
                notes.push(format!("cannot read {name}: {reason}"));
                None
            }
        }
    }
}

/// Reads at most `max_bytes` bytes from the beginning of a file, and returns them with the size of the complete file.
/// `None` if the file does not exist or is blank.
fn read_beginning(path: &Path, max_bytes: usize) -> Result<Option<(String, u64)>, String> {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if !metadata.is_file() {
        return Err("not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX);
    let file = File::open(path).map_err(|error| error.to_string())?;
    // Reads a few bytes more, so that `excerpt` makes the cut, at the end of a line or of a character.
    let read = file.take(limit.saturating_add(8)).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.contains(&0) {
        return Err("not UTF-8 text".to_owned());
    }
    let is_complete = bytes.len() <= max_bytes;
    let text = String::from_utf8_lossy(&bytes);
    let text = excerpt(&text, max_bytes).to_owned();
    // The conversion of invalid UTF-8 changes the length, so a complete file has the size of its text.
    let size = if is_complete {
        text.len().try_into().unwrap_or(u64::MAX)
    } else {
        metadata.len()
    };
    Ok((!text.trim().is_empty() || !is_complete).then_some((text, size)))
}

/// Returns the paths at which documents may exist, with their names relative to the project: in its root and in the
/// working directory.
pub(super) fn list_document_paths(inputs: &ContextInputs) -> Vec<(String, PathBuf)> {
    let mut paths: Vec<(String, PathBuf)> = Vec::new();
    let mut directories = vec![&inputs.root, &inputs.cwd];
    directories.dedup();
    for directory in directories {
        let relative_dir = directory.strip_prefix(&inputs.root).unwrap_or(directory);
        for name in DOCUMENT_FILE_NAMES {
            let relative_name = relative_dir.join(name).to_string_lossy().into_owned();
            paths.push((relative_name, directory.join(name)));
        }
    }
    paths
}

/// Reads all documents that exist. A link to a document that was read before only refers to it.
pub(super) fn read_documents(
    inputs: &ContextInputs,
    budget: &mut DocumentBudget,
    notes: &mut Vec<String>,
) -> Vec<Document> {
    let mut documents: Vec<(Document, Option<PathBuf>)> = Vec::new();
    for (name, path) in list_document_paths(inputs) {
        let canonical_path = path.canonicalize().ok();
        let duplicate = documents
            .iter()
            .find(|(_, existing_path)| existing_path.is_some() && *existing_path == canonical_path);
        if let Some((original, _)) = duplicate {
            let text = format!("The same as {}.\n", original.name);
            let size = text.len().try_into().unwrap_or(u64::MAX);
            documents.push((Document { name, text, size }, None));
        } else if let Some(document) = budget.read_document(&name, &path, notes) {
            documents.push((document, canonical_path));
        }
    }
    documents
        .into_iter()
        .map(|(document, _)| document)
        .collect()
}
