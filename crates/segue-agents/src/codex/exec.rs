//! Codex by `codex exec`: one process per turn, which reports in JSON what it did and cannot send permission requests.

mod stream;

use std::ffi::OsString;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::{Capabilities, How, PermissionPolicy, ProcessMark};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{AgentEvent, FailureClass, Opened, StopReason, TurnEnd};
use serde_json::Value;
use tokio::time::Instant;

use self::stream::{Said, Stream};
use super::program::{self, Version};
use super::rollout::Rollout;
use super::usage::{Fill, Meter};
use super::{CAPABILITIES, Codex, checked, overrides, trust, unknown};
use crate::classify::Refusal;
use crate::process::Program;
use crate::wire::{Line, Wire};
use crate::{Agent, AgentError, Conversation, OpenRequest, Opening, Probe, Step};

const PROMPT: &str = "the prompt";
const RESUME: &str = "exec resume";

/// Time in which Codex may exit after it has reported the end of the turn.
const FAREWELL: Duration = Duration::from_secs(5);

/// Codex, driven by `exec`.
pub(super) struct Exec {
    codex: Codex,
}

impl Exec {
    pub(super) fn new(codex: Codex) -> Self {
        Self { codex }
    }

    async fn version(&self, timeout: Duration) -> Option<Version> {
        let Codex {
            program,
            env,
            leash,
            ..
        } = &self.codex;
        Version::find(&program::version(program, env, leash, timeout).await?)
    }

    /// Returns the files of the thread to resume, or the reason why it cannot be resumed.
    async fn thread(&self, id: &NativeId, timeout: Duration) -> Result<Rollout, String> {
        let rollout = checked(&self.codex.home, id, self.version(timeout)).await?;
        rollout.ok_or_else(|| format!("Codex has no thread {id}"))
    }
}

#[async_trait]
impl Agent for Exec {
    fn provider(&self) -> &ProviderId {
        &self.codex.id
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        if !self.codex.program.is_file() {
            return Err(AgentError::NotStarted {
                program: self.codex.program.display().to_string(),
                source: std::io::Error::other("there is no such program"),
            });
        }
        if !request.cwd.is_dir() {
            return Err(AgentError::NoDirectory(request.cwd.clone()));
        }
        let mut why_not = None;
        let (mut thread, mut meter) = (None, Meter::fresh());
        if let Some(id) = &request.native_id {
            match self.thread(id, request.timeout).await {
                Ok(rollout) => {
                    thread = Some(id.clone());
                    meter = Meter::after(rollout.total);
                }
                Err(why) if request.strict => return Err(unknown(RESUME, why)),
                Err(why) => why_not = Some(why),
            }
        }
        let opened = match thread {
            Some(_) => Opened::Resumed,
            None => Opened::Fresh,
        };
        let conversation = Runs {
            codex: self.codex.clone(),
            request: request.clone(),
            thread,
            meter,
            wire: None,
            stream: Stream::default(),
            over: None,
        };
        Ok(Opening {
            why_not,
            protected: overrides::servers_told(&request.mcp).left_out,
            ..Opening::new(conversation, opened)
        })
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        let capabilities = Capabilities {
            resume: Some(How::Flag),
            continue_last: Some(How::Flag),
            fork: Some(How::Flag),
            delete: Some(How::Flag),
            cancel: Some(How::Flag),
            modes: Some(How::Flag),
            models: Some(How::Flag),
            mcp: Some(How::Flag),
            ..CAPABILITIES
        };
        self.codex.probe(capabilities, timeout).await
    }
}

/// Returns the sandbox that permits what the policy allows, because `exec` cannot ask.
fn sandbox(policy: PermissionPolicy) -> &'static str {
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
fn arguments(
    codex: &Codex,
    request: &OpenRequest,
    thread: Option<&NativeId>,
    config: &str,
) -> Vec<OsString> {
    let mut args = codex.args.clone();
    let mut push = |all: &[&str]| args.extend(all.iter().map(OsString::from));
    let sandbox = request.mode(codex.mode.as_deref());
    let sandbox = sandbox.unwrap_or_else(|| self::sandbox(request.permissions));
    push(&["exec", "--json", "--sandbox", sandbox]);
    push(&["-c", "approval_policy=\"never\""]);
    if let Some(model) = request.model.as_ref().or(codex.model.as_ref()) {
        push(&["--model", model]);
    }
    for (name, server) in overrides::servers_told(&request.mcp).config {
        let setting = format!("mcp_servers.{name}={}", overrides::toml(&server));
        push(&["-c", &setting]);
    }
    let no_trust = (sandbox != "read-only").then(|| trust::none(&request.cwd, config));
    if let Some(projects) = no_trust.flatten() {
        push(&["-c", &format!("projects={}", overrides::toml(&projects))]);
    }
    if let Some(thread) = thread {
        push(&["resume", thread.as_str()]);
    }
    push(&["-"]);
    args
}

