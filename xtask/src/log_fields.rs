//! Rules for the log, as ordinary tests: spans and events have only IDs, names, numbers, durations, enum names and paths
//! as fields, never the content of a conversation or a secret.
//!
//! The tests read the calls of tracing's macros. They reject names that stand for content, Debug output, which may
//! print a complete struct, and values inside of a message. ARCHITECTURE.md describes the fields.

use std::fs;
use std::ops::Range;

use crate::tidy::{root, sources};

/// Macros of tracing that record fields.
const RECORDING_MACROS: &[&str] = &[
    "trace",
    "debug",
    "info",
    "warn",
    "error",
    "event",
    "span",
    "trace_span",
    "debug_span",
    "info_span",
    "warn_span",
    "error_span",
];

/// Words that a field must not have in its name, because its value may be the content of a conversation, the text of
/// another program, or a secret.
const CONTENT_WORDS: &[&str] = &[
    "answer",
    "arg",
    "args",
    "argument",
    "arguments",
    "body",
    "brief",
    "cause",
    "content",
    "contents",
    "credential",
    "credentials",
    "env",
    "environment",
    "error",
    "err",
    "header",
    "headers",
    "input",
    "key",
    "keys",
    "line",
    "message",
    "messages",
    "output",
    "password",
    "prompt",
    "prompts",
    "query",
    "reason",
    "reply",
    "request",
    "response",
    "secret",
    "secrets",
    "snippet",
    "stderr",
    "stdin",
    "stdout",
    "summary",
    "text",
    "texts",
    "title",
    "token",
    "transcript",
    "value",
];

/// Last words of a name that make its value an ID, a number or the name of an enum, such as `error_kind` or `prompt_tokens`.
const HARMLESS_SUFFIXES: &[&str] = &[
    "bytes", "class", "code", "count", "id", "kind", "len", "ms", "number", "tokens", "us",
];

/// Methods that return their receiver in another form.
const CONVERSIONS: &[&str] = &[
    "as_deref",
    "as_ref",
    "as_str",
    "clone",
    "display",
    "to_owned",
    "to_string",
    "trim",
];

/// Returns `true` if a value with this name may be content or a secret.
fn is_content_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let words: Vec<&str> = name.split(['_', '.']).collect();
    let is_harmless = match words.as_slice() {
        ["is" | "has", _, ..] => true,
        [_, .., last] => HARMLESS_SUFFIXES.contains(last),
        _ => false,
    };
    !is_harmless && words.iter().any(|word| CONTENT_WORDS.contains(word))
}

/// Replaces comments, and the content of literals if `blank_literals`, with spaces, so that positions stay the same.
fn blank_comments(code: &str, blank_literals: bool) -> String {
    let mut blanked = code.as_bytes().to_vec();
    let mut position = 0;
    while position < code.len() {
        let rest = &code[position..];
        let (length, is_kept) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with('"') {
            (string_length(rest), !blank_literals)
        } else if let Some(length) = raw_string_length(&code[..position], rest) {
            (length, !blank_literals)
        } else if let Some(length) = char_literal_length(rest) {
            (length, !blank_literals)
        } else {
            (rest.chars().next().map_or(1, char::len_utf8), true)
        };
        if !is_kept {
            for byte in &mut blanked[position..position + length] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
        }
        position += length;
    }
    String::from_utf8(blanked).unwrap()
}

/// Returns the length of a string literal with its quotes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a raw string literal such as `r#"…"#`. `None` if the text does not begin with one.
fn raw_string_length(before: &str, text: &str) -> Option<usize> {
    let is_identifier = |c: char| c.is_alphanumeric() || c == '_';
    if before.ends_with(|c| is_identifier(c) && c != 'b') {
        return None;
    }
    let hashes = text.strip_prefix('r')?;
    let count = hashes.bytes().take_while(|byte| *byte == b'#').count();
    let content = hashes[count..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(count));
    let length = content.find(&end).map(|index| index + end.len());
    Some(text.len() - content.len() + length.unwrap_or(content.len()))
}

/// Returns the length of a character literal. `None` for anything else, such as a lifetime.
fn char_literal_length(text: &str) -> Option<usize> {
    let content = text.strip_prefix('\'')?;
    if let Some(escaped) = content.strip_prefix('\\') {
        return Some(escaped[1..].find('\'')? + 4);
    }
    let first = content.chars().next()?;
    content[first.len_utf8()..]
        .starts_with('\'')
        .then_some(first.len_utf8() + 2)
}

/// Returns the range between a bracket and its partner. `code` has no literals and no comments.
fn bracketed_range(code: &str, open: usize) -> Option<Range<usize>> {
    let mut depth = 0;
    for (offset, c) in code[open..].char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + 1..open + offset);
        }
    }
    None
}

