//! Writing of sessions to files of the dagent layout.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use segue_core::brief::Context;
use segue_core::id::ProviderId;
use segue_core::scope::{FeatureLinks, Purpose, RoleName, Scope, TaskLinks, TaskState, links};
use segue_core::session::{Tag, Title};
use serde_json::{Map, Value, json};

use super::File;
use super::context;
use super::schema::{
    Agent, Chat, Checkpoint, Context as ContextFile, Feature, Message, Metadata, Own, State, Task,
    Tokens,
};
use super::session_type::Kind;
use super::summary::{details, loop_shape, summary};
use crate::json_fields::{iso, map, number, pretty, text, time, without};
use crate::{Line, Portable};

/// Renders the files of sessions. The key is the path, with `/`. `count` counts the tokens of a text.
#[must_use]
pub fn write(sessions: &[Portable], count: &dyn Fn(&str) -> u64) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for links in links(sessions) {
        let folder = match links.feature {
            Some(feature) => format!(".dagent-worktrees/{feature}/.dagent"),
            None => ".dagent".to_owned(),
        };
        if let Some(text) = feature(&links) {
            files.insert(format!("{folder}/feature.json"), text);
        }
        for session in &links.sessions {
            put(
                &mut files,
                &format!("{folder}/sessions"),
                session,
                &links,
                count,
            );
        }
        for task in &links.tasks {
            let node = format!("{folder}/nodes/{}", task.task);
            files.insert(format!("{node}/task.json"), task_file(task));
            for session in task.states.iter().flat_map(|(_, sessions)| sessions) {
                put(
                    &mut files,
                    &format!("{node}/sessions"),
                    session,
                    &links,
                    count,
                );
            }
        }
    }
    files
}

fn put(
    files: &mut BTreeMap<String, String>,
    directory: &str,
    session: &Portable,
    links: &FeatureLinks<'_, Portable>,
    count: &dyn Fn(&str) -> u64,
) {
    let mut add = |file: File, text: String| {
        files.insert(format!("{directory}/{}", file.name(&session.name)), text);
    };
    add(File::Chat, chat(session, count));
    if !session.past.is_empty() {
        add(File::Archive, archive(session));
    }
    add(File::Checkpoint, checkpoint(session));
    add(File::Context, context(session, links, count));
    add(File::Agent, agent(session, count));
    if !session.kept.session.is_empty() {
        add(File::Session, pretty(&session.kept.session));
    }
}

fn message(line: &Line) -> Message<'_> {
    Message {
        id: &line.id,
        timestamp: iso(line.at),
        role: line.role.as_str(),
        content: &line.words,
        tokens: line.tokens,
        rest: &line.rest,
    }
}

fn chat(session: &Portable, count: &dyn Fn(&str) -> u64) -> String {
    let messages: Vec<Message<'_>> = session.lines.iter().map(message).collect();
    let kept = &session.kept.chat;
    let known = ["createdAt", "updatedAt", "messageCount", "tokenCount"];
    let rest = map(kept, "metadata").map(|metadata| without(metadata, &known));
    // A message that was imported without a token count is written without one, but the total includes it.
    let tokens = |message: &Message<'_>| message.tokens.unwrap_or_else(|| count(message.content));
    let metadata = Metadata {
        created_at: iso(session.created_at),
        updated_at: iso(session.updated_at),
        message_count: messages.len(),
        token_count: messages.iter().map(tokens).sum(),
        rest: rest.unwrap_or_default(),
    };
    pretty(&Chat {
        session_id: &session.name,
        messages,
        metadata,
        rest: without(kept, &["sessionId", "messages", "metadata"]),
    })
}

fn archive(session: &Portable) -> String {
    let mut text = String::new();
    for line in &session.past {
        let line = serde_json::to_string(&message(line)).unwrap_or_default();
        let _ = writeln!(text, "{line}");
    }
    text
}

