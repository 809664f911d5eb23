//! Tool calls are announced once and then changed piecemeal; here they are put together.

use std::collections::HashMap;

use agent_client_protocol::v1::schema as acp;
use segue_core::{Diff, Json, ToolCall, ToolStatus};
use serde::Serialize;
use serde_json::value::to_raw_value;
use similar::TextDiff;

/// The calls of one turn, each as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct ToolCalls(HashMap<String, ToolCall>);

impl ToolCalls {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn announced(&mut self, call: acp::ToolCall) -> ToolCall {
        let fields = acp::ToolCallUpdateFields::new()
            .title(call.title)
            .name(call.name)
            .kind(call.kind)
            .status(call.status)
            .content(call.content)
            .raw_input(call.raw_input)
            .raw_output(call.raw_output);
        self.changed(&call.tool_call_id, fields)
    }

    /// Some agents send a change for a call they never announced; then it is the announcement.
    pub(crate) fn changed(
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
            kind_name(kind).clone_into(&mut call.kind);
        }
        if let Some(status) = fields.status {
            call.status = self::status(status);
        }
        if let Some(input) = fields.raw_input {
            call.args = Json::from(input);
        }
        let content = fields.content.filter(|content| !content.is_empty());
        if let Some(content) = &content {
            let diffs: Vec<Diff> = content.iter().filter_map(diff).collect();
            if !diffs.is_empty() {
                call.diffs = diffs;
            }
        }
        let output = match (fields.raw_output, content) {
            (Some(output), Some(content)) => to_raw_value(&Both { content, output }).ok(),
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

/// What came of a call, where it is told twice: for the screen and for the model.
#[derive(Serialize)]
struct Both {
    content: Vec<acp::ToolCallContent>,
    output: serde_json::Value,
}

/// What is more than this is told without its lines: a file of that size is data, not something to be read.
const DIFFABLE: usize = 1 << 20;

/// A change to a file, as a unified diff.
fn diff(content: &acp::ToolCallContent) -> Option<Diff> {
    let acp::ToolCallContent::Diff(diff) = content else {
        return None;
    };
    let old = diff.old_text.as_deref().unwrap_or_default();
    let patch = if old.len() + diff.new_text.len() > DIFFABLE {
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

fn kind_name(kind: acp::ToolKind) -> &'static str {
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

fn status(status: acp::ToolCallStatus) -> ToolStatus {
    match status {
        acp::ToolCallStatus::InProgress => ToolStatus::InProgress,
        acp::ToolCallStatus::Completed => ToolStatus::Completed,
        acp::ToolCallStatus::Failed => ToolStatus::Failed,
        // A status of a later protocol means at least that the call is not over.
        _ => ToolStatus::Pending,
    }
}
