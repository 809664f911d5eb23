//! Writing of sessions to files of the dagent layout.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use segue_core::brief::ProjectContext;
use segue_core::id::ProviderId;
use segue_core::scope::{
    FeatureLinks, Purpose, RoleName, Scope, TaskLinks, TaskState, group_by_feature,
};
use segue_core::session::{Tag, Title};
use serde_json::{Map, Value, json};

use super::DagentFileKind;
use super::context;
use super::schema::{
    DagentAgent, DagentChat, DagentCheckpoint, DagentContext as ContextFile, DagentFeature,
    DagentMessage, DagentMetadata, DagentSegueFields, DagentTask, DagentTaskState, DagentTokens,
};
use super::session_type::DagentSessionType;
use super::summary::{encode_items, render_summary, to_dagent_loop};
use crate::json_fields::{
    format_iso_time, integer_field, object_field, parse_time, render_json, string_field,
    without_fields,
};
use crate::{PortableMessage, PortableSession};

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
        if let Some(text) = render_feature(&links) {
            files.insert(format!("{folder}/feature.json"), text);
        }
        for session in &links.sessions {
            add_session_files(
                &mut files,
                &format!("{folder}/sessions"),
                session,
                &links,
                count_tokens,
            );
        }
        for task in links.tasks.values() {
            let node = format!("{folder}/nodes/{}", task.task);
            files.insert(format!("{node}/task.json"), render_task(task));
            for session in task.states.iter().flat_map(|(_, sessions)| sessions) {
                add_session_files(
                    &mut files,
                    &format!("{node}/sessions"),
                    session,
                    &links,
                    count_tokens,
                );
            }
        }
    }
    files
}

fn add_session_files(
    files: &mut BTreeMap<String, String>,
    directory: &str,
    session: &PortableSession,
    links: &FeatureLinks<'_, PortableSession>,
    count_tokens: &dyn Fn(&str) -> u64,
) {
    let mut add_file = |kind: DagentFileKind, text: String| {
        files.insert(
            format!("{directory}/{}", kind.file_name(&session.name)),
            text,
        );
    };
    add_file(DagentFileKind::Chat, render_chat(session, count_tokens));
    if !session.compacted_messages.is_empty() {
        add_file(DagentFileKind::Archive, render_archive(session));
    }
    add_file(DagentFileKind::Checkpoint, render_checkpoint_file(session));
    add_file(
        DagentFileKind::Context,
        render_context(session, links, count_tokens),
    );
    add_file(DagentFileKind::Agent, render_agent(session, count_tokens));
    if !session.extra_fields.session.is_empty() {
        add_file(
            DagentFileKind::Session,
            render_json(&session.extra_fields.session),
        );
    }
}

fn to_dagent_message(message: &PortableMessage) -> DagentMessage<'_> {
    DagentMessage {
        id: &message.id,
        timestamp: format_iso_time(message.at),
        role: message.role.as_str(),
        content: &message.text,
        tokens: message.tokens,
        extra_fields: &message.extra_fields,
    }
}

fn render_chat(session: &PortableSession, count_tokens: &dyn Fn(&str) -> u64) -> String {
    let messages: Vec<DagentMessage<'_>> = session.messages.iter().map(to_dagent_message).collect();
    let imported = &session.extra_fields.chat;
    let written_fields = ["createdAt", "updatedAt", "messageCount", "tokenCount"];
    let extra_metadata = object_field(imported, "metadata")
        .map(|metadata| without_fields(metadata, &written_fields));
    // A message that was imported without a token count is written without one, but the total includes it.
    let message_tokens = |message: &DagentMessage<'_>| {
        message
            .tokens
            .unwrap_or_else(|| count_tokens(message.content))
    };
    let metadata = DagentMetadata {
        created_at: format_iso_time(session.created_at),
        updated_at: format_iso_time(session.updated_at),
        message_count: messages.len(),
        token_count: messages.iter().map(message_tokens).sum(),
        extra_fields: extra_metadata.unwrap_or_default(),
    };
    render_json(&DagentChat {
        session_id: &session.name,
        messages,
        metadata,
        extra_fields: without_fields(imported, &["sessionId", "messages", "metadata"]),
    })
}

