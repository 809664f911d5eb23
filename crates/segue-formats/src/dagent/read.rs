//! Reading of sessions from files of the dagent layout.

use std::collections::BTreeMap;

use jiff::Timestamp;
use segue_core::id::{FeatureId, ProviderId};
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};
use segue_core::session::{Tag, Title, TitleSource};
use serde_json::{Map, Value};

use super::DagentFileKind;
use super::session_type::{DagentSessionType, StatedPurpose};
use super::summary;
use super::warnings;
use crate::extra_fields::parse_role;
use crate::json_fields::{
    content_text, describe_type, integer_field, message_time, non_text_parts, object_field,
    parse_object, parse_time, string_field, strip_byte_order_mark, without_fields,
};
use crate::portable::TEXTLESS_FIELD;
use crate::{ExtraFields, ParsedSession, PortableCheckpoint, PortableMessage, PortableSession};

type Object = Map<String, Value>;

/// A `.dagent` folder with the files of its sessions.
#[derive(Debug, Clone, Default)]
pub struct DagentFolder {
    /// Name of the feature, if the folder's location shows it.
    pub feature: Option<String>,
    /// Content of each file, or the reason why it cannot be read. The key is the path in the folder, with `/`.
    pub files: BTreeMap<String, Result<String, String>>,
}

/// Result of reading a folder.
#[derive(Debug, Clone, Default)]
pub struct ParsedDagentFolder {
    /// Sessions, in the order of their paths.
    pub sessions: Vec<ParsedSession>,
    /// Remarks about the folder itself.
    pub remarks: Vec<String>,
}

/// A directory in the folder that contains sessions: the feature's or a task's.
struct DagentSessionDir<'a> {
    /// Path in the folder; empty, or ends with `/`.
    path: String,
    feature: &'a Object,
    feature_id: Option<&'a FeatureId>,
    task: Object,
    task_id: Option<TaskId>,
}

/// Reads a folder. `now` replaces times that no file states.
#[must_use]
pub fn parse_folder(folder: &DagentFolder, now: Timestamp) -> ParsedDagentFolder {
    let mut parsed = ParsedDagentFolder::default();
    let feature = parse_file(folder, "feature.json", &mut parsed.remarks);
    let feature_name = string_field(&feature, &["id"]).or(folder.feature.as_deref());
    let feature_id = feature_name.and_then(|name| FeatureId::parse(name).ok());
    let mut session_dirs = vec![DagentSessionDir {
        path: String::new(),
        feature: &feature,
        feature_id: feature_id.as_ref(),
        task: Object::new(),
        task_id: None,
    }];
    for dir_name in list_task_dirs(folder) {
        let path = format!("nodes/{dir_name}/");
        let task = parse_file(folder, &format!("{path}task.json"), &mut parsed.remarks);
        let task_name = string_field(&task, &["id"]).unwrap_or(dir_name);
        let task_id = TaskId::parse(task_name).or_else(|_| TaskId::parse(dir_name));
        session_dirs.push(DagentSessionDir {
            path,
            feature: &feature,
            feature_id: feature_id.as_ref(),
            task,
            task_id: task_id.ok(),
        });
    }
    for session_dir in &session_dirs {
        let files = group_session_files(folder, session_dir);
        warnings::check_links(
            &session_dir.path,
            session_dir.feature,
            &session_dir.task,
            &mut parsed.remarks,
        );
        check_linked_sessions(session_dir, &files, &mut parsed.remarks);
        for (id, files) in files {
            parsed
                .sessions
                .push(parse_session(folder, session_dir, id, &files, now));
        }
    }
    parsed
}

/// Returns the names of all tasks that have a directory in the folder.
fn list_task_dirs(folder: &DagentFolder) -> Vec<&str> {
    let nodes = folder
        .files
        .keys()
        .filter_map(|path| path.strip_prefix("nodes/"));
    let mut names: Vec<&str> = nodes
        .filter_map(|node_path| Some(node_path.split_once('/')?.0))
        .collect();
    names.dedup();
    names
}

/// Returns the object in a file; empty if the file does not exist. If the file cannot be used, adds a remark and
/// returns an empty object.
fn parse_file(folder: &DagentFolder, path: &str, remarks: &mut Vec<String>) -> Object {
    let Some(content) = folder.files.get(path) else {
        return Object::new();
    };
    let content = content.as_ref().map_err(Clone::clone);
    content
        .and_then(|text| parse_object(text))
        .unwrap_or_else(|reason| {
            remarks.push(format!("{path} cannot be read: {reason}"));
            Object::new()
        })
}

