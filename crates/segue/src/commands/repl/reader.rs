//! Input of prompts: an interactive terminal or a pipe.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::editor::{Edited, Editor};
use super::multiline::Gathered;
use super::signals::Signals;
use crate::error::CliError;

/// Result of reading input.
pub(super) enum Read {
    Text(String),
    /// No text; the prompt is shown again.
    Nothing,
    /// Input that is not valid text.
    Bad(CliError),
    /// An error after which no more input can be read.
    Broken(CliError),
    End,
}

pub(super) enum Reader {
    /// Line editor. `None` only while the user types.
    Editor(Option<Box<Editor>>),
    /// Plain lines, with a prompt if the input is interactive.
    Lines { prompted: bool, gathered: Gathered },
}

/// Returns `true` if the input is interactive.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal()
}

impl Reader {
    pub(super) fn new(home: &Path, agents: Vec<String>) -> Self {
        // The editor queries the position of the cursor through standard output.
        if is_interactive() && io::stdout().is_terminal() && io::stderr().is_terminal() {
            return Self::Editor(Some(Box::new(Editor::new(home, agents))));
        }
        Self::Lines {
            prompted: is_interactive() && io::stderr().is_terminal(),
            gathered: Gathered::default(),
        }
    }

    /// Returns the next text.
    pub(super) async fn next(&mut self, label: &str, signals: &Signals) -> Read {
        match self {
            Self::Editor(editor) => {
                let Some(taken) = editor.take() else {
                    return Read::End;
                };
                let (back, read) = edit(taken, label.to_owned(), signals).await;
                *editor = back;
                read
            }
            Self::Lines { prompted, gathered } => {
                if *prompted {
                    let label = if gathered.is_empty() { label } else { "…" };
                    let _ = write!(io::stderr().lock(), "{label} › ");
                }
                lines(gathered, signals).await
            }
        }
    }
}

/// Interval at which segue checks that the terminal still exists.
const LOOK: Duration = Duration::from_millis(500);
/// Time that the editor may take to restore the terminal.
const GIVE_BACK: Duration = Duration::from_secs(2);

/// Runs the editor on a blocking thread, so that signals are handled while the user types.
async fn edit(
    mut editor: Box<Editor>,
    label: String,
    signals: &Signals,
) -> (Option<Box<Editor>>, Read) {
    let leave = editor.leave();
    let mut typing = tokio::task::spawn_blocking(move || {
        let edited = editor.read(&label);
        (editor, edited)
    });
    let typed = tokio::select! {
        biased;
        typed = &mut typing => Some(typed),
        () = signals.over() => left(typing, leave).await,
        () = hung_up() => {
            signals.end();
            left(typing, leave).await
        }
    };
    let Some(typed) = typed else {
        return (None, Read::End);
    };
    match typed {
        Ok((editor, Ok(Edited::Text(text)))) => (Some(editor), Read::Text(text)),
        Ok((editor, Ok(Edited::Cleared))) => (Some(editor), Read::Nothing),
        Ok((editor, Ok(Edited::End))) => (Some(editor), Read::End),
        Ok((_, Err(error))) => {
            let error = CliError::failed("cannot read from the terminal").because(&error);
            (None, Read::Broken(error))
        }
        Err(_) => (None, Read::End),
    }
}

/// Waits until the editor has restored the terminal. `None` after a timeout: if the terminal no longer exists, the
/// editor reads its end repeatedly, and ends only with the process.
async fn left<T>(
    typing: tokio::task::JoinHandle<T>,
    leave: impl Fn(),
) -> Option<Result<T, tokio::task::JoinError>> {
    leave();
    tokio::time::timeout(GIVE_BACK, typing).await.ok()
}

/// Waits until the terminal no longer exists, because not every process receives a signal for that.
async fn hung_up() {
    let mut often = tokio::time::interval(LOOK);
    loop {
        often.tick().await;
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        if poll(&mut fds, Some(&Timespec::default())).is_ok()
            && fds.iter().any(|fd| fd.revents().intersects(gone))
        {
            return;
        }
    }
}

async fn lines(gathered: &mut Gathered, signals: &Signals) -> Read {
    let mut line = tokio::task::spawn_blocking(|| {
        let mut line = Vec::new();
        let read = io::stdin().lock().read_until(b'\n', &mut line);
        read.map(|_| line)
    });
    let line = tokio::select! {
        biased;
        // A line that arrives together with the end of the conversation is not sent.
        () = signals.over() => return Read::End,
        line = &mut line => line,
    };
    match line {
        Ok(Ok(line)) if line.is_empty() => gathered.rest().map_or(Read::End, Read::Text),
        Ok(Ok(line)) => add(gathered, line),
        Ok(Err(error)) => {
            Read::Broken(CliError::failed("cannot read standard input").because(&error))
        }
        Err(_) => Read::End,
    }
}

fn add(gathered: &mut Gathered, line: Vec<u8>) -> Read {
    let Ok(line) = String::from_utf8(line) else {
        *gathered = Gathered::default();
        return Read::Bad(CliError::usage(
            "a line of standard input is not valid UTF-8; nothing was sent",
        ));
    };
    let line = line.strip_suffix('\n').unwrap_or(&line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    gathered.add(line).map_or(Read::Nothing, Read::Text)
}
