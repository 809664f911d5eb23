//! The agent's output, classified line by line.
//!
//! Updates are sent through a separate, bounded channel: an agent that sends too many is slowed down, so that they do
//! not accumulate. An update that cannot be interpreted is passed on as JSON instead of failing. All other messages are
//! for the protocol library. A line that is not a message is reported and skipped.

use std::io;

use agent_client_protocol::v1::schema::{SessionUpdate, ToolCall, ToolCallUpdate};
use futures::Stream;
use segue_core::json::Json;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::mpsc;

use crate::update;

/// Maximum length of a line in bytes; it must exceed the largest message that an agent may send in one line.
const MAX_LINE_BYTES: u64 = 512 * 1024 * 1024;

/// Maximum number of characters that are reported of a line that is not a message.
const MAX_GARBAGE_CHARS: usize = 200;

/// Output of the agent other than responses and requests.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A chunk of the answer's text.
    Text(String),
    /// A chunk of the agent's thoughts.
    Thought(String),
    /// An update of another kind that segue can translate.
    Update(Box<SessionUpdate>),
    /// An update of an unknown kind or shape, unchanged.
    Unknown(Json),
    /// A line that is not a message.
    Garbage(String),
}

/// A message with the parts of its parameters that `P` reads.
#[derive(Deserialize)]
struct AcpMessage<'a, P> {
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    params: Option<P>,
}

impl<P> AcpMessage<'_, P> {
    fn is_update(&self) -> bool {
        let method = self.method.map(RawValue::get);
        method == Some("\"session/update\"") && self.id.is_none()
    }
}

#[derive(Deserialize)]
struct AcpUpdateParams<'a> {
    #[serde(borrow)]
    update: Option<&'a RawValue>,
}

/// Kind of an update, and the field that most updates consist of.
#[derive(Deserialize)]
struct AcpUpdate<'a> {
    #[serde(rename = "sessionUpdate")]
    kind: &'a str,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct AcpTextBlock<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    text: String,
}

/// Classification of a line.
enum ClassifiedLine {
    Update(Incoming),
    Message(String),
    Blank,
}

fn classify_line(bytes: &[u8]) -> ClassifiedLine {
    let line = String::from_utf8_lossy(bytes);
    let line = line.trim();
    if line.is_empty() {
        return ClassifiedLine::Blank;
    }
    let garbage = || {
        ClassifiedLine::Update(Incoming::Garbage(
            line.chars().take(MAX_GARBAGE_CHARS).collect(),
        ))
    };
    // Serde would accept an array as the fields of a message in their order.
    if !line.starts_with('{') {
        return garbage();
    }
    match serde_json::from_str::<AcpMessage<'_, AcpUpdateParams<'_>>>(line) {
        Ok(message) if !message.is_update() => ClassifiedLine::Message(line.to_owned()),
        Ok(message) => match message.params.and_then(|params| params.update) {
            Some(update) => ClassifiedLine::Update(parse_update(update)),
            None => garbage(),
        },
        // Parameters of another method may have any shape.
        Err(_) => match serde_json::from_str::<AcpMessage<'_, IgnoredAny>>(line) {
            Ok(message) if !message.is_update() => ClassifiedLine::Message(line.to_owned()),
            Ok(_) | Err(_) => garbage(),
        },
    }
}

fn parse_update(update: &RawValue) -> Incoming {
    if let Some(incoming) = parse_common_update(update.get()) {
        return incoming;
    }
    match serde_json::from_str(update.get()) {
        Ok(update) if update::is_translatable(&update) => Incoming::Update(Box::new(update)),
        Ok(_) | Err(_) => Incoming::Unknown(Json::from(update)),
    }
}

/// Parses the updates that an agent sends by the thousand; `None` for the others. The protocol library would read a
/// complete update into memory before it looks at its kind.
fn parse_common_update(update: &str) -> Option<Incoming> {
    let AcpUpdate { kind, content } = serde_json::from_str(update).ok()?;
    let text = || {
        let block: AcpTextBlock<'_> = serde_json::from_str(content?.get()).ok()?;
        (block.kind == "text").then_some(block.text)
    };
    let session_update = match kind {
        "agent_message_chunk" => return text().map(Incoming::Text),
        "agent_thought_chunk" => return text().map(Incoming::Thought),
        "tool_call" => SessionUpdate::ToolCall(serde_json::from_str::<ToolCall>(update).ok()?),
        "tool_call_update" => {
            SessionUpdate::ToolCallUpdate(serde_json::from_str::<ToolCallUpdate>(update).ok()?)
        }
        _ => return None,
    };
    Some(Incoming::Update(Box::new(session_update)))
}

