//! From when on to count, in whole days of the user's where days are meant.

use jiff::civil::Date;
use jiff::{SignedDuration, Span, Timestamp, Zoned};

use crate::error::CliError;

/// The moment that is meant; none for all times.
pub(super) fn moment(text: &str, now: &Zoned) -> Result<Option<Timestamp>, CliError> {
    if text == "all" {
        return Ok(None);
    }
    let wrong = || {
        CliError::usage(format!("{text:?} is not a time"))
            .hint("write 2025-12-07, 2025-12-07T14:30:22Z, how long ago (30m, 12h, 7d, 2w), or all")
    };
    read(text, now).map(Some).ok_or_else(wrong)
}

fn read(text: &str, now: &Zoned) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    // Longer texts are times without a zone: whose would it be?
    if text.len() == "2025-12-07".len()
        && let Ok(day) = text.parse::<Date>()
    {
        return start_of(day, now);
    }
    let unit = text.chars().next_back()?;
    let digits = text.strip_suffix(unit)?;
    let number = digits.parse::<i64>().ok().filter(|&number| number > 0)?;
    let ago = |seconds: i64| {
        let time = SignedDuration::from_secs(number.checked_mul(seconds)?);
        now.timestamp().checked_sub(time).ok()
    };
    let days = |days: i64| {
        // The first of them is today.
        let back = number.checked_mul(days)?.checked_sub(1)?;
        let back = Span::new().try_days(back).ok()?;
        start_of(now.date().checked_sub(back).ok()?, now)
    };
    match unit {
        'm' => ago(60),
        'h' => ago(3600),
        'd' => days(1),
        'w' => days(7),
        _ => None,
    }
}

/// When a day begins where the user is.
fn start_of(day: Date, now: &Zoned) -> Option<Timestamp> {
    let start = day.to_zoned(now.time_zone().clone()).ok()?;
    Some(start.timestamp())
}

#[cfg(test)]
mod tests {
    use jiff::tz::{TimeZone, offset};

    use super::*;

    #[test]
    fn days_are_whole_ones_of_the_users() {
        // Just after midnight, two hours east of Greenwich.
        let now: Timestamp = "2026-03-01T22:30:00Z".parse().unwrap();
        let now = now.to_zoned(TimeZone::fixed(offset(2)));
        let cases = [
            ("1d", "2026-03-01T22:00:00Z"),
            ("2d", "2026-02-28T22:00:00Z"),
            ("1w", "2026-02-23T22:00:00Z"),
            ("30m", "2026-03-01T22:00:00Z"),
            ("12h", "2026-03-01T10:30:00Z"),
            ("2026-02-28", "2026-02-27T22:00:00Z"),
            ("2026-02-28T01:02:03Z", "2026-02-28T01:02:03Z"),
        ];
        for (text, expected) in cases {
            let moment = moment(text, &now).unwrap().unwrap();
            assert_eq!(moment.to_string(), expected, "{text}");
        }
        assert_eq!(moment("all", &now).unwrap(), None);
        let bad = [
            "",
            "d",
            "0d",
            "-1d",
            "+",
            "7",
            "7 d",
            "7y",
            "7ü",
            "soon",
            "2026-02-30",
            "99999999d",
            "9223372036854775807w",
            "99999999999999999999h",
        ];
        for text in bad {
            assert!(moment(text, &now).is_err(), "{text:?} was accepted");
        }
    }
}
