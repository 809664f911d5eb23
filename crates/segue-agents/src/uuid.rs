//! Random UUIDs (version 4), for agents that accept an id from segue.

use std::fmt::Write;

use segue_core::id::NativeId;

/// Returns a new UUID.
pub(crate) fn v4(random: fn() -> u32) -> NativeId {
    loop {
        let drawn = [random(), random(), random(), random()];
        let mut bytes = [0; 16];
        for (bytes, drawn) in bytes.chunks_exact_mut(4).zip(drawn) {
            bytes.copy_from_slice(&drawn.to_be_bytes());
        }
        // Digits and dashes are always a valid id.
        if let Ok(id) = NativeId::parse(&text(bytes)) {
            return id;
        }
    }
}

fn text(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns `true` if a text is a UUID of any version.
pub(crate) fn is_one(text: &str) -> bool {
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
    fn version_and_variant_are_set_whatever_was_drawn() {
        let least = v4(|| 0);
        assert_eq!(least.as_str(), "00000000-0000-4000-8000-000000000000");
        let most = v4(|| u32::MAX);
        assert_eq!(most.as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert!(is_one(least.as_str()) && is_one(most.as_str()));
    }

    #[test]
    fn what_is_no_uuid_is_told_apart() {
        for text in [
            "",
            "nosuch",
            "5f1c2d3e-0000-4000-8000-00000000abc",
            "5f1c2d3e_0000_4000_8000_00000000abcd",
            "5f1c2d3e-0000-4000-8000-00000000abcg",
        ] {
            assert!(!is_one(text), "{text}");
        }
    }
}
