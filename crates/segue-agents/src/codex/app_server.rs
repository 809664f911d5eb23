//! Codex over `codex app-server`: one process for all turns of a connection, with one JSON message per line.

mod ask;
mod branch;
mod talk;
mod thread;
mod turn;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::RoleDescription;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{FailureClass, Opened};
use serde_json::{Value, json};

use self::talk::Talk;
use self::thread::Thread;
use self::turn::Turn;
use super::program::Version;
use super::rollout::Rollout;
use super::usage::Meter;
use super::{CAPABILITIES, Codex, checked, overrides, race, trust, unknown};
use crate::classify::Refusal;
use crate::error::GREETING;
use crate::process::Program;
use crate::wire::{Wire, text_of};
use crate::{Agent, AgentError, OpenRequest, Opening, Probe};

/// Codex, driven over `app-server`.
pub(super) struct AppServer {
    codex: Codex,
}

impl AppServer {
    pub(super) fn new(codex: Codex) -> Self {
        Self { codex }
    }

    async fn converse(
        &self,
        talk: &mut Talk,
        request: &OpenRequest,
    ) -> Result<(Turn, Opened, Option<String>), AgentError> {
        let greeting = json!({"clientInfo": {"name": "segue", "title": "segue", "version": self.codex.version}});
        let about = talk.call(GREETING, &greeting, request.timeout).await?;
        let about = about.map_err(|refusal| AgentError::refused(GREETING, refusal))?;
        talk.wire.send(&json!({"method": "initialized"}));
        let mut why_not = None;
        if let Some(id) = &request.native_id {
            match self.resume(talk, id, &about, request).await? {
                Ok(turn) => return Ok((turn, Opened::Resumed, None)),
                Err(refusal) if request.strict => {
                    return Err(AgentError::refused("thread/resume", refusal));
                }
                Err(refusal) => why_not = Some(refusal.message),
            }
        }
        if let Some(point) = &request.from {
            match self.branch(talk, point, &about, request).await? {
                Ok(turn) => return Ok((turn, Opened::Resumed, None)),
                Err(refusal) if request.strict => {
                    return Err(AgentError::refused("thread/fork", refusal));
                }
                Err(refusal) => why_not = Some(refusal.message),
            }
        }
        let params = self.thread(request);
        let started = talk.call("thread/start", &params, request.timeout).await?;
        let started = started.map_err(|refusal| AgentError::refused("thread/start", refusal))?;
        let Some(thread) = started["thread"]["id"].as_str() else {
            return Err(unknown("thread/start", "Codex did not name the thread"));
        };
        let turn = Turn::new(thread.to_owned(), Meter::fresh());
        Ok((turn, Opened::Fresh, why_not))
    }

    /// Resumes a thread. `Ok(Err)` contains the reason if this Codex is too old for the thread or refuses.
    async fn resume(
        &self,
        talk: &mut Talk,
        id: &NativeId,
        about: &Value,
        request: &OpenRequest,
    ) -> Result<Result<Turn, Refusal>, AgentError> {
        let rollout = match self.check(id, about).await {
            Ok(rollout) => rollout,
            Err(why) => return Ok(Err(lost(why))),
        };
        let mut params = self.thread(request);
        params["threadId"] = id.as_str().into();
        params["excludeTurns"] = true.into();
        let resumed = talk.call("thread/resume", &params, request.timeout).await?;
        Ok(match resumed {
            // Resuming a different thread would be worse than resuming none.
            Ok(thread) if thread["thread"]["id"] == id.as_str() => {
                let used = rollout.and_then(|rollout| rollout.total);
                Ok(Turn::new(id.to_string(), Meter::after(used)))
            }
            Ok(_) => Err(lost(format!("Codex opened another thread than {id}"))),
            Err(refusal) => Err(lost(refusal.message)),
        })
    }

    /// Returns the directory in which Codex stores its threads, as Codex reports it.
    fn home(&self, about: &Value) -> PathBuf {
        let home = about["codexHome"].as_str();
        home.map_or_else(|| self.codex.home.clone(), PathBuf::from)
    }

    /// Returns the files of a thread, or the reason why this Codex must not resume it.
    async fn check(&self, id: &NativeId, about: &Value) -> Result<Option<Rollout>, String> {
        let home = self.home(about);
        let ours = about["userAgent"].as_str().and_then(Version::find);
        checked(&home, id, async { ours }).await
    }

