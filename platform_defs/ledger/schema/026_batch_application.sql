-- All that this migration and the next one change, the pipelines first, as in 010: a conflict ends it before it reads
-- every batch.
LOCK TABLE tidegate.pipeline, tidegate.contract, tidegate.contract_application, tidegate.batch IN ACCESS EXCLUSIVE MODE;

-- Under which application of its contract a batch was made: a contract can come into force more than once, and columns can
-- be dropped in between. Empty for older batches.
ALTER TABLE tidegate.batch ADD COLUMN contract_application bigint;

-- The application of a contract's older batches, where it is sure: each contract of the pipeline came into force once, and
-- its batches come before those of the next one. Of other pipelines it stays empty.
ALTER TABLE tidegate.contract ADD COLUMN unnumbered bigint;
WITH applied AS (SELECT pipeline, digest, min(number) AS number, count(*) AS times
                   FROM tidegate.contract_application GROUP BY pipeline, digest),
     first AS (SELECT DISTINCT ON (pipeline) pipeline, digest
                 FROM tidegate.contract ORDER BY pipeline, applied_at, digest),
     made AS (SELECT b.pipeline, a.number, min(b.batch_id) AS low, max(b.batch_id) AS high
                FROM tidegate.batch AS b
                JOIN first AS f USING (pipeline)
                JOIN applied AS a ON (a.pipeline, a.digest) = (b.pipeline, coalesce(b.contract_digest, f.digest))
               WHERE b.replaced_by IS NULL GROUP BY b.pipeline, a.number)
UPDATE tidegate.contract AS c SET unnumbered = a.number
  FROM applied AS a
 WHERE (a.pipeline, a.digest) = (c.pipeline, c.digest)
   AND NOT EXISTS (SELECT FROM applied AS o WHERE o.pipeline = c.pipeline AND o.times > 1)
   AND NOT EXISTS (SELECT FROM made AS m JOIN made AS o USING (pipeline)
                    WHERE m.pipeline = c.pipeline AND m.number < o.number AND m.high > o.low);

-- Before applications were kept, what a contract dropped when it came again was added to what it had dropped the first
-- time: its last application dropped those of these columns that the pipeline's tables do not have any more.
UPDATE tidegate.contract_application AS a SET dropped = late.dropped
  FROM (SELECT l.pipeline, l.number, array_agg(DISTINCT d.name) AS dropped
          FROM (SELECT DISTINCT ON (pipeline) pipeline, number, digest
                  FROM tidegate.contract_application ORDER BY pipeline, number DESC) AS l
          JOIN tidegate.contract_application AS e ON (e.pipeline, e.digest) = (l.pipeline, l.digest) AND e.number < l.number,
               unnest(e.dropped) AS d (name)
         WHERE NOT EXISTS (SELECT FROM tidegate.output AS o
                            WHERE o.pipeline = l.pipeline
                              AND (NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = o.table_oid)
                                   OR EXISTS (SELECT FROM pg_attribute AS t
                                               WHERE t.attrelid = o.table_oid AND t.attname = d.name
                                                 AND NOT t.attisdropped)))
         GROUP BY l.pipeline, l.number) AS late
 WHERE (a.pipeline, a.number) = (late.pipeline, late.number) AND a.dropped = '{}';
