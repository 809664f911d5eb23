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
}
