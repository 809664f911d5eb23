//! Model of the picker, and its reaction to keys and answers. It uses no terminal and no threads.

mod overlays;
mod window;

use std::collections::HashMap;

use jiff::Timestamp;
use ratatui::layout::Size;

use super::data_source::{
    ChoiceAction, ListRefresh, PickerChoice, PickerRow, ProjectFilter, RowAction, RowActionOutcome,
    RowOrder, RowPage, RowPreview, RowQuery,
};
use super::draw;
use super::keys::{LineEdit, PickerKey};
use super::layout::PickerLayout;
use super::line_editor::LineEditor;
pub(super) use window::ListWindow;
use window::PreservedState;

/// Maximum number of cached previews.
const MAX_CACHED_PREVIEWS: usize = 64;

/// Action that the loop performs after a key or an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PickerAction {
    Continue,
    Exit,
    Choose(PickerChoice),
    Act(PickerRow, RowAction),
    Suspend,
    Redraw,
}

/// An answer from a worker thread.
#[derive(Debug)]
pub(super) enum WorkerAnswer {
    Page(RowQuery, Result<RowPage, String>),
    /// Preview of the row with this id, and the ticket of the request.
    Preview(String, u64, Result<RowPreview, String>),
    Progress(String),
    Refreshed(Result<ListRefresh, String>),
    /// Result of an action on the row with this id.
    Acted(String, Result<RowActionOutcome, String>),
}

/// Overlay of the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum PickerMode {
    #[default]
    List,
    Help {
        top: usize,
    },
    /// The user types tags for this row.
    Tag(PickerRow, LineEditor),
    /// The user chooses an agent for a handoff: the row, the agents, and the index of the selected agent.
    Handoff(PickerRow, Vec<String>, usize),
}

/// A line for the user, shown until the next key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PickerMessage {
    Info(String),
    Error(String),
}

#[derive(Debug, Default)]
pub(super) struct PickerState {
    pub(super) search_line: LineEditor,
    pub(super) project_filter: ProjectFilter,
    pub(super) order: RowOrder,
    pub(super) window: ListWindow,
    pub(super) mode: PickerMode,
    message: Option<PickerMessage>,
    /// Progress of the refresh.
    pub(super) progress: Option<String>,
    pub(super) size: Size,
    pub(super) now: Timestamp,
    pub(super) use_colour: bool,
    /// Scroll offset of the preview.
    pub(super) preview_scroll: usize,
    /// Agents that a conversation can be handed to.
    agents: Vec<String>,
    previews: HashMap<String, Result<RowPreview, String>>,
    requested_preview: Option<String>,
    /// Counter that increases when cached previews become invalid.
    preview_version: u64,
    /// Counter that increases when the data changes, so that the rows are queried again.
    data_version: u64,
    /// Query that the rows in the window answer.
    shown_query: Option<RowQuery>,
    /// Ignored part of that query, with the reason.
    ignored_part: Option<String>,
    /// Last query that failed, with its error.
    failed_query: Option<(RowQuery, String)>,
    pending_query: Option<RowQuery>,
    /// Keys that wait for the list that they apply to.
    waiting_keys: Vec<PickerKey>,
}

impl PickerState {
    pub(super) fn new(agents: Vec<String>, use_colour: bool, now: Timestamp) -> Self {
        Self {
            now,
            use_colour,
            agents,
            ..Self::default()
        }
    }

    pub(super) fn resize(&mut self, size: Size) {
        if self.size != size {
            self.size = size;
            let list = PickerLayout::for_size(size).list;
            self.window.resize(list.height.into());
        }
    }

    /// Returns `true` if the list matches the search line.
    pub(super) fn is_current(&self) -> bool {
        self.current_shown_query().is_some()
    }

    /// Returns the query that the rows answer, if it is that of the search line.
    fn current_shown_query(&self) -> Option<&RowQuery> {
        let shown_query = self.shown_query.as_ref();
        shown_query.filter(|query| self.is_current_query(query))
    }

