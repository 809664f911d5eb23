//! What is open in a word or two, and whether something plainly says that it is done.
//!
//! Few words are easily in something else as well. So nothing may be left out, and nothing may be said of a part only.

use super::super::cues::is_task;
use super::telling;

/// What says that something is so for a part alone, or not at all.
const PARTLY: [&str; 33] = [
    "some",
    "first",
    "second",
    "part",
    "partly",
    "partially",
    "half",
    "few",
    "most",
    "mostly",
    "only",
    "one",
    "two",
    "three",
    "except",
    "but",
    "not",
    "no",
    "never",
    "yet",
    "still",
    "until",
    "once",
    "if",
    "when",
    "unless",
    "almost",
    "nearly",
    "started",
    "begun",
    "draft",
    "isn't",
    "aren't",
];

/// What says that it is so for all.
const WHOLLY: [&str; 6] = ["all", "every", "everywhere", "each", "fully", "completely"];

/// What ends anything, whatever it was.
const ENDED: [&str; 9] = [
    "done",
    "finished",
    "complete",
    "completed",
    "ready",
    "landed",
    "merged",
    "erledigt",
    "fertig",
];

/// What says that something was made, and not what.
const MADE: [&str; 15] = [
    "added",
    "write",
    "wrote",
    "written",
    "create",
    "created",
    "implement",
    "implemented",
    "update",
    "updated",
    "make",
    "finished",
    "complete",
    "completed",
    "ready",
];

/// What may stand before what is to be done.
const OWED: [&str; 15] = [
    "i'll", "i", "will", "to", "need", "needs", "then", "next", "we", "still", "todo", "must",
    "should", "have", "and",
];

/// What names many things besides the work: `the build is done` may speak of any.
const VAGUE: [&str; 9] = [
    "build", "test", "check", "change", "run", "list", "plan", "look", "review",
];

/// The piece of work that something open begins with, in plain words.
pub(super) fn work(open: &str) -> Option<&str> {
    let mut words = words(open).skip_while(|word| OWED.contains(word));
    words.next().filter(|word| is_task(word))
}

/// Whether a saying says that something open of a word or two is done.
pub(super) fn says_all(open: &str, saying: &str) -> bool {
    let (asked, said) = (content(open), content(saying));
    let has = |word: &&str| said.iter().any(|said| stem(said) == stem(word));
    let is_whole = words(saying).any(|word| WHOLLY.contains(&word));
    let names = match asked.len() {
        1 => asked.iter().all(has) && (is_whole || said.len() == 1),
        2 => asked.iter().all(has),
        _ => false,
    };
    names && does(open, saying) && !is_partial(saying)
}

/// Whether a saying names some work by what it is, and nothing else: `the rename is done`.
pub(super) fn names_work(work: &str, saying: &str) -> bool {
    let is_ended = words(saying).any(|word| ENDED.contains(&word));
    let is_it = content(saying) == [work];
    is_it && is_ended && !VAGUE.contains(&work) && !is_partial(saying)
}

/// Whether what is said to be done is what was to be done, and not something else with the same thing.
fn does(open: &str, saying: &str) -> bool {
    let ended = words(saying).any(|word| ENDED.contains(&word));
    let same = |work: &str| words(saying).any(|word| stem(word).starts_with(stem(work)));
    ended || work(open).is_none_or(same)
}

fn is_partial(saying: &str) -> bool {
    words(saying).any(|word| PARTLY.contains(&word))
}

/// The words that say what it is about.
fn content(plain: &str) -> Vec<&str> {
    let mut words = telling(plain);
    words.retain(|word| !MADE.contains(word) && !WHOLLY.contains(word) && !OWED.contains(word));
    words
}

fn words(plain: &str) -> impl Iterator<Item = &str> {
    plain.split(' ').filter(|word| !word.is_empty())
}

/// The beginning of a word, without what its forms differ in.
fn stem(word: &str) -> &str {
    let end = word.floor_char_boundary(5);
    word.get(..end).unwrap_or(word).trim_end_matches(['e', 's'])
}

#[cfg(test)]
mod tests {
    use super::super::super::text_units::normalise_text;
    use super::*;

    #[test]
    fn what_is_open_in_few_words_is_done_when_all_of_it_is() {
        for (open, saying, done) in [
            ("Add types.", "Added types to all functions.", true),
            ("Types still missing.", "Added types to all functions", true),
            ("Types still missing.", "Added types.", true),
            ("Types still missing.", "The types are done.", true),
            ("rename `handler`", "Renamed handler to process.", true),
            ("Add types.", "Added types to the parser.", false),
            ("Add types.", "Added types to some of all functions.", false),
            ("Add types.", "Removed types from all functions.", false),
            ("Types still missing.", "The types are not done.", false),
            ("rename `handler`", "Moved handler to process.", false),
            ("rename `handler`", "Renamed parser.", false),
            ("Write docs.", "All tests pass.", false),
        ] {
            let found = says_all(&normalise_text(open), &normalise_text(saying));
            assert_eq!(found, done, "{open} {saying}");
        }
    }

    #[test]
    fn work_is_known_by_what_it_is() {
        for (open, saying, done) in [
            ("rename `handler`", "The rename is done.", true),
            ("I'll rename `handler` later", "The rename is done.", true),
            ("The rename is missing", "The rename is done.", false),
            ("rename `handler`", "The rename of parser is done.", false),
            ("rename `handler`", "The rename is half done.", false),
            ("Build the installer", "The build is done.", false),
        ] {
            let (open, saying) = (normalise_text(open), normalise_text(saying));
            let found = work(&open).is_some_and(|work| names_work(work, &saying));
            assert_eq!(found, done, "{open} {saying}");
        }
    }
}