fn render_archive(session: &PortableSession) -> String {
    let mut text = String::new();
    for message in &session.compacted_messages {
        let line = serde_json::to_string(&to_dagent_message(message)).unwrap_or_default();
        let _ = writeln!(text, "{line}");
    }
    text
}

fn render_checkpoint_file(session: &PortableSession) -> String {
    let imported = &session.extra_fields.checkpoint;
    let written_fields = [
        "sessionId",
        "version",
        "createdAt",
        "updatedAt",
        "summary",
        "ralphLoop",
        "tokens",
        "segue",
    ];
    let extra_fields = without_fields(imported, &written_fields);
    let imported_time = |name: &str| parse_time(imported.get(name)).unwrap_or(session.created_at);
    let Some(checkpoint) = &session.checkpoint else {
        return render_json(&DagentCheckpoint {
            session_id: &session.name,
            version: integer_field(imported, "version").unwrap_or(0),
            created_at: format_iso_time(imported_time("createdAt")),
            updated_at: format_iso_time(imported_time("updatedAt")),
            summary: super::schema::DagentSummary::default(),
            ralph_loop: None,
            tokens: DagentTokens::default(),
            segue: None,
            extra_fields,
        });
    };
    render_json(&DagentCheckpoint {
        session_id: &session.name,
        version: checkpoint.version,
        created_at: format_iso_time(checkpoint.created_at),
        updated_at: format_iso_time(checkpoint.updated_at),
        summary: render_summary(&checkpoint.content),
        ralph_loop: checkpoint.content.loop_state.as_ref().map(to_dagent_loop),
        tokens: DagentTokens {
            checkpoint: checkpoint.tokens,
            last_compaction_input: checkpoint.last_compaction_tokens.unwrap_or(0),
            total_saved: checkpoint.saved_tokens,
        },
        segue: encode_items(&checkpoint.content),
        extra_fields,
    })
}

fn render_context(
    session: &PortableSession,
    links: &FeatureLinks<'_, PortableSession>,
    count_tokens: &dyn Fn(&str) -> u64,
) -> String {
    let imported = &session.extra_fields.context;
    let purpose = session.purpose.as_ref();
    let scope = purpose.map(|purpose| &purpose.scope);
    let task = scope.and_then(Scope::task);
    let written_fields = [
        "sessionId",
        "type",
        "featureId",
        "taskId",
        "project",
        "feature",
        "task",
        "updatedAt",
        "tokens",
        "segue",
    ];
    // A project context that was gathered after the import is newer than the imported one.
    let imported_at = session
        .extra_fields
        .imported_at
        .filter(|_| !imported.is_empty());
    let gathered = session.context.as_ref();
    let gathered =
        gathered.filter(|gathered| imported_at.is_none_or(|imported_at| gathered.at > imported_at));
    let empty = Map::new();
    let imported = if gathered.is_some() { &empty } else { imported };
    let project_context = gathered.map(|gathered| &gathered.context);
    let project = imported.get("project").cloned();
    let project = project.unwrap_or_else(|| {
        context::render_project(project_context.unwrap_or(&ProjectContext::default()))
    });
    let default_feature =
        || Some(json!({ "name": links.feature?.as_str(), "tasks": render_tasks(links) }));
    let feature = project_context.and_then(context::render_feature);
    let feature = imported
        .get("feature")
        .cloned()
        .or(feature)
        .or_else(default_feature);
    let default_task = || {
        let (task, _) = task?;
        Some(
            json!({ "title": task.as_str(), "description": "", "dependencies": [], "dependents": [] }),
        )
    };
    let task_context = project_context.and_then(context::render_task);
    let task_context = imported
        .get("task")
        .cloned()
        .or(task_context)
        .or_else(default_task);
    let gathered_at = gathered.map(|gathered| gathered.at);
    let updated_at = parse_time(imported.get("updatedAt")).or(gathered_at);
    let tokens = integer_field(imported, "tokens").or(gathered.map(|gathered| gathered.tokens));
    let count_context_tokens = || {
        let parts = [Some(&project), feature.as_ref(), task_context.as_ref()];
        let parts = parts.into_iter().flatten().map(ToString::to_string);
        count_tokens(&parts.collect::<Vec<_>>().join("\n"))
    };
    render_json(&ContextFile {
        session_id: &session.name,
        session_type: DagentSessionType::for_purpose(purpose).as_str(),
        feature_id: links.feature.map_or("", |feature| feature.as_str()),
        task_id: task.map(|(task, _)| task.as_str()),
        updated_at: format_iso_time(updated_at.unwrap_or(session.updated_at)),
        tokens: tokens.unwrap_or_else(count_context_tokens),
        segue: segue_fields(session),
        extra_fields: without_fields(&session.extra_fields.context, &written_fields),
        project,
        feature,
        task: task_context,
    })
}

