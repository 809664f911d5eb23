//! Writer of sessions into the index: rows, turns and words.

mod sources;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use segue_core::brief::FirstPrompt;
use segue_core::session::{Title, TitleSource, Usage};

pub(super) use sources::{SourceResult, SourceVerdict, to_nanoseconds};

use super::NativeStatus;
use super::source_reader::{IndexedTurn, SourceHead};
use super::turn_text::to_fts_text;

/// Number of bits of a turn's id that contain its number.
pub(super) const TURN_NUMBER_BITS: u32 = 20;

/// Number under which the words of a session's title are stored.
pub(super) const TITLE_TURN_NUMBER: u32 = (1 << TURN_NUMBER_BITS) - 1;

/// Returns the id of a turn.
pub(super) const fn turn_id(session: i64, number: u32) -> i64 {
    (session << TURN_NUMBER_BITS) | number as i64
}

/// Returns the session and the number of a turn.
pub(super) fn decode_turn_id(id: i64) -> (i64, u32) {
    let number = id & ((1 << TURN_NUMBER_BITS) - 1);
    (id >> TURN_NUMBER_BITS, u32::try_from(number).unwrap_or(0))
}

/// A session that is being read completely.
#[derive(Debug)]
pub(super) struct PartialSession {
    pub(super) id: i64,
    totals: SessionTotals,
}

/// Totals of all turns of a session.
#[derive(Debug, Default, Clone)]
struct SessionTotals {
    turns: u32,
    messages: u32,
    usage: Usage,
    model: Option<String>,
    first_prompt: Option<String>,
    last_prompt: Option<String>,
}

impl SessionTotals {
    fn add_turn(&mut self, turn: &IndexedTurn) {
        let add_tokens = |total: &mut Option<u64>, added: Option<u64>| {
            if let Some(added) = added {
                *total = Some(total.unwrap_or(0).saturating_add(added));
            }
        };
        self.turns += 1;
        self.messages += turn.messages;
        let (total, added) = (&mut self.usage, turn.usage);
        add_tokens(&mut total.input_tokens, added.input_tokens);
        add_tokens(&mut total.output_tokens, added.output_tokens);
        add_tokens(&mut total.cached_tokens, added.cached_tokens);
        add_tokens(&mut total.total_tokens, added.total_tokens);
        total.context_tokens = added.context_tokens.or(total.context_tokens);
        if turn.model.is_some() {
            self.model.clone_from(&turn.model);
        }
        let prompt = prompt_preview(&turn.text.prompt);
        if !prompt.is_empty() {
            self.first_prompt.get_or_insert_with(|| prompt.clone());
            self.last_prompt = Some(prompt);
        }
    }
}

/// Returns the beginning of a prompt, which is all that a list or a preview shows: the tags with which it may begin,
/// and 400 bytes after them, without a brief.
fn prompt_preview(prompt: &str) -> String {
    let prompt = FirstPrompt::strip_brief(prompt.trim_start());
    let tags = FirstPrompt::parse(&prompt).heading.len();
    let end = prompt.floor_char_boundary(tags + 400);
    prompt.get(..end).unwrap_or_default().trim_end().to_owned()
}

/// A writer of changes, in transactions.
pub(super) struct IndexWriter<'a> {
    db: &'a Connection,
    /// Highest id of a session.
    last_session_id: i64,
    /// Number of bytes of text that were written since the last commit.
    pub(super) pending_bytes: usize,
    /// Number of rows that were changed.
    pub(super) rows_changed: u64,
}

type SqlResult<T> = rusqlite::Result<T>;

impl<'a> IndexWriter<'a> {
    pub(super) fn new(db: &'a Connection) -> SqlResult<Self> {
        let last_session_id = db.query_row(
            "SELECT max(coalesce((SELECT max(id) FROM session), 0), coalesce((SELECT max(id) FROM turn), 0) >> ?1)",
            [TURN_NUMBER_BITS],
            |row| row.get(0),
        )?;
        Ok(Self {
            db,
            last_session_id,
            pending_bytes: 0,
            rows_changed: 0,
        })
    }

    /// Begins a transaction, unless one is open.
    pub(super) fn begin_transaction(&self) -> SqlResult<()> {
        if self.db.is_autocommit() {
            self.db.execute_batch("BEGIN IMMEDIATE")?;
        }
        Ok(())
    }

    pub(super) fn commit(&mut self) -> SqlResult<()> {
        if !self.db.is_autocommit() {
            self.db.execute_batch("COMMIT")?;
        }
        self.pending_bytes = 0;
        Ok(())
    }

    fn execute(&mut self, sql: &str, values: impl rusqlite::Params) -> SqlResult<()> {
        self.begin_transaction()?;
        let changed = self.db.prepare_cached(sql)?.execute(values)?;
        self.rows_changed += changed as u64;
        Ok(())
    }

