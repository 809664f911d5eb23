//! Artifacts of a Claude Code session besides its transcript.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use memchr::memmem;
use segue_core::id::NativeId;

use super::ClaudeReader;
use crate::reader::artifacts::{ArtifactCollector, list_directory};
use crate::{ArchiveError, ArtifactRole, SessionArtifacts, SessionLocation, SessionStorage};

/// Directories in the home that have a directory for each session.
const SESSION_DIRECTORIES: [&str; 3] = ["session-env", "file-history", "tasks"];

/// Bytes of a sub-agent's transcript that are searched for the id of its session.
const MAX_ID_SEARCH_BYTES: u64 = 16 << 10;

impl SessionStorage for ClaudeReader {
    fn home(&self) -> &Path {
        &self.config_dir
    }

    fn collect_artifacts(
        &self,
        location: &SessionLocation,
        id: &NativeId,
    ) -> Result<SessionArtifacts, ArchiveError> {
        let mut artifacts = ArtifactCollector::new(&self.config_dir)?;
        artifacts.add_main_file(&location.path)?;
        for project in list_directory(&self.projects_dir) {
            // A session is in two projects if the user copied it.
            artifacts.add_file(
                &project.join(format!("{id}.jsonl")),
                ArtifactRole::Attachment,
            );
            artifacts.add_directory(&project.join(id.as_str()));
        }
        let is_side_file = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| {
                is_session_json_file(name, id)
                    || is_subagent_transcript(name) && has_session_id(path, id)
            })
        };
        let project = location
            .path
            .parent()
            .map(list_directory)
            .unwrap_or_default();
        for path in project.into_iter().filter(is_side_file) {
            artifacts.add_file(&path, ArtifactRole::Attachment);
        }
        for directory in SESSION_DIRECTORIES {
            artifacts.add_directory(&self.config_dir.join(directory).join(id.as_str()));
        }
        for path in list_directory(&self.config_dir.join("todos")) {
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with(&format!("{id}-agent-"))) {
                artifacts.add_file(&path, ArtifactRole::Attachment);
            }
        }
        artifacts.add_file(
            &self.config_dir.join(format!("debug/{id}.txt")),
            ArtifactRole::Attachment,
        );
        Ok(artifacts.finish())
    }
}

/// Returns `true` for names such as `<id>.precompact.json`.
fn is_session_json_file(name: &str, id: &NativeId) -> bool {
    let remainder = name.strip_prefix(id.as_str());
    let remainder = remainder.and_then(|remainder| remainder.strip_suffix(".json"));
    remainder.is_some_and(|remainder| remainder.starts_with('.'))
}

/// Returns `true` for transcripts of sub-agents, which older versions stored next to the conversations.
fn is_subagent_transcript(name: &str) -> bool {
    name.strip_suffix(".jsonl")
        .is_some_and(|name| name.starts_with("agent-"))
}

fn has_session_id(path: &Path, id: &NativeId) -> bool {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_ID_SEARCH_BYTES).read_to_end(&mut bytes));
    let line = bytes.split(|byte| *byte == b'\n').next();
    let id_field = format!("\"sessionId\":\"{id}\"");
    read.is_ok() && line.is_some_and(|line| memmem::find(line, id_field.as_bytes()).is_some())
}
