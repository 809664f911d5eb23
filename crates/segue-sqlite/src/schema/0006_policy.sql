-- How a session fares with an agent since its last success there; no row while nothing is wrong.
CREATE TABLE standings (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    provider   TEXT NOT NULL,
    failures   INTEGER NOT NULL,
    limited    INTEGER NOT NULL,
    rotations  INTEGER NOT NULL,
    retry_at   INTEGER,
    PRIMARY KEY (session_id, provider)
) STRICT, WITHOUT ROWID;

-- Until when an agent takes no prompts, by its own word, of whatever session.
CREATE TABLE rests (
    provider TEXT PRIMARY KEY,
    until    INTEGER NOT NULL,
    class    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
