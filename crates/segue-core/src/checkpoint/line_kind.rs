//! Classification of single lines of a prompt: machine output that the user pasted, and text of other people. Such
//! lines contain no rules and no plans of the user.

use super::chat::{is_chat, is_chat_head};

/// Levels of log lines.
const LOG_LEVELS: [&str; 8] = [
    "ERROR", "WARN", "WARNING", "INFO", "DEBUG", "TRACE", "FATAL", "PANIC",
];

/// Prefixes of lines in stack traces, compiler output and diffs.
const PASTED_LINE_PREFIXES: [&str; 24] = [
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

/// Prefixes of lines that tools print and agents do not write.
const TOOL_OUTPUT_PREFIXES: [&str; 25] = [
    "npm warn",
    "npm WARN",
    "npm notice",
    "error: ",
    "fatal: ",
    "Uncaught ",
    "Exception in thread",
    "raise ",
    "test result:",
    "=== ",
    "---- ",
    "--- FAIL",
    "--- PASS",
    "PASS ",
    "FAIL ",
    "= note: ",
    "= help: ",
    "=> ",
    "✓ ",
    "✔ ",
    "✕ ",
    "✖ ",
    "× ",
    "// ",
    "/* ",
];

/// Labels of advice that tools print. Some users write them as well.
const ADVICE_LABELS: [&str; 6] = ["note", "hint", "help", "warning", "tip", "info"];

/// Kind of a line, judged without its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    /// Machine output.
    Machine,
    /// Possibly machine output.
    LikelyMachine,
    /// A command at a shell prompt, or the start of a diff. The lines after it are output or more of the diff.
    Shell,
    /// Name and time in a chat. The lines after it are the message.
    ChatHeader,
    /// Name, time and message in a chat.
    Chat,
    /// A quoted line.
    Quote,
    /// Any other line.
    Other,
}

/// Classifies a line of a prompt.
pub(super) fn classify_line(line: &str) -> LineKind {
    let line = line.trim();
    if is_shell_prompt(line) {
        LineKind::Shell
    } else if line.starts_with('>') || is_in_quotes(line) {
        LineKind::Quote
    } else if is_pasted(line) || is_tool_output(line) {
        LineKind::Machine
    } else if is_chat_head(line) {
        LineKind::ChatHeader
    } else if is_chat(line) {
        LineKind::Chat
    } else if is_labelled(line) || is_aligned(line) {
        LineKind::LikelyMachine
    } else {
        LineKind::Other
    }
}

/// Returns `true` if a line begins or ends a code block.
pub(super) fn is_fence(line: &str) -> bool {
    line.starts_with("```") || line.starts_with("~~~")
}

/// Returns `true` if a line is enclosed in quotation marks, such as `"You must always do it."`.
fn is_in_quotes(line: &str) -> bool {
    let within = |open: char, close: char| line.strip_prefix(open)?.strip_suffix(close);
    let quoted = within('"', '"').or_else(|| within('“', '”'));
    quoted.is_some_and(|words| words.contains(' ') && !words.contains(['"', '“', '”']))
}

/// Returns `true` if a line is a command at a prompt, such as `$ make`, `mia@host:~/w$ make` or `>>> import os`, or
/// starts a diff.
fn is_shell_prompt(line: &str) -> bool {
    let prefixes = [
        "$ ",
        "❯ ",
        "➜ ",
        "% ",
        ">>> ",
        "PS C:\\",
        "diff --git ",
        "@@ -",
    ];
    let first = line.split_whitespace().next().unwrap_or_default();
    let at_host = first.contains('@') && first.contains(':') && first.ends_with(['$', '#', '%']);
    at_host || prefixes.iter().any(|prefix| line.starts_with(prefix))
}

/// Returns `true` if tools print a line like this and people do not write one.
fn is_tool_output(line: &str) -> bool {
    let has_prefix = TOOL_OUTPUT_PREFIXES
        .iter()
        .any(|prefix| line.starts_with(prefix));
    has_prefix
        || is_structured_data(line)
        || is_code(line)
        || is_source_excerpt(line)
        || is_error_message(line)
        || is_count_or_log(line)
        || line.starts_with("● ") && line.contains(" › ")
}

