-- The strongest lock that this one and the next need comes first: to ask for more later would end in a deadlock with
-- publications, each of which has locked its pipeline's row.
LOCK TABLE tidegate.pipeline IN ACCESS EXCLUSIVE MODE;

-- Schemas that messages name, as a registry had them. What an id has once meant it means for good: a replay asks nobody.
CREATE TABLE tidegate.schema (
    registry      text NOT NULL,             -- its name, and the context in it that ids are of
    generation    int NOT NULL,              -- goes up where a registry was built again with other ids
    key           text NOT NULL,             -- the registry's id, or the schema's GUID
    format        text NOT NULL CHECK (format IN ('avro', 'protobuf', 'json')),
    document      text NOT NULL,
    "references"  jsonb NOT NULL,            -- [[name, document], ...]: each before those that need it
    encrypted     boolean NOT NULL,          -- whether rules of the registry encrypt fields
    sha256        text NOT NULL,
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (registry, generation, key)
);

-- From where on a pipeline's messages name schemas of a generation. The first row of a pipeline has no log: all of it.
CREATE TABLE tidegate.schema_generation (
    pipeline     text NOT NULL REFERENCES tidegate.pipeline (name),
    registry     text NOT NULL,
    generation   int NOT NULL,
    topic_id     text,
    from_offsets jsonb NOT NULL,             -- by partition; one that is missing was added later
    opened_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, registry, generation)
);

-- How many messages of a range name each schema that was known when it was read, in their values or in their keys; the
-- others name none that anybody knew.
CREATE TABLE tidegate.batch_schema (
    batch_id    bigint NOT NULL REFERENCES tidegate.batch (batch_id),
    partition   int NOT NULL,
    from_offset bigint NOT NULL,
    registry    text NOT NULL,
    generation  int NOT NULL,
    key         text NOT NULL,
    part        text NOT NULL CHECK (part IN ('value', 'key')),
    messages    bigint NOT NULL CHECK (messages > 0),
    PRIMARY KEY (batch_id, partition, from_offset, generation, key, part)
);

ALTER TABLE tidegate_staging.coverage ADD COLUMN schemas jsonb NOT NULL DEFAULT '[]';  -- [[generation, key, messages, part], ...]

-- Messages of records that the contract skips (otherRecords): neither rows nor dead letters.
ALTER TABLE tidegate_staging.coverage ADD COLUMN skipped_records bigint NOT NULL DEFAULT 0;
ALTER TABLE tidegate.batch_range ADD COLUMN skipped_records bigint NOT NULL DEFAULT 0;
