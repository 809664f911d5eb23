//! The picker: all conversations on one screen, with search and preview.
//!
//! It consists of a pure model ([`state`]), its pure rendering ([`draw`]), a terminal ([`screen`]), threads that query
//! the data source ([`work`]), and the loop that connects them. The [`Shelf`] provides the conversations. The caller
//! acts on the choice.

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

use crate::error::{CliError, Kind};
use crate::terminal::{clean, say};
pub(crate) use data_source::{Chosen, Next, Options, Order, Place, Shelf};
pub(crate) use local_source::{Machine, reference};
use screen::Screen;
pub(crate) use screen::is_possible;
use state::{Ask, State};
use workers::Workers;

/// Time that the first frame waits for rows, so that it is not empty.
const FIRST: Duration = Duration::from_millis(40);
/// Interval at which the screen is redrawn without events, because ages are shown in minutes.
const LASTS: Duration = Duration::from_secs(30);

/// Lets the user choose a conversation. `None` if the user leaves without a choice.
///
/// Calls `open` on each thread that needs a data source. The terminal is restored on return.
pub(crate) fn run<S: Shelf>(
    open: impl Fn() -> Result<S, String> + Send + Sync + 'static,
    options: Options,
) -> Result<Option<Chosen>, CliError> {
    let broken = |error: io::Error| CliError::failed("cannot use the terminal").because(&error);
    let mut workers = Workers::start(open).map_err(broken)?;
    let mut state = State::new(options, Timestamp::now());
    let outcome =
        Screen::take().and_then(|mut screen| choose(&mut screen, &mut workers, &mut state));
    // The terminal is restored, so messages are visible and the user can interrupt the wait.
    for done in workers.finish() {
        let told = done.map_or_else(|error| format!("error: {error}"), |done| done.said);
        say(&clean(&told));
    }
    match outcome.map_err(broken)? {
        End::Left => Ok(None),
        End::Chosen(chosen) => Ok(Some(*chosen)),
        End::Told => Err(CliError {
            retry_at: None,
            about: Box::default(),
            kind: Kind::Interrupted,
            message: "interrupted; nothing was chosen".to_owned(),
            hints: Vec::new(),
        }),
    }
}

/// End of the picker.
enum End {
    Left,
    Chosen(Box<Chosen>),
    /// A signal, or the loss of the terminal.
    Told,
}

/// Runs the loop: draws, waits and handles events.
fn choose(screen: &mut Screen, workers: &mut Workers, state: &mut State) -> io::Result<End> {
    let started = Instant::now();
    loop {
        state.resize(screen.size()?);
        if let Some(question) = state.wanted_page() {
            workers.look(question);
        }
        if let Some((row, ticket)) = state.wanted_preview() {
            workers.preview(row, ticket);
        }
        let early = if state.is_current() {
            Duration::ZERO
        } else {
            FIRST.saturating_sub(started.elapsed())
        };
        if early.is_zero() {
            state.now = Timestamp::now();
            screen.draw(state)?;
        }
        let at_most = if early.is_zero() { LASTS } else { early };
        let woken = screen.wait(workers.bell(), at_most)?;
        if woken.is_over {
            return Ok(End::Told);
        }
        let news = workers.news();
        let answers = news.into_iter().map(Happened::News);
        for happened in answers.chain(woken.keys.into_iter().map(Happened::Key)) {
            let ask = match happened {
                Happened::News(news) => state.told(news),
                Happened::Key(key) => state.press(key),
            };
            match ask {
                Ask::Nothing => {}
                Ask::Leave => return Ok(End::Left),
                Ask::Choose(chosen) => return Ok(End::Chosen(Box::new(chosen))),
                Ask::Act(row, deed) => workers.act(row, deed),
                Ask::Suspend => screen.suspend()?,
                Ask::Redraw => {
                    screen.clear()?;
                    workers.refresh();
                }
            }
        }
    }
}

enum Happened {
    News(state::News),
    Key(keys::Key),
}

#[cfg(test)]
mod tests;
