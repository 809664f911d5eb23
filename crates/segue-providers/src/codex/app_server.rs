//! Codex over `codex app-server`: one process for all turns of a connection, with one JSON message per line.

mod approval;
mod branch;
mod rpc;
mod thread;
mod turn_state;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::RoleDescription;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::OpenMode;
use serde_json::{Value, json};

use self::rpc::RpcClient;
use self::thread::AppServerConnection;
use self::turn_state::CodexTurn;
use super::driver::{
    APP_SERVER_CAPABILITIES, load_resumable_rollout, probe_program, read_config,
    unknown_thread_error, unknown_thread_refusal,
};
use super::executable::CodexVersion;
use super::rollout::Rollout;
use super::usage::CodexUsageMeter;
use super::{config_overrides, folder_trust, startup_retry};
use crate::error::HANDSHAKE_OPERATION;
use crate::error_class::AgentRefusal;
use crate::provider::AgentProgram;
use crate::wire::json_lines::{JsonLineProcess, path_to_text};
use crate::{Agent, AgentError, OpenRequest, OpenedConnection, Probe};

/// Codex, driven over `app-server`.
pub(super) struct AppServerAgent {
    codex: AgentProgram,
}

impl AppServerAgent {
    pub(super) fn new(codex: AgentProgram) -> Self {
        Self { codex }
    }

    async fn open_thread(
        &self,
        client: &mut RpcClient,
        request: &OpenRequest,
    ) -> Result<(CodexTurn, OpenMode, Option<String>), AgentError> {
        let client_info = json!({"clientInfo": {"name": "segue", "title": "segue", "version": self.codex.client_version}});
        let server_info = client
            .call(HANDSHAKE_OPERATION, &client_info, request.timeout)
            .await?;
        client.wire.send(&json!({"method": "initialized"}));
        let mut fallback_reason = None;
        if let Some(id) = &request.native_id {
            match self.resume_thread(client, id, &server_info, request).await {
                Ok(turn) => return Ok((turn, OpenMode::Resumed, None)),
                Err(error) => {
                    let refusal = expect_refusal(error)?;
                    fallback_reason = Some(request.accept_new_session("thread/resume", refusal)?);
                }
            }
        }
        if let Some(point) = &request.branch_point {
            match self.open_branch(client, point, &server_info, request).await {
                Ok(turn) => return Ok((turn, OpenMode::Resumed, None)),
                Err(error) => {
                    let refusal = expect_refusal(error)?;
                    fallback_reason = Some(request.accept_new_session("thread/fork", refusal)?);
                }
            }
        }
        let params = self.thread_params(request);
        let started = client
            .call("thread/start", &params, request.timeout)
            .await?;
        let Some(thread_id) = started["thread"]["id"].as_str() else {
            return Err(unknown_thread_error(
                "thread/start",
                "Codex did not report the thread id",
            ));
        };
        let turn = CodexTurn::new(thread_id.to_owned(), CodexUsageMeter::for_new_thread());
        Ok((turn, OpenMode::Fresh, fallback_reason))
    }

    /// Resumes a thread. Fails with a refusal if this Codex is too old for the thread or refuses.
    async fn resume_thread(
        &self,
        client: &mut RpcClient,
        id: &NativeId,
        server_info: &Value,
        request: &OpenRequest,
    ) -> Result<CodexTurn, AgentError> {
        let rollout = self.load_resumable_rollout(id, server_info).await?;
        let mut params = self.thread_params(request);
        params["threadId"] = id.as_str().into();
        params["excludeTurns"] = true.into();
        let resumed = client
            .call("thread/resume", &params, request.timeout)
            .await?;
        // Resuming a different thread would be worse than resuming none.
        if resumed["thread"]["id"] != id.as_str() {
            let reason = format!("Codex opened a different thread instead of {id}");
            return Err(unknown_thread_error("thread/resume", reason));
        }
        let used_tokens = rollout.and_then(|rollout| rollout.total_tokens);
        let meter = CodexUsageMeter::with_thread_total(used_tokens);
        Ok(CodexTurn::new(id.to_string(), meter))
    }

    /// Returns the directory in which Codex stores its threads, as Codex reports it.
    fn codex_home(&self, server_info: &Value) -> PathBuf {
        let home = server_info["codexHome"].as_str();
        home.map_or_else(|| self.codex.home.clone(), PathBuf::from)
    }

    /// Returns the files of a thread. Fails with a refusal if this Codex must not resume it.
    async fn load_resumable_rollout(
        &self,
        id: &NativeId,
        server_info: &Value,
    ) -> Result<Option<Rollout>, AgentError> {
        let home = self.codex_home(server_info);
        let version = server_info["userAgent"]
            .as_str()
            .and_then(CodexVersion::find);
        load_resumable_rollout(&home, id, async { version })
            .await
            .map_err(|reason| unknown_thread_error("thread/resume", reason))
    }

