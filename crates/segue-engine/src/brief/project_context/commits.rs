//! Newest commits of a project, listed by the git program.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use segue_core::brief::{Commit, excerpt};

/// Maximum number of commits in a context.
const MAX_COMMITS: &str = "10";

/// Timeout of git, which reads only ten commits.
const GIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Environment variables that direct git to another repository. They are removed, because a git hook sets them for the
/// repository in which it runs.
const GIT_LOCATION_VARIABLES: [&str; 4] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
];

/// Lists the newest commits of a repository, newest first. Empty if `root` is no repository or has no commits. The
/// error is the reason why git cannot list them.
pub(super) async fn list_newest_commits(
    git: Option<&Path>,
    root: &Path,
) -> Result<Vec<Commit>, String> {
    if !segue_catalog::is_work_tree_root(root) {
        return Ok(Vec::new());
    }
    let Some(git) = git else {
        return Err("cannot list commits: git not found".to_owned());
    };
    let mut command = tokio::process::Command::new(git);
    command
        .args(["--no-pager", "--no-optional-locks"])
        .args(["-c", "log.showSignature=false", "log", "--no-color", "-n"])
        .args([MAX_COMMITS, "-z", "--abbrev=7"])
        .arg("--format=%h%x1f%an%x1f%aI%x1f%s")
        .current_dir(root)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    for name in GIT_LOCATION_VARIABLES {
        command.env_remove(name);
    }
    let output = match tokio::time::timeout(GIT_TIMEOUT, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(format!("cannot run git: {error}")),
        Err(_) => return Err("cannot list commits: git did not answer in time".to_owned()),
    };
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        // A repository without commits is not an error.
        if stderr.contains("does not have any commits yet") {
            return Ok(Vec::new());
        }
        let first_line = stderr.lines().next().unwrap_or("no error message");
        return Err(format!(
            "cannot list commits: git failed: {}",
            excerpt(first_line, 200)
        ));
    }
    Ok(parse_commits(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses the output of git: commits that end with a NUL, each with four fields.
fn parse_commits(output: &str) -> Vec<Commit> {
    let commits = output.split('\0').filter_map(|commit| {
        let mut fields = commit.trim_start_matches('\n').splitn(4, '\u{1f}');
        let mut next = || fields.next().map(|field| excerpt(field, 200).to_owned());
        Some(Commit {
            hash: next().filter(|hash| !hash.is_empty())?,
            author: next()?,
            date: next()?,
            message: next()?,
        })
    });
    commits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_git_is_parsed() {
        let output = "abc1234\u{1f}Ann\u{1f}2026-11-16T10:00:00+01:00\u{1f}a: b\u{1f}c\0\
                       def5678\u{1f}\u{1f}2026-11-15T10:00:00Z\u{1f}\0";
        let commits = parse_commits(output);
        let fields: Vec<[&str; 4]> = commits
            .iter()
            .map(|commit| {
                let Commit {
                    hash,
                    message,
                    author,
                    date,
                } = commit;
                [hash, author, date, message].map(String::as_str)
            })
            .collect();
        assert_eq!(
            fields,
            [
                ["abc1234", "Ann", "2026-11-16T10:00:00+01:00", "a: b\u{1f}c"],
                ["def5678", "", "2026-11-15T10:00:00Z", ""],
            ]
        );
        for malformed in ["", "\0", "garbage", "a\u{1f}b"] {
            assert_eq!(parse_commits(malformed), [], "{malformed:?}");
        }
    }
}
