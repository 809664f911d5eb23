//! Trust decisions of the user about folders, and a configuration that stops Codex from recording one on its own.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toml::de::{DeTable, DeValue};

/// Returns `true` if the user's configuration declares `cwd` trusted or untrusted. Codex checks the folder itself and
/// the repository that contains it, but no folder between or above them.
pub(super) fn is_decided(cwd: &Path, config: &str) -> bool {
    let repository = repository(cwd);
    let Some(config) = parsed(config) else {
        return false;
    };
    [Some(cwd), repository.as_deref()]
        .into_iter()
        .flatten()
        .flat_map(|folder| [Some(folder.to_owned()), folder.canonicalize().ok()])
        .flatten()
        .any(|folder| {
            let path = ["projects", &folder.to_string_lossy(), "trust_level"];
            text(&config, &path).is_some()
        })
}

/// Returns the sandbox that the user's configuration sets.
pub(super) fn sandbox(config: &str) -> Option<String> {
    let config = parsed(config)?;
    let of_profile = || {
        let profile = text(&config, &["profile"])?;
        text(&config, &["profiles", profile, "sandbox_mode"])
    };
    let sandbox = of_profile().or_else(|| text(&config, &["sandbox_mode"]))?;
    Some(sandbox.to_owned())
}

/// Returns the configuration that stops Codex from recording that the user trusts `cwd`; `None` if the user has
/// decided. Codex records it whenever it may write in a folder without a decision.
pub(super) fn none(cwd: &Path, config: &str) -> Option<Value> {
    let real = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    let untrusted = || json!({ real.to_string_lossy(): {"trust_level": "untrusted"} });
    (!is_decided(cwd, config)).then(untrusted)
}

fn parsed(config: &str) -> Option<DeValue<'_>> {
    let table = DeTable::parse(config).ok()?;
    Some(DeValue::Table(table.into_inner()))
}

/// Returns the text at a path through tables.
fn text<'a>(config: &'a DeValue<'_>, path: &[&str]) -> Option<&'a str> {
    let found = path
        .iter()
        .try_fold(config, |table, name| Some(table.get(*name)?.get_ref()))?;
    found.as_str()
}

/// Returns the repository that contains a folder; for a linked worktree, the repository that it belongs to.
fn repository(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let root = folder.ancestors().find(|root| root.join(".git").exists())?;
    let git = root.join(".git");
    if git.is_dir() {
        return Some(root.to_owned());
    }
    let pointer = std::fs::read_to_string(&git).ok()?;
    let own = root.join(pointer.trim().strip_prefix("gitdir:")?.trim());
    let own = own.canonicalize().ok()?;
    let all = own.parent().filter(|all| all.ends_with("worktrees"))?;
    all.parent()?.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_folder_and_its_repository_count() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::create_dir_all(home.join("repo/.git/worktrees/tree")).unwrap();
        fs::create_dir_all(home.join("repo/a/b")).unwrap();
        fs::create_dir(home.join("tree")).unwrap();
        let pointer = format!("gitdir: {}/repo/.git/worktrees/tree\n", home.display());
        fs::write(home.join("tree/.git"), pointer).unwrap();
        fs::create_dir(home.join("plain")).unwrap();
        std::os::unix::fs::symlink(home.join("repo"), home.join("link")).unwrap();
        let cases = [
            ("repo/a/b", "repo/a/b", true),
            ("repo/a/b", "repo", true),
            ("repo/a/b", "repo/a", false),
            ("repo/a/b", "", false),
            ("repo/a/b", "repo/a/b/c", false),
            ("repo", "repo", true),
            ("repo", "", false),
            ("repo", "rep", false),
            ("link", "repo", true),
            ("link", "link", true),
            ("tree", "repo", true),
            ("tree", "tree", true),
            ("plain", "plain", true),
            ("plain", "", false),
        ];
        for (cwd, project, expected) in cases {
            let project = home.join(project);
            let project = project.to_string_lossy();
            let project = project.trim_end_matches('/');
            let spellings = [
                format!("[projects.\"{project}\"]\ntrust_level = \"trusted\"\n"),
                format!("[projects]\n'{project}'.trust_level = 'untrusted'\n"),
                format!("projects = {{ \"{project}\" = {{ trust_level = \"trusted\" }} }}\n"),
                format!("projects.\"{project}\".trust_level = \"trusted\"\n"),
            ];
            for config in spellings {
                let decided = is_decided(&home.join(cwd), &config);
                assert_eq!(decided, expected, "{cwd}: {config}");
            }
        }
    }

    #[test]
    fn what_decides_nothing_is_no_decision() {
        let cases = [
            "",
            "[projects.\"/a\"]\n",
            "[projects.\"/a\"]\ncolour = \"red\"\n",
            "# [projects.\"/a\"]\n# trust_level = \"trusted\"\n",
            "note = '''\n[projects.\"/a\"]\ntrust_level = \"trusted\"'''\n",
            "[projects.\"/a\"\ntrust_level = \"trusted\"\n",
        ];
        for config in cases {
            assert_eq!(
                none(Path::new("/a"), config),
                Some(json!({"/a": {"trust_level": "untrusted"}})),
                "{config}"
            );
        }
        let decided = "[projects.\"/a\"]\ntrust_level = \"untrusted\"\n";
        assert_eq!(none(Path::new("/a"), decided), None);
    }

    #[test]
    fn the_sandbox_may_be_that_of_a_profile() {
        let cases = [
            ("", None),
            ("sandbox_mode = \"read-only\"\n", Some("read-only")),
            (
                "profile = \"p\"\n[profiles.p]\nsandbox_mode = \"workspace-write\"\n",
                Some("workspace-write"),
            ),
            (
                "sandbox_mode = \"read-only\"\nprofile = \"p\"\n[profiles.p]\nmodel = \"m\"\n",
                Some("read-only"),
            ),
            ("[profiles.p]\nsandbox_mode = \"workspace-write\"\n", None),
        ];
        for (config, expected) in cases {
            assert_eq!(sandbox(config).as_deref(), expected, "{config}");
        }
    }
}
