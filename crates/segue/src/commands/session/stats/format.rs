//! Short formats of numbers, and bars.

use segue_core::spend::Cost;
use segue_core::spend::Paid;

/// Text for an unknown number.
pub(super) const UNKNOWN: &str = "?";

/// Formats a number with about three digits: `999`, `1.2k`, `12.3M`, `456G`.
pub(super) fn short(number: u64) -> String {
    if number < 1000 {
        return number.to_string();
    }
    let mut unit = 1000_u64;
    for name in ["k", "M", "G", "T", "P", "E"] {
        // In rounded tenths; a number that rounds up to a thousand uses the next unit.
        let tenths =
            (number / (unit / 10)).saturating_add(u64::from(number % (unit / 10) >= unit / 20));
        if tenths < 1000 {
            return format!("{}.{}{name}", tenths / 10, tenths % 10);
        }
        let whole = (number / unit).saturating_add(u64::from(number % unit >= unit / 2));
        if whole < 1000 || name == "E" {
            return format!("{whole}{name}");
        }
        unit = unit.saturating_mul(1000);
    }
    number.to_string()
}

/// Formats a number that may be unknown.
pub(super) fn figure(number: Option<u64>) -> String {
    number.map_or_else(|| UNKNOWN.to_owned(), short)
}

/// Formats a fraction as a percentage.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to 1"
)]
pub(super) fn percent(share: Option<f64>) -> String {
    match share {
        None => UNKNOWN.to_owned(),
        Some(share) if share > 0.0 && share < 0.01 => "<1%".to_owned(),
        Some(share) if share > 0.99 && share < 1.0 => ">99%".to_owned(),
        Some(share) => format!("{}%", (share * 100.0).round() as u64),
    }
}

/// Formats a cost in a column whose largest cost is `largest`, because amounts in one column need the same number of
/// digits.
pub(super) fn cost(paid: Paid, largest: Paid) -> String {
    let known = |paid| match paid {
        Paid::Unknown => None,
        Paid::AtLeast(cost) | Paid::All(cost) => Some(cost),
    };
    let in_cents = known(largest).is_some_and(|cost| cost.micros() >= 100_000);
    let amount = |cost: Cost| match (in_cents, cost.micros()) {
        (false, _) | (_, 0 | 100_000..) => cost.to_string(),
        (true, 1..5_000) => "<$0.01".to_owned(),
        (true, micros) => format!("$0.{:02}", (micros + 5_000) / 10_000),
    };
    match paid {
        Paid::Unknown => UNKNOWN.to_owned(),
        Paid::AtLeast(cost) => format!("≥ {}", amount(cost)),
        Paid::All(cost) => amount(cost),
    }
}

/// Draws a bar of at most `width` columns, in proportion to the largest value.
pub(in crate::commands::session) fn bar(
    part: u64,
    largest: u64,
    width: usize,
    unicode: bool,
) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if part == 0 || largest == 0 {
        return String::new();
    }
    let steps = if unicode { 8 } else { 1 };
    let wide = u128::try_from(width * steps).unwrap_or_default();
    let largest = u128::from(largest);
    let length = (u128::from(part) * wide + largest / 2) / largest;
    // Any value above zero is visible.
    let length = usize::try_from(length).unwrap_or(width * steps).max(1);
    let (full, rest) = (length / steps, length % steps);
    let block = if unicode { "█" } else { "#" };
    block.repeat(full) + EIGHTHS.get(rest).copied().unwrap_or_default()
}

/// Returns `true` if the locale supports Unicode, so that blocks and arrows can be printed.
pub(in crate::commands::session) fn writes_unicode(
    variable: impl Fn(&str) -> Option<String>,
) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let set = names.into_iter().filter_map(variable);
    let locale = set.into_iter().find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Replaces symbols with ASCII if the locale does not support Unicode.
pub(super) fn plain(text: &str, unicode: bool) -> String {
    if unicode {
        text.to_owned()
    } else {
        text.replace("≥ ", ">=")
            .replace('≥', ">=")
            .replace('…', "*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1.0k"),
            (1049, "1.0k"),
            (1050, "1.1k"),
            (12_345, "12.3k"),
            (99_949, "99.9k"),
            (99_950, "100k"),
            (123_456, "123k"),
            (999_499, "999k"),
            (999_500, "1.0M"),
            (1_234_567, "1.2M"),
            (999_999_999, "1.0G"),
            (12_300_000_000, "12.3G"),
            (u64::MAX, "18.4E"),
        ];
        for (number, text) in cases {
            assert_eq!(short(number), text, "{number}");
        }
    }

    #[test]
    fn bars_are_as_long_as_their_part() {
        let cases = [
            ((0, 10), "", ""),
            ((10, 10), "████", "####"),
            ((5, 10), "██", "##"),
            ((6, 10), "██▍", "##"),
            ((1, 1_000_000), "▏", "#"),
            ((u64::MAX, u64::MAX), "████", "####"),
            ((3, 0), "", ""),
        ];
        for ((part, largest), blocks, letters) in cases {
            assert_eq!(bar(part, largest, 4, true), blocks, "{part}/{largest}");
            assert_eq!(bar(part, largest, 4, false), letters, "{part}/{largest}");
        }
    }

    #[test]
    fn amounts_below_each_other_have_the_same_digits() {
        let cases = [
            (0, 5_000_000, "$0.00"),
            (4_999, 5_000_000, "<$0.01"),
            (5_000, 5_000_000, "$0.01"),
            (25_000, 5_000_000, "$0.03"),
            (99_999, 5_000_000, "$0.10"),
            (1_234_567, 5_000_000, "$1.23"),
            (25_000, 25_000, "$0.0250"),
        ];
        let all = |micros| Paid::All(Cost::from_micros(micros));
        for (micros, largest, text) in cases {
            assert_eq!(cost(all(micros), all(largest)), text);
        }
        let some = Paid::AtLeast(Cost::from_micros(1));
        assert_eq!(cost(some, all(5_000_000)), "≥ <$0.01");
        assert_eq!(cost(Paid::Unknown, some), "?");
    }

    #[test]
    fn shares_are_whole_percents() {
        let cases = [
            (None, "?"),
            (Some(0.0), "0%"),
            (Some(0.004), "<1%"),
            (Some(0.125), "13%"),
            (Some(0.999), ">99%"),
            (Some(1.0), "100%"),
        ];
        for (share, text) in cases {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn the_first_variable_that_is_set_says_what_can_be_written() {
        let cases: [(&[(&str, &str)], bool); 6] = [
            (&[], false),
            (&[("LANG", "C.UTF-8")], true),
            (&[("LANG", "de_DE.utf8")], true),
            (&[("LC_ALL", "C"), ("LANG", "C.UTF-8")], false),
            (&[("LC_ALL", ""), ("LC_CTYPE", "en_US.UTF-8")], true),
            (&[("LANG", "en_US.ISO-8859-1")], false),
        ];
        for (set, expected) in cases {
            let value = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(writes_unicode(value), expected, "{set:?}");
        }
    }
}
