//! Artifacts of a Codex session: its rollouts, and those that they continue.
//!
//! Codex's databases also contain rows of the session. segue ignores them: a command of Codex removes them, and Codex
//! recreates them from a restored rollout.

use std::path::Path;

use segue_core::id::NativeId;

use super::{CodexReader, home};
use crate::reader::artifacts::ArtifactCollector;
use crate::{ArchiveError, ArtifactRole, SessionArtifacts, SessionLocation, SessionStorage};

impl SessionStorage for CodexReader {
    fn home(&self) -> &Path {
        self.home.root()
    }

    fn collect_artifacts(
        &self,
        location: &SessionLocation,
        id: &NativeId,
    ) -> Result<SessionArtifacts, ArchiveError> {
        let mut artifacts = ArtifactCollector::new(self.home.root())?;
        artifacts.add_main_file(&location.path)?;
        for path in self.home.session_files(id.as_str()) {
            artifacts.add_file(&path, ArtifactRole::Attachment);
        }
        // A fork shares records with its parent that only the parent's file contains.
        let history = self.resolve_history(location)?;
        for path in history.paths() {
            let is_own =
                home::parse_rollout_name(path).is_some_and(|name| name.session_id == id.as_str());
            artifacts.add_file(
                path,
                if is_own {
                    ArtifactRole::Attachment
                } else {
                    ArtifactRole::Shared
                },
            );
        }
        Ok(artifacts.finish())
    }
}
