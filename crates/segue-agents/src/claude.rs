//! Claude Code, driven by one process per connection over its JSON lines, or else through an ACP adapter.

mod ask;
mod conversation;
mod end;
mod mcp;
mod retold;
mod tools;
mod turn;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::{Capabilities, How, McpServer};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{FailureClass, Opened};
use serde_json::json;
use tokio::time::Instant;

use crate::classify::{self, Refusal};
use crate::error::GREETING;
use crate::process::{Leash, Program};
use crate::provider::chosen;
use crate::wire::{Line, Wire};
use crate::{
    AcpAgent, Agent, AgentError, Host, NativePoint, OpenRequest, Opening, Outside, Probe, Provider,
    Settings, Way, known, uuid,
};
use conversation::ClaudeConversation;
use mcp::{Handed, OWN_TOOLS};

/// ACP adapters for Claude Code, the newer one first.
const ADAPTERS: [&str; 2] = ["claude-agent-acp", "claude-code-acp"];

/// Permission mode in which Claude Code sends a request before it acts.
const ASKING: &str = "default";

/// Creates the provider that drives Claude Code.
#[must_use]
pub fn claude(settings: &Settings, host: &Host) -> Provider {
    let mut all = Vec::new();
    if let Some(program) = &settings.program {
        all.push(Way {
            name: "stream-json",
            agent: Arc::new(ClaudeAgent::new(program.clone(), settings, host)),
        });
    }
    let found = || {
        ADAPTERS
            .iter()
            .find_map(|name| known::find(name, &host.path))
    };
    if let Some(adapter) = settings.adapter.clone().or_else(found) {
        all.push(Way {
            name: "acp",
            agent: Arc::new(adapted(adapter, settings, host)),
        });
    }
    Provider::new(
        ProviderId::claude(),
        chosen(all, &settings.transports),
        settings.defaults.clone(),
    )
}

fn adapted(adapter: PathBuf, settings: &Settings, host: &Host) -> AcpAgent {
    AcpAgent {
        // The configured arguments are for Claude Code, and the adapter starts its own Claude Code.
        args: Vec::new(),
        usage: Some(How::Protocol),
        mode: Some(settings.mode.clone().unwrap_or_else(|| ASKING.to_owned())),
        ..AcpAgent::new(ProviderId::claude(), adapter, settings, host)
    }
}

/// Claude Code, driven over JSON lines.
struct ClaudeAgent {
    id: ProviderId,
    program: PathBuf,
    model: Option<String>,
    mode: String,
    args: Vec<String>,
    env: Vec<(OsString, OsString)>,
    leash: Leash,
    outside: Outside,
    /// Directory for the files that segue writes for Claude Code.
    kept: PathBuf,
}

/// Native session that a process opens.
#[derive(Clone, Copy)]
enum Start<'a> {
    New(&'a NativeId),
    GoOn(&'a NativeId),
    /// A new native session that contains another one up to one of its records.
    Branch(Branch<'a>),
}

/// A native session that branches off from another one.
#[derive(Clone, Copy)]
struct Branch<'a> {
    id: &'a NativeId,
    of: &'a NativeId,
    until: &'a str,
}

impl Branch<'_> {
    /// Returns the options of a branch. `--fork-session` leaves the other session unchanged.
    fn arguments(&self) -> [String; 4] {
        [
            format!("--resume={}", self.of),
            "--fork-session".to_owned(),
            format!("--resume-session-at={}", self.until),
            format!("--session-id={}", self.id),
        ]
    }
}

impl ClaudeAgent {
    fn new(program: PathBuf, settings: &Settings, host: &Host) -> Self {
        let env = settings.env.iter();
        Self {
            id: ProviderId::claude(),
            program,
            model: settings.model.clone(),
            mode: settings.mode.clone().unwrap_or_else(|| ASKING.to_owned()),
            args: settings.args.clone(),
            env: env
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            leash: host.leash.clone(),
            outside: host.outside,
            kept: host.kept.clone(),
        }
    }

    /// Returns the command line. Joins values to their options, because some options consume all arguments that follow.
    fn arguments(
        &self,
        request: &OpenRequest,
        start: Start<'_>,
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
        let mode = request.mode(Some(&self.mode)).unwrap_or(ASKING);
        args.push(format!("--permission-mode={mode}"));
        match start {
            Start::New(id) => args.push(format!("--session-id={id}")),
            Start::GoOn(id) => args.push(format!("--resume={id}")),
            Start::Branch(branch) => args.extend(branch.arguments()),
        }
        if let Some(model) = request.model.as_ref().or(self.model.as_ref()) {
            args.push(format!("--model={model}"));
        }
        if let Some(path) = mcp_config {
            args.push(format!("--mcp-config={}", path.display()));
        }
        if request.mcp.iter().any(|server| server.name == OWN_TOOLS) {
            args.push(format!("--allowedTools=mcp__{OWN_TOOLS}"));
        }
        if let Some(denied) = request.role.as_ref().and_then(tools::denied) {
            args.push(format!("--disallowedTools={denied}"));
        }
        args.extend(self.args.iter().cloned());
        args.into_iter().map(OsString::from).collect()
    }

    /// Starts a process and completes the handshake. Fails if the session to resume is unknown, because the process
    /// then exits.
    async fn start(&self, request: &OpenRequest, start: Start<'_>) -> Result<Wire, AgentError> {
        let tools = self
            .hand_over(&request.mcp)
            .map_err(|source| AgentError::NotStarted {
                program: self.program.display().to_string(),
                source,
            })?;
        let args = self.arguments(request, start, tools.as_ref().map(Handed::path));
        let program = Program {
            path: &self.program,
            args: &args,
            env: &self.env,
            cwd: &request.cwd,
        };
        let mut wire = Wire::start(&self.leash, &program, request)?;
        match greet(&mut wire, request.timeout).await {
            Ok(()) => Ok(wire),
            Err(error) => {
                wire.stop().await;
                Err(error)
            }
        }
    }

