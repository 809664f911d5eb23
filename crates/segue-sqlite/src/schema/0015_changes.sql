-- What happened, in the order of the commits. kind is a code of segue_store::ChangeKind; object is the row of a turn or a
-- leg, and n the number of an object. Rows are never removed, so that seq has no gap and is never used again.
CREATE TABLE changes (
    seq        INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    kind       INTEGER NOT NULL,
    object     INTEGER,
    n          INTEGER,
    at         INTEGER NOT NULL
) STRICT;

-- The feed of an older store begins with what exists: each session, followed by its turns.
INSERT INTO changes (session_id, kind, object, n, at)
SELECT session_id, kind, object, n, at FROM (
    SELECT id AS session_id, 1 AS kind, NULL AS object, NULL AS n, created_at AS at,
           created_at AS session_at, 0 AS turn_id
    FROM sessions
    UNION ALL
    SELECT t.session_id, 4, t.id, t.n, t.started_at, s.created_at, t.id
    FROM turns t JOIN sessions s ON s.id = t.session_id
    UNION ALL
    SELECT t.session_id, 5, t.id, NULL, t.ended_at, s.created_at, t.id
    FROM turns t JOIN sessions s ON s.id = t.session_id WHERE t.ended_at IS NOT NULL
)
ORDER BY session_at, session_id, turn_id, kind;
