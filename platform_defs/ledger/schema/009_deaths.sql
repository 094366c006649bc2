-- When the server started on which the pipeline was taken over: what ends with its server is no death.
ALTER TABLE tidegate.pipeline ADD COLUMN server_started timestamptz;

-- Who took each pipeline over, in a table that a recovery empties: so a crash of Postgres, in which every session ends,
-- can be told from a connection that was cut.
CREATE UNLOGGED TABLE tidegate_staging.holder (
    pipeline text PRIMARY KEY,
    owner    uuid NOT NULL
);
