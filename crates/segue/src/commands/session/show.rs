//! The commands `segue session info` and `segue session show`.

use std::fmt::Display;
use std::ops::ControlFlow;

use jiff::Timestamp;
use segue_api::text::{ShellActions, format_decision};
use segue_core::brief::describe_tool_result;
use segue_core::number_format::format_count;
use segue_core::scope::Purpose;
use segue_core::session::{
    Decision, DecisionKind, Message, Part, Role, SessionStatus, Tag, TurnState,
};
use segue_engine::{Conversation, SessionView, Transcript};

use super::{find_reconciled, lineage, native_show};
use crate::app::App;
use crate::cli::{SessionRefArgs, ShowArgs};
use crate::error::CliError;
use crate::json_output::{self, print_json};
use crate::terminal::{
    Style, format_age, format_plural, print_line, strip_control_chars, terminal_width,
    to_single_line, try_print_line, wrap,
};

pub(super) async fn show_info(app: &App, args: &SessionRefArgs) -> Result<(), CliError> {
    let session = match find_reconciled(app, &args.id).await? {
        Conversation::Session(session, _) => *session,
        Conversation::Native(native) => return native_show::show_info(app, &native, args.json),
    };
    let view = app.engine.library().session_view(session).await?;
    if args.json {
        print_json(&json_output::session_info_json(&view));
    } else {
        print_info(&view);
    }
    Ok(())
}

/// Printer of the fields of a session, one per line.
pub(super) struct FieldPrinter {
    style: Style,
    now: Timestamp,
}

impl FieldPrinter {
    /// Prints the title of the session as the heading of its fields.
    pub(super) fn new(title: &str) -> Self {
        let style = Style::stdout();
        print_line(&style.bold(&to_single_line(title)));
        let now = Timestamp::now();
        Self { style, now }
    }

    pub(super) fn print(&self, name: &str, value: impl Display) {
        let name = self.style.dim(&format!("{name:<9}"));
        print_line(&format!("{name} {}", to_single_line(&value.to_string())));
    }

    /// Prints a field whose value may be unknown.
    pub(super) fn print_known(&self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.print(name, value);
        }
    }

    pub(super) fn print_turns(&self, turns: impl Display, tokens: Option<u64>) {
        let tokens = tokens.map(|tokens| format!(", {} tokens", format_count(tokens)));
        self.print("turns", format!("{turns}{}", tokens.unwrap_or_default()));
    }

    pub(super) fn print_time(&self, name: &str, at: Timestamp) {
        let age = format_age(at, self.now);
        self.print(name, format!("{} ({age})", at.strftime("%F %T UTC")));
    }
}

fn print_info(view: &SessionView) {
    let session = &view.session;
    let fields = FieldPrinter::new(session.title.as_str());
    fields.print("id", &session.id);
    fields.print("agent", &session.provider);
    fields.print_known("native id", session.native_id.as_ref());
    let origin = view.origin.as_ref();
    let alias = origin.map(|origin| format!("{} (from {})", origin.name, origin.format));
    fields.print_known("alias", alias);
    fields.print("directory", &session.project.cwd);
    if let Some(Purpose { scope, role }) = &session.purpose {
        let task = scope.task();
        let task = task.map(|(task, state)| format!("{task} in state {state}"));
        fields.print_known("feature", scope.feature());
        fields.print_known("task", task);
        fields.print_known("role", role.as_ref());
    }
    let tags: Vec<&str> = session.tags.iter().map(Tag::as_str).collect();
    fields.print_known("tags", (!tags.is_empty()).then(|| tags.join(" ")));
    fields.print_turns(session.turns, session.total_tokens);
    fields.print("status", format_status(view));
    fields.print_time("created", session.created_at);
    fields.print_time("updated", session.updated_at);
    for (name, value) in lineage::format_lineage(view) {
        fields.print(&name, value);
    }
    for (at, decision) in newest_decisions(view) {
        let text = format_decision(decision, &ShellActions);
        fields.print("decision", format!("{}: {text}", at.strftime("%F %T")));
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
    let status = view.status.as_str();
    let Some(holder) = &view.lease_holder else {
        return status.to_owned();
    };
    let (pid, host) = (holder.owner.pid, &holder.owner.host);
    if view.status == SessionStatus::Running {
        format!("running in process {pid} on {host}")
    } else if holder.is_idle() {
        format!("{status}, open in process {pid} on {host}")
    } else {
        status.to_owned()
    }
}

pub(super) async fn show_transcript(app: &App, args: &ShowArgs) -> Result<(), CliError> {
    let session = match find_reconciled(app, &args.session.id).await? {
        Conversation::Session(session, _) => *session,
        Conversation::Native(native) => return native_show::show_transcript(app, &native, args),
    };
    let mut transcript = app.engine.library().transcript(session).await?;
    let message_counts = transcript.turns.iter().map(|turn| turn.messages.len());
    // The size includes turns that are not shown.
    let size = format!(
        "{}, {}",
        format_plural(message_counts.sum::<usize>(), "message"),
        format_plural(transcript.turns.len(), "turn")
    );
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
        // A closed reader ends the output.
        let _ = print_transcript(&transcript, &size, args.full);
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

/// Prints a transcript. Returns `Break` if the reader is closed.
fn print_transcript(transcript: &Transcript, size: &str, full: bool) -> ControlFlow<()> {
    let style = Style::stdout();
    let session = &transcript.session;
    let (id, provider) = (&session.id, &session.provider);
    print_line(&style.bold(&strip_control_chars(session.title.as_str())));
    print_line(&style.dim(&format!("{id} · {provider} · {size}")));
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
        let note = notes.join(" · ");
        print_turn(Some(turn.number), &note, &entry.messages, layout)?;
        if let Some(failure) = &turn.failure {
            print_line(&style.red(&format!("  {}", strip_control_chars(&failure.message))));
        }
    }
    ControlFlow::Continue(())
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
    let width = terminal_width().unwrap_or(80).min(80);
    let rule = "─".repeat(width.saturating_sub(heading.chars().count()));
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
                if !full {
                    limit = MAX_TOOL_OUTPUT_LINES;
                }
                let symbol = if *is_error { "✗" } else { "✓" };
                let output = describe_tool_result(response);
                format!("{symbol} {}", strip_output_frame(&output))
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
        let width = terminal_width().map(|width| width.saturating_sub(2));
        for line in text.lines().take(shown_lines) {
            for wrapped_line in wrap(line, width) {
                try_print_line(&format!("  {wrapped_line}"))?;
            }
        }
        if shown_lines < line_count {
            let omitted = line_count - shown_lines;
            let note = format!("… {omitted} more lines (--full shows them)");
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
