-- applied_contract: the contract in force; no row if no run or command has recorded one.
SELECT c.digest, c.version, c.document, c.applied_by, c.by_command, c.schema_text, c.unnumbered
  FROM tidegate.pipeline AS p JOIN tidegate.contract AS c ON (c.pipeline, c.digest) = (p.name, p.contract_digest)
 WHERE p.name = %(pipeline)s;

-- contracts_of: every contract that the pipeline has had, the first one first.
SELECT digest, version, document, applied_by, by_command, schema_text, unnumbered
  FROM tidegate.contract WHERE pipeline = %(pipeline)s ORDER BY applied_at, digest;

-- applications_of: each time that a contract came into force, the first one first: the columns that the row table lost,
-- and the contract of that time.
SELECT a.number, a.digest, a.dropped, c.version, a.document, c.schema_text
  FROM tidegate.contract_application AS a JOIN tidegate.contract AS c USING (pipeline, digest)
 WHERE a.pipeline = %(pipeline)s ORDER BY a.number;

-- in_force: the digest of the contract in force.
SELECT contract_digest FROM tidegate.pipeline WHERE name = %(pipeline)s;

-- lock_contract: no run takes the pipeline over, and no other session changes its contract, while its row is locked.
SELECT FROM tidegate.pipeline WHERE name = %(pipeline)s FOR UPDATE;

-- newest_batch: the newest batch that the pipeline has published; NULL if it has published nothing.
SELECT max(batch_id) FROM tidegate.batch WHERE pipeline = %(pipeline)s;

-- record_contract: puts the contract in force. One that was in force before keeps its first application time. If a user
-- has applied the one before, this one's version has to fit as well. Two deployments that take turns would add an
-- application with each run: among those that changed no column, the last one is enough. Batches keep the numbers of
-- deleted applications: the next application of their contract has the same columns.
WITH pinned AS (UPDATE tidegate.pipeline SET contract_digest = %(digest)s WHERE name = %(pipeline)s),
     applied AS (INSERT INTO tidegate.contract_application (pipeline, digest, document, dropped, applied_by)
                 VALUES (%(pipeline)s, %(digest)s, %(document)s, %(dropped)s, %(applied_by)s)),
     repeated AS (DELETE FROM tidegate.contract_application
                   WHERE pipeline = %(pipeline)s AND number = ANY(%(repeated)s::bigint[]))
INSERT INTO tidegate.contract AS c (pipeline, digest, version, document, schema_text, applied_by, by_command)
VALUES (%(pipeline)s, %(digest)s, %(version)s, %(document)s, %(schema_text)s, %(applied_by)s,
        %(by_command)s OR EXISTS (
          SELECT FROM tidegate.pipeline AS p JOIN tidegate.contract AS was
              ON (was.pipeline, was.digest) = (p.name, p.contract_digest)
           WHERE p.name = %(pipeline)s AND was.by_command))
    ON CONFLICT (pipeline, digest) DO UPDATE
    SET by_command = c.by_command OR excluded.by_command,
        document = excluded.document;  -- two with one digest can differ in classification, renames and limits

-- fence_for_contract: an earlier run publishes nothing more; what it had planned is read again.
UPDATE tidegate.pipeline SET epoch = epoch + 1, owner = NULL, updated_at = now() WHERE name = %(pipeline)s;

-- table_shape: the columns of a table; none if there is no such table, or it is not the pipeline's. `checked`: in a
-- CHECK of this name, as contract apply --not-null adds it.
SELECT attname AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS not_null,
       atthasdef OR attidentity <> '' AS has_default,
       EXISTS (SELECT FROM pg_constraint
                WHERE conrelid = attrelid AND contype = 'c' AND conname = %(check)s AND attnum = ANY(conkey)) AS checked
  FROM pg_attribute
 WHERE attrelid = to_regclass(%(table)s) AND attnum > 0 AND NOT attisdropped
   AND EXISTS (SELECT FROM tidegate.output WHERE pipeline = %(pipeline)s AND table_oid = attrelid)
 ORDER BY attnum;

-- schemas_of_values: the schemas that values of the pipeline's messages named in the last seven days, and in the last batch
-- that named any.
SELECT s.key, s.format, s.document, s."references", s.encrypted
  FROM tidegate.schema_use AS u JOIN tidegate.schema AS s USING (registry, generation, key)
  LEFT JOIN tidegate.batch AS b ON b.batch_id = u.last_batch
 WHERE u.pipeline = %(pipeline)s AND u.part = 'value'
   AND (b.committed_at > now() - interval '7 days'
        OR u.last_batch = (SELECT max(last_batch) FROM tidegate.schema_use
                            WHERE pipeline = %(pipeline)s AND part = 'value'))
 ORDER BY u.last_batch DESC, s.key;

-- unknown_fields: how many messages of the pipeline's newest batches had fields that the contract did not name.
SELECT coalesce(sum(unknown_fields), 0)::bigint
  FROM (SELECT unknown_fields FROM tidegate.batch WHERE pipeline = %(pipeline)s AND replaced_by IS NULL
         ORDER BY batch_id DESC LIMIT 100) AS newest;

-- open_dead_letters: the number of the pipeline's open dead letters for each of these rules.
SELECT error_class, count(*) AS messages FROM tidegate.dead_letter
 WHERE pipeline = %(pipeline)s AND status = 'open' AND error_class = ANY(%(rules)s) GROUP BY error_class;

-- table_holders: the session that has locked a table, the longest transaction first.
SELECT a.pid, a.usename, a.application_name, extract(epoch FROM now() - a.xact_start)::int AS seconds,
       left(regexp_replace(a.query, '\s+', ' ', 'g'), 80) AS query
  FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
 WHERE l.granted AND l.relation = ANY(SELECT to_regclass(t)::oid FROM unnest(%(tables)s::text[]) AS t)
   AND l.pid <> pg_backend_pid()
 ORDER BY a.xact_start LIMIT 1;
