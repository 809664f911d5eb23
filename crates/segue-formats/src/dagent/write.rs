//! Writing of sessions to files of the dagent layout.

use std::collections::BTreeMap;

use segue_core::brief::ProjectContext;
use segue_core::scope::{
    FeatureLinks, Purpose, RoleName, Scope, TaskLinks, TaskState, group_by_feature,
};
use segue_core::session::Tag;
use serde_json::{Map, Value, json};

use super::DagentFileKind;
use super::context;
use super::session_type::DagentSessionType;
use super::summary::{encode_items, render_loop_state, render_summary};
use crate::json_fields::{
    field, format_iso_time, integer_field, merge_imported_fields, object_field, parse_time,
    render_json, string_field,
};
use crate::{PortableMessage, PortableSession};

type Object = Map<String, Value>;

/// Renders the files of sessions. The key is the path, with `/`. `count_tokens` counts the tokens of a text.
#[must_use]
pub fn render_files(
    sessions: &[PortableSession],
    count_tokens: &dyn Fn(&str) -> u64,
) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for links in group_by_feature(sessions) {
        let folder = match links.feature {
            Some(feature) => format!(".dagent-worktrees/{feature}/.dagent"),
            None => ".dagent".to_owned(),
        };
        let feature_sessions = links.sessions.iter();
        let mut located_sessions: Vec<(String, &PortableSession)> = feature_sessions
            .map(|session| (folder.clone(), *session))
            .collect();
        for task in links.tasks.values() {
            let node = format!("{folder}/nodes/{}", task.task);
            files.insert(format!("{node}/task.json"), render_task(task));
            let sessions = list_task_sessions(task).into_iter();
            located_sessions.extend(sessions.map(|session| (node.clone(), session)));
        }
        for (directory, session) in located_sessions {
            for (kind, text) in render_session_files(session, &links, count_tokens) {
                let name = kind.file_name(&session.name);
                files.insert(format!("{directory}/sessions/{name}"), text);
            }
        }
        if let Some(text) = render_feature(&links) {
            files.insert(format!("{folder}/feature.json"), text);
        }
    }
    files
}

fn render_session_files(
    session: &PortableSession,
    links: &FeatureLinks<'_, PortableSession>,
    count_tokens: &dyn Fn(&str) -> u64,
) -> Vec<(DagentFileKind, String)> {
    let mut files = vec![
        (DagentFileKind::Chat, render_chat(session, count_tokens)),
        (DagentFileKind::Checkpoint, render_checkpoint_file(session)),
        (
            DagentFileKind::Context,
            render_context(session, links, count_tokens),
        ),
        (DagentFileKind::Agent, render_agent(session, count_tokens)),
    ];
    if !session.compacted_messages.is_empty() {
        let messages = session.compacted_messages.iter();
        let archive = messages.map(|message| format!("{}\n", render_message(message)));
        files.push((DagentFileKind::Archive, archive.collect()));
    }
    if !session.extra_fields.session.is_empty() {
        let text = render_json(&session.extra_fields.session);
        files.push((DagentFileKind::Session, text));
    }
    files
}

fn render_message(message: &PortableMessage) -> Value {
    let fields = [
        field("id", message.id.as_str()),
        field("timestamp", format_iso_time(message.at)),
        field("role", message.role.as_str()),
        field("content", message.text.as_str()),
        ("tokens", message.tokens.map(Value::from)),
    ];
    merge_imported_fields(fields, &message.extra_fields).into()
}

fn render_chat(session: &PortableSession, count_tokens: &dyn Fn(&str) -> u64) -> String {
    let imported = &session.extra_fields.chat;
    // A message that was imported without a token count is written without one, but the total includes it.
    let message_tokens = |message: &PortableMessage| {
        let tokens = message.tokens;
        tokens.unwrap_or_else(|| count_tokens(&message.text))
    };
    let token_count: u64 = session.messages.iter().map(message_tokens).sum();
    let metadata = [
        field("createdAt", format_iso_time(session.created_at)),
        field("updatedAt", format_iso_time(session.updated_at)),
        field("messageCount", session.messages.len()),
        field("tokenCount", token_count),
    ];
    let messages = session.messages.iter().map(render_message).collect();
    let no_metadata = Object::new();
    let imported_metadata = object_field(imported, "metadata").unwrap_or(&no_metadata);
    let metadata = merge_imported_fields(metadata, imported_metadata);
    let fields = [
        field("sessionId", session.name.as_str()),
        ("messages", Some(messages)),
        field("metadata", metadata),
    ];
    render_json(&merge_imported_fields(fields, imported))
}

