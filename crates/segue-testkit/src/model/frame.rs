//! Events of a streamed answer.

use serde_json::Value;

/// A server-sent event.
pub(crate) struct SseFrame {
    /// Encoded form for the connection.
    pub(crate) encoded: String,
    /// Whether the event contains text of the answer. An answer is cut after such an event.
    pub(crate) has_text: bool,
}

impl SseFrame {
    /// Creates an event whose name is also in its data (Anthropic, `OpenAI`).
    pub(crate) fn from_named_data(data: &Value) -> Self {
        let name = data["type"].as_str().unwrap_or_default();
        Self {
            encoded: format!("event: {name}\ndata: {data}\n\n"),
            has_text: name == "content_block_delta" && data["delta"]["type"] == "text_delta"
                || name == "response.output_text.delta",
        }
    }

    /// Creates an event without a name (Gemini).
    pub(crate) fn from_unnamed_data(data: &Value) -> Self {
        let part = &data["candidates"][0]["content"]["parts"][0];
        Self {
            encoded: format!("data: {data}\n\n"),
            has_text: part["text"].is_string() && part["thought"] != true,
        }
    }
}

/// Truncates an answer in the middle of its text. An answer without text is truncated after the first event.
pub(crate) fn truncate_in_text(mut frames: Vec<SseFrame>) -> Vec<SseFrame> {
    let text_count = frames.iter().filter(|frame| frame.has_text).count();
    let mut remaining = text_count.div_ceil(2);
    let end = frames.iter().position(|frame| {
        remaining -= usize::from(frame.has_text);
        frame.has_text && remaining == 0
    });
    frames.truncate(end.map_or(1, |end| end + 1));
    frames
}
