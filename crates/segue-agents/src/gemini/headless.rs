//! Gemini CLI without its user interface: one process per turn, with the prompt on its standard input.

mod turn;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::{Capabilities, How, PermissionPolicy, ProcessMark};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{FailureClass, Opened};

use self::turn::Turn;
use super::keep::Keep;
use crate::classify::Refusal;
use crate::process::{Leash, Program};
use crate::prompt::as_text;
use crate::{
    Agent, AgentError, Conversation, Host, OpenRequest, Opening, Outside, Probe, Settings, Step,
    known, uuid,
};

/// Longest prompt in bytes that Gemini CLI reads; it silently drops the remainder.
const LONGEST_PROMPT: usize = 8 * 1024 * 1024;

/// Format of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// A JSON line for each event.
    Lines,
    /// A single JSON object at the end.
    Whole,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Lines => "stream-json",
            Self::Whole => "json",
        }
    }
}

/// Gemini CLI, started once per turn.
#[derive(Clone)]
pub(super) struct Headless {
    provider: ProviderId,
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(OsString, OsString)>,
    model: Option<String>,
    mode: Option<String>,
    leash: Leash,
    outside: Outside,
    keep: Arc<Keep>,
    format: Format,
}

/// Kind of session that a turn belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A session to be created with an id from segue.
    New,
    /// A session that exists.
    Existing,
}

impl Headless {
    pub(super) fn new(
        program: PathBuf,
        settings: &Settings,
        host: &Host,
        keep: Arc<Keep>,
        format: Format,
    ) -> Self {
        Self {
            provider: ProviderId::gemini(),
            program,
            args: settings.args.clone(),
            env: super::environment(settings),
            model: settings.model.clone(),
            mode: settings.mode.clone(),
            leash: host.leash.clone(),
            outside: host.outside,
            keep,
            format,
        }
    }

    fn args(&self, request: &OpenRequest, id: &NativeId, target: Target) -> Vec<OsString> {
        let configured = request.mode(self.mode.as_deref());
        let mode = configured.unwrap_or_else(|| mode(request.permissions));
        let mut args = vec!["-o", self.format.name(), "--approval-mode", mode];
        if let Some(model) = request.model.as_deref().or(self.model.as_deref()) {
            args.extend(["-m", model]);
        }
        args.push(match target {
            Target::New => "--session-id",
            Target::Existing => "-r",
        });
        args.push(id.as_str());
        args.extend(self.args.iter().map(String::as_str));
        args.into_iter().map(Into::into).collect()
    }

    /// Returns the target of the next turn: `Existing` if Gemini CLI can resume the session, `None` if only empty files
    /// of it exist.
    fn target(&self, request: &OpenRequest, id: &NativeId) -> Option<Target> {
        let chats = self.keep.chats(&request.cwd);
        let files = chats.map_or_else(Vec::new, |chats| chats.files(id));
        if files.iter().any(|file| file.story.said) {
            return Some(Target::Existing);
        }
        files.is_empty().then_some(Target::New)
    }
}

/// Returns Gemini CLI's approval mode for a policy. Without its user interface, Gemini CLI sends no permission
/// requests: it omits what would need one.
fn mode(policy: PermissionPolicy) -> &'static str {
    match policy {
        PermissionPolicy::Ask | PermissionPolicy::AllowReads | PermissionPolicy::Deny => "default",
        PermissionPolicy::AllowEdits => "auto_edit",
        PermissionPolicy::AllowAll => "yolo",
    }
}

/// Returns the bytes to write to the standard input for a prompt, or a refusal if the prompt is too long.
fn input(prompt: &str) -> Result<Vec<u8>, Refusal> {
    let input = as_text(prompt).into_owned().into_bytes();
    if input.len() > LONGEST_PROMPT {
        let message = format!(
            "the prompt has {} bytes, and Gemini CLI reads no more than {LONGEST_PROMPT}; nothing was sent: put the \
             text into a file and name the file in the prompt",
            input.len()
        );
        // Not `ContextTooLong`: the prompt does not affect the session, which can still be used.
        return Err(Refusal::new(FailureClass::Agent, message));
    }
    Ok(input)
}

#[async_trait]
impl Agent for Headless {
    fn provider(&self) -> &ProviderId {
        &self.provider
    }

