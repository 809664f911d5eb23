//! Detection of commands that only read.

/// Programs that can neither write a file nor start another program, whatever their arguments are.
const READ_ONLY_PROGRAMS: &[&str] = &[
    "cat", "head", "tail", "ls", "nl", "wc", "pwd", "grep", "stat",
];

/// Returns `true` if a script only reads. Codex's own classification is not sufficient: it calls `find -delete` a
/// "search", `ls | xargs touch` "list files", and `cat a | tee b` a "read".
pub(super) fn is_read_only(script: &str) -> bool {
    let is_harmless = |c: char| c.is_ascii_alphanumeric() || " ./_-,:=@%+*".contains(c);
    let program = script.split(' ').next().unwrap_or_default();
    script.chars().all(is_harmless) && READ_ONLY_PROGRAMS.contains(&program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scripts_of_read_only_programs_are_read_only() {
        let cases = [
            ("cat README.md", true),
            ("head -n 3 README.md", true),
            ("ls -la", true),
            ("grep -rn A .", true),
            ("cat README.md | tee out", false),
            ("ls | xargs touch", false),
            ("cd / && ls", false),
            ("find . -delete", false),
            ("rg --pre touch A", false),
            ("git grep -O/bin/sh x", false),
            ("tree -o x", false),
            ("awk 1 README.md", false),
            ("cat a > b", false),
            ("cat $(touch x)", false),
            ("cat a\ntouch b", false),
            ("touch made.txt", false),
            ("", false),
        ];
        for (script, expected) in cases {
            assert_eq!(is_read_only(script), expected, "{script}");
        }
    }
}
