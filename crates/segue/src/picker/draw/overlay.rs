//! Overlays of the list: the help, and the dialogs for tags and handoff.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear};

use super::{BOLD_STYLE, draw_line};
use crate::picker::data_source::PickerRow;
use crate::picker::keys::HELP_ENTRIES;
use crate::picker::line_editor::LineEditor;
use crate::terminal::text;

pub(super) fn draw_help(frame: &mut Frame<'_>, top: usize) {
    let widest = |column_width: fn(&(&str, &str)) -> usize| {
        HELP_ENTRIES.iter().map(column_width).max().unwrap_or(0)
    };
    let key_width = widest(|(key, _)| text::display_width(key));
    let width = key_width + 2 + widest(|(_, description)| text::display_width(description));
    let fits = usize::from(frame.area().height) >= HELP_ENTRIES.len() + 2;
    let footer = if fits {
        "any key: close"
    } else {
        "Up, Down: more"
    };
    let inner = draw_box(frame, "keys", footer, width, HELP_ENTRIES.len());
    let max_top = HELP_ENTRIES.len().saturating_sub(inner.height.into());
    for ((key, description), line) in HELP_ENTRIES.iter().skip(top.min(max_top)).zip(inner.rows()) {
        let key = format!("{}  ", text::pad_right(key, key_width));
        let room = usize::from(line.width).saturating_sub(key_width + 2);
        let description = Span::raw(text::truncate(description, room));
        let spans = vec![Span::styled(key, BOLD_STYLE), description];
        draw_line(frame, line, &Line::from(spans));
    }
}

pub(super) fn draw_tag_dialog(frame: &mut Frame<'_>, row: &PickerRow, line: &LineEditor) {
    let footer = "Enter: apply, -TAG: remove a tag, Esc: cancel";
    let area = draw_row_dialog(frame, row, "tag", footer, 1);
    let (typed, cursor) = line.visible_part(usize::from(area.width).saturating_sub(1));
    let Some(input_area) = area.rows().next_back() else {
        return;
    };
    let input = Line::from(vec![Span::raw("#"), Span::styled(typed, BOLD_STYLE)]);
    draw_line(frame, input_area, &input);
    let column = u16::try_from(cursor + 1).unwrap_or(u16::MAX);
    let last_x = input_area.right().saturating_sub(1);
    let x = input_area.x.saturating_add(column).min(last_x);
    frame.set_cursor_position(Position::new(x, input_area.y));
}

pub(super) fn draw_handoff_dialog(
    frame: &mut Frame<'_>,
    row: &PickerRow,
    agents: &[String],
    selected: usize,
) {
    let footer = "Enter: hand off, Esc: cancel";
    let area = draw_row_dialog(frame, row, "hand off to", footer, agents.len());
    let width = usize::from(area.width);
    let top = (selected + 1).saturating_sub(area.height.max(1).into());
    for ((index, agent), line) in agents.iter().enumerate().skip(top).zip(area.rows()) {
        let mark = if index == selected { "›" } else { " " };
        let label = format!("{mark} {} {}", index + 1, text::to_plain_line(agent));
        draw_line(frame, line, &Line::raw(text::truncate(&label, width)));
        if index == selected {
            frame.buffer_mut().set_style(line, Modifier::REVERSED);
        }
    }
}

/// Draws a box with the title of a conversation, unless it has only one line. Returns the area below the title.
fn draw_row_dialog(
    frame: &mut Frame<'_>,
    row: &PickerRow,
    title: &str,
    footer: &str,
    height: usize,
) -> Rect {
    let inner = draw_box(frame, title, footer, 46, height + 1);
    if inner.height <= 1 {
        return inner;
    }
    let title = text::truncate(&text::to_plain_line(&row.title), inner.width.into());
    draw_line(frame, inner, &Line::raw(title));
    Rect {
        y: inner.y + 1,
        height: inner.height - 1,
        ..inner
    }
}

/// Draws an empty box in the centre of the screen, cut to its size. Returns the area inside.
fn draw_box(frame: &mut Frame<'_>, title: &str, footer: &str, width: usize, height: usize) -> Rect {
    let screen = frame.area();
    let size = |inner: usize, max: u16| u16::try_from(inner).unwrap_or(u16::MAX).min(max);
    let width = size(width + 4, screen.width);
    let height = size(height + 2, screen.height);
    let x = (screen.width - width) / 2;
    let y = (screen.height - height) / 2;
    let area = Rect::new(x, y, width, height);
    let room = usize::from(width).saturating_sub(2);
    let block = Block::bordered()
        .title(Line::styled(
            text::truncate(&format!(" {title} "), room),
            BOLD_STYLE,
        ))
        .title_bottom(Line::raw(text::truncate(&format!(" {footer} "), room)).right_aligned());
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    clear_covered_wide_chars(frame, area);
    frame.render_widget(block, area);
    Rect {
        x: inner.x + inner.width.min(1),
        width: inner.width.saturating_sub(2),
        ..inner
    }
}

/// Clears wide characters whose second half the box covers, because they would overlap its border.
fn clear_covered_wide_chars(frame: &mut Frame<'_>, area: Rect) {
    let Some(x) = area.x.checked_sub(1) else {
        return;
    };
    for y in area.top()..area.bottom() {
        let cell = frame.buffer_mut().cell_mut(Position::new(x, y));
        if let Some(cell) = cell.filter(|cell| text::display_width(cell.symbol()) > 1) {
            cell.set_symbol(" ");
        }
    }
}
