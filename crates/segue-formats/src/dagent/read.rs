//! Reading of sessions from files of the dagent layout.

use std::collections::BTreeMap;

use jiff::Timestamp;
use segue_core::id::{FeatureId, ProviderId};
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};
use segue_core::session::{Tag, Title, TitleSource};
use serde_json::{Map, Value};

use super::File;
use super::session_type::{Kind, Said};
use super::summary;
use super::warnings;
use crate::extra_fields::speaker;
use crate::json_fields::{
    kind, map, number, object, other_parts, stamp, text, time, unmarked, without, words,
};
use crate::portable::WORDLESS;
use crate::{Kept, Line, Portable, Read, Recap};

type Object = Map<String, Value>;

/// A `.dagent` folder with the files of its sessions.
#[derive(Debug, Clone, Default)]
pub struct Folder {
    /// Name of the feature, if the folder's location shows it.
    pub feature: Option<String>,
    /// Content of each file, or the reason why it cannot be read. The key is the path in the folder, with `/`.
    pub files: BTreeMap<String, Result<String, String>>,
}

/// Result of reading a folder.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Sessions, in the order of their paths.
    pub sessions: Vec<Read>,
    /// Remarks about the folder itself.
    pub remarks: Vec<String>,
}

/// A directory in the folder that contains sessions: the feature's or a task's.
struct Place<'a> {
    /// Path in the folder; empty, or ends with `/`.
    path: String,
    feature: &'a Object,
    feature_id: Option<&'a FeatureId>,
    task: Object,
    task_id: Option<TaskId>,
}

/// Reads a folder. `now` replaces times that no file states.
#[must_use]
pub fn read(folder: &Folder, now: Timestamp) -> Reading {
    let mut reading = Reading::default();
    let feature = parsed(folder, "feature.json", &mut reading.remarks);
    let named = text(&feature, &["id"]).or(folder.feature.as_deref());
    let feature_id = named.and_then(|name| FeatureId::parse(name).ok());
    let mut places = vec![Place {
        path: String::new(),
        feature: &feature,
        feature_id: feature_id.as_ref(),
        task: Object::new(),
        task_id: None,
    }];
    for name in tasks(folder) {
        let path = format!("nodes/{name}/");
        let task = parsed(folder, &format!("{path}task.json"), &mut reading.remarks);
        let named = text(&task, &["id"]).unwrap_or(name);
        let task_id = TaskId::parse(named).or_else(|_| TaskId::parse(name));
        places.push(Place {
            path,
            feature: &feature,
            feature_id: feature_id.as_ref(),
            task,
            task_id: task_id.ok(),
        });
    }
    for place in &places {
        let files = files_at(folder, place);
        warnings::links(
            &place.path,
            place.feature,
            &place.task,
            &mut reading.remarks,
        );
        dangling(place, &files, &mut reading.remarks);
        for (id, files) in files {
            reading
                .sessions
                .push(session(folder, place, id, &files, now));
        }
    }
    reading
}

/// Returns the names of all tasks that have a directory in the folder.
fn tasks(folder: &Folder) -> Vec<&str> {
    let nodes = folder
        .files
        .keys()
        .filter_map(|path| path.strip_prefix("nodes/"));
    let mut names: Vec<&str> = nodes
        .filter_map(|rest| Some(rest.split_once('/')?.0))
        .collect();
    names.dedup();
    names
}

/// Returns the object in a file; empty if the file does not exist. If the file cannot be used, adds a remark and
/// returns an empty object.
fn parsed(folder: &Folder, path: &str, remarks: &mut Vec<String>) -> Object {
    let Some(read) = folder.files.get(path) else {
        return Object::new();
    };
    let read = read.as_ref().map_err(Clone::clone);
    read.and_then(|text| object(text)).unwrap_or_else(|why| {
        remarks.push(format!("{path} can't be used: {why}"));
        Object::new()
    })
}

