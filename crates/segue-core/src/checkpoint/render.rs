//! Rendering of a checkpoint as text, for briefs and for the user.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::{Checkpoint, Item, ItemKind};

/// Returns the heading of the items of a kind. The edit form parses these headings.
#[must_use]
pub fn headed(kind: ItemKind) -> &'static str {
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
pub fn written(checkpoint: &Checkpoint) -> String {
    by_kind(checkpoint, line)
}

/// Renders the items like `written`, each with its id as well, so that an answer can refer to it.
pub(super) fn numbered(checkpoint: &Checkpoint) -> String {
    by_kind(checkpoint, |item| {
        let line = line(item);
        format!("- #{} {}", item.id, line.trim_start_matches("- "))
    })
}

fn by_kind(checkpoint: &Checkpoint, line: impl Fn(&Item) -> String) -> String {
    let mut text = String::new();
    for kind in ItemKind::ALL {
        let mut items = checkpoint.of(kind).peekable();
        if items.peek().is_none() {
            continue;
        }
        let _ = writeln!(text, "{}:", headed(kind));
        for item in items {
            let _ = writeln!(text, "{}", line(item));
        }
    }
    if let Some(state) = &checkpoint.loop_state {
        let _ = writeln!(text, "Loop of checks, round {}:", state.iteration);
        for (what, checks) in [("passed", &state.passed), ("failed", &state.failed)] {
            if !checks.is_empty() {
                let _ = writeln!(text, "- {what}: {}", on_one_line(&checks.join(", ")));
            }
        }
        if let Some(error) = &state.last_error {
            let _ = writeln!(text, "- last error: {}", on_one_line(error));
        }
    }
    text
}

/// Renders an item on one line.
pub(super) fn line(item: &Item) -> String {
    let text = on_one_line(&item.text);
    match (&item.subject, item.kind) {
        (Some(subject), ItemKind::File | ItemKind::Command | ItemKind::Check) => {
            format!("- [{}] {}: {text}", item.turn, on_one_line(subject))
        }
        _ => format!("- [{}] {text}", item.turn),
    }
}

/// Replaces line breaks by spaces, because a second line could pass for another item or for a rule of the user.
pub(super) fn on_one_line(text: &str) -> Cow<'_, str> {
    let ends = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    if text.contains(ends) {
        text.replace(ends, " ").into()
    } else {
        text.into()
    }
}
