//! Suggestions for mistyped names.

/// Returns the name in `candidates` that is most similar to `typed`. `None` if no name is similar enough.
#[must_use]
pub fn suggest_name<'a>(typed: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let normalize = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let typed = normalize(typed);
    let distances = candidates
        .iter()
        .map(|&candidate| (edit_distance(&typed, &normalize(candidate)), candidate));
    let mut prefix_matches = candidates
        .iter()
        .filter(|candidate| normalize(candidate).starts_with(&typed));
    if let (3.., Some(only), None) = (typed.len(), prefix_matches.next(), prefix_matches.next()) {
        return Some(only);
    }
    let (distance, closest) = distances.min_by_key(|&(distance, _)| distance)?;
    let max_distance = (typed.chars().count() / 3).max(1);
    (distance <= max_distance).then_some(closest)
}

/// Returns the number of letters that must be added, removed, changed or swapped with their neighbour to turn `from`
/// into `to`.
fn edit_distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut row_before_last: Vec<usize> = Vec::new();
    let mut last_row: Vec<usize> = (0..=to.len()).collect();
    for (row, a) in from.iter().enumerate() {
        let mut next_row = vec![row + 1];
        for (column, b) in to.iter().enumerate() {
            let changed = last_row.get(column).copied().unwrap_or(row) + usize::from(a != b);
            let removed = last_row.get(column + 1).copied().unwrap_or(row) + 1;
            let added = next_row.get(column).copied().unwrap_or(row) + 1;
            let is_swap = row > 0
                && column > 0
                && from.get(row - 1) == Some(b)
                && to.get(column - 1) == Some(a);
            let swapped = match row_before_last.get(column.wrapping_sub(1)) {
                Some(cost) if is_swap => cost + 1,
                Some(_) | None => usize::MAX,
            };
            next_row.push(changed.min(removed).min(added).min(swapped));
        }
        row_before_last = std::mem::replace(&mut last_row, next_row);
    }
    last_row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        let candidates = [
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
            assert_eq!(suggest_name(typed, &candidates), expected, "{typed}");
        }
    }

    #[test]
    fn the_distance_is_the_minimum_number_of_typos() {
        let cases = [
            ("", "", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
        ];
        for (from, to, expected) in cases {
            assert_eq!(edit_distance(from, to), expected, "{from} {to}");
        }
    }
}
