//! Hard links to session files, through which segue can read what was written to a file after Gemini CLI deleted it.
//!
//! A copy contains only the messages from before the handover of the terminal. If the file system does not support hard
//! links, segue restores only those.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use segue_core::id::NativeId;

use super::files::{self, names_in};
use crate::gemini::chats::Chats;

/// Directory of the links, next to the copies of a session; no session file begins with a dot.
const LINKED: &str = ".linked";

fn linked(copies: &Path) -> PathBuf {
    copies.join(LINKED)
}

/// Creates a hard link to each file of a session.
pub(super) fn make(chats: &Chats, id: &NativeId, copies: &Path) {
    remove(copies);
    let links = linked(copies);
    let said = chats.files(id).into_iter().filter(|file| file.story.said);
    for file in said {
        // If this fails, the copy still exists.
        let _ = fs::create_dir_all(&links)
            .and_then(|()| fs::hard_link(&file.path, links.join(&file.name)));
    }
}

/// Adds to the copies what was written to files that Gemini CLI has since deleted or replaced.
pub(super) fn follow(chats: &Chats, copies: &Path) -> io::Result<()> {
    let links = linked(copies);
    for name in names_in(&links) {
        let link = links.join(&name);
        if is_same(&link, &chats.directory.join(&name)) {
            continue;
        }
        let written = fs::read(&link)?;
        let copy = copies.join(&name);
        // A file that does not extend the copy was restarted.
        if fs::read(&copy).is_ok_and(|kept| written.starts_with(&kept)) {
            files::copy(&written, &copy)?;
        }
    }
    Ok(())
}

/// Removes the links.
pub(super) fn remove(copies: &Path) {
    // `make` replaces links that remain, and they are removed together with the copies.
    let _ = fs::remove_dir_all(linked(copies));
}

fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    place(other).is_some_and(|there| place(one) == Some(there))
}
