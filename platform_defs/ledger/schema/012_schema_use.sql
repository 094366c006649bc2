-- Which schemas the messages of each pipeline name: a few rows, however many batches there are.
CREATE TABLE tidegate.schema_use (
    pipeline    text NOT NULL,               -- a replay that is being built has rows of its own
    registry    text NOT NULL,
    generation  int NOT NULL,
    key         text NOT NULL,
    part        text NOT NULL CHECK (part IN ('value', 'key')),
    first_batch bigint NOT NULL,             -- the first one with a message that names it, and the last one
    last_batch  bigint NOT NULL,
    PRIMARY KEY (pipeline, registry, generation, key, part)
);

INSERT INTO tidegate.schema_use
SELECT b.pipeline, s.registry, s.generation, s.key, s.part, min(b.batch_id), max(b.batch_id)
  FROM tidegate.batch_schema AS s JOIN tidegate.batch AS b USING (batch_id)
 GROUP BY b.pipeline, s.registry, s.generation, s.key, s.part;
