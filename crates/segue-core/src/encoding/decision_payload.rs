//! Encoding of decisions and hints: `{"v":1,"decision":"agent_refused"}`, `{"v":1,"hint":"check_agents"}`.
//!
//! A payload that this version cannot decode becomes a decision or a hint that is known only as text, so that the log
//! of a session can always be shown.

use serde::{Deserialize, Serialize};

use super::PAYLOAD_VERSION;
use crate::hint::Hint;
use crate::session::{Decision, DecisionKind};

#[derive(Serialize)]
struct VersionedPayload<'a, T> {
    v: u32,
    #[serde(flatten)]
    value: &'a T,
}

#[derive(Deserialize)]
struct PayloadHeader {
    v: u32,
}

fn encode_payload<T: Serialize>(value: &T) -> String {
    let v = PAYLOAD_VERSION;
    // Serialising strings, numbers and times into a `String` cannot fail.
    serde_json::to_string(&VersionedPayload { v, value }).unwrap_or_default()
}

fn decode_payload<'a, T: Deserialize<'a>>(payload: &'a str) -> Option<T> {
    let header: PayloadHeader = serde_json::from_str(payload).ok()?;
    let is_supported = header.v == PAYLOAD_VERSION;
    is_supported.then(|| serde_json::from_str(payload).ok())?
}

/// Encodes a decision. `None` if it is known only as text.
#[must_use]
pub fn encode_decision(decision: &Decision) -> Option<String> {
    let is_text = matches!(decision, Decision::Recorded { .. });
    (!is_text).then(|| encode_payload(decision))
}

/// Decodes a decision. A payload that cannot be decoded is returned as the text of a decision of this kind.
#[must_use]
pub fn decode_decision(kind: DecisionKind, payload: &str) -> Decision {
    decode_payload(payload).unwrap_or_else(|| Decision::Recorded {
        kind,
        text: payload.to_owned(),
    })
}

/// Encodes a hint. The encoding of a hint that is known only as text is that text.
#[must_use]
pub fn encode_hint(hint: &Hint) -> String {
    match hint {
        Hint::Recorded { text } => text.clone(),
        typed => encode_payload(typed),
    }
}

/// Decodes a hint. Text of an earlier version, and a payload that cannot be decoded, are returned as the text of a hint.
#[must_use]
pub fn decode_hint(payload: &str) -> Hint {
    decode_payload(payload).unwrap_or_else(|| Hint::Recorded {
        text: payload.to_owned(),
    })
}

#[cfg(test)]
mod tests;
