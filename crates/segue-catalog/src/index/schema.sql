-- One row a place that a session was found at, so that nothing is read twice.
CREATE TABLE source (
    id        INTEGER PRIMARY KEY,
    provider  TEXT    NOT NULL,
    path      BLOB    NOT NULL,
    -- Which of the sessions in a database; empty where the file is the session.
    part      TEXT    NOT NULL,
    size      INTEGER NOT NULL,
    modified  INTEGER NOT NULL,
    -- What it was when it was last read: see `Verdict`.
    verdict   INTEGER NOT NULL,
    -- The session it holds, or holds less of than another source does.
    native_id TEXT,
    -- Whether it is a copy in segue's archive.
    copy      INTEGER NOT NULL,
    -- Why it could not be read.
    why       TEXT,
    UNIQUE (provider, path, part)
) STRICT;

-- One row a conversation. A session that is read anew gets a new id, so that ids of turns only ever grow.
CREATE TABLE session (
    id           INTEGER PRIMARY KEY,
    provider     TEXT    NOT NULL,
    native_id    TEXT    NOT NULL,
    source       INTEGER,
    state        INTEGER NOT NULL,
    project      TEXT,
    cwd          TEXT,
    branch       TEXT,
    title        TEXT,
    title_from   TEXT,
    first_prompt TEXT,
    last_prompt  TEXT,
    forked_from  TEXT,
    version      TEXT,
    model        TEXT,
    created_at   INTEGER,
    updated_at   INTEGER NOT NULL,
    turns        INTEGER NOT NULL,
    messages     INTEGER NOT NULL,
    input        INTEGER,
    output       INTEGER,
    cached       INTEGER,
    total        INTEGER,
    context      INTEGER,
    -- Of one of segue's own: the turn it ends with.
    head         INTEGER,
    UNIQUE (provider, native_id)
) STRICT;

CREATE INDEX session_by_time ON session (updated_at);
CREATE INDEX session_by_source ON session (source);
CREATE INDEX session_by_project ON session (project, updated_at);
CREATE INDEX session_by_cwd ON session (cwd);
-- Has all that a count asks for: rows are long.
CREATE INDEX session_by_state ON session (state, provider, project);
CREATE INDEX source_by_session ON source (native_id);
CREATE INDEX source_by_verdict ON source (verdict) WHERE verdict = 3;

-- One row a turn. Its id is that of its session, shifted, and its number.
CREATE TABLE turn (
    id       INTEGER PRIMARY KEY,
    at       INTEGER,
    -- Where to start in order to read it again; none for the beginning.
    after    TEXT,
    messages INTEGER NOT NULL,
    input    INTEGER,
    output   INTEGER,
    cached   INTEGER,
    total    INTEGER
) STRICT;

-- What the last refresh saw, to know at a glance that nothing changed since.
CREATE TABLE seen (
    what  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;

-- The words of each turn. Only the words: what was said is read where it is.
CREATE VIRTUAL TABLE text USING fts5 (
    prompt, answer, call, output, title,
    content = '', contentless_delete = 1, tokenize = "unicode61 remove_diacritics 2"
);
