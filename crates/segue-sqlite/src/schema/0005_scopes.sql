-- What a session is for beside a feature: a task in a state, and the role of the agent.
ALTER TABLE sessions ADD COLUMN task TEXT;
ALTER TABLE sessions ADD COLUMN task_state TEXT;
ALTER TABLE sessions ADD COLUMN role TEXT;

-- All of that in one text (`Purpose::key`), by which the session is found again; NULL for nothing in particular.
ALTER TABLE sessions ADD COLUMN purpose TEXT;
UPDATE sessions SET purpose = '[Feature: ' || feature || ']' WHERE feature IS NOT NULL;
CREATE INDEX sessions_by_purpose ON sessions (project_id, purpose, updated_at, id) WHERE purpose IS NOT NULL;
CREATE INDEX sessions_by_purpose_and_provider ON sessions (project_id, purpose, provider, updated_at, id)
    WHERE purpose IS NOT NULL;
