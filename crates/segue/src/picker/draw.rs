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
use segue_core::number_format::figure;

use super::data_source::{Order, Place, Total};
use super::layout::Layout;
use super::state::{Message, Mode, State};
use crate::terminal::text;

pub(super) use preview::last_scroll;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);

/// Text before the search line.
const PROMPT: &str = "› ";

/// Draws the complete screen.
pub(super) fn draw(state: &State, frame: &mut Frame<'_>) {
    let Layout {
        search,
        info,
        list,
        rule,
        preview,
        foot,
    } = Layout::of(frame.area().as_size());
    draw_search(state, frame, search);
    put(frame, info, &info_line(state, info.width.into()));
    list::draw(state, frame, list);
    if let Some(area) = preview.filter(|_| !state.window.is_empty()) {
        draw_rule(frame, rule);
        preview::draw(state, frame, area);
    }
    put(frame, foot, &foot_line(state, foot.width.into()));
    match &state.mode {
        Mode::List => {}
        Mode::Help { top } => overlay::draw_help(frame, *top),
        Mode::Tag(row, line) => overlay::draw_tag(frame, row, line),
        Mode::Handoff(row, agents, selected) => {
            overlay::draw_handoff(frame, row, agents, *selected);
        }
    }
}

/// Writes a line cell by cell. Ratatui's own method uses the width of complete spans, in which some pairs of letters
/// count as one, and would lose the last letter.
fn put(frame: &mut Frame<'_>, area: Rect, line: &Line<'_>) {
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

/// Adds a colour to a style if colours are enabled.
fn coloured(state: &State, style: Style, colour: Color) -> Style {
    if state.colour {
        style.fg(colour)
    } else {
        style
    }
}

fn draw_search(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let room = usize::from(area.width).saturating_sub(text::width(PROMPT));
    let (typed, cursor) = state.line.view(room);
    let shown = if state.line.is_empty() {
        Span::styled(text::cut("type to search", room), DIM)
    } else {
        Span::styled(typed, BOLD)
    };
    let prompt = Span::styled(PROMPT, coloured(state, BOLD, Color::Cyan));
    put(frame, area, &Line::from(vec![prompt, shown]));
    if state.mode == Mode::List && !area.is_empty() {
        let column = u16::try_from(text::width(PROMPT) + cursor).unwrap_or(u16::MAX);
        let x = area.x.saturating_add(column).min(area.right() - 1);
        frame.set_cursor_position(Position::new(x, area.y));
    }
}

/// Returns the line below the search: searched projects, order, number of conversations and progress.
fn info_line(state: &State, width: usize) -> Line<'static> {
    let mut left = vec![match state.place {
        Place::Here => "this project".to_owned(),
        Place::Everywhere => "everywhere".to_owned(),
    }];
    if !state.line.text().trim().is_empty() {
        left.push(match state.order {
            Order::Newest => "newest first".to_owned(),
            Order::Best => "best first".to_owned(),
        });
    }
    match state.window.total().filter(|_| state.is_current()) {
        Some(total) => left.push(counted(total)),
        None if state.failure().is_none() => left.push("…".to_owned()),
        None => {}
    }
    let left = text::cut(&format!("── {} ", left.join(" · ")), width);
    let room = width - text::width(&left);
    let right = match &state.progress {
        Some(progress) if room >= 16 => {
            format!(" {} ──", text::cut(&text::plain(progress), room - 6))
        }
        _ => String::new(),
    };
    let middle = "─".repeat(room.saturating_sub(text::width(&right)));
    Line::styled(format!("{left}{middle}{right}"), DIM)
}

fn counted(total: Total) -> String {
    match total {
        Total::Exactly(1) => "1 conversation".to_owned(),
        Total::Exactly(count) => format!("{} conversations", figure(count as u64)),
        Total::AtLeast(count) => format!("{}+ conversations", figure(count as u64)),
    }
}

fn draw_rule(frame: &mut Frame<'_>, area: Rect) {
    let line = if area.width == 1 { "│" } else { "─" };
    for row in area.rows() {
        let text = line.repeat(area.width.into());
        put(frame, row, &Line::styled(text, DIM));
    }
}

/// Returns the last line: a message if there is one, else the keys, most useful first.
fn foot_line(state: &State, width: usize) -> Line<'static> {
    match state.message() {
        Some(Message::Said(said)) => Line::styled(text::cut(&text::plain(&said), width), BOLD),
        Some(Message::Wrong(error)) => {
            let mark = Span::styled("error: ", coloured(state, BOLD, Color::Red));
            let room = width.saturating_sub(7);
            Line::from(vec![mark, Span::raw(text::cut(&text::plain(&error), room))])
        }
        None => hints(state, width),
    }
}

fn hints(state: &State, width: usize) -> Line<'static> {
    let other = match state.place {
        Place::Here => "everywhere",
        Place::Everywhere => "here",
    };
    // The effect of `?` and Esc depends on the search line.
    let (help, escape) = if state.line.is_empty() {
        (("?", "help"), ("Esc", "leave"))
    } else {
        (("F1", "help"), ("Esc", "clear"))
    };
    let nothing = [("Tab", other), escape];
    let keys = [
        ("Enter", "resume"),
        ("^O", "show"),
        ("^X", "handoff"),
        ("Tab", other),
        ("^Y", "fork"),
        ("^T", "tag"),
        ("^S", "archive"),
    ];
    let mut room = width.saturating_sub(length(help));
    let mut spans = Vec::new();
    let is_empty = state.is_current() && state.window.is_empty();
    let keys = if is_empty { &nothing[..] } else { &keys[..] };
    for &hint in keys {
        let Some(left) = room.checked_sub(length(hint) + 2) else {
            break;
        };
        room = left;
        spans.extend(hinted(hint));
        spans.push(Span::raw("  "));
    }
    spans.extend(hinted(help));
    Line::from(spans)
}

fn length((key, what): (&str, &str)) -> usize {
    text::width(key) + 1 + text::width(what)
}

fn hinted((key, what): (&'static str, &'static str)) -> [Span<'static>; 2] {
    [
        Span::styled(key, BOLD),
        Span::styled(format!(" {what}"), DIM),
    ]
}

#[cfg(test)]
mod tests;
