//! The list: one line per conversation, in columns that depend on the width.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use ratatui::text::{Line, Span};
use segue_core::number_format::format_count;

use super::{BOLD_STYLE, DIM_STYLE, PLAIN_STYLE, draw_line, snippet_spans, with_colour};
use crate::picker::data_source::{PickerRow, ProjectFilter, RowStatus};
use crate::picker::state::PickerState;
use crate::terminal::text;

/// Widths of the columns; 0 for a column that does not fit.
#[derive(Debug, PartialEq, Eq)]
struct ColumnWidths {
    provider: usize,
    title: usize,
    project: usize,
    branch: usize,
    turns: usize,
}

/// Widths of the selection mark and of the age, including their separators.
const MARK_WIDTH: usize = 2;
const AGE_WIDTH: usize = 5;
/// Minimum width of a snippet.
const MIN_SNIPPET_WIDTH: usize = 16;

impl ColumnWidths {
    fn for_width(width: usize, project_filter: ProjectFilter) -> Self {
        let width_if = |fits: bool, width: usize| if fits { width } else { 0 };
        let provider = match width {
            ..30 => 0,
            30..60 => 7,
            _ => 9,
        };
        let turns = width_if(width >= 50, 5);
        let project = width_if(
            width >= 60 && project_filter == ProjectFilter::All,
            (width / 6).clamp(12, 22),
        );
        let branch = width_if(width >= 90, (width / 6).clamp(12, 22));
        let used = MARK_WIDTH + AGE_WIDTH + provider + turns + project + branch;
        Self {
            provider,
            title: width.saturating_sub(used),
            project,
            branch,
            turns,
        }
    }
}

pub(super) fn draw_list(state: &PickerState, frame: &mut Frame<'_>, area: Rect) {
    if state.window.total().is_some_and(|total| total.count() == 0) && state.is_current() {
        draw_empty_list(state, frame, area);
        return;
    }
    let columns = ColumnWidths::for_width(area.width.into(), state.project_filter);
    // Rows of an outdated list are visible, but cannot be selected.
    let is_outdated = !state.is_current() && state.query_error().is_some();
    for ((row, is_selected), line) in state.window.visible_rows().zip(area.rows()) {
        let is_selected = is_selected && !is_outdated;
        let content = match row {
            Some(row) => row_line(state, row, &columns, is_selected),
            None => Line::styled("       …", DIM_STYLE),
        };
        draw_line(frame, line, &content);
        if is_selected {
            frame.buffer_mut().set_style(line, Modifier::REVERSED);
        }
        if is_outdated {
            frame.buffer_mut().set_style(line, DIM_STYLE);
        }
    }
}

/// Draws suggestions for an empty list.
fn draw_empty_list(state: &PickerState, frame: &mut Frame<'_>, area: Rect) {
    let has_search = !state.search_line.text().trim().is_empty();
    let (heading, suggestions): (&str, &[&str]) = match (has_search, state.project_filter) {
        (true, ProjectFilter::Current) => (
            "No matches in this project.",
            &["Tab: search all projects. Esc: clear the search."],
        ),
        (true, ProjectFilter::All) => (
            "No matches.",
            &["Esc: clear the search. F1: list the search filters."],
        ),
        (false, ProjectFilter::Current) => (
            "No sessions in this project yet.",
            &[START_SUGGESTION, "Tab: show all projects."],
        ),
        (false, ProjectFilter::All) => (
            "No sessions yet.",
            &[START_SUGGESTION, "List the agents:  segue doctor"],
        ),
    };
    // An empty line above, if it fits.
    let top_margin = usize::from(usize::from(area.height) > suggestions.len() + 1);
    let width = usize::from(area.width).saturating_sub(MARK_WIDTH);
    let suggestions = suggestions.iter().map(|text| (*text, PLAIN_STYLE));
    let lines = [(heading, BOLD_STYLE)].into_iter().chain(suggestions);
    for ((message, style), line) in lines.zip(area.rows().skip(top_margin)) {
        let message = format!("  {}", text::truncate(message, width));
        draw_line(frame, line, &Line::styled(message, style));
    }
}

/// Suggestion for a list without sessions.
const START_SUGGESTION: &str = "Start one:  segue chat \"explain this repository\"";

