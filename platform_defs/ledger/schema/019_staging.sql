-- Staging tables stay: a try takes one of its pipeline's that no other try uses, and it is emptied when the try is
-- forgotten. A table for each try, created and dropped, made the catalogue grow.
CREATE TABLE tidegate.staging_table (
    table_id bigint PRIMARY KEY,             -- in its name: tidegate_staging.rows_<table_id>
    pipeline text NOT NULL REFERENCES tidegate.pipeline (name)
);

-- A try from before has a table of its own, of its number. Nothing takes that again: it has no view audited_<number>.
INSERT INTO tidegate.staging_table (table_id, pipeline) SELECT staging_id, pipeline FROM tidegate.staging;
ALTER TABLE tidegate.staging ADD COLUMN table_id bigint UNIQUE REFERENCES tidegate.staging_table (table_id);
UPDATE tidegate.staging SET table_id = staging_id;
ALTER TABLE tidegate.staging ALTER COLUMN table_id SET NOT NULL;

-- The attempts of a try whose results arrived: what an audit sees. Unlogged, as what it is about.
CREATE UNLOGGED TABLE tidegate_staging.winner (
    staging_id bigint NOT NULL,
    attempt    uuid NOT NULL,
    PRIMARY KEY (staging_id, attempt)
);

-- Of the offsets that never arrived, by which two attempts at a range are compared.
ALTER TABLE tidegate_staging.coverage ADD COLUMN gap_digest text NOT NULL DEFAULT '';
