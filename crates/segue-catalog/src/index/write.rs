//! Writer of sessions into the index: rows, turns and words.

mod places;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use segue_core::brief::Sent;
use segue_core::session::{Title, TitleSource, Usage};

pub(super) use places::{Noted, Verdict, nanoseconds};

use super::State;
use super::read::{Passage, Placed};
use super::texts::spaced;

/// Number of bits of a turn's id that contain its number.
pub(super) const NUMBER_BITS: u32 = 20;

/// Number under which the words of a session's title are stored.
pub(super) const TITLE: u32 = (1 << NUMBER_BITS) - 1;

/// Returns the id of a turn.
pub(super) const fn turn_id(session: i64, number: u32) -> i64 {
    (session << NUMBER_BITS) | number as i64
}

/// Returns the session and the number of a turn.
pub(super) fn place_of(turn: i64) -> (i64, u32) {
    let number = turn & ((1 << NUMBER_BITS) - 1);
    (turn >> NUMBER_BITS, u32::try_from(number).unwrap_or(0))
}

/// A session that is being read completely.
#[derive(Debug)]
pub(super) struct Growing {
    pub(super) id: i64,
    sum: Sum,
}

/// Totals of all turns of a session.
#[derive(Debug, Default, Clone)]
struct Sum {
    turns: u32,
    messages: u32,
    usage: Usage,
    model: Option<String>,
    first_prompt: Option<String>,
    last_prompt: Option<String>,
}

impl Sum {
    fn add(&mut self, passage: &Passage) {
        let plus = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        };
        self.turns += 1;
        self.messages += passage.messages;
        let (sum, more) = (&mut self.usage, passage.usage);
        plus(&mut sum.input_tokens, more.input_tokens);
        plus(&mut sum.output_tokens, more.output_tokens);
        plus(&mut sum.cached_tokens, more.cached_tokens);
        plus(&mut sum.total_tokens, more.total_tokens);
        sum.context_tokens = more.context_tokens.or(sum.context_tokens);
        if passage.model.is_some() {
            self.model.clone_from(&passage.model);
        }
        let prompt = beginning(&passage.texts.prompt);
        if !prompt.is_empty() {
            self.first_prompt.get_or_insert_with(|| prompt.clone());
            self.last_prompt = Some(prompt);
        }
    }
}

/// Returns the beginning of a prompt, which is all that a list or a preview shows: the tags with which it may begin,
/// and 400 bytes after them, without a brief.
fn beginning(prompt: &str) -> String {
    let prompt = Sent::without_brief(prompt.trim_start());
    let tags = Sent::read(&prompt).heading.len();
    let end = prompt.floor_char_boundary(tags + 400);
    prompt.get(..end).unwrap_or_default().trim_end().to_owned()
}

/// A writer of changes, in transactions.
pub(super) struct Writer<'a> {
    db: &'a Connection,
    /// Highest id of a session.
    last: i64,
    /// Number of bytes of text that were written since the last commit.
    pub(super) pending: usize,
    /// Number of rows that were changed.
    pub(super) rows: u64,
}

type Sql<T> = rusqlite::Result<T>;

impl<'a> Writer<'a> {
    pub(super) fn new(db: &'a Connection) -> Sql<Self> {
        let last = db.query_row(
            "SELECT max(coalesce((SELECT max(id) FROM session), 0), coalesce((SELECT max(id) FROM turn), 0) >> ?1)",
            [NUMBER_BITS],
            |row| row.get(0),
        )?;
        Ok(Self {
            db,
            last,
            pending: 0,
            rows: 0,
        })
    }

    /// Begins a transaction, unless one is open.
    pub(super) fn begin(&self) -> Sql<()> {
        if self.db.is_autocommit() {
            self.db.execute_batch("BEGIN IMMEDIATE")?;
        }
        Ok(())
    }

    pub(super) fn commit(&mut self) -> Sql<()> {
        if !self.db.is_autocommit() {
            self.db.execute_batch("COMMIT")?;
        }
        self.pending = 0;
        Ok(())
    }

    fn run(&mut self, sql: &str, values: impl rusqlite::Params) -> Sql<usize> {
        self.begin()?;
        let changed = self.db.prepare_cached(sql)?.execute(values)?;
        self.rows += changed as u64;
        Ok(changed)
    }

