//! Encoding of decisions and hints: `{"v":1,"decision":"agent_refused"}`, `{"v":1,"hint":"check_agents"}`.
//!
//! A payload that this version cannot decode becomes a decision or a hint that is known only as text, so that the log
//! of a session can always be shown.

use super::{PAYLOAD_VERSION, decode_versioned, encode_versioned};
use crate::hint::Hint;
use crate::session::{Decision, DecisionKind};

/// Encodes a decision. `None` if it is known only as text.
#[must_use]
pub fn encode_decision(decision: &Decision) -> Option<String> {
    let is_text = matches!(decision, Decision::Recorded { .. });
    (!is_text).then(|| encode_versioned(PAYLOAD_VERSION, decision))
}

/// Decodes a decision. A payload that cannot be decoded is returned as the text of a decision of this kind.
#[must_use]
pub fn decode_decision(kind: DecisionKind, payload: &str) -> Decision {
    decode_versioned(PAYLOAD_VERSION, payload).unwrap_or_else(|_| Decision::Recorded {
        kind,
        text: payload.to_owned(),
    })
}

/// Encodes a hint. The encoding of a hint that is known only as text is that text.
#[must_use]
pub fn encode_hint(hint: &Hint) -> String {
    match hint {
        Hint::Recorded { text } => text.clone(),
        typed => encode_versioned(PAYLOAD_VERSION, typed),
    }
}

/// Decodes a hint. Text of an earlier version, and a payload that cannot be decoded, are returned as the text of a hint.
#[must_use]
pub fn decode_hint(payload: &str) -> Hint {
    decode_versioned(PAYLOAD_VERSION, payload).unwrap_or_else(|_| Hint::Recorded {
        text: payload.to_owned(),
    })
}

#[cfg(test)]
mod tests;
