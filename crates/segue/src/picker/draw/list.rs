//! The list: one line per conversation, in columns that depend on the width.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use segue_core::number_format::figure;

use super::{BOLD, DIM, PLAIN, coloured, put};
use crate::picker::data_source::{Place, Row, Standing};
use crate::picker::state::State;
use crate::terminal::text;

/// Widths of the columns; 0 for a column that does not fit.
#[derive(Debug, PartialEq, Eq)]
struct Columns {
    provider: usize,
    title: usize,
    project: usize,
    branch: usize,
    turns: usize,
}

/// Widths of the selection mark and of the age, including their separators.
const MARK: usize = 2;
const AGE: usize = 5;
/// Minimum width of a snippet.
const SNIPPET: usize = 16;

impl Columns {
    fn of(width: usize, place: Place) -> Self {
        let when = |room: bool, width: usize| if room { width } else { 0 };
        let provider = match width {
            ..30 => 0,
            30..60 => 7,
            _ => 9,
        };
        let turns = when(width >= 50, 5);
        let project = when(
            width >= 60 && place == Place::Everywhere,
            (width / 6).clamp(12, 22),
        );
        let branch = when(width >= 90, (width / 6).clamp(12, 22));
        let used = MARK + AGE + provider + turns + project + branch;
        Self {
            provider,
            title: width.saturating_sub(used),
            project,
            branch,
            turns,
        }
    }
}

pub(super) fn draw(state: &State, frame: &mut Frame<'_>, area: Rect) {
    if state.window.total().is_some_and(|total| total.known() == 0) && state.is_current() {
        draw_nothing(state, frame, area);
        return;
    }
    let columns = Columns::of(area.width.into(), state.place);
    // Rows of an outdated list are visible, but cannot be selected.
    let is_old = !state.is_current() && state.failure().is_some();
    for ((row, is_selected), line) in state.window.in_view().zip(area.rows()) {
        let is_selected = is_selected && !is_old;
        let shown = match row {
            Some(row) => row_line(state, row, &columns, is_selected),
            None => Line::styled("       …", DIM),
        };
        put(frame, line, &shown);
        if is_selected {
            frame.buffer_mut().set_style(line, Modifier::REVERSED);
        }
        if is_old {
            frame.buffer_mut().set_style(line, DIM);
        }
    }
}

/// Draws suggestions for an empty list.
fn draw_nothing(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let typed = !state.line.text().trim().is_empty();
    let lines: &[(&str, Style)] = match (typed, state.place) {
        (true, Place::Here) => &[
            ("Nothing in this project matches.", BOLD),
            ("Tab looks everywhere; Esc clears the search.", PLAIN),
        ],
        (true, Place::Everywhere) => &[
            ("Nothing matches.", BOLD),
            ("Esc clears the search; F1 tells what can be typed.", PLAIN),
        ],
        (false, Place::Here) => &[
            ("There are no conversations in this project yet.", BOLD),
            ("Start one:  segue chat \"explain this repository\"", PLAIN),
            ("Tab looks everywhere.", PLAIN),
        ],
        (false, Place::Everywhere) => &[
            ("There are no conversations yet.", BOLD),
            ("Start one:  segue chat \"explain this repository\"", PLAIN),
            ("See which agents are here:  segue doctor", PLAIN),
        ],
    };
    // An empty line above, if it fits.
    let air = usize::from(usize::from(area.height) > lines.len());
    let width = usize::from(area.width).saturating_sub(MARK);
    for ((words, style), line) in lines.iter().zip(area.rows().skip(air)) {
        let words = format!("  {}", text::cut(words, width));
        put(frame, line, &Line::styled(words, *style));
    }
}

fn row_line(state: &State, row: &Row, columns: &Columns, is_selected: bool) -> Line<'static> {
    // Colours and dim text are hard to read in reverse.
    let colour = |style, colour| {
        if is_selected {
            PLAIN
        } else {
            coloured(state, style, colour)
        }
    };
    let dim = if is_selected { PLAIN } else { DIM };
    let mark = if is_selected { "› " } else { "  " };
    let age = text::pad_left(&age(row.updated_at, state.now), AGE - 1);
    let mut spans = vec![
        Span::styled(mark, BOLD),
        Span::styled(format!("{age} "), dim),
    ];
    let mut cell = |words: Option<&str>, width: usize, style: Style| {
        if width > 0 {
            let words = text::pad(&text::plain(words.unwrap_or_default()), width - 1);
            spans.push(Span::styled(format!("{words} "), style));
        }
    };
    cell(
        Some(&row.provider),
        columns.provider,
        colour(PLAIN, provider_colour(&row.provider)),
    );
    spans.extend(title(state, row, columns.title, is_selected));
    let mut cell = |words: Option<&str>, width: usize| {
        if width > 0 {
            let words = text::pad(&text::plain(words.unwrap_or_default()), width - 1);
            spans.push(Span::styled(format!(" {words}"), dim));
        }
    };
    cell(row.project.as_deref(), columns.project);
    cell(row.branch.as_deref(), columns.branch);
    if columns.turns > 0 {
        let turns = text::pad_left(&figure(row.turns.into()), columns.turns);
        spans.push(Span::styled(turns, dim));
    }
    Line::from(spans)
}

