-- register_pipeline: a pipeline's row, created at its first use. If the row exists, ON CONFLICT alone would wait for a
-- publication in flight, and nothing would end that.
INSERT INTO tidegate.pipeline (name)
SELECT %(pipeline)s WHERE NOT EXISTS (SELECT 1 FROM tidegate.pipeline WHERE name = %(pipeline)s)
    ON CONFLICT DO NOTHING;

-- current_owner: the owner whose sessions are to end if the pipeline's row cannot be locked.
SELECT owner FROM tidegate.pipeline WHERE name = %(pipeline)s;

-- lock_pipeline: step 0; waits for a publication in flight, up to lock_timeout.
SELECT epoch, owner, state, halt_code, halt_detail, batch_failures, run_id
  FROM tidegate.pipeline WHERE name = %(pipeline)s FOR UPDATE;

-- take_over: from here on a run with an older (epoch, owner) changes nothing. An owner still recorded did not end
-- by itself: should this run die as well, the next one waits, and works on other pipelines first. A commit forgets
-- it. Its pending batch has failed, unless the owner is `alive`, or it or its run has a session (then it lost only
-- its connection to Postgres), or Postgres has restarted since.
WITH held AS (INSERT INTO tidegate_staging.holder (pipeline, owner) VALUES (%(pipeline)s, %(owner)s)
                  ON CONFLICT (pipeline) DO UPDATE SET owner = excluded.owner)
UPDATE tidegate.pipeline
   SET epoch = epoch + 1, owner = %(owner)s, run_id = %(run_id)s, server_started = pg_postmaster_start_time(),
       updated_at = now(), failed_tries = failed_tries + (owner IS NOT NULL)::int,
       last_error = CASE WHEN owner IS NULL THEN last_error ELSE 'the previous run ended without reporting an error' END,
       last_error_at = CASE WHEN owner IS NULL THEN last_error_at ELSE now() END,
       last_error_hides = CASE WHEN owner IS NULL THEN last_error_hides ELSE ARRAY['*'] END,
       batch_failures = batch_failures + (
         owner IS NOT NULL AND owner IS DISTINCT FROM %(alive)s::uuid AND pending IS NOT NULL
         AND coalesce(run_id <> %(run_id)s, true)
         AND server_started IS NOT DISTINCT FROM pg_postmaster_start_time()
         AND coalesce(hashtextextended('tidegate/run/' || run_id, 0) NOT IN (SELECT key FROM tidegate.alive), true)
         AND hashtextextended('tidegate/' || left(name, 20) || '/' || replace(owner::text, '-', ''), 0)
             NOT IN (SELECT key FROM tidegate.alive))::int,
       retry_at = CASE WHEN owner IS NULL THEN retry_at
                       ELSE greatest(retry_at, now() + interval '5 seconds' * 2 ^ least(failed_tries, 6)) END
 WHERE name = %(pipeline)s
RETURNING epoch, batch_failures;

-- fence_all: for a migration. Runs of the version before do not know what it added; none takes a pipeline over
-- meanwhile.
LOCK TABLE tidegate.pipeline IN SHARE ROW EXCLUSIVE MODE;
UPDATE tidegate.pipeline SET epoch = epoch + 1, owner = NULL WHERE owner IS NOT NULL;

