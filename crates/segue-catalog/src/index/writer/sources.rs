//! Sources in which sessions were found, and their state at the last read.

use std::os::unix::ffi::OsStrExt;

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::super::NativeStatus;
use super::{IndexWriter, SqlResult};
use crate::SessionLocation;

/// Content of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::index) enum SourceVerdict {
    /// A conversation.
    Session = 0,
    /// Content that is not a conversation.
    NotAConversation = 1,
    /// A conversation of which another source contains more.
    Duplicate = 2,
    /// Content that could not be read.
    Failed = 3,
}

/// Result of reading a source.
#[derive(Debug, Clone, Copy)]
pub(in crate::index) struct SourceResult<'a> {
    pub(in crate::index) verdict: SourceVerdict,
    pub(in crate::index) native_id: Option<&'a str>,
    pub(in crate::index) reason: Option<&'a str>,
    pub(in crate::index) is_copy: bool,
    /// Whether the source is read only after it has changed.
    pub(in crate::index) is_final: bool,
}

impl SourceResult<'_> {
    /// Creates a result that contains only the verdict.
    pub(in crate::index) fn from_verdict(verdict: SourceVerdict) -> Self {
        Self {
            verdict,
            native_id: None,
            reason: None,
            is_copy: false,
            is_final: true,
        }
    }
}

/// Returns the time of a file in the form in which times are compared. All times after the year 2262 are equal.
pub(in crate::index) fn to_nanoseconds(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}

impl IndexWriter<'_> {
    /// Makes a copy in the archive the source of a session that no longer exists.
    pub(in crate::index) fn attach_copy(&mut self, session: i64, source: i64) -> SqlResult<()> {
        self.execute(
            "UPDATE session SET source = ?2, state = ?3 WHERE id = ?1",
            params![session, source, NativeStatus::Archived.code()],
        )
    }

    /// Returns `true` if another existing source contains at least as much of a session.
    pub(in crate::index) fn is_duplicate(
        &self,
        provider: &str,
        native_id: &str,
        source: i64,
        size: u64,
    ) -> SqlResult<bool> {
        let other_size: Option<u64> = self
            .db
            .prepare_cached(
                "SELECT source.size FROM session JOIN source ON source.id = session.source
                 WHERE session.provider = ?1 AND session.native_id = ?2 AND source.id <> ?3
                     AND NOT source.copy",
            )?
            .query_row(params![provider, native_id, source], |row| row.get(0))
            .optional()?;
        Ok(other_size.is_some_and(|other_size| other_size >= size))
    }

    /// Marks the session that a source contained before as missing, because the source contains another session now.
    pub(in crate::index) fn mark_displaced_session(
        &mut self,
        source: i64,
        native_id: &str,
    ) -> SqlResult<()> {
        self.execute(
            "UPDATE session SET state = ?3, source = NULL WHERE source = ?1 AND native_id <> ?2",
            params![source, native_id, NativeStatus::Missing.code()],
        )
    }

    /// Removes the sources of a session, so that the next refresh reads those that still exist.
    pub(in crate::index) fn remove_sources(
        &mut self,
        provider: &str,
        native_id: &str,
    ) -> SqlResult<()> {
        self.execute(
            "DELETE FROM source WHERE provider = ?1 AND native_id = ?2",
            [provider, native_id],
        )?;
        self.execute("DELETE FROM seen WHERE what = 'walk'", [])
    }

    /// Marks the session of a source as missing, because the source no longer exists.
    pub(in crate::index) fn mark_source_missing(&mut self, source: i64) -> SqlResult<()> {
        self.execute(
            "UPDATE session SET state = ?2, source = NULL WHERE source = ?1",
            params![source, NativeStatus::Missing.code()],
        )?;
        self.execute("DELETE FROM source WHERE id = ?1", [source])
    }

    /// Saves the state of a source and the result of reading it. Returns the row of the source.
    pub(in crate::index) fn save_source(
        &mut self,
        provider: &str,
        location: &SessionLocation,
        result: SourceResult<'_>,
    ) -> SqlResult<i64> {
        self.execute(
            "INSERT INTO source (provider, path, part, size, modified, verdict, native_id, why, copy)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (provider, path, part) DO UPDATE SET
                 size = excluded.size, modified = excluded.modified, verdict = excluded.verdict,
                 native_id = coalesce(excluded.native_id, native_id), why = excluded.why",
            params![
                provider,
                location.path.as_os_str().as_bytes(),
                location.id_in_file(),
                location.size,
                if result.is_final {
                    to_nanoseconds(location.modified)
                } else {
                    i64::MIN
                },
                result.verdict as i64,
                result.native_id,
                result.reason,
                result.is_copy,
            ],
        )?;
        self.db
            .prepare_cached(
                "SELECT id FROM source WHERE provider = ?1 AND path = ?2 AND part = ?3",
            )?
            .query_row(
                params![
                    provider,
                    location.path.as_os_str().as_bytes(),
                    location.id_in_file()
                ],
                |row| row.get(0),
            )
    }

    /// Marks all other sources of a session as twins, which contain less of it.
    pub(in crate::index) fn mark_duplicates(
        &mut self,
        provider: &str,
        native_id: &str,
        source: i64,
    ) -> SqlResult<()> {
        self.execute(
            "UPDATE source SET verdict = ?4 WHERE provider = ?1 AND native_id = ?2 AND id <> ?3",
            params![provider, native_id, source, SourceVerdict::Duplicate as i64],
        )
    }
}