    fn is_current_query(&self, query: &RowQuery) -> bool {
        query.search_text == self.search_line.text().trim_start()
            && query.project_filter == self.project_filter
            && query.order == self.order
    }

    /// Returns the error of the current query.
    pub(super) fn query_error(&self) -> Option<&String> {
        let (query, error) = self.failed_query.as_ref()?;
        self.is_current_query(query).then_some(error)
    }

    /// Returns the message for the user.
    pub(super) fn message(&self) -> Option<PickerMessage> {
        let error_message = || self.query_error().cloned().map(PickerMessage::Error);
        let ignored_message = || {
            let ignored_part = self.ignored_part.as_ref().filter(|_| self.is_current())?;
            Some(PickerMessage::Info(format!("ignored: {ignored_part}")))
        };
        let message = self.message.clone().or_else(error_message);
        message.or_else(ignored_message)
    }

    /// Returns the preview of the selected row. `None` until it has arrived.
    pub(super) fn selected_preview(&self) -> Option<&Result<RowPreview, String>> {
        self.previews.get(&self.window.selected()?.id)
    }

    /// Returns the query for missing rows, once for each.
    pub(super) fn next_page_query(&mut self) -> Option<RowQuery> {
        let shown_query = self.current_shown_query();
        if shown_query.is_some_and(|shown_query| shown_query.data_version == self.data_version)
            && self.window.has_all_visible_rows()
        {
            return None;
        }
        let (offset, limit) = self.window.fetch_range();
        let query = RowQuery {
            search_text: self.search_line.text().trim_start().to_owned(),
            project_filter: self.project_filter,
            order: self.order,
            offset: shown_query.map_or(0, |_| offset),
            limit,
            data_version: self.data_version,
        };
        // A query whose answer had fewer rows than requested is not repeated.
        let failed_query = self.failed_query.as_ref().map(|(query, _)| query);
        if [self.pending_query.as_ref(), shown_query, failed_query].contains(&Some(&query)) {
            return None;
        }
        self.pending_query = Some(query.clone());
        Some(query)
    }

    /// Returns the row whose preview is missing, with a ticket, once for each.
    pub(super) fn next_preview_request(&mut self) -> Option<(PickerRow, u64)> {
        PickerLayout::for_size(self.size).preview?;
        let row = self.window.selected()?;
        if self.previews.contains_key(&row.id) || self.requested_preview.as_ref() == Some(&row.id) {
            return None;
        }
        self.requested_preview = Some(row.id.clone());
        Some((row.clone(), self.preview_version))
    }

    /// Handles a key.
    pub(super) fn handle_key(&mut self, key: PickerKey) -> PickerAction {
        self.message = None;
        match (key, &self.mode) {
            (PickerKey::Quit, _) => PickerAction::Exit,
            (PickerKey::Suspend, _) => PickerAction::Suspend,
            (PickerKey::Redraw, _) => PickerAction::Redraw,
            (key, PickerMode::List) => self.handle_list_key(key),
            (key, PickerMode::Help { top }) => self.handle_help_key(&key, *top),
            (key, PickerMode::Tag(..)) => self.handle_tag_key(key),
            (key, PickerMode::Handoff(..)) => self.handle_handoff_key(&key),
        }
    }

