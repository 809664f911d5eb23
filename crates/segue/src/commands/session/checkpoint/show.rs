//! Text output of a checkpoint.

use std::ops::ControlFlow;

use segue_core::checkpoint::{Author, Item, ItemKind, Occasion, headed};
use segue_core::number_format::figure;
use segue_core::session::Session;
use segue_engine::{CheckpointView, Place};

use crate::commands::session::stats::{bar, writes_unicode};
use crate::terminal::{Style, ago, height, one_line, shorten, try_print, width, wrap};

/// Width of the bar for the complete budget.
const BAR: usize = 20;

/// Maximum number of items of a kind that are shown, the newest.
const SHOWN: usize = 8;

/// Kinds in the order of interest: the state of the work, then its rules, then all others.
const ORDER: [ItemKind; 14] = [
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

pub(super) fn checkpoint(session: &Session, view: &CheckpointView, all: bool) {
    let style = Style::stdout();
    let mut lines = Vec::new();
    written(session, view, all, style, &mut lines);
    // The beginning is repeated at the end if it scrolled off the screen, because the user looks for it first.
    if height().is_some_and(|height| lines.len() >= height) {
        lines.extend([
            String::new(),
            style.bold(&counts(view)),
            budget(view, style),
        ]);
    }
    for line in lines {
        if let ControlFlow::Break(()) = try_print(&line) {
            return;
        }
    }
}

fn written(
    session: &Session,
    view: &CheckpointView,
    all: bool,
    style: Style,
    lines: &mut Vec<String>,
) {
    let mut print = |line: &str| lines.push(line.to_owned());
    let version = &view.version;
    let title = one_line(session.title.as_str());
    let headline = format!("checkpoint {} of {}: {title}", version.n, session.id);
    print(&style.bold(&shorten(&headline, width())));
    let made = ago(version.at, jiff::Timestamp::now());
    print(&format!("made {made}: {}", why(version.why)));
    match view.place {
        Place::InForce => {}
        Place::Earlier => print("not in force: a later one took its place"),
        Place::Elsewhere => {
            print("not in force: it is about turns that do not lead to where the session is now");
        }
    }
    let tokens = figure(version.tokens);
    let summed = match version.covers {
        0 => format!("sums up in {tokens} tokens what was said before the session came"),
        1 => format!("sums up turn 1 in {tokens} tokens"),
        covers => format!("sums up turns 1 to {covers} in {tokens} tokens"),
    };
    print(&format!(
        "{summed}; the session has {} turn(s)",
        session.turns
    ));
    print(&budget(view, style));
    print("");
    print(&style.bold(&counts(view)));
    for kind in ORDER {
        section(view, kind, all, style, &mut print);
    }
    if let Some(state) = &view.checkpoint.loop_state {
        print("");
        print(&style.bold(&format!("Loop of checks, round {}", state.iteration)));
        for (what, checks) in [("passed", &state.passed), ("failed", &state.failed)] {
            if !checks.is_empty() {
                print(&format!("      {what}: {}", one_line(&checks.join(", "))));
            }
        }
        if let Some(error) = &state.last_error {
            print(&format!("      last error: {}", one_line(error)));
        }
    }
}

/// Formats the usage of the budget and the saved tokens.
fn budget(view: &CheckpointView, style: Style) -> String {
    let fullness = view.fullness;
    let unicode = writes_unicode(|name| std::env::var(name).ok());
    let filled = bar(
        fullness.held,
        fullness.budget.max(fullness.held),
        BAR,
        unicode,
    );
    let rest = if unicode { "·" } else { "." };
    let rest = rest.repeat(BAR.saturating_sub(filled.chars().count()));
    format!(
        "{filled}{}  {} of {} tokens {}; {} saved in all",
        style.dim(&rest),
        figure(fullness.held),
        figure(fullness.budget),
        if fullness.is_open {
            "held"
        } else {
            "to be told next"
        },
        figure(view.total_saved)
    )
}

fn counts(view: &CheckpointView) -> String {
    let kinds = [
        (ItemKind::Done, "done"),
        (ItemKind::Pending, "open"),
        (ItemKind::Decision, "decided"),
        (ItemKind::Blocker, "in the way"),
    ];
    let counted = kinds.map(|(kind, name)| format!("{} {name}", view.checkpoint.of(kind).count()));
    counted.join(", ")
}

/// Prints the items of a kind, each with its number and origin.
fn section(
    view: &CheckpointView,
    kind: ItemKind,
    all: bool,
    style: Style,
    print: &mut impl FnMut(&str),
) {
    let items: Vec<&Item> = view.checkpoint.of(kind).collect();
    if items.is_empty() {
        return;
    }
    let skipped = if all {
        0
    } else {
        items.len().saturating_sub(SHOWN)
    };
    print("");
    print(&style.bold(headed(kind)));
    if skipped > 0 {
        let more =
            format!("      {skipped} earlier ones are not shown (show --all; /checkpoint all)");
        print(&style.dim(&more));
    }
    let room = width().map(|width| width.saturating_sub(6));
    for item in items.into_iter().skip(skipped) {
        let line = format!("{}  {}", one_line(&words(item)), origin(item));
        let mark = if item.pinned { "*" } else { " " };
        for (index, piece) in wrap(&line, room).into_iter().enumerate() {
            if index == 0 {
                print(&format!("{:>4}{mark} {piece}", item.id));
            } else {
                print(&format!("      {piece}"));
            }
        }
    }
}

/// Returns the text of an item, with its subject.
pub(super) fn words(item: &Item) -> String {
    match (&item.subject, item.kind) {
        (Some(subject), ItemKind::File | ItemKind::Command | ItemKind::Check) => {
            format!("{subject}: {}", item.text)
        }
        _ => item.text.clone(),
    }
}

/// Describes the origin of an item.
pub(super) fn origin(item: &Item) -> String {
    let by = match item.by {
        Author::Record => "",
        Author::Summary => ", by the summariser",
        Author::Person => ", by you",
    };
    let from = match (item.turn, item.by) {
        // The item does not come from a turn of this session.
        (0, Author::Record | Author::Summary) => "came with the session".to_owned(),
        (0, Author::Person) => "by you".to_owned(),
        (turn, _) => format!("turn {turn}{by}"),
    };
    let pinned = if item.pinned { ", pinned" } else { "" };
    format!("({from}{pinned})")
}

/// Describes why a version was made.
pub(super) fn why(why: Occasion) -> &'static str {
    match why {
        Occasion::Budget => "the budget was nearly full",
        Occasion::Asked => "it was asked for",
        Occasion::Told => "a new native session could not be told everything",
        Occasion::Summed => "a summariser had something to add",
        Occasion::Pinned => "pins were changed",
        Occasion::Edited => "it was edited",
        Occasion::Restored => "an earlier one was restored",
        Occasion::Imported => "it came with the session",
    }
}
