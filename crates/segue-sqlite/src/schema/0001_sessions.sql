-- Times are microseconds since 1970 in UTC. A figure that is not known is NULL.

CREATE TABLE projects (
    id  INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE
) STRICT;

-- A session is a branch: a name and a head.
CREATE TABLE sessions (
    id           TEXT PRIMARY KEY,
    project_id   INTEGER NOT NULL REFERENCES projects (id),
    cwd          TEXT NOT NULL,
    title        TEXT NOT NULL,
    title_from   TEXT NOT NULL,
    feature      TEXT,
    provider     TEXT NOT NULL,
    leg_id       INTEGER,
    head_id      INTEGER,
    turns        INTEGER NOT NULL DEFAULT 0,
    total_tokens INTEGER,
    forked_from  TEXT,
    forked_at    INTEGER,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_time ON sessions (updated_at, id);
CREATE INDEX sessions_by_project ON sessions (project_id, updated_at, id);

-- A turn is a commit. session_id is the session that keeps it alive; forks share it through parent_id.
CREATE TABLE turns (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id      TEXT NOT NULL REFERENCES sessions (id),
    parent_id       INTEGER REFERENCES turns (id),
    n               INTEGER NOT NULL,
    state           TEXT NOT NULL,
    sent            INTEGER NOT NULL DEFAULT 0,
    input_tokens    INTEGER,
    output_tokens   INTEGER,
    cached_tokens   INTEGER,
    total_tokens    INTEGER,
    context_tokens  INTEGER,
    context_window  INTEGER,
    failure_class   TEXT,
    failure_message TEXT,
    failure_hint    TEXT,
    failure_stderr  TEXT,
    started_at      INTEGER NOT NULL,
    ended_at        INTEGER
) STRICT;
CREATE INDEX turns_by_session ON turns (session_id);
CREATE INDEX turns_by_parent ON turns (parent_id);

-- payload is the versioned encoding of segue_core::stored. With rowids: without, every payload above a
-- kilobyte would get a page of its own.
CREATE TABLE messages (
    turn_id  INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    seq      INTEGER NOT NULL,
    role     TEXT NOT NULL,
    complete INTEGER NOT NULL,
    payload  TEXT NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (turn_id, seq)
) STRICT;

-- What is being said right now, as it comes; it goes when the message is whole.
CREATE TABLE drafts (
    turn_id INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    seq     INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    text    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (turn_id, seq, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
    turn_id         INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    n               INTEGER NOT NULL,
    leg_id          INTEGER NOT NULL,
    state           TEXT NOT NULL,
    failure_class   TEXT,
    failure_message TEXT,
    failure_hint    TEXT,
    failure_stderr  TEXT,
    started_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    PRIMARY KEY (turn_id, n)
) STRICT, WITHOUT ROWID;

-- tip_id is the last turn the native session has been sent.
CREATE TABLE legs (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id           TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    n                    INTEGER NOT NULL,
    provider             TEXT NOT NULL,
    native_id            TEXT NOT NULL,
    tip_id               INTEGER,
    consecutive_failures INTEGER NOT NULL DEFAULT 0,
    total_tokens         INTEGER,
    context_tokens       INTEGER,
    opened_at            INTEGER NOT NULL,
    ended_at             INTEGER,
    ended_why            TEXT,
    UNIQUE (session_id, n)
) STRICT;
CREATE INDEX legs_by_native_id ON legs (native_id);

-- Every move of a head that is not simply the next turn.
CREATE TABLE head_moves (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    n          INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    from_id    INTEGER NOT NULL,
    to_id      INTEGER NOT NULL,
    undone     INTEGER NOT NULL DEFAULT 0,
    at         INTEGER NOT NULL,
    PRIMARY KEY (session_id, n)
) STRICT, WITHOUT ROWID;

-- The owner is NULL when nobody holds the session; the epoch only ever grows.
CREATE TABLE leases (
    session_id    TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    epoch         INTEGER NOT NULL,
    owner_host    TEXT,
    owner_pid     INTEGER,
    owner_started TEXT,
    agent_host    TEXT,
    agent_pid     INTEGER,
    agent_started TEXT,
    since         INTEGER NOT NULL,
    heartbeat_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What segue decided by itself, and why.
CREATE TABLE decisions (
    id         INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    kind       TEXT NOT NULL,
    text       TEXT NOT NULL,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX decisions_by_session ON decisions (session_id);