/// Returns the sessions in a directory, each with the paths of its files.
fn files_at<'a>(
    folder: &'a Folder,
    place: &Place<'_>,
) -> BTreeMap<&'a str, BTreeMap<File, &'a str>> {
    let directory = format!("{}sessions/", place.path);
    let mut sessions: BTreeMap<&str, BTreeMap<File, &str>> = BTreeMap::new();
    for path in folder.files.keys() {
        let name = path
            .strip_prefix(&directory)
            .filter(|name| !name.contains('/'));
        if let Some((file, id)) = name.and_then(File::of) {
            sessions.entry(id).or_default().entry(file).or_insert(path);
        }
    }
    sessions
}

/// Adds a remark for each linked session that has no file.
fn dangling(
    place: &Place<'_>,
    files: &BTreeMap<&str, BTreeMap<File, &str>>,
    remarks: &mut Vec<String>,
) {
    let of_feature = text(place.feature, &["sessionId"]).filter(|_| place.path.is_empty());
    let of_task = states(&place.task).flat_map(|(_, ids)| ids);
    for id in of_feature.into_iter().chain(of_task) {
        if !files.contains_key(id) {
            let by = if place.path.is_empty() {
                "feature.json".to_owned()
            } else {
                format!("{}task.json", place.path)
            };
            remarks.push(format!(
                "{by} names session {id}, of which there is no file"
            ));
        }
    }
}

/// Returns the states of a task with the ids of their sessions.
fn states(task: &Object) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let states = map(task, "states").into_iter().flatten();
    states.map(|(state, value)| {
        let ids = value.get("sessionIds").and_then(Value::as_array);
        let ids = ids.into_iter().flatten().filter_map(Value::as_str);
        (state.as_str(), ids.collect())
    })
}

fn session(
    folder: &Folder,
    place: &Place<'_>,
    id: &str,
    files: &BTreeMap<File, &str>,
    now: Timestamp,
) -> Read {
    let mut remarks = Vec::new();
    let path = files
        .values()
        .next()
        .copied()
        .unwrap_or_default()
        .to_owned();
    let session = portable(folder, place, id, files, now, &mut remarks);
    Read {
        name: id.to_owned(),
        path,
        session: session.map(Box::new),
        remarks,
    }
}

fn portable(
    folder: &Folder,
    place: &Place<'_>,
    id: &str,
    files: &BTreeMap<File, &str>,
    now: Timestamp,
    remarks: &mut Vec<String>,
) -> Result<Portable, String> {
    let chat = match files.get(&File::Chat) {
        None => {
            remarks.push(format!("there is no {}", File::Chat.name(id)));
            Object::new()
        }
        Some(path) => match folder.files.get(*path) {
            Some(Ok(text)) => object(text)?,
            Some(Err(why)) => return Err(why.clone()),
            None => Object::new(),
        },
    };
    let mut other = |file: File| {
        let path = files.get(&file).copied();
        path.map(|path| parsed(folder, path, remarks))
            .unwrap_or_default()
    };
    let checkpoint = other(File::Checkpoint);
    let context = other(File::Context);
    let agent = other(File::Agent);
    let later = other(File::Session);
    let path_of = |file: File| files.get(&file).copied().unwrap_or_default();
    let read = [
        (path_of(File::Chat), &chat),
        (path_of(File::Checkpoint), &checkpoint),
        (path_of(File::Context), &context),
        (path_of(File::Agent), &agent),
    ];
    warnings::claims(id, &read, remarks);
    warnings::kind(path_of(File::Context), &context, remarks);
    let metadata = map(&chat, "metadata");
    let stated = |name: &str| {
        let of_chat = time(metadata.and_then(|metadata| metadata.get(name)));
        of_chat.or_else(|| time(later.get(name)))
    };
    let made = stated("createdAt")
        .or_else(|| time(agent.get("createdAt")))
        .or_else(|| time(checkpoint.get("createdAt")));
    let past = before(folder, files, made.unwrap_or(now), remarks);
    let from = past.last().map(|line| line.at).or(made).unwrap_or(now);
    let lines = said(&chat, from, remarks)?;
    let all = || past.iter().chain(&lines).map(|line| line.at);
    let created_at = made.or_else(|| all().min()).unwrap_or(now);
    let updated_at = stated("updatedAt").or_else(|| all().max());
    let recap = recap(&checkpoint, past.len(), created_at, remarks);
    let own = map(&context, "segue");
    let title = own.and_then(title);
    let provider = own.and_then(|own| ProviderId::parse(text(own, &["provider"])?).ok());
    let purpose = purpose(place, id, &context, &agent, &later);
    Ok(Portable {
        name: id.to_owned(),
        title,
        purpose,
        provider,
        tags: own.map(tags).unwrap_or_default(),
        created_at,
        updated_at: updated_at.unwrap_or(created_at).max(created_at),
        past,
        lines,
        recap,
        role: None,
        context: None,
        kept: Kept {
            chat: without(&chat, &["messages"]),
            checkpoint: without(&checkpoint, &["summary", "segue", "ralphLoop"]),
            context: without(&context, &["segue"]),
            agent,
            session: later,
            feature: place.feature.clone(),
            task: place.task.clone(),
            ..Kept::default()
        },
    })
}