/// A connection that starts one process per turn.
struct Runs {
    codex: Codex,
    request: OpenRequest,
    thread: Option<NativeId>,
    meter: Meter,
    /// Process of the current turn, or of the last one.
    wire: Option<Wire>,
    stream: Stream,
    /// Outcome of the turn, and the time until which the process may exit.
    over: Option<(Result<(), Refusal>, Instant)>,
}

impl Runs {
    /// Converts one line of the program.
    fn said(&mut self, message: &Value) -> Option<Step> {
        match self.stream.said(message)? {
            Said::Thread(id) => self.named(&id),
            Said::Event(event) => Some(Step::Event(event)),
            Said::Over(outcome) => {
                if let Ok(Some(total)) = outcome {
                    self.meter.told(total, None, Fill::default());
                }
                let outcome = outcome.map(drop);
                self.over = Some((outcome, Instant::now() + FAREWELL));
                None
            }
        }
    }

    fn named(&mut self, id: &str) -> Option<Step> {
        let wrong = |why: String| Some(Step::Done(Err(unknown(RESUME, why))));
        let id = match NativeId::parse(id) {
            Ok(id) => id,
            Err(error) => return wrong(error.to_string()),
        };
        match &self.thread {
            None => {
                self.thread = Some(id.clone());
                Some(Step::Named(id))
            }
            Some(thread) if *thread == id => None,
            Some(thread) => {
                let why = format!("Codex began thread {id} instead of going on with {thread}");
                self.cancel();
                wrong(why)
            }
        }
    }

    /// Returns the end of a turn that the program reported, with the context usage that only the thread's files
    /// contain.
    async fn end(&mut self, outcome: Result<(), Refusal>) -> Step {
        if let Err(refusal) = outcome {
            return Step::Done(Err(AgentError::refused(PROMPT, refusal)));
        }
        if let Some(thread) = &self.thread
            && let Some(rollout) = Rollout::of(&self.codex.home, thread).await
        {
            self.meter.filled(rollout.fill);
        }
        Step::Done(Ok(TurnEnd {
            reason: StopReason::EndTurn,
            usage: self.meter.usage(),
        }))
    }

    /// Returns the next line of the program; `None` once it has ended or its time to exit is over.
    async fn line(&mut self) -> Option<Line> {
        let wire = self.wire.as_mut()?;
        match &self.over {
            None => wire.next().await,
            Some((_, until)) => tokio::time::timeout_at(*until, wire.next())
                .await
                .ok()
                .flatten(),
        }
    }

    /// Returns the error for a program that exited without reporting the end of the turn.
    async fn gone(&mut self) -> AgentError {
        let Some(wire) = &mut self.wire else {
            return unknown(PROMPT, "nothing was sent");
        };
        let error = wire.gone(PROMPT).await;
        match (error.class(), error) {
            (FailureClass::UntrustedFolder, AgentError::Crashed { stderr, .. }) => {
                let message = format!(
                    "{stderr} (`codex exec` works only in a git repository: run `git init` there, or let segue \
                     talk to Codex by `app-server`)"
                );
                let refusal = Refusal::new(FailureClass::UntrustedFolder, message);
                AgentError::refused(PROMPT, refusal)
            }
            (_, error) => error,
        }
    }
}

#[async_trait]
impl Conversation for Runs {
    fn native_id(&self) -> Option<&NativeId> {
        self.thread.as_ref()
    }

    fn process(&self) -> Option<ProcessMark> {
        self.wire.as_ref()?.process().mark()
    }

    async fn send(&mut self, prompt: &str) -> Result<(), AgentError> {
        if let Some(last) = self.wire.take() {
            last.stop().await;
        }
        let config = self.codex.config();
        let args = arguments(&self.codex, &self.request, self.thread.as_ref(), &config);
        let told = overrides::servers_told(&self.request.mcp);
        let secrets = told.env.into_iter();
        let secrets = secrets.map(|(name, value)| (name.into(), value.into()));
        let env: Vec<(OsString, OsString)> =
            self.codex.env.iter().cloned().chain(secrets).collect();
        let program = Program {
            path: &self.codex.program,
            args: &args,
            env: &env,
            cwd: &self.request.cwd,
        };
        let mut wire = Wire::start(&self.codex.leash, &program, &self.request)?;
        wire.send_bytes(prompt.as_bytes().to_vec());
        wire.close_input();
        self.wire = Some(wire);
        self.stream = Stream::default();
        self.over = None;
        self.meter.begin();
        Ok(())
    }

    async fn next(&mut self) -> Step {
        loop {
            match self.line().await {
                Some(Line::Json(message)) => {
                    if let Some(step) = self.said(&message) {
                        return step;
                    }
                }
                Some(Line::Noise(text)) => return Step::Event(AgentEvent::Garbage(text)),
                None => {
                    return match self.over.clone() {
                        Some((outcome, _)) => self.end(outcome).await,
                        None => Step::Done(Err(self.gone().await)),
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

    async fn close(self: Box<Self>) -> Vec<String> {
        if let Some(wire) = self.wire {
            wire.stop().await;
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
