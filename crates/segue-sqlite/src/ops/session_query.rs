//! Queries for sessions: by a filter, or by a reference that the user typed.

use rusqlite::params_from_iter;
use rusqlite::types::Value;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{MatchedBy, RefCandidate};
use segue_store::{PageCursor, PageRequest, SessionFilter, SessionPage, SessionStamp};

use super::OpResult;
use crate::connection::Db;
use crate::rows::{self, to_micros};

pub(crate) fn list_sessions(
    db: &Db,
    filter: &SessionFilter,
    page: &PageRequest,
) -> OpResult<SessionPage> {
    let (sql, values) = build_statement(filter, page);
    let sessions = db
        .prepare_cached(&sql)?
        .query_map(params_from_iter(values), |row| rows::read_session(db, row))?
        .collect::<Result<_, _>>()?;
    Ok(SessionPage::from_sessions(sessions, page.limit))
}

/// Returns the index for a query by project and purpose. SQLite's planner would scan all sessions of the project
/// instead, because that index also gives the order. `None` if the filter has no project or no purpose.
fn purpose_index(filter: &SessionFilter) -> Option<&'static str> {
    match (&filter.project, &filter.purpose, &filter.provider) {
        (Some(_), Some(_), Some(_)) => Some("sessions_by_purpose_and_provider"),
        (Some(_), Some(_), None) => Some("sessions_by_purpose"),
        (_, None, _) | (None, ..) => None,
    }
}

fn build_statement(filter: &SessionFilter, page: &PageRequest) -> (String, Vec<Value>) {
    let mut clauses: Vec<&str> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    let mut add_clause = |clause, value: Value| {
        clauses.push(clause);
        values.push(value);
    };
    if let Some(key) = &filter.project {
        add_clause(
            "s.project_id = (SELECT id FROM projects WHERE key = ?)",
            key.clone().into(),
        );
    }
    if let Some(cwd) = &filter.cwd {
        add_clause("s.cwd = ?", cwd.clone().into());
    }
    if let Some(provider) = &filter.provider {
        add_clause("s.provider = ?", provider.to_string().into());
    }
    if let Some(purpose) = &filter.purpose {
        add_clause("s.purpose = ?", purpose.key().into());
    }
    if let Some(feature) = &filter.feature {
        add_clause("s.feature = ?", feature.to_string().into());
    }
    if let Some(task) = &filter.task {
        add_clause("s.task = ?", task.to_string().into());
    }
    if let Some(role) = &filter.role {
        add_clause("s.role = ?", role.to_string().into());
    }
    for tag in &filter.tags {
        add_clause(
            "EXISTS (SELECT 1 FROM tags g WHERE g.session_id = s.id AND g.name = ?)",
            tag.to_string().into(),
        );
    }
    if let Some(since) = filter.since {
        add_clause("s.updated_at >= ?", to_micros(since).into());
    }
    if let Some(PageCursor { updated_at, id }) = &page.after {
        add_clause(
            "(s.updated_at, s.id) < (?, ?)",
            to_micros(*updated_at).into(),
        );
        values.push(id.to_string().into());
    }
    let condition = if clauses.is_empty() {
        "1".to_owned()
    } else {
        clauses.join(" AND ")
    };
    // A row above the limit shows that a next page exists.
    values.push((i64::from(page.limit) + 1).into());
    let sql = format!(
        "{} WHERE {condition} ORDER BY s.updated_at DESC, s.id DESC LIMIT ?",
        rows::session_query_with_index(purpose_index(filter))
    );
    (sql, values)
}

/// Maximum number of candidates per kind of match; a reference with more matches is ambiguous in any case.
const MAX_CANDIDATES_PER_KIND: i64 = 20;

