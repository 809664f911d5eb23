//! Native sessions that agents will delete automatically, and the command that archives them.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use segue_catalog::retention::{self, Limits, Places, Retention};
use segue_catalog::{Archive, Catalog, NativeSession};
use segue_core::id::ProviderId;
use serde_json::{Value, json};

/// Number of days that the report looks ahead.
const AHEAD: i64 = 7;

/// Automatic deletion by an agent.
pub(super) struct Report {
    retention: Retention,
    /// Number of sessions that the agent will delete within these days and whose current state is not in the archive.
    due: usize,
    /// Number of sessions that the agent will delete within these days and that are in the archive.
    archived: usize,
}

/// Determines which sessions an agent will delete. `None` if its rules are unknown.
pub(super) fn look(
    agent: &ProviderId,
    natives: &[NativeSession],
    catalog: &Catalog,
    home: &Path,
) -> Option<Report> {
    let places = Places {
        home: catalog.home_of(agent)?.to_owned(),
        project: std::env::current_dir().unwrap_or_default(),
        root: PathBuf::from("/"),
    };
    let retention = retention::of(agent.as_str(), &places)?;
    let archive = Archive::open(home);
    let by = Timestamp::now().checked_add(SignedDuration::from_hours(AHEAD * 24));
    let due = match (&retention, by) {
        (Retention::Limited(limits), Ok(by)) => limits.due(natives, by),
        _ => Vec::new(),
    };
    let archived = due
        .iter()
        .filter(|(session, _)| catalog.is_saved(session, &archive));
    let archived = archived.count();
    Some(Report {
        due: due.len() - archived,
        archived,
        retention,
    })
}

pub(super) fn json(report: &Report) -> Value {
    let (limits, path) = match &report.retention {
        Retention::Never => (None, None),
        Retention::Paused { path } => (None, Some(path)),
        Retention::Limited(limits) => (Some(limits), limits.path.as_ref()),
    };
    json!({
        "deletes": limits.is_some(),
        "after_days": limits.and_then(days),
        "keeps_at_most": limits.and_then(|limits| limits.most),
        "set_in": path.map(|path| path.display().to_string()),
        "within_days": AHEAD,
        "due": report.due,
        "due_but_archived": report.archived,
    })
}

fn days(limits: &Limits) -> Option<i64> {
    limits.period.map(|period| period.as_hours() / 24)
}

pub(super) fn in_words(agent: &str, report: &Report) -> String {
    let limits = match &report.retention {
        Retention::Never => return "them until you delete them".to_owned(),
        Retention::Paused { path } => {
            return format!(
                "them, since it does not understand how long in {}",
                path.display()
            );
        }
        Retention::Limited(limits) => limits,
    };
    let mut kept = Vec::new();
    if let Some(period) = limits.period {
        let hours = period.as_hours();
        kept.push(match (hours % 24, hours / 24) {
            (0, 1) => "them for 1 day".to_owned(),
            (0, days) => format!("them for {days} days"),
            _ => format!("them for {hours} hours"),
        });
    }
    if let Some(most) = limits.most {
        kept.push(format!("at most {most} of a project"));
    }
    let kept = kept.join(", ");
    if report.due == 0 {
        return format!(
            "{kept}; none will be deleted within {AHEAD} days that is not in the archive"
        );
    }
    let keeper = agent.strip_prefix("acp:").unwrap_or(agent);
    let older = limits.period.map(|period| period.as_hours() - AHEAD * 24);
    let older = match (older, limits.most) {
        (Some(hours), None) if hours >= 24 => format!(" --older-than {}d", hours / 24),
        (Some(hours), None) if hours > 0 => format!(" --older-than {hours}h"),
        _ => String::new(),
    };
    format!(
        "{kept}; {} will be deleted within {AHEAD} days: `segue session archive --all{older} -p {keeper}` keeps them",
        report.due
    )
}

#[cfg(test)]
mod tests {
    use segue_catalog::retention::Age;

    use super::*;

    #[test]
    fn what_is_said_fits_what_is_done() {
        let limited = |hours: Option<i64>, most| {
            Retention::Limited(Limits {
                period: hours.map(SignedDuration::from_hours),
                most,
                path: None,
                by: Age::File,
            })
        };
        let cases = [
            (Retention::Never, 0, "them until you delete them"),
            (
                limited(Some(720), None),
                0,
                "them for 30 days; none will be deleted within 7 days that is not in the archive",
            ),
            (
                limited(Some(720), None),
                12,
                "them for 30 days; 12 will be deleted within 7 days: `segue session archive --all --older-than 23d -p claude` keeps them",
            ),
            (
                limited(Some(72), None),
                1,
                "them for 3 days; 1 will be deleted within 7 days: `segue session archive --all -p claude` keeps them",
            ),
            (
                limited(Some(180), Some(9)),
                2,
                "them for 180 hours, at most 9 of a project; 2 will be deleted within 7 days: `segue session archive --all -p claude` keeps them",
            ),
            (
                limited(Some(180), None),
                2,
                "them for 180 hours; 2 will be deleted within 7 days: `segue session archive --all --older-than 12h -p claude` keeps them",
            ),
        ];
        for (retention, due, expected) in cases {
            let report = Report {
                retention,
                due,
                archived: 0,
            };
            assert_eq!(in_words("claude", &report), expected);
        }
    }
}