fn segue_fields(session: &PortableSession) -> DagentSegueFields<'_> {
    let purpose = session.purpose.as_ref();
    let role = purpose.and_then(|purpose| purpose.role.as_ref());
    let task = purpose.and_then(|purpose| purpose.scope.task());
    DagentSegueFields {
        scope: match purpose.map(|purpose| &purpose.scope) {
            None => "none",
            Some(Scope::Project) => "project",
            Some(Scope::Feature(_)) => "feature",
            Some(Scope::Task { .. }) => "task",
        },
        state: task.map(|(_, state)| state.as_str()),
        role: role.map(RoleName::as_str),
        title: session.title.as_ref().map(Title::as_str),
        title_from: session.title.as_ref().map(|title| title.source().as_str()),
        provider: session.provider.as_ref().map(ProviderId::as_str),
        tags: session.tags.iter().map(Tag::as_str).collect(),
    }
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
    let role = purpose.and_then(|purpose: &Purpose| purpose.role.as_ref());
    let role_name = role.map_or_else(
        || DagentSessionType::for_purpose(purpose).role(),
        RoleName::as_str,
    );
    let is_same_agent_type =
        string_field(&session.extra_fields.agent, &["agentType"]) == Some(role_name);
    let empty = Map::new();
    let imported = if is_same_agent_type {
        &session.extra_fields.agent
    } else {
        &empty
    };
    let written_fields = [
        "sessionId",
        "agentType",
        "role",
        "instructions",
        "allowedTools",
        "toolInstructions",
        "createdAt",
        "tokens",
    ];
    let description = session.role.as_ref();
    let imported_or =
        |name: &str, fallback: Option<Value>| imported.get(name).cloned().or(fallback);
    let tools = description
        .and_then(|description| description.allowed_tools.clone())
        .unwrap_or_default();
    // A later version of dagent names this field `roleInstructions`.
    let role_text = description
        .map(|description| description.description.as_str())
        .or(string_field(imported, &["roleInstructions"]));
    render_json(&DagentAgent {
        session_id: &session.name,
        agent_type: role_name,
        role: imported_or("role", role_text.map(Value::from)).unwrap_or_else(|| "".into()),
        instructions: imported_or(
            "instructions",
            description.map(|description| description.instructions.clone().into()),
        )
        .unwrap_or_else(|| json!([])),
        allowed_tools: imported_or("allowedTools", Some(tools.into())).unwrap_or_else(|| json!([])),
        tool_instructions: imported_or(
            "toolInstructions",
            description
                .and_then(|description| description.tool_instructions.clone())
                .map(Value::from),
        ),
        created_at: format_iso_time(
            parse_time(imported.get("createdAt")).unwrap_or(session.created_at),
        ),
        tokens: integer_field(imported, "tokens").unwrap_or_else(|| {
            description.map_or(0, |description| count_tokens(&description.render()))
        }),
        extra_fields: without_fields(imported, &written_fields),
    })
}

