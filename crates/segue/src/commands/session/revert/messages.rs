//! Messages for the results and plans of revert, undo and fork.

use segue_core::session::Effects;
use segue_engine::{ForkOutcome, RevertOutcome, RevertPlan};

use crate::terminal::format_plural;

pub(in crate::commands) fn format_already_at_turn(turns: u32) -> String {
    format!("Already at turn {turns}, no changes made.")
}

/// Describes the result of a revert. `undo_hint` is the last line, which explains how to undo it.
pub(in crate::commands) fn format_revert(outcome: &RevertOutcome, undo_hint: &str) -> String {
    let turns = outcome.session.turns;
    let dropped = outcome.turns_before.saturating_sub(turns);
    let dropped = format_plural(dropped, "turn");
    let mut lines = vec![format!("Reverted to turn {turns} (dropped {dropped}).")];
    lines.extend(format_effects("remain", &outcome.effects));
    lines.push(undo_hint.to_owned());
    lines.join("\n")
}

/// Describes the result of an undo, with the command that forks from the detached turns.
pub(in crate::commands) fn format_undo(outcome: &RevertOutcome) -> String {
    let (turns, turns_before) = (outcome.session.turns, outcome.turns_before);
    let mut lines = vec![if turns == turns_before {
        format!("Undid the revert: now at turn {turns}, as before the revert.")
    } else {
        format!("Undid the revert: now at turn {turns} (was at turn {turns_before}).")
    }];
    if let Some(detached) = outcome.detached_turns {
        lines.push(format!(
            "Dropped {} made since the revert. Continue from there with: segue session fork {} --moved {}",
            format_plural(detached.turns, "turn"),
            outcome.session.id,
            detached.head_move
        ));
        lines.extend(format_effects("remain", &outcome.effects));
    }
    lines.join("\n")
}

/// Describes what a revert would do.
pub(super) fn format_plan(plan: &RevertPlan) -> String {
    let dropped_count = count_dropped_turns(plan);
    let turns = plan.turns.saturating_sub(dropped_count);
    if dropped_count == 0 {
        return format_already_at_turn(turns);
    }
    let dropped_turns = format_plural(dropped_count, "turn");
    let mut lines = vec![format!(
        "Would revert to turn {turns} and drop {dropped_turns}:"
    )];
    let dropped = plan.dropped.iter();
    lines.extend(dropped.map(|turn| format!("  turn {:<3}  {}", turn.n, turn.title.as_str())));
    lines.extend(format_effects("would remain", &plan.effects));
    lines.push("Nothing was changed.".to_owned());
    lines.join("\n")
}

/// Returns the number of turns that a plan drops.
pub(super) fn count_dropped_turns(plan: &RevertPlan) -> u32 {
    u32::try_from(plan.dropped.len()).unwrap_or(u32::MAX)
}

pub(super) fn format_fork(outcome: &ForkOutcome) -> String {
    let id = &outcome.session.id;
    format!(
        "Forked {} after turn {} as {id}{}. Continue with: segue chat --resume {id} \"…\"",
        outcome.from,
        outcome.session.turns,
        format_omitted_purpose(outcome)
    )
}

/// Describes the purpose that the fork does not inherit, because its origin retains it. Empty if the origin has none.
pub(in crate::commands) fn format_omitted_purpose(outcome: &ForkOutcome) -> String {
    match &outcome.omitted_purpose {
        Some(purpose) => format!(" ({} remains the session for {purpose})", outcome.from),
        None => String::new(),
    }
}

/// Lists the files that turns changed. `verb` is `remain` or `would remain`.
fn format_effects(verb: &str, effects: &Effects) -> Vec<String> {
    let heading = format!("Files changed by these turns {verb} as they are:");
    let commands = format_plural(effects.commands, "command");
    let commands = (effects.commands > 0).then(|| format!("any changes made by {commands}"));
    if effects.files.is_empty() {
        let line = commands.map(|commands| format!("{heading} {commands}"));
        return line.into_iter().collect();
    }
    let mut lines = vec![heading];
    let files = effects.files.iter();
    lines.extend(files.map(|file| format!("  {:<7}  {}", file.kind.as_str(), file.path)));
    lines.extend(commands.map(|commands| format!("  and {commands}")));
    lines
}