fn render_checkpoint_file(session: &PortableSession) -> String {
    let imported = &session.extra_fields.checkpoint;
    let checkpoint = session.checkpoint.as_ref();
    let imported_time = |name: &str| parse_time(imported.get(name)).unwrap_or(session.created_at);
    let (version, created_at, updated_at) = match checkpoint {
        Some(checkpoint) => (
            checkpoint.version,
            checkpoint.created_at,
            checkpoint.updated_at,
        ),
        None => (
            integer_field(imported, "version").unwrap_or(0),
            imported_time("createdAt"),
            imported_time("updatedAt"),
        ),
    };
    let content = checkpoint.map(|checkpoint| &checkpoint.content);
    let loop_state = content.and_then(|content| content.loop_state.as_ref());
    let last_compaction_tokens =
        checkpoint.and_then(|checkpoint| checkpoint.last_compaction_tokens);
    let tokens = json!({
        "checkpoint": checkpoint.map_or(0, |checkpoint| checkpoint.tokens),
        "lastCompactionInput": last_compaction_tokens.unwrap_or(0),
        "totalSaved": checkpoint.map_or(0, |checkpoint| checkpoint.saved_tokens),
    });
    let fields = [
        field("sessionId", session.name.as_str()),
        field("version", version),
        field("createdAt", format_iso_time(created_at)),
        field("updatedAt", format_iso_time(updated_at)),
        field("summary", render_summary(content)),
        ("ralphLoop", loop_state.map(render_loop_state)),
        field("tokens", tokens),
        ("segue", content.and_then(encode_items)),
    ];
    render_json(&merge_imported_fields(fields, imported))
}

fn render_context(
    session: &PortableSession,
    links: &FeatureLinks<'_, PortableSession>,
    count_tokens: &dyn Fn(&str) -> u64,
) -> String {
    let imported_fields = &session.extra_fields.context;
    let purpose = session.purpose.as_ref();
    let task_name = purpose
        .and_then(|purpose| purpose.scope.task())
        .map(|(task, _)| task.as_str());
    // A project context that was gathered after the import is newer than the imported one.
    let is_newer = |at| {
        let imported_at = session.extra_fields.imported_at;
        imported_fields.is_empty() || imported_at.is_none_or(|imported_at| at > imported_at)
    };
    let gathered = session.context.as_ref();
    let gathered = gathered.filter(|gathered| is_newer(gathered.at));
    let no_fields = Object::new();
    let imported = match gathered {
        Some(_) => &no_fields,
        None => imported_fields,
    };
    let project_context = gathered.map(|gathered| &gathered.context);
    let project = imported.get("project").cloned().unwrap_or_else(|| {
        context::render_project(project_context.unwrap_or(&ProjectContext::default()))
    });
    let feature = imported
        .get("feature")
        .cloned()
        .or_else(|| context::render_feature(project_context?))
        .or_else(|| Some(json!({ "name": links.feature?.as_str(), "tasks": render_tasks(links) })));
    let default_task = |task: &str| json!({ "title": task, "description": "", "dependencies": [], "dependents": [] });
    let task = imported
        .get("task")
        .cloned()
        .or_else(|| context::render_task(project_context?))
        .or_else(|| task_name.map(default_task));
    let updated_at = parse_time(imported.get("updatedAt"))
        .or(gathered.map(|gathered| gathered.at))
        .unwrap_or(session.updated_at);
    let tokens = integer_field(imported, "tokens")
        .or(gathered.map(|gathered| gathered.tokens))
        .unwrap_or_else(|| {
            let parts = [Some(&project), feature.as_ref(), task.as_ref()];
            let parts = parts.into_iter().flatten().map(ToString::to_string);
            count_tokens(&parts.collect::<Vec<_>>().join("\n"))
        });
    let session_type = DagentSessionType::for_purpose(purpose).as_str();
    let feature_id = links.feature.map_or("", |feature| feature.as_str());
    let fields = [
        field("sessionId", session.name.as_str()),
        field("type", session_type),
        field("featureId", feature_id),
        ("taskId", task_name.map(Value::from)),
        field("project", project),
        ("feature", feature),
        ("task", task),
        field("updatedAt", format_iso_time(updated_at)),
        field("tokens", tokens),
        field("segue", render_segue_fields(session)),
    ];
    render_json(&merge_imported_fields(fields, imported_fields))
}

