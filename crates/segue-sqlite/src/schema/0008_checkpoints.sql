-- What a conversation comes to, version by version. One hangs on a turn, and the nearest at or above a head is in force.
-- delta is the versioned encoding of segue_core::Delta, against the version `base`, or against nothing. The turn of a
-- base is the same or an ancestor, so that it lives as long. covers is the number of the last turn that is summed up.
CREATE TABLE checkpoints (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT REFERENCES sessions (id) ON DELETE SET NULL,
    n          INTEGER NOT NULL,
    turn_id    INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    base       INTEGER REFERENCES checkpoints (id) DEFERRABLE INITIALLY DEFERRED,
    depth      INTEGER NOT NULL,
    covers     INTEGER NOT NULL,
    delta      TEXT NOT NULL,
    tokens     INTEGER NOT NULL,
    replaced   INTEGER NOT NULL,
    made_by    TEXT NOT NULL,
    why        TEXT NOT NULL,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX checkpoints_by_turn ON checkpoints (turn_id);
CREATE INDEX checkpoints_by_session ON checkpoints (session_id);
CREATE INDEX checkpoints_by_base ON checkpoints (base);
