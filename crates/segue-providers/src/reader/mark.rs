//! Positions in a native session at which a later read can start.

use std::fmt;
use std::str::FromStr;

/// Position of a native record, after which a later read can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// End of the record's line in a file of lines, with a checksum of the line.
    Line {
        /// Offset of the end of the line, before its line feed.
        end: u64,
        /// Checksum of the line, which detects a file that was truncated or rewritten.
        check: u64,
    },
    /// Id of the record, in a format whose records have ids and no fixed position.
    Id(String),
}

/// Error for a text that is not a mark.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid mark of a native session: {0:?}")]
pub struct MarkError(String);

impl Mark {
    /// Creates the mark of a line that ends before the offset `end`.
    pub(crate) fn for_line(end: u64, line: &[u8]) -> Self {
        let check = checksum(line);
        Self::Line { end, check }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { end, check } => write!(f, "line:{end}:{check:016x}"),
            Self::Id(id) => write!(f, "id:{id}"),
        }
    }
}

impl FromStr for Mark {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, MarkError> {
        let parse_line = |text: &str| {
            let (end, check) = text.split_once(':')?;
            Some(Self::Line {
                end: end.parse().ok()?,
                check: u64::from_str_radix(check, 16).ok()?,
            })
        };
        let mark = match text.split_once(':') {
            Some(("line", fields)) => parse_line(fields),
            Some(("id", id)) => Some(Self::Id(id.to_owned())),
            _ => None,
        };
        mark.ok_or_else(|| MarkError(text.to_owned()))
    }
}

/// Computes FNV-1a over the length, the beginning and the end of a line. Ids and times are in these parts, and a line
/// may have megabytes between them. Marks are saved in stores, so this function must never change.
fn checksum(line: &[u8]) -> u64 {
    const CHECKSUM_HEAD_BYTES: usize = 192;
    const CHECKSUM_TAIL_BYTES: usize = 64;
    let (beginning, remainder) = line.split_at(line.len().min(CHECKSUM_HEAD_BYTES));
    let end = remainder
        .split_at(remainder.len().saturating_sub(CHECKSUM_TAIL_BYTES))
        .1;
    let length = (line.len() as u64).to_le_bytes();
    let bytes = length.iter().chain(beginning).chain(end);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_formatting_and_parsing() {
        let cases = [
            (Mark::for_line(77, b"{}"), "line:77:9caafcd328e9298b"),
            (Mark::Id("msg:1".into()), "id:msg:1"),
        ];
        for (mark, text) in cases {
            assert_eq!(mark.to_string(), text);
            assert_eq!(text.parse(), Ok(mark));
        }
        for bad in ["", "line:", "line:x:00", "line:1:zz", "page:4"] {
            assert!(bad.parse::<Mark>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn different_lines_have_different_checksums() {
        let checksum_with_change_at = |at: usize| {
            let mut line = vec![b'x'; 1000];
            line[at] = b'y';
            checksum(&line)
        };
        assert_ne!(checksum_with_change_at(0), checksum_with_change_at(1));
        assert_ne!(checksum_with_change_at(999), checksum_with_change_at(998));
        assert_ne!(checksum(b"x"), checksum(b"xx"));
    }
}
