//! Retention of Claude Code's sessions: `cleanupPeriodDays`, by default 30.
//!
//! At its start, Claude Code checks the sessions of all projects, not only of the project in which it was started. It
//! does not delete sessions of its desktop program. segue treats them like the others, because they are few.

use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use serde_json::Value;

use crate::belongings::entries;
use crate::retention::{Age, Limits, Places, Retention, settings};

const DAYS: i64 = 30;
const KEY: &str = "cleanupPeriodDays";

/// Returns the retention of Claude Code's sessions according to its settings. The first file that contains the setting
/// counts.
pub(crate) fn retention(places: &Places) -> Retention {
    let said = files(places).into_iter().find_map(|path| {
        let said = settings(&path)?.get(KEY)?.clone();
        Some((path, said))
    });
    let (path, days) = match said {
        None => (None, DAYS),
        Some((path, said)) => match days(&said) {
            Some(days) => (Some(path), days),
            // Claude Code deletes no sessions while a setting is invalid.
            None => return Retention::Paused { path },
        },
    };
    Retention::Limited(Limits {
        period: Some(SignedDuration::from_hours(days.saturating_mul(24))),
        most: None,
        path,
        by: Age::File,
    })
}

fn days(said: &Value) -> Option<i64> {
    // More than a thousand years means no limit.
    let days = said.as_i64().map(|days| days.min(400_000));
    days.filter(|days| *days > 0)
}

/// Returns the files of settings in the order of precedence.
fn files(places: &Places) -> Vec<PathBuf> {
    let managed = places.root.join(if cfg!(target_os = "macos") {
        "Library/Application Support/ClaudeCode"
    } else {
        "etc/claude-code"
    });
    let is_json = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    let mut files = entries(&managed.join("managed-settings.d"));
    files.retain(is_json);
    // Later files override earlier ones.
    files.reverse();
    files.push(managed.join("managed-settings.json"));
    let project = |name: &str| places.project.join(".claude").join(Path::new(name));
    files.push(project("settings.local.json"));
    files.push(project("settings.json"));
    files.push(places.home.join("settings.json"));
    files
}
