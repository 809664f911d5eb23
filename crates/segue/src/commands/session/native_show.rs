//! `segue session info` and `segue session show` for native sessions.

use std::io::Write;
use std::ops::ControlFlow;

use segue_api::session::ListedSession;
use segue_catalog::{NativeTurn, ReadError, SkippedContent};
use segue_core::session::TurnState;
use segue_engine::{EngineError, NativeEntry, NativeOutline};
use segue_providers::exec;

use super::list::session_title;
use super::show::{FieldPrinter, TranscriptLayout, print_turn, turn_index};
use crate::app::App;
use crate::cli::ShowArgs;
use crate::error::CliError;
use crate::json_output::{self, print_json};
use crate::terminal::{Style, eprint_note, format_plural, print_line, to_single_line};

/// Maximum size in bytes of a session that is read completely in order to number its last turns.
const MAX_NUMBERED_BYTES: u64 = 64 << 20;

/// Description of where a native session is stored: in the files of its agent, or only in segue's archive.
struct StorageDescription {
    label: String,
    explanation: String,
    /// Label and text of the command with which the user resumes or restores the session. `None` if there is none.
    command: Option<(&'static str, String)>,
}

impl StorageDescription {
    fn for_native(app: &App, native: &NativeEntry) -> Self {
        let (agent, id) = (&native.session.provider, &native.session.head.id);
        if app.engine.upkeep().is_only_archived(&native.session) {
            let command =
                format!("segue session restore {agent}:{id}   (puts it back for {agent})");
            return Self {
                label: "only in segue's archive".to_owned(),
                explanation: format!(
                    "{agent} no longer has this session; this is the copy in segue's archive"
                ),
                command: Some(("restore", command)),
            };
        }
        let command = exec::resume_command(agent.as_str(), id);
        let command = command.map(|command| format!("{command}   (in the directory above)"));
        Self {
            label: format!("native session of {agent}"),
            explanation: format!("native session of {agent}; segue only reads it"),
            command: command.map(|command| ("resume", command)),
        }
    }
}

/// Reads a native session. Fails if it has no turns, which is possible because the index may list a file that was a
/// conversation earlier.
fn read_nonempty_outline(app: &App, native: &NativeEntry) -> Result<NativeOutline, CliError> {
    let outline = app.engine.library().read_outline(&native.session)?;
    if outline.turns.is_empty() {
        let cause = ReadError::NotASession {
            path: native.session.location.path.clone(),
            reason: "it contains no conversation".to_owned(),
        };
        return Err(EngineError::from(cause).into());
    }
    Ok(outline)
}

pub(super) fn show_info(app: &App, native: &NativeEntry, json: bool) -> Result<(), CliError> {
    let outline = read_nonempty_outline(app, native)?;
    if json {
        print_json(&json_output::native_info_json(native, &outline));
        return Ok(());
    }
    let (location, head) = (&native.session.location, &native.session.head);
    let session = json_output::outline_json(native, &outline);
    let fields = FieldPrinter::new(session_title(&session));
    fields.print("native id", &head.id);
    let version = head.agent_version.as_ref();
    let version = version.map_or(String::new(), |version| format!(" {version}"));
    fields.print("agent", format!("{}{version}", session.provider));
    fields.print("directory", head.cwd.as_deref().unwrap_or("unknown"));
    fields.print_known("branch", head.branch.as_ref());
    fields.print_turns(outline.turns.len(), session.total_tokens);
    if outline.compactions > 0 {
        let times = format_plural(outline.compactions, "time");
        fields.print("compacted", format!("{times}, by the agent"));
    }
    if let Some(at) = head.created_at {
        fields.print_time("created", at);
    }
    fields.print_time("updated", head.updated_at);
    let origin = head.forked_from.as_ref();
    fields.print_known("forked", origin.map(|origin| format!("from {origin}")));
    let archived = if location.archived { ", archived" } else { "" };
    let (path, size) = (location.path.display(), location.size);
    fields.print("file", format!("{path} ({size} bytes{archived})"));
    let storage = StorageDescription::for_native(app, native);
    if let Some((label, command)) = storage.command {
        fields.print(label, command);
    }
    print_line(&Style::stdout().dim(&storage.explanation));
    report_skipped(outline.skipped);
    Ok(())
}

pub(super) fn show_transcript(
    app: &App,
    native: &NativeEntry,
    args: &ShowArgs,
) -> Result<(), CliError> {
    let library = app.engine.library();
    let is_huge = native.session.location.size > MAX_NUMBERED_BYTES;
    if let Some(last) = args.last.filter(|_| is_huge) {
        let (turns, is_complete) = library.read_recent_native_turns(&native.session, last)?;
        let session = json_output::native_json(native);
        let mut printer = NativeTurnPrinter::new(app, native, &session, args);
        for (n, turn) in (1..).zip(turns) {
            let n = is_complete.then_some(n);
            if printer.print_turn(n, turn).is_break() {
                break;
            }
        }
        printer.finish(None);
        return Ok(());
    }
    let outline = read_nonempty_outline(app, native)?;
    let session = json_output::outline_json(native, &outline);
    let first_index = match (args.turn, args.last) {
        (Some(n), _) => turn_index(n, outline.turns.len())?,
        (None, Some(last)) => outline.turns.len().saturating_sub(last),
        (None, None) => 0,
    };
    let mut printer = NativeTurnPrinter::new(app, native, &session, args);
    let mut on_turn = |index: usize, turn: NativeTurn| {
        printer.print_turn(u32::try_from(index + 1).ok(), turn)?;
        match args.turn {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    };
    library.read_turns_from(&native.session, &outline, first_index, &mut on_turn)?;
    printer.finish(Some(outline.skipped));
    Ok(())
}

/// Printer of turns while they are read.
struct NativeTurnPrinter<'a> {
    native: &'a NativeEntry,
    json: bool,
    full: bool,
    printed_turns: u32,
}

impl<'a> NativeTurnPrinter<'a> {
    fn new(app: &App, native: &'a NativeEntry, session: &ListedSession, args: &ShowArgs) -> Self {
        if args.session.json {
            let header = serde_json::to_string(session).unwrap_or_default();
            // A closed reader is ignored, because no one is left to report it to.
            let _ = write!(
                std::io::stdout(),
                "{{\"session\":{header},\"legs\":[],\"turns\":["
            );
        } else {
            let style = Style::stdout();
            let session = json_output::native_json(native);
            print_line(&style.bold(&to_single_line(session_title(&session))));
            let storage = StorageDescription::for_native(app, native).label;
            print_line(&style.dim(&format!("{} · {storage}", native.session.head.id)));
        }
        Self {
            native,
            json: args.session.json,
            full: args.full,
            printed_turns: 0,
        }
    }

