-- When the reporting of a batch to Dagster is tried again by a run of its own, after a run could not report it.
ALTER TABLE tidegate.batch ADD COLUMN report_tries int NOT NULL DEFAULT 0;
ALTER TABLE tidegate.batch ADD COLUMN report_after timestamptz;

-- Each time that a contract came into force: one that was in force before may come again, and a table keeps what became
-- of its columns in between.
CREATE TABLE tidegate.contract_application (
    pipeline   text NOT NULL REFERENCES tidegate.pipeline (name),
    number     bigint GENERATED ALWAYS AS IDENTITY,
    digest     text NOT NULL,
    dropped    text[] NOT NULL,              -- columns that the row table lost then
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    applied_by text NOT NULL,                -- a user, or the run that took it
    PRIMARY KEY (pipeline, number),
    FOREIGN KEY (pipeline, digest) REFERENCES tidegate.contract (pipeline, digest)
);
INSERT INTO tidegate.contract_application (pipeline, digest, dropped, applied_at, applied_by)
SELECT pipeline, digest, dropped, applied_at, applied_by FROM tidegate.contract ORDER BY applied_at, digest;
-- When an earlier one came again was not kept: the one in force is the last.
INSERT INTO tidegate.contract_application (pipeline, digest, dropped, applied_by)
SELECT p.name, p.contract_digest, '{}', c.applied_by
  FROM tidegate.pipeline AS p JOIN tidegate.contract AS c ON (c.pipeline, c.digest) = (p.name, p.contract_digest)
 WHERE p.contract_digest <> (SELECT digest FROM tidegate.contract_application AS a
                              WHERE a.pipeline = p.name ORDER BY number DESC LIMIT 1);
ALTER TABLE tidegate.contract DROP COLUMN dropped;
