-- When it makes sense to try again, where the agent said so.
ALTER TABLE turns ADD COLUMN failure_retry_at INTEGER;
ALTER TABLE attempts ADD COLUMN failure_retry_at INTEGER;
