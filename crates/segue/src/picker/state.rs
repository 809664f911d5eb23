//! Model of the picker, and its reaction to keys and answers. It uses no terminal and no threads.

mod overlays;
mod window;

use std::collections::HashMap;

use jiff::Timestamp;
use ratatui::layout::Size;

use super::data_source::{
    Chosen, Deed, Done, Next, Options, Order, Page, Place, Preview, Question, Refreshed, Row,
};
use super::draw;
use super::keys::{Edit, Key};
use super::layout::Layout;
use super::line_editor::Line;
use window::Keep;
pub(super) use window::Window;

/// Maximum number of cached previews.
const KEPT: usize = 64;

/// Action that the loop performs after a key or an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Nothing,
    Leave,
    Choose(Chosen),
    Act(Row, Deed),
    Suspend,
    Redraw,
}

/// An answer from a worker thread.
#[derive(Debug)]
pub(super) enum News {
    Page(Question, Result<Page, String>),
    /// Preview of the row with this id, and the ticket of the request.
    Preview(String, u64, Result<Preview, String>),
    Progress(String),
    Refreshed(Result<Refreshed, String>),
    /// Result of an action on the row with this id.
    Acted(String, Result<Done, String>),
}

/// Overlay of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mode {
    List,
    Help {
        top: usize,
    },
    /// The user types tags for this row.
    Tag(Row, Line),
    /// The user chooses an agent for a handoff: the row, the agents, and the index of the selected agent.
    Handoff(Row, Vec<String>, usize),
}

/// A line for the user, shown until the next key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Said(String),
    Wrong(String),
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) line: Line,
    pub(super) place: Place,
    pub(super) order: Order,
    pub(super) window: Window,
    pub(super) mode: Mode,
    message: Option<Message>,
    /// Progress of the refresh.
    pub(super) progress: Option<String>,
    pub(super) size: Size,
    pub(super) now: Timestamp,
    pub(super) colour: bool,
    /// Scroll offset of the preview.
    pub(super) scroll: usize,
    agents: Vec<String>,
    previews: HashMap<String, Result<Preview, String>>,
    preview_asked: Option<String>,
    /// Counter that increases when cached previews become invalid.
    ticket: u64,
    /// Counter that increases when the data changes, so that the rows are queried again.
    edition: u64,
    /// Query that the rows in the window answer.
    shown: Option<Question>,
    /// Ignored part of that query, with the reason.
    passed_over: Option<String>,
    /// Last query that failed, with its error.
    failed: Option<(Question, String)>,
    pending: Option<Question>,
    /// Keys that wait for the list that they apply to.
    held: Vec<Key>,
}

impl State {
    pub(super) fn new(options: Options, now: Timestamp) -> Self {
        Self {
            line: Line::new(&options.typed),
            place: options.place,
            order: options.order,
            window: Window::default(),
            mode: Mode::List,
            message: None,
            progress: None,
            size: Size::default(),
            now,
            colour: options.colour,
            scroll: 0,
            agents: options.agents,
            previews: HashMap::new(),
            preview_asked: None,
            ticket: 0,
            edition: 0,
            shown: None,
            passed_over: None,
            failed: None,
            pending: None,
            held: Vec::new(),
        }
    }

    pub(super) fn resize(&mut self, size: Size) {
        if self.size != size {
            self.size = size;
            let list = Layout::of(size).list;
            self.window.resize(list.height.into());
        }
    }

    /// Returns `true` if the list matches the search line.
    pub(super) fn is_current(&self) -> bool {
        let shown = self.shown.as_ref();
        shown.is_some_and(|question| self.is_about(question))
    }

    fn is_about(&self, question: &Question) -> bool {
        question.typed == self.line.text().trim_start()
            && question.place == self.place
            && question.order == self.order
    }

    /// Returns the error of the current query.
    pub(super) fn failure(&self) -> Option<&String> {
        let failed = self.failed.as_ref();
        failed.and_then(|(question, error)| self.is_about(question).then_some(error))
    }

    /// Returns the message for the user.
    pub(super) fn message(&self) -> Option<Message> {
        let failure = || self.failure().cloned().map(Message::Wrong);
        let passed_over = || {
            let told = self.passed_over.as_ref().filter(|_| self.is_current())?;
            Some(Message::Said(format!("passed over: {told}")))
        };
        let message = self.message.clone().or_else(failure);
        message.or_else(passed_over)
    }

    /// Returns the preview of the selected row. `None` until it has arrived.
    pub(super) fn preview(&self) -> Option<&Result<Preview, String>> {
        self.previews.get(&self.window.selected()?.id)
    }

