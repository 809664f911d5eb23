//! Line editor of the prompt: keys, history and completion.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use reedline::{
    Color, ColumnarMenu, Completer, CompletionResult, EditCommand, Emacs, FileBackedHistory,
    Highlighter, HistoryItem, KeyCode, KeyModifiers, MenuBuilder, PromptEditMode,
    PromptHistorySearch, PromptHistorySearchStatus, Reedline, ReedlineEvent, ReedlineMenu, Signal,
    Span, StyledText, Suggestion, ValidationResult, Validator, default_emacs_keybindings,
};

use super::command;
use super::multiline::{self, Shape};
use crate::terminal::{Style, say};

const FILE: &str = "history";
/// Maximum number of texts in the history.
const KEPT: usize = 10_000;
const MENU: &str = "completion";
/// Separator between the label and the line.
const INDICATOR: &str = " › ";

/// Result of an edit.
pub(super) enum Edited {
    Text(String),
    Cleared,
    End,
}

pub(super) struct Editor {
    line: Reedline,
    /// Texts that were incomplete since the prompt was shown.
    begun: Arc<Mutex<Vec<String>>>,
    leave: Arc<AtomicBool>,
}

impl Editor {
    /// Creates an editor whose history is stored in `home`.
    pub(super) fn new(home: &Path, agents: Vec<String>) -> Self {
        let begun = Arc::<Mutex<Vec<String>>>::default();
        let leave = Arc::<AtomicBool>::default();
        let mut keys = default_emacs_keybindings();
        let complete = vec![
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
        ];
        keys.add_binding(
            KeyModifiers::NONE,
            KeyCode::Tab,
            ReedlineEvent::UntilFound(complete),
        );
        let newline = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline);
        let menu = ColumnarMenu::default()
            .with_name(MENU)
            .with_marker(INDICATOR);
        let menu = ReedlineMenu::EngineCompleter(Box::new(menu));
        let line = Reedline::create()
            .with_ansi_colors(Style::stdout().has_colour())
            .use_bracketed_paste(true)
            .with_break_signal(Arc::clone(&leave))
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_validator(Box::new(Whole(Arc::clone(&begun))))
            .with_completer(Box::new(Commands { agents }))
            .with_menu(menu)
            .with_highlighter(Box::new(Plain))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_history_exclusion_prefix(Some(" ".to_owned()));
        let line = match history(home) {
            Ok(history) => line.with_history(Box::new(history)),
            Err(error) => {
                let mark = Style::stderr().yellow("segue:");
                say(&format!("{mark} what you type is not remembered: {error}"));
                line
            }
        };
        Self { line, begun, leave }
    }

    /// Returns a function that makes [`Editor::read`] return soon.
    pub(super) fn leave(&self) -> impl Fn() + use<> {
        let leave = Arc::clone(&self.leave);
        move || leave.store(true, Ordering::Relaxed)
    }

    /// Reads input until the text is complete.
    pub(super) fn read(&mut self, label: &str) -> io::Result<Edited> {
        self.begun().clear();
        match self.line.read_line(&Label(label))? {
            Signal::Success(typed) => {
                let text = multiline::joined(&typed, &self.begun());
                if text != typed && !typed.starts_with(' ') {
                    // The history contains the text as it was sent, so that the user recalls that.
                    let item = HistoryItem::from_command_line(text.as_str());
                    let _ = self.line.history_mut().save(item);
                }
                // The history is written now, so that a kill does not lose it. An error is ignored, because no other
                // code depends on it.
                let _ = self.line.sync_history();
                Ok(Edited::Text(text))
            }
            Signal::CtrlC => Ok(Edited::Cleared),
            _ => Ok(Edited::End),
        }
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the history in a file that only its owner may read.
fn history(home: &Path) -> io::Result<FileBackedHistory> {
    let path = home.join(FILE);
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)?;
    FileBackedHistory::with_file(KEPT, path).map_err(io::Error::other)
}

/// Validator that detects incomplete texts.
struct Whole(Arc<Mutex<Vec<String>>>);

impl Validator for Whole {
    fn validate(&self, text: &str) -> ValidationResult {
        match multiline::shape(text) {
            Shape::Whole => ValidationResult::Complete,
            Shape::Fenced => ValidationResult::Incomplete,
            Shape::Continued => {
                let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                begun.push(text.to_owned());
                ValidationResult::Incomplete
            }
        }
    }
}

/// Highlighter that uses the default colour of the terminal.
struct Plain;

impl Highlighter for Plain {
    fn highlight(&self, line: &str, _: usize) -> StyledText {
        let mut text = StyledText::new();
        text.push((Color::Default.normal(), line.to_owned()));
        text
    }
}

/// Completer for commands.
struct Commands {
    agents: Vec<String>,
}

impl Completer for Commands {
    fn complete(&mut self, line: &str, at: usize) -> CompletionResult {
        let begun = line.get(..at).unwrap_or_default();
        let (start, values) = command::completions(begun, &self.agents);
        let suggestions = values.into_iter().map(|value| Suggestion {
            value,
            span: Span { start, end: at },
            append_whitespace: false,
            ..Suggestion::default()
        });
        CompletionResult::fresh(suggestions.collect::<Vec<_>>())
    }
}

/// Label before the line: provider and session.
struct Label<'a>(&'a str);

impl reedline::Prompt for Label<'_> {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        self.0.into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        INDICATOR.into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "… ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let found = match search.status {
            PromptHistorySearchStatus::Passing => "found",
            PromptHistorySearchStatus::Failing => "not found",
        };
        format!(" ({found}: {}) ", search.term).into()
    }
}
