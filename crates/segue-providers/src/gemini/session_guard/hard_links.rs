//! Hard links to session files, through which segue can read what was written to a file after Gemini CLI deleted it.
//!
//! A copy contains only the messages from before the handover of the terminal. If the file system does not support hard
//! links, segue restores only those.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use segue_core::id::NativeId;

use super::atomic_files::{self, list_chat_file_names};
use crate::gemini::chat_dir::ProjectChats;

/// Directory of the links, next to the copies of a session; no session file begins with a dot.
const LINKS_DIR_NAME: &str = ".linked";

fn links_dir(copies_dir: &Path) -> PathBuf {
    copies_dir.join(LINKS_DIR_NAME)
}

/// Creates a hard link to each file of a session.
pub(super) fn create_links(chats: &ProjectChats, id: &NativeId, copies_dir: &Path) {
    remove_links(copies_dir);
    let links = links_dir(copies_dir);
    let files = chats
        .read_session_files(id)
        .into_iter()
        .filter(|file| file.state.has_messages);
    for file in files {
        // If this fails, the copy still exists.
        let _ = fs::create_dir_all(&links)
            .and_then(|()| fs::hard_link(&file.path, links.join(&file.name)));
    }
}

/// Adds to the copies what was written to files that Gemini CLI has since deleted or replaced.
pub(super) fn update_copies(chats: &ProjectChats, copies_dir: &Path) -> io::Result<()> {
    let links = links_dir(copies_dir);
    for name in list_chat_file_names(&links) {
        let link = links.join(&name);
        if is_same_file(&link, &chats.directory.join(&name)) {
            continue;
        }
        let linked_bytes = fs::read(&link)?;
        let copy = copies_dir.join(&name);
        // A file that does not extend the copy was restarted.
        if fs::read(&copy).is_ok_and(|copied_bytes| linked_bytes.starts_with(&copied_bytes)) {
            atomic_files::write_copy(&linked_bytes, &copy)?;
        }
    }
    Ok(())
}

/// Removes the links.
pub(super) fn remove_links(copies_dir: &Path) {
    // `create_links` replaces links that remain, and they are removed together with the copies.
    let _ = fs::remove_dir_all(links_dir(copies_dir));
}

fn is_same_file(first: &Path, second: &Path) -> bool {
    let identify = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    identify(second).is_some_and(|second_identity| identify(first) == Some(second_identity))
}
