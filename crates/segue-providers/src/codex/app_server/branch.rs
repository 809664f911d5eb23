//! Creation of a thread that branches off from another one after one of its turns.

use serde_json::{Value, json};

use super::AppServerAgent;
use super::rpc::RpcClient;
use super::turn_state::CodexTurn;
use crate::codex::driver::unknown_thread_error;
use crate::codex::{rollout, usage::CodexUsageMeter};
use crate::{AgentError, BranchPoint, OpenRequest};

const FORK_OPERATION: &str = "thread/fork";

/// Number of turns per request.
const TURNS_PER_PAGE: usize = 100;

impl AppServerAgent {
    /// Branches off from a thread, which is only read. Verifies the number of turns in the branch, because an older
    /// Codex cannot omit turns and silently copies all of them.
    pub(super) async fn open_branch(
        &self,
        client: &mut RpcClient,
        point: &BranchPoint,
        server_info: &Value,
        request: &OpenRequest,
    ) -> Result<CodexTurn, AgentError> {
        let refuse = |reason| Err(unknown_thread_error(FORK_OPERATION, reason));
        self.load_resumable_rollout(&point.native_id, server_info)
            .await?;
        let source_id = point.native_id.as_str();
        let turns = list_turns(client, source_id, point.turn_count, request).await?;
        let Some(last_turn) = find_last_turn(&turns, point) else {
            return refuse(format!(
                "the turns of Codex thread {source_id} do not match the recorded turns"
            ));
        };
        let mut params = self.thread_params(request);
        params["threadId"] = source_id.into();
        params["lastTurnId"] = last_turn.into();
        params["excludeTurns"] = true.into();
        let forked = client
            .call(FORK_OPERATION, &params, request.timeout)
            .await?;
        let branch_id = forked["thread"]["id"].as_str().unwrap_or_default();
        if branch_id.is_empty() || branch_id == source_id {
            return refuse("Codex did not create a new thread".to_owned());
        }
        let reason = match list_turns(client, branch_id, point.turn_count + 1, request).await {
            Ok(turns) if turns.len() == point.turn_count => None,
            Ok(turns) => Some(format!(
                "Codex copied {} of {source_id} instead of {}",
                format_turns(turns.len()),
                point.turn_count
            )),
            Err(AgentError::Refused { refusal, .. }) => Some(refusal.message),
            Err(error) => return Err(error),
        };
        if let Some(reason) = reason {
            let cleanup = archive_thread(client, branch_id, request).await?;
            return refuse(format!("{reason}; {cleanup}"));
        }
        // The token counts of the branch start at the total of the original at that turn.
        let used_tokens = rollout::load_total_after_turn(
            &self.codex_home(server_info),
            &point.native_id,
            last_turn,
        )
        .await;
        let meter = CodexUsageMeter::with_thread_total(used_tokens);
        Ok(CodexTurn::new(branch_id.to_owned(), meter))
    }
}

fn format_turns(count: usize) -> String {
    match count {
        1 => "1 turn".to_owned(),
        count => format!("{count} turns"),
    }
}

/// Archives a thread that is not needed, if Codex can. Returns a description of the result.
async fn archive_thread(
    client: &mut RpcClient,
    thread_id: &str,
    request: &OpenRequest,
) -> Result<String, AgentError> {
    let params = json!({"threadId": thread_id});
    match client
        .call("thread/archive", &params, request.timeout)
        .await
    {
        Ok(_) => Ok(format!("archived the new thread {thread_id}")),
        Err(AgentError::Refused { refusal, .. }) => Ok(format!(
            "cannot archive the new thread {thread_id}: {}",
            refusal.message
        )),
        Err(error) => Err(error),
    }
}

/// Returns the first `limit` turns of a thread, or fewer if the thread is shorter.
async fn list_turns(
    client: &mut RpcClient,
    thread_id: &str,
    limit: usize,
    request: &OpenRequest,
) -> Result<Vec<Value>, AgentError> {
    let mut turns = Vec::new();
    let mut cursor = Value::Null;
    while turns.len() < limit {
        let params = json!({
            "threadId": thread_id,
            "sortDirection": "asc",
            "limit": TURNS_PER_PAGE.min(limit - turns.len()),
            "cursor": cursor,
        });
        let mut page = client
            .call("thread/turns/list", &params, request.timeout)
            .await?;
        let Value::Array(mut page_turns) = page["data"].take() else {
            break;
        };
        turns.append(&mut page_turns);
        cursor = page["nextCursor"].take();
        if cursor.is_null() {
            break;
        }
    }
    Ok(turns)
}

/// Returns the id of the last turn before the point; `None` if its prompt is not the expected one.
fn find_last_turn<'a>(turns: &'a [Value], point: &BranchPoint) -> Option<&'a str> {
    let turn = turns.get(point.turn_count.checked_sub(1)?)?;
    let items = turn["items"].as_array()?.iter();
    let user_messages = items.filter(|item| item["type"] == "userMessage");
    let texts = user_messages.flat_map(|item| item["content"].as_array().into_iter().flatten());
    let mut texts = texts.filter_map(|part| part["text"].as_str());
    texts
        .any(|text| text.trim() == point.last_prompt.trim())
        .then(|| turn["id"].as_str())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_turn_must_have_the_expected_prompt() {
        let turn = |id: &str, text: &str| {
            let content = json!([{"type": "text", "text": text}]);
            json!({"id": id, "items": [
                {"type": "userMessage", "content": content},
                {"type": "agentMessage", "text": "a"},
            ]})
        };
        let turns = [turn("t1", "one"), turn("t2", "two"), json!({"id": "t3"})];
        let cases = [
            (1, "one", Some("t1")),
            (2, " two\n", Some("t2")),
            (2, "one", None),
            (3, "three", None),
            (4, "four", None),
            (0, "one", None),
        ];
        for (count, prompt, expected) in cases {
            let point = BranchPoint {
                native_id: "x".parse().unwrap(),
                turn_count: count,
                last_record_id: None,
                last_prompt: prompt.to_owned(),
            };
            assert_eq!(find_last_turn(&turns, &point), expected, "{point:?}");
        }
    }
}
