-- Tables rebuilt beside the live ones, and put in their place: what was rebuilt, by whom, and which batches it replaced.
CREATE TABLE tidegate.replay (
    replay_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline    text NOT NULL REFERENCES tidegate.pipeline (name),
    from_batch  bigint NOT NULL,             -- the first batch that it rebuilds
    fingerprint text NOT NULL,               -- of what decides the result: another contract needs another replay
    started_at  timestamptz NOT NULL DEFAULT now(),
    executed_at timestamptz,                 -- when it was put in place
    executed_by text,
    reason      text,
    differences jsonb                        -- as they were shown
);
CREATE UNIQUE INDEX replay_in_building ON tidegate.replay (pipeline) WHERE executed_at IS NULL;

-- Batches whose rows and dead letters a replay has replaced. They stay as history and no longer count.
ALTER TABLE tidegate.batch ADD COLUMN replaced_by bigint REFERENCES tidegate.replay (replay_id);

-- Whether the pipeline knew other partitions before it knew this one.
ALTER TABLE tidegate.source_position ADD COLUMN added_late boolean NOT NULL DEFAULT false;
UPDATE tidegate.source_position AS p SET added_late = true
 WHERE (SELECT min(r.batch_id) FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
         WHERE b.pipeline = p.pipeline AND r.partition = p.partition)
     > (SELECT min(batch_id) FROM tidegate.batch AS b WHERE b.pipeline = p.pipeline);