/// Renders the properties of a session that the other fields cannot express.
fn render_segue_fields(session: &PortableSession) -> Value {
    let purpose = session.purpose.as_ref();
    let role = purpose.and_then(|purpose| purpose.role.as_ref());
    let task = purpose.and_then(|purpose| purpose.scope.task());
    let title = session.title.as_ref();
    let tags: Vec<&str> = session.tags.iter().map(Tag::as_str).collect();
    let scope = match purpose.map(|purpose| &purpose.scope) {
        None => "none",
        Some(Scope::Project) => "project",
        Some(Scope::Feature(_)) => "feature",
        Some(Scope::Task { .. }) => "task",
    };
    let text = |text: &str| Value::from(text);
    let provider = session.provider.as_ref();
    let fields = [
        field("scope", scope),
        ("state", task.map(|(_, state)| text(state.as_str()))),
        ("role", role.map(|role| text(role.as_str()))),
        ("title", title.map(|title| text(title.as_str()))),
        (
            "titleFrom",
            title.map(|title| text(title.source().as_str())),
        ),
        ("provider", provider.map(|provider| text(provider.as_str()))),
        ("tags", (!tags.is_empty()).then(|| tags.into())),
    ];
    merge_imported_fields(fields, &Object::new()).into()
}

/// Renders the tasks of a feature that have sessions.
fn render_tasks(links: &FeatureLinks<'_, PortableSession>) -> Value {
    let tasks = links.tasks.values().map(|task| {
        let state = task.current_state().map(TaskState::as_str);
        json!({ "id": task.task.as_str(), "title": task.task.as_str(), "status": state })
    });
    tasks.collect()
}

fn render_agent(session: &PortableSession, count_tokens: &dyn Fn(&str) -> u64) -> String {
    let purpose = session.purpose.as_ref();
    let role_name = purpose
        .and_then(|purpose: &Purpose| purpose.role.as_ref())
        .map_or_else(
            || DagentSessionType::for_purpose(purpose).role(),
            RoleName::as_str,
        );
    let no_fields = Object::new();
    let imported = match string_field(&session.extra_fields.agent, &["agentType"]) {
        Some(agent_type) if agent_type == role_name => &session.extra_fields.agent,
        _ => &no_fields,
    };
    let role = session.role.as_ref();
    // A later version of dagent names this field `roleInstructions`.
    let role_text = role
        .map(|role| role.description.as_str())
        .or(string_field(imported, &["roleInstructions"]));
    let instructions = role.map_or(&[][..], |role| &role.instructions);
    let tools = role.and_then(|role| role.allowed_tools.as_deref());
    let tool_instructions = role.and_then(|role| role.tool_instructions.as_deref());
    let created_at = parse_time(imported.get("createdAt")).unwrap_or(session.created_at);
    let tokens = integer_field(imported, "tokens");
    let tokens = tokens.unwrap_or_else(|| role.map_or(0, |role| count_tokens(&role.render())));
    let tool_instructions = imported
        .get("toolInstructions")
        .cloned()
        .or(tool_instructions.map(Value::from));
    let fields = [
        field("sessionId", session.name.as_str()),
        field("agentType", role_name),
        imported_or(imported, "role", role_text.unwrap_or_default()),
        imported_or(imported, "instructions", instructions),
        imported_or(imported, "allowedTools", tools.unwrap_or_default()),
        ("toolInstructions", tool_instructions),
        field("createdAt", format_iso_time(created_at)),
        field("tokens", tokens),
    ];
    render_json(&merge_imported_fields(fields, imported))
}

