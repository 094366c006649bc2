-- Batches whose decision (tidegate ack --batch) a replay did not repeat. No later replay repeats it either.
ALTER TABLE tidegate.replay ADD COLUMN decided_again bigint[] NOT NULL DEFAULT '{}';