    fn handle_list_key(&mut self, key: PickerKey) -> PickerAction {
        if !is_row_key(&key) {
            self.waiting_keys.clear();
        } else if self.should_wait(&key) {
            self.waiting_keys.push(key);
            return PickerAction::Continue;
        }
        match key {
            PickerKey::Char('?') if self.search_line.is_empty() => {
                self.mode = PickerMode::Help { top: 0 }
            }
            PickerKey::Help => self.mode = PickerMode::Help { top: 0 },
            PickerKey::Char(c) => {
                self.edit_search_line(|line| line.insert(c.encode_utf8(&mut [0; 4])));
            }
            PickerKey::Paste(text) => self.edit_search_line(|line| line.insert(&text)),
            PickerKey::Edit(edit) => self.edit_search_line(|line| line.edit(edit)),
            PickerKey::Escape | PickerKey::EndOfInput if self.search_line.is_empty() => {
                return PickerAction::Exit;
            }
            PickerKey::Escape => self.edit_search_line(LineEditor::clear),
            PickerKey::EndOfInput => self.edit_search_line(|line| line.edit(LineEdit::Delete)),
            PickerKey::Move(movement) => {
                self.window.move_selection(movement);
                self.preview_scroll = 0;
            }
            PickerKey::PreviewUp => self.preview_scroll = self.preview_scroll.saturating_sub(1),
            PickerKey::PreviewDown => {
                self.preview_scroll = (self.preview_scroll + 1).min(draw::max_scroll(self));
            }
            PickerKey::ToggleProjects => {
                self.project_filter = match self.project_filter {
                    ProjectFilter::Current => ProjectFilter::All,
                    ProjectFilter::All => ProjectFilter::Current,
                };
                self.invalidate_list();
            }
            PickerKey::ToggleOrder if self.search_line.text().trim().is_empty() => {
                self.message = Some(PickerMessage::Info(
                    "type a search to sort by best match".into(),
                ));
            }
            PickerKey::ToggleOrder => {
                self.order = match self.order {
                    RowOrder::Newest => RowOrder::Best,
                    RowOrder::Best => RowOrder::Newest,
                };
                self.invalidate_list();
            }
            PickerKey::Enter
            | PickerKey::Show
            | PickerKey::Handoff
            | PickerKey::Fork
            | PickerKey::Tag
            | PickerKey::Archive => {
                return self.handle_row_key(&key);
            }
            PickerKey::Quit | PickerKey::Suspend | PickerKey::Redraw => {}
        }
        PickerAction::Continue
    }

    /// Changes the search line.
    fn edit_search_line(&mut self, change: impl FnOnce(&mut LineEditor)) {
        let before = self.search_line.text().to_owned();
        change(&mut self.search_line);
        if before.trim_start() != self.search_line.text().trim_start() {
            self.invalidate_list();
        }
    }

    /// Invalidates the list. The old rows remain visible until the new ones arrive.
    fn invalidate_list(&mut self) {
        self.preview_scroll = 0;
        self.pending_query = None;
    }

    /// Returns `true` if a key for a row must wait for the current list, because it would apply to a row of the old
    /// list.
    fn should_wait(&self, key: &PickerKey) -> bool {
        if self.query_error().is_some() {
            // No rows will arrive.
            return false;
        }
        let is_fetched = matches!(key, PickerKey::Move(_))
            || self.window.selected().is_some()
            || self.window.is_empty();
        !self.waiting_keys.is_empty() || !self.is_current() || !is_fetched
    }

    /// Handles a key for the selected row.
    fn handle_row_key(&mut self, key: &PickerKey) -> PickerAction {
        let row = self.window.selected().filter(|_| self.is_current());
        let Some(row) = row.cloned() else {
            return PickerAction::Continue;
        };
        match key {
            PickerKey::Enter => choose_row(row, ChoiceAction::Resume),
            PickerKey::Show => choose_row(row, ChoiceAction::Show),
            PickerKey::Fork => self.start_action(row, RowAction::Fork, "forking…"),
            PickerKey::Archive => self.start_action(row, RowAction::Archive, "archiving…"),
            PickerKey::Tag => {
                self.mode = PickerMode::Tag(row, LineEditor::default());
                PickerAction::Continue
            }
            PickerKey::Handoff => {
                let other_agents = self.agents.iter().filter(|agent| **agent != row.provider);
                let other_agents: Vec<String> = other_agents.cloned().collect();
                if other_agents.is_empty() {
                    let text =
                        "no other agent found on this machine; run `segue doctor` for details";
                    self.message = Some(PickerMessage::Error(text.into()));
                } else {
                    self.mode = PickerMode::Handoff(row, other_agents, 0);
                }
                PickerAction::Continue
            }
            _ => PickerAction::Continue,
        }
    }

