-- Whether the agent of a leg made its own context smaller, and was not told since what must not be forgotten.
ALTER TABLE legs ADD COLUMN forgot INTEGER NOT NULL DEFAULT 0;
