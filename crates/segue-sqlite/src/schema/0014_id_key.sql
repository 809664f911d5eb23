-- The key with which row numbers become opaque IDs; one row, which never changes.
CREATE TABLE id_key (
    first  INTEGER NOT NULL,
    second INTEGER NOT NULL
) STRICT;
INSERT INTO id_key VALUES (random(), random());
