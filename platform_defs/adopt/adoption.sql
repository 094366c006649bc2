-- adopted_pipeline: the pipeline that adopts its tables; no run takes it over while its row is locked.
SELECT (SELECT max(batch_id) FROM tidegate.batch AS b WHERE b.pipeline = p.name) AS newest_batch
  FROM tidegate.pipeline AS p WHERE name = %(pipeline)s FOR UPDATE;

-- outputs_by_name: the pipeline's tables, with the OID in the ledger, the current OID of the name, and its other owner.
SELECT table_name, definition, batch_id, table_oid::bigint AS was, to_regclass(table_name)::oid::bigint AS becomes,
       (SELECT pipeline FROM tidegate.output AS other
         WHERE other.table_oid = to_regclass(o.table_name) AND other.table_name = o.table_name
           AND other.pipeline <> o.pipeline) AS owner
  FROM tidegate.output AS o WHERE pipeline = %(pipeline)s ORDER BY table_name;

-- unbind: no pipeline has these tables any more: not this one, and no output that had such an OID before the restore.
UPDATE tidegate.output SET table_oid = NULL
 WHERE pipeline = %(pipeline)s AND table_name = ANY(%(tables)s)
    OR table_oid = ANY(SELECT to_regclass(t)::oid FROM unnest(%(tables)s) AS t);

-- bind: makes the tables of these names the pipeline's.
UPDATE tidegate.output SET table_oid = to_regclass(table_name)
 WHERE pipeline = %(pipeline)s AND table_name = ANY(%(tables)s);

-- identities: the identity columns of the ledger, with their sequences.
SELECT c.relname AS table, a.attname AS column, pg_get_serial_sequence(c.oid::regclass::text, a.attname) AS sequence
  FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
 WHERE c.relnamespace = 'tidegate'::regnamespace AND c.relkind = 'r' AND a.attidentity <> '' AND NOT a.attisdropped
 ORDER BY c.relname;

-- highest_ids: the highest batch and staging ids in the ledger; names of staging tables contain theirs.
SELECT greatest((SELECT max(batch_id) FROM tidegate.batch),
                (SELECT max((pending->>'batch_id')::bigint) FROM tidegate.pipeline),
                (SELECT max(batch_id) FROM tidegate.staging), 0) AS batch_id,
       greatest((SELECT max(staging_id) FROM tidegate.staging),
                (SELECT max(substring(relname FROM '^rows_([0-9]+)$')::bigint) FROM pg_class
                  WHERE relnamespace = 'tidegate_staging'::regnamespace), 0) AS staging_id;

-- record_adoption: who adopted which tables, and why. An earlier run changes nothing any more.
WITH fenced AS (UPDATE tidegate.pipeline SET epoch = epoch + 1, owner = NULL, updated_at = now()
                 WHERE name = %(pipeline)s)
INSERT INTO tidegate.adoption (pipeline, actions, reason, adopted_by)
VALUES (%(pipeline)s, %(actions)s, %(reason)s, %(adopted_by)s)
RETURNING adoption_id;
