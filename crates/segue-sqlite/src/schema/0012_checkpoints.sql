-- Failures are counted in standings.
ALTER TABLE legs DROP COLUMN consecutive_failures;
