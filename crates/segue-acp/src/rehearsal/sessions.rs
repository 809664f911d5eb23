//! Session files of the rehearsal agent: `ID.jsonl` with a header, and then one line per message.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use segue_core::id::NativeId;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::RehearsalEnvironment;

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum RehearsalRecord {
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
pub(super) struct RehearsalSession {
    pub(super) id: NativeId,
    pub(super) cwd: PathBuf,
    pub(super) updated_at: Timestamp,
    /// Messages: `true` if the user wrote it, and the text.
    pub(super) messages: Vec<(bool, String)>,
}

impl RehearsalSession {
    pub(super) fn prompts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.messages
            .iter()
            .filter(|(is_user, _)| *is_user)
            .map(|(_, text)| text.as_str())
    }
}

/// All sessions of the agent.
pub(super) struct RehearsalSessions {
    pub(super) environment: RehearsalEnvironment,
    cancellations: Mutex<HashMap<String, Arc<Notify>>>,
}

impl RehearsalSessions {
    pub(super) fn new(environment: RehearsalEnvironment) -> Self {
        Self {
            environment,
            cancellations: Mutex::default(),
        }
    }

    pub(super) fn create_session(&self, cwd: &Path) -> io::Result<NativeId> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.environment.sessions_dir)?;
        let id = (self.environment.new_id)();
        self.append_record(
            &id,
            &RehearsalRecord::Session {
                id: id.to_string(),
                cwd: cwd.to_owned(),
                at: self.format_now(),
            },
        )?;
        Ok(id)
    }

    pub(super) fn append_user_message(&self, id: &NativeId, text: &str) -> io::Result<()> {
        let (text, at) = (text.to_owned(), self.format_now());
        self.append_record(id, &RehearsalRecord::User { text, at })
    }

    pub(super) fn append_agent_message(&self, id: &NativeId, text: &str) -> io::Result<()> {
        let (text, at) = (text.to_owned(), self.format_now());
        self.append_record(id, &RehearsalRecord::Agent { text, at })
    }

    /// Reads the session with this id; `None` if it does not exist.
    pub(super) fn read_session(&self, id: &NativeId) -> io::Result<Option<RehearsalSession>> {
        match File::open(self.session_path(id)) {
            Ok(file) => read_session_file(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads all sessions, newest first.
    pub(super) fn list_sessions(&self) -> io::Result<Vec<RehearsalSession>> {
        let mut sessions = Vec::new();
        let entries = match fs::read_dir(&self.environment.sessions_dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(sessions),
            Err(error) => return Err(error),
        };
        for entry in entries {
            sessions.extend(read_session_file(File::open(entry?.path())?)?);
        }
        sessions.sort_by_key(|session| std::cmp::Reverse(session.updated_at));
        Ok(sessions)
    }

    /// Registers a turn. The returned [`Notify`] is notified when the turn is cancelled.
    pub(super) fn begin_turn(&self, id: &NativeId) -> Arc<Notify> {
        let cancellation = Arc::new(Notify::new());
        self.lock_cancellations()
            .insert(id.to_string(), Arc::clone(&cancellation));
        cancellation
    }

    pub(super) fn cancel_turn(&self, id: &str) {
        if let Some(cancellation) = self.lock_cancellations().get(id) {
            cancellation.notify_one();
        }
    }

    fn lock_cancellations(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.cancellations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn session_path(&self, id: &NativeId) -> PathBuf {
        self.environment.sessions_dir.join(format!("{id}.jsonl"))
    }

    fn format_now(&self) -> String {
        (self.environment.now)().to_string()
    }

    fn append_record(&self, id: &NativeId, record: &RehearsalRecord) -> io::Result<()> {
        let mut line = serde_json::to_string(record)?;
        line.push('\n');
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.session_path(id))?
            .write_all(line.as_bytes())
    }
}

/// Reads a session file. Skips a line that a kill left incomplete.
fn read_session_file(file: File) -> io::Result<Option<RehearsalSession>> {
    let mut parsed: Option<RehearsalSession> = None;
    for line in BufReader::new(file).split(b'\n') {
        let Ok(record) = serde_json::from_slice::<RehearsalRecord>(&line?) else {
            continue;
        };
        let (is_user, text, at) = match record {
            RehearsalRecord::Session { id, cwd, at } => {
                parsed = NativeId::parse(&id).ok().map(|id| RehearsalSession {
                    id,
                    cwd,
                    updated_at: at.parse().unwrap_or_default(),
                    messages: Vec::new(),
                });
                continue;
            }
            RehearsalRecord::User { text, at } => (true, text, at),
            RehearsalRecord::Agent { text, at } => (false, text, at),
        };
        if let Some(session) = &mut parsed {
            session.updated_at = at.parse().unwrap_or(session.updated_at);
            session.messages.push((is_user, text));
        }
    }
    Ok(parsed)
}
