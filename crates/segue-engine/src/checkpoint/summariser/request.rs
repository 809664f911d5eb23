//! A request to a summariser, in a separate native session without tools, with retries after unusable answers.

use std::path::PathBuf;
use std::time::Duration;

use segue_core::agent::{PermissionPolicy, RoleDescription};
use segue_core::checkpoint::{Summary, SummaryError, summary_retry_prompt};
use segue_core::scope::RoleName;
use segue_core::session::{AgentEvent, GuardAction, StopReason, ToolStatus, UnusedSummary};
use segue_providers::{
    AgentConnection, AgentError, ConnectionEvent, OpenRequest, OpenedConnection,
};
use tokio::sync::watch;
use tokio::time::timeout;

use super::Summariser;

/// Maximum number of retries after an unusable answer.
const MAX_SUMMARY_RETRIES: usize = 2;

/// Maximum size of an answer in bytes. A longer answer is not a summary.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Parses an answer. The error is the reason why it is unusable.
type AnswerCheck<'a> = dyn Fn(&str) -> Result<Summary, SummaryError> + Send + Sync + 'a;

/// Sends a prompt until an answer passes the check. Returns the summary, or the reason why no answer passed, and the
/// actions that protected native sessions.
pub(super) async fn request_summary(
    summariser: &Summariser,
    cwd: &str,
    prompt: &str,
    check: &AnswerCheck<'_>,
) -> (Result<Summary, UnusedSummary>, Vec<GuardAction>) {
    let request = OpenRequest {
        cwd: PathBuf::from(cwd),
        native_id: None,
        branch_point: None,
        strict: false,
        permissions: PermissionPolicy::Deny,
        role: summariser_role(),
        model: None,
        mcp: Vec::new(),
        timeout: summariser.agent.defaults().timeouts.start,
        // The leash ends the process, so no code needs its identity.
        process_sender: watch::channel(None).0,
    };
    let opened = timeout(summariser.timeout, summariser.agent.open(&request)).await;
    let OpenedConnection {
        mut connection,
        mut guard_actions,
        ..
    } = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => return (Err(agent_failure(&error)), Vec::new()),
        Err(_) => return (Err(timeout_reason(summariser.timeout)), Vec::new()),
    };
    let exchange = prompt_until_valid(connection.as_mut(), prompt, check);
    let result = timeout(summariser.timeout, exchange)
        .await
        .unwrap_or_else(|_| Err(timeout_reason(summariser.timeout)));
    guard_actions.extend(connection.close().await);
    (result, guard_actions)
}

/// Returns a role without tools, so that an agent that can restrict its own tools offers none.
fn summariser_role() -> Option<RoleDescription> {
    let name = RoleName::parse("summariser").ok()?;
    Some(RoleDescription {
        name,
        description: String::new(),
        instructions: Vec::new(),
        allowed_tools: Some(Vec::new()),
        tool_instructions: None,
    })
}

fn timeout_reason(limit: Duration) -> UnusedSummary {
    UnusedSummary::TimedOut {
        seconds: limit.as_secs(),
    }
}

fn agent_failure(error: &AgentError) -> UnusedSummary {
    UnusedSummary::AgentFailed {
        error: error.to_string(),
    }
}

async fn prompt_until_valid(
    connection: &mut dyn AgentConnection,
    first_prompt: &str,
    check: &AnswerCheck<'_>,
) -> Result<Summary, UnusedSummary> {
    let mut prompt = first_prompt.to_owned();
    let mut errors = Vec::new();
    for _ in 0..=MAX_SUMMARY_RETRIES {
        let sent = connection.send_prompt(&prompt).await;
        sent.map_err(|error| agent_failure(&error))?;
        let answer = read_answer(connection).await;
        let answer = answer.map_err(|error| agent_failure(&error))?;
        match answer.and_then(|answer| check(&answer)) {
            Ok(summary) => return Ok(summary),
            Err(rejection) => {
                prompt = summary_retry_prompt(&rejection);
                errors.push(rejection.to_string());
            }
        }
    }
    errors.dedup();
    Err(UnusedSummary::Rejected { errors })
}

/// Reads the answer. Cancels the turn if the agent runs a tool or if the answer is too long.
async fn read_answer(
    connection: &mut dyn AgentConnection,
) -> Result<Result<String, SummaryError>, AgentError> {
    let mut answer = String::new();
    let mut error = None;
    loop {
        match connection.next_event().await {
            ConnectionEvent::Event(AgentEvent::Text(text)) if error.is_none() => {
                answer.push_str(&text);
                if answer.len() > MAX_ANSWER_BYTES {
                    error = Some(SummaryError::LimitExceeded);
                    connection.cancel();
                }
            }
            ConnectionEvent::Event(AgentEvent::Tool(call)) => {
                let has_run = matches!(call.status, ToolStatus::InProgress | ToolStatus::Completed);
                if has_run && error.is_none() {
                    error = Some(SummaryError::UsedTool(call.name));
                    connection.cancel();
                }
            }
            ConnectionEvent::PermissionRequested(request, reply) => reply(request.reject_answer()),
            ConnectionEvent::NativeIdReported(_) | ConnectionEvent::Event(_) => {}
            ConnectionEvent::TurnEnded(end) => {
                return match (error, end?.reason) {
                    (Some(error), _) => Ok(Err(error)),
                    (None, StopReason::EndTurn | StopReason::Limit) => Ok(Ok(answer)),
                    (None, StopReason::Refusal | StopReason::Cancelled) => Ok(Ok(String::new())),
                };
            }
        }
    }
}
