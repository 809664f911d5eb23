//! A home of Gemini CLI for tests, with Gemini CLI's actions simulated by the tests.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use segue_core::agent::PermissionPolicy;
use segue_core::id::NativeId;
use tokio::sync::watch;

use super::keep::Keep;
use crate::{OpenRequest, Outside};

pub(super) const ID: &str = "11111111-1111-4111-8111-111111111111";
pub(super) const OTHER: &str = "22222222-2222-4222-8222-222222222222";

pub(super) const FIRST: &str = "session-2026-11-16T03-30-11111111.jsonl";
pub(super) const TWIN: &str = "session-2026-11-16T03-31-11111111.jsonl";
pub(super) const OTHERS: &str = "session-2026-11-16T03-20-22222222.jsonl";
pub(super) const OTHERS_TWIN: &str = "session-2026-11-16T03-25-22222222.jsonl";

pub(super) struct World {
    pub(super) directory: tempfile::TempDir,
    pub(super) keep: Arc<Keep>,
}

impl World {
    /// Creates a home with a project that has no sessions yet.
    pub(super) fn new(outside: Outside) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        fs::create_dir_all(home.join("tmp/project/chats")).unwrap();
        fs::create_dir_all(directory.path().join("project")).unwrap();
        let kept = directory.path().join("kept");
        let world = Self {
            keep: Arc::new(Keep::new(home, kept, outside)),
            directory,
        };
        let project = world.cwd().canonicalize().unwrap();
        world.list_projects(&serde_json::json!({project.to_str().unwrap(): "project"}));
        world
    }

    pub(super) fn list_projects(&self, projects: &serde_json::Value) {
        let list = serde_json::json!({"projects": projects});
        fs::write(self.home().join("projects.json"), list.to_string()).unwrap();
    }

    pub(super) fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    pub(super) fn kept(&self) -> PathBuf {
        self.directory.path().join("kept")
    }

    pub(super) fn cwd(&self) -> PathBuf {
        self.directory.path().join("project")
    }

    /// Returns a request to resume the session [`ID`].
    pub(super) fn request(&self) -> OpenRequest {
        OpenRequest {
            cwd: self.cwd(),
            native_id: Some(id(ID)),
            from: None,
            strict: false,
            permissions: PermissionPolicy::Ask,
            role: None,
            model: None,
            mcp: Vec::new(),
            timeout: Duration::from_mins(1),
            started: watch::channel(None).0,
        }
    }

    /// Returns the path of a session file.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.home().join("tmp/project/chats").join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    pub(super) fn remove(&self, names: &[&str]) {
        for name in names {
            fs::remove_file(self.path(name)).unwrap();
        }
    }
}

pub(super) fn id(text: &str) -> NativeId {
    NativeId::parse(text).unwrap()
}

/// Returns a file without messages.
pub(super) fn empty(id: &str) -> String {
    let context = r#"{"$set":{"messages":[{"id":"c","type":"user","content":[{"text":"<session_context>"}]}]}}"#;
    format!("{{\"sessionId\":\"{id}\",\"projectHash\":\"h\"}}\n{context}\n")
}

/// Returns a file with one turn.
pub(super) fn session(id: &str) -> String {
    format!("{}{}", empty(id), said("first"))
}

/// Returns another turn.
pub(super) fn said(text: &str) -> String {
    format!("{{\"id\":\"{text}\",\"type\":\"user\",\"content\":[{{\"text\":\"{text}\"}}]}}\n")
}
