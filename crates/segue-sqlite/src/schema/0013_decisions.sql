-- JSON form of a decision. NULL if the decision is known only as text, as in earlier formats.
ALTER TABLE decisions ADD COLUMN data TEXT;