fn checkpoint(session: &Portable) -> String {
    let kept = &session.kept.checkpoint;
    let known = [
        "sessionId",
        "version",
        "createdAt",
        "updatedAt",
        "summary",
        "ralphLoop",
        "tokens",
        "segue",
    ];
    let rest = without(kept, &known);
    let kept_time = |name: &str| time(kept.get(name)).unwrap_or(session.created_at);
    let Some(recap) = &session.recap else {
        return pretty(&Checkpoint {
            session_id: &session.name,
            version: number(kept, "version").unwrap_or(0),
            created_at: iso(kept_time("createdAt")),
            updated_at: iso(kept_time("updatedAt")),
            summary: super::schema::Summary::default(),
            ralph_loop: None,
            tokens: Tokens::default(),
            segue: None,
            rest,
        });
    };
    pretty(&Checkpoint {
        session_id: &session.name,
        version: recap.version,
        created_at: iso(recap.created_at),
        updated_at: iso(recap.updated_at),
        summary: summary(&recap.checkpoint),
        ralph_loop: recap.checkpoint.loop_state.as_ref().map(loop_shape),
        tokens: Tokens {
            checkpoint: recap.tokens,
            last_compaction_input: recap.replaced.unwrap_or(0),
            total_saved: recap.saved,
        },
        segue: details(&recap.checkpoint),
        rest,
    })
}

fn context(
    session: &Portable,
    links: &FeatureLinks<'_, Portable>,
    count: &dyn Fn(&str) -> u64,
) -> String {
    let kept = &session.kept.context;
    let purpose = session.purpose.as_ref();
    let scope = purpose.map(|purpose| &purpose.scope);
    let task = scope.and_then(Scope::task);
    let known = [
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
    let came = session.kept.came_at.filter(|_| !kept.is_empty());
    let gathered = session.context.as_ref();
    let gathered = gathered.filter(|gathered| came.is_none_or(|came| gathered.at > came));
    let nothing = Map::new();
    let kept = if gathered.is_some() { &nothing } else { kept };
    let found = gathered.map(|gathered| &gathered.context);
    let project = kept.get("project").cloned();
    let project = project.unwrap_or_else(|| context::project(found.unwrap_or(&Context::default())));
    let of_feature = || Some(json!({ "name": links.feature?.as_str(), "tasks": tasks(links) }));
    let feature = found.and_then(context::feature);
    let feature = kept.get("feature").cloned().or(feature).or_else(of_feature);
    let of_task = || {
        let (task, _) = task?;
        Some(
            json!({ "title": task.as_str(), "description": "", "dependencies": [], "dependents": [] }),
        )
    };
    let about = found.and_then(context::task);
    let about = kept.get("task").cloned().or(about).or_else(of_task);
    let gathered_at = gathered.map(|gathered| gathered.at);
    let updated_at = time(kept.get("updatedAt")).or(gathered_at);
    let tokens = number(kept, "tokens").or(gathered.map(|gathered| gathered.tokens));
    let counted = || {
        let parts = [Some(&project), feature.as_ref(), about.as_ref()];
        let parts = parts.into_iter().flatten().map(ToString::to_string);
        count(&parts.collect::<Vec<_>>().join("\n"))
    };
    pretty(&ContextFile {
        session_id: &session.name,
        kind: Kind::of(purpose).as_str(),
        feature_id: links.feature.map_or("", |feature| feature.as_str()),
        task_id: task.map(|(task, _)| task.as_str()),
        updated_at: iso(updated_at.unwrap_or(session.updated_at)),
        tokens: tokens.unwrap_or_else(counted),
        segue: own(session),
        rest: without(&session.kept.context, &known),
        project,
        feature,
        task: about,
    })
}

fn own(session: &Portable) -> Own<'_> {
    let purpose = session.purpose.as_ref();
    let role = purpose.and_then(|purpose| purpose.role.as_ref());
    let task = purpose.and_then(|purpose| purpose.scope.task());
    Own {
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
fn tasks(links: &FeatureLinks<'_, Portable>) -> Value {
    let tasks = links.tasks.iter().map(|task| {
        let state = task.current().map(TaskState::as_str);
        json!({ "id": task.task.as_str(), "title": task.task.as_str(), "status": state })
    });
    tasks.collect()
}

fn agent(session: &Portable, count: &dyn Fn(&str) -> u64) -> String {
    let purpose = session.purpose.as_ref();
    let role = purpose.and_then(|purpose: &Purpose| purpose.role.as_ref());
    let agent_type = role.map_or_else(|| Kind::of(purpose).role(), RoleName::as_str);
    let of_same = text(&session.kept.agent, &["agentType"]) == Some(agent_type);
    let nothing = Map::new();
    let kept = if of_same {
        &session.kept.agent
    } else {
        &nothing
    };
    let known = [
        "sessionId",
        "agentType",
        "role",
        "instructions",
        "allowedTools",
        "toolInstructions",
        "createdAt",
        "tokens",
    ];
    let told = session.role.as_ref();
    let take = |name: &str, or: Option<Value>| kept.get(name).cloned().or(or);
    let tools = told
        .and_then(|told| told.allowed_tools.clone())
        .unwrap_or_default();
    // A later version of dagent names this field `roleInstructions`.
    let words = told
        .map(|told| told.role.as_str())
        .or(text(kept, &["roleInstructions"]));
    pretty(&Agent {
        session_id: &session.name,
        kind: agent_type,
        role: take("role", words.map(Value::from)).unwrap_or_else(|| "".into()),
        instructions: take(
            "instructions",
            told.map(|told| told.instructions.clone().into()),
        )
        .unwrap_or_else(|| json!([])),
        allowed_tools: take("allowedTools", Some(tools.into())).unwrap_or_else(|| json!([])),
        tool_instructions: take(
            "toolInstructions",
            told.and_then(|told| told.tool_instructions.clone())
                .map(Value::from),
        ),
        created_at: iso(time(kept.get("createdAt")).unwrap_or(session.created_at)),
        tokens: number(kept, "tokens")
            .unwrap_or_else(|| told.map_or(0, |told| count(&told.written()))),
        rest: without(kept, &known),
    })
}

/// Returns `true` if all sessions were imported and none was changed since then. The imported references to the current
/// session or state are then still valid.
fn as_it_came(sessions: &[&Portable]) -> bool {
    sessions.iter().all(|session| {
        let came = session.kept.came_at;
        came.is_some_and(|came| session.updated_at <= came)
    })
}

/// Returns the stored fields of a file that several sessions share: those of the session that was imported last.
fn shared<'a>(
    sessions: &[&'a Portable],
    of: impl Fn(&'a Portable) -> &'a Map<String, Value>,
) -> Option<&'a Map<String, Value>> {
    let kept = sessions.iter().filter(|session| !of(session).is_empty());
    kept.max_by_key(|session| session.kept.came_at)
        .map(|session| of(session))
}

fn all<'a>(links: &FeatureLinks<'a, Portable>) -> Vec<&'a Portable> {
    let of_tasks = links.tasks.iter().flat_map(sessions_of);
    links.sessions.iter().copied().chain(of_tasks).collect()
}