/// Returns the title with status, feature, tags and snippet of the conversation.
fn title(state: &State, row: &Row, width: usize, is_selected: bool) -> Vec<Span<'static>> {
    let dim = if is_selected { PLAIN } else { DIM };
    let (standing, style) = match row.standing {
        Standing::Idle => ("", PLAIN),
        Standing::Running => ("running", coloured(state, BOLD, Color::Green)),
        Standing::Archived => ("archived", dim),
        Standing::Gone => ("gone", dim),
    };
    let style = if is_selected { PLAIN } else { style };
    let labels = row.feature.iter().map(|feature| format!("@{feature}"));
    let labels = labels.chain(row.tags.iter().map(|tag| format!("#{tag}")));
    let labels = text::plain(&labels.collect::<Vec<_>>().join(" "));
    // The title gets at least half of the width.
    let mut beside = width / 2;
    let mut badges = Vec::new();
    for (words, style) in [(standing, style), (labels.as_str(), dim)] {
        if !words.is_empty() && beside > 4 {
            let words = text::cut(words, beside - 1);
            beside -= text::width(&words) + 1;
            badges.push(Span::styled(format!(" {words}"), style));
        }
    }
    let room = width
        - badges
            .iter()
            .map(|span| text::width(&span.content))
            .sum::<usize>();
    let name = match text::plain(&row.title) {
        name if name.trim().is_empty() => "(no title)".to_owned(),
        name => name,
    };
    let name = text::cut(name.trim(), room);
    let mut left = room - text::width(&name);
    let mut spans = vec![Span::styled(name, if is_selected { BOLD } else { PLAIN })];
    if let Some(hit) = row.hit.as_ref().filter(|_| left >= SNIPPET) {
        spans.push(Span::styled("  ", dim));
        left -= 2;
        for (at, piece) in hit.iter().enumerate() {
            let mut words = text::plain(&piece.text);
            if at == 0 && !piece.is_hit {
                // The match matters more than the text before it.
                words = text::tail(&words, left / 3);
            }
            let words = text::cut(&words, left);
            left -= text::width(&words);
            let style = if piece.is_hit { BOLD } else { dim };
            spans.push(Span::styled(words, style));
        }
    }
    spans.push(Span::raw(" ".repeat(left)));
    spans.extend(badges);
    spans
}

/// Returns the colour of an agent. No colour equals the foreground or the background of a common terminal.
pub(super) fn provider_colour(provider: &str) -> Color {
    match provider {
        "claude" => Color::Magenta,
        "codex" => Color::Green,
        "gemini" => Color::Blue,
        "opencode" => Color::Red,
        _ => Color::Cyan,
    }
}

/// Formats the time since `then` with at most four characters.
fn age(then: Timestamp, now: Timestamp) -> String {
    let minutes = now.duration_since(then).as_mins();
    let (number, unit) = match minutes {
        ..1 => return "now".to_owned(),
        1..60 => (minutes, "m"),
        60..1440 => (minutes / 60, "h"),
        1440..86_400 => (minutes / 1440, "d"),
        86_400..1_051_200 => (minutes / 43_200, "mo"),
        _ => (minutes / 525_600, "y"),
    };
    format!("{number}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fill_the_width() {
        for width in 8..250 {
            for place in [Place::Here, Place::Everywhere] {
                let columns = Columns::of(width, place);
                let Columns {
                    provider,
                    title,
                    project,
                    branch,
                    turns,
                } = columns;
                let sum = MARK + AGE + provider + title + project + branch + turns;
                assert_eq!(sum, width);
                assert!(title >= width / 3 || width < 20, "{width}: {columns:?}");
            }
        }
    }

    #[test]
    fn ages_are_short() {
        let now = Timestamp::from_second(2_000_000_000).unwrap();
        let cases = [
            (-100, "now"),
            (59, "now"),
            (60, "1m"),
            (3_600, "1h"),
            (86_400, "1d"),
            (59 * 86_400, "59d"),
            (60 * 86_400, "2mo"),
            (700 * 86_400, "23mo"),
            (740 * 86_400, "2y"),
            (1_999_999_999, "63y"),
        ];
        for (seconds, expected) in cases {
            let then = Timestamp::from_second(2_000_000_000 - seconds).unwrap();
            assert_eq!(age(then, now), expected, "{seconds}");
        }
    }
}
