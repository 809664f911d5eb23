//! The sessions of the last printed list, so that the user can refer to them by number.
//!
//! The file is a convenience that may be lost at any time, so read and write errors are ignored.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::Project;
use segue_engine::ConversationId;

const LAST_LIST_FILE_NAME: &str = "last-list";
const ALL_PROJECTS_KEY: &str = "*";

/// Saves the list of one project, or of all projects if `project` is `None`.
pub(crate) fn save(home: &Path, project: Option<&Project>, conversations: &[ConversationId]) {
    let project_key = project.map_or(ALL_PROJECTS_KEY, |project| &project.key);
    let ids = conversations.iter().map(ToString::to_string);
    let lines: Vec<String> = [project_key.to_owned()].into_iter().chain(ids).collect();
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(home.join(LAST_LIST_FILE_NAME));
    let _ = file.and_then(|mut file| file.write_all(lines.join("\n").as_bytes()));
}

/// Reads the saved list. Empty if the list was of another project, because the user does not see it in this directory.
pub(crate) fn load(home: &Path, project: &Project) -> Vec<ConversationId> {
    let text = std::fs::read_to_string(home.join(LAST_LIST_FILE_NAME)).unwrap_or_default();
    match text.split_once('\n') {
        Some((project_key, ids))
            if project_key == ALL_PROJECTS_KEY || project_key == project.key =>
        {
            ids.lines().filter_map(parse_conversation_id).collect()
        }
        _ => Vec::new(),
    }
}

fn parse_conversation_id(line: &str) -> Option<ConversationId> {
    match line.split_once(':') {
        None => SessionId::parse(line).ok().map(ConversationId::Session),
        Some((provider, id)) => Some(ConversationId::Native(
            ProviderId::parse(provider).ok()?,
            NativeId::parse(id).ok()?,
        )),
    }
}
