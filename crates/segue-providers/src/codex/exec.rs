//! Codex by `codex exec`: one process per turn, which reports in JSON what it did and cannot send permission requests.

mod stream;

use std::ffi::OsString;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::{Capabilities, CapabilitySource, PermissionPolicy, ProcessIdentity};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{AgentEvent, FailureClass, GuardAction, OpenMode, StopReason, TurnEnd};
use serde_json::Value;
use tokio::time::Instant;

use self::stream::{ExecEvent, ExecStream};
use super::driver::{
    APP_SERVER_CAPABILITIES, load_resumable_rollout, probe_program, read_config,
    unknown_thread_error, unknown_thread_refusal,
};
use super::executable::CodexVersion;
use super::rollout::Rollout;
use super::usage::{CodexUsageMeter, ContextFill};
use super::{config_overrides, folder_trust};
use crate::error_class::AgentRefusal;
use crate::process::ProgramSpec;
use crate::provider::AgentProgram;
use crate::wire::json_lines::{JsonLineProcess, OutputLine};
use crate::{
    Agent, AgentConnection, AgentError, ConnectionEvent, OpenRequest, OpenedConnection, Probe,
};

const PROMPT_OPERATION: &str = "the prompt";
const RESUME_OPERATION: &str = "exec resume";

/// Time in which Codex may exit after it has reported the end of the turn.
const EXIT_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Codex, driven by `exec`.
pub(super) struct ExecAgent {
    codex: AgentProgram,
}

impl ExecAgent {
    pub(super) fn new(codex: AgentProgram) -> Self {
        Self { codex }
    }

    /// Returns the files of the thread to resume, or the reason why it cannot be resumed.
    async fn load_rollout(&self, id: &NativeId, timeout: Duration) -> Result<Rollout, String> {
        let version = async {
            let version_output = self.codex.query_version(timeout).await;
            CodexVersion::find(&version_output.ok()?)
        };
        let rollout = load_resumable_rollout(&self.codex.home, id, version).await?;
        rollout.ok_or_else(|| format!("Codex thread {id} not found"))
    }
}

#[async_trait]
impl Agent for ExecAgent {
    fn provider(&self) -> &ProviderId {
        &self.codex.id
    }

    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        if !self.codex.path.is_file() {
            let source = std::io::Error::other("program not found");
            return Err(AgentError::not_started(&self.codex.path, source));
        }
        if !request.cwd.is_dir() {
            return Err(AgentError::DirectoryMissing(request.cwd.clone()));
        }
        let mut fallback_reason = None;
        let (mut thread_id, mut meter) = (None, CodexUsageMeter::for_new_thread());
        if let Some(id) = &request.native_id {
            match self.load_rollout(id, request.timeout).await {
                Ok(rollout) => {
                    thread_id = Some(id.clone());
                    meter = CodexUsageMeter::with_thread_total(rollout.total_tokens);
                }
                Err(reason) => {
                    let refusal = unknown_thread_refusal(reason);
                    fallback_reason = Some(request.accept_new_session(RESUME_OPERATION, refusal)?);
                }
            }
        }
        let open_mode = match thread_id {
            Some(_) => OpenMode::Resumed,
            None => OpenMode::Fresh,
        };
        let connection = ExecConnection {
            codex: self.codex.clone(),
            request: request.clone(),
            thread_id,
            meter,
            wire: None,
            stream: ExecStream::default(),
            reported_end: None,
        };
        Ok(OpenedConnection {
            fallback_reason,
            guard_actions: config_overrides::build_mcp_overrides(&request.mcp).omitted,
            ..OpenedConnection::new(connection, open_mode)
        })
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        let capabilities = Capabilities {
            resume: Some(CapabilitySource::Flag),
            continue_last: Some(CapabilitySource::Flag),
            fork: Some(CapabilitySource::Flag),
            delete: Some(CapabilitySource::Flag),
            cancel: Some(CapabilitySource::Flag),
            modes: Some(CapabilitySource::Flag),
            models: Some(CapabilitySource::Flag),
            mcp: Some(CapabilitySource::Flag),
            ..APP_SERVER_CAPABILITIES
        };
        probe_program(&self.codex, capabilities, timeout).await
    }
}

