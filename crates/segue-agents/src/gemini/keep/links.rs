//! Second names of session files, under which what is written to them can be read after Gemini CLI deleted them.
//!
//! A copy has only what was said before the terminal was handed over. Where a file system has no links, that must do.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use segue_core::NativeId;

use super::files::{self, names_in};
use crate::gemini::chats::Chats;

/// Where they are beside the copies of a session; no project's file begins so.
const LINKED: &str = ".linked";

fn linked(copies: &Path) -> PathBuf {
    copies.join(LINKED)
}

/// Gives the files of a session a second name each.
pub(super) fn make(chats: &Chats, id: &NativeId, copies: &Path) {
    remove(copies);
    let links = linked(copies);
    let said = chats.files(id).into_iter().filter(|file| file.story.said);
    for file in said {
        // There is a copy as well.
        let _ = fs::create_dir_all(&links)
            .and_then(|()| fs::hard_link(&file.path, links.join(&file.name)));
    }
}

/// Has the copies tell what was written to files that are not in their places any more.
pub(super) fn follow(chats: &Chats, copies: &Path) -> io::Result<()> {
    let links = linked(copies);
    for name in names_in(&links) {
        let link = links.join(&name);
        if is_same(&link, &chats.directory.join(&name)) {
            continue;
        }
        let written = fs::read(&link)?;
        let copy = copies.join(&name);
        // What is not the copy and more has been begun anew.
        if fs::read(&copy).is_ok_and(|kept| written.starts_with(&kept)) {
            files::copy(&written, &copy)?;
        }
    }
    Ok(())
}

/// Removes the second names.
pub(super) fn remove(copies: &Path) {
    // What stays is made anew with the next ones, and removed with the copies.
    let _ = fs::remove_dir_all(linked(copies));
}

fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    place(other).is_some_and(|there| place(one) == Some(there))
}
