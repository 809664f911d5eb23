//! Output of a turn while it runs.
//!
//! The answer goes to standard output. All other information goes to standard error. Progress is shown only on a
//! terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use segue_core::id::ProviderId;
use segue_core::session::{PlanStatus, PlanStep, ToolCall, ToolStatus};
use segue_engine::TurnEvent;

use super::{Form, permission_prompt};
use crate::json_output::{self, print_json};
use crate::terminal::{Style, clean, say, say_decision};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Duration of one frame of the spinner.
pub(super) const FRAME: Duration = Duration::from_millis(100);

/// Content of the line that the cursor is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Empty,
    Answer,
    Thought,
    Spinner,
}

pub(super) struct Printer {
    form: Form,
    style: Style,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    line: Line,
    /// Message of the answer that was printed last.
    message: Option<u32>,
    /// Whether the last printed line of the answer has no line end yet.
    unended: bool,
    provider: Option<ProviderId>,
    since: Instant,
    frame: usize,
    /// Last line that was printed for a tool, because agents announce some calls twice.
    last_tool: Option<String>,
}

impl Printer {
    pub(super) fn new(form: Form) -> Self {
        Self {
            form,
            style: Style::stderr(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
            line: Line::Empty,
            message: None,
            unended: false,
            provider: None,
            since: Instant::now(),
            frame: 0,
            last_tool: None,
        }
    }

    pub(super) fn tell(&mut self, event: TurnEvent) {
        match self.form {
            Form::Words => self.tell_in_words(event),
            // The user cannot be asked in this format; dropping the question rejects it.
            Form::Events => print_json(&json_output::event(&event)),
            Form::Json => {}
        }
    }

    fn tell_in_words(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Text { message, words } => self.answer(message, &words),
            TurnEvent::Thought { words, .. } => self.thought(&words),
            TurnEvent::Tool(call) => self.tool(&call),
            TurnEvent::Plan(steps) => self.plan(&steps),
            TurnEvent::Decided(decision) => {
                self.start_line();
                say_decision(&decision);
            }
            TurnEvent::Explained(steps) => {
                self.start_line();
                super::run_turn::explain(&steps);
            }
            TurnEvent::Ask(request, reply) => {
                self.start_line();
                permission_prompt::ask(request, reply);
            }
            TurnEvent::Stopping => self.stopping(),
            TurnEvent::Opened { provider, .. } => self.provider = Some(provider),
            TurnEvent::Began { .. }
            | TurnEvent::Named { .. }
            | TurnEvent::Saved { .. }
            | TurnEvent::Usage(_)
            | TurnEvent::Ended { .. } => {}
        }
        self.since = Instant::now();
    }

    /// Reports what Ctrl-C does, below the line on which the terminal echoed it.
    fn stopping(&mut self) {
        if !self.stderr_is_terminal {
            return;
        }
        match self.line {
            Line::Empty => say(""),
            Line::Answer | Line::Thought | Line::Spinner => self.start_line(),
        }
        say("segue: asking the agent to stop; Ctrl-C again ends it");
    }

    fn answer(&mut self, message: u32, words: &str) {
        if self.line != Line::Answer {
            self.start_line();
        }
        if self.message.replace(message) != Some(message) && self.unended {
            // Every message of the answer starts on a new line.
            let _ = writeln!(std::io::stdout().lock());
        }
        let words = if self.stdout_is_terminal {
            clean(words)
        } else {
            words.to_owned()
        };
        let mut stdout = std::io::stdout().lock();
        let _ = stdout
            .write_all(words.as_bytes())
            .and_then(|()| stdout.flush());
        if !words.is_empty() {
            self.unended = !words.ends_with('\n');
            self.line = if self.unended {
                Line::Answer
            } else {
                Line::Empty
            };
        }
    }

