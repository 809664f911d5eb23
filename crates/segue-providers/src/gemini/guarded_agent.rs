//! A transport to Gemini CLI, with a guard for the sessions that it touches.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::ProcessIdentity;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{AgentEvent, FailureClass, GuardAction, TurnEnd};
use tokio::sync::watch;

use super::process_guard::{GuardTask, ProcessGuard};
use super::session_guard::SessionGuard;
use super::tool_names::normalise_tool_name;
use crate::error_class::AgentRefusal;
use crate::provider::log_new_session_instead;
use crate::{
    Agent, AgentConnection, AgentError, ConnectionEvent, ListedNativeSession, OpenRequest,
    OpenedConnection, Probe,
};

/// Lifetime of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessLifetime {
    /// The process lives as long as the connection and loads its session.
    Connection,
    /// The process lives for one turn and resumes the session, which is safe at any time.
    Turn,
}

/// An agent whose sessions are guarded.
pub(super) struct GuardedAgent {
    agent: Arc<dyn Agent>,
    guard: Arc<SessionGuard>,
    lifetime: ProcessLifetime,
}

impl GuardedAgent {
    pub(super) fn new(
        agent: Arc<dyn Agent>,
        guard: Arc<SessionGuard>,
        lifetime: ProcessLifetime,
    ) -> Self {
        Self {
            agent,
            guard,
            lifetime,
        }
    }

    /// Returns the reason why the session must not be opened now; `None` if it may be.
    fn find_open_refusal(&self, request: &OpenRequest) -> Option<AgentRefusal> {
        let id = request.native_id.as_ref()?;
        if self.lifetime != ProcessLifetime::Connection {
            return None;
        }
        let seconds = self.guard.seconds_to_wait(&request.cwd, id)?;
        Some(AgentRefusal {
            class: FailureClass::Agent,
            message: format!(
                "Gemini CLI damages a session that is loaded in the minute of its creation; try again in {seconds} s"
            ),
            retry_after: u64::try_from(seconds).ok().map(Duration::from_secs),
        })
    }
}

#[async_trait]
impl Agent for GuardedAgent {
    fn provider(&self) -> &ProviderId {
        self.agent.provider()
    }

    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        let requested_id = request.native_id.as_ref();
        let process_receiver = request.process_sender.subscribe();
        let (mut process_guard, mut guard_actions) = ProcessGuard::start(
            &self.guard,
            &request.cwd,
            requested_id,
            process_receiver.clone(),
        )
        .await;
        let open_refusal = self.find_open_refusal(request);
        let result = match &open_refusal {
            Some(refusal) if request.strict => {
                Err(AgentError::from_refusal("session/load", refusal.clone()))
            }
            Some(refusal) => {
                log_new_session_instead(refusal.class);
                let new_session_request = OpenRequest {
                    native_id: None,
                    ..request.clone()
                };
                self.agent.open(&new_session_request).await
            }
            None => self.agent.open(request).await,
        };
        let opened = match result {
            Ok(opened) => opened,
            Err(error) => {
                // The program may have destroyed sessions before it failed.
                if let Some(process_guard) = process_guard {
                    process_guard.finish().wait_for_actions().await;
                }
                return Err(error);
            }
        };
        if let (Some(process_guard), Some(id)) = (&mut process_guard, opened.connection.native_id())
        {
            process_guard.add_session(id);
        }
        let mut connection = GuardedConnection {
            connection: opened.connection,
            process_guard,
            guard: Arc::clone(&self.guard),
            cwd: request.cwd.clone(),
            process_receiver,
            lifetime: self.lifetime,
            twin_removed: false,
            pending_actions: Vec::new(),
            pending_end: None,
            task: None,
        };
        if self.lifetime == ProcessLifetime::Connection {
            connection.remove_twin();
            guard_actions.append(&mut connection.pending_actions);
        }
        guard_actions.extend(opened.guard_actions);
        Ok(OpenedConnection {
            connection: Box::new(connection),
            open_mode: opened.open_mode,
            session_unavailable: open_refusal.is_some(),
            fallback_reason: opened
                .fallback_reason
                .or(open_refusal.map(|refusal| refusal.message)),
            guard_actions,
            transport_fallback: None,
        })
    }

    fn accepts_mcp_servers(&self) -> bool {
        self.agent.accepts_mcp_servers()
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        self.agent.probe(timeout).await
    }

    async fn list_sessions(
        &self,
        cwd: &std::path::Path,
        timeout: Duration,
    ) -> Result<Option<Vec<ListedNativeSession>>, AgentError> {
        self.agent.list_sessions(cwd, timeout).await
    }
}

