//! Creation of a thread that branches off from another one after one of its turns.

use serde_json::{Value, json};

use super::talk::Talk;
use super::turn::Turn;
use super::{AppServer, lost};
use crate::classify::Refusal;
use crate::codex::{rollout, usage::Meter};
use crate::{AgentError, NativePoint, OpenRequest};

/// Number of turns per request.
const PAGE: usize = 100;

impl AppServer {
    /// Branches off from a thread, which is only read. Verifies the number of turns in the branch, because an older
    /// Codex cannot omit turns and silently copies all of them.
    pub(super) async fn branch(
        &self,
        talk: &mut Talk,
        point: &NativePoint,
        about: &Value,
        request: &OpenRequest,
    ) -> Result<Result<Turn, Refusal>, AgentError> {
        if let Err(why) = self.check(&point.id, about).await {
            return Ok(Err(lost(why)));
        }
        let turns = match turns(talk, point.id.as_str(), point.turns, request).await? {
            Ok(turns) => turns,
            Err(refusal) => return Ok(Err(lost(refusal.message))),
        };
        let Some(last) = last_before(&turns, point) else {
            let why = format!("Codex counts the turns of {} in another way", point.id);
            return Ok(Err(lost(why)));
        };
        let mut params = self.thread(request);
        params["threadId"] = point.id.as_str().into();
        params["lastTurnId"] = last.into();
        params["excludeTurns"] = true.into();
        let forked = talk.call("thread/fork", &params, request.timeout).await?;
        let forked = match forked {
            Ok(forked) => forked,
            Err(refusal) => return Ok(Err(lost(refusal.message))),
        };
        let id = forked["thread"]["id"].as_str().unwrap_or_default();
        if id.is_empty() || id == point.id.as_str() {
            return Ok(Err(lost("Codex did not make another thread".to_owned())));
        }
        let kept = match self::turns(talk, id, point.turns + 1, request).await? {
            Ok(turns) => turns.len(),
            Err(refusal) => {
                let left = put_away(talk, id, request).await?;
                return Ok(Err(lost(format!("{}; {left}", refusal.message))));
            }
        };
        if kept != point.turns {
            let left = put_away(talk, id, request).await?;
            let why = format!(
                "Codex kept {kept} turns of {}, not {}; {left}",
                point.id, point.turns
            );
            return Ok(Err(lost(why)));
        }
        // The token counts of the branch start at the total of the original at that turn.
        let used = rollout::total_after(&self.home(about), &point.id, last).await;
        Ok(Ok(Turn::new(id.to_owned(), Meter::after(used))))
    }
}

/// Archives a thread that is not needed, if Codex can. Returns a description of the result.
async fn put_away(
    talk: &mut Talk,
    thread: &str,
    request: &OpenRequest,
) -> Result<String, AgentError> {
    let params = json!({"threadId": thread});
    let archived = talk.call("thread/archive", &params, request.timeout);
    Ok(match archived.await? {
        Ok(_) => format!("that thread ({thread}) is archived"),
        Err(refusal) => format!("that thread ({thread}) is left behind: {}", refusal.message),
    })
}

/// Returns the first `most` turns of a thread, or fewer if the thread is shorter.
async fn turns(
    talk: &mut Talk,
    thread: &str,
    most: usize,
    request: &OpenRequest,
) -> Result<Result<Vec<Value>, Refusal>, AgentError> {
    let mut turns = Vec::new();
    let mut cursor = Value::Null;
    while turns.len() < most {
        let params = json!({
            "threadId": thread,
            "sortDirection": "asc",
            "limit": PAGE.min(most - turns.len()),
            "cursor": cursor,
        });
        let page = talk
            .call("thread/turns/list", &params, request.timeout)
            .await?;
        let mut page = match page {
            Ok(page) => page,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Value::Array(mut more) = page["data"].take() else {
            break;
        };
        turns.append(&mut more);
        cursor = page["nextCursor"].take();
        if cursor.is_null() {
            break;
        }
    }
    Ok(Ok(turns))
}

/// Returns the id of the last turn before the point; `None` if its prompt is not the expected one.
fn last_before<'a>(turns: &'a [Value], point: &NativePoint) -> Option<&'a str> {
    let turn = turns.get(point.turns.checked_sub(1)?)?;
    let items = turn["items"].as_array()?.iter();
    let asked = items.filter(|item| item["type"] == "userMessage");
    let words = asked.flat_map(|item| item["content"].as_array().into_iter().flatten());
    let mut words = words.filter_map(|part| part["text"].as_str());
    words
        .any(|text| text.trim() == point.prompt.trim())
        .then(|| turn["id"].as_str())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_turn_that_is_meant_is_taken() {
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
            let point = NativePoint {
                id: "x".parse().unwrap(),
                turns: count,
                record: None,
                prompt: prompt.to_owned(),
            };
            assert_eq!(last_before(&turns, &point), expected, "{point:?}");
        }
    }
}