/// Returns `true` if a line is structured data, such as `{"level":"error"}`, `"name": "x",` or `level=error msg="x"`.
fn is_structured_data(line: &str) -> bool {
    let object = line.starts_with(['{', '[']) && line.ends_with(['}', ']', ',']);
    let field = line.starts_with('"') && line.contains("\": ");
    let is_pair = |word: &str| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| !name.is_empty() && name.chars().all(char::is_alphanumeric))
    };
    let mut words = line.split_whitespace();
    let pairs = words.next().is_some_and(is_pair) && words.next().is_some_and(is_pair);
    object && line.contains("\":") || field || pairs
}

/// Returns `true` if a line is source code, such as `return x;`, `if x {` or `}`.
fn is_code(line: &str) -> bool {
    let only_marks = !line.is_empty() && line.chars().all(|c| "{}[](),;".contains(c));
    // Some users end list entries with a semicolon.
    let has_code_marks = line.contains(['(', '=']) || line.contains("::") || !line.contains(' ');
    line.ends_with('{') || line.ends_with(';') && has_code_marks || only_marks
}

/// Returns `true` if a line belongs to a source excerpt of a compiler, such as `12 | let x`, `|`, `| ^^^ help: …` or
/// `^^^ …`.
fn is_source_excerpt(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let after_digits = line.get(digits..).unwrap_or_default();
    let numbered = digits > 0 && (after_digits.starts_with(" |") || after_digits.starts_with(" │"));
    let row = line.strip_prefix('|');
    // A table row ends with `|` or has more than one column.
    let is_row = row.is_some_and(|row| row.contains('|'));
    numbered || row.is_some() && !is_row || line.starts_with(['^', '│', '╰', '╭'])
}

/// Returns `true` if a line is an error message, such as `ValueError: …`, `java.io.IOException: …` or
/// `failed to solve: …`.
fn is_error_message(line: &str) -> bool {
    let Some((before, _)) = line.split_once(": ") else {
        return false;
    };
    let is_class = !before.contains(' ')
        && ["Error", "Exception"]
            .iter()
            .any(|end| before.ends_with(end));
    let failure_prefixes = ["failed to ", "unable to ", "could not ", "cannot "];
    let words = before.split(' ').count();
    is_class
        || words <= 5
            && failure_prefixes
                .iter()
                .any(|prefix| before.starts_with(prefix))
}

/// Returns `true` if a line is a result count or a log line, such as `Plan: 1 to add, …`, `Tests: 2 failed, …`,
/// `Nov 12 10:14:03 host …` or `10.0.0.1 - - …`.
fn is_count_or_log(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (first, second) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let is_result_count =
        ["Plan:", "Tests:", "Test"].contains(&first) && (is_number(second) || second == "Suites:");
    let is_address = first.split('.').count() == 4 && first.split('.').all(is_number);
    let third = words.next().unwrap_or_default();
    let in_syslog = is_number(second) && has_timestamp(third);
    is_result_count || is_address || in_syslog
}

/// Returns `true` if a line begins with a label, such as `Note: …` or `hint: …`.
pub(super) fn is_labelled(line: &str) -> bool {
    let label = line
        .trim()
        .split_once(": ")
        .map(|(label, _)| label.to_lowercase());
    label.is_some_and(|label| ADVICE_LABELS.contains(&label.as_str()))
}

/// Returns `true` if a line has columns with more than one space between them, contains a tab, or is a markup tag.
fn is_aligned(line: &str) -> bool {
    let gaps = line.split("  ").filter(|cell| !cell.trim().is_empty());
    // Some users type two spaces after a sentence.
    let cells = gaps
        .filter(|cell| !cell.ends_with(['.', '!', '?', ':']))
        .count();
    let tag = line.starts_with('<') && line.ends_with('>');
    cells >= 3 || line.contains('\t') || tag
}

/// Returns `true` if a line belongs to a log, a stack trace, compiler output or a diff. The line must be trimmed.
pub(super) fn is_pasted(line: &str) -> bool {
    PASTED_LINE_PREFIXES
        .iter()
        .any(|prefix| line.starts_with(prefix))
        || has_timestamp(line)
        || has_log_level(line)
        || is_stack_frame(line)
        || has_source_position(line)
}

/// Returns `true` if a line begins with a timestamp, such as `2026-11-02T10:14:03Z …`, `[2026/11/02 …` or
/// `10:14:03.120 …`.
fn has_timestamp(line: &str) -> bool {
    let line = line.trim_start_matches(['[', '(']);
    if !line.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let shape = line.chars().take(10).map(|c| match c {
        '0'..='9' => '0',
        '/' => '-',
        c => c,
    });
    let shape: String = shape.collect();
    shape == "0000-00-00" || shape.starts_with("00:00:00")
}

