//! Gemini CLI without its user interface: one process per turn, with the prompt on its standard input.

mod turn;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::{Capabilities, CapabilitySource, PermissionPolicy, ProcessIdentity};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{FailureClass, GuardAction, OpenMode};

use self::turn::GeminiTurn;
use super::session_guard::SessionGuard;
use crate::error_class::AgentRefusal;
use crate::provider::AgentProgram;
use crate::wire::prompt_text::escape_prompt;
use crate::wire::uuid;
use crate::{
    Agent, AgentConnection, AgentError, AgentHost, ConnectionEvent, OpenRequest, OpenedConnection,
    Probe, ProviderSettings,
};

/// Longest prompt in bytes that Gemini CLI reads; it silently drops the remainder.
const MAX_PROMPT_BYTES: usize = 8 * 1024 * 1024;

/// Format of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GeminiOutputFormat {
    /// A JSON line for each event.
    JsonLines,
    /// A single JSON object at the end.
    SingleObject,
}

impl GeminiOutputFormat {
    fn flag_value(self) -> &'static str {
        match self {
            Self::JsonLines => "stream-json",
            Self::SingleObject => "json",
        }
    }
}

/// Gemini CLI, started once per turn.
#[derive(Clone)]
pub(super) struct HeadlessAgent {
    program: AgentProgram,
    guard: Arc<SessionGuard>,
    format: GeminiOutputFormat,
    /// Path of an empty home, for a process that only reports its version.
    probe_home: PathBuf,
}

/// Kind of session that a turn belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionTarget {
    /// A session to be created with an id from segue.
    New,
    /// A session that exists.
    Existing,
}

impl HeadlessAgent {
    pub(super) fn new(
        program: &Path,
        settings: &ProviderSettings,
        host: &AgentHost,
        guard: Arc<SessionGuard>,
        format: GeminiOutputFormat,
    ) -> Self {
        let copies_root = host.agent_files_dir.join(super::GEMINI_COPIES_DIR);
        Self {
            program: AgentProgram {
                env: super::build_env(settings),
                ..AgentProgram::new(&super::GEMINI_PROVIDER, program, settings, host)
            },
            guard,
            format,
            probe_home: copies_root.join(format!(".nowhere-{}", format.flag_value())),
        }
    }

    fn build_args(
        &self,
        request: &OpenRequest,
        id: &NativeId,
        target: SessionTarget,
    ) -> Vec<OsString> {
        let configured = request.permitted_mode(self.program.mode.as_deref());
        let mode = configured.unwrap_or_else(|| approval_mode(request.permissions));
        let mut args = vec!["-o", self.format.flag_value(), "--approval-mode", mode];
        if let Some(model) = self.program.model(request) {
            args.extend(["-m", model]);
        }
        args.push(match target {
            SessionTarget::New => "--session-id",
            SessionTarget::Existing => "-r",
        });
        args.push(id.as_str());
        let args = args.into_iter().map(Into::into);
        args.chain(self.program.args.iter().cloned()).collect()
    }

    /// Returns the target of the next turn: `Existing` if Gemini CLI can resume the session, `None` if only empty files
    /// of it exist.
    fn find_target(&self, request: &OpenRequest, id: &NativeId) -> Option<SessionTarget> {
        let chats = self.guard.find_chats(&request.cwd);
        let files = chats.map_or_else(Vec::new, |chats| chats.read_session_files(id));
        if files.iter().any(|file| file.state.has_messages) {
            return Some(SessionTarget::Existing);
        }
        files.is_empty().then_some(SessionTarget::New)
    }
}

/// Returns Gemini CLI's approval mode for a policy. Without its user interface, Gemini CLI sends no permission
/// requests: it omits what would need one.
fn approval_mode(policy: PermissionPolicy) -> &'static str {
    match policy {
        PermissionPolicy::Ask | PermissionPolicy::AllowReads | PermissionPolicy::Deny => "default",
        PermissionPolicy::AllowEdits => "auto_edit",
        PermissionPolicy::AllowAll => "yolo",
    }
}

/// Returns the bytes to write to the standard input for a prompt, or a refusal if the prompt is too long.
fn encode_prompt(prompt: &str) -> Result<Vec<u8>, AgentRefusal> {
    let input = escape_prompt(prompt).into_owned().into_bytes();
    if input.len() > MAX_PROMPT_BYTES {
        let message = format!(
            "the prompt has {} bytes, but Gemini CLI reads at most {MAX_PROMPT_BYTES}; put the text into a file and \
             name the file in the prompt",
            input.len()
        );
        // Not `ContextTooLong`: the prompt does not affect the session, which can still be used.
        return Err(AgentRefusal::new(FailureClass::Agent, message));
    }
    Ok(input)
}

#[async_trait]
impl Agent for HeadlessAgent {
    fn provider(&self) -> &ProviderId {
        &self.program.id
    }