pub(crate) fn list_ref_candidates(db: &Db, text: &str) -> OpResult<Vec<RefCandidate>> {
    // Ids are ASCII, so every id that starts with `text` is less than `text` followed by the last ASCII character.
    let prefix_end = format!("{text}\u{7f}");
    let mut candidates = Vec::new();
    let mut collect_matches = |matched_by, sql: &str, values: &[&str]| -> OpResult<()> {
        let mut statement = db.prepare_cached(&format!("{sql} LIMIT {MAX_CANDIDATES_PER_KIND}"))?;
        let ids = statement.query_map(params_from_iter(values), |row| {
            rows::read_parsed::<SessionId>(row, 0)
        })?;
        for id in ids {
            candidates.push(RefCandidate {
                id: id?,
                matched_by,
            });
        }
        Ok(())
    };
    collect_matches(
        MatchedBy::Id,
        "SELECT id FROM sessions WHERE id = ?",
        &[text],
    )?;
    collect_matches(
        MatchedBy::NativeId,
        "SELECT session_id FROM legs WHERE native_id = ?",
        &[text],
    )?;
    collect_matches(
        MatchedBy::Alias,
        "SELECT session_id FROM origins WHERE name = ?",
        &[text],
    )?;
    collect_matches(
        MatchedBy::Prefix,
        "SELECT id FROM sessions WHERE id >= ? AND id < ? ORDER BY id DESC",
        &[text, &prefix_end],
    )?;
    if text.is_ascii() && text.len() >= SessionId::TAIL_LEN {
        let (_, tail) = text.split_at(text.len() - SessionId::TAIL_LEN);
        // The index covers the last four characters; the characters before them are compared.
        collect_matches(
            MatchedBy::Suffix,
            "SELECT id FROM sessions WHERE substr(id, -4) = ? AND substr(id, -length(?)) = ? ORDER BY id DESC",
            &[tail, text, text],
        )?;
    }
    collect_matches(
        MatchedBy::NativePrefix,
        "SELECT session_id FROM legs WHERE native_id >= ? AND native_id < ?",
        &[text, &prefix_end],
    )?;
    Ok(candidates)
}

pub(crate) fn list_session_stamps(db: &Db) -> OpResult<Vec<SessionStamp>> {
    let mut statement = db.prepare_cached("SELECT id, updated_at, head_id, title FROM sessions")?;
    let stamps = statement.query_map([], |row| rows::read_session_stamp(db, row))?;
    Ok(stamps.collect::<Result<_, _>>()?)
}

pub(crate) fn filter_attached_natives(
    db: &Db,
    natives: &[(ProviderId, NativeId)],
) -> OpResult<Vec<(ProviderId, NativeId)>> {
    let mut statement =
        db.prepare_cached("SELECT 1 FROM legs WHERE native_id = ? AND provider = ?")?;
    let mut attached = Vec::new();
    for (provider, id) in natives {
        if statement.exists([id.as_str(), provider.as_str()])? {
            attached.push((provider.clone(), id.clone()));
        }
    }
    Ok(attached)
}

#[cfg(test)]
mod tests {
    use segue_core::id::FeatureId;
    use segue_core::scope::{Purpose, Scope};

    use super::*;

    #[test]
    fn a_purpose_query_is_one_index_seek() {
        let directory = tempfile::tempdir().unwrap();
        let (_, db) = crate::connection::prepare_store(directory.path(), None).unwrap();
        let feature = FeatureId::parse("auth").unwrap();
        let any_provider = SessionFilter {
            project: Some("p".into()),
            purpose: Some(Purpose::for_scope(Scope::Feature(feature))),
            ..SessionFilter::default()
        };
        let codex = SessionFilter {
            provider: Some(ProviderId::codex()),
            ..any_provider.clone()
        };
        for (filter, index) in [
            (
                any_provider,
                "sessions_by_purpose (project_id=? AND purpose=?)",
            ),
            (
                codex,
                "sessions_by_purpose_and_provider (project_id=? AND purpose=? AND provider=?)",
            ),
        ] {
            let (sql, values) = build_statement(&filter, &PageRequest::first(1));
            let mut explained = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let plan = explained.query_map(params_from_iter(values), |row| row.get(3));
            let plan: Vec<String> = plan.unwrap().collect::<Result<_, _>>().unwrap();
            let plan = plan.join("\n");
            assert!(plan.contains(index), "{plan}");
            assert!(!plan.contains("ORDER BY"), "{plan}");
        }
    }
}