/// Splits arguments at the commas outside of brackets. `code` has no literals and no comments.
fn split_arguments(code: &str, arguments: Range<usize>) -> Vec<Range<usize>> {
    let (mut depth, mut start) = (0, arguments.start);
    let mut ranges = Vec::new();
    for (offset, c) in code[arguments.clone()].char_indices() {
        let index = arguments.start + offset;
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                ranges.push(start..index);
                start = index + 1;
            }
            _ => {}
        }
    }
    ranges.push(start..arguments.end);
    ranges
}

/// Returns the name of the value of an expression, without conversions: `kind` in `error.kind().to_string()`.
fn value_name(expression: &str) -> &str {
    let mut expression = expression.trim();
    loop {
        let name = last_name(expression);
        let is_conversion = CONVERSIONS.contains(&name);
        let receiver = expression.rsplit_once(name).and_then(|(receiver, _)| {
            let receiver = receiver.trim_end().strip_suffix('.')?;
            is_conversion.then_some(receiver)
        });
        match receiver {
            Some(receiver) => expression = receiver,
            None => return name,
        }
    }
}

/// Returns the last name of an expression: `kind` in `error.kind()`.
fn last_name(expression: &str) -> &str {
    let is_name_char = |c: char| c.is_alphanumeric() || c == '_';
    // The arguments of calls are not part of the name.
    let mut expression = expression.trim();
    while expression.ends_with([')', ']']) {
        let mut depth = 0;
        let opening = expression.char_indices().rev().find(|(_, c)| {
            match c {
                ')' | ']' => depth += 1,
                '(' | '[' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        expression = opening.map_or("", |(index, _)| expression[..index].trim_end());
    }
    let start = expression.rfind(|c| !is_name_char(c));
    start.map_or(expression, |index| &expression[index + 1..])
}

/// Returns the reason why an argument of a macro must not be logged. `literal` is the argument with its literals.
fn argument_problem(argument: &str, literal: &str) -> Option<String> {
    let (argument, literal) = (argument.trim(), literal.trim());
    if literal.starts_with(['"', 'r']) && argument.is_empty() {
        let has_value = literal.replace("{{", "").contains('{');
        return has_value.then(|| format!("the message {literal} contains a value; use a field"));
    }
    // The level, and `target:`, `parent:` and `name:`, are not fields.
    let is_setting = |(name, value): (&str, &str)| {
        ["target", "parent", "name"].contains(&name) && !value.starts_with(':')
    };
    let is_level = argument.contains("Level::") && !argument.contains('=');
    if is_level || argument.split_once(':').is_some_and(is_setting) {
        return None;
    }
    let (name, value) = match argument.split_once('=') {
        Some((name, value)) => (name.trim(), value.trim()),
        None => (last_name(argument.trim_start_matches(['%', '?'])), argument),
    };
    let logged_name = value_name(value.trim_start_matches('%'));
    if value.starts_with('?') || value.contains("field::debug") {
        Some(format!(
            "`{literal}` prints Debug output; use `%` or a plain value"
        ))
    } else if is_content_name(name) {
        Some(format!(
            "the field `{name}` may contain content or a secret"
        ))
    } else if is_content_name(logged_name) {
        Some(format!("`{literal}` may print content or a secret"))
    } else {
        None
    }
}

/// Returns the positions of a word in code, as a whole word.
fn word_positions<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_name_char = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).filter_map(move |(index, _)| {
        let is_whole = !code[..index].ends_with(is_name_char)
            && !code[index + word.len()..].starts_with(is_name_char);
        is_whole.then_some(index)
    })
}

/// Returns the problems of all spans and events in a file, each with the number of its line.
fn log_problems(source: &str) -> Vec<(usize, String)> {
    let code = blank_comments(source, true);
    let readable = blank_comments(source, false);
    let mut problems = Vec::new();
    let line_number = |position: usize| source[..position].matches('\n').count() + 1;
    let mut check_arguments = |arguments: Range<usize>| {
        for range in split_arguments(&code, arguments) {
            let (argument, literal) = (&code[range.clone()], &readable[range.clone()]);
            if let Some(problem) = argument_problem(argument, literal) {
                problems.push((line_number(range.end), problem));
            }
        }
    };
    for name in RECORDING_MACROS {
        for position in word_positions(&code, name) {
            let after = position + name.len();
            let Some(brackets) = code[after..].strip_prefix('!') else {
                continue;
            };
            let open = after + 1 + (brackets.len() - brackets.trim_start().len());
            if let Some(arguments) = bracketed_range(&code, open) {
                check_arguments(arguments);
            }
        }
    }
    for position in word_positions(&code, "fields") {
        // The fields of `#[instrument(skip_all, fields(…))]`.
        let attribute = code[..position].rfind("#[");
        let is_attribute = attribute
            .and_then(|start| bracketed_range(&code, start + 1))
            .is_some_and(|range| range.contains(&position) && code[range].contains("instrument"));
        let open = position + "fields".len();
        if is_attribute && let Some(arguments) = bracketed_range(&code, open) {
            check_arguments(arguments);
        }
    }
    for position in word_positions(&code, "instrument") {
        let start = code[..position].rfind("#[").unwrap_or(0);
        let Some(attribute) = bracketed_range(&code, start + 1) else {
            continue;
        };
        if !code[start..].starts_with("#[") || !attribute.contains(&position) {
            continue;
        }
        let options = &code[attribute];
        let has_option = |option| word_positions(options, option).next().is_some();
        if !has_option("skip_all") || has_option("ret") || has_option("err") {
            let problem = "`#[instrument]` needs `skip_all`, and neither `ret` nor `err`";
            problems.push((line_number(position), problem.to_owned()));
        }
    }
    problems.sort();
    problems
}

#[test]
fn the_log_has_no_content_and_no_secrets() {
    let mut problems = Vec::new();
    let mut logging_files = 0;
    for path in sources(&root().join("crates")) {
        let path_text = path.to_string_lossy().into_owned();
        let test_directories = ["/tests", "/benches/", "/examples/", "/fixtures/"];
        if test_directories.iter().any(|part| path_text.contains(part)) {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        logging_files += usize::from(source.contains("tracing::"));
        let file_problems = log_problems(&source).into_iter();
        problems.extend(file_problems.map(|(line, text)| format!("{path_text}:{line}: {text}")));
    }
    assert!(logging_files > 5, "found {logging_files} files with spans");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn identifiers_numbers_names_and_paths_are_accepted() {
    for call in [
        r#"tracing::info!("store opened")"#,
        r#"tracing::info!(session = %lease.session, epoch, pid = owner.pid, "lease granted")"#,
        r#"tracing::warn!(parent: &span, class, error_kind = %error.kind(), "failed")"#,
        r#"info_span!("provider", provider = %self.id, transport = transport.name, pid = Empty)"#,
        r#"span!(target: "segue", Level::INFO, "turn", turn = turn.number)"#,
        "tracing::debug!(%path, prompt_tokens, token_count = 3, input_bytes = input.len())",
        r#"tracing::debug!(path = %path.display(), "a {{ b")"#,
        "tracing::debug!(mode = opened.open_mode.as_str(), failed = outcome.is_err())",
        "tracing::debug!(chars = prompt.len(), native_id = native.map(NativeId::as_str))",
        "tracing::trace!(operations, // the prompt, ?debug\n elapsed_ms)",
        "#[instrument(skip_all, fields(session = %id))]\nfn f() {}",
        "#[tracing::instrument(level = \"debug\", skip_all)]\nfn f() {}",
        r##"f("tracing::info!(prompt)", r#"info!(?x)"#, '"', '\'')"##,
        "future.instrument(span).await",
        "debug_assert!(prompt.is_empty())",
    ] {
        assert_eq!(log_problems(call), [], "{call}");
    }
}

#[test]
fn content_debug_output_and_values_in_messages_are_rejected() {
    for call in [
        "tracing::info!(prompt)",
        "tracing::info!(%prompt)",
        "tracing::info!(prompt = %x)",
        "tracing::info!(system_prompt = x)",
        "tracing::info!(turn = %turn.prompt)",
        "tracing::info!(turn = %self.text())",
        "tracing::info!(turn = self.prompt.as_str())",
        "tracing::info!(turn = turn.title().as_deref().to_string())",
        "tracing::info!(api_key = x)",
        "tracing::info!(auth.token = x)",
        "tracing::info!(env)",
        "tracing::info!(args = %join(args))",
        "tracing::warn!(%error)",
        "tracing::warn!(reason = x)",
        "tracing::info!(?request)",
        "tracing::info!(session = ?session)",
        "tracing::info!(session = tracing::field::debug(&session))",
        r#"tracing::info!("opened {session}")"#,
        r#"tracing::info!(session = %id, "opened {:?}", session)"#,
        r#"tracing::info!(r"opened {session}")"#,
        "tracing::info!(\n    session = %id,\n    message = %x,\n)",
        "event!(Level::INFO, secret)",
        "info_span! { \"turn\", title = %title }",
        "#[instrument]\nfn f() {}",
        "#[tracing::instrument(skip(self))]\nfn f() {}",
        "#[instrument(skip_all, err)]\nfn f() {}",
        "#[instrument(skip_all, ret)]\nfn f() {}",
        "#[instrument(skip_all, fields(prompt = %x))]\nfn f() {}",
        "#[instrument(skip_all, fields(session = ?x))]\nfn f() {}",
    ] {
        assert_eq!(
            log_problems(call).len(),
            1,
            "{call}: {:?}",
            log_problems(call)
        );
    }
}