-- end_sessions: ends the sessions that a fenced owner still has; a stopped COPY reacts to nothing less. Sessions of a
-- role that may be seen (pg_monitor) but not ended stay: they publish nothing.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity AS s LEFT JOIN pg_roles AS r ON r.oid = s.usesysid
 WHERE application_name = %(application_name)s AND pid <> pg_backend_pid()
   AND CASE WHEN r.rolsuper THEN current_setting('is_superuser')::bool
            ELSE pg_has_role(s.usesysid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE') END;

-- lock_as_owner: the pipeline's row for this transaction, as its owner, or no row at all.
SELECT 1 FROM tidegate.pipeline
 WHERE name = %(pipeline)s AND epoch = %(epoch)s AND owner = %(owner)s AND state = 'active'
   FOR UPDATE;

-- positions: the position of these pipelines, by partition, with the topic that was read, whatever the contract names.
SELECT pipeline, partition, cluster_id, topic_id, next_offset, leader_epoch, seen_end, topic
  FROM tidegate.source_position WHERE pipeline = ANY(%(pipelines)s) ORDER BY pipeline, partition;

-- pending: the batch whose offsets are fixed, if there is one, and how many of the messages before it were dead
-- letters.
SELECT pending, recent_messages FROM tidegate.pipeline WHERE name = %(pipeline)s;

-- add_position: a partition seen for the first time. Only beside siblings in the same log, or as the first of all.
INSERT INTO tidegate.source_position
       (pipeline, topic, partition, cluster_id, topic_id, start_offset, next_offset, seen_end, added_late)
SELECT %(pipeline)s, %(topic)s, %(partition)s, %(cluster_id)s, %(topic_id)s, %(next_offset)s, %(next_offset)s, %(seen_end)s,
       %(late)s
 WHERE NOT EXISTS (SELECT 1 FROM tidegate.source_position
                    WHERE pipeline = %(pipeline)s
                      AND (topic, topic_id, cluster_id) <> (%(topic)s, %(topic_id)s, %(cluster_id)s));

-- add_positions: the same for several in one log: a pipeline's first batch may have thousands.
INSERT INTO tidegate.source_position
       (pipeline, topic, partition, cluster_id, topic_id, start_offset, next_offset, seen_end, added_late)
SELECT %(pipeline)s, %(topic)s, a.partition, %(cluster_id)s, %(topic_id)s, a.next_offset, a.next_offset, a.seen_end, %(late)s
  FROM unnest(%(partitions)s::int[], %(next_offsets)s::bigint[], %(seen_ends)s::bigint[])
       AS a (partition, next_offset, seen_end)
 WHERE NOT EXISTS (SELECT 1 FROM tidegate.source_position
                    WHERE pipeline = %(pipeline)s
                      AND (topic, topic_id, cluster_id) <> (%(topic)s, %(topic_id)s, %(cluster_id)s));

-- note_ends: before partitions are added, the ends up to which an upsert reads the others first
-- (engine.added_partitions).
UPDATE tidegate.source_position AS p SET seen_end = e.seen_end
  FROM unnest(%(partitions)s::int[], %(seen_ends)s::bigint[]) AS e (partition, seen_end)
 WHERE p.pipeline = %(pipeline)s AND p.topic = %(topic)s AND p.partition = e.partition;

-- has_failed: true if the pipeline's last try failed or died, and nothing was planned or published since.
SELECT failed_tries > 0 FROM tidegate.pipeline WHERE name = %(pipeline)s;

-- row_local: the contract, transform and Spark under which the transform was compared last.
SELECT row_local FROM tidegate.pipeline WHERE name = %(pipeline)s;

-- note_row_local: the comparison found no difference. Other runs of the same code need not compare it again.
UPDATE tidegate.pipeline SET row_local = %(key)s WHERE name = %(pipeline)s;

-- next_batch_id: ids grow; a batch that was dropped leaves a hole.
SELECT nextval('tidegate.batch_id');

-- store_pending: fixes every offset of the next batch.
UPDATE tidegate.pipeline
   SET pending = %(pending)s, failed_tries = 0, batch_failures = 0, retry_at = NULL, failed_checks = NULL,
       updated_at = now()
 WHERE name = %(pipeline)s
RETURNING recent_messages;

-- open_staging: one try at a batch, with one contract; the tries of a fenced run have its epoch.
INSERT INTO tidegate.staging (staging_id, table_id, pipeline, batch_id, epoch, contract_digest, transform_digest)
VALUES (%(staging_id)s, %(table_id)s, %(pipeline)s, %(batch_id)s, %(epoch)s, %(contract_digest)s, %(transform_digest)s);

-- stale_staging: tries that will not be published any more, and one that was prefetched (engine/prefetch.py).
SELECT staging_id, table_id FROM tidegate.staging WHERE pipeline = %(pipeline)s AND epoch <= %(epoch)s;

-- forget_staging: deletes the coverage, dead letters and winners of such a try, and the try itself; and what tasks have
-- written for tries that were forgotten before.
WITH alive AS (SELECT min(staging_id) AS first FROM tidegate.staging),
     a AS (DELETE FROM tidegate_staging.coverage
            WHERE staging_id = %(staging_id)s OR staging_id < (SELECT first FROM alive)),
     b AS (DELETE FROM tidegate_staging.dead_letter
            WHERE staging_id = %(staging_id)s OR staging_id < (SELECT first FROM alive)),
     c AS (DELETE FROM tidegate_staging.winner
            WHERE staging_id = %(staging_id)s OR staging_id < (SELECT first FROM alive))
DELETE FROM tidegate.staging WHERE staging_id = %(staging_id)s;

-- cover: the proof that one attempt read its range to the end.
INSERT INTO tidegate_staging.coverage
       (staging_id, attempt, partition, from_offset, until_offset, messages, rows, dead_letters, unknown_fields, gaps,
        gap_digest, leader_epoch, schemas, skipped_records)
VALUES (%(staging_id)s, %(attempt)s, %(partition)s, %(from_offset)s, %(until_offset)s, %(messages)s, %(rows)s,
        %(dead_letters)s, %(unknown_fields)s, %(gaps)s::int8multirange, %(gap_digest)s, %(leader_epoch)s, %(schemas)s,
        %(skipped_records)s);

-- coverage: every complete attempt of a try. Its gaps, possibly as many as messages, stay here.
SELECT attempt, partition, from_offset, until_offset, messages, rows, dead_letters, unknown_fields, gap_digest,
       leader_epoch, schemas, skipped_records
  FROM tidegate_staging.coverage WHERE staging_id = %(staging_id)s ORDER BY partition, from_offset, attempt;

-- fault_counts: messages that did not become rows, by the rule they broke, with ten samples each.
SELECT stage, error_class, count(*),
       (jsonb_agg(jsonb_build_object('partition', partition, 'offset', "offset", 'field', field, 'message', error_message)
                  ORDER BY partition, "offset") FILTER (WHERE nth <= 10))
  FROM (SELECT *, row_number() OVER (PARTITION BY stage, error_class ORDER BY partition, "offset") AS nth
          FROM tidegate_staging.dead_letter
         WHERE staging_id = %(staging_id)s AND attempt = ANY(%(attempts)s)) AS numbered
 GROUP BY stage, error_class;

-- move_positions: the compare-and-swap that makes a batch exactly-once.
-- Touches one row a partition, or a position has moved and the batch must not commit.
UPDATE tidegate.source_position AS p
   SET next_offset = r.until_offset, leader_epoch = r.leader_epoch,
       seen_end = greatest(p.seen_end, r.until_offset), batch_id = %(batch_id)s, updated_at = now()
  FROM unnest(%(partitions)s::int[], %(from_offsets)s::bigint[], %(until_offsets)s::bigint[], %(leader_epochs)s::int[])
       AS r (partition, from_offset, until_offset, leader_epoch)
 WHERE p.pipeline = %(pipeline)s AND p.topic = %(topic)s AND p.partition = r.partition
   AND p.next_offset = r.from_offset AND p.topic_id = %(topic_id)s AND p.cluster_id = %(cluster_id)s;

-- write_batch: after COMMIT this row proves that the batch happened, and its absence that it did not. Each table that
-- the contract names is now at this batch, or at a later one that committed before: a table that it does not name falls
-- behind. The contract for its messages is that of the published try, by its newest application: no other one comes
-- into force while the pipeline's row is locked.
WITH written AS (UPDATE tidegate.output SET batch_id = greatest(batch_id, %(batch_id)s)
                  WHERE pipeline = %(pipeline)s AND table_name = ANY(%(tables)s)),
     pinned AS (SELECT contract_digest, transform_digest FROM tidegate.staging WHERE staging_id = %(staging_id)s),
     first AS (UPDATE tidegate.contract AS c SET first_batch = %(batch_id)s FROM pinned AS p
                WHERE c.pipeline = %(pipeline)s AND c.digest = p.contract_digest
                  AND coalesce(c.first_batch > %(batch_id)s, true))
INSERT INTO tidegate.batch (batch_id, pipeline, epoch, owner, run_id, messages, rows, dead_letters, unknown_fields,
                            contract_version, contract_digest, contract_application, transform_digest,
                            timings)
VALUES (%(batch_id)s, %(pipeline)s, %(epoch)s, %(owner)s, %(run_id)s, %(messages)s, %(rows)s, %(dead_letters)s,
        %(unknown_fields)s, %(contract_version)s, (SELECT contract_digest FROM pinned),
        (SELECT max(number) FROM tidegate.contract_application AS a JOIN pinned AS p ON a.digest = p.contract_digest
          WHERE a.pipeline = %(pipeline)s),
        (SELECT transform_digest FROM pinned), %(timings)s);

-- write_batch_ranges: the offsets that the batch read, and those that never arrived, from one attempt a range.
INSERT INTO tidegate.batch_range (batch_id, topic, topic_id, partition, from_offset, until_offset, messages, gaps,
                                  leader_epoch, skipped_records)
SELECT %(batch_id)s, %(topic)s, %(topic_id)s, c.partition, c.from_offset, c.until_offset, c.messages, c.gaps,
       chosen.leader_epoch, c.skipped_records
  FROM unnest(%(attempts)s::uuid[], %(leader_epochs)s::int[]) AS chosen (attempt, leader_epoch)
  JOIN tidegate_staging.coverage AS c USING (attempt)
 WHERE c.staging_id = %(staging_id)s;

-- write_check: a check's result for the batch.
INSERT INTO tidegate.check_result (batch_id, check_name, table_name, severity, passed, observed)
VALUES (%(batch_id)s, %(check_name)s, %(table_name)s, %(severity)s, %(passed)s, %(observed)s);

-- write_dead_letters: the messages that are not rows, from one attempt a range.
INSERT INTO tidegate.dead_letter (pipeline, batch_id, topic, topic_id, partition, "offset", timestamp_ms, key, value, headers,
                                  stage, error_class, error_message, field)
SELECT %(pipeline)s, %(batch_id)s, %(topic)s, %(topic_id)s, partition, "offset", timestamp_ms, key, value,
       CASE WHEN header_names IS NOT NULL  -- most messages have none
            THEN (SELECT array_agg(ROW(h.name, h.value)::tidegate.header ORDER BY h.nth)
                    FROM unnest(header_names, header_values) WITH ORDINALITY AS h (name, value, nth)) END,
       stage, error_class, error_message, field
  FROM tidegate_staging.dead_letter WHERE staging_id = %(staging_id)s AND attempt = ANY(%(attempts)s);

-- write_lineage: the event waits in this outbox, and is sent after the batch has committed.
INSERT INTO tidegate.lineage_event (batch_id, pipeline, event) VALUES (%(batch_id)s, %(pipeline)s, %(event)s);

-- clear_pending: the batch has committed, is not read again, and counts. If it was split, the next part follows.
UPDATE tidegate.pipeline
   SET messages_total = messages_total + %(messages)s, rows_total = rows_total + %(rows)s,
       pending = CASE WHEN %(following)s::jsonb IS NOT NULL
                      THEN %(following)s::jsonb || jsonb_build_object('batch_id', nextval('tidegate.batch_id')) END,
       failed_tries = 0, batch_failures = 0, retry_at = NULL, failed_checks = NULL, recent_messages = %(recent)s,
       updated_at = now()
 WHERE name = %(pipeline)s;

-- find_batch: the run that committed a batch whose COMMIT was not answered; no row if it did not commit.
SELECT epoch, owner FROM tidegate.batch WHERE batch_id = %(batch_id)s;

-- note_failed_checks: the blocking checks that the pending batch failed, and how often it has failed them.
UPDATE tidegate.pipeline
   SET failed_checks = %(failed)s::jsonb || jsonb_build_object('tries',
         CASE WHEN failed_checks -> 'batch_id' = %(failed)s::jsonb -> 'batch_id' THEN (failed_checks ->> 'tries')::int ELSE 0 END + 1)
 WHERE name = %(pipeline)s AND epoch = %(epoch)s AND owner = %(owner)s
RETURNING (failed_checks ->> 'tries')::int;

-- note_suspects: the messages that seem to make the pending batch fail; earlier ones keep their time. Returns for how
-- many seconds the latest of them has been suspected.
UPDATE tidegate.pipeline
   SET pending = jsonb_set(pending, '{suspects}',
         (SELECT jsonb_agg(jsonb_build_object('since', extract(epoch FROM now())) || jsonb_strip_nulls(s))
            FROM jsonb_array_elements(%(suspects)s::jsonb) AS s))
 WHERE name = %(pipeline)s AND epoch = %(epoch)s AND owner = %(owner)s
RETURNING (SELECT extract(epoch FROM now()) - max((s ->> 'since')::numeric)
             FROM jsonb_array_elements(pending -> 'suspects') AS s)::float8;

-- back_off: a run failed; the sensor waits for the first pause, then twice as long each time, up to the longest one.
-- Postgres decides how a lost session counts: whether it is the same server, and has recovered from a crash since.
UPDATE tidegate.pipeline
   SET failed_tries = failed_tries + 1, batch_failures = batch_failures + (
         pending IS NOT NULL AND CASE %(counts)s
           WHEN 'always' THEN true
           WHEN 'never' THEN false
           ELSE server_started IS NOT DISTINCT FROM pg_postmaster_start_time()
                AND (%(counts)s = 'unless stopped'
                     OR NOT EXISTS (SELECT FROM tidegate_staging.holder AS h WHERE h.owner = %(owner)s)) END)::int,
       retry_at = now() + interval '1 second' * least(%(longest)s, %(first)s * 2 ^ least(failed_tries, 10)),
       last_error = %(error)s, last_error_at = now(), last_error_hides = %(hides)s, updated_at = now()
 WHERE name = %(pipeline)s AND epoch = %(epoch)s AND owner = %(owner)s
RETURNING batch_failures;

-- halt: the pipeline waits for a user.
UPDATE tidegate.pipeline SET state = 'halted', halt_code = %(code)s, halt_detail = %(detail)s, updated_at = now()
 WHERE name = %(pipeline)s AND epoch = %(epoch)s AND owner = %(owner)s;

-- release: the run is over; its session is about to end.
UPDATE tidegate.pipeline SET owner = NULL, updated_at = now()
 WHERE name = %(pipeline)s AND epoch = %(epoch)s AND owner = %(owner)s;

-- batch_failures: how often in a row the pending batch has failed; after some failures a run tries it in isolation.
SELECT batch_failures FROM tidegate.pipeline WHERE name = %(pipeline)s;

-- unreported: committed batches that have not been reported to Dagster.
SELECT batch_id, run_id, messages, rows, dead_letters, unknown_fields, timings, contract_version, contract_digest,
       (SELECT coalesce(sum(skipped_records), 0)::bigint FROM tidegate.batch_range AS r
         WHERE r.batch_id = b.batch_id) AS skipped_records
  FROM tidegate.batch AS b WHERE pipeline = %(pipeline)s AND reported_at IS NULL AND replaced_by IS NULL ORDER BY batch_id;

-- unreported_runs: the pipelines among these with unreported batches that are due, and the runs that committed them. A pause
-- lasts an hour at most: a longer one comes from a clock that was set back.
SELECT DISTINCT pipeline, run_id FROM tidegate.batch
 WHERE pipeline = ANY(%(pipelines)s) AND reported_at IS NULL AND replaced_by IS NULL
   AND (report_after > now() AND report_after <= now() + interval '1 hour') IS NOT TRUE;

-- put_off_reports: unless these batches are reported now, no run is started for them for 1, 2, 4 ... 60 minutes.
UPDATE tidegate.batch
   SET report_tries = report_tries + 1, report_after = now() + least(2 ^ least(report_tries, 6), 60) * interval '1 minute'
 WHERE batch_id = ANY(%(batch_ids)s) AND reported_at IS NULL;

-- committed: the committed batches among these.
SELECT batch_id, messages, rows, dead_letters, unknown_fields, timings, contract_version, contract_digest,
       (SELECT coalesce(sum(skipped_records), 0)::bigint FROM tidegate.batch_range AS r
         WHERE r.batch_id = b.batch_id) AS skipped_records
  FROM tidegate.batch AS b WHERE batch_id = ANY(%(batch_ids)s) ORDER BY batch_id;

-- newest_transform: the pipeline's newest batch, and the digest of the transform that made its rows: empty without one,
-- NULL if unknown.
SELECT batch_id, transform_digest FROM tidegate.batch
 WHERE pipeline = %(pipeline)s AND replaced_by IS NULL ORDER BY batch_id DESC LIMIT 1;

-- ranges_of: the offsets of a batch.
SELECT topic, partition, from_offset, until_offset, leader_epoch
  FROM tidegate.batch_range WHERE batch_id = %(batch_id)s ORDER BY partition, from_offset;

-- checks_of: the check results of a batch.
SELECT check_name, table_name, severity, passed, observed
  FROM tidegate.check_result WHERE batch_id = %(batch_id)s ORDER BY table_name, check_name;

-- mark_reported: the batch has been reported to Dagster.
UPDATE tidegate.batch SET reported_at = now() WHERE batch_id = %(batch_id)s AND reported_at IS NULL;


-- has_writing_triggers: True if a trigger of the table may write rows: a user's trigger, or a foreign key's ON DELETE or
-- ON UPDATE action. The other internal triggers only check.
SELECT EXISTS (
  SELECT FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
   WHERE t.tgrelid = ANY (ARRAY(SELECT relid::oid FROM pg_partition_tree(to_regclass(%(table)s)))
                          || to_regclass(%(table)s)::oid)
     AND t.tgenabled <> 'D'
     AND NOT (p.pronamespace = 'pg_catalog'::regnamespace
              AND p.proname ~ '^(RI_FKey_(check|noaction|restrict)_.*|unique_key_recheck)$'));

-- unique_indexes: the unique and exclusion indexes of a table, except those with a GENERATED ALWAYS identity column,
-- whose values Postgres assigns.
SELECT indexrelid::regclass::text FROM pg_index
 WHERE indrelid = ANY (ARRAY(SELECT relid::oid FROM pg_partition_tree(to_regclass(%(table)s)))
                       || to_regclass(%(table)s)::oid)
   AND (indisexclusion OR indisunique AND NOT EXISTS (
       SELECT FROM pg_attribute WHERE attrelid = indrelid AND attidentity = 'a'
          AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])))
 ORDER BY 1;

