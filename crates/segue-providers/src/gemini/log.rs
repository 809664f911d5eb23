//! The newer format: a log of messages and of changes to them.

use memchr::memmem;

use super::messages::{GeminiChatConverter, title_event};
use super::schema::GeminiFileLine;
use crate::reader::borrowed_json::decode_lossy;
use crate::reader::line_format::{LineEvents, LineFormat, MalformedLine};

/// Line format of a log.
#[derive(Default)]
pub(super) struct GeminiLineFormat {
    converter: GeminiChatConverter,
}

/// Beginning of the lines that follow each message and contain only its time.
const TIME_UPDATE_PREFIX: &[u8] = b"{\"$set\":{\"lastUpdated\":\"";

impl LineFormat for GeminiLineFormat {
    fn parse_line(&mut self, line: &str, output: &mut LineEvents) -> Result<(), MalformedLine> {
        let bytes = line.trim_ascii().as_bytes();
        if !(bytes.starts_with(b"{") && bytes.ends_with(b"}")) {
            return Err(MalformedLine);
        }
        if bytes.starts_with(TIME_UPDATE_PREFIX) && bytes.len() < 80 {
            return Ok(());
        }
        let line: GeminiFileLine<'_> = serde_json::from_str(line)?;
        self.emit_line_events(&line, output);
        Ok(())
    }

    fn apply_skipped_line(&mut self, line: &[u8]) {
        let _ = self.parse_line(&decode_lossy(line), &mut LineEvents::default());
        self.converter.set_starts_midway();
    }

    fn can_begin_turn(line: &[u8]) -> bool {
        // A list of messages repeats earlier lines.
        !line.starts_with(b"{\"$set\"") && memmem::find(line, b"\"user\"").is_some()
    }
}

impl GeminiLineFormat {
    /// Applies a line. Checks the fields in the order in which Gemini CLI does.
    pub(super) fn emit_line_events(&mut self, line: &GeminiFileLine<'_>, output: &mut LineEvents) {
        let events = &mut output.events;
        if let Some(id) = &line.rewind_to {
            self.converter.emit_rewind(id, events);
        } else if line.id.is_some() {
            output.at = line.time();
            self.converter.emit_message(line, events);
        } else if let Some(set) = &line.set {
            if let Some(messages) = &set.messages {
                self.converter.apply_history(messages, events);
            }
            events.extend(title_event(set.summary.as_deref()));
        } else {
            for message in line.messages.as_deref().unwrap_or_default() {
                self.converter.emit_message(message, events);
            }
            events.extend(title_event(line.summary.as_deref()));
        }
    }
}
