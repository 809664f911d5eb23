//! Rules for names, comments and commit subjects, as ordinary tests. CONTRIBUTING.md explains them.
//!
//! The tests read the code line by line, as rustfmt formats it, and skip test code.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tidy::{root, sources};

/// Words that must not open a comment: a comment opens with a verb or with the noun that it describes.
const COMMENT_OPENERS: &str = "\
    what how who whose whom whether where when why which whoever whatever wherever whichever whenever that it \
    its this these those they their them one ours theirs such likewise others another somebody someone something \
    nobody nothing anybody anything everybody everyone everything";

/// Function names that do not say what the function does.
const VAGUE_FUNCTIONS: &str = "\
    told tell tells telling say said says saying spoke hear heard hears know knows known knowing keep kept keeps \
    keeping hold held holds holding go_on goes_on goes_with gone come_after came there here elsewhere beside \
    place placed way ways piece pieces again bare having among whose noted named called asked asks shown written \
    worded counted in_words in_full in_short so_far whole usual real standing rest rests wake waits forgets \
    forget remember recall saw seen looks believe obey greet doom mend lose part part_ways hand_to give_back \
    let_go put_back put_away take_in take_up take_over take_aside take_back told_by told_first told_always of by \
    one other others apart about nothing none nobody untold marked titled headed chosen given carried described \
    adopted settled applied formed reminded replanned aged understood";

/// File names that do not say what the module contains.
const VAGUE_MODULES: &str = "\
    mod util utils helpers common misc manager tell told said noted heard retold forgot counted place places \
    pieces again here begin trail asking keep world touched piped when next step figure figures names links \
    written saved stored form units question choose sent sighting moved pasted desk front about aim play typed \
    order shelf shown odd shape surroundings old overlap fault find planted held plain tuned side stage hidden \
    asked talk since";

/// Modules that a later change moves or replaces, so their names and their content are not checked.
const LEGACY_MODULES: &[&str] = &[
    "segue-core/src/checkpoint/cues",
    "segue-core/src/checkpoint/said",
    "segue-core/src/checkpoint/voice",
    "segue-core/src/checkpoint/chat",
    "segue-core/src/checkpoint/everyday",
    "segue-core/src/checkpoint/goal",
    "segue-core/src/checkpoint/settled",
    "segue-core/src/checkpoint/withdrawn",
];

/// Crates and directories whose files keep their old names until they move.
const UNMOVED_DIRECTORIES: &[&str] = &["crates/segue-engine/src"];

/// Constants without an underscore that the name rule does not count.
const PLAIN_CONSTANTS: &[&str] = &["VERSION", "ALL", "SCHEMA"];

/// Maximum percentage of one-word constants.
const MAX_ONE_WORD_CONSTANTS_PERCENT: usize = 2;

/// Last commit whose subject is not checked; the subjects of all later commits follow the rule.
const LAST_UNCHECKED_COMMIT: &str = "9e0b6ef";

/// Returns `true` if a list of words contains a word.
fn has_word(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

/// A source file without its test code.
pub(crate) struct SourceFile {
    /// Path below the root of the workspace.
    pub(crate) path: String,
    pub(crate) lines: Vec<String>,
}

impl SourceFile {
    fn name(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.trim_end_matches(".rs")
    }

    fn is_legacy(&self) -> bool {
        LEGACY_MODULES.iter().any(|module| {
            self.path.contains(&format!("{module}.rs")) || self.path.contains(&format!("{module}/"))
        })
    }
}

/// Returns the source files of all crates, without tests, benchmarks, examples and legacy modules.
fn source_files() -> Vec<SourceFile> {
    let mut files = all_source_files();
    files.retain(|file| !file.is_legacy());
    files
}

/// Returns the source files of all crates, without tests, benchmarks and examples.
pub(crate) fn all_source_files() -> Vec<SourceFile> {
    let root = root();
    let mut paths = sources(&root.join("crates"));
    paths.extend(sources(&root.join("xtask")));
    let relative = |path: &Path| {
        path.strip_prefix(&root)
            .unwrap()
            .to_string_lossy()
            .into_owned()
    };
    let is_test = |path: &str| {
        [
            "/tests/",
            "/benches/",
            "/examples/",
            "/fixtures/",
            "/target/",
            "/contract",
        ]
        .iter()
        .any(|part| path.contains(part))
            || path.ends_with("/tests.rs")
    };
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let is_test_module = |pair: &[String]| {
            pair[0].trim() == "#[cfg(test)]"
                && pair[1].trim_start().starts_with("mod ")
                && pair[1].ends_with('{')
        };
        let end = lines.windows(2).position(is_test_module);
        let end = end.unwrap_or(lines.len());
        SourceFile {
            path: relative(path),
            lines: lines[..end].to_vec(),
        }
    };
    let mut files: Vec<SourceFile> = paths.iter().map(read).collect();
    files.retain(|file| !is_test(&file.path));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 300, "found {} source files", files.len());
    files
}

/// Returns the first words of a text, in lower case.
fn first_words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphabetic() && c != '\'');
    let words = words.filter(|word| !word.is_empty()).take(2);
    words.map(str::to_lowercase).collect()
}

/// Returns `true` if a line declares a field of type `bool`.
fn is_bool_field(line: &str) -> bool {
    let line = line.trim().trim_end_matches(',');
    line.ends_with(": bool") && !line.contains("fn ")
}

fn opens_badly(text: &str) -> bool {
    // A comment that opens with code or punctuation is about that code.
    if !text.starts_with(char::is_alphabetic) {
        return false;
    }
    let words = first_words(text);
    match words.as_slice() {
        [first, second, ..] if first == "the" => second == "same",
        [first, ..] => has_word(COMMENT_OPENERS, first),
        [] => false,
    }
}

