-- Failures are counted in standings.
ALTER TABLE legs DROP COLUMN consecutive_failures;

-- The highest number that an item of the version has, so that none is given twice in a session.
ALTER TABLE checkpoints ADD COLUMN last_item INTEGER NOT NULL DEFAULT 0;
UPDATE checkpoints
SET last_item = coalesce((SELECT max(item.value ->> 'id') FROM json_each(delta, '$.set') item), 0);

-- Up to which turn a summariser had read when it made the version; 0 if somebody else did.
ALTER TABLE checkpoints ADD COLUMN read INTEGER NOT NULL DEFAULT 0;
UPDATE checkpoints SET read = covers WHERE made_by = 'summary';
