//! Session files of the rehearsal agent: `ID.jsonl` with a header, and then one line per message.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use segue_core::id::NativeId;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::Surroundings;

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Record {
    Session {
        id: String,
        cwd: PathBuf,
        at: String,
    },
    User {
        text: String,
        at: String,
    },
    Agent {
        text: String,
        at: String,
    },
}

/// A session as its file describes it.
pub(super) struct Conversation {
    pub(super) id: NativeId,
    pub(super) cwd: PathBuf,
    pub(super) updated_at: Timestamp,
    /// Messages: `true` if the user wrote it, and the text.
    pub(super) messages: Vec<(bool, String)>,
}

impl Conversation {
    pub(super) fn prompts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.messages
            .iter()
            .filter(|(by_user, _)| *by_user)
            .map(|(_, text)| text.as_str())
    }
}

/// All sessions of the agent.
pub(super) struct Sessions {
    surroundings: Surroundings,
    cancels: Mutex<HashMap<String, Arc<Notify>>>,
}

impl Sessions {
    pub(super) fn new(surroundings: Surroundings) -> Self {
        Self {
            surroundings,
            cancels: Mutex::default(),
        }
    }

    pub(super) fn create(&self, cwd: &Path) -> io::Result<NativeId> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.surroundings.directory)?;
        let id = (self.surroundings.new_id)();
        self.write(
            &id,
            &Record::Session {
                id: id.to_string(),
                cwd: cwd.to_owned(),
                at: self.now(),
            },
        )?;
        Ok(id)
    }

    pub(super) fn user_said(&self, id: &NativeId, text: &str) -> io::Result<()> {
        let (text, at) = (text.to_owned(), self.now());
        self.write(id, &Record::User { text, at })
    }

    pub(super) fn agent_said(&self, id: &NativeId, text: &str) -> io::Result<()> {
        let (text, at) = (text.to_owned(), self.now());
        self.write(id, &Record::Agent { text, at })
    }

    /// Reads the session with this id; `None` if it does not exist.
    pub(super) fn read(&self, id: &NativeId) -> io::Result<Option<Conversation>> {
        match File::open(self.path(id)) {
            Ok(file) => read(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads all sessions, newest first.
    pub(super) fn all(&self) -> io::Result<Vec<Conversation>> {
        let mut all = Vec::new();
        let entries = match fs::read_dir(&self.surroundings.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(all),
            Err(error) => return Err(error),
        };
        for entry in entries {
            all.extend(read(File::open(entry?.path())?)?);
        }
        all.sort_by_key(|conversation| std::cmp::Reverse(conversation.updated_at));
        Ok(all)
    }

    /// Registers a turn. The returned [`Notify`] is notified when the turn is cancelled.
    pub(super) fn begin_turn(&self, id: &NativeId) -> Arc<Notify> {
        let cancel = Arc::new(Notify::new());
        let mut cancels = self.cancels.lock().unwrap_or_else(PoisonError::into_inner);
        cancels.insert(id.to_string(), Arc::clone(&cancel));
        cancel
    }

    pub(super) fn cancel(&self, id: &str) {
        let cancels = self.cancels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cancel) = cancels.get(id) {
            cancel.notify_one();
        }
    }

    fn path(&self, id: &NativeId) -> PathBuf {
        self.surroundings.directory.join(format!("{id}.jsonl"))
    }

    fn now(&self) -> String {
        (self.surroundings.now)().to_string()
    }

    fn write(&self, id: &NativeId, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_string(record)?;
        line.push('\n');
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.path(id))?
            .write_all(line.as_bytes())
    }
}

/// Reads a session file. Skips a line that a kill left incomplete.
fn read(file: File) -> io::Result<Option<Conversation>> {
    let mut found: Option<Conversation> = None;
    for line in BufReader::new(file).split(b'\n') {
        let Ok(record) = serde_json::from_slice::<Record>(&line?) else {
            continue;
        };
        let (by_user, text, at) = match record {
            Record::Session { id, cwd, at } => {
                found = NativeId::parse(&id).ok().map(|id| Conversation {
                    id,
                    cwd,
                    updated_at: at.parse().unwrap_or_default(),
                    messages: Vec::new(),
                });
                continue;
            }
            Record::User { text, at } => (true, text, at),
            Record::Agent { text, at } => (false, text, at),
        };
        if let Some(conversation) = &mut found {
            conversation.updated_at = at.parse().unwrap_or(conversation.updated_at);
            conversation.messages.push((by_user, text));
        }
    }
    Ok(found)
}
