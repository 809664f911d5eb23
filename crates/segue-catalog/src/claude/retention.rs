//! When Claude Code deletes sessions: `cleanupPeriodDays`, 30 unless set.
//!
//! A sweep at its start goes over the sessions of all projects, whichever project it was started in. Sessions of its
//! desktop program are spared; they are few, and counted all the same.

use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use serde_json::Value;

use crate::belongings::entries;
use crate::retention::{Age, Limits, Places, Retention, settings};

const DAYS: i64 = 30;
const KEY: &str = "cleanupPeriodDays";

/// What Claude Code deletes, as its settings say. The first file that says anything counts.
pub(crate) fn retention(places: &Places) -> Retention {
    let said = files(places).into_iter().find_map(|path| {
        let said = settings(&path)?.get(KEY)?.clone();
        Some((path, said))
    });
    let (path, days) = match said {
        None => (None, DAYS),
        Some((path, said)) => match days(&said) {
            Some(days) => (Some(path), days),
            // It does not delete anything while a setting makes no sense.
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
    // More than a thousand years is for ever.
    let days = said.as_i64().map(|days| days.min(400_000));
    days.filter(|days| *days > 0)
}

/// The files of settings, the most important ones first.
fn files(places: &Places) -> Vec<PathBuf> {
    let managed = places.root.join(if cfg!(target_os = "macos") {
        "Library/Application Support/ClaudeCode"
    } else {
        "etc/claude-code"
    });
    let is_json = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    let mut files = entries(&managed.join("managed-settings.d"));
    files.retain(is_json);
    // Later ones say more than earlier ones.
    files.reverse();
    files.push(managed.join("managed-settings.json"));
    let project = |name: &str| places.project.join(".claude").join(Path::new(name));
    files.push(project("settings.local.json"));
    files.push(project("settings.json"));
    files.push(places.home.join("settings.json"));
    files
}
