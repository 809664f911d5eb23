//! Claude Code, driven over its JSON lines.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::{Capabilities, CapabilitySource, McpServer};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{FailureClass, OpenMode};
use serde_json::json;
use tokio::time::Instant;

use super::connection::ClaudeConnection;
use super::mcp_config::{self, McpConfigFile, SEGUE_MCP_SERVER_NAME};
use super::{tool_calls, turn_end};
use crate::error::HANDSHAKE_OPERATION;
use crate::error_class::{self, AgentRefusal};
use crate::provider::{AgentProgram, log_new_session_instead, select_transports};
use crate::wire::json_lines::{JsonLineProcess, OutputLine};
use crate::wire::uuid;
use crate::{
    AcpAgent, Agent, AgentError, AgentHost, BranchPoint, OpenRequest, OpenedConnection, Probe,
    Provider, ProviderSettings, Transport,
};

const BRANCH_OPERATION: &str = "--fork-session";

/// Permission mode in which Claude Code sends a request before it acts.
const DEFAULT_PERMISSION_MODE: &str = "default";

/// Creates the provider that drives Claude Code.
#[must_use]
pub fn claude_provider(settings: &ProviderSettings, host: &AgentHost) -> Provider {
    let mut transports = Vec::new();
    if let Some(program) = &settings.program {
        transports.push(Transport {
            name: "stream-json",
            agent: Arc::new(ClaudeAgent::new(program, settings, host)),
        });
    }
    if let Some(adapter) = settings.find_adapter(&super::CLAUDE_PROVIDER, host) {
        transports.push(Transport {
            name: "acp",
            agent: Arc::new(build_acp_agent(adapter, settings, host)),
        });
    }
    Provider::new(
        super::CLAUDE_PROVIDER.id(),
        select_transports(transports, &settings.transports),
        settings.defaults.clone(),
    )
}

fn build_acp_agent(adapter: PathBuf, settings: &ProviderSettings, host: &AgentHost) -> AcpAgent {
    AcpAgent {
        // The configured arguments are for Claude Code, and the adapter starts its own Claude Code.
        args: Vec::new(),
        usage_source: Some(CapabilitySource::Protocol),
        mode: Some(
            settings
                .mode
                .clone()
                .unwrap_or_else(|| DEFAULT_PERMISSION_MODE.to_owned()),
        ),
        ..AcpAgent::new(super::CLAUDE_PROVIDER.id(), adapter, settings, host)
    }
}

/// Claude Code, driven over JSON lines.
struct ClaudeAgent {
    program: AgentProgram,
    /// Directory for the files that segue writes for Claude Code.
    mcp_config_dir: PathBuf,
}

/// Native session that a process opens.
#[derive(Clone, Copy)]
enum ClaudeSessionStart<'a> {
    New(&'a NativeId),
    Resumed(&'a NativeId),
    /// A new native session that contains another one up to one of its records.
    Branched(ClaudeBranch<'a>),
}

/// A native session that branches off from another one.
#[derive(Clone, Copy)]
struct ClaudeBranch<'a> {
    id: &'a NativeId,
    source_id: &'a NativeId,
    last_record: &'a str,
}

impl ClaudeBranch<'_> {
    /// Returns the options of a branch. `--fork-session` leaves the other session unchanged.
    fn to_args(self) -> [String; 4] {
        [
            format!("--resume={}", self.source_id),
            "--fork-session".to_owned(),
            format!("--resume-session-at={}", self.last_record),
            format!("--session-id={}", self.id),
        ]
    }
}

impl ClaudeAgent {
    fn new(program: &Path, settings: &ProviderSettings, host: &AgentHost) -> Self {
        Self {
            program: AgentProgram::new(&super::CLAUDE_PROVIDER, program, settings, host),
            mcp_config_dir: host.agent_files_dir.clone(),
        }
    }

