//! Output of a program, normalised for comparison.

use std::fmt;
use std::process::Command;

use crate::World;

/// Output and exit code of a program.
pub struct Output {
    /// Standard output, with ids, times and paths replaced by names.
    pub stdout: String,
    /// Standard error, with the same replacements.
    pub stderr: String,
    /// Standard output without replacements.
    pub raw_stdout: String,
    /// Exit code. `None` if a signal ended the program.
    pub code: Option<i32>,
}

impl Output {
    pub(crate) fn of(command: &mut Command, world: &World) -> Self {
        Self::from(&command.output().unwrap(), world)
    }

    /// Converts the output of a program that ran in `world`.
    #[must_use]
    pub fn from(output: &std::process::Output, world: &World) -> Self {
        let raw_stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        Self {
            stdout: normal(&raw_stdout, world),
            stderr: normal(&stderr, world),
            raw_stdout,
            code: output.status.code(),
        }
    }
}

/// Formats the complete result as one text, for snapshots.
impl fmt::Display for Output {
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
fn normal(text: &str, world: &World) -> String {
    if text.len() > 1_000_000 {
        return text.to_owned();
    }
    let text = text.replace(&*world.path().to_string_lossy(), "[WORLD]");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let boundary = out
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_ascii_alphanumeric());
        let found = PATTERNS
            .iter()
            .filter(|_| boundary)
            .find_map(|(shape, name)| Some((matches(rest, shape)?, name)));
        if let Some((length, name)) = found {
            out.push_str(name);
            rest = rest.split_at(length).1;
        } else {
            let mut chars = rest.chars();
            out.extend(chars.next());
            rest = chars.as_str();
        }
    }
    out
}

/// Patterns and their replacements. In a pattern, `d` matches a digit if the pattern begins with `d`, `x` a digit or a
/// lower-case letter, `*` one or more digits, and any other character itself.
const PATTERNS: [(&str, &str); 5] = [
    ("dddddddd_dddddd_xxxx", "[SESSION]"),
    ("dddd-dd-ddTdd:dd:dd.*Z", "[TIME]"),
    ("dddd-dd-dd dd:dd:dd", "[TIME]"),
    ("r-xxxxxxxxxxxxxxxx", "[NATIVE]"),
    ("process *", "process [PID]"),
];

fn matches(text: &str, shape: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    for wanted in shape.bytes() {
        let found = bytes.get(at).copied();
        match wanted {
            b'd' if shape.starts_with('d') => found.filter(u8::is_ascii_digit)?,
            b'x' => found.filter(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())?,
            b'*' => {
                let digits = bytes
                    .get(at..)?
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                (digits > 0).then_some(())?;
                at += digits;
                continue;
            }
            literal => found.filter(|byte| *byte == literal)?,
        };
        at += 1;
    }
    Some(at)
}
