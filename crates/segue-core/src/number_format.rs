//! Number format for the user.

/// Formats a number with a comma between thousands: 3,117.
#[must_use]
pub fn format_count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 turn`, `1,200 turns`. The plural of `noun` must end with `s`.
#[must_use]
pub fn format_plural(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let suffix = if count == 1 { "" } else { "s" };
    format!("{} {noun}{suffix}", format_count(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated_by_commas() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (123_456, "123,456"),
            (12_345_678, "12,345,678"),
        ];
        for (number, expected) in cases {
            assert_eq!(format_count(number), expected);
        }
    }

    #[test]
    fn only_one_is_singular() {
        assert_eq!(format_plural(0_u32, "turn"), "0 turns");
        assert_eq!(format_plural(1_usize, "turn"), "1 turn");
        assert_eq!(format_plural(2_u64, "more turn"), "2 more turns");
        assert_eq!(format_plural(1_200_u64, "turn"), "1,200 turns");
    }
}
