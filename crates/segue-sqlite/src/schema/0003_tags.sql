-- The words a person put on a session, in lower case.
CREATE TABLE tags (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    PRIMARY KEY (session_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_by_name ON tags (name);

-- A session is also named by the four characters that its id ends with.
CREATE INDEX sessions_by_tail ON sessions (substr(id, -4));
