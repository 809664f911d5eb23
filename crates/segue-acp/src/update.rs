//! The protocol's updates in our own words.

use agent_client_protocol::schema::MaybeUndefined;
use agent_client_protocol::v1::schema::{ContentBlock, SessionUpdate};
use segue_core::{AgentEvent, Json, Usage};

use crate::client::plausible;
use crate::lines::Incoming;
use crate::tool_calls::ToolCalls;

/// What an update means to us; `None` for what concerns only an editor.
pub(crate) fn translate(incoming: Incoming, calls: &mut ToolCalls) -> Option<AgentEvent> {
    let update = match incoming {
        Incoming::Garbage(line) => return Some(AgentEvent::Garbage(line)),
        Incoming::Unknown(json) => return Some(AgentEvent::Unknown(json)),
        Incoming::Update(update) => *update,
    };
    match update {
        SessionUpdate::AgentMessageChunk(chunk) => Some(content(chunk.content, AgentEvent::Text)),
        SessionUpdate::AgentThoughtChunk(chunk) => {
            Some(content(chunk.content, AgentEvent::Thought))
        }
        SessionUpdate::ToolCall(call) => Some(AgentEvent::Tool(calls.announced(call))),
        SessionUpdate::ToolCallUpdate(change) => Some(AgentEvent::Tool(
            calls.changed(&change.tool_call_id, change.fields),
        )),
        SessionUpdate::UsageUpdate(usage) => Some(AgentEvent::Usage(Usage {
            context_tokens: plausible(usage.used),
            context_window: plausible(usage.size),
            ..Usage::default()
        })),
        SessionUpdate::SessionInfoUpdate(info) => match info.title {
            MaybeUndefined::Value(title) => Some(AgentEvent::Title(title)),
            MaybeUndefined::Null | MaybeUndefined::Undefined => None,
        },
        // What the user said is on record already; commands and modes are for an editor's menus.
        SessionUpdate::UserMessageChunk(_)
        | SessionUpdate::AvailableCommandsUpdate(_)
        | SessionUpdate::CurrentModeUpdate(_)
        | SessionUpdate::ConfigOptionUpdate(_) => None,
        other => Some(verbatim(&other)),
    }
}

fn content(block: ContentBlock, words: fn(String) -> AgentEvent) -> AgentEvent {
    match block {
        ContentBlock::Text(text) => words(text.text),
        other => verbatim(&other),
    }
}

fn verbatim(value: &impl serde::Serialize) -> AgentEvent {
    AgentEvent::Unknown(Json::from(serde_json::to_value(value).unwrap_or_default()))
}