    /// Starts no process: [`Conversation::send`] starts one per turn.
    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        if !request.cwd.is_dir() {
            return Err(AgentError::NoDirectory(request.cwd.clone()));
        }
        let known = |id: &&NativeId| self.target(request, id) == Some(Target::Existing);
        let (id, opened, why_not) = match &request.native_id {
            Some(id) if known(&id) => (id.clone(), Opened::Resumed, None),
            Some(id) => {
                let why_not = format!("Gemini CLI has no session {id} in this directory");
                if request.strict {
                    let refusal = Refusal::new(FailureClass::SessionUnknown, why_not);
                    return Err(AgentError::refused("resume", refusal));
                }
                (uuid::v4(self.outside.random), Opened::Fresh, Some(why_not))
            }
            None => (uuid::v4(self.outside.random), Opened::Fresh, None),
        };
        let conversation = Turnwise {
            agent: self.clone(),
            request: request.clone(),
            id,
            begun: opened == Opened::Resumed,
            turn: None,
        };
        Ok(Opening {
            why_not,
            ..Opening::new(conversation, opened)
        })
    }

    fn takes_tools(&self) -> bool {
        false
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        let version = known::version(&self.program, &self.leash, timeout).await;
        let version = version.ok_or_else(|| AgentError::NotStarted {
            program: self.program.display().to_string(),
            source: std::io::Error::other("it did not tell its version"),
        })?;
        Ok(Probe {
            version: Some(version),
            capabilities: Capabilities {
                list: Some(How::Files),
                load: None,
                resume: Some(How::Flag),
                continue_last: Some(How::Flag),
                fork: None,
                delete: Some(How::Flag),
                cancel: Some(How::Protocol),
                modes: Some(How::Flag),
                models: Some(How::Flag),
                usage: Some(How::Protocol),
                mcp: None,
            },
        })
    }
}

/// A connection that starts one process per turn.
struct Turnwise {
    agent: Headless,
    request: OpenRequest,
    id: NativeId,
    /// Whether the session contains messages, so that a new session cannot replace it.
    begun: bool,
    /// Turn that is running.
    turn: Option<Turn>,
}

impl Turnwise {
    /// Returns the target of the next turn, or a refusal if the session no longer exists.
    fn next_target(&mut self) -> Result<Target, Refusal> {
        match (self.agent.target(&self.request, &self.id), self.begun) {
            (Some(Target::Existing), _) => Ok(Target::Existing),
            (Some(Target::New) | None, true) => {
                let message = format!(
                    "Gemini CLI has no session {} in this directory any more",
                    self.id
                );
                Err(Refusal::new(FailureClass::SessionUnknown, message))
            }
            (Some(Target::New), false) => Ok(Target::New),
            (None, false) => {
                // The session contains no messages, and its id cannot be used a second time.
                self.id = uuid::v4(self.agent.outside.random);
                Ok(Target::New)
            }
        }
    }
}

#[async_trait]
impl Conversation for Turnwise {
    fn native_id(&self) -> Option<&NativeId> {
        Some(&self.id)
    }

    fn process(&self) -> Option<ProcessMark> {
        self.turn.as_ref()?.process().mark()
    }

    async fn send(&mut self, prompt: &str) -> Result<(), AgentError> {
        let refused = |refusal| AgentError::refused("the prompt", refusal);
        let input = input(prompt).map_err(refused)?;
        let target = self.next_target().map_err(refused)?;
        let args = self.agent.args(&self.request, &self.id, target);
        let program = Program {
            path: &self.agent.program,
            args: &args,
            env: &self.agent.env,
            cwd: &self.request.cwd,
        };
        let turn = Turn::start(&self.agent, &program, &self.request, &self.id, input)?;
        self.turn = Some(turn);
        Ok(())
    }

    async fn next(&mut self) -> Step {
        let step = match &mut self.turn {
            Some(turn) => turn.next().await,
            None => std::future::pending().await,
        };
        if matches!(step, Step::Done(_)) {
            self.turn = None;
            let target = self.agent.target(&self.request, &self.id);
            self.begun |= target == Some(Target::Existing);
        }
        step
    }

    fn takes_tools(&self) -> bool {
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

    async fn close(mut self: Box<Self>) -> Vec<String> {
        if let Some(turn) = self.turn.take() {
            turn.stop().await;
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
