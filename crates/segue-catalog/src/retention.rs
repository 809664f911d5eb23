//! Sessions that agents will delete automatically.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

use jiff::Timestamp;

pub use segue_providers::retention::{
    AgeSource, Retention, RetentionLimits, SettingsDirs, provider_retention,
};

use crate::NativeSession;

/// Returns the sessions that the agent will have deleted at the time `deadline` if they are not used, each with the
/// time at which its retention period ends.
#[must_use]
pub fn list_due_sessions<'a>(
    limits: &RetentionLimits,
    sessions: &'a [NativeSession],
    deadline: Timestamp,
) -> Vec<(&'a NativeSession, Option<Timestamp>)> {
    let age = |session: &NativeSession| match limits.age_source {
        AgeSource::File => session.location.modified,
        AgeSource::Record => session.head.updated_at,
    };
    let mut newest_first: Vec<&NativeSession> = sessions.iter().collect();
    newest_first.sort_by_key(|session| Reverse(age(session)));
    let mut counts_by_project: HashMap<&Path, usize> = HashMap::new();
    let mut due = Vec::new();
    for session in newest_first {
        let project = session.location.path.parent().unwrap_or(Path::new(""));
        let rank = counts_by_project.entry(project).or_default();
        let expires_at = limits
            .period
            .and_then(|period| age(session).checked_add(period).ok());
        // The session for which the agent is started counts as one of the retained sessions.
        let too_many = limits
            .max_sessions
            .is_some_and(|max| *rank >= max.saturating_sub(1));
        *rank += 1;
        if too_many || expires_at.is_some_and(|expires_at| expires_at <= deadline) {
            due.push((session, expires_at));
        }
    }
    due
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use segue_core::id::{NativeId, ProviderId};

    use super::*;
    use crate::{IdHint, SessionHead, SessionLocation};

    #[test]
    fn old_and_surplus_sessions_are_due() {
        let at = |day: i64| Timestamp::from_second(day * 86_400).unwrap();
        let session = |id: &str, directory: &str, file: i64, record: i64| NativeSession {
            provider: ProviderId::claude(),
            location: SessionLocation {
                path: Path::new(directory).join(id),
                id_hint: IdHint::Complete(id.to_owned()),
                size: 1,
                modified: at(file),
                archived: false,
            },
            head: SessionHead::new(NativeId::parse(id).unwrap(), at(record)),
        };
        let sessions = [
            session("a", "/p", 100, 60),
            session("b", "/p", 70, 90),
            session("c", "/q", 69, 100),
            session("d", "/p", 71, 95),
        ];
        let limits = |period: Option<i64>, max_sessions, age_source| RetentionLimits {
            period: period.map(|days| SignedDuration::from_hours(days * 24)),
            max_sessions,
            path: None,
            age_source,
        };
        for (limits, deadline, expected) in [
            (limits(Some(30), None, AgeSource::File), 100, "bc"),
            (limits(Some(30), None, AgeSource::File), 101, "dbc"),
            (limits(Some(30), None, AgeSource::File), 98, ""),
            (limits(Some(30), None, AgeSource::Record), 100, "a"),
            (limits(None, Some(2), AgeSource::Record), 100, "ba"),
            (limits(None, Some(3), AgeSource::Record), 100, "a"),
            (limits(None, Some(1), AgeSource::Record), 100, "cdba"),
        ] {
            let due = list_due_sessions(&limits, &sessions, at(deadline));
            let due: Vec<&str> = due
                .iter()
                .map(|(session, _)| session.head.id.as_str())
                .collect();
            assert_eq!(due.concat(), expected, "{limits:?} at {deadline}");
        }
    }
}
