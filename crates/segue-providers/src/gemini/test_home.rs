//! A home of Gemini CLI for tests, with Gemini CLI's actions simulated by the tests.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use segue_core::agent::PermissionPolicy;
use segue_core::id::NativeId;
use tokio::sync::watch;

use super::session_guard::SessionGuard;
use crate::{OpenRequest, SystemFns};

pub(super) const SESSION_ID: &str = "11111111-1111-4111-8111-111111111111";
pub(super) const OTHER_SESSION_ID: &str = "22222222-2222-4222-8222-222222222222";

pub(super) const SESSION_FILE: &str = "session-2026-11-16T03-30-11111111.jsonl";
pub(super) const TWIN_FILE: &str = "session-2026-11-16T03-31-11111111.jsonl";
pub(super) const OTHER_SESSION_FILE: &str = "session-2026-11-16T03-20-22222222.jsonl";
pub(super) const OTHER_TWIN_FILE: &str = "session-2026-11-16T03-25-22222222.jsonl";

pub(super) struct GuardTestHome {
    pub(super) temp_dir: tempfile::TempDir,
    pub(super) guard: Arc<SessionGuard>,
}

impl GuardTestHome {
    /// Creates a home with a project that has no sessions yet.
    pub(super) fn new(system: SystemFns) -> Self {
        let temp_dir = tempfile::tempdir().unwrap();
        let home = temp_dir.path().join("home");
        fs::create_dir_all(home.join("tmp/project/chats")).unwrap();
        fs::create_dir_all(temp_dir.path().join("project")).unwrap();
        let copies_root = temp_dir.path().join("copies");
        let test_home = Self {
            guard: Arc::new(SessionGuard::new(home, copies_root, system)),
            temp_dir,
        };
        let project = test_home.cwd().canonicalize().unwrap();
        test_home.write_projects(&serde_json::json!({project.to_str().unwrap(): "project"}));
        test_home
    }

    pub(super) fn write_projects(&self, projects: &serde_json::Value) {
        let json = serde_json::json!({"projects": projects});
        fs::write(self.home().join("projects.json"), json.to_string()).unwrap();
    }

    pub(super) fn home(&self) -> PathBuf {
        self.temp_dir.path().join("home")
    }

    pub(super) fn copies_root(&self) -> PathBuf {
        self.temp_dir.path().join("copies")
    }

    pub(super) fn cwd(&self) -> PathBuf {
        self.temp_dir.path().join("project")
    }

    /// Returns a request to resume the session [`SESSION_ID`].
    pub(super) fn open_request(&self) -> OpenRequest {
        OpenRequest {
            cwd: self.cwd(),
            native_id: Some(parse_id(SESSION_ID)),
            branch_point: None,
            strict: false,
            permissions: PermissionPolicy::Ask,
            role: None,
            model: None,
            mcp: Vec::new(),
            timeout: Duration::from_mins(1),
            process_sender: watch::channel(None).0,
        }
    }

    /// Returns the path of a session file.
    pub(super) fn session_path(&self, name: &str) -> PathBuf {
        self.home().join("tmp/project/chats").join(name)
    }

    pub(super) fn write_session(&self, name: &str, text: &str) {
        fs::write(self.session_path(name), text).unwrap();
    }

    pub(super) fn read_session(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.session_path(name)).ok()
    }

    pub(super) fn remove_sessions(&self, names: &[&str]) {
        for name in names {
            fs::remove_file(self.session_path(name)).unwrap();
        }
    }
}

pub(super) fn parse_id(text: &str) -> NativeId {
    NativeId::parse(text).unwrap()
}

/// Returns a file without messages.
pub(super) fn empty_session_text(id: &str) -> String {
    let context = r#"{"$set":{"messages":[{"id":"c","type":"user","content":[{"text":"<session_context>"}]}]}}"#;
    format!("{{\"sessionId\":\"{id}\",\"projectHash\":\"h\"}}\n{context}\n")
}

/// Returns a file with one turn.
pub(super) fn session_text(id: &str) -> String {
    format!("{}{}", empty_session_text(id), turn_text("first"))
}

/// Returns another turn.
pub(super) fn turn_text(text: &str) -> String {
    format!("{{\"id\":\"{text}\",\"type\":\"user\",\"content\":[{{\"text\":\"{text}\"}}]}}\n")
}
