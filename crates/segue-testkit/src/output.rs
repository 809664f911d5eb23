//! Output of a program, normalised for comparison.

use std::fmt;
use std::process::Command;

use crate::TestHome;

/// Output and exit code of a program.
pub struct ProgramOutput {
    /// Standard output, with ids, times and paths replaced by names.
    pub stdout: String,
    /// Standard error, with the same replacements.
    pub stderr: String,
    /// Standard output without replacements.
    pub raw_stdout: String,
    /// Exit code. `None` if a signal ended the program.
    pub code: Option<i32>,
}

impl ProgramOutput {
    pub(crate) fn from_command(command: &mut Command, home: &TestHome) -> Self {
        Self::from_std(&command.output().unwrap(), home)
    }

    /// Converts the output of a program that ran in `home`.
    #[must_use]
    pub fn from_std(output: &std::process::Output, home: &TestHome) -> Self {
        let raw_stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        Self {
            stdout: normalise(&raw_stdout, home),
            stderr: normalise(&stderr, home),
            raw_stdout,
            code: output.status.code(),
        }
    }
}

/// Formats the complete result as one text, for snapshots.
impl fmt::Display for ProgramOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stdout)?;
        if !self.stderr.is_empty() {
            write!(f, "--- stderr\n{}", self.stderr)?;
        }
        match self.code {
            Some(code) => write!(f, "--- exit {code}"),
            None => write!(f, "--- killed"),
        }
    }
}

/// Replaces values that differ from run to run. Text over 1 MB stays unchanged, because no snapshot contains it.
fn normalise(text: &str, home: &TestHome) -> String {
    if text.len() > 1_000_000 {
        return text.to_owned();
    }
    let text = text.replace(&*home.path().to_string_lossy(), "[HOME]");
    let mut out = String::with_capacity(text.len());
    let mut remaining = text.as_str();
    while !remaining.is_empty() {
        let is_boundary = out
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_ascii_alphanumeric());
        let matched = REPLACEMENT_PATTERNS
            .iter()
            .filter(|_| is_boundary)
            .find_map(|(pattern, placeholder)| {
                Some((match_pattern(remaining, pattern)?, placeholder))
            });
        if let Some((length, placeholder)) = matched {
            out.push_str(placeholder);
            remaining = remaining.split_at(length).1;
        } else {
            let mut chars = remaining.chars();
            out.extend(chars.next());
            remaining = chars.as_str();
        }
    }
    out
}

/// Patterns and their replacements. In a pattern, `d` matches a digit if the pattern begins with `d`, `x` a digit or a
/// lower-case letter, `*` one or more digits, and any other character itself.
const REPLACEMENT_PATTERNS: [(&str, &str); 5] = [
    ("dddddddd_dddddd_xxxx", "[SESSION]"),
    ("dddd-dd-ddTdd:dd:dd.*Z", "[TIME]"),
    ("dddd-dd-dd dd:dd:dd", "[TIME]"),
    ("r-xxxxxxxxxxxxxxxx", "[NATIVE]"),
    ("process *", "process [PID]"),
];

fn match_pattern(text: &str, pattern: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut position = 0;
    for pattern_byte in pattern.bytes() {
        let next_byte = bytes.get(position).copied();
        match pattern_byte {
            b'd' if pattern.starts_with('d') => next_byte.filter(u8::is_ascii_digit)?,
            b'x' => next_byte.filter(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())?,
            b'*' => {
                let digits = bytes
                    .get(position..)?
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                (digits > 0).then_some(())?;
                position += digits;
                continue;
            }
            literal => next_byte.filter(|byte| *byte == literal)?,
        };
        position += 1;
    }
    Some(position)
}
