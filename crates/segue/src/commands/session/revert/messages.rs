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
    let mut lines = vec![format!(
        "Reverted to turn {turns} (dropped {}).",
        format_turns(dropped)
    )];
    lines.extend(format_effects("remain", &outcome.effects));
    lines.push(undo_hint.to_owned());
    lines.join("\n")
}

/// Describes the result of an undo. `fork_command` is the command that forks from the detached turns.
pub(in crate::commands) fn format_undo(outcome: &RevertOutcome, fork_command: &str) -> String {
    let turns = outcome.session.turns;
    let mut lines = vec![if turns == outcome.turns_before {
        format!("Undid the revert: now at turn {turns}, as before the revert.")
    } else {
        format!(
            "Undid the revert: now at turn {turns} (was at turn {}).",
            outcome.turns_before
        )
    }];
    if let Some(detached) = outcome.detached_turns {
        lines.push(format!(
            "Dropped {} made since the revert. Continue from there with: {fork_command} --moved {}",
            format_turns(detached.turns),
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
    let mut lines = vec![format!(
        "Would revert to turn {turns} and drop {}:",
        format_turns(dropped_count)
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

fn format_turns(count: u32) -> String {
    format_plural(count, "turn")
}

/// Lists the files that turns changed. `verb` is `remain` or `would remain`.
fn format_effects(verb: &str, effects: &Effects) -> Vec<String> {
    let heading = format!("Files changed by these turns {verb} as they are:");
    let commands = format!(
        "any changes made by {}",
        format_plural(effects.commands as u64, "command")
    );
    match (effects.files.is_empty(), effects.commands) {
        (true, 0) => Vec::new(),
        (true, _) => vec![format!("{heading} {commands}")],
        (false, count) => {
            let mut lines = vec![heading];
            let files = effects.files.iter();
            lines.extend(files.map(|file| format!("  {:<7}  {}", file.kind.as_str(), file.path)));
            if count > 0 {
                lines.push(format!("  and {commands}"));
            }
            lines
        }
    }
}
