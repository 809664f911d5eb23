//! Start of the reported period: the formats of every `--since`, but days, weeks, months and years are complete
//! calendar days of the user.

use jiff::{Span, Timestamp, Zoned};
use segue_core::time_input::{TimeInputError, parse_time_input};

use crate::error::CliError;

/// Parses the start of the period. `None` for all times.
pub(super) fn parse_period_start(text: &str, now: &Zoned) -> Result<Option<Timestamp>, CliError> {
    if text == "all" {
        return Ok(None);
    }
    if let Some(start) = parse_calendar_period(text, now) {
        return Ok(Some(start));
    }
    let to_cli_error = |error: TimeInputError| {
        CliError::usage(error.to_string())
            .with_hint(format!("{}; or `all`", TimeInputError::ACCEPTED_FORMS))
    };
    parse_time_input(text, now).map(Some).map_err(to_cli_error)
}

/// Returns the start of the first of a number of days, weeks, months or years that end today.
fn parse_calendar_period(text: &str, now: &Zoned) -> Option<Timestamp> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: i64 = number.parse().ok().filter(|&number| number > 0)?;
    let span = match unit {
        "d" => Span::new().try_days(number),
        "w" => Span::new().try_weeks(number),
        "mo" => Span::new().try_months(number),
        "y" => Span::new().try_years(number),
        _ => return None,
    };
    let day_before = now.date().checked_sub(span.ok()?).ok()?;
    let first_day = day_before.tomorrow().ok()?;
    let start = first_day.to_zoned(now.time_zone().clone()).ok()?;
    Some(start.timestamp())
}

#[cfg(test)]
mod tests {
    use jiff::tz::{TimeZone, offset};

    use super::*;

    #[test]
    fn days_are_complete_calendar_days_in_the_time_zone_of_the_user() {
        // 00:30 local time, two hours east of UTC.
        let now: Timestamp = "2026-03-01T22:30:00Z".parse().unwrap();
        let now = now.to_zoned(TimeZone::fixed(offset(2)));
        let cases = [
            ("1d", "2026-03-01T22:00:00Z"),
            ("2d", "2026-02-28T22:00:00Z"),
            ("1w", "2026-02-23T22:00:00Z"),
            ("1mo", "2026-02-02T22:00:00Z"),
            ("1y", "2025-03-02T22:00:00Z"),
            ("today", "2026-03-01T22:00:00Z"),
            ("yesterday", "2026-02-28T22:00:00Z"),
            ("30m", "2026-03-01T22:00:00Z"),
            ("12h", "2026-03-01T10:30:00Z"),
            ("2026-02-28", "2026-02-27T22:00:00Z"),
            ("2026-02-28T01:02:03Z", "2026-02-28T01:02:03Z"),
            ("2026-02-28T01:02", "2026-02-27T23:02:00Z"),
        ];
        for (text, expected) in cases {
            let start = parse_period_start(text, &now).unwrap().unwrap();
            assert_eq!(start.to_string(), expected, "{text}");
        }
        assert_eq!(parse_period_start("all", &now).unwrap(), None);
        let invalid = [
            "",
            "d",
            "0d",
            "-1d",
            "+",
            "7",
            "7 d",
            "7ü",
            "soon",
            "2026-02-30",
            "99999999d",
            "99999999mo",
            "9223372036854775807w",
            "99999999999999999999h",
        ];
        for text in invalid {
            assert!(
                parse_period_start(text, &now).is_err(),
                "{text:?} was accepted"
            );
        }
    }
}
