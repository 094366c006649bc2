-- The contracts that a pipeline has had: what judged the messages of each batch, as it was then.
LOCK TABLE tidegate.pipeline IN ACCESS EXCLUSIVE MODE;  -- the strongest that follows, as in 010

CREATE TABLE tidegate.contract (
    pipeline    text NOT NULL REFERENCES tidegate.pipeline (name),
    digest      text NOT NULL,               -- of what decides the rows that a message becomes, and of the version
    version     text NOT NULL,
    document    text NOT NULL,               -- ODCS, in YAML
    schema_text text NOT NULL,               -- what its schemaFile holds; empty without one
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    applied_by  text NOT NULL,               -- a user, or the run that took it
    by_command  boolean NOT NULL,            -- it, or one before it, by `tidegate contract apply`: versions have to fit
    dropped     text[] NOT NULL DEFAULT '{}',  -- columns that the row table lost when it was applied
    first_batch bigint,                      -- the first one that it judged
    PRIMARY KEY (pipeline, digest)
);

-- The contract in force; NULL until the first run after this migration.
ALTER TABLE tidegate.pipeline ADD COLUMN contract_digest text;
-- A try at a batch is pinned, not the batch: one that fails a gate can be cured by another contract.
ALTER TABLE tidegate.staging ADD COLUMN contract_digest text;
-- NULL: a batch from before this migration; the pipeline's first contract stands for it.
ALTER TABLE tidegate.batch ADD COLUMN contract_digest text;
-- What made its rows, beside the contract: a digest of the transform, empty without one; NULL where it is not known.
ALTER TABLE tidegate.staging ADD COLUMN transform_digest text;
ALTER TABLE tidegate.batch ADD COLUMN transform_digest text;
