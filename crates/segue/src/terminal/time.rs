//! Relative times for the user.

use jiff::Timestamp;

/// Formats the time since `past`, rounded down to minutes, hours or days.
pub(crate) fn format_age(past: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(past).as_secs();
    let (number, unit) = match seconds {
        ..60 => return "just now".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_rounded_down() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let cases = [
            (-5, "just now"),
            (59, "just now"),
            (60, "1 minute ago"),
            (7199, "1 hour ago"),
            (86_400, "1 day ago"),
            (900_000, "10 days ago"),
        ];
        for (seconds, expected) in cases {
            let past = Timestamp::from_second(1_000_000 - seconds).unwrap();
            assert_eq!(format_age(past, now), expected);
        }
    }
}
