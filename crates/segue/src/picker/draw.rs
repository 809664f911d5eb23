//! Rendering of the picker. It is pure: the same state and size always produce the same frame.
//!
//! It uses only the sixteen colours of the terminal and sets no background, so that it works with light and dark
//! themes. Important information is also shown by bold, dim or reverse, so that it is visible without colours.

mod list;
mod overlay;
mod preview;

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use segue_core::number_format::format_count;

use super::data_source::{HighlightedText, ProjectFilter, RowOrder, RowTotal};
use super::layout::PickerLayout;
use super::state::{PickerMessage, PickerMode, PickerState};
use crate::terminal::{format_plural, text};

pub(super) use preview::max_scroll;

const PLAIN_STYLE: Style = Style::new();
const BOLD_STYLE: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM_STYLE: Style = Style::new().add_modifier(Modifier::DIM);

/// Text before the search line.
const SEARCH_PROMPT: &str = "› ";

/// Draws the complete screen.
pub(super) fn draw_screen(state: &PickerState, frame: &mut Frame<'_>) {
    let PickerLayout {
        search,
        info,
        list,
        rule,
        preview,
        footer,
    } = PickerLayout::for_size(frame.area().as_size());
    draw_search(state, frame, search);
    draw_line(frame, info, &info_line(state, info.width.into()));
    list::draw_list(state, frame, list);
    if let Some(area) = preview.filter(|_| !state.window.is_empty()) {
        draw_rule(frame, rule);
        preview::draw_preview(state, frame, area);
    }
    draw_line(frame, footer, &footer_line(state, footer.width.into()));
    match &state.mode {
        PickerMode::List => {}
        PickerMode::Help { top } => overlay::draw_help(frame, *top),
        PickerMode::Tag(row, line) => overlay::draw_tag_dialog(frame, row, line),
        PickerMode::Handoff(row, agents, selected) => {
            overlay::draw_handoff_dialog(frame, row, agents, *selected);
        }
    }
}

/// Writes a line cell by cell. Ratatui's own method uses the width of complete spans, in which some pairs of letters
/// count as one, and would lose the last letter.
fn draw_line(frame: &mut Frame<'_>, area: Rect, line: &Line<'_>) {
    if area.is_empty() {
        return;
    }
    let mut x = area.x;
    for span in &line.spans {
        let room = usize::from(area.right().saturating_sub(x));
        let style = line.style.patch(span.style);
        (x, _) = frame
            .buffer_mut()
            .set_stringn(x, area.y, &span.content, room, style);
    }
}

/// Cuts a snippet to a width. Its matches are bold.
fn snippet_spans(snippet: &HighlightedText, width: usize, style: Style) -> Vec<Span<'static>> {
    let mut remaining = width;
    let spans = snippet.iter().map(|span| {
        let content = text::truncate(&text::to_plain_line(&span.text), remaining);
        remaining -= text::display_width(&content);
        Span::styled(content, if span.is_match { BOLD_STYLE } else { style })
    });
    spans.collect()
}

/// Adds a colour to a style if colours are enabled.
fn with_colour(state: &PickerState, style: Style, colour: Color) -> Style {
    if state.use_colour {
        style.fg(colour)
    } else {
        style
    }
}

fn draw_search(state: &PickerState, frame: &mut Frame<'_>, area: Rect) {
    let room = usize::from(area.width).saturating_sub(text::display_width(SEARCH_PROMPT));
    let (typed, cursor) = state.search_line.visible_part(room);
    let content = if state.search_line.is_empty() {
        Span::styled(text::truncate("type to search", room), DIM_STYLE)
    } else {
        Span::styled(typed, BOLD_STYLE)
    };
    let prompt = Span::styled(SEARCH_PROMPT, with_colour(state, BOLD_STYLE, Color::Cyan));
    draw_line(frame, area, &Line::from(vec![prompt, content]));
    if state.mode == PickerMode::List && !area.is_empty() {
        let column = u16::try_from(text::display_width(SEARCH_PROMPT) + cursor).unwrap_or(u16::MAX);
        let x = area.x.saturating_add(column).min(area.right() - 1);
        frame.set_cursor_position(Position::new(x, area.y));
    }
}

