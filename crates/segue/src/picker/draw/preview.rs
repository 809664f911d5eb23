//! Preview of the selected conversation.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::{BOLD_STYLE, DIM_STYLE, PLAIN_STYLE, draw_line, list, with_colour};
use crate::picker::data_source::{HighlightedText, PickerRow, PreviewTurn, RowPreview, RowStatus};
use crate::picker::layout::PickerLayout;
use crate::picker::state::PickerState;
use crate::terminal::{format_age, format_plural, text};

/// Maximum number of lines of a prompt, because pasted text must not hide the answer.
const MAX_PROMPT_LINES: usize = 6;
/// Maximum number of characters of a prompt or an answer.
const MAX_MESSAGE_CHARS: usize = 8000;

pub(super) fn draw_preview(state: &PickerState, frame: &mut Frame<'_>, area: Rect) {
    let Some(row) = state.window.selected() else {
        return;
    };
    let lines = preview_lines(state, row, area.width.into());
    let scroll = state
        .preview_scroll
        .min(lines.len().saturating_sub(area.height.into()));
    for (line, line_area) in lines.into_iter().skip(scroll).zip(area.rows()) {
        draw_line(frame, line_area, &line);
    }
}

/// Returns the maximum scroll offset of the preview.
pub(in crate::picker) fn max_scroll(state: &PickerState) -> usize {
    let (Some(area), Some(row)) = (
        PickerLayout::for_size(state.size).preview,
        state.window.selected(),
    ) else {
        return 0;
    };
    let lines = preview_lines(state, row, area.width.into());
    lines.len().saturating_sub(area.height.into())
}

fn preview_lines(state: &PickerState, row: &PickerRow, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let title = text::to_plain_line(&row.title);
    push_wrapped(&mut lines, title.trim(), width, BOLD_STYLE, 2);
    lines.push(details_line(state, row, width));
    match state.selected_preview() {
        None => lines.extend(
            row.snippet
                .as_ref()
                .map(|snippet| snippet_line(snippet, width)),
        ),
        Some(Err(error)) => {
            let style = with_colour(state, PLAIN_STYLE, Color::Red);
            push_wrapped(
                &mut lines,
                &format!("error: {}", text::to_plain_line(error)),
                width,
                style,
                3,
            );
        }
        Some(Ok(preview)) => push_preview(&mut lines, state, row, preview, width),
    }
    lines
}

/// Returns the details of a row in one line.
fn details_line(state: &PickerState, row: &PickerRow, width: usize) -> Line<'static> {
    let turns = format_plural(row.turn_count, "turn");
    let status = match row.status {
        RowStatus::Idle => None,
        RowStatus::Running => Some("running".to_owned()),
        RowStatus::Archived => Some("archived".to_owned()),
        RowStatus::Deleted => Some("deleted by its agent".to_owned()),
    };
    let details = [
        Some(turns),
        Some(format_age(row.updated_at, state.now)),
        status,
    ];
    let details = details.into_iter().flatten();
    let details = details.chain(row.project.clone()).chain(row.branch.clone());
    let details = details.chain(row.feature.iter().map(|feature| format!("@{feature}")));
    let details: Vec<String> = details
        .chain(row.tags.iter().map(|tag| format!("#{tag}")))
        .collect();
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
        lines.push(Line::styled(
            text::truncate(&text::to_plain_line(detail), width),
            DIM_STYLE,
        ));
    }
    if let Some(snippet) = preview.snippet.as_ref().or(row.snippet.as_ref()) {
        lines.push(Line::default());
        lines.push(snippet_line(snippet, width));
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
    for (index, line) in prompt_lines.into_iter().enumerate() {
        let prefix = if index == 0 {
            label.clone()
        } else {
            " ".repeat(indent)
        };
        let mut spans = vec![Span::styled(
            prefix,
            with_colour(state, BOLD_STYLE, Color::Cyan),
        )];
        spans.extend(line.spans.into_iter().map(|span| span.style(BOLD_STYLE)));
        lines.push(Line::from(spans));
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

/// Formats the snippet with its matches on one line.
fn snippet_line(snippet: &HighlightedText, width: usize) -> Line<'static> {
    let mut remaining = width;
    let mut spans = Vec::new();
    for span in snippet {
        let content = text::truncate(&text::to_plain_line(&span.text), remaining);
        let style = if span.is_match { BOLD_STYLE } else { DIM_STYLE };
        remaining -= text::display_width(&content);
        spans.push(Span::styled(content, style));
    }
    Line::from(spans)
}