/// Returns the sessions in a directory, each with the paths of its files.
fn group_session_files<'a>(
    folder: &'a DagentFolder,
    session_dir: &DagentSessionDir<'_>,
) -> BTreeMap<&'a str, BTreeMap<DagentFileKind, &'a str>> {
    let directory = format!("{}sessions/", session_dir.path);
    let mut sessions: BTreeMap<&str, BTreeMap<DagentFileKind, &str>> = BTreeMap::new();
    for path in folder.files.keys() {
        let name = path
            .strip_prefix(&directory)
            .filter(|name| !name.contains('/'));
        if let Some((kind, id)) = name.and_then(DagentFileKind::parse_name) {
            sessions.entry(id).or_default().entry(kind).or_insert(path);
        }
    }
    sessions
}

/// Adds a remark for each linked session that has no file.
fn check_linked_sessions(
    session_dir: &DagentSessionDir<'_>,
    files: &BTreeMap<&str, BTreeMap<DagentFileKind, &str>>,
    remarks: &mut Vec<String>,
) {
    let feature_session =
        string_field(session_dir.feature, &["sessionId"]).filter(|_| session_dir.path.is_empty());
    let task_sessions = list_task_states(&session_dir.task).flat_map(|(_, ids)| ids);
    for id in feature_session.into_iter().chain(task_sessions) {
        if !files.contains_key(id) {
            let linking_file = if session_dir.path.is_empty() {
                "feature.json".to_owned()
            } else {
                format!("{}task.json", session_dir.path)
            };
            remarks.push(format!(
                "{linking_file} refers to session {id}, which has no file"
            ));
        }
    }
}

/// Returns the states of a task with the ids of their sessions.
fn list_task_states(task: &Object) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let states = object_field(task, "states").into_iter().flatten();
    states.map(|(state, value)| {
        let ids = value.get("sessionIds").and_then(Value::as_array);
        let ids = ids.into_iter().flatten().filter_map(Value::as_str);
        (state.as_str(), ids.collect())
    })
}

fn parse_session(
    folder: &DagentFolder,
    session_dir: &DagentSessionDir<'_>,
    id: &str,
    files: &BTreeMap<DagentFileKind, &str>,
    now: Timestamp,
) -> ParsedSession {
    let mut remarks = Vec::new();
    let path = files
        .values()
        .next()
        .copied()
        .unwrap_or_default()
        .to_owned();
    let session = parse_portable_session(folder, session_dir, id, files, now, &mut remarks);
    ParsedSession {
        name: id.to_owned(),
        path,
        session: session.map(Box::new),
        remarks,
    }
}

fn parse_portable_session(
    folder: &DagentFolder,
    session_dir: &DagentSessionDir<'_>,
    id: &str,
    files: &BTreeMap<DagentFileKind, &str>,
    now: Timestamp,
    remarks: &mut Vec<String>,
) -> Result<PortableSession, String> {
    let chat = parse_chat_file(folder, id, files, remarks)?;
    let mut parse_kind = |kind: DagentFileKind| {
        let path = files.get(&kind).copied();
        path.map(|path| parse_file(folder, path, remarks))
            .unwrap_or_default()
    };
    let checkpoint = parse_kind(DagentFileKind::Checkpoint);
    let context = parse_kind(DagentFileKind::Context);
    let agent = parse_kind(DagentFileKind::Agent);
    let session_file = parse_kind(DagentFileKind::Session);
    let path_of_kind = |kind: DagentFileKind| files.get(&kind).copied().unwrap_or_default();
    let parsed_files = [
        (path_of_kind(DagentFileKind::Chat), &chat),
        (path_of_kind(DagentFileKind::Checkpoint), &checkpoint),
        (path_of_kind(DagentFileKind::Context), &context),
        (path_of_kind(DagentFileKind::Agent), &agent),
    ];
    warnings::check_session_ids(id, &parsed_files, remarks);
    warnings::check_session_type(path_of_kind(DagentFileKind::Context), &context, remarks);
    let metadata = object_field(&chat, "metadata");
    let stated_time = |name: &str| {
        let chat_time = parse_time(metadata.and_then(|metadata| metadata.get(name)));
        chat_time.or_else(|| parse_time(session_file.get(name)))
    };
    let created = stated_time("createdAt")
        .or_else(|| parse_time(agent.get("createdAt")))
        .or_else(|| parse_time(checkpoint.get("createdAt")));
    let compacted_messages = read_archive(folder, files, created.unwrap_or(now), remarks);
    let start_time = compacted_messages
        .last()
        .map(|message| message.at)
        .or(created)
        .unwrap_or(now);
    let messages = parse_messages(&chat, start_time, remarks)?;
    let message_times = || {
        compacted_messages
            .iter()
            .chain(&messages)
            .map(|message| message.at)
    };
    let created_at = created.or_else(|| message_times().min()).unwrap_or(now);
    let updated_at = stated_time("updatedAt").or_else(|| message_times().max());
    let portable_checkpoint =
        parse_checkpoint(&checkpoint, compacted_messages.len(), created_at, remarks);
    let segue_fields = object_field(&context, "segue");
    let title = segue_fields.and_then(parse_title);
    let provider = segue_fields
        .and_then(|fields| ProviderId::parse(string_field(fields, &["provider"])?).ok());
    let purpose = parse_purpose(session_dir, id, &context, &agent, &session_file);
    Ok(PortableSession {
        name: id.to_owned(),
        title,
        purpose,
        provider,
        tags: segue_fields.map(parse_tags).unwrap_or_default(),
        created_at,
        updated_at: updated_at.unwrap_or(created_at).max(created_at),
        compacted_messages,
        messages,
        checkpoint: portable_checkpoint,
        role: None,
        context: None,
        extra_fields: ExtraFields {
            chat: without_fields(&chat, &["messages"]),
            checkpoint: without_fields(&checkpoint, &["summary", "segue", "ralphLoop"]),
            context: without_fields(&context, &["segue"]),
            agent,
            session: session_file,
            feature: session_dir.feature.clone(),
            task: session_dir.task.clone(),
            ..ExtraFields::default()
        },
    })
}