-- other_keys: unique indexes and exclusion constraints, by which an upsert of two keys can collide. A unique index is
-- excluded if it has _key or a GENERATED ALWAYS identity column among its columns: two keys cannot collide in it.
SELECT i.indexrelid::regclass::text AS name
  FROM pg_index AS i
 WHERE i.indrelid = ANY (ARRAY(SELECT relid::oid FROM pg_partition_tree(to_regclass(%(table)s)))
                         || to_regclass(%(table)s)::oid)
   AND i.indislive
   AND (i.indisexclusion OR i.indisunique AND NOT EXISTS (
       SELECT FROM pg_attribute WHERE attrelid = i.indrelid AND (attname = '_key' OR attidentity = 'a')
          AND attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])))
 ORDER BY 1;

-- show_alive: the lock that shows that a session is open (tidegate.alive), for as long as it lasts.
SELECT pg_try_advisory_lock_shared(hashtextextended(%(name)s, 0));

-- runs_alive: the open sessions among these. As tidegate.alive, which may not exist yet.
SELECT name FROM unnest(%(names)s::text[]) AS n (name)
 WHERE hashtextextended(name, 0) IN (
       SELECT classid::bigint << 32 | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        UNION SELECT hashtextextended(application_name, 0) FROM pg_stat_activity WHERE application_name IS NOT NULL);

-- ledger_id: what tells the Dagster runs of this ledger from those of another.
SELECT ledger_id::text FROM tidegate.ledger;

-- rows_so_far: how many rows the batches of a pipeline have written to its row table, up to and including one batch:
-- all, less those of later batches, which are few when a batch is reported.
SELECT rows_total - (SELECT coalesce(sum(rows), 0) FROM tidegate.batch
                      WHERE pipeline = name AND batch_id > %(batch_id)s AND replaced_by IS NULL)::bigint AS rows
  FROM tidegate.pipeline WHERE name = %(pipeline)s;
