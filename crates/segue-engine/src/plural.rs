//! Counts with their nouns, as text for the user.

use std::fmt::Display;

/// Formats a count with its noun: `1 turn`, `3 turns`. The plural of `noun` must end with `s`.
pub(crate) fn format_plural<N>(count: N, noun: &str) -> String
where
    N: Display + PartialEq + From<u8>,
{
    let suffix = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        assert_eq!(format_plural(0_u32, "turn"), "0 turns");
        assert_eq!(format_plural(1_usize, "turn"), "1 turn");
        assert_eq!(format_plural(2_u64, "more turn"), "2 more turns");
    }
}