/// Returns the lines for the protocol library, and sends the others to `updates`.
pub(crate) fn read_messages(
    reader: impl AsyncRead + Send + Unpin + 'static,
    updates: mpsc::Sender<Incoming>,
) -> impl Stream<Item = io::Result<String>> + Send + 'static {
    let reader = BufReader::with_capacity(64 * 1024, reader);
    futures::stream::try_unfold(
        (reader, updates, Vec::new()),
        |(mut reader, updates, mut line)| async move {
            loop {
                line.clear();
                let length = (&mut reader)
                    .take(MAX_LINE_BYTES)
                    .read_until(b'\n', &mut line)
                    .await?;
                if length == 0 {
                    return Ok(None);
                }
                if length as u64 == MAX_LINE_BYTES {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the agent sent a line that is too long",
                    ));
                }
                match classify_line(&line) {
                    ClassifiedLine::Blank => {}
                    ClassifiedLine::Message(message) => {
                        return Ok(Some((message, (reader, updates, line))));
                    }
                    ClassifiedLine::Update(update) => {
                        // Sending fails only while the connection is being closed.
                        let _ = updates.send(update).await;
                    }
                }
                // The memory of a huge message must not stay allocated for the remainder of the connection.
                line.shrink_to(64 * 1024);
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    async fn read_all(bytes: &'static [u8]) -> (Vec<String>, Vec<Incoming>) {
        let (sender, mut receiver) = mpsc::channel(100);
        let lines = read_messages(bytes, sender).try_collect().await.unwrap();
        let mut updates = Vec::new();
        while let Some(update) = receiver.recv().await {
            updates.push(update);
        }
        (lines, updates)
    }

    #[tokio::test]
    async fn messages_updates_and_garbage_are_classified() {
        let (lines, updates) = read_all(
            b"Warning: noise\r\n\
              {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n\
              \n\
              {\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"hi\"}}}}\n\
              {\"method\":\"session/update\",\"params\":{\"update\":{\"content\":{\"text\":\"h\\u006d\",\"type\":\"text\"},\"sessionUpdate\":\"agent_thought_chunk\"}}}\n\
              {\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\",\"title\":\"t\"}}}\n\
              {\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"new\",\"z\":1}}}\n\
              {\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"compaction_update\",\"compactionId\":\"c\",\"status\":\"completed\"}}}\n\
              {\"method\":\"session/update\",\"params\":7}\n\
              {\"method\":\"session/update\"}\n\
              [1,2,3]\n\
              {\"method\":\"other\",\"params\":[7]}\n\
              {\"id\":2,\"resu",
        )
        .await;
        assert_eq!(
            lines,
            [
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
                "{\"method\":\"other\",\"params\":[7]}"
            ]
        );
        let descriptions: Vec<String> = updates
            .iter()
            .map(|update| match update {
                Incoming::Text(text) => format!("text {text}"),
                Incoming::Thought(text) => format!("thought {text}"),
                Incoming::Update(update) => {
                    format!("update {}", matches!(**update, SessionUpdate::ToolCall(_)))
                }
                Incoming::Unknown(json) => format!("unknown {json:?}"),
                Incoming::Garbage(line) => format!("garbage {line}"),
            })
            .collect();
        assert_eq!(
            descriptions,
            [
                "garbage Warning: noise",
                "text hi",
                "thought hm",
                "update true",
                "unknown {\"sessionUpdate\":\"new\",\"z\":1}",
                "update false",
                "garbage {\"method\":\"session/update\",\"params\":7}",
                "garbage {\"method\":\"session/update\"}",
                "garbage [1,2,3]",
                "garbage {\"id\":2,\"resu",
            ]
        );
    }

    #[tokio::test]
    async fn invalid_utf8_does_not_stop_the_reader() {
        let (lines, updates) = read_all(b"\xff\xfe\n{\"id\":1,\"result\":\"\xff\"}\n").await;
        assert_eq!(lines, ["{\"id\":1,\"result\":\"\u{fffd}\"}"]);
        assert!(matches!(updates.as_slice(), [Incoming::Garbage(_)]));
    }
}