    /// Returns the command line. Joins values to their options, because some options consume all arguments that follow.
    fn build_args(
        &self,
        request: &OpenRequest,
        session_start: ClaudeSessionStart<'_>,
        mcp_config: Option<&Path>,
    ) -> Vec<OsString> {
        let mut args: Vec<String> = [
            "-p",
            "--input-format=stream-json",
            "--output-format=stream-json",
            "--verbose",
            "--include-partial-messages",
            "--replay-user-messages",
            "--permission-prompt-tool=stdio",
        ]
        .map(str::to_owned)
        .into();
        let mode = request
            .permitted_mode(self.program.mode.as_deref())
            .unwrap_or(DEFAULT_PERMISSION_MODE);
        args.push(format!("--permission-mode={mode}"));
        match session_start {
            ClaudeSessionStart::New(id) => args.push(format!("--session-id={id}")),
            ClaudeSessionStart::Resumed(id) => args.push(format!("--resume={id}")),
            ClaudeSessionStart::Branched(branch) => args.extend(branch.to_args()),
        }
        if let Some(model) = self.program.model(request) {
            args.push(format!("--model={model}"));
        }
        if let Some(path) = mcp_config {
            args.push(format!("--mcp-config={}", path.display()));
        }
        if request
            .mcp
            .iter()
            .any(|server| server.name == SEGUE_MCP_SERVER_NAME)
        {
            args.push(format!("--allowedTools=mcp__{SEGUE_MCP_SERVER_NAME}"));
        }
        if let Some(disallowed) = request.role.as_ref().and_then(tool_calls::disallowed_tools) {
            args.push(format!("--disallowedTools={disallowed}"));
        }
        let args = args.into_iter().map(OsString::from);
        args.chain(self.program.args.iter().cloned()).collect()
    }

    /// Starts a process and completes the handshake. Fails if the session to resume is unknown, because the process
    /// then exits.
    async fn start_process(
        &self,
        request: &OpenRequest,
        session_start: ClaudeSessionStart<'_>,
    ) -> Result<JsonLineProcess, AgentError> {
        let mcp_config = self
            .write_mcp_config(&request.mcp)
            .map_err(|source| AgentError::not_started(&self.program.path, source))?;
        let args = self.build_args(
            request,
            session_start,
            mcp_config.as_ref().map(McpConfigFile::path),
        );
        let program = self.program.spec(&args, &request.cwd);
        let mut wire = JsonLineProcess::start(&self.program.leash, &program, request)?;
        match complete_handshake(&mut wire, request.timeout).await {
            Ok(()) => Ok(wire),
            Err(error) => {
                wire.stop().await;
                Err(error)
            }
        }
    }

    /// Writes the MCP servers to a file for the program. The command line is unsuitable, because every user of the
    /// machine can read it.
    fn write_mcp_config(&self, servers: &[McpServer]) -> io::Result<Option<McpConfigFile>> {
        if servers.is_empty() {
            return Ok(None);
        }
        let name = format!("mcp-{}.json", uuid::generate_v4(self.program.system.random));
        let config = mcp_config::build_mcp_config(servers).to_string();
        McpConfigFile::create(self.mcp_config_dir.join(name), &config).map(Some)
    }

    async fn resume(
        &self,
        request: &OpenRequest,
        id: &NativeId,
    ) -> Result<JsonLineProcess, AgentError> {
        // Claude Code takes any other text for a title.
        if !uuid::is_uuid(id.as_str()) {
            let text = format!("{id} is not a Claude Code session id");
            return Err(AgentError::from_refusal(
                "--resume",
                AgentRefusal::new(FailureClass::SessionUnknown, text),
            ));
        }
        match self
            .start_process(request, ClaudeSessionStart::Resumed(id))
            .await
        {
            Err(error) if error.class() == FailureClass::SessionUnknown => Err(
                AgentError::from_refusal("--resume", unknown_session_refusal(error)),
            ),
            outcome => outcome,
        }
    }
}

impl ClaudeAgent {
    /// Starts a native session that contains another one up to a point. Fails with a refusal if Claude Code cannot do so.
    async fn open_branch(
        &self,
        request: &OpenRequest,
        point: &BranchPoint,
    ) -> Result<OpenedConnection, AgentError> {
        let source_id = &point.native_id;
        let record = point.last_record_id.as_deref().unwrap_or("");
        if ![source_id.as_str(), record].into_iter().all(uuid::is_uuid) {
            let reason =
                format!("the branch point does not exist in Claude Code session {source_id}");
            let refusal = AgentRefusal::new(FailureClass::SessionUnknown, reason);
            return Err(AgentError::from_refusal(BRANCH_OPERATION, refusal));
        }
        let id = uuid::generate_v4(self.program.system.random);
        let branch = ClaudeBranch {
            id: &id,
            source_id,
            last_record: record,
        };
        match self
            .start_process(request, ClaudeSessionStart::Branched(branch))
            .await
        {
            Ok(wire) => Ok(OpenedConnection::new(
                ClaudeConnection::new(wire, id, self.program.system),
                OpenMode::Resumed,
            )),
            // The session, the record or the option is unknown to this Claude Code.
            Err(error @ (AgentError::Refused { .. } | AgentError::Crashed { .. })) => Err(
                AgentError::from_refusal(BRANCH_OPERATION, unknown_session_refusal(error)),
            ),
            Err(error) => Err(error),
        }
    }
}

