//! Tool calls of a turn. An agent announces a call once and then sends changes, which this module merges.

use std::collections::HashMap;

use agent_client_protocol::v1::schema as acp;
use segue_core::json::Json;
use segue_core::session::{Diff, ToolCall, ToolStatus};
use serde::Serialize;
use serde_json::value::to_raw_value;
use similar::TextDiff;

/// Calls of one turn, each with all changes so far.
#[derive(Debug, Default)]
pub(crate) struct ToolCalls(HashMap<String, ToolCall>);

impl ToolCalls {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn apply_announcement(&mut self, call: acp::ToolCall) -> ToolCall {
        let fields = acp::ToolCallUpdateFields::new()
            .title(call.title)
            .name(call.name)
            .kind(call.kind)
            .status(call.status)
            .content(call.content)
            .raw_input(call.raw_input)
            .raw_output(call.raw_output);
        self.apply_update(&call.tool_call_id, fields)
    }

    /// Applies a change to a call and returns the result. Some agents send a change for a call that they never
    /// announced; the change then creates the call.
    pub(crate) fn apply_update(
        &mut self,
        id: &acp::ToolCallId,
        fields: acp::ToolCallUpdateFields,
    ) -> ToolCall {
        let call = self.0.entry(id.to_string()).or_insert_with(|| ToolCall {
            id: id.to_string(),
            name: "tool".into(),
            kind: "other".into(),
            args: Json::empty_object(),
            status: ToolStatus::Pending,
            output: None,
            diffs: Vec::new(),
        });
        if let Some(name) = fields
            .title
            .filter(|title| !title.is_empty())
            .or(fields.name)
        {
            call.name = name;
        }
        if let Some(kind) = fields.kind {
            tool_kind_name(kind).clone_into(&mut call.kind);
        }
        if let Some(status) = fields.status {
            call.status = translate_status(status);
        }
        if let Some(input) = fields.raw_input {
            call.args = Json::from(input);
        }
        let content = fields.content.filter(|content| !content.is_empty());
        if let Some(content) = &content {
            let diffs: Vec<Diff> = content.iter().filter_map(translate_diff).collect();
            if !diffs.is_empty() {
                call.diffs = diffs;
            }
        }
        let output = match (fields.raw_output, content) {
            (Some(output), Some(content)) => {
                to_raw_value(&CombinedToolOutput { content, output }).ok()
            }
            (Some(output), None) => to_raw_value(&output).ok(),
            (None, Some(content)) => to_raw_value(&content).ok(),
            (None, None) => None,
        };
        if let Some(output) = output {
            call.output = Some(Json::from(&*output));
        }
        call.clone()
    }
}

/// Output of a call for which the agent sent both forms: `content` for display and `raw_output` for the model.
#[derive(Serialize)]
struct CombinedToolOutput {
    content: Vec<acp::ToolCallContent>,
    output: serde_json::Value,
}

/// Maximum size in bytes of the old and the new text of a file together for which a diff is computed. A larger file is
/// data that the user does not read, so its patch stays empty.
const MAX_DIFF_INPUT_BYTES: usize = 1 << 20;

/// Converts a change to a file to a unified diff; `None` for other content.
fn translate_diff(content: &acp::ToolCallContent) -> Option<Diff> {
    let acp::ToolCallContent::Diff(diff) = content else {
        return None;
    };
    let old = diff.old_text.as_deref().unwrap_or_default();
    let patch = if old.len() + diff.new_text.len() > MAX_DIFF_INPUT_BYTES {
        String::new()
    } else {
        TextDiff::from_lines(old, &diff.new_text)
            .unified_diff()
            .context_radius(3)
            .to_string()
    };
    Some(Diff {
        path: diff.path.to_string_lossy().into_owned(),
        patch,
    })
}

fn tool_kind_name(kind: acp::ToolKind) -> &'static str {
    match kind {
        acp::ToolKind::Read => "read",
        acp::ToolKind::Edit => "edit",
        acp::ToolKind::Delete => "delete",
        acp::ToolKind::Move => "move",
        acp::ToolKind::Search => "search",
        acp::ToolKind::Execute => "execute",
        acp::ToolKind::Think => "think",
        acp::ToolKind::Fetch => "fetch",
        acp::ToolKind::SwitchMode => "switch_mode",
        _ => "other",
    }
}

fn translate_status(status: acp::ToolCallStatus) -> ToolStatus {
    match status {
        acp::ToolCallStatus::InProgress => ToolStatus::InProgress,
        acp::ToolCallStatus::Completed => ToolStatus::Completed,
        acp::ToolCallStatus::Failed => ToolStatus::Failed,
        // An unknown status of a later protocol version means at least that the call has not ended.
        _ => ToolStatus::Pending,
    }
}