/// Parses the chat file of a session. A missing file is like an empty one, with a remark.
fn parse_chat_file(
    folder: &DagentFolder,
    id: &str,
    files: &BTreeMap<DagentFileKind, &str>,
    remarks: &mut Vec<String>,
) -> Result<Object, String> {
    let Some(path) = files.get(&DagentFileKind::Chat) else {
        remarks.push(format!("{} not found", DagentFileKind::Chat.file_name(id)));
        return Ok(Object::new());
    };
    match folder.files.get(*path) {
        Some(Ok(text)) => parse_object(text),
        Some(Err(reason)) => Err(reason.clone()),
        None => Ok(Object::new()),
    }
}

/// Reads the messages of a chat file. A message that cannot be read is omitted, with a remark.
fn parse_messages(
    chat: &Object,
    start_time: Timestamp,
    remarks: &mut Vec<String>,
) -> Result<Vec<PortableMessage>, String> {
    let values = match chat.get("messages") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(values)) => values,
        Some(value) => {
            return Err(format!(
                "field `messages` is {}, not a list",
                describe_type(value)
            ));
        }
    };
    let mut last_time = start_time;
    let mut messages = Vec::with_capacity(values.len());
    for (n, entry) in (1..).zip(values) {
        match parse_message(entry, last_time) {
            Ok((message, remark)) => {
                remarks.extend(remark.map(|remark| format!("message {n} {remark}")));
                last_time = message.at;
                messages.push(message);
            }
            Err(reason) => remarks.push(format!("message {n} was omitted: {reason}")),
        }
    }
    Ok(messages)
}

