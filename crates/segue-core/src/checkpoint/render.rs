//! Rendering of a checkpoint as text, for briefs and for the user.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::{Checkpoint, CheckpointItem, ItemKind};

/// Returns the heading of the items of a kind. The edit form parses these headings.
#[must_use]
pub fn kind_heading(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Goal => "Goal",
        ItemKind::Directive => "Rules of the user",
        ItemKind::Decision => "Decided",
        ItemKind::Done => "Done",
        ItemKind::Attempt => "Tried without success",
        ItemKind::Note => "Also said",
        ItemKind::File => "Files",
        ItemKind::Command => "Commands",
        ItemKind::Check => "Checks",
        ItemKind::Blocker => "In the way",
        ItemKind::Pending => "Still to do",
        ItemKind::Request => "Asked for",
        ItemKind::Focus => "Under way",
        ItemKind::NextStep => "Next",
    }
}

/// Renders the items by kind, each with the number of its turn.
#[must_use]
pub fn render_checkpoint(checkpoint: &Checkpoint) -> String {
    render_by_kind(checkpoint, render_item_line)
}

/// Renders the items like `render_checkpoint`, each with its id as well, so that an answer can refer to it.
pub(super) fn render_with_ids(checkpoint: &Checkpoint) -> String {
    render_by_kind(checkpoint, |item| {
        let line = render_item_line(item);
        format!("- #{} {}", item.id, line.trim_start_matches("- "))
    })
}

fn render_by_kind(
    checkpoint: &Checkpoint,
    render_item: impl Fn(&CheckpointItem) -> String,
) -> String {
    let mut text = String::new();
    for kind in ItemKind::ALL {
        let mut items = checkpoint.items_of_kind(kind).peekable();
        if items.peek().is_none() {
            continue;
        }
        let _ = writeln!(text, "{}:", kind_heading(kind));
        for item in items {
            let _ = writeln!(text, "{}", render_item(item));
        }
    }
    if let Some(state) = &checkpoint.loop_state {
        let _ = writeln!(text, "Loop of checks, round {}:", state.iteration);
        for (outcome, checks) in [("passed", &state.passed), ("failed", &state.failed)] {
            if !checks.is_empty() {
                let _ = writeln!(
                    text,
                    "- {outcome}: {}",
                    replace_line_breaks(&checks.join(", "))
                );
            }
        }
        if let Some(error) = &state.last_error {
            let _ = writeln!(text, "- last error: {}", replace_line_breaks(error));
        }
    }
    text
}

/// Renders an item on one line.
pub(super) fn render_item_line(item: &CheckpointItem) -> String {
    let text = replace_line_breaks(&item.text);
    match (&item.subject, item.kind) {
        (Some(subject), ItemKind::File | ItemKind::Command | ItemKind::Check) => {
            format!("- [{}] {}: {text}", item.turn, replace_line_breaks(subject))
        }
        _ => format!("- [{}] {text}", item.turn),
    }
}

/// Replaces line breaks by spaces, because a second line could pass for another item or for a rule of the user.
pub(super) fn replace_line_breaks(text: &str) -> Cow<'_, str> {
    let is_line_break = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    if text.contains(is_line_break) {
        text.replace(is_line_break, " ").into()
    } else {
        text.into()
    }
}
