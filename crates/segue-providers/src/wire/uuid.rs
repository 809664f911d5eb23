//! Random UUIDs (version 4), for agents that accept an id from segue.

use std::fmt::Write;

use segue_core::id::NativeId;

/// Returns a new UUID.
pub(crate) fn generate_v4(random: fn() -> u32) -> NativeId {
    loop {
        let random_numbers = [random(), random(), random(), random()];
        let mut bytes = [0; 16];
        for (chunk, number) in bytes.chunks_exact_mut(4).zip(random_numbers) {
            chunk.copy_from_slice(&number.to_be_bytes());
        }
        // Digits and dashes are always a valid id.
        if let Ok(id) = NativeId::parse(&format_uuid(bytes)) {
            return id;
        }
    }
}

fn format_uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns `true` if a text is a UUID of any version.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(index, c)| match index {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_variant_are_set_for_all_random_numbers() {
        let lowest = generate_v4(|| 0);
        assert_eq!(lowest.as_str(), "00000000-0000-4000-8000-000000000000");
        let highest = generate_v4(|| u32::MAX);
        assert_eq!(highest.as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert!(is_uuid(lowest.as_str()) && is_uuid(highest.as_str()));
    }

    #[test]
    fn invalid_uuids_are_rejected() {
        for text in [
            "",
            "nosuch",
            "5f1c2d3e-0000-4000-8000-00000000abc",
            "5f1c2d3e_0000_4000_8000_00000000abcd",
            "5f1c2d3e-0000-4000-8000-00000000abcg",
        ] {
            assert!(!is_uuid(text), "{text}");
        }
    }
}