/// Returns the sandbox that permits what the policy allows, because `exec` cannot ask.
fn sandbox_for_policy(policy: PermissionPolicy) -> &'static str {
    match policy {
        PermissionPolicy::Ask | PermissionPolicy::AllowReads | PermissionPolicy::Deny => {
            "read-only"
        }
        PermissionPolicy::AllowEdits => "workspace-write",
        PermissionPolicy::AllowAll => "danger-full-access",
    }
}

/// Returns the arguments of a run. The prompt is sent over standard input, so that Codex cannot take it for an
/// argument.
fn build_args(
    codex: &AgentProgram,
    request: &OpenRequest,
    thread_id: Option<&NativeId>,
    config: &str,
) -> Vec<OsString> {
    let mut args = codex.args.clone();
    let mut push = |values: &[&str]| args.extend(values.iter().map(OsString::from));
    let sandbox = request.permitted_mode(codex.mode.as_deref());
    let sandbox = sandbox.unwrap_or_else(|| sandbox_for_policy(request.permissions));
    push(&["exec", "--json", "--sandbox", sandbox]);
    push(&["-c", "approval_policy=\"never\""]);
    if let Some(model) = codex.model(request) {
        push(&["--model", model]);
    }
    for (name, server) in config_overrides::build_mcp_overrides(&request.mcp).config {
        let setting = format!(
            "mcp_servers.{name}={}",
            config_overrides::render_toml(&server)
        );
        push(&["-c", &setting]);
    }
    let untrusted_project = (sandbox != "read-only")
        .then(|| folder_trust::untrusted_project_config(&request.cwd, config));
    if let Some(projects) = untrusted_project.flatten() {
        push(&[
            "-c",
            &format!("projects={}", config_overrides::render_toml(&projects)),
        ]);
    }
    if let Some(thread_id) = thread_id {
        push(&["resume", thread_id.as_str()]);
    }
    push(&["-"]);
    args
}

/// A connection that starts one process per turn.
struct ExecConnection {
    codex: AgentProgram,
    request: OpenRequest,
    thread_id: Option<NativeId>,
    meter: CodexUsageMeter,
    /// Process of the current turn, or of the last one.
    wire: Option<JsonLineProcess>,
    stream: ExecStream,
    /// Outcome of the turn, and the time until which the process may exit.
    reported_end: Option<(Result<(), AgentRefusal>, Instant)>,
}

impl ExecConnection {
    /// Converts one line of the program.
    fn handle_message(&mut self, message: &Value) -> Option<ConnectionEvent> {
        match self.stream.convert_line(message)? {
            ExecEvent::ThreadStarted(id) => self.set_thread_id(&id),
            ExecEvent::Event(event) => Some(ConnectionEvent::Event(event)),
            ExecEvent::TurnEnded(outcome) => {
                if let Ok(Some(total)) = outcome {
                    self.meter.update_total(total, None, ContextFill::default());
                }
                let outcome = outcome.map(drop);
                self.reported_end = Some((outcome, Instant::now() + EXIT_GRACE_PERIOD));
                None
            }
        }
    }

    fn set_thread_id(&mut self, id: &str) -> Option<ConnectionEvent> {
        let fail = |reason: String| {
            Some(ConnectionEvent::TurnEnded(Err(unknown_thread_error(
                RESUME_OPERATION,
                reason,
            ))))
        };
        let id = match NativeId::parse(id) {
            Ok(id) => id,
            Err(error) => return fail(error.to_string()),
        };
        match &self.thread_id {
            None => {
                self.thread_id = Some(id.clone());
                Some(ConnectionEvent::NativeIdReported(id))
            }
            Some(thread_id) if *thread_id == id => None,
            Some(thread_id) => {
                let reason = format!("Codex started thread {id} instead of resuming {thread_id}");
                self.cancel();
                fail(reason)
            }
        }
    }