    /// Prints a turn. Returns `Break` if the reader is closed.
    fn print_turn(&mut self, n: Option<u32>, turn: NativeTurn) -> ControlFlow<()> {
        self.printed_turns += 1;
        if self.json {
            let turn = json_output::native_turn_json(n, turn);
            let text = serde_json::to_string(&turn).unwrap_or_default();
            let comma = if self.printed_turns == 1 { "" } else { "," };
            return match write!(std::io::stdout(), "{comma}{text}") {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
        }
        let note = match turn.state {
            TurnState::Finished => "",
            // The file does not show whether the turn is running or was cut off.
            TurnState::Running => "unfinished",
            state => state.as_str(),
        };
        let layout = TranscriptLayout {
            agent_name: self.native.session.provider.as_str(),
            system_name: "note",
            full: self.full,
        };
        print_turn(n, note, &turn.messages, layout)
    }

    fn finish(self, skipped: Option<SkippedContent>) {
        if self.json {
            let skipped = skipped.map(json_output::skipped_json);
            let skipped = serde_json::to_string(&skipped).unwrap_or_default();
            let _ = writeln!(std::io::stdout(), "],\"skipped\":{skipped}}}");
        } else if let Some(skipped) = skipped {
            report_skipped(skipped);
        }
    }
}

/// Reports records that could not be read.
fn report_skipped(skipped: SkippedContent) {
    let mut notes = Vec::new();
    let mut add_count = |count: u64, noun: &str, note: &str| {
        if count > 0 {
            notes.push(format!("{}{note}", format_plural(count, noun)));
        }
    };
    add_count(skipped.malformed, "invalid line", "");
    add_count(skipped.oversized, "oversized line", "");
    add_count(
        skipped.repaired,
        "line",
        " with invalid characters, shown as \u{fffd}",
    );
    if skipped.orphaned {
        notes.push("earlier turns, which are in a session that no longer exists".to_owned());
    }
    if skipped.truncated {
        notes.push("the last line, which is incomplete or still being written".to_owned());
    }
    if !notes.is_empty() {
        eprint_note(&format!("not fully read: {}", notes.join("; ")));
    }
}
