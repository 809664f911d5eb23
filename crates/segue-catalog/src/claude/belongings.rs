//! Artifacts of a Claude Code session besides its transcript.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::memmem;
use segue_core::id::NativeId;

use super::Claude;
use crate::belongings::{Gathering, entries};
use crate::{Belongings, Found, KeepError, Keeping, Reader, Role};

/// Directories in the home that have a directory for each session.
const DIRECTORIES: [&str; 3] = ["session-env", "file-history", "tasks"];

/// Bytes of a sub-agent's transcript that are searched for the id of its session.
const LOOK: u64 = 16 << 10;

impl Keeping for Claude {
    fn home(&self) -> &Path {
        &self.config
    }

    fn belongings(&self, found: &Found, id: &NativeId) -> Result<Belongings, KeepError> {
        let mut all = Gathering::new(&self.config)?;
        all.main(&found.path)?;
        for project in entries(&self.projects) {
            // A session is in two projects if the user copied it.
            all.file(&project.join(format!("{id}.jsonl")), Role::Side);
            all.tree(&project.join(id.as_str()));
        }
        let beside = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| is_about(name, id) || is_helper(name) && belongs(path, id))
        };
        let project = found.path.parent().map(entries).unwrap_or_default();
        for path in project.into_iter().filter(beside) {
            all.file(&path, Role::Side);
        }
        for directory in DIRECTORIES {
            all.tree(&self.config.join(directory).join(id.as_str()));
        }
        for path in entries(&self.config.join("todos")) {
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with(&format!("{id}-agent-"))) {
                all.file(&path, Role::Side);
            }
        }
        all.file(&self.config.join(format!("debug/{id}.txt")), Role::Side);
        Ok(all.done())
    }

    fn elsewhere(&self, home: PathBuf) -> Arc<dyn Reader> {
        Arc::new(Self::new(home))
    }
}

/// Returns `true` for names such as `<id>.precompact.json`.
fn is_about(name: &str, id: &NativeId) -> bool {
    let rest = name.strip_prefix(id.as_str());
    let rest = rest.and_then(|rest| rest.strip_suffix(".json"));
    rest.is_some_and(|rest| rest.starts_with('.'))
}

/// Returns `true` for transcripts of sub-agents, which older versions stored next to the conversations.
fn is_helper(name: &str) -> bool {
    name.strip_suffix(".jsonl")
        .is_some_and(|name| name.starts_with("agent-"))
}

fn belongs(path: &Path, id: &NativeId) -> bool {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LOOK).read_to_end(&mut bytes));
    let line = bytes.split(|byte| *byte == b'\n').next();
    let says = format!("\"sessionId\":\"{id}\"");
    read.is_ok() && line.is_some_and(|line| memmem::find(line, says.as_bytes()).is_some())
}
