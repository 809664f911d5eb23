//! Handover of the terminal from segue to an agent's own program.
//!
//! The program has no leash: after the handover it belongs to the user, as if the user had started it.

use std::fmt::Write;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use segue_core::id::NativeId;

/// Returns the arguments with which an agent's own program resumes a native session; `None` if they are unknown.
#[must_use]
pub fn resume_args(provider: &str, id: &NativeId) -> Option<[String; 2]> {
    let how = match provider {
        "claude" | "gemini" => "--resume",
        "codex" => "resume",
        "opencode" => "--session",
        _ => return None,
    };
    Some([how.to_owned(), id.to_string()])
}

/// Returns the command with which the user restores a native session that its agent archived; `None` if it is unknown.
#[must_use]
pub fn unarchive_command(provider: &str, id: &NativeId) -> Option<String> {
    (provider == "codex").then(|| format!("codex unarchive {id}"))
}

/// An agent's own program, ready to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnProgram {
    /// Path of the program.
    pub path: PathBuf,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Variables that are added to segue's own environment.
    pub env: Vec<(String, String)>,
    /// Working directory of the program.
    pub cwd: PathBuf,
}

impl OwnProgram {
    /// Returns the shell command that starts the program. Quotes names with special characters.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!("cd {} &&", quoted(&self.cwd.to_string_lossy()));
        if !self.env.is_empty() {
            line.push_str(" env");
        }
        for (name, value) in &self.env {
            let _ = write!(line, " {}", quoted(&format!("{name}={value}")));
        }
        let _ = write!(line, " {}", self.command(&self.path));
        line
    }

    /// Returns the program by its file name, with its arguments, for the user to read.
    #[must_use]
    pub fn in_short(&self) -> String {
        self.command(self.path.file_name().map_or(self.path.as_path(), Path::new))
    }

    fn command(&self, program: &Path) -> String {
        let mut line = quoted(&program.to_string_lossy());
        for arg in &self.args {
            line.push(' ');
            line.push_str(&quoted(arg));
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
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_is_told_in_its_own_way() {
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
            let expected = expected.map(|args| args.map(str::to_owned));
            assert_eq!(resume_args(provider, &id), expected, "{provider}");
        }
    }

    #[test]
    fn a_line_means_the_same_to_a_shell() {
        let program = OwnProgram {
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
            program.line(),
            r"cd '/src/my app' && env A=1 'B=two words;' '/opt/it'\''s/claude' --add-dir 'a b' '' '$(x)'"
        );
        assert_eq!(program.in_short(), "claude --add-dir 'a b' '' '$(x)'");
        let plain = OwnProgram {
            path: "/bin/codex".into(),
            args: vec!["resume".into(), "01a1-e0cf".into()],
            env: Vec::new(),
            cwd: "/src".into(),
        };
        assert_eq!(plain.line(), "cd /src && /bin/codex resume 01a1-e0cf");
    }

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for word in [
            "plain", "", "it's", "a b", "$HOME", "`x`", "\\", "\"", "a\nb", "-x", "~",
        ] {
            let script = format!("printf %s {}", quoted(word));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let nowhere = OwnProgram {
            path: "/nonexistent/agent".into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: "/".into(),
        };
        assert_eq!(nowhere.exec().kind(), io::ErrorKind::NotFound);
    }
}
