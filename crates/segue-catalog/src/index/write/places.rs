//! Where sessions were found, and what was found there.

use std::os::unix::ffi::OsStrExt;

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::super::State;
use super::{Sql, Writer};
use crate::Found;

/// What was found at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::index) enum Verdict {
    /// A conversation.
    Session = 0,
    /// Something that is no conversation.
    Other = 1,
    /// A conversation that another place has more of.
    Twin = 2,
    /// What could not be read.
    Failed = 3,
}

/// What was found at a place, and what tells more of that.
#[derive(Debug, Clone, Copy)]
pub(in crate::index) struct Noted<'a> {
    pub(in crate::index) verdict: Verdict,
    pub(in crate::index) native_id: Option<&'a str>,
    pub(in crate::index) why: Option<&'a str>,
    pub(in crate::index) copy: bool,
    /// Whether it is worth a second look only once it changes.
    pub(in crate::index) settled: bool,
}

impl Noted<'_> {
    /// Nothing but what was found.
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

/// When a file was written, as it is compared. What is beyond the year 2262 is all the same.
pub(in crate::index) fn nanoseconds(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}

impl Writer<'_> {
    /// A copy stands in for a session that is gone.
    pub(in crate::index) fn attach(&mut self, session: i64, source: i64) -> Sql<()> {
        self.run(
            "UPDATE session SET source = ?2, state = ?3 WHERE id = ?1",
            params![session, source, State::Archived.code()],
        )?;
        Ok(())
    }

    /// Whether another source than this one, which is still there, holds at least as much of a session.
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

    /// Another session than before is at a place.
    pub(in crate::index) fn displace(&mut self, source: i64, native_id: &str) -> Sql<()> {
        self.run(
            "UPDATE session SET state = ?3, source = NULL WHERE source = ?1 AND native_id <> ?2",
            params![source, native_id, State::Gone.code()],
        )?;
        Ok(())
    }

    /// Forgets where a session was found, so that it is read anew if it is there.
    pub(in crate::index) fn forget_places(&mut self, provider: &str, native_id: &str) -> Sql<()> {
        self.run(
            "DELETE FROM source WHERE provider = ?1 AND native_id = ?2",
            [provider, native_id],
        )?;
        self.run("DELETE FROM seen WHERE what = 'walk'", [])?;
        Ok(())
    }

    /// The session's source is not there any more.
    pub(in crate::index) fn lose(&mut self, source: i64) -> Sql<()> {
        self.run(
            "UPDATE session SET state = ?2, source = NULL WHERE source = ?1",
            params![source, State::Gone.code()],
        )?;
        self.run("DELETE FROM source WHERE id = ?1", [source])?;
        Ok(())
    }

    /// Notes what a place looked like, and what was found there.
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

    /// All other places of a session have less of it.
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