/// Returns the line below the search: searched projects, order, number of conversations and progress.
fn info_line(state: &PickerState, width: usize) -> Line<'static> {
    let mut parts = vec![match state.project_filter {
        ProjectFilter::Current => "this project".to_owned(),
        ProjectFilter::All => "all projects".to_owned(),
    }];
    if !state.search_line.text().trim().is_empty() {
        parts.push(match state.order {
            RowOrder::Newest => "newest first".to_owned(),
            RowOrder::Best => "best match first".to_owned(),
        });
    }
    match state.window.total().filter(|_| state.is_current()) {
        Some(total) => parts.push(format_total(total)),
        None if state.query_error().is_none() => parts.push("…".to_owned()),
        None => {}
    }
    let left_text = text::truncate(&format!("── {} ", parts.join(" · ")), width);
    let room = width - text::display_width(&left_text);
    let right_text = match &state.progress {
        Some(progress) if room >= 16 => {
            let progress = text::truncate(&text::to_plain_line(progress), room - 6);
            format!(" {progress} ──")
        }
        _ => String::new(),
    };
    let middle = "─".repeat(room.saturating_sub(text::display_width(&right_text)));
    Line::styled(format!("{left_text}{middle}{right_text}"), DIM_STYLE)
}

fn format_total(total: RowTotal) -> String {
    match total {
        RowTotal::Exact(count) => format_plural(count as u64, "session"),
        RowTotal::AtLeast(count) => format!("{}+ sessions", format_count(count as u64)),
    }
}

fn draw_rule(frame: &mut Frame<'_>, area: Rect) {
    let line = if area.width == 1 { "│" } else { "─" };
    for row in area.rows() {
        let text = line.repeat(area.width.into());
        draw_line(frame, row, &Line::styled(text, DIM_STYLE));
    }
}

/// Returns the last line: a message if there is one, else the keys, most useful first.
fn footer_line(state: &PickerState, width: usize) -> Line<'static> {
    match state.message() {
        Some(PickerMessage::Info(message)) => {
            let message = text::truncate(&text::to_plain_line(&message), width);
            Line::styled(message, BOLD_STYLE)
        }
        Some(PickerMessage::Error(error)) => {
            let label = Span::styled("error: ", with_colour(state, BOLD_STYLE, Color::Red));
            let error = text::truncate(&text::to_plain_line(&error), width.saturating_sub(7));
            Line::from(vec![label, Span::raw(error)])
        }
        None => key_hints(state, width),
    }
}

fn key_hints(state: &PickerState, width: usize) -> Line<'static> {
    let tab_label = match state.project_filter {
        ProjectFilter::Current => "all",
        ProjectFilter::All => "here",
    };
    // The effect of `?` and Esc depends on the search line.
    let (help, escape) = if state.search_line.is_empty() {
        (("?", "help"), ("Esc", "quit"))
    } else {
        (("F1", "help"), ("Esc", "clear"))
    };
    let empty_list_keys = [("Tab", tab_label), escape];
    let row_keys = [
        ("Enter", "resume"),
        ("^O", "show"),
        ("^X", "handoff"),
        ("Tab", tab_label),
        ("^Y", "fork"),
        ("^T", "tag"),
        ("^S", "archive"),
    ];
    let mut room = width.saturating_sub(hint_width(help));
    let mut spans = Vec::new();
    let is_empty = state.is_current() && state.window.is_empty();
    let keys: &[_] = if is_empty {
        &empty_list_keys
    } else {
        &row_keys
    };
    for &hint in keys {
        let Some(remaining) = room.checked_sub(hint_width(hint) + 2) else {
            break;
        };
        room = remaining;
        spans.extend(hint_spans(hint));
        spans.push(Span::raw("  "));
    }
    spans.extend(hint_spans(help));
    Line::from(spans)
}

fn hint_width((key, label): (&str, &str)) -> usize {
    text::display_width(key) + 1 + text::display_width(label)
}

fn hint_spans((key, label): (&'static str, &'static str)) -> [Span<'static>; 2] {
    [
        Span::styled(key, BOLD_STYLE),
        Span::styled(format!(" {label}"), DIM_STYLE),
    ]
}

#[cfg(test)]
mod tests;
