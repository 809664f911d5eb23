//! The newer format: a log of messages and of changes to them.

use memchr::memmem;

use super::chat::{Chat, titled};
use super::line::Line;
use crate::dialect::{Dialect, Malformed, Told};
use crate::json::lossy;

/// Line format of a log.
#[derive(Default)]
pub(super) struct Log {
    chat: Chat,
}

/// Beginning of the lines that follow each message and contain only its time.
const TOUCHED: &[u8] = b"{\"$set\":{\"lastUpdated\":\"";

impl Dialect for Log {
    fn read(&mut self, line: &str, told: &mut Told) -> Result<(), Malformed> {
        let bytes = line.trim_ascii().as_bytes();
        if !(bytes.starts_with(b"{") && bytes.ends_with(b"}")) {
            return Err(Malformed);
        }
        if bytes.starts_with(TOUCHED) && bytes.len() < 80 {
            return Ok(());
        }
        let line: Line<'_> = serde_json::from_str(line)?;
        self.take(&line, told);
        Ok(())
    }

    fn remember(&mut self, line: &[u8]) {
        let _ = self.read(&lossy(line), &mut Told::default());
        self.chat.begin_midway();
    }

    fn may_prompt(line: &[u8]) -> bool {
        // A list of messages repeats earlier lines.
        !line.starts_with(b"{\"$set\"") && memmem::find(line, b"\"user\"").is_some()
    }
}

impl Log {
    /// Applies a line. Checks the fields in the order in which Gemini CLI does.
    pub(super) fn take(&mut self, line: &Line<'_>, told: &mut Told) {
        let events = &mut told.events;
        if let Some(id) = &line.rewind_to {
            self.chat.rewind(id, events);
        } else if line.id.is_some() {
            told.at = line.at();
            self.chat.message(line, events);
        } else if let Some(set) = &line.set {
            if let Some(messages) = &set.messages {
                self.chat.history(messages, events);
            }
            events.extend(titled(set.summary.as_deref()));
        } else {
            for message in line.messages.as_deref().unwrap_or_default() {
                self.chat.message(message, events);
            }
            events.extend(titled(line.summary.as_deref()));
        }
    }
}
