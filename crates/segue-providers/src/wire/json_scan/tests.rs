//! Objects and noise in various combinations.

use super::*;

fn extract(text: &str) -> Vec<String> {
    extract_objects(text).iter().map(Value::to_string).collect()
}

#[test]
fn objects_are_found_in_any_surrounding_text() {
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
        // Truncated: neither the object nor the objects inside it.
        (r#"{"a":{"status":"success"}"#, &[]),
        (r#"{"a":1}{"b":{"c":2}"#, &[r#"{"a":1}"#]),
        ("{\n  \"a\": {\n    \"b\": 1\n  }\n", &[]),
        ("{\n  \"a\": [\n{\"b\":2}", &[r#"{"b":2}"#]),
    ];
    for (text, expected) in cases {
        assert_eq!(extract(text), *expected, "{text:?}");
    }
}

#[test]
fn long_noise_is_parsed_quickly() {
    let braces = "{".repeat(200_000);
    assert!(extract(&braces).is_empty());
    let truncated = "\n{\"a\":[".repeat(20_000);
    assert!(extract(&truncated).is_empty());
    let broken = "{\"a\":x}".repeat(50_000) + "{\"b\":1}";
    assert_eq!(extract(&broken), [r#"{"b":1}"#]);
}

#[test]
fn escape_sequences_are_removed_and_text_stays() {
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
        assert_eq!(strip_terminal_codes(text.as_bytes()), expected, "{text:?}");
    }
    assert_eq!(strip_terminal_codes(b"a\xffb"), "a\u{fffd}b");
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
        let parsed: Vec<String> = parse_line(line.as_bytes())
            .iter()
            .map(|line| match line {
                OutputLine::Json(value) => value.to_string(),
                OutputLine::Noise(text) => format!("noise {text}"),
            })
            .collect();
        assert_eq!(parsed, *expected, "{line:?}");
    }
}

#[test]
fn characters_inside_a_value_are_not_treated_as_noise() {
    let line = "{\"text\":\"a\u{feff}b\"}";
    let parsed = parse_line(line.as_bytes());
    assert!(
        matches!(parsed.as_slice(), [OutputLine::Json(value)] if value["text"] == "a\u{feff}b"),
        "{parsed:?}"
    );
}

#[test]
fn noise_is_returned_as_an_excerpt() {
    let parsed = parse_line("ü".repeat(10_000).as_bytes());
    assert!(
        matches!(parsed.as_slice(), [OutputLine::Noise(text)] if text.chars().count() == MAX_EXCERPT_CHARS),
        "{parsed:?}"
    );
}