    /// Allocates the id of a session that is read completely. Ids of sessions and turns only grow, because the
    /// full-text index is fast only in this case.
    pub(super) fn start_session(&mut self) -> PartialSession {
        self.last_session_id += 1;
        PartialSession {
            id: self.last_session_id,
            totals: SessionTotals::default(),
        }
    }

    /// Adds the next turns of a session.
    pub(super) fn add_turns(
        &mut self,
        partial: &mut PartialSession,
        turns: &[IndexedTurn],
    ) -> SqlResult<()> {
        for turn in turns {
            partial.totals.add_turn(turn);
            let id = turn_id(partial.id, partial.totals.turns);
            self.insert_turn(id, turn)?;
        }
        Ok(())
    }

    fn insert_turn(&mut self, id: i64, turn: &IndexedTurn) -> SqlResult<()> {
        let usage = turn.usage;
        let after = turn.after.as_ref().map(ToString::to_string);
        self.execute(
            "INSERT INTO turn (id, at, after, messages, input, output, cached, total)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                id,
                turn.at.map(Timestamp::as_millisecond),
                after,
                turn.messages,
                usage.input_tokens,
                usage.output_tokens,
                usage.cached_tokens,
                usage.total_tokens,
            ],
        )?;
        let columns = turn.text.columns();
        self.pending_bytes += columns.map(str::len).iter().sum::<usize>();
        let [prompt, answer, call, output] = columns;
        self.execute(
            "INSERT INTO text (rowid, prompt, answer, call, output) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![id, prompt, answer, call, output],
        )
    }

    /// Removes the turns of a session from the number `from` on, and also its title if `from` is 0.
    pub(super) fn drop_turns(&mut self, session: i64, from: u32) -> SqlResult<()> {
        let range = [turn_id(session, from), turn_id(session + 1, 0) - 1];
        self.execute(
            "DELETE FROM text WHERE rowid IN (SELECT id FROM turn WHERE id BETWEEN ?1 AND ?2)",
            range,
        )?;
        if from == 0 {
            self.execute(
                "DELETE FROM text WHERE rowid = ?1",
                [turn_id(session, TITLE_TURN_NUMBER)],
            )?;
        }
        self.execute("DELETE FROM turn WHERE id BETWEEN ?1 AND ?2", range)
    }

    /// Replaces a session in the index by one that was read completely.
    pub(super) fn replace_session(
        &mut self,
        provider: &str,
        partial: &PartialSession,
        source_head: &SourceHead,
        source: Option<i64>,
        status: NativeStatus,
    ) -> SqlResult<()> {
        if let Some(old) = self.find_session(provider, source_head.head.id.as_str())? {
            self.remove_session(old)?;
        }
        self.execute(
            "INSERT INTO session (id, provider, native_id, source, state, updated_at, turns, messages)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 0)",
            params![partial.id, provider, source_head.head.id.as_str(), source, status.code()],
        )?;
        self.update_metadata(partial.id, source_head, status)?;
        self.update_totals(partial.id, &partial.totals)
    }

    /// Replaces the turns from the number `first` on by new turns.
    pub(super) fn replace_turns_from(
        &mut self,
        session: i64,
        source_head: &SourceHead,
        status: NativeStatus,
        first: u32,
        turns: &[IndexedTurn],
    ) -> SqlResult<()> {
        self.drop_turns(session, first)?;
        for (number, turn) in (first..).zip(turns) {
            self.insert_turn(turn_id(session, number), turn)?;
        }
        if self.is_renamed(session, source_head)? {
            self.execute(
                "DELETE FROM text WHERE rowid = ?1",
                [turn_id(session, TITLE_TURN_NUMBER)],
            )?;
            self.insert_title(session, source_head)?;
        }
        self.update_metadata(session, source_head, status)?;
        let range = [turn_id(session, 0), turn_id(session + 1, 0) - 1];
        let mut totals: SessionTotals = self.db.prepare_cached(
            "SELECT count(*), coalesce(sum(messages), 0), sum(input), sum(output), sum(cached), sum(total) FROM turn
             WHERE id BETWEEN ?1 AND ?2",
        )?.query_row(range, |row| {
            Ok(SessionTotals {
                turns: row.get(0)?,
                messages: row.get(1)?,
                usage: Usage {
                    input_tokens: row.get(2)?,
                    output_tokens: row.get(3)?,
                    cached_tokens: row.get(4)?,
                    total_tokens: row.get(5)?,
                    ..Usage::default()
                },
                ..SessionTotals::default()
            })
        })?;
        let mut new_totals = SessionTotals::default();
        for turn in turns {
            new_totals.add_turn(turn);
        }
        totals.usage.context_tokens = new_totals.usage.context_tokens;
        totals.model = new_totals.model;
        totals.last_prompt = new_totals.last_prompt;
        self.update_totals(session, &totals)
    }

    /// Adds the words of a title, unless the title is the first prompt.
    pub(super) fn insert_title(&mut self, session: i64, source_head: &SourceHead) -> SqlResult<()> {
        let is_explicit = |title: &&Title| title.source() != TitleSource::Prompt;
        if let Some(title) = source_head.head.title.as_ref().filter(is_explicit) {
            self.execute(
                "INSERT INTO text (rowid, title) VALUES (?1, ?2)",
                params![
                    turn_id(session, TITLE_TURN_NUMBER),
                    to_fts_text(title.as_str())
                ],
            )?;
        }
        Ok(())
    }

    fn is_renamed(&self, session: i64, source_head: &SourceHead) -> SqlResult<bool> {
        let old: Option<String> = self
            .db
            .prepare_cached("SELECT title FROM session WHERE id = ?1")?
            .query_row([session], |row| row.get(0))?;
        Ok(old.as_deref() != source_head.head.title.as_ref().map(Title::as_str))
    }

    fn update_metadata(
        &mut self,
        session: i64,
        source_head: &SourceHead,
        status: NativeStatus,
    ) -> SqlResult<()> {
        let head = &source_head.head;
        self.execute(
            "UPDATE session SET state = ?2, project = ?3, cwd = ?4, branch = ?5, title = ?6, title_from = ?7,
                 first_prompt = ?8, forked_from = ?9, version = ?10, created_at = ?11, updated_at = ?12
             WHERE id = ?1",
            params![
                session,
                status.code(),
                source_head.project,
                head.cwd,
                head.branch,
                head.title.as_ref().map(Title::as_str),
                head.title.as_ref().map(|title| title.source().as_str()),
                head.first_prompt.as_deref().map(prompt_preview),
                head.forked_from,
                head.agent_version,
                head.created_at.map(Timestamp::as_millisecond),
                head.updated_at.as_millisecond(),
            ],
        )
    }

    fn update_totals(&mut self, session: i64, totals: &SessionTotals) -> SqlResult<()> {
        let usage = totals.usage;
        self.execute(
            "UPDATE session SET turns = ?2, messages = ?3, input = ?4, output = ?5, cached = ?6, total = ?7,
                 context = coalesce(?8, context), model = coalesce(?9, model),
                 first_prompt = coalesce(first_prompt, ?10), last_prompt = coalesce(?11, last_prompt)
             WHERE id = ?1",
            params![
                session,
                totals.turns,
                totals.messages,
                usage.input_tokens,
                usage.output_tokens,
                usage.cached_tokens,
                usage.total_tokens,
                usage.context_tokens,
                totals.model,
                totals.first_prompt,
                totals.last_prompt,
            ],
        )
    }

    /// Returns the row of a session. `None` if the index does not have it.
    pub(super) fn find_session(&self, provider: &str, native_id: &str) -> SqlResult<Option<i64>> {
        self.db
            .prepare_cached("SELECT id FROM session WHERE provider = ?1 AND native_id = ?2")?
            .query_row([provider, native_id], |row| row.get(0))
            .optional()
    }

    /// Returns the row of a session, and `true` if the session still exists in its agent's storage.
    pub(super) fn find_session_with_liveness(
        &self,
        provider: &str,
        native_id: &str,
    ) -> SqlResult<Option<(i64, bool)>> {
        self.db
            .prepare_cached(
                "SELECT session.id, source.id IS NOT NULL AND NOT source.copy
                 FROM session LEFT JOIN source ON source.id = session.source
                 WHERE session.provider = ?1 AND session.native_id = ?2",
            )?
            .query_row([provider, native_id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
    }

    /// Removes a session and its turns.
    pub(super) fn remove_session(&mut self, session: i64) -> SqlResult<()> {
        self.drop_turns(session, 0)?;
        self.execute("DELETE FROM session WHERE id = ?1", [session])
    }

    /// Sets the last turn of a session of segue.
    pub(super) fn set_head(&mut self, session: i64, head: Option<i64>) -> SqlResult<()> {
        self.execute(
            "UPDATE session SET head = ?2 WHERE id = ?1",
            params![session, head],
        )
    }

    /// Saves a value for the next refresh.
    pub(super) fn save_value(&mut self, name: &str, value: i64) -> SqlResult<()> {
        self.execute(
            "INSERT INTO seen (what, value) VALUES (?1, ?2)
             ON CONFLICT (what) DO UPDATE SET value = excluded.value WHERE value <> excluded.value",
            params![name, value],
        )
    }
}