/// Returns `true` if a line begins with a log level, such as `[ERROR] …`, `WARN: …` or `ERROR  pool: …`. A level needs
/// a mark or alignment after it, because users also write words in capitals.
fn has_log_level(line: &str) -> bool {
    let in_brackets = line.strip_prefix('[');
    let unbracketed = in_brackets.unwrap_or(line);
    let letters = unbracketed
        .bytes()
        .take_while(u8::is_ascii_uppercase)
        .count();
    let Some((level, remainder)) = unbracketed.split_at_checked(letters) else {
        return false;
    };
    let has_delimiter = match in_brackets {
        Some(_) => remainder.starts_with(']'),
        None => {
            remainder.starts_with("  ")
                || remainder.starts_with(": ")
                || remainder.starts_with(" [")
        }
    };
    LOG_LEVELS.contains(&level) && has_delimiter
}

/// Returns `true` if a line is a stack frame, such as `at fetch (src/app.js:10:3)`, `0: std::panicking::begin` or
/// `#3 0x7f in main`.
fn is_stack_frame(line: &str) -> bool {
    let is_call = line
        .strip_prefix("at ")
        .is_some_and(|location| location.contains(':') && location.contains(['(', '/', '\\']));
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let after_digits = line.get(digits..).unwrap_or_default();
    let is_numbered = digits > 0
        && after_digits
            .strip_prefix(": ")
            .is_some_and(|symbol| symbol.contains("::"));
    let address = line.starts_with('#') && line.contains(" 0x");
    is_call || is_numbered || address
}

/// Returns `true` if a line begins with a source position, such as `src/pool.rs:88:17: …`.
fn has_source_position(line: &str) -> bool {
    let position = line.split_whitespace().next().unwrap_or_default();
    if !position.ends_with(':') {
        return false;
    }
    let mut parts = position.trim_end_matches(':').split(':');
    let file = parts.next().unwrap_or_default();
    let numbers: Vec<&str> = parts.collect();
    file.contains('.')
        && !numbers.is_empty()
        && numbers
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_output_is_distinguished_from_user_text() {
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
            // Lines that users write.
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

    #[test]
    fn prompt_lines_are_classified_by_their_author() {
        use LineKind::{Chat, ChatHeader, LikelyMachine, Machine, Other, Quote, Shell};
        for (line, expected) in [
            ("$ kubectl get pods", Shell),
            ("mia@host:~/w$ make", Shell),
            ("> You must deliver by Friday.", Quote),
            ("{\"level\":\"error\",\"msg\":\"must be closed\"}", Machine),
            ("level=error msg=\"must be closed\"", Machine),
            ("  |   ^ help: prefix it", Machine),
            ("= note: must be used", Machine),
            ("failed to solve: you must specify a base image", Machine),
            ("ValueError: must never be empty", Machine),
            ("✕ must never be empty (3 ms)", Machine),
            ("● suite › must be shown", Machine),
            ("npm warn must not be used", Machine),
            ("Nov 12 10:14:03 host sshd: never", Machine),
            ("\"You must always do it.\"", Quote),
            ("bob 10:14 AM", ChatHeader),
            (
                "slack thread: bob 10:14 AM we should never ship alice 10:15 AM agreed",
                Chat,
            ),
            ("Mia Lang  10:14", ChatHeader),
            ("bob 10:14 AM we should never ship", Chat),
            ("[10:14] bob: never", Chat),
            ("Note: never push", LikelyMachine),
            ("NAME    READY   STATUS", LikelyMachine),
            // Lines that users write.
            ("Deploy at 10:14 AM must never happen", Other),
            ("by 10:00 all tests must pass", Other),
            ("$HOME must never be set", Other),
            ("| a.rs | never touch |", Other),
            ("Never push.  Ask first.  Always test.", Other),
            ("we failed to ship it: never again", Other),
            ("Rules: never push", Other),
            ("use {name} and never {id}", Other),
            ("set debug=1 always", Other),
            ("never log passwords; always mask them;", Other),
            ("\"main\" is closed, never push to \"prod\"", Other),
            ("call bob at 10:14 AM and never before", Other),
        ] {
            assert_eq!(classify_line(line), expected, "{line}");
        }
    }
}
