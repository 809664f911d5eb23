-- What an agent in a role is told of the project. content is the versioned encoding of segue_core::Context with its
-- sources; it can be gathered anew at any time.
CREATE TABLE contexts (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    content    TEXT NOT NULL,
    tokens     INTEGER NOT NULL,
    at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