/// Fails with the list of problems if it is not empty.
fn assert_none(problems: &[String], rule: &str) {
    assert!(problems.is_empty(), "{rule}:\n{}", problems.join("\n"));
}

#[test]
fn comments_open_with_a_verb_or_a_noun() {
    let mut problems = Vec::new();
    for file in source_files() {
        let mut previous_is_comment = false;
        for (index, line) in file.lines.iter().enumerate() {
            let line = line.trim();
            let is_comment = line.starts_with("//");
            if is_comment && !previous_is_comment {
                let text = line.trim_start_matches(['/', '!']).trim();
                let next_code = file.lines[index..]
                    .iter()
                    .map(|line| line.trim())
                    .find(|line| !line.starts_with("//") && !line.starts_with("#["));
                let describes_bool = first_words(text)
                    .first()
                    .is_some_and(|word| word == "whether")
                    && next_code.is_some_and(is_bool_field);
                if opens_badly(text) && !describes_bool {
                    problems.push(format!("{}:{}: {text}", file.path, index + 1));
                }
            }
            previous_is_comment = is_comment;
        }
    }
    assert_none(
        &problems,
        "a comment opens with a verb or with the noun that it describes",
    );
}

/// Returns the identifier after one of the keywords. `None` if the line declares none.
fn declared_name<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let mut remaining = line.trim_start();
    if let Some(after_pub) = remaining.strip_prefix("pub") {
        let after_pub = after_pub.trim_start();
        remaining = match after_pub.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1.trim_start(),
            None => after_pub,
        };
    }
    let is_function = keywords == ["fn"];
    for modifier in ["const ", "async ", "unsafe "] {
        if is_function {
            remaining = remaining.strip_prefix(modifier).unwrap_or(remaining);
        }
    }
    let declaration = keywords
        .iter()
        .find_map(|keyword| remaining.strip_prefix(keyword)?.strip_prefix(' '))?;
    let end = declaration.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &declaration[..end.unwrap_or(declaration.len())];
    (!name.is_empty()).then_some(name)
}

#[test]
fn functions_are_named_by_verb_and_object() {
    let mut problems = Vec::new();
    for file in source_files() {
        for (index, line) in file.lines.iter().enumerate() {
            let Some(name) = declared_name(line, &["fn"]) else {
                continue;
            };
            if has_word(VAGUE_FUNCTIONS, name) {
                problems.push(format!("{}:{}: fn {name}", file.path, index + 1));
            }
        }
    }
    assert_none(
        &problems,
        "a function is named by verb and object, or by the noun that it returns",
    );
}

#[test]
fn type_names_are_unique_in_the_workspace() {
    let mut locations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in source_files() {
        for (index, line) in file.lines.iter().enumerate() {
            if let Some(name) = declared_name(line, &["struct", "enum", "trait"]) {
                let location = format!("{}:{}", file.path, index + 1);
                locations.entry(name.to_owned()).or_default().push(location);
            }
        }
    }
    locations.retain(|_, lines| lines.len() > 1);
    let problems: Vec<String> = locations
        .iter()
        .map(|(name, lines)| format!("{name}: {}", lines.join(", ")))
        .collect();
    assert_none(&problems, "a type name is unique in the workspace");
}

#[test]
fn constants_are_noun_phrases() {
    let mut all = 0;
    let mut one_word = Vec::new();
    for file in source_files() {
        for (index, line) in file.lines.iter().enumerate() {
            let Some(name) = declared_name(line, &["const", "static"]) else {
                continue;
            };
            if name.chars().any(char::is_lowercase) || !name.starts_with(char::is_uppercase) {
                continue;
            }
            all += 1;
            if !name.contains('_') && !PLAIN_CONSTANTS.contains(&name) {
                one_word.push(format!("{}:{}: {name}", file.path, index + 1));
            }
        }
    }
    assert!(
        one_word.len() * 100 <= all * MAX_ONE_WORD_CONSTANTS_PERCENT,
        "{} of {all} constants have a name of one word:\n{}",
        one_word.len(),
        one_word.join("\n")
    );
}

#[test]
fn modules_are_named_by_their_content() {
    let mut problems = Vec::new();
    for file in source_files() {
        let is_unmoved = UNMOVED_DIRECTORIES
            .iter()
            .any(|directory| file.path.starts_with(directory));
        if has_word(VAGUE_MODULES, file.name()) && !is_unmoved {
            problems.push(file.path);
        }
    }
    assert_none(&problems, "a file is named by what it contains");
}

#[test]
fn commit_subjects_are_imperative() {
    const ARTICLES: [&str; 4] = ["a", "an", "the", "no"];
    let range = format!("{LAST_UNCHECKED_COMMIT}..HEAD");
    let output = Command::new("git")
        .args(["log", "--no-merges", "--format=%s", &range])
        .current_dir(root())
        .output();
    // A source archive or a shallow clone has no history to check.
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        return;
    };
    let subjects = String::from_utf8(output.stdout).unwrap();
    let is_valid = |subject: &&str| {
        let Some((area, change)) = subject.split_once(": ") else {
            return false;
        };
        let first = first_words(change).into_iter().next().unwrap_or_default();
        let is_opener = has_word(COMMENT_OPENERS, &first) || ARTICLES.contains(&first.as_str());
        !area.is_empty() && change.starts_with(char::is_lowercase) && !is_opener
    };
    let problems: Vec<String> = subjects
        .lines()
        .filter(|subject| !is_valid(subject))
        .map(str::to_owned)
        .collect();
    assert_none(&problems, "a commit subject is `area: imperative`");
}
