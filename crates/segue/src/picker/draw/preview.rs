//! Preview of the selected conversation.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use segue_core::number_format::figure;

use super::{BOLD, DIM, PLAIN, coloured, list, put};
use crate::picker::data_source::{Exchange, Marked, Preview, Row, Standing};
use crate::picker::layout::Layout;
use crate::picker::state::State;
use crate::terminal::ago;
use crate::terminal::text;

/// Maximum number of lines of a prompt, because pasted text must not hide the answer.
const PROMPT_LINES: usize = 6;
/// Maximum number of characters of a prompt or an answer.
const ANSWER_CHARS: usize = 8000;

pub(super) fn draw(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let Some(row) = state.window.selected() else {
        return;
    };
    let lines = lines(state, row, area.width.into());
    let scroll = state
        .scroll
        .min(lines.len().saturating_sub(area.height.into()));
    for (line, place) in lines.into_iter().skip(scroll).zip(area.rows()) {
        put(frame, place, &line);
    }
}

/// Returns the maximum scroll offset of the preview.
pub(in crate::picker) fn last_scroll(state: &State) -> usize {
    let (Some(area), Some(row)) = (Layout::of(state.size).preview, state.window.selected()) else {
        return 0;
    };
    let lines = lines(state, row, area.width.into());
    lines.len().saturating_sub(area.height.into())
}

fn lines(state: &State, row: &Row, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let title = text::plain(&row.title);
    push(&mut lines, title.trim(), width, BOLD, 2);
    lines.push(facts(state, row, width));
    match state.preview() {
        None => lines.extend(row.hit.as_ref().map(|hit| marked(hit, width))),
        Some(Err(error)) => {
            let style = coloured(state, PLAIN, Color::Red);
            push(
                &mut lines,
                &format!("error: {}", text::plain(error)),
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
fn facts(state: &State, row: &Row, width: usize) -> Line<'static> {
    let turns = match row.turns {
        1 => "1 turn".to_owned(),
        turns => format!("{} turns", figure(turns.into())),
    };
    let standing = match row.standing {
        Standing::Idle => None,
        Standing::Running => Some("running".to_owned()),
        Standing::Archived => Some("archived".to_owned()),
        Standing::Gone => Some("deleted by its agent".to_owned()),
    };
    let facts = [Some(turns), Some(ago(row.updated_at, state.now)), standing];
    let facts = facts.into_iter().flatten();
    let facts = facts.chain(row.project.clone()).chain(row.branch.clone());
    let facts = facts.chain(row.feature.iter().map(|feature| format!("@{feature}")));
    let facts: Vec<String> = facts
        .chain(row.tags.iter().map(|tag| format!("#{tag}")))
        .collect();
    let provider = text::cut(&text::plain(&row.provider), width);
    let style = coloured(state, PLAIN, list::provider_colour(&row.provider));
    let room = width.saturating_sub(text::width(&provider));
    let facts = text::plain(&format!(" · {}", facts.join(" · ")));
    Line::from(vec![
        Span::styled(provider, style),
        Span::styled(text::cut(&facts, room), DIM),
    ])
}

fn push_preview(
    lines: &mut Vec<Line<'static>>,
    state: &State,
    row: &Row,
    preview: &Preview,
    width: usize,
) {
    for fact in &preview.facts {
        lines.push(Line::styled(text::cut(&text::plain(fact), width), DIM));
    }
    if let Some(hit) = preview.hit.as_ref().or(row.hit.as_ref()) {
        lines.push(Line::default());
        lines.push(marked(hit, width));
    }
    for turn in &preview.turns {
        lines.push(Line::default());
        push_turn(lines, state, turn, width);
    }
}

fn push_turn(lines: &mut Vec<Line<'static>>, state: &State, turn: &Exchange, width: usize) {
    let mark = format!("{} › ", turn.n);
    let indent = text::width(&mark);
    let mut said = Vec::new();
    let prompt: String = turn.prompt.chars().take(ANSWER_CHARS).collect();
    push(
        &mut said,
        &prompt,
        width.saturating_sub(indent),
        BOLD,
        PROMPT_LINES,
    );
    for (at, line) in said.into_iter().enumerate() {
        let before = if at == 0 {
            mark.clone()
        } else {
            " ".repeat(indent)
        };
        let mut spans = vec![Span::styled(before, coloured(state, BOLD, Color::Cyan))];
        spans.extend(line.spans.into_iter().map(|span| span.style(BOLD)));
        lines.push(Line::from(spans));
    }
    let answer: String = turn.answer.chars().take(ANSWER_CHARS).collect();
    push(lines, &answer, width, PLAIN, usize::MAX);
}

/// Adds a text, wrapped, with `…` if it has more than `most` lines.
fn push(lines: &mut Vec<Line<'static>>, words: &str, width: usize, style: Style, most: usize) {
    let mut wrapped = text::lines(words).flat_map(|line| text::wrap(&line, width));
    let mut left = most;
    while let Some(line) = wrapped.next() {
        left -= 1;
        if left == 0 && wrapped.next().is_some() {
            let line = text::cut(&format!("{line} …"), width);
            lines.push(Line::styled(line, style));
            return;
        }
        lines.push(Line::styled(line, style));
    }
}

/// Formats the snippet with its matches on one line.
fn marked(hit: &Marked, width: usize) -> Line<'static> {
    let mut left = width;
    let mut spans = Vec::new();
    for piece in hit {
        let words = text::cut(&text::plain(&piece.text), left);
        let style = if piece.is_hit { BOLD } else { DIM };
        left -= text::width(&words);
        spans.push(Span::styled(words, style));
    }
    Line::from(spans)
}