    /// Writes the MCP servers to a file for the program. The command line is unsuitable, because every user of the
    /// machine can read it.
    fn hand_over(&self, servers: &[McpServer]) -> io::Result<Option<Handed>> {
        if servers.is_empty() {
            return Ok(None);
        }
        let name = format!("mcp-{}.json", uuid::v4(self.outside.random));
        let config = mcp::config(servers).to_string();
        Handed::write(self.kept.join(name), &config).map(Some)
    }

    async fn go_on(&self, request: &OpenRequest, id: &NativeId) -> Result<Wire, AgentError> {
        // Claude Code takes any other text for a title.
        if !uuid::is_one(id.as_str()) {
            let text = format!("{id} is not an id of Claude Code");
            return Err(AgentError::refused(
                "--resume",
                Refusal::new(FailureClass::SessionUnknown, text),
            ));
        }
        match self.start(request, Start::GoOn(id)).await {
            Err(error) if error.class() == FailureClass::SessionUnknown => {
                Err(AgentError::refused("--resume", unknown(error)))
            }
            outcome => outcome,
        }
    }
}

impl ClaudeAgent {
    /// Starts a native session that contains another one up to a point. `Ok(Err)` contains the reason if Claude Code
    /// cannot do so.
    async fn branch(
        &self,
        request: &OpenRequest,
        point: &NativePoint,
    ) -> Result<Result<Opening, Refusal>, AgentError> {
        let no = |why: String| Ok(Err(Refusal::new(FailureClass::SessionUnknown, why)));
        let known = [point.id.as_str(), point.record.as_deref().unwrap_or("")];
        let (true, Some(until)) = (known.into_iter().all(uuid::is_one), &point.record) else {
            return no(format!("Claude Code has no such place in {}", point.id));
        };
        let id = uuid::v4(self.outside.random);
        let branch = Branch {
            id: &id,
            of: &point.id,
            until,
        };
        match self.start(request, Start::Branch(branch)).await {
            Ok(wire) => {
                let conversation = ClaudeConversation::new(wire, id, self.outside);
                Ok(Ok(Opening::new(conversation, Opened::Resumed)))
            }
            // The session, the record or the option is unknown to this Claude Code.
            Err(error @ (AgentError::Refused { .. } | AgentError::Crashed { .. })) => {
                no(unknown(error).message)
            }
            Err(error) => Err(error),
        }
    }
}

/// Waits until the program has answered the handshake. Any answer shows that it speaks this protocol.
async fn greet(wire: &mut Wire, timeout: Duration) -> Result<(), AgentError> {
    const ID: &str = "segue-initialize";
    wire.send(&json!({
        "type": "control_request",
        "request_id": ID,
        "request": {"subtype": "initialize", "hooks": null},
    }));
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let Line::Json(line) = wire.next_in(left, GREETING).await? else {
            continue;
        };
        if line["type"] == "control_response" && line["response"]["request_id"] == ID {
            return Ok(());
        }
        // Before the first prompt, a result can only mean that the session cannot start.
        if line["type"] == "result" {
            return Err(AgentError::Refused {
                doing: GREETING,
                refusal: classify::answer(None, &end::words(&line)),
                stderr: wire.process().stderr(),
            });
        }
    }
}

/// Converts an error about an unknown session to a refusal.
fn unknown(error: AgentError) -> Refusal {
    let text = match error {
        AgentError::Refused { refusal, .. } => refusal.message,
        AgentError::Crashed { stderr, .. } => stderr.trim().to_owned(),
        other => other.to_string(),
    };
    Refusal::new(FailureClass::SessionUnknown, text)
}

#[async_trait]
impl Agent for ClaudeAgent {
    fn provider(&self) -> &ProviderId {
        &self.id
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        let mut why_not = None;
        if let Some(id) = &request.native_id {
            match self.go_on(request, id).await {
                Ok(wire) => {
                    let conversation = ClaudeConversation::new(wire, id.clone(), self.outside);
                    return Ok(Opening::new(conversation, Opened::Resumed));
                }
                Err(error) if !request.strict && error.class() == FailureClass::SessionUnknown => {
                    why_not = Some(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(point) = &request.from {
            match self.branch(request, point).await? {
                Ok(opening) => return Ok(opening),
                Err(refusal) if request.strict => {
                    return Err(AgentError::refused("--fork-session", refusal));
                }
                Err(refusal) => why_not = Some(refusal.message),
            }
        }
        let id = uuid::v4(self.outside.random);
        let wire = self.start(request, Start::New(&id)).await?;
        Ok(Opening {
            why_not,
            ..Opening::new(
                ClaudeConversation::new(wire, id, self.outside),
                Opened::Fresh,
            )
        })
    }

    fn branches(&self) -> bool {
        true
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        let said = known::version(&self.program, &self.leash, timeout).await;
        let said = said.ok_or_else(|| AgentError::NotStarted {
            program: self.program.display().to_string(),
            source: std::io::Error::other("it did not tell its version"),
        })?;
        Ok(Probe {
            // `2.1.325 (Claude Code)`
            version: said.split_whitespace().next().map(str::to_owned),
            capabilities: Capabilities {
                list: Some(How::Files),
                load: None,
                resume: Some(How::Flag),
                continue_last: Some(How::Flag),
                fork: Some(How::Flag),
                delete: None,
                cancel: Some(How::Protocol),
                modes: Some(How::Protocol),
                models: Some(How::Flag),
                usage: Some(How::Protocol),
                mcp: Some(How::Flag),
            },
        })
    }
}

#[cfg(test)]
mod tests;