/// Returns `true` if all sessions were imported and none was changed since then. The imported references to the current
/// session or state are then still valid.
fn is_unchanged_since_import(sessions: &[&PortableSession]) -> bool {
    sessions.iter().all(|session| {
        let imported_at = session.extra_fields.imported_at;
        imported_at.is_some_and(|imported_at| session.updated_at <= imported_at)
    })
}

/// Returns the stored fields of a file that several sessions share: those of the session that was imported last.
fn latest_imported_fields<'a>(
    sessions: &[&'a PortableSession],
    select_fields: impl Fn(&'a PortableSession) -> &'a Map<String, Value>,
) -> Option<&'a Map<String, Value>> {
    let candidates = sessions
        .iter()
        .filter(|session| !select_fields(session).is_empty());
    candidates
        .max_by_key(|session| session.extra_fields.imported_at)
        .map(|session| select_fields(session))
}

fn list_all_sessions<'a>(links: &FeatureLinks<'a, PortableSession>) -> Vec<&'a PortableSession> {
    let in_tasks = links.tasks.values().flat_map(list_task_sessions);
    links.sessions.iter().copied().chain(in_tasks).collect()
}

fn list_task_sessions<'a>(task: &TaskLinks<'a, PortableSession>) -> Vec<&'a PortableSession> {
    let sessions = task.states.iter().flat_map(|(_, sessions)| sessions);
    sessions.copied().collect()
}

fn render_feature(links: &FeatureLinks<'_, PortableSession>) -> Option<String> {
    let id = links.feature?;
    let sessions = list_all_sessions(links);
    let empty = Map::new();
    let imported = latest_imported_fields(&sessions, |session| &session.extra_fields.feature)
        .unwrap_or(&empty);
    let imported_session_id = string_field(imported, &["sessionId"])
        .filter(|_| is_unchanged_since_import(&links.sessions));
    let active_session_id = links.active_session().map(|session| session.name.as_str());
    let update_times = || sessions.iter().map(|session| session.updated_at);
    let created_at: Option<Timestamp> = sessions.iter().map(|session| session.created_at).min();
    let written_fields = ["id", "name", "sessionId", "createdAt", "updatedAt"];
    let updated_at = parse_time(imported.get("updatedAt"))
        .into_iter()
        .chain(update_times())
        .max();
    Some(render_json(&DagentFeature {
        id: id.as_str(),
        name: imported
            .get("name")
            .cloned()
            .unwrap_or_else(|| id.as_str().into()),
        session_id: imported_session_id.or(active_session_id),
        created_at: imported
            .get("createdAt")
            .cloned()
            .unwrap_or_else(|| created_at.map(format_iso_time).into()),
        updated_at: updated_at.map(format_iso_time).unwrap_or_default(),
        extra_fields: without_fields(imported, &written_fields),
    }))
}

fn render_task(task: &TaskLinks<'_, PortableSession>) -> String {
    let sessions = list_task_sessions(task);
    let empty = Map::new();
    let imported =
        latest_imported_fields(&sessions, |session| &session.extra_fields.task).unwrap_or(&empty);
    let mut states: BTreeMap<String, DagentTaskState> = BTreeMap::new();
    // A state stays even if it has no session, and retains its other fields.
    for (name, value) in object_field(imported, "states").into_iter().flatten() {
        let extra_fields = value
            .as_object()
            .map(|value| without_fields(value, &["sessionIds"]));
        let state = states.entry(name.clone()).or_default();
        state.extra_fields = extra_fields.unwrap_or_default();
    }
    for (name, sessions) in &task.states {
        let state = states.entry(name.to_string()).or_default();
        let names = sessions.iter().map(|session| session.name.clone());
        state.session_ids = names.collect();
    }
    let imported_state =
        string_field(imported, &["currentState"]).filter(|_| is_unchanged_since_import(&sessions));
    let current_state = task.current_state().map(TaskState::as_str);
    render_json(&DagentTask {
        id: task.task.as_str(),
        current_state: imported_state
            .or(current_state)
            .unwrap_or_default()
            .to_owned(),
        states,
        extra_fields: without_fields(imported, &["id", "states", "currentState"]),
    })
}
