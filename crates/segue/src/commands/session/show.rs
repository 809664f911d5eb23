//! `segue session info` and `segue session show`

use jiff::Timestamp;
use segue_core::{Json, Message, Part, Role, SessionStatus, TurnState};
use segue_engine::{Conversation, SessionView, Transcript};
use serde_json::Value;

use crate::cli::{OneArgs, ShowArgs};
use crate::error::CliError;
use crate::setup::App;
use crate::terminal::{Style, ago, clean, print, width};
use crate::wire::{self, TranscriptJson, print_json};

pub(super) async fn info(app: &App, args: &OneArgs) -> Result<(), CliError> {
    let session = match app.find_any(&args.id).await? {
        Conversation::Session(session, _) => session,
        Conversation::Native(native) => return super::native::info(app, &native, args.json),
    };
    let view = app.engine.view(*session).await?;
    if args.json {
        print_json(&wire::info(&view));
    } else {
        print_info(&view);
    }
    Ok(())
}

fn print_info(view: &SessionView) {
    let style = Style::stdout();
    let now = Timestamp::now();
    let session = &view.session;
    let field = |name: &str, value: &str| {
        print(&format!(
            "{} {}",
            style.dim(&format!("{name:<9}")),
            clean(value)
        ));
    };
    let moment = |at: Timestamp| format!("{} ({})", at.strftime("%F %T UTC"), ago(at, now));
    print(&style.bold(&clean(session.title.as_str())));
    field("id", session.id.as_str());
    field("agent", session.provider.as_str());
    if let Some(native) = &session.native_id {
        field("native id", native.as_str());
    }
    field("directory", &session.project.cwd);
    if let Some(feature) = &session.feature {
        field("feature", feature.as_str());
    }
    let tokens = session
        .total_tokens
        .map_or(String::new(), |tokens| format!(", {tokens} tokens"));
    field("turns", &format!("{}{tokens}", session.turns));
    field("status", &status(view));
    field("created", &moment(session.created_at));
    field("updated", &moment(session.updated_at));
    if let Some((id, turn)) = &session.forked_from {
        field("forked", &format!("from {id} after turn {turn}"));
    }
    for leg in &view.legs {
        let end = leg.ended.map_or("active".to_owned(), |(_, why)| {
            format!("ended: {}", why.as_str())
        });
        field(
            &format!("leg {}", leg.n),
            &format!("{} {} ({end})", leg.provider, leg.native_id),
        );
    }
    for (at, decision) in &view.decisions {
        field(
            "decided",
            &format!("{}: {}", at.strftime("%F %T"), decision.text),
        );
    }
}

fn status(view: &SessionView) -> String {
    match (view.status, &view.holder) {
        (SessionStatus::Running, Some(holder)) => {
            format!(
                "running in process {} on {}",
                holder.owner.pid, holder.owner.host
            )
        }
        (status, _) => status.as_str().to_owned(),
    }
}

pub(super) async fn transcript(app: &App, args: &ShowArgs) -> Result<(), CliError> {
    let session = match app.find_any(&args.one.id).await? {
        Conversation::Session(session, _) => session,
        Conversation::Native(native) => return super::native::transcript(app, &native, args),
    };
    let mut transcript = app.engine.transcript(*session).await?;
    if let Some(last) = args.last {
        let skipped = transcript.turns.len().saturating_sub(last);
        transcript.turns.drain(..skipped);
    }
    if args.one.json {
        print_json(&TranscriptJson::from(&transcript));
    } else {
        print_transcript(&transcript);
    }
    Ok(())
}

