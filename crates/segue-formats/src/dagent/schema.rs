//! The files of the dagent layout as they are written: their fields, in order.

use serde::Serialize;
use serde_json::{Map, Value};

type FieldMap = Map<String, Value>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentChat<'a> {
    pub(super) session_id: &'a str,
    pub(super) messages: Vec<DagentMessage<'a>>,
    pub(super) metadata: DagentMetadata,
    #[serde(flatten)]
    pub(super) extra_fields: FieldMap,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentMessage<'a> {
    pub(super) id: &'a str,
    pub(super) timestamp: String,
    pub(super) role: &'static str,
    pub(super) content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<u64>,
    #[serde(flatten)]
    pub(super) extra_fields: &'a FieldMap,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentMetadata {
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) message_count: usize,
    pub(super) token_count: u64,
    #[serde(flatten)]
    pub(super) extra_fields: FieldMap,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentCheckpoint<'a> {
    pub(super) session_id: &'a str,
    pub(super) version: u64,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) summary: DagentSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ralph_loop: Option<DagentLoop>,
    pub(super) tokens: DagentTokens,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) segue: Option<Value>,
    #[serde(flatten)]
    pub(super) extra_fields: FieldMap,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentSummary {
    pub(super) completed_items: Vec<String>,
    pub(super) pending_items: Vec<String>,
    pub(super) decisions: Vec<String>,
    pub(super) blockers: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentLoop {
    pub(super) current_iteration: u32,
    pub(super) passed_checks: Vec<String>,
    pub(super) failed_checks: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_error: Option<String>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentTokens {
    pub(super) checkpoint: u64,
    pub(super) last_compaction_input: u64,
    pub(super) total_saved: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentContext<'a> {
    pub(super) session_id: &'a str,
    #[serde(rename = "type")]
    pub(super) session_type: &'static str,
    pub(super) feature_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task_id: Option<&'a str>,
    pub(super) project: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) feature: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<Value>,
    pub(super) updated_at: String,
    pub(super) tokens: u64,
    pub(super) segue: DagentSegueFields<'a>,
    #[serde(flatten)]
    pub(super) extra_fields: FieldMap,
}

/// Properties of a session that the other fields cannot express.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentSegueFields<'a> {
    pub(super) scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title_from: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentAgent<'a> {
    pub(super) session_id: &'a str,
    #[serde(rename = "agentType")]
    pub(super) agent_type: &'a str,
    pub(super) role: Value,
    pub(super) instructions: Value,
    pub(super) allowed_tools: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_instructions: Option<Value>,
    pub(super) created_at: String,
    pub(super) tokens: u64,
    #[serde(flatten)]
    pub(super) extra_fields: FieldMap,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentFeature<'a> {
    pub(super) id: &'a str,
    pub(super) name: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<&'a str>,
    pub(super) created_at: Value,
    pub(super) updated_at: String,
    #[serde(flatten)]
    pub(super) extra_fields: FieldMap,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentTask<'a> {
    pub(super) id: &'a str,
    pub(super) states: std::collections::BTreeMap<String, DagentTaskState>,
    pub(super) current_state: String,
    #[serde(flatten)]
    pub(super) extra_fields: FieldMap,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct DagentTaskState {
    pub(super) session_ids: Vec<String>,
    #[serde(flatten)]
    pub(super) extra_fields: FieldMap,
}
