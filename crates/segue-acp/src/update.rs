//! Translation of the protocol's updates to segue's events.

use agent_client_protocol::schema::MaybeUndefined;
use agent_client_protocol::v1::schema::{
    CompactionStatus, ContentBlock, PlanEntry, PlanEntryStatus, SessionUpdate,
};
use segue_core::session::{
    AgentEvent, InlineData, PlanStatus, PlanStep, ToolCall, ToolStatus, Usage,
};

use crate::client::plausible_tokens;
use crate::incoming::Incoming;
use crate::tool_calls::ToolCalls;

/// Returns `true` if [`translate_update`] can translate an update; other updates are passed on as JSON.
pub(crate) fn is_translatable(update: &SessionUpdate) -> bool {
    match update {
        SessionUpdate::AgentMessageChunk(chunk) => matches!(
            chunk.content,
            ContentBlock::Text(_) | ContentBlock::Image(_) | ContentBlock::Audio(_)
        ),
        SessionUpdate::AgentThoughtChunk(chunk) => matches!(chunk.content, ContentBlock::Text(_)),
        SessionUpdate::ToolCall(_)
        | SessionUpdate::ToolCallUpdate(_)
        | SessionUpdate::UsageUpdate(_)
        | SessionUpdate::SessionInfoUpdate(_)
        | SessionUpdate::UserMessageChunk(_)
        | SessionUpdate::AvailableCommandsUpdate(_)
        | SessionUpdate::CurrentModeUpdate(_)
        | SessionUpdate::ConfigOptionUpdate(_)
        | SessionUpdate::CompactionUpdate(_)
        | SessionUpdate::Plan(_) => true,
        _ => false,
    }
}

/// Translates an update to an event; `None` if the update concerns only an editor.
pub(crate) fn translate_update(incoming: Incoming, calls: &mut ToolCalls) -> Option<AgentEvent> {
    let update = match incoming {
        Incoming::Garbage(line) => return Some(AgentEvent::Garbage(line)),
        Incoming::Unknown(json) => return Some(AgentEvent::Unknown(json)),
        Incoming::Text(text_chunk) => return Some(AgentEvent::Text(text_chunk)),
        Incoming::Thought(text_chunk) => return Some(AgentEvent::Thought(text_chunk)),
        Incoming::Update(update) => *update,
    };
    match update {
        SessionUpdate::AgentMessageChunk(chunk) => content_event(chunk.content),
        SessionUpdate::AgentThoughtChunk(chunk) => match chunk.content {
            ContentBlock::Text(text) => Some(AgentEvent::Thought(text.text)),
            _ => None,
        },
        SessionUpdate::ToolCall(call) => Some(tool_event(calls.apply_announcement(call))),
        SessionUpdate::ToolCallUpdate(call_update) => Some(tool_event(
            calls.apply_update(&call_update.tool_call_id, call_update.fields),
        )),
        SessionUpdate::Plan(plan) => Some(AgentEvent::Plan(
            plan.entries.into_iter().map(translate_plan_entry).collect(),
        )),
        SessionUpdate::UsageUpdate(usage) => Some(AgentEvent::Usage(Usage {
            context_tokens: plausible_tokens(usage.used),
            context_window: plausible_tokens(usage.size),
            ..Usage::default()
        })),
        SessionUpdate::SessionInfoUpdate(info) => match info.title {
            MaybeUndefined::Value(title) => Some(AgentEvent::Title(title)),
            MaybeUndefined::Null | MaybeUndefined::Undefined => None,
        },
        // A compaction that starts, fails or is cancelled changes nothing.
        SessionUpdate::CompactionUpdate(update) => {
            (update.status == CompactionStatus::Completed).then_some(AgentEvent::Compacted)
        }
        // The user's messages are already on record; commands and modes are for an editor's menus.
        _ => None,
    }
}

/// Converts a tool call to an event. A completed call named "Compact conversation" means that the agent compacted its
/// own context.
fn tool_event(call: ToolCall) -> AgentEvent {
    let is_compaction = call.kind == "think" && call.name == "Compact conversation";
    if is_compaction && call.status == ToolStatus::Completed {
        return AgentEvent::Compacted;
    }
    AgentEvent::Tool(call)
}

fn translate_plan_entry(entry: PlanEntry) -> PlanStep {
    PlanStep {
        text: entry.content,
        status: match entry.status {
            PlanEntryStatus::InProgress => PlanStatus::InProgress,
            PlanEntryStatus::Completed => PlanStatus::Completed,
            _ => PlanStatus::Pending,
        },
    }
}

fn content_event(block: ContentBlock) -> Option<AgentEvent> {
    let data_event = |mime_type, data| {
        AgentEvent::Data(InlineData {
            mime_type,
            data: Some(data),
        })
    };
    match block {
        ContentBlock::Text(text) => Some(AgentEvent::Text(text.text)),
        ContentBlock::Image(image) => Some(data_event(image.mime_type, image.data)),
        ContentBlock::Audio(audio) => Some(data_event(audio.mime_type, audio.data)),
        _ => None,
    }
}