/// A connection whose session is guarded.
struct GuardedConnection {
    /// Declared before the process guard, which waits for the connection's process, because fields are dropped in this
    /// order.
    connection: Box<dyn AgentConnection>,
    /// Guard of the current process; `None` between turns if each process lives for one turn.
    process_guard: Option<ProcessGuard>,
    guard: Arc<SessionGuard>,
    cwd: PathBuf,
    /// Process that is running, or ran last.
    process_receiver: watch::Receiver<Option<ProcessIdentity>>,
    lifetime: ProcessLifetime,
    /// Whether the twin that the running process made has been removed.
    twin_removed: bool,
    /// Actions taken that have not been reported yet.
    pending_actions: Vec<GuardAction>,
    /// End of the turn, until `next_event` returns it.
    pending_end: Option<Result<TurnEnd, AgentError>>,
    /// Work to finish before `next_event` returns the end of the turn.
    task: Option<GuardTask>,
}

impl GuardedConnection {
    /// Removes the twin of the session. Gemini CLI makes the twin when it opens a session, and does not write to it
    /// later, so it can be removed before the turn ends. Until it is removed, another start of Gemini CLI deletes the
    /// session. Runs without a separate task, because it reads only a few files.
    fn remove_twin(&mut self) {
        self.twin_removed = true;
        if let Some(id) = self.connection.native_id() {
            self.pending_actions
                .extend(self.guard.remove_twins(&self.cwd, id));
        }
    }

    /// Starts the work after a turn that saves a copy of the turn's messages.
    fn start_copy_task(&mut self) -> Option<GuardTask> {
        let id = self.connection.native_id()?.clone();
        match self.lifetime {
            ProcessLifetime::Turn => {
                let mut process_guard = self.process_guard.take()?;
                process_guard.add_session(&id);
                Some(process_guard.finish())
            }
            ProcessLifetime::Connection => {
                let (guard, cwd) = (Arc::clone(&self.guard), self.cwd.clone());
                Some(GuardTask::spawn(move || guard.update_copy(&cwd, &id)))
            }
        }
    }

    async fn finish_task(&mut self) {
        if let Some(task) = &mut self.task {
            let actions = task.wait_for_actions().await;
            self.pending_actions.extend(actions);
            self.task = None;
        }
    }
}

#[async_trait]
impl AgentConnection for GuardedConnection {
    fn native_id(&self) -> Option<&NativeId> {
        self.connection.native_id()
    }

    fn process_identity(&self) -> Option<ProcessIdentity> {
        self.connection.process_identity()
    }

    async fn send_prompt(&mut self, prompt: &str) -> Result<(), AgentError> {
        if self.lifetime == ProcessLifetime::Turn && self.process_guard.is_none() {
            let id = self.connection.native_id();
            let (process_guard, actions) =
                ProcessGuard::start(&self.guard, &self.cwd, id, self.process_receiver.clone())
                    .await;
            self.process_guard = process_guard;
            self.pending_actions.extend(actions);
        }
        self.twin_removed = self.lifetime == ProcessLifetime::Connection;
        let result = self.connection.send_prompt(prompt).await;
        if let (Some(process_guard), Some(id)) =
            (&mut self.process_guard, self.connection.native_id())
        {
            process_guard.add_session(id);
        }
        result
    }

    async fn next_event(&mut self) -> ConnectionEvent {
        loop {
            self.finish_task().await;
            if let Some(end) = self.pending_end.take() {
                return ConnectionEvent::TurnEnded(end);
            }
            let mut event = self.connection.next_event().await;
            if !self.twin_removed {
                self.remove_twin();
            }
            match &mut event {
                ConnectionEvent::Event(AgentEvent::Tool(call)) => normalise_tool_name(call),
                ConnectionEvent::PermissionRequested(request, _) => {
                    normalise_tool_name(&mut request.call);
                }
                ConnectionEvent::NativeIdReported(_)
                | ConnectionEvent::Event(_)
                | ConnectionEvent::TurnEnded(_) => {}
            }
            let ConnectionEvent::TurnEnded(mut end) = event else {
                return event;
            };
            if let (Ok(end), Some(id)) = (&mut end, self.connection.native_id())
                && end.usage.total_tokens.or(end.usage.input_tokens).is_some()
                && end.usage.context_tokens.is_none()
            {
                // The reported counts cover all requests of the turn; the session file contains those of the last
                // request.
                end.usage.context_tokens = self.guard.context_tokens(&self.cwd, id);
            }
            self.pending_end = Some(end);
            self.task = self.start_copy_task();
        }
    }

    fn accepts_mcp_servers(&self) -> bool {
        self.connection.accepts_mcp_servers()
    }

    fn cancel(&mut self) {
        self.connection.cancel();
    }

    fn is_alive(&mut self) -> bool {
        self.connection.is_alive()
    }

    async fn close(mut self: Box<Self>) -> Vec<GuardAction> {
        self.finish_task().await;
        let Self {
            connection,
            process_guard,
            pending_actions: mut actions,
            ..
        } = *self;
        actions.extend(connection.close().await);
        if let Some(process_guard) = process_guard {
            actions.extend(process_guard.finish().wait_for_actions().await);
        }
        actions
    }
}

#[cfg(test)]
mod tests;
