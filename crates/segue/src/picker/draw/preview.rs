//! Preview of the selected conversation.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::{BOLD_STYLE, DIM_STYLE, PLAIN_STYLE, draw_line, list, snippet_spans, with_colour};
use crate::picker::data_source::{PickerRow, PreviewTurn, RowPreview, RowStatus};
use crate::picker::layout::PickerLayout;
use crate::picker::state::PickerState;
use crate::terminal::{format_age, format_plural, text};

/// Maximum number of lines of a prompt, because pasted text must not hide the answer.
const MAX_PROMPT_LINES: usize = 6;
/// Maximum number of characters of a prompt or an answer.
const MAX_MESSAGE_CHARS: usize = 8000;

pub(super) fn draw_preview(state: &PickerState, frame: &mut Frame<'_>, area: Rect) {
    let lines = preview_lines(state, area);
    let scroll = state.preview_scroll.min(max_offset(&lines, area));
    for (line, line_area) in lines.into_iter().skip(scroll).zip(area.rows()) {
        draw_line(frame, line_area, &line);
    }
}

/// Returns the maximum scroll offset of the preview.
pub(in crate::picker) fn max_scroll(state: &PickerState) -> usize {
    let area = PickerLayout::for_size(state.size).preview;
    area.map_or(0, |area| max_offset(&preview_lines(state, area), area))
}

fn max_offset(lines: &[Line<'_>], area: Rect) -> usize {
    lines.len().saturating_sub(area.height.into())
}

fn preview_lines(state: &PickerState, area: Rect) -> Vec<Line<'static>> {
    let (mut lines, width) = (Vec::new(), usize::from(area.width));
    let Some(row) = state.window.selected() else {
        return lines;
    };
    let title = text::to_plain_line(&row.title);
    push_wrapped(&mut lines, title.trim(), width, BOLD_STYLE, 2);
    lines.push(details_line(state, row, width));
    match state.selected_preview() {
        None => lines.extend(snippet_line(row, width)),
        Some(Err(error)) => {
            let style = with_colour(state, PLAIN_STYLE, Color::Red);
            let error = format!("error: {}", text::to_plain_line(error));
            push_wrapped(&mut lines, &error, width, style, 3);
        }
        Some(Ok(preview)) => push_preview(&mut lines, state, row, preview, width),
    }
    lines
}

/// Returns the details of a row in one line.
fn details_line(state: &PickerState, row: &PickerRow, width: usize) -> Line<'static> {
    let status = match row.status {
        RowStatus::Idle => None,
        RowStatus::Running => Some("running"),
        RowStatus::Archived => Some("archived"),
        RowStatus::Deleted => Some("deleted by its agent"),
    };
    let mut details = vec![
        format_plural(row.turn_count, "turn"),
        format_age(row.updated_at, state.now),
    ];
    details.extend(status.map(str::to_owned));
    details.extend(row.project.clone());
    details.extend(row.branch.clone());
    details.extend(row.labels());
    let provider = text::truncate(&text::to_plain_line(&row.provider), width);
    let style = with_colour(state, PLAIN_STYLE, list::provider_colour(&row.provider));
    let room = width.saturating_sub(text::display_width(&provider));
    let details = text::to_plain_line(&format!(" · {}", details.join(" · ")));
    Line::from(vec![
        Span::styled(provider, style),
        Span::styled(text::truncate(&details, room), DIM_STYLE),
    ])
}

fn push_preview(
    lines: &mut Vec<Line<'static>>,
    state: &PickerState,
    row: &PickerRow,
    preview: &RowPreview,
    width: usize,
) {
    for detail in &preview.details {
        let detail = text::truncate(&text::to_plain_line(detail), width);
        lines.push(Line::styled(detail, DIM_STYLE));
    }
    if let Some(snippet_line) = snippet_line(row, width) {
        lines.extend([Line::default(), snippet_line]);
    }
    for turn in &preview.last_turns {
        lines.push(Line::default());
        push_turn(lines, state, turn, width);
    }
}

fn push_turn(
    lines: &mut Vec<Line<'static>>,
    state: &PickerState,
    turn: &PreviewTurn,
    width: usize,
) {
    let label = format!("{} › ", turn.number);
    let indent = text::display_width(&label);
    let mut prompt_lines = Vec::new();
    let prompt: String = turn.prompt.chars().take(MAX_MESSAGE_CHARS).collect();
    push_wrapped(
        &mut prompt_lines,
        &prompt,
        width.saturating_sub(indent),
        BOLD_STYLE,
        MAX_PROMPT_LINES,
    );
    let label_style = with_colour(state, BOLD_STYLE, Color::Cyan);
    for (index, mut line) in prompt_lines.into_iter().enumerate() {
        let prefix = if index == 0 {
            label.clone()
        } else {
            " ".repeat(indent)
        };
        line.spans.insert(0, Span::styled(prefix, label_style));
        lines.push(line);
    }
    let answer: String = turn.answer.chars().take(MAX_MESSAGE_CHARS).collect();
    push_wrapped(lines, &answer, width, PLAIN_STYLE, usize::MAX);
}

/// Adds a text, wrapped, with `…` if it has more than `max_lines` lines.
fn push_wrapped(
    lines: &mut Vec<Line<'static>>,
    content: &str,
    width: usize,
    style: Style,
    max_lines: usize,
) {
    let mut wrapped = text::to_plain_lines(content).flat_map(|line| text::wrap(&line, width));
    let mut remaining_lines = max_lines;
    while let Some(line) = wrapped.next() {
        remaining_lines -= 1;
        if remaining_lines == 0 && wrapped.next().is_some() {
            let line = text::truncate(&format!("{line} …"), width);
            lines.push(Line::styled(line, style));
            return;
        }
        lines.push(Line::styled(line, style));
    }
}

/// Formats the snippet with its matches on one line. `None` without a search.
fn snippet_line(row: &PickerRow, width: usize) -> Option<Line<'static>> {
    let snippet = row.snippet.as_ref()?;
    Some(Line::from(snippet_spans(snippet, width, DIM_STYLE)))
}
