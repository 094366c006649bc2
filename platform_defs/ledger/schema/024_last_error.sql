-- The error with which the last run that worked on the pipeline failed: `tidegate lag` and `doctor` show it while the
-- pipeline waits for its next try. A committed batch leaves it here, and `failed_tries` at 0.
ALTER TABLE tidegate.pipeline ADD COLUMN last_error text;
ALTER TABLE tidegate.pipeline ADD COLUMN last_error_at timestamptz;
