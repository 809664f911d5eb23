//! Artifacts of a Gemini CLI session besides its transcript. Gemini CLI deletes the same ones with a session.

use std::path::Path;

use segue_core::id::NativeId;

use super::chat_file::{file_stem, parse_file_name};
use super::reader::GeminiReader;
use super::session_head;
use crate::reader::artifacts::{ArtifactCollector, list_directory};
use crate::{
    ArchiveError, ArtifactRole, IdHint, SessionArtifacts, SessionLocation, SessionStorage,
};

impl SessionStorage for GeminiReader {
    fn home(&self) -> &Path {
        self.projects_dir.parent().unwrap_or(&self.projects_dir)
    }

    fn collect_artifacts(
        &self,
        location: &SessionLocation,
        id: &NativeId,
    ) -> Result<SessionArtifacts, ArchiveError> {
        let mut artifacts = ArtifactCollector::new(self.home())?;
        artifacts.add_main_file(&location.path)?;
        let Some(chats) = location.path.parent() else {
            return Ok(artifacts.finish());
        };
        // A resume in another minute creates a twin, and a newer version continues an older file in a second one.
        for path in list_directory(chats) {
            if is_session_file(&path, id) {
                artifacts.add_file(&path, ArtifactRole::Attachment);
            }
        }
        let Some(project) = chats.parent() else {
            return Ok(artifacts.finish());
        };
        let subagents_dir = chats.join(id.as_str());
        for path in list_directory(&subagents_dir) {
            let name = path.file_name().and_then(|name| name.to_str());
            let subagent_id = name
                .and_then(file_stem)
                .and_then(|id| NativeId::parse(id).ok());
            if let Some(subagent_id) = subagent_id {
                add_agent_artifacts(&mut artifacts, project, &subagent_id);
            }
        }
        artifacts.add_directory(&subagents_dir);
        add_agent_artifacts(&mut artifacts, project, id);
        Ok(artifacts.finish())
    }
}

/// Adds the log, the tool outputs and the own files of one agent.
fn add_agent_artifacts(artifacts: &mut ArtifactCollector, project: &Path, id: &NativeId) {
    artifacts.add_file(
        &project.join(format!("logs/session-{id}.jsonl")),
        ArtifactRole::Attachment,
    );
    artifacts.add_directory(&project.join(format!("tool-outputs/session-{id}")));
    artifacts.add_directory(&project.join(id.as_str()));
}

/// Returns `true` if a file belongs to a session. Its name contains the beginning of an id, its content the complete
/// id.
fn is_session_file(path: &Path, id: &NativeId) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(id_prefix) = name.and_then(parse_file_name).map(|name| name.short_id) else {
        return false;
    };
    let location = SessionLocation {
        path: path.to_owned(),
        id_hint: IdHint::Prefix(id_prefix.to_owned()),
        size: std::fs::metadata(path).map_or(0, |data| data.len()),
        modified: jiff::Timestamp::UNIX_EPOCH,
        archived: false,
    };
    id.as_str().starts_with(id_prefix)
        && session_head::read_head(&location).is_ok_and(|(head, _)| head.id == *id)
}
