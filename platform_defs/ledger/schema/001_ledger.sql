-- The ledger: what became of every message, in the database that holds the rows.
-- The schemas are there already: tidegate, and tidegate_staging for what is not published yet.

CREATE SEQUENCE tidegate.batch_id;
CREATE SEQUENCE tidegate.staging_id;

CREATE TYPE tidegate.header AS (name text, value bytea);

CREATE TABLE tidegate.pipeline (
    name        text PRIMARY KEY,
    epoch       bigint NOT NULL DEFAULT 0,
    owner       uuid,                        -- changes with the epoch: a run with an older pair changes nothing
    run_id      text,
    state       text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'halted')),
    halt_code   text,
    halt_detail jsonb,
    pending     jsonb,                       -- the batch whose offsets are fixed: {batch_id, cluster_id, topic_id, ranges}
    failed_tries int NOT NULL DEFAULT 0,     -- of the pending batch, at its gates
    retry_at    timestamptz,                 -- the sensor starts no run for the pending batch before then
    updated_at  timestamptz NOT NULL DEFAULT now(),
    CHECK ((state = 'halted') = (halt_code IS NOT NULL))
);

CREATE TABLE tidegate.output (
    table_oid   oid PRIMARY KEY,             -- one owner for a table, whatever it is renamed to
    table_name  text NOT NULL,
    pipeline    text NOT NULL REFERENCES tidegate.pipeline (name),
    disposition text NOT NULL CHECK (disposition IN ('append', 'upsert', 'accumulate'))
);

CREATE TABLE tidegate.batch (
    batch_id         bigint PRIMARY KEY,
    pipeline         text NOT NULL REFERENCES tidegate.pipeline (name),
    epoch            bigint NOT NULL,
    owner            uuid NOT NULL,
    run_id           text,
    messages         bigint NOT NULL,
    rows             bigint NOT NULL,
    dead_letters     bigint NOT NULL,
    unknown_fields   bigint NOT NULL,        -- messages with a field that the contract does not know
    contract_version text NOT NULL,
    timings          jsonb NOT NULL,         -- seconds by step
    committed_at     timestamptz NOT NULL DEFAULT now(),
    told_at          timestamptz             -- when it had been reported to Dagster
);
CREATE INDEX batch_by_pipeline ON tidegate.batch (pipeline, batch_id);
CREATE INDEX batch_untold ON tidegate.batch (pipeline) WHERE told_at IS NULL;

CREATE TABLE tidegate.source_position (
    pipeline     text NOT NULL REFERENCES tidegate.pipeline (name),
    topic        text NOT NULL,
    partition    int NOT NULL,
    cluster_id   text NOT NULL,              -- compared, never part of the key: a topic created again must not look
    topic_id     text NOT NULL,              -- like a new partition
    start_offset bigint NOT NULL,            -- where the pipeline started: what is below was never promised
    next_offset  bigint NOT NULL CHECK (next_offset >= start_offset),
    leader_epoch int,
    seen_end     bigint,
    batch_id     bigint,                     -- the batch that moved it here last
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, topic, partition)
);

CREATE TABLE tidegate.batch_range (
    batch_id     bigint NOT NULL REFERENCES tidegate.batch (batch_id),
    topic        text NOT NULL,
    topic_id     text NOT NULL,
    partition    int NOT NULL,
    from_offset  bigint NOT NULL,
    until_offset bigint NOT NULL CHECK (until_offset > from_offset),
    messages     bigint NOT NULL,
    gaps         int8multirange NOT NULL,    -- offsets that the broker never delivered: control records, compaction
    leader_epoch int,
    PRIMARY KEY (batch_id, partition, from_offset)
);

CREATE TABLE tidegate.dead_letter (
    pipeline      text NOT NULL REFERENCES tidegate.pipeline (name),
    batch_id      bigint NOT NULL REFERENCES tidegate.batch (batch_id),
    topic         text NOT NULL,
    topic_id      text NOT NULL,
    partition     int NOT NULL,
    "offset"      bigint NOT NULL,
    timestamp_ms  bigint,
    key           bytea,
    value         bytea,
    headers       tidegate.header[],
    stage         text NOT NULL CHECK (stage IN ('decode', 'check', 'transform', 'publish')),
    error_class   text NOT NULL,
    error_message text NOT NULL,
    field         text,
    status        text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'redriven', 'discarded')),
    status_by     text,
    status_at     timestamptz,
    UNIQUE (pipeline, topic_id, partition, "offset")
);
CREATE INDEX dead_letter_by_batch ON tidegate.dead_letter (batch_id);

CREATE TABLE tidegate.declared_skip (
    pipeline     text NOT NULL REFERENCES tidegate.pipeline (name),
    topic_id     text NOT NULL,
    partition    int NOT NULL,
    from_offset  bigint NOT NULL,
    until_offset bigint NOT NULL CHECK (until_offset > from_offset),
    reason       text NOT NULL,
    declared_by  text NOT NULL,
    declared_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, topic_id, partition, from_offset)
);

CREATE TABLE tidegate.check_result (
    batch_id   bigint NOT NULL REFERENCES tidegate.batch (batch_id),
    check_name text NOT NULL,
    table_name text NOT NULL,
    severity   text NOT NULL CHECK (severity IN ('blocking', 'warning')),
    passed     boolean NOT NULL,
    observed   jsonb NOT NULL,
    PRIMARY KEY (batch_id, table_name, check_name)
);

CREATE TABLE tidegate.lineage_event (
    sequence   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id   bigint NOT NULL REFERENCES tidegate.batch (batch_id),
    event      jsonb NOT NULL,
    emitted_at timestamptz
);
CREATE INDEX lineage_event_waiting ON tidegate.lineage_event (sequence) WHERE emitted_at IS NULL;

-- One try at staging a batch. Its rows are in tidegate_staging.rows_<staging_id>, the rest in the two tables below.
-- A fenced run goes on writing under its own staging_id, which is no longer read.
CREATE TABLE tidegate.staging (
    staging_id bigint PRIMARY KEY,
    pipeline   text NOT NULL REFERENCES tidegate.pipeline (name),
    batch_id   bigint NOT NULL,
    epoch      bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Unlogged, as the staged rows are: a recovery empties all of them together, and publish sees that coverage is gone.
CREATE UNLOGGED TABLE tidegate_staging.coverage (
    staging_id     bigint NOT NULL,
    attempt        uuid PRIMARY KEY,
    partition      int NOT NULL,
    from_offset    bigint NOT NULL,
    until_offset   bigint NOT NULL,
    messages       bigint NOT NULL,
    rows           bigint NOT NULL,
    dead_letters   bigint NOT NULL,
    unknown_fields bigint NOT NULL,
    gaps           int8multirange NOT NULL,
    leader_epoch   int
);
CREATE INDEX coverage_by_staging ON tidegate_staging.coverage (staging_id);

CREATE UNLOGGED TABLE tidegate_staging.dead_letter (
    staging_id    bigint NOT NULL,
    attempt       uuid NOT NULL,
    partition     int NOT NULL,
    "offset"      bigint NOT NULL,
    timestamp_ms  bigint,
    key           bytea,
    value         bytea,
    header_names  text[],
    header_values bytea[],
    stage         text NOT NULL,
    error_class   text NOT NULL,
    error_message text NOT NULL,
    field         text
);
CREATE INDEX staged_dead_letter_by_attempt ON tidegate_staging.dead_letter (staging_id, attempt);
