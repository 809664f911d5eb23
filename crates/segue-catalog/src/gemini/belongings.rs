//! Artifacts of a Gemini CLI session besides its transcript. Gemini CLI deletes the same ones with a session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segue_core::id::NativeId;

use super::{Gemini, begins, head, stem};
use crate::belongings::{Gathering, entries};
use crate::{Belongings, Found, IdHint, KeepError, Keeping, Reader, Role};

impl Keeping for Gemini {
    fn home(&self) -> &Path {
        self.projects.parent().unwrap_or(&self.projects)
    }

    fn belongings(&self, found: &Found, id: &NativeId) -> Result<Belongings, KeepError> {
        let mut all = Gathering::new(self.home())?;
        all.main(&found.path)?;
        let Some(chats) = found.path.parent() else {
            return Ok(all.done());
        };
        // A resume in another minute creates a twin, and a newer version continues an older file in a second one.
        for path in entries(chats) {
            if is_of(&path, id) {
                all.file(&path, Role::Side);
            }
        }
        let Some(project) = chats.parent() else {
            return Ok(all.done());
        };
        let helpers = chats.join(id.as_str());
        for path in entries(&helpers) {
            let name = path.file_name().and_then(|name| name.to_str());
            let helper = name.and_then(stem).and_then(|id| NativeId::parse(id).ok());
            if let Some(helper) = helper {
                artifacts(&mut all, project, &helper);
            }
        }
        all.tree(&helpers);
        artifacts(&mut all, project, id);
        Ok(all.done())
    }

    fn elsewhere(&self, home: PathBuf) -> Arc<dyn Reader> {
        Arc::new(Self::new(home))
    }
}

/// Adds the log, the tool outputs and the own files of one agent.
fn artifacts(all: &mut Gathering, project: &Path, id: &NativeId) {
    all.file(
        &project.join(format!("logs/session-{id}.jsonl")),
        Role::Side,
    );
    all.tree(&project.join(format!("tool-outputs/session-{id}")));
    all.tree(&project.join(id.as_str()));
}

/// Returns `true` if a file belongs to a session. Its name contains the beginning of an id, its content the complete
/// id.
fn is_of(path: &Path, id: &NativeId) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(short) = name.and_then(stem).and_then(begins) else {
        return false;
    };
    let found = Found {
        path: path.to_owned(),
        id: IdHint::Begins(short.to_owned()),
        size: std::fs::metadata(path).map_or(0, |data| data.len()),
        modified: jiff::Timestamp::UNIX_EPOCH,
        archived: false,
    };
    id.as_str().starts_with(short) && head::head(&found).is_ok_and(|(head, _)| head.id == *id)
}
