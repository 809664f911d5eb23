//! Queries for sessions: by a filter, or by a reference that the user typed.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{Candidate, MatchedBy};
use segue_store::{Cursor, Filter, Found, Mark, Page};

use super::Outcome;
use crate::rows::{self, micros};

pub(crate) fn find(db: &Connection, filter: &Filter, page: &Page) -> Outcome<Found> {
    let (sql, values) = statement(filter, page);
    let mut sessions = db
        .prepare_cached(&sql)?
        .query_map(params_from_iter(values), rows::session)?
        .collect::<Result<Vec<_>, _>>()?;
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let next = sessions.last().filter(|_| more).map(|last| Cursor {
        updated_at: last.updated_at,
        id: last.id.clone(),
    });
    Ok(Found { sessions, next })
}

/// Returns the index for a query by project and purpose. SQLite's planner would scan all sessions of the project
/// instead, because that index also gives the order. `None` if the filter has no project or no purpose.
fn index(filter: &Filter) -> Option<&'static str> {
    match (&filter.project, &filter.purpose, &filter.provider) {
        (Some(_), Some(_), Some(_)) => Some("sessions_by_purpose_and_provider"),
        (Some(_), Some(_), None) => Some("sessions_by_purpose"),
        (_, None, _) | (None, ..) => None,
    }
}

fn statement(filter: &Filter, page: &Page) -> (String, Vec<Value>) {
    let mut clauses: Vec<&str> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    let mut add = |clause, value: Value| {
        clauses.push(clause);
        values.push(value);
    };
    if let Some(key) = &filter.project {
        add(
            "s.project_id = (SELECT id FROM projects WHERE key = ?)",
            key.clone().into(),
        );
    }
    if let Some(cwd) = &filter.cwd {
        add("s.cwd = ?", cwd.clone().into());
    }
    if let Some(provider) = &filter.provider {
        add("s.provider = ?", provider.to_string().into());
    }
    if let Some(purpose) = &filter.purpose {
        add("s.purpose = ?", purpose.key().into());
    }
    if let Some(feature) = &filter.feature {
        add("s.feature = ?", feature.to_string().into());
    }
    if let Some(task) = &filter.task {
        add("s.task = ?", task.to_string().into());
    }
    if let Some(role) = &filter.role {
        add("s.role = ?", role.to_string().into());
    }
    for tag in &filter.tags {
        add(
            "EXISTS (SELECT 1 FROM tags g WHERE g.session_id = s.id AND g.name = ?)",
            tag.to_string().into(),
        );
    }
    if let Some(since) = filter.since {
        add("s.updated_at >= ?", micros(since).into());
    }
    if let Some(Cursor { updated_at, id }) = &page.after {
        add("(s.updated_at, s.id) < (?, ?)", micros(*updated_at).into());
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
        rows::sessions_by(index(filter))
    );
    (sql, values)
}

/// Maximum number of candidates per kind of match; a reference with more matches is ambiguous in any case.
const CANDIDATES: i64 = 20;

pub(crate) fn candidates(db: &Connection, text: &str) -> Outcome<Vec<Candidate>> {
    // Ids are ASCII, so every id that starts with `text` is less than `text` followed by the last ASCII character.
    let end = format!("{text}\u{7f}");
    let mut found = Vec::new();
    let mut look = |by, sql: &str, values: &[&str]| -> Outcome<()> {
        let mut statement = db.prepare_cached(&format!("{sql} LIMIT {CANDIDATES}"))?;
        let ids = statement.query_map(params_from_iter(values), |row| {
            rows::parsed::<SessionId>(row, 0)
        })?;
        for id in ids {
            found.push(Candidate { id: id?, by });
        }
        Ok(())
    };
    look(
        MatchedBy::Id,
        "SELECT id FROM sessions WHERE id = ?",
        &[text],
    )?;
    look(
        MatchedBy::NativeId,
        "SELECT session_id FROM legs WHERE native_id = ?",
        &[text],
    )?;
    look(
        MatchedBy::Alias,
        "SELECT session_id FROM origins WHERE name = ?",
        &[text],
    )?;
    look(
        MatchedBy::Prefix,
        "SELECT id FROM sessions WHERE id >= ? AND id < ? ORDER BY id DESC",
        &[text, &end],
    )?;
    if text.is_ascii() && text.len() >= SessionId::TAIL {
        let (_, tail) = text.split_at(text.len() - SessionId::TAIL);
        // The index covers the last four characters; the characters before them are compared.
        look(
            MatchedBy::Suffix,
            "SELECT id FROM sessions WHERE substr(id, -4) = ? AND substr(id, -length(?)) = ? ORDER BY id DESC",
            &[tail, text, text],
        )?;
    }
    look(
        MatchedBy::NativePrefix,
        "SELECT session_id FROM legs WHERE native_id >= ? AND native_id < ?",
        &[text, &end],
    )?;
    Ok(found)
}

pub(crate) fn marks(db: &Connection) -> Outcome<Vec<Mark>> {
    let mut statement = db.prepare_cached("SELECT id, updated_at, head_id, title FROM sessions")?;
    let marks = statement.query_map([], rows::mark)?;
    Ok(marks.collect::<Result<_, _>>()?)
}

pub(crate) fn carried(
    db: &Connection,
    mut natives: Vec<(ProviderId, NativeId)>,
) -> Outcome<Vec<(ProviderId, NativeId)>> {
    let mut statement =
        db.prepare_cached("SELECT 1 FROM legs WHERE native_id = ? AND provider = ?")?;
    let mut failed = None;
    natives.retain(|(provider, id)| {
        let exists = statement.exists([id.as_str(), provider.as_str()]);
        exists.unwrap_or_else(|error| {
            failed = Some(error);
            false
        })
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(natives),
    }
}

#[cfg(test)]
mod tests {
    use segue_core::id::FeatureId;
    use segue_core::scope::{Purpose, Scope};

    use super::*;

    #[test]
    fn a_purpose_is_looked_up_by_one_seek() {
        let directory = tempfile::tempdir().unwrap();
        let (_, db) = crate::connection::prepare(directory.path()).unwrap();
        let feature = FeatureId::parse("auth").unwrap();
        let anybody = Filter {
            project: Some("p".into()),
            purpose: Some(Purpose::of(Scope::Feature(feature))),
            ..Filter::default()
        };
        let codex = Filter {
            provider: Some(ProviderId::codex()),
            ..anybody.clone()
        };
        for (filter, index) in [
            (anybody, "sessions_by_purpose (project_id=? AND purpose=?)"),
            (
                codex,
                "sessions_by_purpose_and_provider (project_id=? AND purpose=? AND provider=?)",
            ),
        ] {
            let (sql, values) = statement(&filter, &Page::first(1));
            let mut explained = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let plan = explained.query_map(params_from_iter(values), |row| row.get(3));
            let plan: Vec<String> = plan.unwrap().collect::<Result<_, _>>().unwrap();
            let plan = plan.join("\n");
            assert!(plan.contains(index), "{plan}");
            assert!(!plan.contains("ORDER BY"), "{plan}");
        }
    }
}
