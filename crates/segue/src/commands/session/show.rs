//! The commands `segue session info` and `segue session show`.

use std::ops::ControlFlow;

use jiff::Timestamp;
use segue_api::text::{ShellActions, format_decision};
use segue_core::brief::describe_tool_result;
use segue_core::number_format::format_count;
use segue_core::session::{
    Decision, DecisionKind, Message, Part, Role, SessionStatus, Tag, TurnState,
};
use segue_engine::{Conversation, SessionView, Transcript};

use super::lineage;
use crate::app::App;
use crate::cli::{SessionRefArgs, ShowArgs};
use crate::error::CliError;
use crate::json_output::{self, print_json};
use crate::terminal::{
    Style, format_age, format_plural, print_line, strip_control_chars, terminal_width,
    try_print_line, wrap,
};

pub(super) async fn show_info(app: &App, args: &SessionRefArgs) -> Result<(), CliError> {
    let session = match app.find_conversation(&args.id).await? {
        Conversation::Session(session, _) => session,
        Conversation::Native(native) => {
            return super::native_show::show_info(app, &native, args.json);
        }
    };
    let view = app
        .engine
        .library()
        .session_view(app.reconcile_session(*session).await)
        .await?;
    if args.json {
        print_json(&json_output::session_info_json(&view));
    } else {
        print_info(&view);
    }
    Ok(())
}

fn print_info(view: &SessionView) {
    let style = Style::stdout();
    let now = Timestamp::now();
    let session = &view.session;
    let print_field = |name: &str, value: &str| {
        print_line(&format!(
            "{} {}",
            style.dim(&format!("{name:<9}")),
            strip_control_chars(value)
        ));
    };
    let format_time =
        |at: Timestamp| format!("{} ({})", at.strftime("%F %T UTC"), format_age(at, now));
    print_line(&style.bold(&strip_control_chars(session.title.as_str())));
    print_field("id", session.id.as_str());
    print_field("agent", session.provider.as_str());
    if let Some(native) = &session.native_id {
        print_field("native id", native.as_str());
    }
    if let Some(origin) = &view.origin {
        let name = format!("{} (from {})", origin.name, origin.format);
        print_field("alias", &name);
    }
    print_field("directory", &session.project.cwd);
    if let Some(purpose) = &session.purpose {
        if let Some(feature) = purpose.scope.feature() {
            print_field("feature", feature.as_str());
        }
        if let Some((task, state)) = purpose.scope.task() {
            print_field("task", &format!("{task} in state {state}"));
        }
        if let Some(role) = &purpose.role {
            print_field("role", role.as_str());
        }
    }
    if !session.tags.is_empty() {
        let tags: Vec<&str> = session.tags.iter().map(Tag::as_str).collect();
        print_field("tags", &tags.join(" "));
    }
    let tokens = session.total_tokens.map_or(String::new(), |tokens| {
        format!(", {} tokens", format_count(tokens))
    });
    print_field("turns", &format!("{}{tokens}", session.turns));
    print_field("status", &format_status(view));
    print_field("created", &format_time(session.created_at));
    print_field("updated", &format_time(session.updated_at));
    for (name, value) in lineage::format_lineage(view) {
        print_field(&name, &value);
    }
    for (at, decision) in newest_decisions(view) {
        let text = format_decision(decision, &ShellActions);
        print_field("decision", &format!("{}: {text}", at.strftime("%F %T")));
    }
}

/// Maximum number of decisions that are shown.
const MAX_SHOWN_DECISIONS: usize = 20;

/// Returns the newest decisions, oldest first. Omits normal continuations, because they contain no information.
fn newest_decisions(view: &SessionView) -> impl Iterator<Item = &(Timestamp, Decision)> {
    let decisions = view.decisions.iter();
    let notable = decisions.filter(|(_, decision)| decision.kind() != DecisionKind::Continued);
    let skipped = notable.clone().count().saturating_sub(MAX_SHOWN_DECISIONS);
    notable.skip(skipped)
}

