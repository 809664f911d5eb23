//! The commands `segue session info` and `segue session show`.

use std::ops::ControlFlow;

use jiff::Timestamp;
use segue_core::brief::noted_answer;
use segue_core::number_format::figure;
use segue_core::session::{
    Decision, DecisionKind, Message, Part, Role, SessionStatus, Tag, TurnState,
};
use segue_engine::{Conversation, SessionView, Transcript};

use super::lineage;
use crate::app::App;
use crate::cli::{OneArgs, ShowArgs};
use crate::error::CliError;
use crate::json_output::{self, TranscriptJson, print_json};
use crate::terminal::{Style, ago, clean, print, try_print, width, wrap};

pub(super) async fn info(app: &App, args: &OneArgs) -> Result<(), CliError> {
    let session = match app.find_any(&args.id).await? {
        Conversation::Session(session, _) => session,
        Conversation::Native(native) => return super::native_show::info(app, &native, args.json),
    };
    let view = app.engine.view(app.up_to_date(*session).await).await?;
    if args.json {
        print_json(&json_output::info(&view));
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
    if let Some(origin) = &view.origin {
        let name = format!("{} (from {})", origin.name, origin.format);
        field("known as", &name);
    }
    field("directory", &session.project.cwd);
    if let Some(purpose) = &session.purpose {
        if let Some(feature) = purpose.scope.feature() {
            field("feature", feature.as_str());
        }
        if let Some((task, state)) = purpose.scope.task() {
            field("task", &format!("{task} in state {state}"));
        }
        if let Some(role) = &purpose.role {
            field("role", role.as_str());
        }
    }
    if !session.tags.is_empty() {
        let tags: Vec<&str> = session.tags.iter().map(Tag::as_str).collect();
        field("tags", &tags.join(" "));
    }
    let tokens = session.total_tokens.map_or(String::new(), |tokens| {
        format!(", {} tokens", figure(tokens))
    });
    field("turns", &format!("{}{tokens}", session.turns));
    field("status", &status(view));
    field("created", &moment(session.created_at));
    field("updated", &moment(session.updated_at));
    for (name, value) in lineage::lines(view) {
        field(&name, &value);
    }
    for (at, decision) in news(view) {
        field(
            "decided",
            &format!("{}: {}", at.strftime("%F %T"), decision.text),
        );
    }
}

/// Maximum number of decisions that are shown.
const DECISIONS: usize = 20;

/// Returns the newest decisions, oldest first. Omits normal continuations, because they carry no information.
fn news(view: &SessionView) -> impl Iterator<Item = &(Timestamp, Decision)> {
    let all = view.decisions.iter();
    let news = all.filter(|(_, decision)| decision.kind != DecisionKind::Continued);
    let skipped = news.clone().count().saturating_sub(DECISIONS);
    news.skip(skipped)
}

fn status(view: &SessionView) -> String {
    match (view.status, &view.holder) {
        (SessionStatus::Running, Some(holder)) => {
            format!(
                "running in process {} on {}",
                holder.owner.pid, holder.owner.host
            )
        }
        (status, Some(holder)) if holder.waits() => {
            format!(
                "{}, open in process {} on {}",
                status.as_str(),
                holder.owner.pid,
                holder.owner.host
            )
        }
        (status, _) => status.as_str().to_owned(),
    }
}

pub(super) async fn transcript(app: &App, args: &ShowArgs) -> Result<(), CliError> {
    let session = match app.find_any(&args.one.id).await? {
        Conversation::Session(session, _) => session,
        Conversation::Native(native) => return super::native_show::transcript(app, &native, args),
    };
    let session = app.up_to_date(*session).await;
    let mut transcript = app.engine.transcript(session).await?;
    let messages = transcript.turns.iter().map(|turn| turn.messages.len());
    let whole = Counted {
        messages: messages.sum(),
        turns: transcript.turns.len(),
    };
    if let Some(last) = args.last {
        let skipped = transcript.turns.len().saturating_sub(last);
        transcript.turns.drain(..skipped);
    }
    if let Some(n) = args.turn {
        let index = turn_index(n, transcript.turns.len())?;
        transcript.turns.drain(..index);
        transcript.turns.truncate(1);
    }
    if args.one.json {
        print_json(&TranscriptJson::from(&transcript));
    } else {
        print_transcript(&transcript, whole, args.full);
    }
    Ok(())
}

/// Returns the index of the turn with this number. Fails if the session has no such turn.
pub(super) fn turn_index(n: i64, turns: usize) -> Result<usize, CliError> {
    let index = usize::try_from(n).ok().and_then(|n| n.checked_sub(1));
    index.filter(|index| *index < turns).ok_or_else(|| {
        CliError::usage(match turns {
            0 => format!("there is no turn {n}: nothing was said yet"),
            1 => format!("there is no turn {n}: there is only turn 1"),
            _ => format!("there is no turn {n}: they are numbered 1 to {turns}"),
        })
    })
}

/// Size of a session, including turns that are not shown.
#[derive(Clone, Copy)]
struct Counted {
    messages: usize,
    turns: usize,
}

fn print_transcript(transcript: &Transcript, whole: Counted, full: bool) {
    let style = Style::stdout();
    let session = &transcript.session;
    print(&style.bold(&clean(session.title.as_str())));
    let Counted { messages, turns } = whole;
    print(&style.dim(&format!(
        "{} · {} · {messages} message(s), {turns} turn(s)",
        session.id, session.provider,
    )));
    for entry in &transcript.turns {
        let turn = &entry.turn;
        let layout = Layout {
            agent: entry.provider.as_str(),
            system: "segue",
            full,
        };
        let made = turn.outside.then(|| format!("made in {}", entry.provider));
        let state = (turn.state != TurnState::Finished).then(|| turn.state.as_str().to_owned());
        let notes: Vec<String> = made.into_iter().chain(state).collect();
        if print_turn(Some(turn.n), &notes.join(" · "), &entry.messages, layout).is_break() {
            return;
        }
        if let Some(failure) = &turn.failure {
            print(&style.red(&format!("  {}", clean(&failure.message))));
        }
    }
}

/// Layout of a transcript.
#[derive(Clone, Copy)]
pub(super) struct Layout<'a> {
    /// Name of the agent.
    pub(super) agent: &'a str,
    /// Name of the author of system messages.
    pub(super) system: &'a str,
    /// Whether the output of tools is shown completely.
    pub(super) full: bool,
}

