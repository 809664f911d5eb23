-- How many tokens a brief needs to tell a message; NULL until somebody has counted.
ALTER TABLE messages ADD COLUMN tokens INTEGER;

-- How many tokens the native session of a leg holds, by our count; NULL is unknown.
ALTER TABLE legs ADD COLUMN held_tokens INTEGER DEFAULT 0;
UPDATE legs SET held_tokens = NULL WHERE tip_id IS NOT NULL;

-- The same when the attempt ended, to be compared with what the agent reported for the turn.
ALTER TABLE attempts ADD COLUMN estimated_tokens INTEGER;
CREATE INDEX attempts_estimated ON attempts (turn_id) WHERE estimated_tokens IS NOT NULL;
