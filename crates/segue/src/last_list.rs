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

const FILE: &str = "last-list";
const EVERYWHERE: &str = "*";

/// Saves the list of one project, or of all projects if `project` is `None`.
pub(crate) fn remember(home: &Path, project: Option<&Project>, listed: &[ConversationId]) {
    let of = project.map_or(EVERYWHERE, |project| &project.key);
    let ids = listed.iter().map(ToString::to_string);
    let lines: Vec<String> = [of.to_owned()].into_iter().chain(ids).collect();
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(home.join(FILE));
    let _ = file.and_then(|mut file| file.write_all(lines.join("\n").as_bytes()));
}

/// Reads the saved list. Empty if the list was of another project, because the user does not see it in this directory.
pub(crate) fn recall(home: &Path, project: &Project) -> Vec<ConversationId> {
    let text = std::fs::read_to_string(home.join(FILE)).unwrap_or_default();
    match text.split_once('\n') {
        Some((of, ids)) if of == EVERYWHERE || of == project.key => {
            ids.lines().filter_map(parse).collect()
        }
        _ => Vec::new(),
    }
}

fn parse(line: &str) -> Option<ConversationId> {
    match line.split_once(':') {
        None => SessionId::parse(line).ok().map(ConversationId::Session),
        Some((provider, id)) => Some(ConversationId::Native(
            ProviderId::parse(provider).ok()?,
            NativeId::parse(id).ok()?,
        )),
    }
}
