//! Retention of Claude Code's sessions: `cleanupPeriodDays`, by default 30.
//!
//! At its start, Claude Code checks the sessions of all projects, not only of the project in which it was started. It
//! does not delete sessions of its desktop program. segue treats them like the others, because they are few.

use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use serde_json::Value;

use crate::reader::artifacts::list_directory;
use crate::reader::retention::{
    AgeSource, Retention, RetentionLimits, SettingsDirs, read_settings,
};

const DEFAULT_CLEANUP_PERIOD_DAYS: i64 = 30;
const CLEANUP_PERIOD_KEY: &str = "cleanupPeriodDays";

/// Returns the retention of Claude Code's sessions according to its settings. The first file that contains the setting
/// counts.
pub(crate) fn read_retention(directories: &SettingsDirs) -> Retention {
    let configured = settings_files(directories).into_iter().find_map(|path| {
        let value = read_settings(&path)?.get(CLEANUP_PERIOD_KEY)?.clone();
        Some((path, value))
    });
    let (path, days) = match configured {
        None => (None, DEFAULT_CLEANUP_PERIOD_DAYS),
        Some((path, value)) => match parse_days(&value) {
            Some(days) => (Some(path), days),
            // Claude Code deletes no sessions while a setting is invalid.
            None => return Retention::Paused { path },
        },
    };
    Retention::Limited(RetentionLimits {
        period: Some(SignedDuration::from_hours(days.saturating_mul(24))),
        max_sessions: None,
        path,
        age_source: AgeSource::File,
    })
}

fn parse_days(value: &Value) -> Option<i64> {
    // More than a thousand years means no limit.
    let days = value.as_i64().map(|days| days.min(400_000));
    days.filter(|days| *days > 0)
}

/// Returns the files of settings in the order of precedence.
fn settings_files(directories: &SettingsDirs) -> Vec<PathBuf> {
    let managed = directories.root.join(if cfg!(target_os = "macos") {
        "Library/Application Support/ClaudeCode"
    } else {
        "etc/claude-code"
    });
    let is_json = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    };
    let mut files = list_directory(&managed.join("managed-settings.d"));
    files.retain(is_json);
    // Later files override earlier ones.
    files.reverse();
    files.push(managed.join("managed-settings.json"));
    let project_file = |name: &str| directories.project.join(".claude").join(Path::new(name));
    files.push(project_file("settings.local.json"));
    files.push(project_file("settings.json"));
    files.push(directories.home.join("settings.json"));
    files
}
