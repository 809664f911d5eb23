//! Files that shell commands moved or removed, as far as the commands show it.

/// A move or a removal of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileMove {
    /// The file was moved or renamed.
    Moved { from: String, to: String },
    /// The file was removed.
    Removed(String),
}

impl FileMove {
    /// Returns the original path of the file.
    pub(super) fn old_path(&self) -> &str {
        match self {
            Self::Moved { from, .. } | Self::Removed(from) => from,
        }
    }
}

/// Returns the files that the commands in a line moved or removed. Skips commands with a pattern or a variable in a
/// path, because its value is unknown.
pub(super) fn parse_file_moves(line: &str) -> Vec<FileMove> {
    let commands = line.split([';', '&', '|']);
    commands.flat_map(parse_command).collect()
}

fn parse_command(command: &str) -> Vec<FileMove> {
    let mut words = command.split_whitespace().peekable();
    words.next_if_eq(&"git");
    let verb = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    if words.contains(&"--cached") {
        return Vec::new();
    }
    let paths = words.into_iter().filter(|word| !word.starts_with('-'));
    let paths: Option<Vec<&str>> = paths.map(literal_path).collect();
    match (verb, paths.unwrap_or_default().as_slice()) {
        ("mv", [from, to]) if has_extension(from) => {
            let name = from.rsplit('/').next().unwrap_or(from);
            let to = match to.trim_end_matches('/') {
                "." => name.to_owned(),
                directory if *to != directory || !has_extension(to) => {
                    format!("{directory}/{name}")
                }
                file => file.to_owned(),
            };
            let from = (*from).to_owned();
            vec![FileMove::Moved { from, to }]
        }
        ("rm", files) => {
            let files = files.iter().filter(|path| has_extension(path));
            files
                .map(|path| FileMove::Removed((*path).to_owned()))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Returns a path without quotation marks and without `./`; `None` if the shell would expand it.
fn literal_path(word: &str) -> Option<&str> {
    let unquoted = |mark: char| word.strip_prefix(mark)?.strip_suffix(mark);
    let word = unquoted('\'').or_else(|| unquoted('"')).unwrap_or(word);
    let word = word.strip_prefix("./").unwrap_or(word);
    let is_literal = |c: char| c.is_alphanumeric() || "/._-+@~".contains(c);
    (!word.is_empty() && word.chars().all(is_literal)).then_some(word)
}

/// Returns `true` if a path has a file extension.
fn has_extension(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let extension = name.trim_start_matches('.').rsplit_once('.');
    extension.is_some_and(|(_, extension)| !extension.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_moves_are_parsed_from_commands() {
        let file_move = |from: &str, to: &str| FileMove::Moved {
            from: from.into(),
            to: to.into(),
        };
        let removal = |path: &str| FileMove::Removed(path.into());
        for (line, expected) in [
            ("git mv a.py b/c.py", vec![file_move("a.py", "b/c.py")]),
            (
                "mv -f ./src/a.rs src/old/",
                vec![file_move("src/a.rs", "src/old/a.rs")],
            ),
            ("mv a.rs old", vec![file_move("a.rs", "old/a.rs")]),
            ("mv x/a.rs .", vec![file_move("x/a.rs", "a.rs")]),
            (
                "mkdir b && git mv 'a.py' b/a.py; rm -f c.py d.py",
                vec![
                    file_move("a.py", "b/a.py"),
                    removal("c.py"),
                    removal("d.py"),
                ],
            ),
            ("git rm -q a.rs", vec![removal("a.rs")]),
            // A file that git no longer tracks still exists.
            ("git rm --cached a.rs", vec![]),
            ("rm -rf target", vec![]),
            ("rm *.rs", vec![]),
            ("mv $A b.rs", vec![]),
            ("mv a.rs b.rs c", vec![]),
            ("git commit -m 'mv a.rs b.rs'", vec![]),
            ("echo mv a.rs b.rs", vec![]),
        ] {
            assert_eq!(parse_file_moves(line), expected, "{line}");
        }
    }
}
