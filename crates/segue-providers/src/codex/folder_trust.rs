//! Trust decisions of the user about folders, and a configuration that stops Codex from recording one on its own.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toml::de::{DeTable, DeValue};

/// Returns `true` if the user's configuration declares `cwd` trusted or untrusted. Codex checks the folder itself and
/// the repository that contains it, but no folder between or above them.
pub(super) fn is_trust_decided(cwd: &Path, config: &str) -> bool {
    let repository = find_repository(cwd);
    let Some(config) = parse_config(config) else {
        return false;
    };
    [Some(cwd), repository.as_deref()]
        .into_iter()
        .flatten()
        .flat_map(|folder| [Some(folder.to_owned()), folder.canonicalize().ok()])
        .flatten()
        .any(|folder| {
            let path = ["projects", &folder.to_string_lossy(), "trust_level"];
            find_text(&config, &path).is_some()
        })
}

/// Returns the sandbox that the user's configuration sets.
pub(super) fn configured_sandbox(config: &str) -> Option<String> {
    let config = parse_config(config)?;
    let profile_sandbox = || {
        let profile = find_text(&config, &["profile"])?;
        find_text(&config, &["profiles", profile, "sandbox_mode"])
    };
    let sandbox = profile_sandbox().or_else(|| find_text(&config, &["sandbox_mode"]))?;
    Some(sandbox.to_owned())
}

/// Returns the configuration that stops Codex from recording that the user trusts `cwd`; `None` if the user has
/// decided. Codex records it whenever it may write in a folder without a decision.
pub(super) fn untrusted_project_config(cwd: &Path, config: &str) -> Option<Value> {
    let canonical_cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    let untrusted = || json!({ canonical_cwd.to_string_lossy(): {"trust_level": "untrusted"} });
    (!is_trust_decided(cwd, config)).then(untrusted)
}

fn parse_config(config: &str) -> Option<DeValue<'_>> {
    let table = DeTable::parse(config).ok()?;
    Some(DeValue::Table(table.into_inner()))
}

/// Returns the text at a path through tables.
fn find_text<'a>(config: &'a DeValue<'_>, path: &[&str]) -> Option<&'a str> {
    let value = path
        .iter()
        .try_fold(config, |table, name| Some(table.get(*name)?.get_ref()))?;
    value.as_str()
}

/// Returns the repository that contains a folder; for a linked worktree, the repository that it belongs to.
fn find_repository(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let root = folder.ancestors().find(|root| root.join(".git").exists())?;
    let git = root.join(".git");
    if git.is_dir() {
        return Some(root.to_owned());
    }
    let pointer = std::fs::read_to_string(&git).ok()?;
    let worktree_git_dir = root.join(pointer.trim().strip_prefix("gitdir:")?.trim());
    let worktree_git_dir = worktree_git_dir.canonicalize().ok()?;
    let worktrees_dir = worktree_git_dir
        .parent()
        .filter(|directory| directory.ends_with("worktrees"))?;
    worktrees_dir.parent()?.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_folder_and_its_repository_decide_about_trust() {
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
                let decided = is_trust_decided(&home.join(cwd), &config);
                assert_eq!(decided, expected, "{cwd}: {config}");
            }
        }
    }

    #[test]
    fn a_config_without_a_trust_level_is_no_decision() {
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
                untrusted_project_config(Path::new("/a"), config),
                Some(json!({"/a": {"trust_level": "untrusted"}})),
                "{config}"
            );
        }
        let decided = "[projects.\"/a\"]\ntrust_level = \"untrusted\"\n";
        assert_eq!(untrusted_project_config(Path::new("/a"), decided), None);
    }

    #[test]
    fn the_sandbox_of_the_active_profile_takes_precedence() {
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
            assert_eq!(configured_sandbox(config).as_deref(), expected, "{config}");
        }
    }
}
