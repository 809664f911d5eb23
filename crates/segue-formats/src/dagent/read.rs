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
use crate::json_fields::{
    content_text, integer_field, list_field, object_field, parse_object, parse_time, string_field,
    string_list, strip_byte_order_mark, without_fields,
};
use crate::message_entries::{MessageContent, parse_messages, parse_role};
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
    let new_session_dir = |path: String, task: Object, task_id: Option<TaskId>| DagentSessionDir {
        path,
        feature: &feature,
        feature_id: feature_id.as_ref(),
        task,
        task_id,
    };
    let mut session_dirs = vec![new_session_dir(String::new(), Object::new(), None)];
    for dir_name in list_task_dirs(folder) {
        let path = format!("nodes/{dir_name}/");
        let task = parse_file(folder, &format!("{path}task.json"), &mut parsed.remarks);
        let task_name = string_field(&task, &["id"]).unwrap_or(dir_name);
        let task_id = TaskId::parse(task_name).or_else(|_| TaskId::parse(dir_name));
        session_dirs.push(new_session_dir(path, task, task_id.ok()));
    }
    for session_dir in &session_dirs {
        let sessions = group_session_files(folder, session_dir);
        warnings::check_links(
            &session_dir.path,
            session_dir.feature,
            &session_dir.task,
            &mut parsed.remarks,
        );
        check_linked_sessions(session_dir, &sessions, &mut parsed.remarks);
        for (id, paths) in sessions {
            let files = SessionFiles { folder, id, paths };
            let mut remarks = Vec::new();
            let session = parse_session(&files, session_dir, now, &mut remarks);
            let first_path = files.paths.values().next();
            parsed.sessions.push(ParsedSession {
                name: id.to_owned(),
                path: first_path.copied().unwrap_or_default().to_owned(),
                session: session.map(Box::new),
                remarks,
            });
        }
    }
    parsed
}

/// Returns the names of all tasks that have a directory in the folder.
fn list_task_dirs(folder: &DagentFolder) -> Vec<&str> {
    let paths = folder.files.keys();
    let mut names: Vec<&str> = paths
        .filter_map(|path| Some(path.strip_prefix("nodes/")?.split_once('/')?.0))
        .collect();
    names.dedup();
    names
}

/// Returns the object in a file; empty if the file does not exist. If the file cannot be used, adds a remark and
/// returns an empty object.
fn parse_file(folder: &DagentFolder, path: &str, remarks: &mut Vec<String>) -> Object {
    let content = match folder.files.get(path) {
        None => return Object::new(),
        Some(Ok(text)) => parse_object(text),
        Some(Err(reason)) => Err(reason.clone()),
    };
    content.unwrap_or_else(|reason| {
        remarks.push(format!("{path} cannot be read: {reason}"));
        Object::new()
    })
}

/// Paths of a session's files.
type SessionPaths<'a> = BTreeMap<DagentFileKind, &'a str>;

/// The files of a session.
struct SessionFiles<'a> {
    folder: &'a DagentFolder,
    id: &'a str,
    paths: SessionPaths<'a>,
}

impl SessionFiles<'_> {
    /// Returns the path of a file; empty if it does not exist.
    fn path(&self, kind: DagentFileKind) -> &str {
        self.paths.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the content of a file, or the reason why it cannot be read. `None` if it does not exist.
    fn content(&self, kind: DagentFileKind) -> Option<Result<&str, String>> {
        let content = self.folder.files.get(self.path(kind))?;
        Some(content.as_deref().map_err(Clone::clone))
    }

    /// Returns the object in a file, as [`parse_file`] does.
    fn parse(&self, kind: DagentFileKind, remarks: &mut Vec<String>) -> Object {
        parse_file(self.folder, self.path(kind), remarks)
    }

    /// Parses the chat file. A missing file is like an empty one, with a remark.
    fn parse_chat(&self, remarks: &mut Vec<String>) -> Result<Object, String> {
        let Some(content) = self.content(DagentFileKind::Chat) else {
            let name = DagentFileKind::Chat.file_name(self.id);
            remarks.push(format!("{name} not found"));
            return Ok(Object::new());
        };
        parse_object(content?)
    }

    /// Reads the messages before the checkpoint from the archive file, which has one message per line; empty if the
    /// file does not exist.
    fn parse_archive(
        &self,
        start_time: Timestamp,
        remarks: &mut Vec<String>,
    ) -> Vec<PortableMessage> {
        let text = match self.content(DagentFileKind::Archive) {
            None => return Vec::new(),
            Some(Ok(text)) => strip_byte_order_mark(text),
            Some(Err(reason)) => {
                remarks.push(format!(
                    "the messages before the checkpoint were omitted: {reason}"
                ));
                return Vec::new();
            }
        };
        let entries = text.lines().map(|line| {
            serde_json::from_str::<Value>(line).map_err(|error| format!("not valid JSON: {error}"))
        });
        let names = ("message", " of the archive");
        parse_messages(entries, names, start_time, parse_message, remarks)
    }
}

