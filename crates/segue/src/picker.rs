//! The picker: all conversations on one screen, with search and preview.
//!
//! It consists of a pure model ([`state`]), its pure rendering ([`draw`]), a terminal ([`screen`]), threads that query
//! the data source ([`workers`]), and the loop that connects them. The [`DataSource`] provides the conversations. The
//! caller acts on the choice.

mod data_source;
mod draw;
mod keys;
mod layout;
mod line_editor;
mod local_source;
mod screen;
mod state;
mod workers;

use std::io;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::error::{CliError, ExitKind};
use crate::terminal::{eprint_line, strip_control_chars};
pub(crate) use data_source::{ChoiceAction, DataSource, PickerChoice};
pub(crate) use local_source::{LocalSource, row_ref};
use screen::Screen;
pub(crate) use screen::is_terminal_supported;
use state::{PickerAction, PickerState};
use workers::Workers;

/// Time that the first frame waits for rows, so that it is not empty.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_millis(40);
/// Interval at which the screen is redrawn without events, because ages are shown in minutes.
const REDRAW_INTERVAL: Duration = Duration::from_secs(30);

/// Lets the user choose a conversation. `None` if the user leaves without a choice.
///
/// A conversation can be handed to one of `agents`. Calls `open` on each thread that needs a data source. The terminal is restored on return.
pub(crate) fn run<S: DataSource>(
    open: impl Fn() -> Result<S, String> + Send + Sync + 'static,
    agents: Vec<String>,
    use_colour: bool,
) -> Result<Option<PickerChoice>, CliError> {
    let terminal_error =
        |error: io::Error| CliError::failed("cannot use the terminal").with_cause(&error);
    let mut workers = Workers::start(open).map_err(terminal_error)?;
    let mut state = PickerState::new(agents, use_colour, Timestamp::now());
    let outcome =
        Screen::open().and_then(|mut screen| run_event_loop(&mut screen, &mut workers, &mut state));
    // The terminal is restored, so messages are visible and the user can interrupt the wait.
    for result in workers.finish() {
        let message = result.map_or_else(
            |error| format!("error: {error}"),
            |action_outcome| action_outcome.message,
        );
        eprint_line(&strip_control_chars(&message));
    }
    match outcome.map_err(terminal_error)? {
        PickerEnd::Cancelled => Ok(None),
        PickerEnd::Chosen(choice) => Ok(Some(*choice)),
        PickerEnd::Interrupted => Err(CliError::new(
            ExitKind::Interrupted,
            "interrupted; no session was chosen",
        )),
    }
}

/// End of the picker.
enum PickerEnd {
    Cancelled,
    Chosen(Box<PickerChoice>),
    /// A signal, or the loss of the terminal.
    Interrupted,
}

/// Runs the loop: draws, waits and handles events.
fn run_event_loop(
    screen: &mut Screen,
    workers: &mut Workers,
    state: &mut PickerState,
) -> io::Result<PickerEnd> {
    let started = Instant::now();
    loop {
        state.resize(screen.size()?);
        if let Some(query) = state.next_page_query() {
            workers.request_page(query);
        }
        if let Some((row, version)) = state.next_preview_request() {
            workers.request_preview(row, version);
        }
        let first_frame_delay = if state.is_current() {
            Duration::ZERO
        } else {
            FIRST_FRAME_TIMEOUT.saturating_sub(started.elapsed())
        };
        if first_frame_delay.is_zero() {
            state.now = Timestamp::now();
            screen.draw(state)?;
        }
        let timeout = if first_frame_delay.is_zero() {
            REDRAW_INTERVAL
        } else {
            first_frame_delay
        };
        let Some(keys) = screen.wait(workers.answers_fd(), timeout)? else {
            return Ok(PickerEnd::Interrupted);
        };
        let answers = workers.take_answers().into_iter();
        let mut actions: Vec<PickerAction> =
            answers.map(|answer| state.handle_answer(answer)).collect();
        actions.extend(keys.into_iter().map(|key| state.handle_key(key)));
        for action in actions {
            match action {
                PickerAction::Continue => {}
                PickerAction::Exit => return Ok(PickerEnd::Cancelled),
                PickerAction::Choose(choice) => return Ok(PickerEnd::Chosen(Box::new(choice))),
                PickerAction::Act(row, row_action) => workers.request_action(row, row_action),
                PickerAction::Suspend => screen.suspend()?,
                PickerAction::Redraw => {
                    screen.clear()?;
                    workers.request_refresh();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
