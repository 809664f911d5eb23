//! Output of a turn while it runs.
//!
//! The answer goes to standard output. All other information goes to standard error. Progress is shown only on a
//! terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{PlanStatus, PlanStep, ToolCall, ToolStatus};
use segue_engine::TurnEvent;

use super::{OutputFormat, permission_prompt};
use crate::frontend::Frontend;
use crate::json_output::{self, print_json};
use crate::terminal::{Style, eprint_decisions, eprint_line, strip_control_chars};

const SPINNER_FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Duration of one frame of the spinner.
pub(super) const SPINNER_FRAME_DURATION: Duration = Duration::from_millis(100);

/// Content of the line that the cursor is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CursorLine {
    Empty,
    Answer,
    Thought,
    Spinner,
}

/// [`Frontend`] of a turn, with a session of its own, because another thread prints.
enum PrinterFrontend {
    Shell,
    /// The REPL, with the session of the turn once it is known.
    Repl(Option<SessionId>),
}

pub(super) struct TurnPrinter {
    format: OutputFormat,
    frontend: PrinterFrontend,
    style: Style,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    line: CursorLine,
    /// Message of the answer that was printed last.
    last_message: Option<u32>,
    /// Whether the last printed line of the answer has no line end yet.
    has_open_line: bool,
    provider: Option<ProviderId>,
    last_event_at: Instant,
    frame_index: usize,
    /// Last line that was printed for a tool, because agents announce some calls twice.
    last_tool: Option<String>,
}

impl TurnPrinter {
    pub(super) fn new(format: OutputFormat, frontend: Frontend<'_>) -> Self {
        Self {
            format,
            frontend: match frontend {
                Frontend::Shell => PrinterFrontend::Shell,
                Frontend::Repl(session) => PrinterFrontend::Repl(session.cloned()),
            },
            style: Style::stderr(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
            line: CursorLine::Empty,
            last_message: None,
            has_open_line: false,
            provider: None,
            last_event_at: Instant::now(),
            frame_index: 0,
            last_tool: None,
        }
    }

    pub(super) fn print_event(&mut self, event: TurnEvent) {
        match self.format {
            OutputFormat::Text => self.print_event_as_text(event),
            // The user cannot be asked in this format; dropping the question rejects it.
            OutputFormat::Events => print_json(&json_output::event_json(event)),
            OutputFormat::Json => {}
        }
    }

    /// Returns the frontend in which suggested actions are worded.
    fn frontend(&self) -> Frontend<'_> {
        match &self.frontend {
            PrinterFrontend::Shell => Frontend::Shell,
            PrinterFrontend::Repl(session) => Frontend::Repl(session.as_ref()),
        }
    }

