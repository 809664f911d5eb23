//! Native sessions that agents will delete automatically, and the command that archives them.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use segue_api::doctor::RetentionDiagnosis;
use segue_catalog::retention::{self, Retention, RetentionLimits, SettingsDirs};
use segue_catalog::{Archive, Catalog, NativeSession};
use segue_core::id::ProviderId;

use crate::json_output::path_json;
use crate::terminal::format_plural;

/// Number of days that the report looks ahead.
const LOOKAHEAD_DAYS: i64 = 7;

/// Automatic deletion by an agent.
pub(super) struct RetentionReport {
    retention: Retention,
    /// Number of sessions that the agent will delete within these days and whose current state is not in the archive.
    due_count: usize,
    /// Number of sessions that the agent will delete within these days and that are in the archive.
    archived_count: usize,
}

/// Determines which sessions an agent will delete. `None` if its rules are unknown.
pub(super) fn build_report(
    agent: &ProviderId,
    natives: &[NativeSession],
    catalog: &Catalog,
    home: &Path,
) -> Option<RetentionReport> {
    let settings_dirs = SettingsDirs {
        home: catalog.provider_home(agent)?.to_owned(),
        project: std::env::current_dir().unwrap_or_default(),
        root: PathBuf::from("/"),
    };
    let retention = retention::provider_retention(agent.as_str(), &settings_dirs)?;
    let archive = Archive::open(home);
    let deadline = Timestamp::now().checked_add(SignedDuration::from_hours(LOOKAHEAD_DAYS * 24));
    let due_sessions = match (&retention, deadline) {
        (Retention::Limited(limits), Ok(deadline)) => {
            retention::list_due_sessions(limits, natives, deadline)
        }
        _ => Vec::new(),
    };
    let archived_sessions = due_sessions
        .iter()
        .filter(|(session, _)| catalog.is_archived(session, &archive));
    let archived_count = archived_sessions.count();
    Some(RetentionReport {
        due_count: due_sessions.len() - archived_count,
        archived_count,
        retention,
    })
}

pub(super) fn to_json(report: &RetentionReport) -> RetentionDiagnosis {
    let (limits, path) = match &report.retention {
        Retention::Unlimited => (None, None),
        Retention::Paused { path } => (None, Some(path)),
        Retention::Limited(limits) => (Some(limits), limits.path.as_ref()),
    };
    RetentionDiagnosis {
        deletes: limits.is_some(),
        after_days: limits.and_then(retention_days),
        keeps_at_most: limits.and_then(|limits| limits.max_sessions),
        set_in: path.map(|path| path_json(path)),
        within_days: LOOKAHEAD_DAYS,
        due: report.due_count,
        due_but_archived: report.archived_count,
    }
}

fn retention_days(limits: &RetentionLimits) -> Option<i64> {
    limits.period.map(|period| period.as_hours() / 24)
}

pub(super) fn format_report(agent: &str, report: &RetentionReport) -> String {
    let limits = match &report.retention {
        Retention::Unlimited => return "until you delete them".to_owned(),
        Retention::Paused { path } => {
            return format!(
                "unlimited, because the agent cannot parse the setting in {}",
                path.display()
            );
        }
        Retention::Limited(limits) => limits,
    };
    let mut rules = Vec::new();
    if let Some(period) = limits.period {
        let hours = period.as_hours();
        rules.push(match (hours % 24, hours / 24) {
            (0, 1) => "1 day".to_owned(),
            (0, days) => format!("{days} days"),
            _ => format!("{hours} hours"),
        });
    }
    if let Some(max_sessions) = limits.max_sessions {
        rules.push(format!("at most {max_sessions} per project"));
    }
    let rules = rules.join(", ");
    if report.due_count == 0 {
        return format!(
            "{rules}; no unarchived session will be deleted within {LOOKAHEAD_DAYS} days"
        );
    }
    let native_provider = agent.strip_prefix("acp:").unwrap_or(agent);
    let min_age_hours = limits
        .period
        .map(|period| period.as_hours() - LOOKAHEAD_DAYS * 24);
    let age_option = match (min_age_hours, limits.max_sessions) {
        (Some(hours), None) if hours >= 24 => format!(" --older-than {}d", hours / 24),
        (Some(hours), None) if hours > 0 => format!(" --older-than {hours}h"),
        _ => String::new(),
    };
    format!(
        "{rules}; {} will be deleted within {LOOKAHEAD_DAYS} days: run `segue session archive --all{age_option} \
         -p {native_provider}` to keep copies",
        format_plural(report.due_count as u64, "session")
    )
}

#[cfg(test)]
mod tests {
    use segue_catalog::retention::AgeSource;

    use super::*;

    #[test]
    fn the_report_names_the_limits_and_the_archive_command() {
        let limited = |hours: Option<i64>, max_sessions| {
            Retention::Limited(RetentionLimits {
                period: hours.map(SignedDuration::from_hours),
                max_sessions,
                path: None,
                age_source: AgeSource::File,
            })
        };
        let cases = [
            (Retention::Unlimited, 0, "until you delete them"),
            (
                limited(Some(720), None),
                0,
                "30 days; no unarchived session will be deleted within 7 days",
            ),
            (
                limited(Some(720), None),
                12,
                "30 days; 12 sessions will be deleted within 7 days: run `segue session archive --all \
                 --older-than 23d -p claude` to keep copies",
            ),
            (
                limited(Some(72), None),
                1,
                "3 days; 1 session will be deleted within 7 days: run `segue session archive --all \
                 -p claude` to keep copies",
            ),
            (
                limited(Some(180), Some(9)),
                2,
                "180 hours, at most 9 per project; 2 sessions will be deleted within 7 days: run \
                 `segue session archive --all -p claude` to keep copies",
            ),
            (
                limited(Some(180), None),
                2,
                "180 hours; 2 sessions will be deleted within 7 days: run `segue session archive --all \
                 --older-than 12h -p claude` to keep copies",
            ),
        ];
        for (retention, due_count, expected) in cases {
            let report = RetentionReport {
                retention,
                due_count,
                archived_count: 0,
            };
            assert_eq!(format_report("claude", &report), expected);
        }
    }
}