    /// Returns the parameters that open a thread. They set every permission option, because the user's own
    /// configuration may disable permission requests.
    fn thread_params(&self, request: &OpenRequest) -> Value {
        let mut params = json!({
            "cwd": path_to_text(&request.cwd),
            "approvalPolicy": self.approval_policy(request),
            "approvalsReviewer": "user",
            "sandbox": self.sandbox(request),
        });
        if let Some(model) = self.codex.model(request) {
            params["model"] = model.into();
        }
        let mut config = json!({});
        if let Some(servers) = config_overrides::build_mcp_config(&request.mcp) {
            config["mcp_servers"] = servers;
        }
        let can_write = self.sandbox(request) != READ_ONLY_SANDBOX;
        let untrusted_project = can_write.then(|| {
            folder_trust::untrusted_project_config(&request.cwd, &read_config(&self.codex.home))
        });
        if let Some(projects) = untrusted_project.flatten() {
            config["projects"] = projects;
        }
        params["config"] = config;
        params
    }

    /// Returns the approval policy: Codex always asks, or, if the user configured a mode, asks for what the mode does
    /// not permit.
    fn approval_policy(&self, request: &OpenRequest) -> &'static str {
        match request.permitted_mode(self.codex.mode.as_deref()) {
            None => "untrusted",
            Some(_) => "on-request",
        }
    }

    /// Returns the sandbox. A role that neither changes files nor runs commands gets the read-only sandbox; for any
    /// other role, the answers to permission requests enforce its limits.
    fn sandbox(&self, request: &OpenRequest) -> &str {
        let is_read_only =
            |role: &RoleDescription| !role.can_use_kind("edit") && !role.can_use_kind("execute");
        if request.role.as_ref().is_some_and(is_read_only) {
            return READ_ONLY_SANDBOX;
        }
        request
            .permitted_mode(self.codex.mode.as_deref())
            .unwrap_or(FULL_ACCESS_SANDBOX)
    }

    /// Returns the parameters that start every turn, so that they override what the thread has on record.
    fn turn_params(&self, request: &OpenRequest) -> Value {
        let mut params =
            json!({"approvalPolicy": self.approval_policy(request), "approvalsReviewer": "user"});
        match self.sandbox(request) {
            FULL_ACCESS_SANDBOX => params["sandboxPolicy"] = json!({"type": "dangerFullAccess"}),
            READ_ONLY_SANDBOX => params["sandboxPolicy"] = json!({"type": "readOnly"}),
            // The other sandboxes have details that were set when the thread was opened.
            _ => {}
        }
        params
    }
}

/// Returns the refusal of a thread that cannot be resumed or branched. Fails if the error is another one.
fn expect_refusal(error: AgentError) -> Result<AgentRefusal, AgentError> {
    match error {
        AgentError::Refused { refusal, .. } => Ok(unknown_thread_refusal(refusal.message)),
        error => Err(error),
    }
}

/// Sandbox without restrictions. Codex sends a request before each command, change and tool call, so the answers
/// decide. In any other sandbox, an allowed command sometimes fails: Codex first runs it inside the sandbox and does
/// not reliably detect the failure in time (observed with 0.166).
const FULL_ACCESS_SANDBOX: &str = "danger-full-access";

const READ_ONLY_SANDBOX: &str = "read-only";

#[async_trait]
impl Agent for AppServerAgent {
    fn provider(&self) -> &ProviderId {
        &self.codex.id
    }

    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        startup_retry::open_with_retries(|| self.open_once(request)).await
    }

    fn can_branch(&self) -> bool {
        true
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        probe_program(&self.codex, APP_SERVER_CAPABILITIES, timeout).await
    }
}

impl AppServerAgent {
    async fn open_once(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        let mut args = self.codex.args.clone();
        args.push(OsString::from("app-server"));
        let program = self.codex.spec(&args, &request.cwd);
        let wire = JsonLineProcess::start(&self.codex.leash, &program, request)?;
        let mut client = RpcClient::new(wire);
        let outcome = self.open_thread(&mut client, request).await;
        let parsed = outcome.and_then(|(turn, open_mode, fallback_reason)| {
            let id = NativeId::parse(turn.thread_id())
                .map_err(|error| unknown_thread_error("thread/start", error.to_string()))?;
            Ok((id, turn, open_mode, fallback_reason))
        });
        match parsed {
            Ok((id, turn, open_mode, fallback_reason)) => {
                let connection = AppServerConnection::new(
                    client,
                    id,
                    turn,
                    self.turn_params(request),
                    self.codex.system.now,
                );
                Ok(OpenedConnection {
                    fallback_reason,
                    ..OpenedConnection::new(connection, open_mode)
                })
            }
            Err(error) => {
                client.wire.stop().await;
                Err(error)
            }
        }
    }
}