fn print_transcript(transcript: &Transcript) {
    let style = Style::stdout();
    let session = &transcript.session;
    print(&style.bold(&clean(session.title.as_str())));
    let messages: usize = transcript
        .turns
        .iter()
        .map(|turn| turn.messages.len())
        .sum();
    print(&style.dim(&format!(
        "{} · {} · {messages} message(s), {} turn(s)",
        session.id,
        session.provider,
        transcript.turns.len()
    )));
    let speakers = Speakers {
        agent: session.provider.as_str(),
        system: "segue",
    };
    for entry in &transcript.turns {
        let turn = &entry.turn;
        print_turn(Some(turn.n), turn.state, &entry.messages, speakers, style);
        if let Some(failure) = &turn.failure {
            print(&style.red(&format!("  {}", clean(&failure.message))));
        }
    }
}

/// What the speakers of a transcript are called.
#[derive(Clone, Copy)]
pub(super) struct Speakers<'a> {
    /// The agent.
    pub(super) agent: &'a str,
    /// Whoever remarks on the conversation from outside.
    pub(super) system: &'a str,
}

pub(super) fn print_turn(
    n: Option<u32>,
    state: TurnState,
    messages: &[Message],
    speakers: Speakers<'_>,
    style: Style,
) {
    let number = n.map_or(String::new(), |n| format!(" {n}"));
    let note = match state {
        TurnState::Finished => String::new(),
        state => format!(" · {}", state.as_str()),
    };
    let head = format!("── turn{number}{note} ");
    let rule = "─".repeat(
        width()
            .unwrap_or(80)
            .min(80)
            .saturating_sub(head.chars().count()),
    );
    print("");
    print(&style.dim(&format!("{head}{rule}")));
    let mut last = None;
    for message in messages {
        // Whoever goes on speaking is not named again.
        if last != Some(message.role) || !message.complete {
            let who = match message.role {
                Role::User => "you",
                Role::Assistant => speakers.agent,
                Role::Tool => "tool",
                Role::System => speakers.system,
            };
            let cut = if message.complete { "" } else { " (cut off)" };
            print(&format!("{}{}", style.bold(who), style.yellow(cut)));
        }
        last = Some(message.role);
        print_parts(&message.parts);
    }
}

fn print_parts(parts: &[Part]) {
    for part in parts {
        let text = match part {
            Part::Text(text) => text.clone(),
            Part::Thought(text) => format!("(thinks) {text}"),
            Part::FunctionCall { name, args, .. } => format!("▸ {name} {}", args.as_str()),
            Part::FunctionResponse {
                response, is_error, ..
            } => {
                format!(
                    "{} {}",
                    if *is_error { "✗" } else { "✓" },
                    readable(response)
                )
            }
            Part::InlineData(data) => format!("[{}]", data.mime_type),
            Part::Unknown(json) => format!("[not understood] {}", json.as_str()),
        };
        for line in clean(&text).lines() {
            print(&format!("  {line}"));
        }
    }
}

/// The words of a tool's answer where it consists of words, else the JSON it is.
fn readable(response: &Json) -> String {
    let words = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => fields
            .get("text")
            .and_then(Value::as_str)
            .map(str::to_owned),
        _ => None,
    };
    let parsed = serde_json::from_str(response.as_str()).unwrap_or_default();
    let text = match &parsed {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => blocks
            .iter()
            .map(words)
            .collect::<Option<Vec<_>>>()
            .map(|texts| texts.join("\n")),
        Value::Object(fields) => match fields.iter().collect::<Vec<_>>().as_slice() {
            [(name, Value::String(text))] if ["output", "error"].contains(&name.as_str()) => {
                Some(text.clone())
            }
            _ => None,
        },
        _ => None,
    };
    text.unwrap_or_else(|| response.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_shown_as_words_where_they_are_words() {
        let cases = [
            (r#""a\nb""#, "a\nb"),
            (
                r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#,
                "a\nb",
            ),
            (r#"{"output":"a"}"#, "a"),
            (r#"{"output":"a","code":1}"#, r#"{"output":"a","code":1}"#),
            ("[1]", "[1]"),
            ("null", "null"),
        ];
        for (json, expected) in cases {
            assert_eq!(readable(&Json::parse(json).unwrap()), expected);
        }
    }
}
