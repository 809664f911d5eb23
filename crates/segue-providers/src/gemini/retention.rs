//! Retention of Gemini CLI's sessions: `general.sessionRetention`, by default 30 days.
//!
//! At every start, Gemini CLI checks the sessions of the project in which it is started.

use std::path::PathBuf;

use jiff::SignedDuration;
use serde_json::Value;

use crate::reader::retention::{
    AgeSource, Retention, RetentionLimits, SettingsDirs, read_settings,
};

/// Minimum retention in hours, unless the settings contain another one.
const DEFAULT_MIN_RETENTION_HOURS: i64 = 24;

/// Returns the retention of Gemini CLI's sessions according to its settings. Each value is read from the first file
/// that contains it.
pub(crate) fn read_retention(directories: &SettingsDirs) -> Retention {
    let files: Vec<(PathBuf, Value)> = settings_files(directories)
        .into_iter()
        .filter_map(|path| {
            let value = read_settings(&path)?;
            let section = value.get("general")?.get("sessionRetention")?.clone();
            Some((path, section))
        })
        .collect();
    let find_setting = |key: &str| {
        let mut sections = files.iter();
        sections.find_map(|(path, value)| Some((path.clone(), value.get(key)?.clone())))
    };
    if find_setting("enabled").is_some_and(|(_, enabled)| enabled != Value::Bool(true)) {
        return Retention::Unlimited;
    }
    let mut path = None;
    let mut value_with_path = |setting: Option<(PathBuf, Value)>| {
        setting.map(|(from, value)| {
            path = Some(from);
            value
        })
    };
    let age = value_with_path(find_setting("maxAge"));
    let count = value_with_path(find_setting("maxCount"));
    let min_hours = find_setting("minRetention").and_then(|(_, text)| parse_hours(text.as_str()?));
    let period = match &age {
        None => Some(30 * 24),
        // An empty text means no limit.
        Some(Value::String(text)) if text.is_empty() => None,
        Some(text) => match text.as_str().and_then(parse_hours) {
            Some(hours) if hours >= min_hours.unwrap_or(DEFAULT_MIN_RETENTION_HOURS) => Some(hours),
            _ => return paused_retention(path),
        },
    };
    let max_count = match count.as_ref().map(Value::as_i64) {
        None => None,
        Some(Some(count)) if count >= 1 => usize::try_from(count).ok(),
        Some(_) => return paused_retention(path),
    };
    if period.is_none() && max_count.is_none() {
        return paused_retention(path);
    }
    Retention::Limited(RetentionLimits {
        period: period.map(SignedDuration::from_hours),
        max_sessions: max_count,
        path,
        age_source: AgeSource::Record,
    })
}

fn paused_retention(path: Option<PathBuf>) -> Retention {
    Retention::Paused {
        path: path.unwrap_or_default(),
    }
}

/// Parses a period such as `30d`, `24h`, `2w`, or `1m` for thirty days. Returns hours.
fn parse_hours(text: &str) -> Option<i64> {
    let unit = text.chars().next_back()?;
    let hours = match unit {
        'h' => 1,
        'd' => 24,
        'w' => 7 * 24,
        'm' => 30 * 24,
        _ => return None,
    };
    let number = text.strip_suffix(unit)?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = number.parse().ok().filter(|number| digits && *number > 0)?;
    // More than a thousand years means no limit.
    Some(number.checked_mul(hours)?.min(9_000_000))
}

/// Returns the files of settings in the order of precedence.
fn settings_files(directories: &SettingsDirs) -> Vec<PathBuf> {
    let system = directories.root.join(if cfg!(target_os = "macos") {
        "Library/Application Support/GeminiCli"
    } else {
        "etc/gemini-cli"
    });
    vec![
        system.join("settings.json"),
        directories.project.join(".gemini/settings.json"),
        directories.home.join("settings.json"),
        system.join("system-defaults.json"),
    ]
}
