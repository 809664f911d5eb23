//! Handover of the terminal from segue to an agent's own program.
//!
//! The program has no leash: after the handover it belongs to the user, as if the user had started it.

use std::fmt::Write;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use segue_core::id::NativeId;

use crate::find_provider;

/// Returns the arguments with which an agent's own program resumes a native session; `None` if they are unknown.
#[must_use]
pub fn resume_args(provider: &str, id: &NativeId) -> Option<Vec<String>> {
    let args = find_provider(provider)?.session_commands.resume.iter();
    Some(
        args.copied()
            .chain([id.as_str()])
            .map(str::to_owned)
            .collect(),
    )
}

/// Returns the command with which the user resumes a native session in the agent's own program.
#[must_use]
pub fn resume_command(provider: &str, id: &NativeId) -> Option<String> {
    let args = resume_args(provider, id)?;
    Some(format!("{provider} {}", args.join(" ")))
}

/// Returns the command with which the user restores a native session that its agent archived; `None` if it is unknown.
#[must_use]
pub fn unarchive_command(provider: &str, id: &NativeId) -> Option<String> {
    let args = find_provider(provider)?.session_commands.unarchive?;
    Some(format!("{provider} {} {id}", args.join(" ")))
}

/// An agent's own program, ready to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeCommand {
    /// Path of the program.
    pub path: PathBuf,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Variables that are added to segue's own environment.
    pub env: Vec<(String, String)>,
    /// Working directory of the program.
    pub cwd: PathBuf,
}

impl NativeCommand {
    /// Returns the shell command that starts the program. Quotes names with special characters.
    #[must_use]
    pub fn to_shell_command(&self) -> String {
        let mut line = format!("cd {} &&", quote_for_shell(&self.cwd.to_string_lossy()));
        if !self.env.is_empty() {
            line.push_str(" env");
        }
        for (name, value) in &self.env {
            let _ = write!(line, " {}", quote_for_shell(&format!("{name}={value}")));
        }
        let _ = write!(line, " {}", self.format_with_program(&self.path));
        line
    }

    /// Returns the program by its file name, with its arguments, for the user to read.
    #[must_use]
    pub fn format_short(&self) -> String {
        self.format_with_program(self.path.file_name().map_or(self.path.as_path(), Path::new))
    }

    fn format_with_program(&self, program: &Path) -> String {
        let mut line = quote_for_shell(&program.to_string_lossy());
        for arg in &self.args {
            line.push(' ');
            line.push_str(&quote_for_shell(arg));
        }
        line
    }

    /// Replaces this process by the program. Returns only if that fails.
    #[must_use]
    pub fn exec(&self) -> io::Error {
        Command::new(&self.path)
            .args(&self.args)
            // Some programs read `PWD` before they query the system, and would otherwise find segue's own directory.
            .env("PWD", &self.cwd)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.cwd)
            .exec()
    }
}

/// Quotes a word for a shell, if necessary.
fn quote_for_shell(word: &str) -> String {
    let is_safe_char = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_safe_char) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_its_own_resume_arguments() {
        let id = NativeId::parse("ses_1").unwrap();
        let cases = [
            ("claude", Some(["--resume", "ses_1"])),
            ("codex", Some(["resume", "ses_1"])),
            ("gemini", Some(["--resume", "ses_1"])),
            ("opencode", Some(["--session", "ses_1"])),
            ("rehearsal", None),
            ("acp:opencode", None),
        ];
        for (provider, expected) in cases {
            let expected = expected.map(|args| args.map(str::to_owned).to_vec());
            assert_eq!(resume_args(provider, &id), expected, "{provider}");
        }
    }

    #[test]
    fn a_shell_command_quotes_special_characters() {
        let program = NativeCommand {
            path: "/opt/it's/claude".into(),
            args: vec![
                "--add-dir".into(),
                "a b".into(),
                String::new(),
                "$(x)".into(),
            ],
            env: vec![("A".into(), "1".into()), ("B".into(), "two words;".into())],
            cwd: "/src/my app".into(),
        };
        assert_eq!(
            program.to_shell_command(),
            r"cd '/src/my app' && env A=1 'B=two words;' '/opt/it'\''s/claude' --add-dir 'a b' '' '$(x)'"
        );
        assert_eq!(program.format_short(), "claude --add-dir 'a b' '' '$(x)'");
        let unquoted = NativeCommand {
            path: "/bin/codex".into(),
            args: vec!["resume".into(), "01a1-e0cf".into()],
            env: Vec::new(),
            cwd: "/src".into(),
        };
        assert_eq!(
            unquoted.to_shell_command(),
            "cd /src && /bin/codex resume 01a1-e0cf"
        );
    }

    #[test]
    fn a_shell_parses_quoted_words_unchanged() {
        for word in [
            "plain", "", "it's", "a b", "$HOME", "`x`", "\\", "\"", "a\nb", "-x", "~",
        ] {
            let script = format!("printf %s {}", quote_for_shell(word));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let missing_program = NativeCommand {
            path: "/nonexistent/agent".into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: "/".into(),
        };
        assert_eq!(missing_program.exec().kind(), io::ErrorKind::NotFound);
    }
}
