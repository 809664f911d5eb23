//! Folding of letters as in the full-text index: without diacritics, and in lower case.

use super::turn_text::is_unspaced;

/// Lower-case Latin letters with diacritics, by their base letters.
const LETTERS_WITH_DIACRITICS: [(char, &str); 25] = [
    ('a', "àáâãäåāăąǎǟǡǻȁȃȧḁạảấầẩẫậắằẳẵặ"),
    ('b', "ḃḅḇ"),
    ('c', "çćĉċčḉ"),
    ('d', "ďḋḍḏḑḓ"),
    ('e', "èéêëēĕėęěȅȇȩḕḗḙḛḝẹẻẽếềểễệ"),
    ('f', "ḟ"),
    ('g', "ĝğġģǧǵḡ"),
    ('h', "ĥȟḣḥḧḩḫẖ"),
    ('i', "ìíîïĩīĭįǐȉȋḭḯỉị"),
    ('j', "ĵǰ"),
    ('k', "ķǩḱḳḵ"),
    ('l', "ĺļľḷḹḻḽ"),
    ('m', "ḿṁṃ"),
    ('n', "ñńņňǹṅṇṉṋ"),
    ('o', "òóôõöōŏőơǒǫǭȍȏȫȭȯȱṍṏṑṓọỏốồổỗộớờởỡợ"),
    ('p', "ṕṗ"),
    ('r', "ŕŗřȑȓṙṛṝṟ"),
    ('s', "śŝşšșṡṣṥṧṩ"),
    ('t', "ţťțṫṭṯṱẗ"),
    ('u', "ùúûüũūŭůűųưǔǖǘǚǜȕȗṳṵṷṹṻụủứừửữự"),
    ('v', "ṽṿ"),
    ('w', "ŵẁẃẅẇẉẘ"),
    ('x', "ẋẍ"),
    ('y', "ýÿŷȳẏẙỳỵỷỹ"),
    ('z', "źżžẑẓẕ"),
];

/// Returns the letters of a word, in lower case and without diacritics.
pub(super) fn fold_letters(word: &str) -> impl Iterator<Item = char> {
    let lowercase = word.chars().flat_map(char::to_lowercase);
    lowercase.filter(|&c| !is_diacritic(c)).map(base_letter)
}

fn base_letter(c: char) -> char {
    if c.is_ascii() {
        return c;
    }
    let entry = LETTERS_WITH_DIACRITICS
        .iter()
        .find(|(_, letters)| letters.contains(c));
    entry.map_or(c, |(letter, _)| *letter)
}

/// Returns `true` if a character is a diacritic of the letter before it.
fn is_diacritic(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Returns the words of a text with their offsets: runs of letters and digits, and single characters of a script that
/// has no spaces between words.
pub(super) fn split_words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let remaining = text.get(from..)?;
        let start = remaining.find(char::is_alphanumeric)?;
        let run = remaining.get(start..)?;
        let mut characters = run.char_indices();
        let (_, first) = characters.next()?;
        let continues_word = |c: char| (c.is_alphanumeric() || is_diacritic(c)) && !is_unspaced(c);
        let end = characters
            .find(|&(_, c)| is_unspaced(first) || !continues_word(c))
            .map_or(run.len(), |(at, _)| at);
        let at = from + start;
        from = at + end;
        Some((at, run.get(..end)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_compared_without_diacritics() {
        for (word, expected) in [
            ("Café", "cafe"),
            ("cafe\u{301}", "cafe"),
            ("NAÏVE", "naive"),
            ("Nguyễn", "nguyen"),
            ("İstanbul", "istanbul"),
            ("Größe", "große"),
            ("解析", "解析"),
        ] {
            assert_eq!(fold_letters(word).collect::<String>(), expected, "{word}");
        }
    }

    #[test]
    fn words_are_split_as_in_the_index() {
        for (text, expected) in [
            ("fix_login(now)", vec!["fix", "login", "now"]),
            ("cafe\u{301}s ok", vec!["cafe\u{301}s", "ok"]),
            ("the解析器v2", vec!["the", "解", "析", "器", "v2"]),
            ("", vec![]),
        ] {
            let words: Vec<&str> = split_words(text).map(|(_, run)| run).collect();
            assert_eq!(words, expected, "{text}");
        }
    }
}
