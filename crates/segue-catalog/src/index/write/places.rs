//! Sources in which sessions were found, and their state at the last read.

use std::os::unix::ffi::OsStrExt;

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::super::State;
use super::{Sql, Writer};
use crate::Found;

/// Content of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::index) enum Verdict {
    /// A conversation.
    Session = 0,
    /// Content that is no conversation.
    Other = 1,
    /// A conversation of which another source contains more.
    Twin = 2,
    /// Content that could not be read.
    Failed = 3,
}

/// Result of reading a source.
#[derive(Debug, Clone, Copy)]
pub(in crate::index) struct Noted<'a> {
    pub(in crate::index) verdict: Verdict,
    pub(in crate::index) native_id: Option<&'a str>,
    pub(in crate::index) why: Option<&'a str>,
    pub(in crate::index) copy: bool,
    /// Whether the source is read only after it has changed.
    pub(in crate::index) settled: bool,
}

impl Noted<'_> {
    /// Creates a result that contains only the verdict.
    pub(in crate::index) fn found(verdict: Verdict) -> Self {
        Self {
            verdict,
            native_id: None,
            why: None,
            copy: false,
            settled: true,
        }
    }
}

/// Returns the time of a file in the form in which times are compared. All times after the year 2262 are equal.
pub(in crate::index) fn nanoseconds(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}

impl Writer<'_> {
    /// Makes a copy in the archive the source of a session that no longer exists.
    pub(in crate::index) fn attach(&mut self, session: i64, source: i64) -> Sql<()> {
        self.run(
            "UPDATE session SET source = ?2, state = ?3 WHERE id = ?1",
            params![session, source, State::Archived.code()],
        )?;
        Ok(())
    }

    /// Returns `true` if another existing source contains at least as much of a session.
    pub(in crate::index) fn is_twin(
        &self,
        provider: &str,
        native_id: &str,
        source: i64,
        size: u64,
    ) -> Sql<bool> {
        let other: Option<u64> = self
            .db
            .prepare_cached(
                "SELECT source.size FROM session JOIN source ON source.id = session.source
                 WHERE session.provider = ?1 AND session.native_id = ?2 AND source.id <> ?3
                     AND NOT source.copy",
            )?
            .query_row(params![provider, native_id, source], |row| row.get(0))
            .optional()?;
        Ok(other.is_some_and(|other| other >= size))
    }

    /// Marks the session that a source contained before as missing, because the source contains another session now.
    pub(in crate::index) fn displace(&mut self, source: i64, native_id: &str) -> Sql<()> {
        self.run(
            "UPDATE session SET state = ?3, source = NULL WHERE source = ?1 AND native_id <> ?2",
            params![source, native_id, State::Gone.code()],
        )?;
        Ok(())
    }

    /// Removes the sources of a session, so that the next refresh reads those that still exist.
    pub(in crate::index) fn forget_places(&mut self, provider: &str, native_id: &str) -> Sql<()> {
        self.run(
            "DELETE FROM source WHERE provider = ?1 AND native_id = ?2",
            [provider, native_id],
        )?;
        self.run("DELETE FROM seen WHERE what = 'walk'", [])?;
        Ok(())
    }

    /// Marks the session of a source as missing, because the source no longer exists.
    pub(in crate::index) fn lose(&mut self, source: i64) -> Sql<()> {
        self.run(
            "UPDATE session SET state = ?2, source = NULL WHERE source = ?1",
            params![source, State::Gone.code()],
        )?;
        self.run("DELETE FROM source WHERE id = ?1", [source])?;
        Ok(())
    }

    /// Saves the state of a source and the result of reading it. Returns the row of the source.
    pub(in crate::index) fn note(
        &mut self,
        provider: &str,
        found: &Found,
        noted: Noted<'_>,
    ) -> Sql<i64> {
        self.run(
            "INSERT INTO source (provider, path, part, size, modified, verdict, native_id, why, copy)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (provider, path, part) DO UPDATE SET
                 size = excluded.size, modified = excluded.modified, verdict = excluded.verdict,
                 native_id = coalesce(excluded.native_id, native_id), why = excluded.why",
            params![
                provider,
                found.path.as_os_str().as_bytes(),
                found.part(),
                found.size,
                if noted.settled {
                    nanoseconds(found.modified)
                } else {
                    i64::MIN
                },
                noted.verdict as i64,
                noted.native_id,
                noted.why,
                noted.copy,
            ],
        )?;
        self.db
            .prepare_cached(
                "SELECT id FROM source WHERE provider = ?1 AND path = ?2 AND part = ?3",
            )?
            .query_row(
                params![provider, found.path.as_os_str().as_bytes(), found.part()],
                |row| row.get(0),
            )
    }

    /// Marks all other sources of a session as twins, which contain less of it.
    pub(in crate::index) fn demote(
        &mut self,
        provider: &str,
        native_id: &str,
        source: i64,
    ) -> Sql<()> {
        self.run(
            "UPDATE source SET verdict = ?4 WHERE provider = ?1 AND native_id = ?2 AND id <> ?3",
            params![provider, native_id, source, Verdict::Twin as i64],
        )?;
        Ok(())
    }
}