    /// Allocates the id of a session that is read completely. Ids of sessions and turns only grow, because the
    /// full-text index is fast only in this case.
    pub(super) fn grow(&mut self) -> Growing {
        self.last += 1;
        Growing {
            id: self.last,
            sum: Sum::default(),
        }
    }

    /// Adds the next turns of a session.
    pub(super) fn add(&mut self, growing: &mut Growing, turns: &[Passage]) -> Sql<()> {
        for passage in turns {
            growing.sum.add(passage);
            let id = turn_id(growing.id, growing.sum.turns);
            self.turn(id, passage)?;
        }
        Ok(())
    }

    fn turn(&mut self, id: i64, passage: &Passage) -> Sql<()> {
        let usage = passage.usage;
        let after = passage.after.as_ref().map(ToString::to_string);
        self.run(
            "INSERT INTO turn (id, at, after, messages, input, output, cached, total)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                id,
                passage.at.map(Timestamp::as_millisecond),
                after,
                passage.messages,
                usage.input_tokens,
                usage.output_tokens,
                usage.cached_tokens,
                usage.total_tokens,
            ],
        )?;
        let columns = passage.texts.columns();
        self.pending += columns.map(str::len).iter().sum::<usize>();
        let [prompt, answer, call, output] = columns;
        self.run(
            "INSERT INTO text (rowid, prompt, answer, call, output) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![id, prompt, answer, call, output],
        )?;
        Ok(())
    }

    /// Removes the turns of a session from the number `from` on, and also its title if `from` is 0.
    pub(super) fn drop_turns(&mut self, session: i64, from: u32) -> Sql<()> {
        let range = [turn_id(session, from), turn_id(session + 1, 0) - 1];
        self.run(
            "DELETE FROM text WHERE rowid IN (SELECT id FROM turn WHERE id BETWEEN ?1 AND ?2)",
            range,
        )?;
        if from == 0 {
            self.run(
                "DELETE FROM text WHERE rowid = ?1",
                [turn_id(session, TITLE)],
            )?;
        }
        self.run("DELETE FROM turn WHERE id BETWEEN ?1 AND ?2", range)?;
        Ok(())
    }

    /// Replaces a session in the index by one that was read completely.
    pub(super) fn replace(
        &mut self,
        provider: &str,
        growing: &Growing,
        placed: &Placed,
        source: Option<i64>,
        state: State,
    ) -> Sql<()> {
        if let Some(old) = self.session(provider, placed.head.id.as_str())? {
            self.forget(old)?;
        }
        self.run(
            "INSERT INTO session (id, provider, native_id, source, state, updated_at, turns, messages)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 0)",
            params![growing.id, provider, placed.head.id.as_str(), source, state.code()],
        )?;
        self.describe(growing.id, placed, state)?;
        self.count(growing.id, &growing.sum)
    }

    /// Replaces the turns from the number `first` on by new turns.
    pub(super) fn append(
        &mut self,
        session: i64,
        placed: &Placed,
        state: State,
        first: u32,
        turns: &[Passage],
    ) -> Sql<()> {
        self.drop_turns(session, first)?;
        for (number, passage) in (first..).zip(turns) {
            self.turn(turn_id(session, number), passage)?;
        }
        if self.is_renamed(session, placed)? {
            self.run(
                "DELETE FROM text WHERE rowid = ?1",
                [turn_id(session, TITLE)],
            )?;
            self.title(session, placed)?;
        }
        self.describe(session, placed, state)?;
        let range = [turn_id(session, 0), turn_id(session + 1, 0) - 1];
        let mut sum: Sum = self.db.prepare_cached(
            "SELECT count(*), coalesce(sum(messages), 0), sum(input), sum(output), sum(cached), sum(total) FROM turn
             WHERE id BETWEEN ?1 AND ?2",
        )?.query_row(range, |row| {
            Ok(Sum {
                turns: row.get(0)?,
                messages: row.get(1)?,
                usage: Usage {
                    input_tokens: row.get(2)?,
                    output_tokens: row.get(3)?,
                    cached_tokens: row.get(4)?,
                    total_tokens: row.get(5)?,
                    ..Usage::default()
                },
                ..Sum::default()
            })
        })?;
        let mut new = Sum::default();
        for passage in turns {
            new.add(passage);
        }
        sum.usage.context_tokens = new.usage.context_tokens;
        sum.model = new.model;
        sum.last_prompt = new.last_prompt;
        self.count(session, &sum)
    }

    /// Adds the words of a title, unless the title is the first prompt.
    pub(super) fn title(&mut self, session: i64, placed: &Placed) -> Sql<()> {
        let given = |title: &&Title| title.source() != TitleSource::Prompt;
        if let Some(title) = placed.head.title.as_ref().filter(given) {
            self.run(
                "INSERT INTO text (rowid, title) VALUES (?1, ?2)",
                params![turn_id(session, TITLE), spaced(title.as_str())],
            )?;
        }
        Ok(())
    }

    fn is_renamed(&self, session: i64, placed: &Placed) -> Sql<bool> {
        let old: Option<String> = self
            .db
            .prepare_cached("SELECT title FROM session WHERE id = ?1")?
            .query_row([session], |row| row.get(0))?;
        Ok(old.as_deref() != placed.head.title.as_ref().map(Title::as_str))
    }

    fn describe(&mut self, session: i64, placed: &Placed, state: State) -> Sql<()> {
        let head = &placed.head;
        self.run(
            "UPDATE session SET state = ?2, project = ?3, cwd = ?4, branch = ?5, title = ?6, title_from = ?7,
                 first_prompt = ?8, forked_from = ?9, version = ?10, created_at = ?11, updated_at = ?12
             WHERE id = ?1",
            params![
                session,
                state.code(),
                placed.project,
                head.cwd,
                head.branch,
                head.title.as_ref().map(Title::as_str),
                head.title.as_ref().map(|title| title.source().as_str()),
                head.first_prompt.as_deref().map(beginning),
                head.forked_from,
                head.version,
                head.created_at.map(Timestamp::as_millisecond),
                head.updated_at.as_millisecond(),
            ],
        )?;
        Ok(())
    }

    fn count(&mut self, session: i64, sum: &Sum) -> Sql<()> {
        let usage = sum.usage;
        self.run(
            "UPDATE session SET turns = ?2, messages = ?3, input = ?4, output = ?5, cached = ?6, total = ?7,
                 context = coalesce(?8, context), model = coalesce(?9, model),
                 first_prompt = coalesce(first_prompt, ?10), last_prompt = coalesce(?11, last_prompt)
             WHERE id = ?1",
            params![
                session,
                sum.turns,
                sum.messages,
                usage.input_tokens,
                usage.output_tokens,
                usage.cached_tokens,
                usage.total_tokens,
                usage.context_tokens,
                sum.model,
                sum.first_prompt,
                sum.last_prompt,
            ],
        )?;
        Ok(())
    }

    /// Returns the row of a session. `None` if the index does not have it.
    pub(super) fn session(&self, provider: &str, native_id: &str) -> Sql<Option<i64>> {
        self.db
            .prepare_cached("SELECT id FROM session WHERE provider = ?1 AND native_id = ?2")?
            .query_row([provider, native_id], |row| row.get(0))
            .optional()
    }

    /// Returns the row of a session, and `true` if the session still exists in its agent's storage.
    pub(super) fn holding(&self, provider: &str, native_id: &str) -> Sql<Option<(i64, bool)>> {
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
    pub(super) fn forget(&mut self, session: i64) -> Sql<()> {
        self.drop_turns(session, 0)?;
        self.run("DELETE FROM session WHERE id = ?1", [session])?;
        Ok(())
    }

    /// Sets the last turn of a session of segue.
    pub(super) fn ends_with(&mut self, session: i64, head: Option<i64>) -> Sql<()> {
        self.run(
            "UPDATE session SET head = ?2 WHERE id = ?1",
            params![session, head],
        )?;
        Ok(())
    }

    /// Saves a value for the next refresh.
    pub(super) fn remember(&mut self, what: &str, value: i64) -> Sql<()> {
        self.run(
            "INSERT INTO seen (what, value) VALUES (?1, ?2)
             ON CONFLICT (what) DO UPDATE SET value = excluded.value WHERE value <> excluded.value",
            params![what, value],
        )?;
        Ok(())
    }
}
