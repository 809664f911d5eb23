//! Ids that we draw ourselves, for agents that take them.

use std::fmt::Write;

use segue_core::NativeId;

/// A random UUID of version 4.
pub(crate) fn v4() -> NativeId {
    loop {
        let mut bytes = [0; 16];
        // A system without chance has worse problems than a program that waits for it.
        let drawn = getrandom::fill(&mut bytes).is_ok();
        if let (true, Ok(id)) = (drawn, NativeId::parse(&text(bytes))) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_variant_are_set_whatever_was_drawn() {
        assert_eq!(text([0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(text([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn no_two_are_the_same() {
        assert_ne!(v4(), v4());
    }
}
