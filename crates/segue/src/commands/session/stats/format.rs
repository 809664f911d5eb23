//! Short formats of numbers, and bars.

use segue_core::spend::{Cost, CostEstimate};

/// Text for an unknown number.
pub(super) const UNKNOWN_NUMBER: &str = "?";

/// Formats a number with about three digits: `999`, `1.2k`, `12.3M`, `456G`.
pub(super) fn format_short_number(number: u64) -> String {
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
        let rounded = (number / unit).saturating_add(u64::from(number % unit >= unit / 2));
        if rounded < 1000 || name == "E" {
            return format!("{rounded}{name}");
        }
        unit = unit.saturating_mul(1000);
    }
    number.to_string()
}

/// Formats a number that may be unknown.
pub(super) fn format_optional_number(number: Option<u64>) -> String {
    number.map_or_else(|| UNKNOWN_NUMBER.to_owned(), format_short_number)
}

/// Formats a fraction as a percentage.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to 1"
)]
pub(super) fn format_percent(fraction: Option<f64>) -> String {
    match fraction {
        None => UNKNOWN_NUMBER.to_owned(),
        Some(fraction) if fraction > 0.0 && fraction < 0.01 => "<1%".to_owned(),
        Some(fraction) if fraction > 0.99 && fraction < 1.0 => ">99%".to_owned(),
        Some(fraction) => format!("{}%", (fraction * 100.0).round() as u64),
    }
}

/// Formats a cost in a column whose largest cost is `largest`, because amounts in one column need the same number of
/// digits.
pub(super) fn format_cost(estimate: CostEstimate, largest: CostEstimate) -> String {
    let known_cost = |estimate| match estimate {
        CostEstimate::Unknown => None,
        CostEstimate::Minimum(cost) | CostEstimate::Complete(cost) => Some(cost),
    };
    let in_cents = known_cost(largest).is_some_and(|cost| cost.micros() >= 100_000);
    let format_amount = |cost: Cost| match (in_cents, cost.micros()) {
        (false, _) | (_, 0 | 100_000..) => cost.to_string(),
        (true, 1..5_000) => "<$0.01".to_owned(),
        (true, micros) => format!("$0.{:02}", (micros + 5_000) / 10_000),
    };
    match estimate {
        CostEstimate::Unknown => UNKNOWN_NUMBER.to_owned(),
        CostEstimate::Minimum(cost) => format!("≥ {}", format_amount(cost)),
        CostEstimate::Complete(cost) => format_amount(cost),
    }
}

/// Draws a bar of at most `width` columns, in proportion to the largest value.
pub(in crate::commands::session) fn draw_bar(
    value: u64,
    largest: u64,
    width: usize,
    unicode: bool,
) -> String {
    const EIGHTH_BLOCKS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if value == 0 || largest == 0 {
        return String::new();
    }
    let steps = if unicode { 8 } else { 1 };
    let total_steps = u128::try_from(width * steps).unwrap_or_default();
    let largest = u128::from(largest);
    let length = (u128::from(value) * total_steps + largest / 2) / largest;
    // Any value above zero is visible.
    let length = usize::try_from(length).unwrap_or(width * steps).max(1);
    let (full_blocks, remaining_steps) = (length / steps, length % steps);
    let block = if unicode { "█" } else { "#" };
    let partial_block = EIGHTH_BLOCKS.get(remaining_steps).copied();
    block.repeat(full_blocks) + partial_block.unwrap_or_default()
}

/// Returns `true` if the locale supports Unicode, so that blocks and arrows can be printed.
pub(in crate::commands::session) fn has_unicode_locale(
    read_variable: impl Fn(&str) -> Option<String>,
) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let values = names.into_iter().filter_map(read_variable);
    let locale = values.into_iter().find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Replaces symbols with ASCII if the locale does not support Unicode.
pub(super) fn replace_unsupported_symbols(text: &str, unicode: bool) -> String {
    if unicode {
        text.to_owned()
    } else {
        let text = text.replace("≥ ", ">=").replace('≥', ">=");
        text.replace('…', "*")
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
            assert_eq!(format_short_number(number), text, "{number}");
        }
    }

    #[test]
    fn bars_are_proportional_to_their_value() {
        let cases = [
            ((0, 10), "", ""),
            ((10, 10), "████", "####"),
            ((5, 10), "██", "##"),
            ((6, 10), "██▍", "##"),
            ((1, 1_000_000), "▏", "#"),
            ((u64::MAX, u64::MAX), "████", "####"),
            ((3, 0), "", ""),
        ];
        for ((value, largest), blocks, letters) in cases {
            assert_eq!(
                draw_bar(value, largest, 4, true),
                blocks,
                "{value}/{largest}"
            );
            assert_eq!(
                draw_bar(value, largest, 4, false),
                letters,
                "{value}/{largest}"
            );
        }
    }

    #[test]
    fn amounts_in_a_column_have_the_same_number_of_decimals() {
        let cases = [
            (0, 5_000_000, "$0.00"),
            (4_999, 5_000_000, "<$0.01"),
            (5_000, 5_000_000, "$0.01"),
            (25_000, 5_000_000, "$0.03"),
            (99_999, 5_000_000, "$0.10"),
            (1_234_567, 5_000_000, "$1.23"),
            (25_000, 25_000, "$0.0250"),
        ];
        let complete = |micros| CostEstimate::Complete(Cost::from_micros(micros));
        for (micros, largest, text) in cases {
            assert_eq!(format_cost(complete(micros), complete(largest)), text);
        }
        let minimum = CostEstimate::Minimum(Cost::from_micros(1));
        assert_eq!(format_cost(minimum, complete(5_000_000)), "≥ <$0.01");
        assert_eq!(format_cost(CostEstimate::Unknown, minimum), "?");
    }

    #[test]
    fn fractions_are_formatted_as_integer_percentages() {
        let cases = [
            (None, "?"),
            (Some(0.0), "0%"),
            (Some(0.004), "<1%"),
            (Some(0.125), "13%"),
            (Some(0.999), ">99%"),
            (Some(1.0), "100%"),
        ];
        for (fraction, text) in cases {
            assert_eq!(format_percent(fraction), text);
        }
    }

    #[test]
    fn the_first_nonempty_locale_variable_decides_unicode_support() {
        let cases: [(&[(&str, &str)], bool); 6] = [
            (&[], false),
            (&[("LANG", "C.UTF-8")], true),
            (&[("LANG", "de_DE.utf8")], true),
            (&[("LC_ALL", "C"), ("LANG", "C.UTF-8")], false),
            (&[("LC_ALL", ""), ("LC_CTYPE", "en_US.UTF-8")], true),
            (&[("LANG", "en_US.ISO-8859-1")], false),
        ];
        for (variables, expected) in cases {
            let read_variable = |name: &str| {
                let variable = variables
                    .iter()
                    .find(|(variable_name, _)| *variable_name == name);
                variable.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(has_unicode_locale(read_variable), expected, "{variables:?}");
        }
    }
}
