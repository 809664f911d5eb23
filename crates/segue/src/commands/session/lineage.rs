//! Text output of a session's origin, its legs and its head moves.

use jiff::Timestamp;
use segue_core::id::NativeId;
use segue_core::session::{HeadMove, Leg, LegEnd};
use segue_engine::SessionView;

/// Returns the lines of `session info`, each with its label.
pub(super) fn lines(view: &SessionView) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    if let Some((id, turn)) = &view.session.forked_from {
        lines.push(("forked".to_owned(), format!("from {id} after turn {turn}")));
    }
    for fork in &view.lineage.forks {
        let (title, at) = (fork.title.as_str(), moment(fork.at));
        let fork = format!("{} after turn {}: {title} ({at})", fork.id, fork.turn);
        lines.push(("fork".to_owned(), fork));
    }
    for moved in &view.lineage.moves {
        lines.push((format!("move {}", moved.n), head_move(moved)));
    }
    let carried = view.carried.iter().copied().chain(std::iter::repeat(None));
    for (leg, turns) in view.legs.iter().zip(carried) {
        lines.push((format!("leg {}", leg.n), told(leg, turns)));
    }
    lines
}

fn head_move(moved: &HeadMove) -> String {
    let (from, to, at) = (moved.from, moved.to, moment(moved.at));
    let what = moved.kind.as_str();
    let undone = if moved.undone { ", undone since" } else { "" };
    format!("{what}: turn {from} → turn {to} ({at}{undone})")
}

fn told(leg: &Leg, turns: Option<(u32, u32)>) -> String {
    let native = leg.native_id.as_ref().map_or("-", NativeId::as_str);
    let turns = match turns {
        None => String::new(),
        Some((first, last)) if first == last => format!(" turn {first}"),
        Some((first, last)) => format!(" turns {first} to {last}"),
    };
    let end = match leg.ended {
        None => "active".to_owned(),
        Some((_, why)) => format!("ended: {}", why_ended(why)),
    };
    format!("{} {native}{turns} ({end})", leg.provider)
}

/// Describes why a leg ended.
fn why_ended(why: LegEnd) -> &'static str {
    match why {
        LegEnd::Lost => "lost",
        LegEnd::NotNow => "left, its agent could not go on with it just then",
        LegEnd::HeadMoved => "left, the session went to another turn",
        LegEnd::Handoff => "handed over",
        LegEnd::Full => "full",
        LegEnd::Errors => "failed too often",
        LegEnd::Compacted => "summed up",
    }
}

fn moment(at: Timestamp) -> String {
    at.strftime("%F %T").to_string()
}