/// Maximum number of lines of a tool's output.
const TOOL_LINES: usize = 10;

/// Prints a turn. Returns `Break` if the reader is closed.
pub(super) fn print_turn(
    n: Option<u32>,
    note: &str,
    messages: &[Message],
    layout: Layout<'_>,
) -> ControlFlow<()> {
    let style = Style::stdout();
    let number = n.map_or(String::new(), |n| format!(" {n}"));
    let note = if note.is_empty() {
        String::new()
    } else {
        format!(" · {note}")
    };
    let head = format!("── turn{number}{note} ");
    let rule = "─".repeat(
        width()
            .unwrap_or(80)
            .min(80)
            .saturating_sub(head.chars().count()),
    );
    try_print("")?;
    try_print(&style.dim(&format!("{head}{rule}")))?;
    let mut last = None;
    for message in messages {
        // The author of consecutive messages is printed once.
        if last != Some(message.role) || !message.complete {
            let who = match message.role {
                Role::User => "you",
                Role::Assistant => layout.agent,
                Role::Tool => "tool",
                Role::System => layout.system,
            };
            let cut = if message.complete { "" } else { " (cut off)" };
            try_print(&format!("{}{}", style.bold(who), style.yellow(cut)))?;
        }
        last = Some(message.role);
        print_parts(&message.parts, layout.full)?;
    }
    ControlFlow::Continue(())
}

fn print_parts(parts: &[Part], full: bool) -> ControlFlow<()> {
    for part in parts {
        let mut limit = usize::MAX;
        let text = match part {
            Part::Text(text) => text.clone(),
            Part::Thought(text) => format!("(thinks) {text}"),
            Part::FunctionCall { name, args, .. } => format!("▸ {name} {}", args.on_one_line()),
            Part::FunctionResponse {
                response, is_error, ..
            } => {
                limit = if full { usize::MAX } else { TOOL_LINES };
                let mark = if *is_error { "✗" } else { "✓" };
                format!("{mark} {}", unwrapped(&noted_answer(response)))
            }
            Part::InlineData(data) => format!("[{}]", data.mime_type),
            Part::Unknown(json) => format!("[not understood] {}", json.as_str()),
        };
        let text = clean(&text);
        let lines = text.lines().count();
        // A single omitted line is printed instead of a note about it.
        let shown = if lines > limit.saturating_add(1) {
            limit
        } else {
            lines
        };
        for line in text.lines().take(shown) {
            for piece in wrap(line, width().map(|width| width.saturating_sub(2))) {
                try_print(&format!("  {piece}"))?;
            }
        }
        if shown < lines {
            let more = format!("… {} more lines (--full shows them)", lines - shown);
            try_print(&format!("  {}", Style::stdout().dim(&more)))?;
        }
    }
    ControlFlow::Continue(())
}

/// Removes the frame in which an agent puts the output of a command, because the mark before it has the same
/// information.
fn unwrapped(text: &str) -> &str {
    let inside = match text.split_once("\nOutput:\n") {
        Some((head, output)) if head.starts_with("Chunk ID:") => output,
        _ => text,
    };
    let inside = inside
        .strip_prefix("<untrusted_context>\n")
        .unwrap_or(inside);
    inside
        .strip_suffix("\n</untrusted_context>")
        .unwrap_or(inside)
}
