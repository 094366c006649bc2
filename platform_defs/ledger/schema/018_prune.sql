LOCK TABLE tidegate.pipeline IN ACCESS EXCLUSIVE MODE;  -- the strongest that follows, as in 010

-- What a pipeline has read and written, less what replays replaced: a sum that outlives the batches.
ALTER TABLE tidegate.pipeline ADD COLUMN messages_total bigint NOT NULL DEFAULT 0;
ALTER TABLE tidegate.pipeline ADD COLUMN rows_total bigint NOT NULL DEFAULT 0;           -- in its row table
ALTER TABLE tidegate.pipeline ADD COLUMN checks_pruned_until bigint NOT NULL DEFAULT 0;  -- the last batch without them
UPDATE tidegate.pipeline AS p SET messages_total = b.messages, rows_total = b.rows
  FROM (SELECT pipeline, sum(messages) AS messages, sum(rows) AS rows FROM tidegate.batch
         WHERE replaced_by IS NULL GROUP BY pipeline) AS b
 WHERE b.pipeline = p.name;

-- What is left of pruned batches: which offsets they read, and which of these the broker never delivered. One row for
-- all that lie next to each other.
CREATE TABLE tidegate.pruned_range (
    pipeline     text NOT NULL REFERENCES tidegate.pipeline (name),
    topic        text NOT NULL,
    topic_id     text NOT NULL,
    partition    int NOT NULL,
    from_offset  bigint NOT NULL,
    until_offset bigint NOT NULL CHECK (until_offset > from_offset),
    messages     bigint NOT NULL,
    gaps         int8multirange NOT NULL,
    first_batch  bigint NOT NULL,
    last_batch   bigint NOT NULL,
    PRIMARY KEY (pipeline, topic_id, partition, first_batch, from_offset)
);

-- Dead letters that were settled and are pruned: where they were, for verify, and how many there were.
CREATE TABLE tidegate.pruned_dead_letter (
    pipeline    text NOT NULL REFERENCES tidegate.pipeline (name),
    topic_id    text NOT NULL,
    partition   int NOT NULL,
    stage       text NOT NULL,
    error_class text NOT NULL,
    status      text NOT NULL,
    messages    bigint NOT NULL,
    offsets     int8multirange NOT NULL,
    PRIMARY KEY (pipeline, topic_id, partition, stage, error_class, status)
);

-- How often each check passed and failed in what is pruned.
CREATE TABLE tidegate.pruned_check (
    pipeline   text NOT NULL REFERENCES tidegate.pipeline (name),
    table_name text NOT NULL,
    check_name text NOT NULL,
    severity   text NOT NULL,
    passed     bigint NOT NULL,
    failed     bigint NOT NULL,
    PRIMARY KEY (pipeline, table_name, check_name, severity)
);

-- How many messages of pruned batches name each schema.
CREATE TABLE tidegate.pruned_schema (
    pipeline    text NOT NULL REFERENCES tidegate.pipeline (name),
    registry    text NOT NULL,
    generation  int NOT NULL,
    key         text NOT NULL,
    part        text NOT NULL,
    messages    bigint NOT NULL,
    first_batch bigint NOT NULL,
    last_batch  bigint NOT NULL,
    PRIMARY KEY (pipeline, registry, generation, key, part)
);

-- How many messages that producers could not deliver were settled and are pruned.
CREATE TABLE tidegate.pruned_unsent (
    pipeline    text NOT NULL,
    topic       text NOT NULL,
    outcome     text NOT NULL,
    error_name  text NOT NULL,
    settled_how text NOT NULL,
    messages    bigint NOT NULL,
    PRIMARY KEY (pipeline, topic, outcome, error_name, settled_how)
);

-- The outbox, by pipeline. Events that have left are not asked for again: they keep NULL.
ALTER TABLE tidegate.lineage_event ADD COLUMN pipeline text;
ALTER TABLE tidegate.lineage_event ADD COLUMN tries int NOT NULL DEFAULT 0;  -- how often the receiver refused it
ALTER TABLE tidegate.lineage_event ADD COLUMN retry_at timestamptz;          -- it and those after it wait until then
ALTER TABLE tidegate.lineage_event ADD COLUMN given_up_at timestamptz;       -- the receiver refused it too often
ALTER TABLE tidegate.lineage_event ADD COLUMN problem text;                  -- what was said when it was last tried
UPDATE tidegate.lineage_event AS e SET pipeline = b.pipeline
  FROM tidegate.batch AS b WHERE b.batch_id = e.batch_id AND e.emitted_at IS NULL;
DROP INDEX tidegate.lineage_event_waiting;
CREATE INDEX lineage_event_waiting ON tidegate.lineage_event (pipeline, sequence)
 WHERE emitted_at IS NULL AND given_up_at IS NULL;
CREATE INDEX lineage_event_given_up ON tidegate.lineage_event (pipeline) WHERE given_up_at IS NOT NULL;
CREATE INDEX lineage_event_by_batch ON tidegate.lineage_event (batch_id);
CREATE INDEX unsent_settled ON tidegate.unsent (pipeline, settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX dead_letter_settled ON tidegate.dead_letter (pipeline, status_at) WHERE status <> 'open';
