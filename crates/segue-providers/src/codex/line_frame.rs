//! A line before its payload is parsed.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::reader::line_format::MalformedLine;

/// Fields around the payload of a line.
pub(super) struct CodexFileFrame<'a> {
    timestamp: Option<&'a str>,
    /// Number of the record. `None` in files without numbers.
    pub(super) ordinal: Option<u64>,
    pub(super) kind: &'a str,
    /// Text that begins with the payload. The text after the end of the payload is ignored.
    pub(super) payload: &'a str,
}

impl<'a> CodexFileFrame<'a> {
    /// Parses a frame in the layout that Codex writes, without reading the payload.
    fn parse_fast(line: &'a str) -> Option<Self> {
        let remainder = line.strip_prefix("{\"timestamp\":\"")?;
        let (timestamp, remainder) =
            remainder.split_at_checked(memchr::memchr(b'"', remainder.as_bytes())?)?;
        let remainder = remainder.strip_prefix("\",")?;
        let (ordinal, remainder) = match remainder.strip_prefix("\"ordinal\":") {
            Some(remainder) => {
                let (ordinal, remainder) = remainder.split_once(',')?;
                (Some(ordinal.parse().ok()?), remainder)
            }
            None => (None, remainder),
        };
        let remainder = remainder.strip_prefix("\"type\":\"")?;
        let (kind, remainder) =
            remainder.split_at_checked(memchr::memchr(b'"', remainder.as_bytes())?)?;
        Some(Self {
            timestamp: Some(timestamp),
            ordinal,
            kind,
            payload: remainder.strip_prefix("\",\"payload\":")?,
        })
    }

    pub(super) fn parse(line: &'a str) -> Result<Self, MalformedLine> {
        #[derive(Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        struct CodexFileLine<'a> {
            timestamp: Option<&'a str>,
            ordinal: Option<u64>,
            r#type: Option<&'a str>,
            payload: Option<&'a RawValue>,
        }
        if let Some(frame) = Self::parse_fast(line) {
            return Ok(frame);
        }
        let parsed: CodexFileLine<'_> = serde_json::from_str(line)?;
        Ok(match parsed.payload {
            Some(payload) => Self {
                timestamp: parsed.timestamp,
                ordinal: parsed.ordinal,
                kind: parsed.r#type.ok_or(MalformedLine)?,
                payload: payload.get(),
            },
            // The oldest files have items without a frame, and lines without a type between them.
            None => Self {
                timestamp: parsed.timestamp,
                ordinal: None,
                kind: parsed.r#type.map_or("", |_| "response_item"),
                payload: line,
            },
        })
    }

    /// Returns the type of the payload.
    pub(super) fn payload_type(&self) -> Result<&'a str, MalformedLine> {
        #[derive(Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        struct CodexFilePayloadType<'a> {
            r#type: &'a str,
        }
        let find_type = || {
            let remainder = self.payload.strip_prefix("{\"type\":\"")?;
            remainder.get(..memchr::memchr(b'"', remainder.as_bytes())?)
        };
        match find_type() {
            Some(kind) => Ok(kind),
            None => self
                .read_payload::<CodexFilePayloadType<'_>>()
                .map(|typed| typed.r#type),
        }
    }

    pub(super) fn read_payload<T: Deserialize<'a>>(&self) -> Result<T, MalformedLine> {
        let mut payload = serde_json::Deserializer::from_str(self.payload);
        Ok(T::deserialize(&mut payload)?)
    }

    pub(super) fn time(&self) -> Option<Timestamp> {
        self.timestamp?.parse().ok()
    }
}

/// Returns the number of a record. `None` in files without numbers.
pub(super) fn parse_ordinal(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    CodexFileFrame::parse(line).ok()?.ordinal
}