    /// Starts no process: [`AgentConnection::send_prompt`] starts one per turn.
    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        if !request.cwd.is_dir() {
            return Err(AgentError::DirectoryMissing(request.cwd.clone()));
        }
        let can_resume =
            |id: &&NativeId| self.find_target(request, id) == Some(SessionTarget::Existing);
        let (id, open_mode, fallback_reason) = match &request.native_id {
            Some(id) if can_resume(&id) => (id.clone(), OpenMode::Resumed, None),
            Some(id) => {
                let reason = format!("Gemini CLI session {id} not found in this directory");
                let refusal = AgentRefusal::new(FailureClass::SessionUnknown, reason);
                let reason = request.accept_new_session("resume", refusal)?;
                (
                    uuid::generate_v4(self.program.system.random),
                    OpenMode::Fresh,
                    Some(reason),
                )
            }
            None => (
                uuid::generate_v4(self.program.system.random),
                OpenMode::Fresh,
                None,
            ),
        };
        let connection = PerTurnConnection {
            agent: self.clone(),
            request: request.clone(),
            native_id: id,
            has_messages: open_mode == OpenMode::Resumed,
            turn: None,
        };
        Ok(OpenedConnection {
            fallback_reason,
            ..OpenedConnection::new(connection, open_mode)
        })
    }

    fn accepts_mcp_servers(&self) -> bool {
        false
    }

    /// Queries the version in an empty home, because every start of Gemini CLI writes to its home.
    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        let mut program = self.program.clone();
        let home = self.probe_home.clone().into_os_string();
        program.env.push(("GEMINI_CLI_HOME".into(), home));
        let version = program.query_version(timeout).await;
        // The files of the probe are no longer needed.
        let _ = fs::remove_dir_all(&self.probe_home);
        let version = version?;
        Ok(Probe {
            version: Some(version),
            capabilities: Capabilities {
                list: Some(CapabilitySource::Files),
                load: None,
                resume: Some(CapabilitySource::Flag),
                continue_last: Some(CapabilitySource::Flag),
                fork: None,
                delete: Some(CapabilitySource::Flag),
                cancel: Some(CapabilitySource::Protocol),
                modes: Some(CapabilitySource::Flag),
                models: Some(CapabilitySource::Flag),
                usage: Some(CapabilitySource::Protocol),
                mcp: None,
            },
        })
    }
}

/// A connection that starts one process per turn.
struct PerTurnConnection {
    agent: HeadlessAgent,
    request: OpenRequest,
    native_id: NativeId,
    /// Whether the session contains messages, so that a new session cannot replace it.
    has_messages: bool,
    /// Turn that is running.
    turn: Option<GeminiTurn>,
}

impl PerTurnConnection {
    /// Returns the target of the next turn, or a refusal if the session no longer exists.
    fn resolve_target(&mut self) -> Result<SessionTarget, AgentRefusal> {
        match (
            self.agent.find_target(&self.request, &self.native_id),
            self.has_messages,
        ) {
            (Some(SessionTarget::Existing), _) => Ok(SessionTarget::Existing),
            (Some(SessionTarget::New) | None, true) => {
                let message = format!(
                    "Gemini CLI session {} no longer exists in this directory",
                    self.native_id
                );
                Err(AgentRefusal::new(FailureClass::SessionUnknown, message))
            }
            (Some(SessionTarget::New), false) => Ok(SessionTarget::New),
            (None, false) => {
                // The session contains no messages, and its id cannot be used a second time.
                self.native_id = uuid::generate_v4(self.agent.program.system.random);
                Ok(SessionTarget::New)
            }
        }
    }
}

#[async_trait]
impl AgentConnection for PerTurnConnection {
    fn native_id(&self) -> Option<&NativeId> {
        Some(&self.native_id)
    }

    fn process_identity(&self) -> Option<ProcessIdentity> {
        self.turn.as_ref()?.process().identity()
    }

    async fn send_prompt(&mut self, prompt: &str) -> Result<(), AgentError> {
        let to_error = |refusal| AgentError::from_refusal("the prompt", refusal);
        let input = encode_prompt(prompt).map_err(to_error)?;
        let target = self.resolve_target().map_err(to_error)?;
        let args = self
            .agent
            .build_args(&self.request, &self.native_id, target);
        let program = self.agent.program.spec(&args, &self.request.cwd);
        let turn = GeminiTurn::start(&self.agent, &program, &self.request, &self.native_id, input)?;
        self.turn = Some(turn);
        Ok(())
    }

    async fn next_event(&mut self) -> ConnectionEvent {
        let event = match &mut self.turn {
            Some(turn) => turn.next_event().await,
            None => std::future::pending().await,
        };
        if matches!(event, ConnectionEvent::TurnEnded(_)) {
            self.turn = None;
            let target = self.agent.find_target(&self.request, &self.native_id);
            self.has_messages |= target == Some(SessionTarget::Existing);
        }
        event
    }

    fn accepts_mcp_servers(&self) -> bool {
        false
    }

    fn cancel(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.cancel();
        }
    }

    fn is_alive(&mut self) -> bool {
        true
    }

    async fn close(mut self: Box<Self>) -> Vec<GuardAction> {
        if let Some(turn) = self.turn.take() {
            turn.stop().await;
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
