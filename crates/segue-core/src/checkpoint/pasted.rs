//! Lines that a machine wrote and somebody pasted: what they say is nobody's rule, and nobody's plan.

/// How loud a line of a log says that it is.
const LEVELS: [&str; 8] = [
    "ERROR", "WARN", "WARNING", "INFO", "DEBUG", "TRACE", "FATAL", "PANIC",
];

/// What the lines of traces, of compilers and of changes begin with.
const BEGINNINGS: [&str; 24] = [
    "Traceback (most recent call last)",
    "File \"",
    "Caused by:",
    "thread '",
    "panic: ",
    "goroutine ",
    "stack backtrace:",
    "error[E",
    "error TS",
    "error: aborting",
    "warning: unused",
    "--> ",
    "npm ERR!",
    "npm error",
    "E   ",
    "FAILED ",
    "make: ***",
    "diff --git ",
    "+++ ",
    "--- a/",
    "@@ -",
    "note: run with",
    "called `",
    "assertion `",
];

/// Whether a line, without blanks around it, is one of a log, a trace, a compiler or a change.
pub(super) fn is_pasted(line: &str) -> bool {
    BEGINNINGS.iter().any(|begins| line.starts_with(begins))
        || is_timed(line)
        || is_levelled(line)
        || is_frame(line)
        || is_placed(line)
}

/// `2026-11-02T10:14:03Z …`, `[2026/11/02 …`, `10:14:03.120 …`
fn is_timed(line: &str) -> bool {
    let line = line.trim_start_matches(['[', '(']);
    let shape = line.chars().take(10).map(|c| match c {
        '0'..='9' => '0',
        '/' => '-',
        c => c,
    });
    let shape: String = shape.collect();
    shape == "0000-00-00" || shape.starts_with("00:00:00")
}

/// `[ERROR] …`, `WARN: …`, `ERROR  pool: …`: a person who shouts does not align it.
fn is_levelled(line: &str) -> bool {
    let in_brackets = line.strip_prefix('[');
    let from = in_brackets.unwrap_or(line);
    let letters = from.bytes().take_while(u8::is_ascii_uppercase).count();
    let Some((level, rest)) = from.split_at_checked(letters) else {
        return false;
    };
    let set_off = match in_brackets {
        Some(_) => rest.starts_with(']'),
        None => rest.starts_with("  ") || rest.starts_with(": ") || rest.starts_with(" ["),
    };
    LEVELS.contains(&level) && set_off
}

/// `at fetch (src/app.js:10:3)`, `0: std::panicking::begin`, `#3 0x7f in main`
fn is_frame(line: &str) -> bool {
    let called = line
        .strip_prefix("at ")
        .is_some_and(|rest| rest.contains(':') && rest.contains(['(', '/', '\\']));
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line.get(digits..).unwrap_or_default();
    let counted = digits > 0
        && rest
            .strip_prefix(": ")
            .is_some_and(|rest| rest.contains("::"));
    let address = line.starts_with('#') && line.contains(" 0x");
    called || counted || address
}

/// `src/pool.rs:88:17: …`
fn is_placed(line: &str) -> bool {
    let place = line.split_whitespace().next().unwrap_or_default();
    let mut parts = place.trim_end_matches(':').split(':');
    let file = parts.next().unwrap_or_default();
    let numbers: Vec<&str> = parts.collect();
    file.contains('.')
        && !numbers.is_empty()
        && place.ends_with(':')
        && numbers
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_wrote_is_told_from_what_a_person_says() {
        for (line, pasted) in [
            ("2026-11-02T10:14:03Z WARN pool: must not be reused", true),
            ("[2026/11/02 10:14] always retrying", true),
            ("10:14:03.120 never mind", true),
            ("ERROR  pool: must not happen", true),
            ("[WARN] TODO remove", true),
            ("INFO: always on", true),
            ("    ", false),
            (
                "thread 'main' panicked at src/a.rs:1:2: never reached",
                true,
            ),
            ("src/pool.rs:88:17: warning: must be used", true),
            ("at fetch (src/app.js:10:3)", true),
            ("0: std::panicking::begin_panic", true),
            ("E   AssertionError: must not be None", true),
            ("@@ -1,2 +1,3 @@", true),
            // What people write.
            ("at least one test must pass", false),
            ("ERROR is what I get, never a page", false),
            ("10 files at most", false),
            ("2026 will be the year", false),
            ("Rules: never push", false),
            ("src/pool.rs: never touch it", false),
            ("main.rs:12 must stay", false),
            ("1. never push", false),
            ("#3 must be done first", false),
        ] {
            assert_eq!(is_pasted(line), pasted, "{line}");
        }
    }
}
