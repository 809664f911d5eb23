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
use super::multiline::{self, TextCompleteness};
use super::reader::ReadOutcome;
use crate::terminal::{Style, eprint_note};

const HISTORY_FILE_NAME: &str = "history";
/// Maximum number of texts in the history.
const MAX_HISTORY_ENTRIES: usize = 10_000;
const COMPLETION_MENU_NAME: &str = "completion";
/// Separator between the label and the line.
const PROMPT_INDICATOR: &str = " › ";

pub(super) struct Editor {
    reedline: Reedline,
    /// Texts that were incomplete since the prompt was shown.
    incomplete_texts: Arc<Mutex<Vec<String>>>,
    break_signal: Arc<AtomicBool>,
}

impl Editor {
    /// Creates an editor whose history is stored in `home`.
    pub(super) fn new(home: &Path, agents: Vec<String>) -> Self {
        let incomplete_texts = Arc::<Mutex<Vec<String>>>::default();
        let break_signal = Arc::<AtomicBool>::default();
        let mut keys = default_emacs_keybindings();
        let completion_events = vec![
            ReedlineEvent::Menu(COMPLETION_MENU_NAME.to_owned()),
            ReedlineEvent::MenuNext,
        ];
        keys.add_binding(
            KeyModifiers::NONE,
            KeyCode::Tab,
            ReedlineEvent::UntilFound(completion_events),
        );
        let newline = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline);
        let menu = ColumnarMenu::default()
            .with_name(COMPLETION_MENU_NAME)
            .with_marker(PROMPT_INDICATOR);
        let menu = ReedlineMenu::EngineCompleter(Box::new(menu));
        let reedline = Reedline::create()
            .with_ansi_colors(Style::stdout().has_colour())
            .use_bracketed_paste(true)
            .with_break_signal(Arc::clone(&break_signal))
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_validator(Box::new(CompletenessValidator(Arc::clone(
                &incomplete_texts,
            ))))
            .with_completer(Box::new(CommandCompleter { agents }))
            .with_menu(menu)
            .with_highlighter(Box::new(PlainHighlighter))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_history_exclusion_prefix(Some(" ".to_owned()));
        let reedline = match open_history(home) {
            Ok(history) => reedline.with_history(Box::new(history)),
            Err(error) => {
                eprint_note(&format!("cannot save the input history: {error}"));
                reedline
            }
        };
        Self {
            reedline,
            incomplete_texts,
            break_signal,
        }
    }

    /// Returns a function that makes [`Editor::read_text`] return soon.
    pub(super) fn break_trigger(&self) -> impl Fn() + use<> {
        let break_signal = Arc::clone(&self.break_signal);
        move || break_signal.store(true, Ordering::Relaxed)
    }

    /// Reads input until the text is complete.
    pub(super) fn read_text(&mut self, label: &str) -> io::Result<ReadOutcome> {
        self.lock_incomplete_texts().clear();
        match self.reedline.read_line(&PromptLabel(label))? {
            Signal::Success(input) => {
                let text =
                    multiline::remove_continuation_marks(&input, &self.lock_incomplete_texts());
                if text != input && !input.starts_with(' ') {
                    // The history contains the text as it was sent, so that the user recalls that.
                    let item = HistoryItem::from_command_line(text.as_str());
                    let _ = self.reedline.history_mut().save(item);
                }
                // The history is written now, so that a kill does not lose it. An error is ignored, because no other
                // code depends on it.
                let _ = self.reedline.sync_history();
                Ok(ReadOutcome::Text(text))
            }
            Signal::CtrlC => Ok(ReadOutcome::Empty),
            _ => Ok(ReadOutcome::End),
        }
    }

    fn lock_incomplete_texts(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.incomplete_texts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the history in a file that only its owner may read.
fn open_history(home: &Path) -> io::Result<FileBackedHistory> {
    let path = home.join(HISTORY_FILE_NAME);
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)?;
    FileBackedHistory::with_file(MAX_HISTORY_ENTRIES, path).map_err(io::Error::other)
}

/// Validator that detects incomplete texts.
struct CompletenessValidator(Arc<Mutex<Vec<String>>>);

impl Validator for CompletenessValidator {
    fn validate(&self, text: &str) -> ValidationResult {
        match multiline::text_completeness(text) {
            TextCompleteness::Complete => ValidationResult::Complete,
            TextCompleteness::Fenced => ValidationResult::Incomplete,
            TextCompleteness::Continued => {
                let mut incomplete_texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                incomplete_texts.push(text.to_owned());
                ValidationResult::Incomplete
            }
        }
    }
}

/// Highlighter that uses the default colour of the terminal.
struct PlainHighlighter;

impl Highlighter for PlainHighlighter {
    fn highlight(&self, line: &str, _: usize) -> StyledText {
        let mut text = StyledText::new();
        text.push((Color::Default.normal(), line.to_owned()));
        text
    }
}

/// Completer for commands.
struct CommandCompleter {
    agents: Vec<String>,
}

impl Completer for CommandCompleter {
    fn complete(&mut self, line: &str, cursor: usize) -> CompletionResult {
        let input = line.get(..cursor).unwrap_or_default();
        let (start, values) = command::find_completions(input, &self.agents);
        let suggestions = values.into_iter().map(|value| Suggestion {
            value,
            span: Span { start, end: cursor },
            append_whitespace: false,
            ..Suggestion::default()
        });
        CompletionResult::fresh(suggestions.collect::<Vec<_>>())
    }
}

/// Label before the line: provider and session.
struct PromptLabel<'a>(&'a str);

impl reedline::Prompt for PromptLabel<'_> {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        self.0.into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        PROMPT_INDICATOR.into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "… ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let status = match search.status {
            PromptHistorySearchStatus::Passing => "found",
            PromptHistorySearchStatus::Failing => "not found",
        };
        format!(" ({status}: {}) ", search.term).into()
    }
}
