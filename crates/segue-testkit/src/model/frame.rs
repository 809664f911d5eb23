//! Events of a streamed answer.

use serde_json::Value;

/// A server-sent event.
pub(crate) struct Frame {
    /// Encoded form for the connection.
    pub(crate) wire: String,
    /// Whether the event contains text of the answer. An answer is cut after such an event.
    pub(crate) text: bool,
}

impl Frame {
    /// Creates an event whose name is also in its data (Anthropic, `OpenAI`).
    pub(crate) fn named(data: &Value) -> Self {
        let name = data["type"].as_str().unwrap_or_default();
        Self {
            wire: format!("event: {name}\ndata: {data}\n\n"),
            text: name == "content_block_delta" && data["delta"]["type"] == "text_delta"
                || name == "response.output_text.delta",
        }
    }

    /// Creates an event without a name (Gemini).
    pub(crate) fn plain(data: &Value) -> Self {
        let part = &data["candidates"][0]["content"]["parts"][0];
        Self {
            wire: format!("data: {data}\n\n"),
            text: part["text"].is_string() && part["thought"] != true,
        }
    }
}

/// Truncates an answer in the middle of its text. An answer without text is truncated after the first event.
pub(crate) fn beginning(mut frames: Vec<Frame>) -> Vec<Frame> {
    let texts = frames.iter().filter(|frame| frame.text).count();
    let mut left = texts.div_ceil(2);
    let end = frames.iter().position(|frame| {
        left -= usize::from(frame.text);
        frame.text && left == 0
    });
    frames.truncate(end.map_or(1, |end| end + 1));
    frames
}