    fn print_event_as_text(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Text { message, text } => self.print_answer(message, &text),
            TurnEvent::Thought { text, .. } => self.print_thought(&text),
            TurnEvent::Tool(call) => self.print_tool_call(&call),
            TurnEvent::Plan(steps) => self.print_plan(&steps),
            TurnEvent::Decided(decision) => {
                self.start_line();
                eprint_decisions([&decision], self.frontend());
            }
            TurnEvent::Explained(steps) => {
                self.start_line();
                super::run_turn::print_resolution_steps(&steps);
            }
            TurnEvent::PermissionRequested(request, reply) => {
                self.start_line();
                permission_prompt::ask_user(request, reply);
            }
            TurnEvent::Stopping => self.print_stopping(),
            TurnEvent::Opened { provider, .. } => self.provider = Some(provider),
            TurnEvent::Started { session, .. } => {
                if let PrinterFrontend::Repl(current) = &mut self.frontend {
                    *current = Some(session);
                }
            }
            TurnEvent::NativeIdReported { .. }
            | TurnEvent::Saved { .. }
            | TurnEvent::Usage(_)
            | TurnEvent::Ended { .. } => {}
        }
        self.last_event_at = Instant::now();
    }

    /// Reports what Ctrl-C does, below the line on which the terminal echoed it.
    fn print_stopping(&mut self) {
        if !self.stderr_is_terminal {
            return;
        }
        if self.line == CursorLine::Empty {
            eprint_line("");
        }
        self.start_line();
        eprint_line("segue: asked the agent to stop; press Ctrl-C again to end it");
    }

    fn print_answer(&mut self, message: u32, text: &str) {
        if self.line != CursorLine::Answer {
            self.start_line();
        }
        if self.last_message.replace(message) != Some(message) && self.has_open_line {
            // Every message of the answer starts on a new line.
            let _ = writeln!(std::io::stdout().lock());
        }
        let printable = if self.stdout_is_terminal {
            strip_control_chars(text)
        } else {
            text.to_owned()
        };
        let mut stdout = std::io::stdout().lock();
        let _ = stdout
            .write_all(printable.as_bytes())
            .and_then(|()| stdout.flush());
        if !printable.is_empty() {
            self.has_open_line = !printable.ends_with('\n');
            self.line = if self.has_open_line {
                CursorLine::Answer
            } else {
                CursorLine::Empty
            };
        }
    }

    fn print_thought(&mut self, text: &str) {
        if !self.stderr_is_terminal {
            return;
        }
        if self.line != CursorLine::Thought {
            self.start_line();
        }
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "{}", self.style.dim(&strip_control_chars(text)));
        self.line = CursorLine::Thought;
    }

    fn print_tool_call(&mut self, call: &ToolCall) {
        if !self.stderr_is_terminal {
            return;
        }
        let description = strip_control_chars(&format_tool_call(call));
        let line = match call.status {
            ToolStatus::Pending | ToolStatus::InProgress => format!("▸ {description}"),
            ToolStatus::Completed => format!("✓ {description}"),
            ToolStatus::Failed => format!("✗ {description}"),
        };
        if self.last_tool.replace(line.clone()).as_ref() == Some(&line) {
            return;
        }
        self.start_line();
        self.eprint_dim(&line);
        if call.status == ToolStatus::Completed {
            for diff in &call.diffs {
                let count_lines = |sign| {
                    let lines = diff.patch.lines();
                    lines.filter(|line| line.starts_with(sign)).count()
                };
                let (added, removed) = (count_lines('+'), count_lines('-'));
                let path = strip_control_chars(&diff.path);
                self.eprint_dim(&format!("  {path} +{added} −{removed}"));
            }
        }
    }

    fn print_plan(&mut self, steps: &[PlanStep]) {
        if !self.stderr_is_terminal {
            return;
        }
        self.start_line();
        for step in steps {
            let checkbox = match step.status {
                PlanStatus::Pending => "☐",
                PlanStatus::InProgress => "▸",
                PlanStatus::Completed => "☑",
            };
            let text = strip_control_chars(&step.text);
            self.eprint_dim(&format!("{checkbox} {text}"));
        }
    }

    fn eprint_dim(&self, line: &str) {
        eprint_line(&self.style.dim(line));
    }

    /// Ends or clears the current line, so that the next output starts on a new line.
    fn start_line(&mut self) {
        match self.line {
            CursorLine::Empty => {}
            // An answer that goes to another file or pipe than standard error is not interrupted.
            CursorLine::Answer if !self.stdout_is_terminal && !is_output_shared() => {}
            CursorLine::Answer => {
                let _ = writeln!(std::io::stdout().lock());
                self.has_open_line = false;
            }
            CursorLine::Thought => eprint_line(""),
            CursorLine::Spinner => {
                let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
            }
        }
        self.line = CursorLine::Empty;
    }

    /// Shows the next frame of the spinner, unless other output is on the line.
    pub(super) fn advance_spinner(&mut self) {
        let is_line_free = matches!(self.line, CursorLine::Empty | CursorLine::Spinner)
            && !permission_prompt::is_open();
        let is_visible = self.format == OutputFormat::Text && self.stderr_is_terminal;
        if !is_line_free || !is_visible || self.last_event_at.elapsed() < SPINNER_FRAME_DURATION * 3
        {
            return;
        }
        let seconds = self.last_event_at.elapsed().as_secs();
        let agent = self.provider.as_ref();
        let agent_name = agent.map_or("the agent", ProviderId::as_str);
        let frame = SPINNER_FRAMES
            .get(self.frame_index % SPINNER_FRAMES.len())
            .unwrap_or(&"");
        self.frame_index += 1;
        let text = format!("{frame} waiting for {agent_name}, {seconds} s");
        let text = self.style.dim(&text);
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
        self.line = CursorLine::Spinner;
    }

    pub(super) fn finish(&mut self) {
        if self.format != OutputFormat::Text {
            return;
        }
        self.start_line();
        if self.has_open_line {
            // The output to a file or a pipe also ends with a line end.
            let _ = writeln!(std::io::stdout().lock());
        }
    }
}

/// Returns `true` if standard output and standard error are the same pipe or file.
fn is_output_shared() -> bool {
    let file_identity = |file: rustix::io::Result<rustix::fs::Stat>| {
        file.ok().map(|stat| (stat.st_dev, stat.st_ino))
    };
    let stdout = file_identity(rustix::fs::fstat(std::io::stdout()));
    stdout.is_some() && stdout == file_identity(rustix::fs::fstat(std::io::stderr()))
}

/// Describes a tool call: its name, followed by the first line of its main argument if the name does not contain it.
fn format_tool_call(call: &ToolCall) -> String {
    const MAIN_ARGUMENT_KEYS: [&str; 7] = [
        "command",
        "cmd",
        "file_path",
        "path",
        "pattern",
        "url",
        "query",
    ];
    let args: serde_json::Value = serde_json::from_str(call.args.as_str()).unwrap_or_default();
    let main_argument = MAIN_ARGUMENT_KEYS
        .iter()
        .find_map(|name| args.get(name)?.as_str());
    match main_argument {
        Some(main_argument) if !call.name.contains(main_argument) => {
            let line = main_argument.lines().next().unwrap_or_default();
            let line: String = line.chars().take(100).collect();
            format!("{}: {line}", call.name)
        }
        Some(_) | None => call.name.clone(),
    }
}