/// Reads the messages before the checkpoint from the archive file; empty if that does not exist.
fn read_archive(
    folder: &DagentFolder,
    files: &BTreeMap<DagentFileKind, &str>,
    start_time: Timestamp,
    remarks: &mut Vec<String>,
) -> Vec<PortableMessage> {
    let archive = files.get(&DagentFileKind::Archive);
    match archive.and_then(|path| folder.files.get(*path)) {
        Some(Ok(text)) => parse_archive(text, start_time, remarks),
        Some(Err(reason)) => {
            remarks.push(format!(
                "the messages before the checkpoint were omitted: {reason}"
            ));
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// Parses the archive, which has one message per line.
fn parse_archive(
    text: &str,
    start_time: Timestamp,
    remarks: &mut Vec<String>,
) -> Vec<PortableMessage> {
    let mut last_time = start_time;
    let mut messages = Vec::new();
    for (n, text) in (1..).zip(strip_byte_order_mark(text).lines()) {
        let entry = serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"));
        match entry.and_then(|entry| parse_message(&entry, last_time)) {
            Ok((message, _)) => {
                last_time = message.at;
                messages.push(message);
            }
            Err(reason) => {
                remarks.push(format!("message {n} of the archive was omitted: {reason}"));
            }
        }
    }
    messages
}

/// Parses a message. Returns a remark if its time is assumed.
fn parse_message(
    value: &Value,
    previous_time: Timestamp,
) -> Result<(PortableMessage, Option<String>), String> {
    let Some(object) = value.as_object() else {
        return Err(format!("it is {}, not an object", describe_type(value)));
    };
    let role = string_field(object, &["role"]).ok_or("it has no role")?;
    let role = parse_role(role).ok_or_else(|| format!("unknown role {role:?}"))?;
    // A prompt that segue exported may consist of images only. It is a prompt although it has no text.
    let is_textless = object.get(TEXTLESS_FIELD) == Some(&Value::Bool(true));
    let content = content_text(object, &["content"]).or_else(|| is_textless.then(String::new));
    let content = content.ok_or("it has no text")?;
    let at = message_time(object);
    let mut extra_fields =
        without_fields(object, &["id", "timestamp", "role", "content", "tokens"]);
    extra_fields.extend(non_text_parts(object, "content").map(|parts| ("parts".to_owned(), parts)));
    let portable_message = PortableMessage {
        id: string_field(object, &["id"]).unwrap_or_default().to_owned(),
        at: *at.as_ref().unwrap_or(&previous_time),
        has_stated_time: at.is_ok(),
        role,
        text: content,
        tokens: integer_field(object, "tokens"),
        extra_fields,
        is_imported: true,
    };
    let time_error = at.err();
    Ok((
        portable_message,
        time_error.map(|reason| format!("{reason}; used the time of the previous message")),
    ))
}

/// Reads the checkpoint; `None` if it is empty.
fn parse_checkpoint(
    file: &Object,
    compacted_count: usize,
    created_at: Timestamp,
    remarks: &mut Vec<String>,
) -> Option<PortableCheckpoint> {
    let turn = u32::from(compacted_count > 0);
    let content = summary::parse_checkpoint_content(file, turn, remarks);
    if content.is_empty() {
        return None;
    }
    let tokens = object_field(file, "tokens");
    let token_count = |name| tokens.and_then(|tokens| integer_field(tokens, name));
    let created = parse_time(file.get("createdAt"));
    let updated = parse_time(file.get("updatedAt"));
    Some(PortableCheckpoint {
        content,
        version: integer_field(file, "version").unwrap_or(1),
        created_at: created.or(updated).unwrap_or(created_at),
        updated_at: updated.or(created).unwrap_or(created_at),
        tokens: token_count("checkpoint").unwrap_or(0),
        last_compaction_tokens: token_count("lastCompactionInput"),
        saved_tokens: token_count("totalSaved").unwrap_or(0),
        is_unchanged_since_import: true,
    })
}

/// Returns the purpose of a session. If the context file has a `segue` field, that decides scope and role. The other
/// fields decide feature, task and state, because another program may have changed them.
fn parse_purpose(
    session_dir: &DagentSessionDir<'_>,
    id: &str,
    context: &Object,
    agent: &Object,
    session_file: &Object,
) -> Option<Purpose> {
    let stated_name =
        |names: &[&str]| string_field(context, names).or_else(|| string_field(session_file, names));
    let feature = stated_name(&["featureId"]).and_then(|name| FeatureId::parse(name).ok());
    let task = stated_name(&["taskId"]).and_then(|name| TaskId::parse(name).ok());
    let linked = list_task_states(&session_dir.task).find(|(_, ids)| ids.contains(&id));
    let state = linked.map(|(state, _)| state);
    let state = state.or_else(|| string_field(session_file, &["taskState"]));
    let role =
        string_field(agent, &["agentType"]).or_else(|| string_field(session_file, &["agentType"]));
    let stated = StatedPurpose {
        session_type: string_field(context, &["type"]).and_then(DagentSessionType::from_name),
        role: role.and_then(|role| RoleName::parse(role).ok()),
        feature: feature.or_else(|| session_dir.feature_id.cloned()),
        task: task.or_else(|| session_dir.task_id.clone()),
        state: state.and_then(|state| TaskState::parse(state).ok()),
    };
    match object_field(context, "segue") {
        None => stated.into_purpose(),
        Some(segue_fields) => parse_segue_purpose(segue_fields, stated),
    }
}

fn parse_segue_purpose(segue_fields: &Object, stated: StatedPurpose) -> Option<Purpose> {
    let role = string_field(segue_fields, &["role"]).and_then(|role| RoleName::parse(role).ok());
    let state =
        string_field(segue_fields, &["state"]).and_then(|state| TaskState::parse(state).ok());
    match string_field(segue_fields, &["scope"]) {
        Some("none") => None,
        Some("project") => Some(Purpose {
            scope: Scope::Project,
            role,
        }),
        _ => {
            let purpose = StatedPurpose {
                state: stated.state.or(state),
                ..stated
            }
            .into_purpose()?;
            Some(Purpose { role, ..purpose })
        }
    }
}

fn parse_title(segue_fields: &Object) -> Option<Title> {
    let title = string_field(segue_fields, &["title"])?;
    match string_field(segue_fields, &["titleFrom"]).and_then(TitleSource::from_name) {
        Some(TitleSource::User) => Title::new(title, TitleSource::User).ok(),
        Some(TitleSource::Model) => Title::new(title, TitleSource::Model).ok(),
        Some(TitleSource::Prompt) | None => Some(Title::from_prompt(title)),
    }
}

fn parse_tags(segue_fields: &Object) -> Vec<Tag> {
    let tags = segue_fields.get("tags").and_then(Value::as_array);
    let tags = tags.into_iter().flatten().filter_map(Value::as_str);
    tags.filter_map(|tag| Tag::parse(tag).ok()).collect()
}
