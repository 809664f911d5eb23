//! Messages for the results and plans of revert, undo and fork.

use segue_core::session::Effects;
use segue_engine::{Forked, RevertPlan, Reverted};

pub(in crate::commands) fn already(turns: u32) -> String {
    format!("Already at turn {turns}, no changes made.")
}

/// Describes the result of a revert. `back` tells the user how to undo it.
pub(in crate::commands) fn reverted(reverted: &Reverted, back: &str) -> String {
    let turns = reverted.session.turns;
    let removed = reverted.turns_before.saturating_sub(turns);
    let mut lines = vec![format!(
        "Reverted to turn {turns} (removed {removed} turn(s))."
    )];
    lines.extend(effects("stay", &reverted.effects));
    lines.push(back.to_owned());
    lines.join("\n")
}

/// Describes the result of an undo. `again` is the command that forks from the detached turns.
pub(in crate::commands) fn undone(undone: &Reverted, again: &str) -> String {
    let turns = undone.session.turns;
    let mut lines = vec![if turns == undone.turns_before {
        format!("Back at turn {turns} as it was before the revert.")
    } else {
        format!(
            "Back at turn {turns} (it was at turn {}).",
            undone.turns_before
        )
    }];
    if let Some(aside) = undone.set_aside {
        lines.push(format!(
            "The {} turn(s) made since the revert are kept; go on with them: {again} --moved {}",
            aside.turns, aside.by_move
        ));
        lines.extend(effects("stay", &undone.effects));
    }
    lines.join("\n")
}

/// Describes what a revert would do.
pub(super) fn plan(plan: &RevertPlan) -> String {
    let removed = removed(plan);
    let turns = plan.turns.saturating_sub(removed);
    if removed == 0 {
        return already(turns);
    }
    let mut lines = vec![format!(
        "Would revert to turn {turns} and remove {removed} turn(s):"
    )];
    let dropped = plan.dropped.iter();
    lines.extend(dropped.map(|turn| format!("  turn {:<3}  {}", turn.n, turn.title.as_str())));
    lines.extend(effects("would stay", &plan.effects));
    lines.push("Nothing was changed.".to_owned());
    lines.join("\n")
}

/// Returns the number of turns that a plan drops.
pub(super) fn removed(plan: &RevertPlan) -> u32 {
    u32::try_from(plan.dropped.len()).unwrap_or(u32::MAX)
}

pub(super) fn forked(forked: &Forked) -> String {
    let id = &forked.session.id;
    format!(
        "{id} branches off from {} after turn {}{}. Go on with: segue chat --resume {id} \"…\"",
        forked.from,
        forked.session.turns,
        left(forked)
    )
}

/// Describes the purpose that the fork does not inherit, because its origin retains it. Empty if the origin has none.
pub(in crate::commands) fn left(forked: &Forked) -> String {
    match &forked.left {
        Some(purpose) => format!(", which stays the session for {purpose}"),
        None => String::new(),
    }
}

/// Lists the changed files, which `stay` as they are.
fn effects(stay: &str, effects: &Effects) -> Vec<String> {
    let heading = format!("The files that those turns changed {stay} as they are:");
    let commands = format!("whatever {} command(s) changed", effects.commands);
    match (effects.files.is_empty(), effects.commands) {
        (true, 0) => Vec::new(),
        (true, _) => vec![format!("{heading} {commands}")],
        (false, count) => {
            let mut lines = vec![heading];
            let files = effects.files.iter();
            lines.extend(files.map(|file| format!("  {:<7}  {}", file.change.as_str(), file.path)));
            if count > 0 {
                lines.push(format!("  and {commands}"));
            }
            lines
        }
    }
}
