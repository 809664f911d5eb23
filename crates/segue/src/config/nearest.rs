//! Suggestions for mistyped names.

/// Returns the name in `known` that is most similar to `typed`. `None` if no name is similar enough.
pub(crate) fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let typed = plain(typed);
    let distances = known
        .iter()
        .map(|&known| (distance(&typed, &plain(known)), known));
    let mut begun = known
        .iter()
        .filter(|known| plain(known).starts_with(&typed));
    if let (3.., Some(only), None) = (typed.len(), begun.next(), begun.next()) {
        return Some(only);
    }
    let (distance, nearest) = distances.min_by_key(|&(distance, _)| distance)?;
    let tolerated = (typed.chars().count() / 3).max(1);
    (distance <= tolerated).then_some(nearest)
}

/// Returns the number of letters that must be added, removed, changed or swapped with their neighbour to turn `from`
/// into `to`.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, a) in from.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, b) in to.iter().enumerate() {
            let changed = last.get(column).copied().unwrap_or(row) + usize::from(a != b);
            let removed = last.get(column + 1).copied().unwrap_or(row) + 1;
            let added = next.get(column).copied().unwrap_or(row) + 1;
            let swapped = row > 0
                && column > 0
                && from.get(row - 1) == Some(b)
                && to.get(column - 1) == Some(a);
            let swapped = match before.get(column.wrapping_sub(1)) {
                Some(cost) if swapped => cost + 1,
                Some(_) | None => usize::MAX,
            };
            next.push(changed.min(removed).min(added).min(swapped));
        }
        before = std::mem::replace(&mut last, next);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        let known = [
            "path",
            "acp_path",
            "transports",
            "timeouts",
            "continue_last",
        ];
        let cases = [
            ("pathh", Some("path")),
            ("apth", Some("path")),
            ("Path", Some("path")),
            ("transport", Some("transports")),
            ("time_outs", Some("timeouts")),
            ("cont", Some("continue_last")),
            ("continue-last", Some("continue_last")),
            ("colour", None),
            ("x", None),
            ("", None),
        ];
        for (typed, expected) in cases {
            assert_eq!(nearest(typed, &known), expected, "{typed}");
        }
    }

    #[test]
    fn distances_are_the_least_number_of_slips() {
        let cases = [
            ("", "", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
        ];
        for (from, to, expected) in cases {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }
}
