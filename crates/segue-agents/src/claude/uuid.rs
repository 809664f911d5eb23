//! Ids as Claude Code wants them: random UUIDs (version 4).

use std::io;

use segue_core::NativeId;

/// A new one.
pub(super) fn draw() -> io::Result<NativeId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    NativeId::parse(&text(bytes)).map_err(io::Error::other)
}

fn text(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = format!("{:032x}", u128::from_be_bytes(bytes));
    for at in [20, 16, 12, 8] {
        text.insert(at, '-');
    }
    text
}

/// Whether a text is a UUID of any version.
pub(super) fn is_one(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_id_has_its_version_and_variant_in_place() {
        let cases = [
            ([0; 16], "00000000-0000-4000-8000-000000000000"),
            ([0xff; 16], "ffffffff-ffff-4fff-bfff-ffffffffffff"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(text(bytes), expected);
        }
        assert_ne!(draw().unwrap(), draw().unwrap());
    }

    #[test]
    fn only_a_uuid_is_one() {
        let cases = [
            ("9302dd58-738b-4fd3-a52b-d0d6bad0873a", true),
            ("9302DD58-738B-4FD3-A52B-D0D6BAD0873A", true),
            ("9302dd58-738b-4fd3-a52b-d0d6bad0873", false),
            ("9302dd58-738b-4fd3-a52b-d0d6bad0873g", false),
            ("9302dd58x738b-4fd3-a52b-d0d6bad0873a", false),
            ("my title", false),
            ("", false),
        ];
        for (text, expected) in cases {
            assert_eq!(is_one(text), expected, "{text}");
        }
    }
}
