-- [messages, dead letters] of the latest batches, oldest first: what the contract's limit of dead letters is judged on.
ALTER TABLE tidegate.pipeline ADD COLUMN recent_messages jsonb NOT NULL DEFAULT '[]';

-- The blocking checks that the pending batch failed, what they observed, and how often.
ALTER TABLE tidegate.pipeline ADD COLUMN red_gate jsonb;
