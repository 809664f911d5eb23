-- Whether a turn was made without segue, in the agent's own program.
ALTER TABLE turns ADD COLUMN outside INTEGER NOT NULL DEFAULT 0;
UPDATE turns SET outside = 1 WHERE sent = 1 AND NOT EXISTS (SELECT 1 FROM attempts WHERE turn_id = turns.id);

-- The native record that an attempt ended at.
ALTER TABLE attempts ADD COLUMN mark TEXT;
CREATE INDEX attempts_by_leg ON attempts (leg_id, turn_id);
