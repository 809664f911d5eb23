//! Decisions as the fields that a store records.

use segue_core::encoding;
use segue_core::session::{Decision, DecisionKind};

/// Returns the text of a decision to record. Only a decision of an earlier format has one; every other decision is
/// worded when it is shown.
#[must_use]
pub fn recorded_text(decision: &Decision) -> &str {
    match decision {
        Decision::Recorded { text, .. } => text,
        _ => "",
    }
}

/// Returns the decision with a recorded kind, text and data. A kind of another version is an oddity, because a log must
/// always be readable.
#[must_use]
pub fn decode_recorded_decision(kind: &str, text: String, data: Option<&str>) -> Decision {
    let kind = DecisionKind::from_name(kind).unwrap_or(DecisionKind::Oddity);
    match data {
        Some(data) => encoding::decode_decision(kind, data),
        None => Decision::Recorded { kind, text },
    }
}