    /// Returns the query for missing rows, once for each.
    pub(super) fn wanted_page(&mut self) -> Option<Question> {
        let shown = self.shown.as_ref().filter(|shown| self.is_about(shown));
        if shown.is_some_and(|shown| shown.edition == self.edition) && self.window.is_whole() {
            return None;
        }
        let (around, limit) = self.window.around();
        let question = Question {
            typed: self.line.text().trim_start().to_owned(),
            place: self.place,
            order: self.order,
            from: shown.map_or(0, |_| around),
            limit,
            edition: self.edition,
        };
        // A query whose answer had fewer rows than requested is not repeated.
        let failed = self.failed.as_ref().map(|(question, _)| question);
        if [self.pending.as_ref(), shown, failed].contains(&Some(&question)) {
            return None;
        }
        self.pending = Some(question.clone());
        Some(question)
    }

    /// Returns the row whose preview is missing, with a ticket, once for each.
    pub(super) fn wanted_preview(&mut self) -> Option<(Row, u64)> {
        Layout::of(self.size).preview?;
        let row = self.window.selected()?;
        if self.previews.contains_key(&row.id) || self.preview_asked.as_ref() == Some(&row.id) {
            return None;
        }
        self.preview_asked = Some(row.id.clone());
        Some((row.clone(), self.ticket))
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: Key) -> Ask {
        self.message = None;
        match (&key, &self.mode) {
            (Key::Quit, _) => return Ask::Leave,
            (Key::Suspend, _) => return Ask::Suspend,
            (Key::Redraw, _) => return Ask::Redraw,
            _ => {}
        }
        match &mut self.mode {
            Mode::List => self.press_in_list(key),
            Mode::Help { top } => {
                let top = *top;
                self.press_in_help(&key, top);
                Ask::Nothing
            }
            Mode::Tag(..) => self.press_in_tag(key),
            Mode::Handoff(..) => self.press_in_handoff(&key),
        }
    }

    fn press_in_list(&mut self, key: Key) -> Ask {
        if !is_about_rows(&key) {
            self.held.clear();
        } else if self.must_wait(&key) {
            self.held.push(key);
            return Ask::Nothing;
        }
        match key {
            Key::Char('?') if self.line.is_empty() => self.mode = Mode::Help { top: 0 },
            Key::Help => self.mode = Mode::Help { top: 0 },
            Key::Char(c) => self.retype(|line| line.insert(c.encode_utf8(&mut [0; 4]))),
            Key::Paste(text) => self.retype(|line| line.insert(&text)),
            Key::Edit(edit) => self.retype(|line| line.edit(edit)),
            Key::Escape | Key::EndOfInput if self.line.is_empty() => return Ask::Leave,
            Key::Escape => self.retype(Line::clear),
            Key::EndOfInput => self.retype(|line| line.edit(Edit::Delete)),
            Key::Move(to) => {
                self.window.go(to);
                self.scroll = 0;
            }
            Key::PreviewUp => self.scroll = self.scroll.saturating_sub(1),
            Key::PreviewDown => self.scroll = (self.scroll + 1).min(draw::last_scroll(self)),
            Key::Place => {
                self.place = match self.place {
                    Place::Here => Place::Everywhere,
                    Place::Everywhere => Place::Here,
                };
                self.ask_anew();
            }
            Key::Order if self.line.text().trim().is_empty() => {
                self.message = Some(Message::Said(
                    "the best first: type what to search for".into(),
                ));
            }
            Key::Order => {
                self.order = match self.order {
                    Order::Newest => Order::Best,
                    Order::Best => Order::Newest,
                };
                self.ask_anew();
            }
            Key::Enter | Key::Show | Key::Handoff | Key::Fork | Key::Tag | Key::Archive => {
                return self.press_for_row(&key);
            }
            Key::Quit | Key::Suspend | Key::Redraw => {}
        }
        Ask::Nothing
    }

    /// Changes the search line.
    fn retype(&mut self, change: impl FnOnce(&mut Line)) {
        let before = self.line.text();
        change(&mut self.line);
        if before.trim_start() != self.line.text().trim_start() {
            self.ask_anew();
        }
    }

    /// Invalidates the list. The old rows remain visible until the new ones arrive.
    fn ask_anew(&mut self) {
        self.scroll = 0;
        self.pending = None;
    }

    /// Returns `true` if a key for a row must wait for the current list, because it would apply to a row of the old
    /// list.
    fn must_wait(&self, key: &Key) -> bool {
        if self.failure().is_some() {
            // No rows will arrive.
            return false;
        }
        let is_fetched = matches!(key, Key::Move(_))
            || self.window.selected().is_some()
            || self.window.is_empty();
        !self.held.is_empty() || !self.is_current() || !is_fetched
    }

