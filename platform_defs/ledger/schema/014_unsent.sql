-- Dead letters of producers: what was not delivered, byte for byte, and what became of it.
CREATE TABLE tidegate.unsent (
    unsent_id        uuid PRIMARY KEY,          -- made where the delivery failed: a file that is taken in twice adds none
    number           bigint GENERATED ALWAYS AS IDENTITY,  -- the order in which they are sent again
    pipeline         text NOT NULL,             -- a producer needs no pipeline that has run
    topic            text NOT NULL,
    cluster_id       text NOT NULL,
    topic_id         text NOT NULL,
    end_offsets      bigint[] NOT NULL,         -- of partitions 0, 1, ... before the first try
    partition        int CHECK (partition >= 0),
    key              bytea,
    value            bytea,
    header_names     bytea[] NOT NULL,          -- Kafka allows a NUL in a name, text does not
    header_values    bytea[] NOT NULL CHECK (cardinality(header_values) = cardinality(header_names)),
    timestamp_ms     bigint NOT NULL,           -- its time in the log: of the first try
    tidegate_id      bytea NOT NULL,            -- the header by which it is looked for
    id_sent          boolean NOT NULL,          -- whether each try so far had that header
    error_code       int NOT NULL,
    error_name       text NOT NULL,
    outcome          text NOT NULL CHECK (outcome IN ('poison', 'not_written', 'unknown')),
    tries            int NOT NULL CHECK (tries > 0),
    failed_at        timestamptz NOT NULL,      -- the last try
    trying_until     timestamptz,               -- a `dlq send` may be sending it until then
    settled_at       timestamptz,
    settled_how      text CHECK (settled_how IN ('found', 'sent', 'discarded')),
    settled_by       text,
    settled_reason   text,
    settled_partition int,
    settled_offset   bigint,
    CHECK ((settled_at IS NULL) = (settled_how IS NULL))
);
CREATE INDEX unsent_open ON tidegate.unsent (pipeline, number) WHERE settled_at IS NULL;
