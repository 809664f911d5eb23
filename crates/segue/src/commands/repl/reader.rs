//! Input of prompts: an interactive terminal or a pipe.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::editor::Editor;
use super::multiline::LineBuffer;
use crate::commands::chat::signals::SignalHandler;
use crate::error::CliError;

/// Result of reading input.
pub(super) enum ReadOutcome {
    Text(String),
    /// No text; the prompt is shown again.
    Empty,
    /// Input that is not valid text.
    Invalid(CliError),
    /// An error after which no more input can be read.
    Failed(CliError),
    End,
}

pub(super) enum ReplReader {
    /// Line editor. `None` only while the user types.
    Editor(Option<Box<Editor>>),
    /// Plain lines, with a prompt if the input is interactive.
    Lines { has_label: bool, buffer: LineBuffer },
}

/// Returns `true` if the input is interactive.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal()
}

impl ReplReader {
    pub(super) fn new(home: &Path, agents: Vec<String>) -> Self {
        // The editor queries the position of the cursor through standard output.
        if is_interactive() && io::stdout().is_terminal() && io::stderr().is_terminal() {
            return Self::Editor(Some(Box::new(Editor::new(home, agents))));
        }
        Self::Lines {
            has_label: is_interactive() && io::stderr().is_terminal(),
            buffer: LineBuffer::default(),
        }
    }

    /// Returns the next text.
    pub(super) async fn read_next(&mut self, label: &str, signals: &SignalHandler) -> ReadOutcome {
        match self {
            Self::Editor(editor) => {
                let Some(current_editor) = editor.take() else {
                    return ReadOutcome::End;
                };
                let (returned_editor, outcome) =
                    run_editor(current_editor, label.to_owned(), signals).await;
                *editor = returned_editor;
                outcome
            }
            Self::Lines { has_label, buffer } => {
                if *has_label {
                    let label = if buffer.is_empty() { label } else { "…" };
                    let _ = write!(io::stderr().lock(), "{label} › ");
                }
                read_from_stdin(buffer, signals).await
            }
        }
    }
}

/// Interval at which segue checks that the terminal still exists.
const HANGUP_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Time that the editor may take to restore the terminal.
const TERMINAL_RESTORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the editor on a blocking thread, so that signals are handled while the user types.
async fn run_editor(
    mut editor: Box<Editor>,
    label: String,
    signals: &SignalHandler,
) -> (Option<Box<Editor>>, ReadOutcome) {
    let request_break = editor.break_trigger();
    let mut edit_task = tokio::task::spawn_blocking(move || {
        let outcome = editor.read_text(&label);
        (editor, outcome)
    });
    let edit_result = tokio::select! {
        biased;
        edit_result = &mut edit_task => Some(edit_result),
        () = signals.wait_for_end() => stop_editor(edit_task, request_break).await,
        () = wait_for_hangup() => {
            signals.end_conversation();
            stop_editor(edit_task, request_break).await
        }
    };
    match edit_result {
        Some(Ok((editor, Ok(outcome)))) => (Some(editor), outcome),
        Some(Ok((_, Err(error)))) => {
            let error = CliError::failed("cannot read from the terminal").with_cause(&error);
            (None, ReadOutcome::Failed(error))
        }
        Some(Err(_)) | None => (None, ReadOutcome::End),
    }
}

/// Waits until the editor has restored the terminal. `None` after a timeout: if the terminal no longer exists, the
/// editor reads its end repeatedly, and ends only with the process.
async fn stop_editor<T>(
    edit_task: tokio::task::JoinHandle<T>,
    request_break: impl Fn(),
) -> Option<Result<T, tokio::task::JoinError>> {
    request_break();
    let stopped = tokio::time::timeout(TERMINAL_RESTORE_TIMEOUT, edit_task);
    stopped.await.ok()
}

/// Waits until the terminal no longer exists, because not every process receives a signal for that.
async fn wait_for_hangup() {
    let mut timer = tokio::time::interval(HANGUP_CHECK_INTERVAL);
    loop {
        timer.tick().await;
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
        let hangup_flags = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        if poll(&mut fds, Some(&Timespec::default())).is_ok()
            && fds.iter().any(|fd| fd.revents().intersects(hangup_flags))
        {
            return;
        }
    }
}

async fn read_from_stdin(buffer: &mut LineBuffer, signals: &SignalHandler) -> ReadOutcome {
    let mut line = tokio::task::spawn_blocking(|| {
        let mut line = Vec::new();
        let read_result = io::stdin().lock().read_until(b'\n', &mut line);
        read_result.map(|_| line)
    });
    let line = tokio::select! {
        biased;
        // A line that arrives together with the end of the conversation is not sent.
        () = signals.wait_for_end() => return ReadOutcome::End,
        line = &mut line => line,
    };
    match line {
        Ok(Ok(line)) if line.is_empty() => buffer
            .take_remainder()
            .map_or(ReadOutcome::End, ReadOutcome::Text),
        Ok(Ok(line)) => add_line(buffer, line),
        Ok(Err(error)) => {
            ReadOutcome::Failed(CliError::failed("cannot read standard input").with_cause(&error))
        }
        Err(_) => ReadOutcome::End,
    }
}

fn add_line(buffer: &mut LineBuffer, line: Vec<u8>) -> ReadOutcome {
    let Ok(line) = String::from_utf8(line) else {
        *buffer = LineBuffer::default();
        return ReadOutcome::Invalid(CliError::usage(
            "a line of standard input is not valid UTF-8; nothing was sent",
        ));
    };
    let line = line.strip_suffix('\n').unwrap_or(&line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    buffer
        .push_line(line)
        .map_or(ReadOutcome::Empty, ReadOutcome::Text)
}