    /// Returns the end of a turn that the program reported, with the context usage that only the thread's files
    /// contain.
    async fn finish_turn(&mut self, outcome: Result<(), AgentRefusal>) -> ConnectionEvent {
        if let Err(refusal) = outcome {
            return ConnectionEvent::TurnEnded(Err(AgentError::from_refusal(
                PROMPT_OPERATION,
                refusal,
            )));
        }
        if let Some(thread_id) = &self.thread_id
            && let Some(rollout) = Rollout::load(&self.codex.home, thread_id).await
        {
            self.meter.set_context(rollout.context);
        }
        ConnectionEvent::TurnEnded(Ok(TurnEnd {
            reason: StopReason::EndTurn,
            usage: self.meter.turn_usage(),
        }))
    }

    /// Returns the next line of the program; `None` once it has ended or its time to exit is over.
    async fn next_line(&mut self) -> Option<OutputLine> {
        let wire = self.wire.as_mut()?;
        match &self.reported_end {
            None => wire.next_line().await,
            Some((_, deadline)) => tokio::time::timeout_at(*deadline, wire.next_line())
                .await
                .ok()
                .flatten(),
        }
    }

    /// Returns the error for a program that exited without reporting the end of the turn.
    async fn exit_error(&mut self) -> AgentError {
        let Some(wire) = &mut self.wire else {
            return unknown_thread_error(PROMPT_OPERATION, "no prompt was sent");
        };
        let error = wire.exit_error(PROMPT_OPERATION).await;
        match (error.class(), error) {
            (FailureClass::UntrustedFolder, AgentError::Crashed { stderr, .. }) => {
                let message = format!(
                    "{stderr} (`codex exec` requires a git repository: run `git init`, or use the `app-server` \
                     transport)"
                );
                let refusal = AgentRefusal::new(FailureClass::UntrustedFolder, message);
                AgentError::from_refusal(PROMPT_OPERATION, refusal)
            }
            (_, error) => error,
        }
    }
}

#[async_trait]
impl AgentConnection for ExecConnection {
    fn native_id(&self) -> Option<&NativeId> {
        self.thread_id.as_ref()
    }

    fn process_identity(&self) -> Option<ProcessIdentity> {
        self.wire.as_ref()?.process().identity()
    }

    async fn send_prompt(&mut self, prompt: &str) -> Result<(), AgentError> {
        if let Some(previous) = self.wire.take() {
            previous.stop().await;
        }
        let config = read_config(&self.codex.home);
        let args = build_args(&self.codex, &self.request, self.thread_id.as_ref(), &config);
        let mcp_overrides = config_overrides::build_mcp_overrides(&self.request.mcp);
        let secrets = mcp_overrides.env.into_iter();
        let secrets = secrets.map(|(name, value)| (name.into(), value.into()));
        let env: Vec<(OsString, OsString)> =
            self.codex.env.iter().cloned().chain(secrets).collect();
        let program = ProgramSpec {
            path: &self.codex.path,
            args: &args,
            env: &env,
            cwd: &self.request.cwd,
        };
        let mut wire = JsonLineProcess::start(&self.codex.leash, &program, &self.request)?;
        wire.send_bytes(prompt.as_bytes().to_vec());
        wire.close_input();
        self.wire = Some(wire);
        self.stream = ExecStream::default();
        self.reported_end = None;
        self.meter.begin_turn();
        Ok(())
    }

    async fn next_event(&mut self) -> ConnectionEvent {
        loop {
            match self.next_line().await {
                Some(OutputLine::Json(message)) => {
                    if let Some(event) = self.handle_message(&message) {
                        return event;
                    }
                }
                Some(OutputLine::Noise(text)) => {
                    return ConnectionEvent::Event(AgentEvent::Garbage(text));
                }
                None => {
                    return match self.reported_end.clone() {
                        Some((outcome, _)) => self.finish_turn(outcome).await,
                        None => ConnectionEvent::TurnEnded(Err(self.exit_error().await)),
                    };
                }
            }
        }
    }

    fn cancel(&mut self) {
        if let Some(wire) = &self.wire {
            wire.process().terminate();
        }
    }

    fn is_alive(&mut self) -> bool {
        true
    }

    async fn close(self: Box<Self>) -> Vec<GuardAction> {
        if let Some(wire) = self.wire {
            wire.stop().await;
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