    fn thought(&mut self, words: &str) {
        if !self.stderr_is_terminal {
            return;
        }
        if self.line != Line::Thought {
            self.start_line();
        }
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "{}", self.style.dim(&clean(words)));
        self.line = Line::Thought;
    }

    fn tool(&mut self, call: &ToolCall) {
        if !self.stderr_is_terminal {
            return;
        }
        let name = clean(&told(call));
        let line = match call.status {
            ToolStatus::Pending | ToolStatus::InProgress => format!("▸ {name}"),
            ToolStatus::Completed => format!("✓ {name}"),
            ToolStatus::Failed => format!("✗ {name}"),
        };
        if self.last_tool.replace(line.clone()).as_ref() == Some(&line) {
            return;
        }
        self.start_line();
        say(&self.style.dim(&line));
        if call.status == ToolStatus::Completed {
            for diff in &call.diffs {
                let lines = |sign| {
                    diff.patch
                        .lines()
                        .filter(|line| line.starts_with(sign))
                        .count()
                };
                let change = format!("  {} +{} −{}", clean(&diff.path), lines('+'), lines('-'));
                say(&self.style.dim(&change));
            }
        }
    }

    fn plan(&mut self, steps: &[PlanStep]) {
        if !self.stderr_is_terminal {
            return;
        }
        self.start_line();
        for step in steps {
            let sign = match step.status {
                PlanStatus::Pending => "☐",
                PlanStatus::InProgress => "▸",
                PlanStatus::Completed => "☑",
            };
            say(&self.style.dim(&format!("{sign} {}", clean(&step.text))));
        }
    }

    /// Ends or clears the current line, so that the next output starts on a new line.
    fn start_line(&mut self) {
        match self.line {
            Line::Empty => {}
            // An answer that goes to another file or pipe than standard error is not interrupted.
            Line::Answer if !self.stdout_is_terminal && !is_one_place() => {}
            Line::Answer => {
                let _ = writeln!(std::io::stdout().lock());
                self.unended = false;
            }
            Line::Thought => say(""),
            Line::Spinner => {
                let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
            }
        }
        self.line = Line::Empty;
    }

    /// Shows the next frame of the spinner, unless other output is on the line.
    pub(super) fn spin(&mut self) {
        let idle =
            matches!(self.line, Line::Empty | Line::Spinner) && !permission_prompt::is_open();
        let shown = self.form == Form::Words && self.stderr_is_terminal;
        if !idle || !shown || self.since.elapsed() < FRAME * 3 {
            return;
        }
        let waited = self.since.elapsed().as_secs();
        let who = self
            .provider
            .as_ref()
            .map_or("the agent", ProviderId::as_str);
        let frame = FRAMES.get(self.frame % FRAMES.len()).unwrap_or(&"");
        self.frame += 1;
        let text = self
            .style
            .dim(&format!("{frame} waiting for {who}, {waited} s"));
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
        self.line = Line::Spinner;
    }

    pub(super) fn end(&mut self) {
        if self.form != Form::Words {
            return;
        }
        self.start_line();
        if self.unended {
            // The output to a file or a pipe also ends with a line end.
            let _ = writeln!(std::io::stdout().lock());
        }
    }
}

/// Returns `true` if standard output and standard error are the same pipe or file.
fn is_one_place() -> bool {
    let place = |file: rustix::io::Result<rustix::fs::Stat>| {
        file.ok().map(|stat| (stat.st_dev, stat.st_ino))
    };
    let stdout = place(rustix::fs::fstat(std::io::stdout()));
    stdout.is_some() && stdout == place(rustix::fs::fstat(std::io::stderr()))
}

/// Describes a tool call: its name, followed by the first line of its main argument if the name does not contain it.
fn told(call: &ToolCall) -> String {
    const ABOUT: [&str; 7] = [
        "command",
        "cmd",
        "file_path",
        "path",
        "pattern",
        "url",
        "query",
    ];
    let args: serde_json::Value = serde_json::from_str(call.args.as_str()).unwrap_or_default();
    let about = ABOUT.iter().find_map(|name| args.get(name)?.as_str());
    match about {
        Some(about) if !call.name.contains(about) => {
            let line: String = about
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(100)
                .collect();
            format!("{}: {line}", call.name)
        }
        Some(_) | None => call.name.clone(),
    }
}
