//! Points in time as the user types them.

use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, Span, Timestamp, Zoned};

/// Error of a text that is not a point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid time")]
pub struct TimeInputError(pub String);

impl TimeInputError {
    /// Accepted forms, for a hint to the user.
    pub const ACCEPTED_FORMS: &str = "use a time such as 2025-12-07T14:30:22Z, a date such as 2025-12-07, `today`, \
                             `yesterday`, or an age such as 30m, 12h, 7d, 2w, 6mo or 1y";
}

/// Parses a point in time.
///
/// A day means its beginning. A day, and a time without a zone, are in the time zone of `now`. `3d` means 72 hours ago;
/// months and years follow the calendar.
pub fn parse_time_input(text: &str, now: &Zoned) -> Result<Timestamp, TimeInputError> {
    let at = match text {
        "now" => Some(now.timestamp()),
        "today" => midnight(now.date(), now),
        "yesterday" => now
            .date()
            .yesterday()
            .ok()
            .and_then(|day| midnight(day, now)),
        _ => parse_absolute(text, now).or_else(|| parse_relative(text, now)),
    };
    at.ok_or_else(|| TimeInputError(text.to_owned()))
}

fn midnight(day: Date, now: &Zoned) -> Option<Timestamp> {
    let start = day.to_zoned(now.time_zone().clone()).ok()?;
    Some(start.timestamp())
}

/// Parses a time or a day that is written out.
fn parse_absolute(text: &str, now: &Zoned) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    // Week dates and days without dashes are rejected, although jiff accepts them, because they may be part of an id.
    if !text.contains('-') {
        return None;
    }
    if text.len() == "2025-12-07".len() {
        return midnight(text.parse().ok()?, now);
    }
    let local: DateTime = text.parse().ok()?;
    let zoned = local.to_zoned(now.time_zone().clone()).ok()?;
    Some(zoned.timestamp())
}

/// Parses a duration before `now`: a number and a unit.
fn parse_relative(text: &str, now: &Zoned) -> Option<Timestamp> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: i64 = number.parse().ok().filter(|&number| number > 0)?;
    let subtract_seconds = |seconds: i64| {
        let span = SignedDuration::from_secs(number.checked_mul(seconds)?);
        now.timestamp().checked_sub(span).ok()
    };
    let subtract_span = |span: Result<Span, jiff::Error>| {
        let earlier = now.checked_sub(span.ok()?).ok()?;
        Some(earlier.timestamp())
    };
    match unit {
        "m" => subtract_seconds(60),
        "h" => subtract_seconds(3600),
        "d" => subtract_seconds(86_400),
        "w" => subtract_seconds(604_800),
        "mo" => subtract_span(Span::new().try_months(number)),
        "y" => subtract_span(Span::new().try_years(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::{Offset, TimeZone};

    use super::*;

    fn check(zone: TimeZone, now: &str, cases: &[(&str, &str)]) {
        let now: Timestamp = now.parse().unwrap();
        let now = now.to_zoned(zone);
        for (text, expected) in cases {
            let at = parse_time_input(text, &now).unwrap();
            assert_eq!(at.to_string(), *expected, "{text:?}");
        }
    }

    #[test]
    fn times_are_parsed_in_every_form() {
        check(
            TimeZone::UTC,
            "2025-12-08T10:00:00Z",
            &[
                ("2025-12-07T14:30:22Z", "2025-12-07T14:30:22Z"),
                ("2025-12-07T14:30:22+02:00", "2025-12-07T12:30:22Z"),
                ("2025-12-07T14:30", "2025-12-07T14:30:00Z"),
                ("2025-12-07", "2025-12-07T00:00:00Z"),
                ("now", "2025-12-08T10:00:00Z"),
                ("today", "2025-12-08T00:00:00Z"),
                ("yesterday", "2025-12-07T00:00:00Z"),
                ("30m", "2025-12-08T09:30:00Z"),
                ("12h", "2025-12-07T22:00:00Z"),
                ("7d", "2025-12-01T10:00:00Z"),
                ("2w", "2025-11-24T10:00:00Z"),
                ("1mo", "2025-11-08T10:00:00Z"),
                ("1y", "2024-12-08T10:00:00Z"),
            ],
        );
    }

    #[test]
    fn a_day_begins_in_the_time_zone_of_the_user() {
        let east = TimeZone::fixed(Offset::constant(9));
        check(
            east,
            "2025-12-07T20:00:00Z",
            &[
                ("today", "2025-12-07T15:00:00Z"),
                ("yesterday", "2025-12-06T15:00:00Z"),
                ("2025-12-07", "2025-12-06T15:00:00Z"),
                ("2025-12-07T14:30", "2025-12-07T05:30:00Z"),
                ("2025-12-07T14:30:22Z", "2025-12-07T14:30:22Z"),
            ],
        );
        // The day before this day had 23 hours.
        let new_york = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap();
        check(
            new_york,
            "2026-03-09T12:00:00Z",
            &[
                ("yesterday", "2026-03-08T05:00:00Z"),
                ("today", "2026-03-09T04:00:00Z"),
                ("1d", "2026-03-08T12:00:00Z"),
                ("1mo", "2026-02-09T13:00:00Z"),
            ],
        );
    }

    #[test]
    fn an_invalid_time_is_rejected() {
        let now = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
        for text in [
            "",
            "d",
            "-1d",
            "+1d",
            "soon",
            "Today",
            "7 d",
            "0h",
            "99999999999999999999d",
            "9999999999999d",
            "9999999y",
            "7ü",
            "ü",
            "20251207",
            "2025-13-01",
            "2025-02-30",
            "2025-W49-7",
        ] {
            let result = parse_time_input(text, &now);
            assert_eq!(result, Err(TimeInputError(text.to_owned())), "{text:?}");
        }
    }
}