    /// Handles a key for the selected row.
    fn press_for_row(&mut self, key: &Key) -> Ask {
        let row = self.window.selected().filter(|_| self.is_current());
        let Some(row) = row.cloned() else {
            return Ask::Nothing;
        };
        match key {
            Key::Enter => choose(row, Next::Resume),
            Key::Show => choose(row, Next::Show),
            Key::Fork => self.act(row, Deed::Fork, "forking…"),
            Key::Archive => self.act(row, Deed::Archive, "archiving…"),
            Key::Tag => {
                self.mode = Mode::Tag(row, Line::default());
                Ask::Nothing
            }
            Key::Handoff => {
                let others = self.agents.iter().filter(|agent| **agent != row.provider);
                let others: Vec<String> = others.cloned().collect();
                if others.is_empty() {
                    let text = "there is no other agent on this machine; `segue doctor` tells more";
                    self.message = Some(Message::Wrong(text.into()));
                } else {
                    self.mode = Mode::Handoff(row, others, 0);
                }
                Ask::Nothing
            }
            _ => Ask::Nothing,
        }
    }

    fn act(&mut self, row: Row, deed: Deed, said: &str) -> Ask {
        self.message = Some(Message::Said(said.to_owned()));
        Ask::Act(row, deed)
    }

    /// Handles an answer.
    pub(super) fn told(&mut self, news: News) -> Ask {
        match news {
            News::Page(question, answer) => return self.told_page(question, answer),
            News::Preview(id, ticket, preview) if ticket == self.ticket => {
                if self.previews.len() >= KEPT {
                    self.previews.clear();
                }
                self.previews.insert(id, preview);
            }
            News::Preview(..) => {}
            News::Progress(progress) => self.progress = Some(progress),
            News::Refreshed(outcome) => {
                self.progress = None;
                match outcome {
                    Ok(Refreshed::Nothing) => {}
                    Ok(Refreshed::Changed) => self.renew(),
                    Err(error) => self.message = Some(Message::Wrong(error)),
                }
            }
            News::Acted(before, Ok(Done { said, id, fork })) => {
                self.message = Some(Message::Said(said));
                self.window.rename(&before, &id);
                if let Some(fork) = fork {
                    self.window.forked(id, fork);
                }
                self.renew();
            }
            News::Acted(_, Err(error)) => self.message = Some(Message::Wrong(error)),
        }
        Ask::Nothing
    }

    /// Marks rows and previews as outdated.
    fn renew(&mut self) {
        self.edition += 1;
        self.forget_previews();
    }

    fn forget_previews(&mut self) {
        self.ticket += 1;
        self.previews.clear();
        self.preview_asked = None;
    }

    fn told_page(&mut self, question: Question, answer: Result<Page, String>) -> Ask {
        let shown = self.shown.as_ref().filter(|shown| self.is_about(shown));
        if !self.is_about(&question) || shown.is_some_and(|shown| question.edition < shown.edition)
        {
            return Ask::Nothing;
        }
        let keep = match shown {
            None => Keep::Nothing,
            Some(shown) if shown.edition < question.edition => Keep::Selected,
            Some(_) => Keep::Place,
        };
        self.pending.take_if(|pending| *pending == question);
        let held = std::mem::take(&mut self.held);
        match answer {
            Ok(mut page) => {
                self.passed_over = page.passed_over.take();
                if keep == Keep::Nothing {
                    // Cached previews contain the matches of another search.
                    self.forget_previews();
                }
                self.window.fill(question.from, page, keep);
                self.failed = None;
                self.shown = Some(question);
                let mut asks = held.into_iter().map(|key| self.press(key));
                asks.find(|ask| *ask != Ask::Nothing)
                    .unwrap_or(Ask::Nothing)
            }
            Err(error) => {
                self.failed = Some((question, error));
                Ask::Nothing
            }
        }
    }
}

/// Returns `true` if a key applies to rows and not to the search.
fn is_about_rows(key: &Key) -> bool {
    match key {
        Key::Move(_)
        | Key::Enter
        | Key::Show
        | Key::Handoff
        | Key::Fork
        | Key::Tag
        | Key::Archive => true,
        Key::Char(_)
        | Key::Paste(_)
        | Key::Edit(_)
        | Key::PreviewUp
        | Key::PreviewDown
        | Key::Escape
        | Key::Place
        | Key::Order
        | Key::Help
        | Key::EndOfInput
        | Key::Quit
        | Key::Suspend
        | Key::Redraw => false,
    }
}

fn choose(row: Row, next: Next) -> Ask {
    Ask::Choose(Chosen { row, next })
}

#[cfg(test)]
mod tests;