    fn start_action(&mut self, row: PickerRow, action: RowAction, message: &str) -> PickerAction {
        self.message = Some(PickerMessage::Info(message.to_owned()));
        PickerAction::Act(row, action)
    }

    /// Handles an answer.
    pub(super) fn handle_answer(&mut self, answer: WorkerAnswer) -> PickerAction {
        match answer {
            WorkerAnswer::Page(query, result) => return self.handle_page(query, result),
            WorkerAnswer::Preview(id, version, preview) if version == self.preview_version => {
                if self.previews.len() >= MAX_CACHED_PREVIEWS {
                    self.previews.clear();
                }
                self.previews.insert(id, preview);
            }
            WorkerAnswer::Preview(..) => {}
            WorkerAnswer::Progress(progress) => self.progress = Some(progress),
            WorkerAnswer::Refreshed(outcome) => {
                self.progress = None;
                match outcome {
                    Ok(ListRefresh::Unchanged) => {}
                    Ok(ListRefresh::Changed) => self.mark_outdated(),
                    Err(error) => self.message = Some(PickerMessage::Error(error)),
                }
            }
            WorkerAnswer::Acted(
                old_id,
                Ok(RowActionOutcome {
                    message,
                    id,
                    fork_id,
                }),
            ) => {
                self.message = Some(PickerMessage::Info(message));
                self.window.replace_id(&old_id, &id);
                if let Some(fork_id) = fork_id {
                    self.window.record_fork(id, fork_id);
                }
                self.mark_outdated();
            }
            WorkerAnswer::Acted(_, Err(error)) => self.message = Some(PickerMessage::Error(error)),
        }
        PickerAction::Continue
    }

    /// Marks rows and previews as outdated.
    fn mark_outdated(&mut self) {
        self.data_version += 1;
        self.clear_previews();
    }

    fn clear_previews(&mut self) {
        self.preview_version += 1;
        self.previews.clear();
        self.requested_preview = None;
    }

    fn handle_page(&mut self, query: RowQuery, result: Result<RowPage, String>) -> PickerAction {
        let shown_query = self.current_shown_query();
        let shown_version = shown_query.map(|shown_query| shown_query.data_version);
        if !self.is_current_query(&query) || shown_version > Some(query.data_version) {
            return PickerAction::Continue;
        }
        let preserved = match shown_version {
            None => PreservedState::None,
            Some(version) if version < query.data_version => PreservedState::Selection,
            Some(_) => PreservedState::Position,
        };
        self.pending_query
            .take_if(|pending_query| *pending_query == query);
        let waiting_keys = std::mem::take(&mut self.waiting_keys);
        match result {
            Ok(mut page) => {
                self.ignored_part = page.ignored_part.take();
                if preserved == PreservedState::None {
                    // Cached previews contain the matches of another search.
                    self.clear_previews();
                }
                self.window.replace_rows(query.offset, page, preserved);
                self.failed_query = None;
                self.shown_query = Some(query);
                let mut actions = waiting_keys.into_iter().map(|key| self.handle_key(key));
                actions
                    .find(|action| *action != PickerAction::Continue)
                    .unwrap_or(PickerAction::Continue)
            }
            Err(error) => {
                self.failed_query = Some((query, error));
                PickerAction::Continue
            }
        }
    }
}

/// Returns `true` if a key applies to rows and not to the search.
fn is_row_key(key: &PickerKey) -> bool {
    matches!(
        key,
        PickerKey::Move(_)
            | PickerKey::Enter
            | PickerKey::Show
            | PickerKey::Handoff
            | PickerKey::Fork
            | PickerKey::Tag
            | PickerKey::Archive
    )
}

fn choose_row(row: PickerRow, action: ChoiceAction) -> PickerAction {
    PickerAction::Choose(PickerChoice { row, action })
}

#[cfg(test)]
mod tests;
