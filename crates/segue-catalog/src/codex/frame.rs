//! A line before its payload is parsed.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialect::Malformed;

/// Fields around the payload of a line.
pub(super) struct Frame<'a> {
    at: Option<&'a str>,
    /// Number of the record. `None` in files without numbers.
    pub(super) ordinal: Option<u64>,
    pub(super) kind: &'a str,
    /// Text that begins with the payload. The text after the end of the payload is ignored.
    pub(super) payload: &'a str,
}

impl<'a> Frame<'a> {
    /// Parses a frame in the layout that Codex writes, without reading the payload.
    fn quick(line: &'a str) -> Option<Self> {
        let rest = line.strip_prefix("{\"timestamp\":\"")?;
        let (at, rest) = rest.split_at_checked(memchr::memchr(b'"', rest.as_bytes())?)?;
        let rest = rest.strip_prefix("\",")?;
        let (ordinal, rest) = match rest.strip_prefix("\"ordinal\":") {
            Some(rest) => {
                let (ordinal, rest) = rest.split_once(',')?;
                (Some(ordinal.parse().ok()?), rest)
            }
            None => (None, rest),
        };
        let rest = rest.strip_prefix("\"type\":\"")?;
        let (kind, rest) = rest.split_at_checked(memchr::memchr(b'"', rest.as_bytes())?)?;
        Some(Self {
            at: Some(at),
            ordinal,
            kind,
            payload: rest.strip_prefix("\",\"payload\":")?,
        })
    }

    pub(super) fn parse(line: &'a str) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow, default)]
            timestamp: Option<&'a str>,
            #[serde(default)]
            ordinal: Option<u64>,
            #[serde(borrow, default)]
            r#type: Option<&'a str>,
            #[serde(borrow, default)]
            payload: Option<&'a RawValue>,
        }
        if let Some(frame) = Self::quick(line) {
            return Ok(frame);
        }
        let read: Line<'_> = serde_json::from_str(line)?;
        Ok(match read.payload {
            Some(payload) => Self {
                at: read.timestamp,
                ordinal: read.ordinal,
                kind: read.r#type.ok_or(Malformed)?,
                payload: payload.get(),
            },
            // The oldest files have items without a frame, and lines without a type between them.
            None => Self {
                at: read.timestamp,
                ordinal: None,
                kind: read.r#type.map_or("", |_| "response_item"),
                payload: line,
            },
        })
    }

    /// Returns the type of the payload.
    pub(super) fn inside(&self) -> Result<&'a str, Malformed> {
        #[derive(Deserialize)]
        struct Typed<'a> {
            #[serde(borrow)]
            r#type: &'a str,
        }
        let quick = || {
            let rest = self.payload.strip_prefix("{\"type\":\"")?;
            rest.get(..memchr::memchr(b'"', rest.as_bytes())?)
        };
        match quick() {
            Some(kind) => Ok(kind),
            None => self.read::<Typed<'_>>().map(|typed| typed.r#type),
        }
    }

    pub(super) fn read<T: Deserialize<'a>>(&self) -> Result<T, Malformed> {
        let mut payload = serde_json::Deserializer::from_str(self.payload);
        Ok(T::deserialize(&mut payload)?)
    }

    pub(super) fn time(&self) -> Option<Timestamp> {
        self.at?.parse().ok()
    }
}

/// Returns the number of a record. `None` in files without numbers.
pub(super) fn ordinal(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    Frame::parse(line).ok()?.ordinal
}