fn sessions_of<'a>(task: &TaskLinks<'a, Portable>) -> Vec<&'a Portable> {
    let sessions = task.states.iter().flat_map(|(_, sessions)| sessions);
    sessions.copied().collect()
}

fn feature(links: &FeatureLinks<'_, Portable>) -> Option<String> {
    let id = links.feature?;
    let all = all(links);
    let nothing = Map::new();
    let kept = shared(&all, |session| &session.kept.feature).unwrap_or(&nothing);
    let pointed = text(kept, &["sessionId"]).filter(|_| as_it_came(&links.sessions));
    let active = links.active().map(|session| session.name.as_str());
    let times = || all.iter().map(|session| session.updated_at);
    let made: Option<Timestamp> = all.iter().map(|session| session.created_at).min();
    let known = ["id", "name", "sessionId", "createdAt", "updatedAt"];
    let touched = time(kept.get("updatedAt")).into_iter().chain(times()).max();
    Some(pretty(&Feature {
        id: id.as_str(),
        name: kept
            .get("name")
            .cloned()
            .unwrap_or_else(|| id.as_str().into()),
        session_id: pointed.or(active),
        created_at: kept
            .get("createdAt")
            .cloned()
            .unwrap_or_else(|| made.map(iso).into()),
        updated_at: touched.map(iso).unwrap_or_default(),
        rest: without(kept, &known),
    }))
}

fn task_file(task: &TaskLinks<'_, Portable>) -> String {
    let sessions = sessions_of(task);
    let nothing = Map::new();
    let kept = shared(&sessions, |session| &session.kept.task).unwrap_or(&nothing);
    let mut states: BTreeMap<String, State> = BTreeMap::new();
    // A state stays even if it has no session, and retains its other fields.
    for (name, value) in map(kept, "states").into_iter().flatten() {
        let rest = value
            .as_object()
            .map(|value| without(value, &["sessionIds"]));
        let state = states.entry(name.clone()).or_default();
        state.rest = rest.unwrap_or_default();
    }
    for (name, sessions) in &task.states {
        let state = states.entry(name.to_string()).or_default();
        let names = sessions.iter().map(|session| session.name.clone());
        state.session_ids = names.collect();
    }
    let pointed = text(kept, &["currentState"]).filter(|_| as_it_came(&sessions));
    let current = task.current().map(TaskState::as_str);
    pretty(&Task {
        id: task.task.as_str(),
        current_state: pointed.or(current).unwrap_or_default().to_owned(),
        states,
        rest: without(kept, &["id", "states", "currentState"]),
    })
}