fn format_status(view: &SessionView) -> String {
    match (view.status, &view.lease_holder) {
        (SessionStatus::Running, Some(holder)) => {
            format!(
                "running in process {} on {}",
                holder.owner.pid, holder.owner.host
            )
        }
        (status, Some(holder)) if holder.is_idle() => {
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

pub(super) async fn show_transcript(app: &App, args: &ShowArgs) -> Result<(), CliError> {
    let session = match app.find_conversation(&args.session.id).await? {
        Conversation::Session(session, _) => session,
        Conversation::Native(native) => {
            return super::native_show::show_transcript(app, &native, args);
        }
    };
    let session = app.reconcile_session(*session).await;
    let mut transcript = app.engine.library().transcript(session).await?;
    let message_counts = transcript.turns.iter().map(|turn| turn.messages.len());
    let size = TranscriptSize {
        messages: message_counts.sum(),
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
    if args.session.json {
        print_json(&json_output::transcript_json(transcript));
    } else {
        print_transcript(&transcript, size, args.full);
    }
    Ok(())
}

/// Returns the index of the turn with this number. Fails if the session has no such turn.
pub(super) fn turn_index(n: i64, turns: usize) -> Result<usize, CliError> {
    let index = usize::try_from(n).ok().and_then(|n| n.checked_sub(1));
    index.filter(|index| *index < turns).ok_or_else(|| {
        CliError::usage(match turns {
            0 => format!("turn {n} does not exist; the session has no turns"),
            1 => format!("turn {n} does not exist; the session has only turn 1"),
            _ => format!("turn {n} does not exist; turns are numbered from 1 to {turns}"),
        })
    })
}

/// Size of a session, including turns that are not shown.
#[derive(Clone, Copy)]
struct TranscriptSize {
    messages: usize,
    turns: usize,
}

fn print_transcript(transcript: &Transcript, size: TranscriptSize, full: bool) {
    let style = Style::stdout();
    let session = &transcript.session;
    print_line(&style.bold(&strip_control_chars(session.title.as_str())));
    let TranscriptSize { messages, turns } = size;
    print_line(&style.dim(&format!(
        "{} · {} · {}, {}",
        session.id,
        session.provider,
        format_plural(messages as u64, "message"),
        format_plural(turns as u64, "turn"),
    )));
    for entry in &transcript.turns {
        let turn = &entry.turn;
        let layout = TranscriptLayout {
            agent_name: entry.provider.as_str(),
            system_name: "segue",
            full,
        };
        let outside_note = turn
            .made_outside
            .then(|| format!("made outside segue, in {}", entry.provider));
        let state = (turn.state != TurnState::Finished).then(|| turn.state.as_str().to_owned());
        let notes: Vec<String> = outside_note.into_iter().chain(state).collect();
        if print_turn(
            Some(turn.number),
            &notes.join(" · "),
            &entry.messages,
            layout,
        )
        .is_break()
        {
            return;
        }
        if let Some(failure) = &turn.failure {
            print_line(&style.red(&format!("  {}", strip_control_chars(&failure.message))));
        }
    }
}

/// Layout of a transcript.
#[derive(Clone, Copy)]
pub(super) struct TranscriptLayout<'a> {
    /// Name of the agent.
    pub(super) agent_name: &'a str,
    /// Name of the author of system messages.
    pub(super) system_name: &'a str,
    /// Whether the output of tools is shown completely.
    pub(super) full: bool,
}

/// Maximum number of lines of a tool's output.
const MAX_TOOL_OUTPUT_LINES: usize = 10;

/// Prints a turn. Returns `Break` if the reader is closed.
pub(super) fn print_turn(
    n: Option<u32>,
    note: &str,
    messages: &[Message],
    layout: TranscriptLayout<'_>,
) -> ControlFlow<()> {
    let style = Style::stdout();
    let number = n.map_or(String::new(), |n| format!(" {n}"));
    let note = if note.is_empty() {
        String::new()
    } else {
        format!(" · {note}")
    };
    let heading = format!("── turn{number}{note} ");
    let rule = "─".repeat(
        terminal_width()
            .unwrap_or(80)
            .min(80)
            .saturating_sub(heading.chars().count()),
    );
    try_print_line("")?;
    try_print_line(&style.dim(&format!("{heading}{rule}")))?;
    let mut last_role = None;
    for message in messages {
        // The author of consecutive messages is printed once.
        if last_role != Some(message.role) || !message.complete {
            let author = match message.role {
                Role::User => "you",
                Role::Assistant => layout.agent_name,
                Role::Tool => "tool",
                Role::System => layout.system_name,
            };
            let cut = if message.complete { "" } else { " (cut off)" };
            try_print_line(&format!("{}{}", style.bold(author), style.yellow(cut)))?;
        }
        last_role = Some(message.role);
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
            Part::FunctionCall { name, args, .. } => format!("▸ {name} {}", args.to_single_line()),
            Part::FunctionResponse {
                response, is_error, ..
            } => {
                limit = if full {
                    usize::MAX
                } else {
                    MAX_TOOL_OUTPUT_LINES
                };
                let symbol = if *is_error { "✗" } else { "✓" };
                format!(
                    "{symbol} {}",
                    strip_output_frame(&describe_tool_result(response))
                )
            }
            Part::InlineData(data) => format!("[{}]", data.mime_type),
            Part::Unknown(json) => format!("[unknown content] {}", json.as_str()),
        };
        let text = strip_control_chars(&text);
        let line_count = text.lines().count();
        // A single omitted line is printed instead of a note about it.
        let shown_lines = if line_count > limit.saturating_add(1) {
            limit
        } else {
            line_count
        };
        for line in text.lines().take(shown_lines) {
            for wrapped_line in wrap(line, terminal_width().map(|width| width.saturating_sub(2))) {
                try_print_line(&format!("  {wrapped_line}"))?;
            }
        }
        if shown_lines < line_count {
            let note = format!(
                "… {} more lines (--full shows them)",
                line_count - shown_lines
            );
            try_print_line(&format!("  {}", Style::stdout().dim(&note)))?;
        }
    }
    ControlFlow::Continue(())
}

/// Removes the frame in which an agent puts the output of a command, because the symbol before it has the same
/// information.
fn strip_output_frame(text: &str) -> &str {
    let content = match text.split_once("\nOutput:\n") {
        Some((head, output)) if head.starts_with("Chunk ID:") => output,
        _ => text,
    };
    let content = content
        .strip_prefix("<untrusted_context>\n")
        .unwrap_or(content);
    content
        .strip_suffix("\n</untrusted_context>")
        .unwrap_or(content)
}
