//! Retention of Gemini CLI's sessions: `general.sessionRetention`, by default 30 days.
//!
//! At every start, Gemini CLI checks the sessions of the project in which it is started.

use std::path::PathBuf;

use jiff::SignedDuration;
use serde_json::Value;

use crate::retention::{Age, Limits, Places, Retention, settings};

/// Minimum retention in hours, unless the settings contain another one.
const LEAST: i64 = 24;

/// Returns the retention of Gemini CLI's sessions according to its settings. Each value is read from the first file
/// that contains it.
pub(crate) fn retention(places: &Places) -> Retention {
    let files: Vec<(PathBuf, Value)> = files(places)
        .into_iter()
        .filter_map(|path| {
            let value = settings(&path)?;
            let said = value.get("general")?.get("sessionRetention")?.clone();
            Some((path, said))
        })
        .collect();
    let said = |key: &str| {
        let mut said = files.iter();
        said.find_map(|(path, value)| Some((path.clone(), value.get(key)?.clone())))
    };
    if said("enabled").is_some_and(|(_, enabled)| enabled != Value::Bool(true)) {
        return Retention::Never;
    }
    let mut path = None;
    let mut note = |said: Option<(PathBuf, Value)>| {
        said.map(|(from, value)| {
            path = Some(from);
            value
        })
    };
    let age = note(said("maxAge"));
    let count = note(said("maxCount"));
    let least = said("minRetention").and_then(|(_, text)| hours(text.as_str()?));
    let period = match &age {
        None => Some(30 * 24),
        // An empty text means no limit.
        Some(Value::String(text)) if text.is_empty() => None,
        Some(text) => match text.as_str().and_then(hours) {
            Some(hours) if hours >= least.unwrap_or(LEAST) => Some(hours),
            _ => return paused(path),
        },
    };
    let most = match count.as_ref().map(Value::as_i64) {
        None => None,
        Some(Some(count)) if count >= 1 => usize::try_from(count).ok(),
        Some(_) => return paused(path),
    };
    if period.is_none() && most.is_none() {
        return paused(path);
    }
    Retention::Limited(Limits {
        period: period.map(SignedDuration::from_hours),
        most,
        path,
        by: Age::Record,
    })
}

fn paused(path: Option<PathBuf>) -> Retention {
    Retention::Paused {
        path: path.unwrap_or_default(),
    }
}

/// Parses a period such as `30d`, `24h`, `2w`, or `1m` for thirty days. Returns hours.
fn hours(text: &str) -> Option<i64> {
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
fn files(places: &Places) -> Vec<PathBuf> {
    let system = places.root.join(if cfg!(target_os = "macos") {
        "Library/Application Support/GeminiCli"
    } else {
        "etc/gemini-cli"
    });
    vec![
        system.join("settings.json"),
        places.project.join(".gemini/settings.json"),
        places.home.join("settings.json"),
        system.join("system-defaults.json"),
    ]
}
