//! Files that shell commands moved or removed, as far as the commands show it.

/// A move or a removal of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Moved {
    /// The file was moved or renamed.
    To { from: String, to: String },
    /// The file was removed.
    Away(String),
}

impl Moved {
    /// Returns the original path of the file.
    pub(super) fn from(&self) -> &str {
        match self {
            Self::To { from, .. } | Self::Away(from) => from,
        }
    }
}

/// Returns the files that the commands in a line moved or removed. Skips commands with a pattern or a variable in a
/// path, because its value is unknown.
pub(super) fn moved(line: &str) -> Vec<Moved> {
    let commands = line.split([';', '&', '|']);
    commands.flat_map(by_one).collect()
}

fn by_one(command: &str) -> Vec<Moved> {
    let mut words = command.split_whitespace().peekable();
    words.next_if_eq(&"git");
    let verb = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    if words.contains(&"--cached") {
        return Vec::new();
    }
    let paths = words.into_iter().filter(|word| !word.starts_with('-'));
    let paths: Option<Vec<&str>> = paths.map(plain).collect();
    match (verb, paths.unwrap_or_default().as_slice()) {
        ("mv", [from, to]) if is_file(from) => {
            let name = from.rsplit('/').next().unwrap_or(from);
            let to = match to.trim_end_matches('/') {
                "." => name.to_owned(),
                directory if *to != directory || !is_file(to) => format!("{directory}/{name}"),
                file => file.to_owned(),
            };
            let from = (*from).to_owned();
            vec![Moved::To { from, to }]
        }
        ("rm", files) => {
            let files = files.iter().filter(|path| is_file(path));
            files.map(|path| Moved::Away((*path).to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns a path without quotation marks and without `./`; `None` if the shell would expand it.
fn plain(word: &str) -> Option<&str> {
    let quoted = |mark: char| word.strip_prefix(mark)?.strip_suffix(mark);
    let word = quoted('\'').or_else(|| quoted('"')).unwrap_or(word);
    let word = word.strip_prefix("./").unwrap_or(word);
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@~".contains(c);
    (!word.is_empty() && word.chars().all(is_plain)).then_some(word)
}

/// Returns `true` if a path has a file extension.
fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.trim_start_matches('.').rsplit_once('.');
    ending.is_some_and(|(_, ending)| !ending.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_tells_what_it_moved() {
        let to = |from: &str, to: &str| Moved::To {
            from: from.into(),
            to: to.into(),
        };
        let away = |path: &str| Moved::Away(path.into());
        for (line, expected) in [
            ("git mv a.py b/c.py", vec![to("a.py", "b/c.py")]),
            (
                "mv -f ./src/a.rs src/old/",
                vec![to("src/a.rs", "src/old/a.rs")],
            ),
            ("mv a.rs old", vec![to("a.rs", "old/a.rs")]),
            ("mv x/a.rs .", vec![to("x/a.rs", "a.rs")]),
            (
                "mkdir b && git mv 'a.py' b/a.py; rm -f c.py d.py",
                vec![to("a.py", "b/a.py"), away("c.py"), away("d.py")],
            ),
            ("git rm -q a.rs", vec![away("a.rs")]),
            // A file that git no longer tracks still exists.
            ("git rm --cached a.rs", vec![]),
            ("rm -rf target", vec![]),
            ("rm *.rs", vec![]),
            ("mv $A b.rs", vec![]),
            ("mv a.rs b.rs c", vec![]),
            ("git commit -m 'mv a.rs b.rs'", vec![]),
            ("echo mv a.rs b.rs", vec![]),
        ] {
            assert_eq!(moved(line), expected, "{line}");
        }
    }
}
