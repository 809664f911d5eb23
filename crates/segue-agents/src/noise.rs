//! JSON among noise: what programs print before, after and between the values they are asked for.

use serde_json::Value;
use serde_json::error::Category;

use crate::wire::Line;

/// How much of a line that is not JSON is told.
const EXCERPT: usize = 200;

/// How many values may be cut off in one text; each makes us read the rest of the text again.
const CUT_OFF: usize = 100;

/// What is in one line of a program that talks in lines: usually one object, now and then noise before it or
/// several objects.
pub(crate) fn lines(line: &[u8]) -> Vec<Line> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Vec::new();
    }
    // As it is first: what looks like noise may be a part of what was said.
    if let Ok(value @ Value::Object(_)) = serde_json::from_slice(line) {
        return vec![Line::Json(value)];
    }
    let text = clean(line);
    let found = objects(&text);
    if found.is_empty() {
        let words = excerpt(&text);
        return if words.is_empty() {
            Vec::new()
        } else {
            vec![Line::Noise(words)]
        };
    }
    found.into_iter().map(Line::Json).collect()
}

/// The beginning of a text, for a person.
pub(crate) fn excerpt(text: &str) -> String {
    text.trim().chars().take(EXCERPT).collect()
}

/// The JSON objects in a text, in order, whatever is around them. One that is cut off is none, and what is inside
/// of it is none either: a part must not be taken for the whole.
pub(crate) fn objects(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut cut_off = 0;
    while let Some(start) = rest.find('{') {
        rest = &rest[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let skip = match values.next() {
            Some(Ok(value)) => {
                found.push(value);
                values.byte_offset()
            }
            Some(Err(error)) if error.classify() == Category::Eof => {
                cut_off += 1;
                // Only what begins a line may be another value: parts of a printed one are indented.
                match rest.find("\n{") {
                    Some(next) if cut_off < CUT_OFF => next + 1,
                    Some(_) | None => break,
                }
            }
            Some(Err(error)) => position(rest, &error).max(1),
            None => break,
        };
        rest = rest.get(skip..).unwrap_or_default();
    }
    found
}

/// Where in a text an error was noticed, or the end of the last character before that.
fn position(text: &str, error: &serde_json::Error) -> usize {
    let line_start = match error.line() {
        0 | 1 => 0,
        line => text
            .match_indices('\n')
            .nth(line - 2)
            .map_or(0, |(at, _)| at + 1),
    };
    let mut at = (line_start + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Text without escape sequences of terminals, byte order marks and carriage returns.
pub(crate) fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains(['\u{1b}', '\u{feff}', '\r']) {
        return text.into_owned();
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(at) = rest.find(['\u{1b}', '\u{feff}', '\r']) {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        let mut chars = rest.chars();
        rest = match chars.next() {
            Some('\u{1b}') => after_escape(chars.as_str()),
            Some(_) | None => chars.as_str(),
        };
    }
    clean.push_str(rest);
    clean
}

/// What follows an escape sequence whose escape was read.
fn after_escape(text: &str) -> &str {
    let mut chars = text.chars();
    match chars.next() {
        // A control sequence ends with a letter or one of a few signs.
        Some('[') => after(chars.as_str(), |c| ('\u{40}'..='\u{7e}').contains(&c)),
        // A string for the terminal ends with a bell or with another escape; a line never holds half of one.
        Some(']' | 'P' | '^' | '_' | 'X') => {
            let text = chars.as_str();
            match text.find(['\u{7}', '\u{1b}', '\n']) {
                Some(end) => {
                    let rest = &text[end..];
                    let known = ["\u{1b}\\", "\u{7}", "\u{1b}"];
                    let mut stripped = known.iter().filter_map(|end| rest.strip_prefix(end));
                    stripped.next().unwrap_or(rest)
                }
                None => "",
            }
        }
        // Others have signs in between and one at the end.
        Some(' '..='/') => after(chars.as_str(), |c| !(' '..='/').contains(&c)),
        Some(_) => chars.as_str(),
        None => "",
    }
}

/// What follows the first character that is an end.
fn after(text: &str, is_end: impl Fn(char) -> bool) -> &str {
    text.char_indices()
        .find(|(_, c)| is_end(*c))
        .and_then(|(at, c)| text.get(at + c.len_utf8()..))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        objects(text).iter().map(Value::to_string).collect()
    }

    #[test]
    fn objects_are_found_whatever_is_around_them() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("no braces", &[]),
            (r#"{"a":1}"#, &[r#"{"a":1}"#]),
            ("Warning: x\n{\n  \"a\": 1\n}\nbye", &[r#"{"a":1}"#]),
            (
                r#"{"a":1}{"b":2} {"c":3}"#,
                &[r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#],
            ),
            (r#"{ not json } {"a":1}"#, &[r#"{"a":1}"#]),
            (r#"{ {"a":1}"#, &[r#"{"a":1}"#]),
            (r#"{"a":"{\"b\":2}"}"#, &[r#"{"a":"{\"b\":2}"}"#]),
            ("{ü} {\"a\":\"ü\"}", &[r#"{"a":"ü"}"#]),
            (
                "{\n\"a\": 1,\nWarning: ü { x\n}\n{\"b\":2}",
                &[r#"{"b":2}"#],
            ),
            // Cut off: nothing, and nothing from within.
            (r#"{"a":{"status":"success"}"#, &[]),
            (r#"{"a":1}{"b":{"c":2}"#, &[r#"{"a":1}"#]),
            ("{\n  \"a\": {\n    \"b\": 1\n  }\n", &[]),
            ("{\n  \"a\": [\n{\"b\":2}", &[r#"{"b":2}"#]),
        ];
        for (text, expected) in cases {
            assert_eq!(found(text), *expected, "{text:?}");
        }
    }

    #[test]
    fn much_noise_is_read_in_little_time() {
        let braces = "{".repeat(200_000);
        assert!(found(&braces).is_empty());
        let cut = "\n{\"a\":[".repeat(20_000);
        assert!(found(&cut).is_empty());
        let broken = "{\"a\":x}".repeat(50_000) + "{\"b\":1}";
        assert_eq!(found(&broken), [r#"{"b":1}"#]);
    }

    #[test]
    fn escape_sequences_go_and_text_stays() {
        let cases = [
            ("plain ü", "plain ü"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]0;never ended\nnext", "\nnext"),
            ("\u{1b}Psome\u{1b}\\text", "text"),
            ("\u{1b}(Btext", "text"),
            ("\u{1b}cText", "Text"),
            ("a\r\nb\r", "a\nb"),
            ("\u{feff}{}", "{}"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
            ("\u{1b}[31", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(clean(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(clean(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn a_line_is_an_object_several_or_noise() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            (" \r\n", &[]),
            ("\u{1b}[0m", &[]),
            ("{\"a\":1}\r\n", &[r#"{"a":1}"#]),
            ("\u{feff}{\"a\":1}", &[r#"{"a":1}"#]),
            ("\u{1b}[?25l{\"a\":1}\u{1b}[?25h", &[r#"{"a":1}"#]),
            ("[debug] {\"a\":1}", &[r#"{"a":1}"#]),
            ("{\"a\":1}{\"b\":2}", &[r#"{"a":1}"#, r#"{"b":2}"#]),
            ("hello", &["noise hello"]),
            (
                "{\"type\":\"result\",\"stats\":{}",
                &["noise {\"type\":\"result\",\"stats\":{}"],
            ),
            ("[1,2]", &["noise [1,2]"]),
            ("null", &["noise null"]),
        ];
        for (line, expected) in cases {
            let told: Vec<String> = lines(line.as_bytes())
                .iter()
                .map(|line| match line {
                    Line::Json(value) => value.to_string(),
                    Line::Noise(words) => format!("noise {words}"),
                })
                .collect();
            assert_eq!(told, *expected, "{line:?}");
        }
    }

    #[test]
    fn what_looks_like_noise_inside_of_a_value_is_a_part_of_it() {
        let line = "{\"text\":\"a\u{feff}b\"}";
        let told = lines(line.as_bytes());
        assert!(
            matches!(told.as_slice(), [Line::Json(value)] if value["text"] == "a\u{feff}b"),
            "{told:?}"
        );
    }

    #[test]
    fn noise_is_told_in_excerpts() {
        let told = lines("ü".repeat(10_000).as_bytes());
        assert!(
            matches!(told.as_slice(), [Line::Noise(words)] if words.chars().count() == EXCERPT),
            "{told:?}"
        );
    }
}
