//! Overlays of the list: the help, and the dialogs for tags and handoff.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear};

use super::{BOLD, PLAIN, put};
use crate::picker::data_source::Row;
use crate::picker::keys::HELP;
use crate::picker::line_editor::Line as Typed;
use crate::terminal::text;

pub(super) fn draw_help(frame: &mut Frame<'_>, top: usize) {
    let widest = |part: fn(&(&str, &str)) -> usize| HELP.iter().map(part).max().unwrap_or(0);
    let keys = widest(|(key, _)| text::width(key));
    let width = keys + 2 + widest(|(_, what)| text::width(what));
    let fits = usize::from(frame.area().height) >= HELP.len() + 2;
    let how = if fits {
        "any key closes"
    } else {
        "Up, Down: more"
    };
    let inner = boxed(frame, "keys", how, width, HELP.len());
    let last = HELP.len().saturating_sub(inner.height.into());
    for ((key, what), line) in HELP.iter().skip(top.min(last)).zip(inner.rows()) {
        let spans = vec![
            Span::styled(format!("{}  ", text::pad(key, keys)), BOLD),
            Span::styled(
                text::cut(what, usize::from(line.width).saturating_sub(keys + 2)),
                PLAIN,
            ),
        ];
        put(frame, line, &Line::from(spans));
    }
}

pub(super) fn draw_tag(frame: &mut Frame<'_>, row: &Row, line: &Typed) {
    let inner = boxed(
        frame,
        "tag",
        "Enter tags, -word takes off, Esc does not",
        46,
        2,
    );
    let width = usize::from(inner.width);
    let (typed, cursor) = line.view(width.saturating_sub(1));
    let mut lines = inner.rows();
    if let Some(first) = lines.next().filter(|_| inner.height > 1) {
        let title = text::cut(&text::plain(&row.title), width);
        put(frame, first, &Line::raw(title));
    }
    let Some(last) = inner.rows().next_back() else {
        return;
    };
    put(
        frame,
        last,
        &Line::from(vec![Span::raw("#"), Span::styled(typed, BOLD)]),
    );
    let x = u16::try_from(cursor + 1)
        .unwrap_or(u16::MAX)
        .saturating_add(last.x);
    frame.set_cursor_position(Position::new(x.min(last.right().saturating_sub(1)), last.y));
}

pub(super) fn draw_handoff(frame: &mut Frame<'_>, row: &Row, agents: &[String], selected: usize) {
    let inner = boxed(
        frame,
        "hand over to",
        "Enter hands over, Esc does not",
        46,
        agents.len() + 1,
    );
    let width = usize::from(inner.width);
    let mut lines = inner.rows();
    if let Some(first) = lines.next().filter(|_| inner.height > 1) {
        let title = text::cut(&text::plain(&row.title), width);
        put(frame, first, &Line::raw(title));
    }
    let room = usize::from(inner.height.saturating_sub(1).max(1));
    let top = (selected + 1).saturating_sub(room);
    let agents = agents.iter().enumerate().skip(top);
    for ((at, agent), line) in agents.zip(
        inner
            .rows()
            .skip(inner.height.min(2).saturating_sub(1).into()),
    ) {
        let mark = if at == selected { "›" } else { " " };
        let words = format!("{mark} {} {}", at + 1, text::plain(agent));
        put(frame, line, &Line::raw(text::cut(&words, width)));
        if at == selected {
            frame.buffer_mut().set_style(line, Modifier::REVERSED);
        }
    }
}

/// Draws an empty box in the centre of the screen, cut to its size. Returns the area inside.
fn boxed(frame: &mut Frame<'_>, name: &str, how: &str, width: usize, height: usize) -> Rect {
    let screen = frame.area();
    let size = |inner: usize, most: u16| u16::try_from(inner).unwrap_or(u16::MAX).min(most);
    let width = size(width + 4, screen.width);
    let height = size(height + 2, screen.height);
    let x = (screen.width - width) / 2;
    let y = (screen.height - height) / 2;
    let area = Rect::new(x, y, width, height);
    let room = usize::from(width).saturating_sub(2);
    let block = Block::bordered()
        .title(Line::styled(text::cut(&format!(" {name} "), room), BOLD))
        .title_bottom(Line::raw(text::cut(&format!(" {how} "), room)).right_aligned());
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    clear_halves(frame, area);
    frame.render_widget(block, area);
    Rect {
        x: inner.x + inner.width.min(1),
        width: inner.width.saturating_sub(2),
        ..inner
    }
}

/// Clears wide characters whose second half the box covers, because they would overlap its border.
fn clear_halves(frame: &mut Frame<'_>, area: Rect) {
    let Some(x) = area.x.checked_sub(1) else {
        return;
    };
    for y in area.top()..area.bottom() {
        let cell = frame.buffer_mut().cell_mut(Position::new(x, y));
        if let Some(cell) = cell.filter(|cell| text::width(cell.symbol()) > 1) {
            cell.set_symbol(" ");
        }
    }
}