    /// Returns the parameters that open a thread. They set every permission option, because the user's own
    /// configuration may disable permission requests.
    fn thread(&self, request: &OpenRequest) -> Value {
        let mut params = json!({
            "cwd": text_of(&request.cwd),
            "approvalPolicy": self.approval(request),
            "approvalsReviewer": "user",
            "sandbox": self.sandbox(request),
        });
        if let Some(model) = request.model.as_ref().or(self.codex.model.as_ref()) {
            params["model"] = model.as_str().into();
        }
        let mut config = json!({});
        if let Some(servers) = overrides::servers(&request.mcp) {
            config["mcp_servers"] = servers;
        }
        let writes = self.sandbox(request) != READ_ONLY;
        let no_trust = writes.then(|| trust::none(&request.cwd, &self.codex.config()));
        if let Some(projects) = no_trust.flatten() {
            config["projects"] = projects;
        }
        params["config"] = config;
        params
    }

    /// Returns the approval policy: Codex always asks, or, if the user configured a mode, asks for what the mode does
    /// not permit.
    fn approval(&self, request: &OpenRequest) -> &'static str {
        match request.mode(self.codex.mode.as_deref()) {
            None => "untrusted",
            Some(_) => "on-request",
        }
    }

    /// Returns the sandbox. A role that neither changes files nor runs commands gets the read-only sandbox; for any
    /// other role, the answers to permission requests enforce its limits.
    fn sandbox(&self, request: &OpenRequest) -> &str {
        let only_reads =
            |role: &RoleDescription| !role.allows_kind("edit") && !role.allows_kind("execute");
        if request.role.as_ref().is_some_and(only_reads) {
            return READ_ONLY;
        }
        request.mode(self.codex.mode.as_deref()).unwrap_or(UNBOUND)
    }

    /// Returns the parameters that start every turn, so that they override what the thread has on record.
    fn each_turn(&self, request: &OpenRequest) -> Value {
        let mut params =
            json!({"approvalPolicy": self.approval(request), "approvalsReviewer": "user"});
        match self.sandbox(request) {
            UNBOUND => params["sandboxPolicy"] = json!({"type": "dangerFullAccess"}),
            READ_ONLY => params["sandboxPolicy"] = json!({"type": "readOnly"}),
            // The other sandboxes have details that were set when the thread was opened.
            _ => {}
        }
        params
    }
}

fn lost(why: String) -> Refusal {
    Refusal::new(FailureClass::SessionUnknown, why)
}

/// Sandbox without restrictions. Codex sends a request before each command, change and tool call, so the answers
/// decide. In any other sandbox, an allowed command sometimes fails: Codex first runs it inside the sandbox and does
/// not reliably detect the failure in time (observed with 0.166).
const UNBOUND: &str = "danger-full-access";

const READ_ONLY: &str = "read-only";

#[async_trait]
impl Agent for AppServer {
    fn provider(&self) -> &ProviderId {
        &self.codex.id
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        race::until_won(|| self.try_to_open(request)).await
    }

    fn branches(&self) -> bool {
        true
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        self.codex.probe(CAPABILITIES, timeout).await
    }
}

impl AppServer {
    async fn try_to_open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        let mut args = self.codex.args.clone();
        args.push(OsString::from("app-server"));
        let program = Program {
            path: &self.codex.program,
            args: &args,
            env: &self.codex.env,
            cwd: &request.cwd,
        };
        let wire = Wire::start(&self.codex.leash, &program, request)?;
        let mut talk = Talk::new(wire);
        let opened = self.converse(&mut talk, request).await;
        let named = opened.and_then(|(turn, opened, why_not)| {
            let id = NativeId::parse(turn.thread())
                .map_err(|error| unknown("thread/start", error.to_string()))?;
            Ok((id, turn, opened, why_not))
        });
        match named {
            Ok((id, turn, opened, why_not)) => {
                let conversation =
                    Thread::new(talk, id, turn, self.each_turn(request), self.codex.now);
                Ok(Opening {
                    why_not,
                    ..Opening::new(conversation, opened)
                })
            }
            Err(error) => {
                talk.wire.stop().await;
                Err(error)
            }
        }
    }
}
