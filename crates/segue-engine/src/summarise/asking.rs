//! A request to a summariser, in a separate native session without tools, with retries after unusable answers.

use std::path::PathBuf;
use std::time::Duration;

use segue_agents::{AgentError, Conversation, OpenRequest, Opening, Step};
use segue_core::agent::{PermissionPolicy, RoleDescription};
use segue_core::checkpoint::{Objection, Summary, again};
use segue_core::scope::RoleName;
use segue_core::session::{AgentEvent, StopReason, ToolStatus};
use tokio::sync::watch;
use tokio::time::timeout;

use super::Summariser;

/// Maximum number of retries after an unusable answer.
const AGAIN: usize = 2;

/// Maximum size of an answer in bytes. A longer answer is not a summary.
const LONGEST: usize = 256 * 1024;

/// Sends a question until an answer passes the check. Returns the summary, or the reason why no answer passed, and the
/// actions that protected native sessions.
pub(super) async fn ask<F>(
    summariser: &Summariser,
    cwd: &str,
    question: &str,
    check: F,
) -> (Result<Summary, String>, Vec<String>)
where
    F: Fn(&str) -> Result<Summary, Objection> + Send + Sync,
{
    let request = OpenRequest {
        cwd: PathBuf::from(cwd),
        native_id: None,
        from: None,
        strict: false,
        permissions: PermissionPolicy::Deny,
        role: reader(),
        model: None,
        mcp: Vec::new(),
        timeout: summariser.agent.defaults().timeouts.start,
        // The leash ends the process, so no code needs its identity.
        started: watch::channel(None).0,
    };
    let opening = timeout(summariser.patience, summariser.agent.open(&request)).await;
    let Opening {
        mut conversation,
        mut protected,
        ..
    } = match opening {
        Ok(Ok(opening)) => opening,
        Ok(Err(error)) => return (Err(error.to_string()), Vec::new()),
        Err(_) => return (Err(too_slow(summariser.patience)), Vec::new()),
    };
    let talking = converse(conversation.as_mut(), question, check);
    let said = match timeout(summariser.patience, talking).await {
        Ok(said) => said,
        Err(_) => Err(too_slow(summariser.patience)),
    };
    protected.extend(conversation.close().await);
    (said, protected)
}

/// Returns a role without tools, so that an agent that can restrict its own tools offers none.
fn reader() -> Option<RoleDescription> {
    let name = RoleName::parse("summariser").ok()?;
    Some(RoleDescription {
        name,
        role: String::new(),
        instructions: Vec::new(),
        allowed_tools: Some(Vec::new()),
        tool_instructions: None,
    })
}

fn too_slow(patience: Duration) -> String {
    format!("it did not answer within {} seconds", patience.as_secs())
}

async fn converse<F>(
    conversation: &mut dyn Conversation,
    question: &str,
    check: F,
) -> Result<Summary, String>
where
    F: Fn(&str) -> Result<Summary, Objection>,
{
    let mut asked = question.to_owned();
    let mut objections = Vec::new();
    for _ in 0..=AGAIN {
        let sent = conversation.send(&asked).await;
        sent.map_err(|error| error.to_string())?;
        let answer = listen(conversation).await;
        let answer = answer.map_err(|error| error.to_string())?;
        match answer.and_then(|answer| check(&answer)) {
            Ok(summary) => return Ok(summary),
            Err(objection) => {
                asked = again(&objection);
                objections.push(objection.to_string());
            }
        }
    }
    objections.dedup();
    Err(format!(
        "no answer was taken: {}",
        objections.join("; then ")
    ))
}

/// Reads the answer. Cancels the turn if the agent runs a tool or if the answer is too long.
async fn listen(
    conversation: &mut dyn Conversation,
) -> Result<Result<String, Objection>, AgentError> {
    let mut answer = String::new();
    let mut objection = None;
    loop {
        match conversation.next().await {
            Step::Event(AgentEvent::Text(words)) if objection.is_none() => {
                answer.push_str(&words);
                if answer.len() > LONGEST {
                    objection = Some(Objection::TooMuch);
                    conversation.cancel();
                }
            }
            Step::Event(AgentEvent::Tool(call)) => {
                let runs = matches!(call.status, ToolStatus::InProgress | ToolStatus::Completed);
                if runs && objection.is_none() {
                    objection = Some(Objection::UsedTool(call.name));
                    conversation.cancel();
                }
            }
            Step::Ask(request, reply) => reply(request.reject()),
            Step::Named(_) | Step::Event(_) => {}
            Step::Done(end) => {
                return match (objection, end?.reason) {
                    (Some(objection), _) => Ok(Err(objection)),
                    (None, StopReason::EndTurn | StopReason::Limit) => Ok(Ok(answer)),
                    (None, StopReason::Refusal | StopReason::Cancelled) => Ok(Ok(String::new())),
                };
            }
        }
    }
}
