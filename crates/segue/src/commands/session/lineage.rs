//! Text output of a session's origin, its legs and its head moves.

use jiff::Timestamp;
use segue_core::id::NativeId;
use segue_core::session::{HeadMove, Leg, LegEnd};
use segue_engine::SessionView;

/// Returns the lines of `session info`, each with its label.
pub(super) fn format_lineage(view: &SessionView) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    if let Some((id, turn)) = &view.session.forked_from {
        lines.push(("forked".to_owned(), format!("from {id} after turn {turn}")));
    }
    for fork in &view.lineage.forks {
        let (title, at) = (fork.title.as_str(), format_time(fork.at));
        let fork = format!("{} after turn {}: {title} ({at})", fork.id, fork.turn);
        lines.push(("fork".to_owned(), fork));
    }
    for head_move in &view.lineage.moves {
        let label = format!("move {}", head_move.number);
        lines.push((label, format_head_move(head_move)));
    }
    for (leg, turn_range) in view.legs.iter().zip(&view.leg_turn_ranges) {
        lines.push((format!("leg {}", leg.number), format_leg(leg, *turn_range)));
    }
    lines
}

fn format_head_move(head_move: &HeadMove) -> String {
    let (from, to, at) = (head_move.from, head_move.to, format_time(head_move.at));
    let kind = head_move.kind.as_str();
    let undone = if head_move.undone { ", undone" } else { "" };
    format!("{kind}: turn {from} → turn {to} ({at}{undone})")
}

fn format_leg(leg: &Leg, turn_range: Option<(u32, u32)>) -> String {
    let native = leg.native_id.as_ref().map_or("-", NativeId::as_str);
    let turns = match turn_range {
        None => String::new(),
        Some((first, last)) if first == last => format!(" turn {first}"),
        Some((first, last)) => format!(" turns {first} to {last}"),
    };
    let end = match leg.ended {
        None => "active".to_owned(),
        Some((_, reason)) => format!("ended: {}", describe_leg_end(reason)),
    };
    format!("{} {native}{turns} ({end})", leg.provider)
}

/// Describes why a leg ended.
fn describe_leg_end(end: LegEnd) -> &'static str {
    match end {
        LegEnd::Lost => "native session lost",
        LegEnd::Unavailable => "the agent could not resume it at that time",
        LegEnd::HeadMoved => "the session moved to another turn",
        LegEnd::Handoff => "handed off",
        LegEnd::Full => "context full",
        LegEnd::Errors => "repeated failures",
        LegEnd::Compacted => "compacted",
    }
}

fn format_time(at: Timestamp) -> String {
    at.strftime("%F %T").to_string()
}
