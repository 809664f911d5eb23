//! A page of turns with a size limit, and notes about the turns that did not fit.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::{ControlFlow, RangeInclusive};

use segue_core::number_format::format_plural;

/// Number and text of a turn.
type TurnText = (u32, String);

/// Consecutive turns, each as text.
pub(super) struct HistoryPage {
    limit: usize,
    turns: VecDeque<TurnText>,
    /// Size of all turns in characters.
    size: usize,
    /// Number of characters that are skipped at the start of the first turn.
    skipped: usize,
}

impl HistoryPage {
    /// Creates an empty page for `limit` characters. [`Self::append`] skips the first `skip` characters of the first
    /// turn.
    pub(super) fn new(limit: usize, skip: usize) -> Self {
        Self {
            limit,
            turns: VecDeque::new(),
            size: 0,
            skipped: skip,
        }
    }

    /// Appends a turn. Returns `Break` if the page is full. A turn that does not fit is dropped, unless it is the
    /// first.
    pub(super) fn append(&mut self, n: u32, text: String) -> ControlFlow<()> {
        let text = match self.skipped {
            skip if skip > 0 && self.turns.is_empty() => text.chars().skip(skip).collect(),
            _ => text,
        };
        self.push_turn(n, text, VecDeque::push_back)
    }

    /// Inserts a turn before the others. Returns `Break` if the page is full. A turn that does not fit is dropped,
    /// unless it is the first.
    pub(super) fn prepend(&mut self, n: u32, text: String) -> ControlFlow<()> {
        self.push_turn(n, text, VecDeque::push_front)
    }

    fn push_turn(
        &mut self,
        n: u32,
        text: String,
        push: fn(&mut VecDeque<TurnText>, TurnText),
    ) -> ControlFlow<()> {
        let size = text.chars().count();
        if !self.turns.is_empty() && self.size + size > self.limit {
            return ControlFlow::Break(());
        }
        self.size += size;
        push(&mut self.turns, (n, text));
        if self.size > self.limit {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Appends a turn, and removes turns from the start until the page fits.
    pub(super) fn append_and_trim(&mut self, n: u32, text: String) {
        self.size += text.chars().count();
        self.turns.push_back((n, text));
        while self.size > self.limit && self.turns.len() > 1 {
            let removed = self.turns.pop_front();
            self.size -= removed.map_or(0, |(_, text)| text.chars().count());
        }
    }

    /// Returns the page as text, with notes on how to request the turns of `requested` that are missing. Each note
    /// repeats the arguments in `repeated_arguments`.
    pub(super) fn into_text(
        self,
        requested: &RangeInclusive<u32>,
        repeated_arguments: &str,
    ) -> String {
        let (Some(&(first, _)), Some(&(last, _))) = (self.turns.front(), self.turns.back()) else {
            return String::new();
        };
        let mut notes = String::new();
        let mut add_omission_note = |from: u32, to: u32| {
            if from <= to {
                let (subject, verb) = if from == to {
                    (format!("Turn {from}"), "is")
                } else {
                    (format!("Turns {from} to {to}"), "are")
                };
                let _ = writeln!(
                    notes,
                    "{subject} {verb} omitted: call again with from: {from}, to: {to}{repeated_arguments}."
                );
            }
        };
        add_omission_note(*requested.start(), first.saturating_sub(1));
        add_omission_note(last + 1, *requested.end());
        let mut page: String = self.turns.iter().map(|(_, text)| text.as_str()).collect();
        if self.size > self.limit {
            page = page.chars().take(self.limit).collect();
            let next_skip = self.skipped + self.limit;
            let remaining = format_plural(self.size - self.limit, "more character");
            let _ = writeln!(
                notes,
                "Turn {first} continues for {remaining}: call again with from: {first}, to: {first}, \
                 skip: {next_skip}{repeated_arguments}."
            );
        }
        if page.is_empty() {
            let _ = writeln!(
                notes,
                "Turn {first} has no more than {}.",
                format_plural(self.skipped, "character")
            );
        }
        if notes.is_empty() {
            return page;
        }
        format!("{}\n\n{notes}", page.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn_text(n: u32, length: usize) -> String {
        n.to_string().repeat(length)
    }

    /// Fills a page with turns of these lengths, from the first turn on.
    fn fill_forward(skip: usize, lengths: &[usize]) -> String {
        let mut page = HistoryPage::new(10, skip);
        let mut n = 0;
        for length in lengths {
            n += 1;
            if page.append(n, turn_text(n, *length)).is_break() {
                break;
            }
        }
        page.into_text(&(1..=u32::try_from(lengths.len()).unwrap()), "")
    }

    #[test]
    fn a_page_contains_the_first_turns_that_fit_and_names_the_omitted_ones() {
        let cases = [
            ((0, &[2, 2][..]), "1122"),
            ((0, &[5, 5]), "1111122222"),
            (
                (0, &[8, 8]),
                "11111111\n\nTurn 2 is omitted: call again with from: 2, to: 2.\n",
            ),
            (
                (0, &[8, 8, 1]),
                "11111111\n\nTurns 2 to 3 are omitted: call again with from: 2, to: 3.\n",
            ),
            (
                (0, &[12]),
                "1111111111\n\nTurn 1 continues for 2 more characters: call again with from: 1, to: 1, skip: 10.\n",
            ),
            ((10, &[12]), "11"),
            (
                (10, &[32, 1]),
                "1111111111\n\nTurn 2 is omitted: call again with from: 2, to: 2.\n\
                 Turn 1 continues for 12 more characters: call again with from: 1, to: 1, skip: 20.\n",
            ),
            ((20, &[12]), "\n\nTurn 1 has no more than 20 characters.\n"),
        ];
        for ((skip, lengths), expected) in cases {
            assert_eq!(fill_forward(skip, lengths), expected, "{skip} {lengths:?}");
        }
    }

    /// Fills a page with the newest turns twice: with `append_and_trim` from the first turn on, and with `prepend` from
    /// the last.
    fn fill_backward(lengths: &[usize]) -> [String; 2] {
        let turns = || {
            (1..)
                .zip(lengths)
                .map(|(n, length)| (n, turn_text(n, *length)))
        };
        let requested = 1..=u32::try_from(lengths.len()).unwrap();
        let mut trimmed = HistoryPage::new(10, 0);
        turns().for_each(|(n, text)| trimmed.append_and_trim(n, text));
        let mut page = HistoryPage::new(10, 0);
        for (n, text) in turns().collect::<Vec<_>>().into_iter().rev() {
            if page.prepend(n, text).is_break() {
                break;
            }
        }
        [
            trimmed.into_text(&requested, ", x"),
            page.into_text(&requested, ", x"),
        ]
    }

    #[test]
    fn a_page_contains_the_newest_turns_that_fit_in_either_order_of_insertion() {
        let cases = [
            (&[2, 2][..], "1122"),
            (
                &[8, 4, 4],
                "22223333\n\nTurn 1 is omitted: call again with from: 1, to: 1, x.\n",
            ),
            (
                &[1, 12],
                "2222222222\n\nTurn 1 is omitted: call again with from: 1, to: 1, x.\n\
                 Turn 2 continues for 2 more characters: call again with from: 2, to: 2, skip: 10, x.\n",
            ),
            (
                &[12, 4],
                "2222\n\nTurn 1 is omitted: call again with from: 1, to: 1, x.\n",
            ),
        ];
        for (lengths, expected) in cases {
            assert_eq!(fill_backward(lengths), [expected, expected], "{lengths:?}");
        }
    }
}