/// Waits until the program has answered the handshake. Any answer shows that it speaks this protocol.
async fn complete_handshake(
    wire: &mut JsonLineProcess,
    timeout: Duration,
) -> Result<(), AgentError> {
    const INITIALIZE_REQUEST_ID: &str = "segue-initialize";
    wire.send(&json!({
        "type": "control_request",
        "request_id": INITIALIZE_REQUEST_ID,
        "request": {"subtype": "initialize", "hooks": null},
    }));
    let deadline = Instant::now() + timeout;
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let OutputLine::Json(line) = wire
            .next_line_within(remaining, HANDSHAKE_OPERATION)
            .await?
        else {
            continue;
        };
        if line["type"] == "control_response"
            && line["response"]["request_id"] == INITIALIZE_REQUEST_ID
        {
            return Ok(());
        }
        // Before the first prompt, a result can only mean that the session cannot start.
        if line["type"] == "result" {
            return Err(AgentError::Refused {
                operation: HANDSHAKE_OPERATION,
                refusal: error_class::classify_error(None, &turn_end::result_text(&line)),
                stderr: wire.process().stderr(),
            });
        }
    }
}

/// Converts an error about an unknown session to a refusal.
fn unknown_session_refusal(error: AgentError) -> AgentRefusal {
    let text = match error {
        AgentError::Refused { refusal, .. } => refusal.message,
        AgentError::Crashed { stderr, .. } => stderr.trim().to_owned(),
        other => other.to_string(),
    };
    AgentRefusal::new(FailureClass::SessionUnknown, text)
}

#[async_trait]
impl Agent for ClaudeAgent {
    fn provider(&self) -> &ProviderId {
        &self.program.id
    }

    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        let mut fallback_reason = None;
        if let Some(id) = &request.native_id {
            match self.resume(request, id).await {
                Ok(wire) => {
                    let connection = ClaudeConnection::new(wire, id.clone(), self.program.system);
                    return Ok(OpenedConnection::new(connection, OpenMode::Resumed));
                }
                Err(error) if !request.strict && error.class() == FailureClass::SessionUnknown => {
                    log_new_session_instead(error.class());
                    fallback_reason = Some(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(point) = &request.branch_point {
            match self.open_branch(request, point).await {
                Ok(opened) => return Ok(opened),
                Err(AgentError::Refused { refusal, .. }) => {
                    fallback_reason = Some(request.accept_new_session(BRANCH_OPERATION, refusal)?);
                }
                Err(error) => return Err(error),
            }
        }
        let id = uuid::generate_v4(self.program.system.random);
        let wire = self
            .start_process(request, ClaudeSessionStart::New(&id))
            .await?;
        Ok(OpenedConnection {
            fallback_reason,
            ..OpenedConnection::new(
                ClaudeConnection::new(wire, id, self.program.system),
                OpenMode::Fresh,
            )
        })
    }

    fn can_branch(&self) -> bool {
        true
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        let version_output = self.program.query_version(timeout).await?;
        Ok(Probe {
            // `2.1.325 (Claude Code)`
            version: version_output.split_whitespace().next().map(str::to_owned),
            capabilities: Capabilities {
                list: Some(CapabilitySource::Files),
                load: None,
                resume: Some(CapabilitySource::Flag),
                continue_last: Some(CapabilitySource::Flag),
                fork: Some(CapabilitySource::Flag),
                delete: None,
                cancel: Some(CapabilitySource::Protocol),
                modes: Some(CapabilitySource::Protocol),
                models: Some(CapabilitySource::Flag),
                usage: Some(CapabilitySource::Protocol),
                mcp: Some(CapabilitySource::Flag),
            },
        })
    }
}

#[cfg(test)]
mod tests;
