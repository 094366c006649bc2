-- How often in a row the pending batch has failed though every system was there: after so many times it halts.
ALTER TABLE tidegate.pipeline ADD COLUMN batch_failures int NOT NULL DEFAULT 0;
