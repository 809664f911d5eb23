//! A checkpoint at a glance.

use std::ops::ControlFlow;

use segue_core::{Author, Item, ItemKind, Occasion, Session, figure, headed};
use segue_engine::{CheckpointView, Place};

use crate::commands::session::stats::{bar, writes_unicode};
use crate::terminal::{Style, ago, height, one_line, shorten, try_print, width, wrap};

/// How long the bar of the whole budget is.
const BAR: usize = 20;

/// How many items of a kind are shown, the newest.
const SHOWN: usize = 8;

/// The kinds in the order in which somebody wants to know: where it stands, then what it goes by, then the rest.
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
    // What scrolled away is what somebody looks for first.
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

/// How full the budget is, and what was saved of it.
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

/// The items of a kind, each with its number and where it comes from.
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

/// What an item says, with what it is about.
pub(super) fn words(item: &Item) -> String {
    match (&item.subject, item.kind) {
        (Some(subject), ItemKind::File | ItemKind::Command | ItemKind::Check) => {
            format!("{subject}: {}", item.text)
        }
        _ => item.text.clone(),
    }
}

/// Where an item comes from.
pub(super) fn origin(item: &Item) -> String {
    let by = match item.by {
        Author::Record => "",
        Author::Summary => ", by the summariser",
        Author::Person => ", by you",
    };
    let from = match (item.turn, item.by) {
        // There is no turn here that it could be from.
        (0, Author::Record | Author::Summary) => "came with the session".to_owned(),
        (0, Author::Person) => "by you".to_owned(),
        (turn, _) => format!("turn {turn}{by}"),
    };
    let pinned = if item.pinned { ", pinned" } else { "" };
    format!("({from}{pinned})")
}

/// Why a version was made, in words.
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
