//! Text output of a checkpoint.

use std::ops::ControlFlow;

use segue_core::checkpoint::{
    CheckpointItem, CheckpointReason, ItemAuthor, ItemKind, kind_heading,
};
use segue_core::number_format::format_count;
use segue_core::session::Session;
use segue_engine::{CheckpointView, VersionStatus};

use crate::commands::session::stats::{draw_bar, has_unicode_locale};
use crate::terminal::{
    Style, format_age, format_plural, shorten_to_width, terminal_height, terminal_width,
    to_single_line, try_print_line, wrap,
};

/// Width of the bar for the complete budget.
const BUDGET_BAR_WIDTH: usize = 20;

/// Maximum number of items of a kind that are shown, the newest.
const MAX_SHOWN_ITEMS: usize = 8;

/// Kinds in the order of interest: the state of the work, then its rules, then all others.
const KIND_ORDER: [ItemKind; 14] = [
    ItemKind::Goal,
    ItemKind::Focus,
    ItemKind::NextStep,
    ItemKind::Pending,
    ItemKind::Blocker,
    ItemKind::Done,
    ItemKind::Decision,
    ItemKind::Directive,
    ItemKind::Attempt,
    ItemKind::Request,
    ItemKind::File,
    ItemKind::Check,
    ItemKind::Command,
    ItemKind::Note,
];

pub(super) fn print_checkpoint(session: &Session, view: &CheckpointView, all: bool) {
    let style = Style::stdout();
    let mut lines = Vec::new();
    push_checkpoint_lines(session, view, all, style, &mut lines);
    // The beginning is repeated at the end if it scrolled off the screen, because the user looks for it first.
    if terminal_height().is_some_and(|height| lines.len() >= height) {
        lines.extend([
            String::new(),
            style.bold(&format_counts(view)),
            format_budget(view, style),
        ]);
    }
    for line in lines {
        if let ControlFlow::Break(()) = try_print_line(&line) {
            return;
        }
    }
}

fn push_checkpoint_lines(
    session: &Session,
    view: &CheckpointView,
    all: bool,
    style: Style,
    lines: &mut Vec<String>,
) {
    let mut push_line = |line: &str| lines.push(line.to_owned());
    let version = &view.version;
    let title = to_single_line(session.title.as_str());
    let headline = format!("checkpoint {} of {}: {title}", version.n, session.id);
    push_line(&style.bold(&shorten_to_width(&headline, terminal_width())));
    let age = format_age(version.at, jiff::Timestamp::now());
    let reason = describe_reason(version.reason);
    push_line(&format!("created {age} ({reason})"));
    match view.status {
        VersionStatus::Active => {}
        VersionStatus::Superseded => push_line("not current: a later checkpoint replaced it"),
        VersionStatus::OffPath => {
            push_line("not current: it covers turns that the session no longer contains");
        }
    }
    let tokens = format_plural(version.tokens, "token");
    let coverage = match version.covers {
        0 => format!("summarises the imported conversation in {tokens}"),
        1 => format!("summarises turn 1 in {tokens}"),
        covers => format!("summarises turns 1 to {covers} in {tokens}"),
    };
    let turns = format_plural(session.turns, "turn");
    push_line(&format!("{coverage}; the session has {turns}"));
    push_line(&format_budget(view, style));
    push_line("");
    push_line(&style.bold(&format_counts(view)));
    for kind in KIND_ORDER {
        push_section(view, kind, all, style, &mut push_line);
    }
    if let Some(state) = &view.checkpoint.loop_state {
        push_line("");
        push_line(&style.bold(&format!("Check loop, iteration {}", state.iteration)));
        for (label, checks) in [("passed", &state.passed), ("failed", &state.failed)] {
            if !checks.is_empty() {
                let checks = to_single_line(&checks.join(", "));
                push_line(&format!("      {label}: {checks}"));
            }
        }
        if let Some(error) = &state.last_error {
            push_line(&format!("      last error: {}", to_single_line(error)));
        }
    }
}