fn row_line(
    state: &PickerState,
    row: &PickerRow,
    columns: &ColumnWidths,
    is_selected: bool,
) -> Line<'static> {
    // Colours and dim text are hard to read in reverse.
    let (dim, provider_style) = if is_selected {
        (PLAIN_STYLE, PLAIN_STYLE)
    } else {
        let colour = provider_colour(&row.provider);
        (DIM_STYLE, with_colour(state, PLAIN_STYLE, colour))
    };
    let mark = if is_selected { "› " } else { "  " };
    let age = text::pad_left(&format_age(row.updated_at, state.now), AGE_WIDTH - 1);
    let mut spans = vec![
        Span::styled(mark, BOLD_STYLE),
        Span::styled(format!("{age} "), dim),
    ];
    let cell = |content: &str, width: usize| {
        text::pad_right(&text::to_plain_line(content), width.saturating_sub(1))
    };
    if columns.provider > 0 {
        let provider = cell(&row.provider, columns.provider);
        spans.push(Span::styled(format!("{provider} "), provider_style));
    }
    spans.extend(title_spans(state, row, columns.title, is_selected));
    for (content, width) in [
        (&row.project, columns.project),
        (&row.branch, columns.branch),
    ] {
        if width > 0 {
            let content = cell(content.as_deref().unwrap_or_default(), width);
            spans.push(Span::styled(format!(" {content}"), dim));
        }
    }
    if columns.turns > 0 {
        let turns = text::pad_left(&format_count(row.turn_count.into()), columns.turns);
        spans.push(Span::styled(turns, dim));
    }
    Line::from(spans)
}

/// Returns the title with status, feature, tags and snippet of the conversation.
fn title_spans(
    state: &PickerState,
    row: &PickerRow,
    width: usize,
    is_selected: bool,
) -> Vec<Span<'static>> {
    let dim = if is_selected { PLAIN_STYLE } else { DIM_STYLE };
    let (status, style) = match row.status {
        RowStatus::Idle => ("", PLAIN_STYLE),
        RowStatus::Running => ("running", with_colour(state, BOLD_STYLE, Color::Green)),
        RowStatus::Archived => ("archived", dim),
        RowStatus::Deleted => ("deleted", dim),
    };
    let style = if is_selected { PLAIN_STYLE } else { style };
    let labels = text::to_plain_line(&row.labels().collect::<Vec<_>>().join(" "));
    // The title gets at least half of the width.
    let mut badge_room = width / 2;
    let mut badges = Vec::new();
    for (badge, style) in [(status, style), (labels.as_str(), dim)] {
        if !badge.is_empty() && badge_room > 4 {
            let badge = text::truncate(badge, badge_room - 1);
            badge_room -= text::display_width(&badge) + 1;
            badges.push(Span::styled(format!(" {badge}"), style));
        }
    }
    let room = width - spans_width(&badges);
    let title = match text::to_plain_line(&row.title) {
        title if title.trim().is_empty() => "(no title)".to_owned(),
        title => title,
    };
    let title = text::truncate(title.trim(), room);
    let snippet_room = room - text::display_width(&title);
    let title_style = if is_selected { BOLD_STYLE } else { PLAIN_STYLE };
    let mut spans = vec![Span::styled(title, title_style)];
    if let Some(mut snippet) = row.snippet.clone()
        && snippet_room >= MIN_SNIPPET_WIDTH
    {
        let room = snippet_room - 2;
        if let Some(first) = snippet.first_mut().filter(|span| !span.is_match) {
            // The match matters more than the text before it.
            first.text = text::truncate_start(&text::to_plain_line(&first.text), room / 3);
        }
        spans.push(Span::styled("  ", dim));
        spans.extend(snippet_spans(&snippet, room, dim));
    }
    spans.push(Span::raw(" ".repeat(room - spans_width(&spans))));
    spans.extend(badges);
    spans
}

fn spans_width(spans: &[Span<'_>]) -> usize {
    let widths = spans.iter().map(|span| text::display_width(&span.content));
    widths.sum()
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

/// Formats the time since `time` with at most four characters.
fn format_age(time: Timestamp, now: Timestamp) -> String {
    let minutes = now.duration_since(time).as_mins();
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
            for project_filter in [ProjectFilter::Current, ProjectFilter::All] {
                let columns = ColumnWidths::for_width(width, project_filter);
                let ColumnWidths {
                    provider,
                    title,
                    project,
                    branch,
                    turns,
                } = columns;
                let total_width =
                    MARK_WIDTH + AGE_WIDTH + provider + title + project + branch + turns;
                assert_eq!(total_width, width);
                assert!(title >= width / 3 || width < 20, "{width}: {columns:?}");
            }
        }
    }

    #[test]
    fn ages_have_at_most_four_characters() {
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
            let time = Timestamp::from_second(2_000_000_000 - seconds).unwrap();
            assert_eq!(format_age(time, now), expected, "{seconds}");
        }
    }
}