/// Reads the messages of a chat file. A message that cannot be read is omitted, with a remark.
fn said(chat: &Object, from: Timestamp, remarks: &mut Vec<String>) -> Result<Vec<Line>, String> {
    let messages = match chat.get("messages") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(messages)) => messages,
        Some(other) => return Err(format!("messages is {}, not a list", kind(other))),
    };
    let mut last = from;
    let mut lines = Vec::with_capacity(messages.len());
    for (n, message) in (1..).zip(messages) {
        match line(message, last) {
            Ok((line, remark)) => {
                remarks.extend(remark.map(|remark| format!("message {n} {remark}")));
                last = line.at;
                lines.push(line);
            }
            Err(why) => remarks.push(format!("message {n} {why}, and was left out")),
        }
    }
    Ok(lines)
}

/// Reads the messages before the checkpoint from the archive file; empty if that does not exist.
fn before(
    folder: &Folder,
    files: &BTreeMap<File, &str>,
    from: Timestamp,
    remarks: &mut Vec<String>,
) -> Vec<Line> {
    let archive = files.get(&File::Archive);
    match archive.and_then(|path| folder.files.get(*path)) {
        Some(Ok(text)) => archived(text, from, remarks),
        Some(Err(why)) => {
            remarks.push(format!(
                "what was said before the checkpoint is left out: {why}"
            ));
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// Parses the archive, which has one message per line.
fn archived(text: &str, from: Timestamp, remarks: &mut Vec<String>) -> Vec<Line> {
    let mut last = from;
    let mut lines = Vec::new();
    for (n, text) in (1..).zip(unmarked(text).lines()) {
        let message = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"));
        match message.and_then(|message| line(&message, last)) {
            Ok((line, _)) => {
                last = line.at;
                lines.push(line);
            }
            Err(why) => remarks.push(format!(
                "message {n} of the archive {why}, and was left out"
            )),
        }
    }
    lines
}

/// Parses a message. Returns a remark if its time is assumed.
fn line(message: &Value, last: Timestamp) -> Result<(Line, Option<String>), String> {
    let Some(message) = message.as_object() else {
        return Err(format!("is {}, not an object", kind(message)));
    };
    let role = text(message, &["role"]).ok_or("does not say who speaks")?;
    let role = speaker(role).ok_or_else(|| format!("is of {role:?}, whom nobody knows"))?;
    // A prompt that segue exported may consist of images only. It is a prompt although it has no text.
    let wordless = message.get(WORDLESS) == Some(&Value::Bool(true));
    let words = words(message, &["content"]).or_else(|| wordless.then(String::new));
    let words = words.ok_or("has no text")?;
    let at = stamp(message);
    let mut rest = without(message, &["id", "timestamp", "role", "content", "tokens"]);
    rest.extend(other_parts(message, "content").map(|parts| ("parts".to_owned(), parts)));
    let line = Line {
        id: text(message, &["id"]).unwrap_or_default().to_owned(),
        at: *at.as_ref().unwrap_or(&last),
        timed: at.is_ok(),
        role,
        words,
        tokens: number(message, "tokens"),
        rest,
        as_it_came: true,
    };
    let untimed = at.err();
    Ok((
        line,
        untimed.map(|why| format!("{why}; it is given that of the one before")),
    ))
}

/// Reads the checkpoint; `None` if it is empty.
fn recap(
    file: &Object,
    past: usize,
    created_at: Timestamp,
    remarks: &mut Vec<String>,
) -> Option<Recap> {
    let turn = u32::from(past > 0);
    let checkpoint = summary::checkpoint(file, turn, remarks);
    if checkpoint.is_empty() {
        return None;
    }
    let tokens = map(file, "tokens");
    let figure = |name| tokens.and_then(|tokens| number(tokens, name));
    let made = time(file.get("createdAt"));
    let updated = time(file.get("updatedAt"));
    Some(Recap {
        checkpoint,
        version: number(file, "version").unwrap_or(1),
        created_at: made.or(updated).unwrap_or(created_at),
        updated_at: updated.or(made).unwrap_or(created_at),
        tokens: figure("checkpoint").unwrap_or(0),
        replaced: figure("lastCompactionInput"),
        saved: figure("totalSaved").unwrap_or(0),
        as_it_came: true,
    })
}

/// Returns the purpose of a session. If the context file has a `segue` field, that decides scope and role. The other
/// fields decide feature, task and state, because another program may have changed them.
fn purpose(
    place: &Place<'_>,
    id: &str,
    context: &Object,
    agent: &Object,
    later: &Object,
) -> Option<Purpose> {
    let named = |names: &[&str]| text(context, names).or_else(|| text(later, names));
    let feature = named(&["featureId"]).and_then(|name| FeatureId::parse(name).ok());
    let task = named(&["taskId"]).and_then(|name| TaskId::parse(name).ok());
    let linked = states(&place.task).find(|(_, ids)| ids.contains(&id));
    let state = linked.map(|(state, _)| state);
    let state = state.or_else(|| text(later, &["taskState"]));
    let role = text(agent, &["agentType"]).or_else(|| text(later, &["agentType"]));
    let said = Said {
        kind: text(context, &["type"]).and_then(Kind::from_name),
        role: role.and_then(|role| RoleName::parse(role).ok()),
        feature: feature.or_else(|| place.feature_id.cloned()),
        task: task.or_else(|| place.task_id.clone()),
        state: state.and_then(|state| TaskState::parse(state).ok()),
    };
    match map(context, "segue") {
        None => said.purpose(),
        Some(own) => own_purpose(own, said),
    }
}

fn own_purpose(own: &Object, said: Said) -> Option<Purpose> {
    let role = text(own, &["role"]).and_then(|role| RoleName::parse(role).ok());
    let state = text(own, &["state"]).and_then(|state| TaskState::parse(state).ok());
    match text(own, &["scope"]) {
        Some("none") => None,
        Some("project") => Some(Purpose {
            scope: Scope::Project,
            role,
        }),
        _ => {
            let purpose = Said {
                state: said.state.or(state),
                ..said
            }
            .purpose()?;
            Some(Purpose { role, ..purpose })
        }
    }
}

fn title(own: &Object) -> Option<Title> {
    let given = text(own, &["title"])?;
    match text(own, &["titleFrom"]).and_then(TitleSource::from_name) {
        Some(TitleSource::User) => Title::given(given, TitleSource::User).ok(),
        Some(TitleSource::Model) => Title::given(given, TitleSource::Model).ok(),
        Some(TitleSource::Prompt) | None => Some(Title::from_prompt(given)),
    }
}

fn tags(own: &Object) -> Vec<Tag> {
    let tags = own.get("tags").and_then(Value::as_array);
    let tags = tags.into_iter().flatten().filter_map(Value::as_str);
    tags.filter_map(|tag| Tag::parse(tag).ok()).collect()
}
