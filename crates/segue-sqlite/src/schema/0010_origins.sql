-- Where a session came from: what it was called there, and what was said of it there that has no place here (JSON).
CREATE TABLE origins (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    format     TEXT NOT NULL,
    kept       TEXT NOT NULL,
    at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX origins_by_name ON origins (name);