/// Returns a field as it was imported, or with a default value.
fn imported_or<'a>(
    imported: &Object,
    name: &'a str,
    default: impl Into<Value>,
) -> (&'a str, Option<Value>) {
    let value = imported.get(name).cloned();
    field(name, value.unwrap_or_else(|| default.into()))
}

/// Returns `true` if all sessions were imported and none was changed since then. The imported references to the current
/// session or state are then still valid.
fn is_unchanged_since_import(sessions: &[&PortableSession]) -> bool {
    sessions.iter().all(|session| {
        let imported_at = session.extra_fields.imported_at;
        imported_at.is_some_and(|imported_at| session.updated_at <= imported_at)
    })
}

/// Returns the stored fields of a file that several sessions share: those of the session that was imported last. Empty
/// if no session has any.
fn latest_imported_fields<'a>(
    sessions: &[&'a PortableSession],
    select_fields: impl Fn(&'a PortableSession) -> &'a Object,
) -> Object {
    let candidates = sessions
        .iter()
        .filter(|session| !select_fields(session).is_empty());
    candidates
        .max_by_key(|session| session.extra_fields.imported_at)
        .map(|session| select_fields(session).clone())
        .unwrap_or_default()
}

fn list_task_sessions<'a>(task: &TaskLinks<'a, PortableSession>) -> Vec<&'a PortableSession> {
    task.states.values().flatten().copied().collect()
}

fn render_feature(links: &FeatureLinks<'_, PortableSession>) -> Option<String> {
    let id = links.feature?.as_str();
    let mut sessions = links.sessions.clone();
    sessions.extend(links.tasks.values().flat_map(list_task_sessions));
    let imported = latest_imported_fields(&sessions, |session| &session.extra_fields.feature);
    let imported_session_id = string_field(&imported, &["sessionId"])
        .filter(|_| is_unchanged_since_import(&links.sessions));
    let active_session_id = links.active_session().map(|session| session.name.as_str());
    let created_at = sessions.iter().map(|session| session.created_at).min();
    let updated_at = sessions
        .iter()
        .map(|session| session.updated_at)
        .chain(parse_time(imported.get("updatedAt")))
        .max();
    let session_id = imported_session_id.or(active_session_id);
    let created_at = created_at.map(format_iso_time);
    let updated_at = updated_at.map(format_iso_time);
    let fields = [
        field("id", id),
        imported_or(&imported, "name", id),
        ("sessionId", session_id.map(Value::from)),
        imported_or(&imported, "createdAt", created_at),
        field("updatedAt", updated_at.unwrap_or_default()),
    ];
    Some(render_json(&merge_imported_fields(fields, &imported)))
}

fn render_task(task: &TaskLinks<'_, PortableSession>) -> String {
    let sessions = list_task_sessions(task);
    let imported = latest_imported_fields(&sessions, |session| &session.extra_fields.task);
    // A state stays even if it has no session, and retains its other fields.
    let mut states: BTreeMap<&str, (Vec<&str>, Object)> = BTreeMap::new();
    for (name, value) in object_field(&imported, "states").into_iter().flatten() {
        let state = states.entry(name).or_default();
        state.1 = value.as_object().cloned().unwrap_or_default();
    }
    for (state, sessions) in &task.states {
        let names = sessions.iter().map(|session| session.name.as_str());
        states.entry(state.as_str()).or_default().0 = names.collect();
    }
    let states: Object = states
        .into_iter()
        .map(|(name, (session_ids, imported))| {
            let fields = [field("sessionIds", session_ids)];
            let state = merge_imported_fields(fields, &imported);
            (name.to_owned(), state.into())
        })
        .collect();
    let current_state = string_field(&imported, &["currentState"])
        .filter(|_| is_unchanged_since_import(&sessions))
        .or(task.current_state().map(TaskState::as_str));
    let fields = [
        field("id", task.task.as_str()),
        field("states", states),
        field("currentState", current_state.unwrap_or_default()),
    ];
    render_json(&merge_imported_fields(fields, &imported))
}