/// Formats the usage of the budget and the saved tokens.
fn format_budget(view: &CheckpointView, style: Style) -> String {
    let usage = view.budget_usage;
    let unicode = has_unicode_locale(|name| std::env::var(name).ok());
    let (used, largest) = (usage.used_tokens, usage.budget.max(usage.used_tokens));
    let filled = draw_bar(used, largest, BUDGET_BAR_WIDTH, unicode);
    let empty_cell = if unicode { "·" } else { "." };
    let unfilled = empty_cell.repeat(BUDGET_BAR_WIDTH.saturating_sub(filled.chars().count()));
    let place = if usage.is_resumable {
        "in context"
    } else {
        "in the next brief"
    };
    format!(
        "{filled}{}  {} of {} tokens {place}; {} saved in total",
        style.dim(&unfilled),
        format_count(used),
        format_count(usage.budget),
        format_count(view.total_saved)
    )
}

fn format_counts(view: &CheckpointView) -> String {
    let kinds = [
        (ItemKind::Done, "done"),
        (ItemKind::Pending, "open"),
        (ItemKind::Decision, "decided"),
        (ItemKind::Blocker, "blocking"),
    ];
    let counts =
        kinds.map(|(kind, name)| format!("{} {name}", view.checkpoint.items_of_kind(kind).count()));
    counts.join(", ")
}

/// Prints the items of a kind, each with its number and origin.
fn push_section(
    view: &CheckpointView,
    kind: ItemKind,
    all: bool,
    style: Style,
    push_line: &mut impl FnMut(&str),
) {
    let items: Vec<&CheckpointItem> = view.checkpoint.items_of_kind(kind).collect();
    if items.is_empty() {
        return;
    }
    let skipped = if all {
        0
    } else {
        items.len().saturating_sub(MAX_SHOWN_ITEMS)
    };
    push_line("");
    push_line(&style.bold(kind_heading(kind)));
    if skipped > 0 {
        let items = format_plural(skipped, "earlier item");
        let note =
            format!("      {items} not shown (use `show --all`, or `/checkpoint all` in the REPL)");
        push_line(&style.dim(&note));
    }
    let text_width = terminal_width().map(|width| width.saturating_sub(6));
    for item in items.into_iter().skip(skipped) {
        let text = to_single_line(&item_text(item));
        let line = format!("{text}  {}", format_origin(item));
        let marker = if item.pinned { "*" } else { " " };
        let mut prefix = format!("{:>4}{marker}", item.id);
        for wrapped_line in wrap(&line, text_width) {
            push_line(&format!("{prefix} {wrapped_line}"));
            prefix = " ".repeat(5);
        }
    }
}

/// Returns the text of an item, with its subject.
pub(super) fn item_text(item: &CheckpointItem) -> String {
    match (&item.subject, item.kind) {
        (Some(subject), ItemKind::File | ItemKind::Command | ItemKind::Check) => {
            format!("{subject}: {}", item.text)
        }
        _ => item.text.clone(),
    }
}

/// Describes the origin of an item.
pub(super) fn format_origin(item: &CheckpointItem) -> String {
    let author = match item.author {
        ItemAuthor::Extraction => "",
        ItemAuthor::Summariser => ", by the summariser",
        ItemAuthor::User => ", by you",
    };
    let source = match (item.turn, item.author) {
        // The item does not come from a turn of this session.
        (0, ItemAuthor::Extraction | ItemAuthor::Summariser) => "imported".to_owned(),
        (0, ItemAuthor::User) => "by you".to_owned(),
        (turn, _) => format!("turn {turn}{author}"),
    };
    let pinned = if item.pinned { ", pinned" } else { "" };
    format!("({source}{pinned})")
}

/// Describes why a version was made.
pub(super) fn describe_reason(reason: CheckpointReason) -> &'static str {
    match reason {
        CheckpointReason::Budget => "token budget nearly full",
        CheckpointReason::Requested => "requested",
        CheckpointReason::BriefTooLarge => "history too long for a brief",
        CheckpointReason::Summarised => "refined by a summariser",
        CheckpointReason::Pinned => "pins changed",
        CheckpointReason::Edited => "edited",
        CheckpointReason::Restored => "earlier version restored",
        CheckpointReason::Imported => "imported with the session",
    }
}