/// Returns the sessions in a directory, each with the paths of its files.
fn group_session_files<'a>(
    folder: &'a DagentFolder,
    session_dir: &DagentSessionDir<'_>,
) -> BTreeMap<&'a str, SessionPaths<'a>> {
    let directory = format!("{}sessions/", session_dir.path);
    let mut sessions: BTreeMap<&str, SessionPaths<'_>> = BTreeMap::new();
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
    sessions: &BTreeMap<&str, SessionPaths<'_>>,
    remarks: &mut Vec<String>,
) {
    let feature_session =
        string_field(session_dir.feature, &["sessionId"]).filter(|_| session_dir.path.is_empty());
    let task_sessions = list_task_states(&session_dir.task).flat_map(|(_, ids)| ids);
    for id in feature_session.into_iter().chain(task_sessions) {
        if !sessions.contains_key(id) {
            let linking_file = match session_dir.path.as_str() {
                "" => "feature.json".to_owned(),
                path => format!("{path}task.json"),
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
        let ids = value
            .as_object()
            .map(|value| string_list(value, "sessionIds"));
        (state.as_str(), ids.into_iter().flatten().collect())
    })
}

fn parse_session(
    files: &SessionFiles<'_>,
    session_dir: &DagentSessionDir<'_>,
    now: Timestamp,
    remarks: &mut Vec<String>,
) -> Result<PortableSession, String> {
    use DagentFileKind::{Agent, Chat, Checkpoint, Context, Session};
    let chat = files.parse_chat(remarks)?;
    let [checkpoint, context, agent, session_file] =
        [Checkpoint, Context, Agent, Session].map(|kind| files.parse(kind, remarks));
    for (kind, file) in [
        (Chat, &chat),
        (Checkpoint, &checkpoint),
        (Context, &context),
        (Agent, &agent),
    ] {
        warnings::check_session_id(files.id, files.path(kind), file, remarks);
    }
    warnings::check_session_type(files.path(Context), &context, remarks);
    let metadata = object_field(&chat, "metadata");
    let stated_time = |name: &str| {
        parse_time(metadata.and_then(|metadata| metadata.get(name)))
            .or_else(|| parse_time(session_file.get(name)))
    };
    let created = stated_time("createdAt")
        .or_else(|| parse_time(agent.get("createdAt")))
        .or_else(|| parse_time(checkpoint.get("createdAt")));
    let compacted_messages = files.parse_archive(created.unwrap_or(now), remarks);
    let last_compacted = compacted_messages.last().map(|message| message.at);
    let messages = parse_messages(
        list_field(&chat, "messages")?.iter().map(Ok),
        ("message", ""),
        last_compacted.or(created).unwrap_or(now),
        parse_message,
        remarks,
    );
    let all_messages = || compacted_messages.iter().chain(&messages);
    let message_times = || all_messages().map(|message| message.at);
    let created_at = created.or_else(|| message_times().min()).unwrap_or(now);
    let updated_at = stated_time("updatedAt").or_else(|| message_times().max());
    let compacted_count = compacted_messages.len();
    let no_fields = Object::new();
    let segue_fields = object_field(&context, "segue").unwrap_or(&no_fields);
    let tags = string_list(segue_fields, "tags").filter_map(|tag| Tag::parse(tag).ok());
    Ok(PortableSession {
        name: files.id.to_owned(),
        title: parse_title(segue_fields),
        purpose: parse_purpose(session_dir, files.id, &context, &agent, &session_file),
        provider: string_field(segue_fields, &["provider"])
            .and_then(|name| ProviderId::parse(name).ok()),
        tags: tags.collect(),
        created_at,
        updated_at: updated_at.unwrap_or(created_at).max(created_at),
        compacted_messages,
        messages,
        checkpoint: parse_checkpoint(&checkpoint, compacted_count, created_at, remarks),
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

/// Parses the content of a message.
fn parse_message(object: &Object) -> Result<MessageContent, String> {
    // A prompt that segue exported may consist of images only. It is a prompt although it has no text.
    let is_textless = object.get(TEXTLESS_FIELD) == Some(&Value::Bool(true));
    let text = content_text(object, &["content"]).or_else(|| is_textless.then(String::new));
    Ok(MessageContent {
        role: parse_role(object, &["role"])?,
        text: text.ok_or("it has no text")?,
        tokens: integer_field(object, "tokens"),
        extra_fields: without_fields(object, &["id", "timestamp", "role", "content", "tokens"]),
    })
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
        |name: &str| string_field(context, &[name]).or_else(|| string_field(session_file, &[name]));
    let feature = stated_name("featureId").and_then(|name| FeatureId::parse(name).ok());
    let task = stated_name("taskId").and_then(|name| TaskId::parse(name).ok());
    let linked_state = list_task_states(&session_dir.task)
        .find(|(_, ids)| ids.contains(&id))
        .map(|(state, _)| state);
    let stated = StatedPurpose {
        session_type: string_field(context, &["type"]).and_then(DagentSessionType::from_name),
        role: string_field(agent, &["agentType"])
            .or_else(|| string_field(session_file, &["agentType"]))
            .and_then(|role| RoleName::parse(role).ok()),
        feature: feature.or_else(|| session_dir.feature_id.cloned()),
        task: task.or_else(|| session_dir.task_id.clone()),
        state: linked_state
            .or_else(|| string_field(session_file, &["taskState"]))
            .and_then(|state| TaskState::parse(state).ok()),
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
            let state = stated.state.clone().or(state);
            let purpose = StatedPurpose { state, ..stated }.into_purpose()?;
            Some(Purpose { role, ..purpose })
        }
    }
}

fn parse_title(segue_fields: &Object) -> Option<Title> {
    let title = string_field(segue_fields, &["title"])?;
    match string_field(segue_fields, &["titleFrom"]).and_then(TitleSource::from_name) {
        Some(source @ (TitleSource::User | TitleSource::Model)) => Title::new(title, source).ok(),
        Some(TitleSource::Prompt) | None => Some(Title::from_prompt(title)),
    }
}
