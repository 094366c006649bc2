-- replay_bounds: the pipeline's first batch that counts, pruned or not, and the last one with a log that is gone for
-- good.
SELECT least((SELECT min(batch_id) FROM tidegate.batch WHERE pipeline = %(pipeline)s AND replaced_by IS NULL),
             (SELECT min(first_batch) FROM tidegate.pruned_range WHERE pipeline = %(pipeline)s)) AS first_batch,
       coalesce((SELECT max(until_batch) FROM tidegate.lost_history WHERE pipeline = %(pipeline)s), 0) AS lost_until;

-- batch_of_offsets: the first batch that read any of these offsets or a later one in their partitions.
SELECT min(r.batch_id) AS batch_id
  FROM (SELECT b.pipeline, b.batch_id, r.topic, r.topic_id, r.partition, r.until_offset
          FROM tidegate.batch AS b JOIN tidegate.batch_range AS r USING (batch_id)
         WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL
         UNION ALL
        SELECT pipeline, first_batch, topic, topic_id, partition, until_offset
          FROM tidegate.pruned_range WHERE pipeline = %(pipeline)s) AS r
  JOIN unnest(%(partitions)s::int[], %(offsets)s::bigint[]) AS o (partition, "offset") ON o.partition = r.partition
  JOIN tidegate.source_position AS p
    ON (p.pipeline, p.topic, p.topic_id, p.partition) = (r.pipeline, r.topic, r.topic_id, r.partition)
 WHERE r.topic = %(topic)s AND r.until_offset > o."offset";

-- next_batch: this batch, or the first one after it that counts. A pruned batch is included: its messages are gone, and
-- the replay is refused for that.
SELECT least((SELECT min(batch_id) FROM tidegate.batch
               WHERE pipeline = %(pipeline)s AND replaced_by IS NULL AND batch_id >= %(batch_id)s),
             (SELECT min(greatest(first_batch, %(batch_id)s)) FROM tidegate.pruned_range
               WHERE pipeline = %(pipeline)s AND last_batch >= %(batch_id)s)) AS batch_id;

-- other_logs: logs that the batches to be replayed read, other than the current one.
SELECT DISTINCT r.topic, r.topic_id
  FROM (SELECT r.topic, r.topic_id, r.partition
          FROM tidegate.batch AS b JOIN tidegate.batch_range AS r USING (batch_id)
         WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL AND b.batch_id >= %(from_batch)s
         UNION ALL
        SELECT topic, topic_id, partition FROM tidegate.pruned_range
         WHERE pipeline = %(pipeline)s AND last_batch >= %(from_batch)s) AS r
 WHERE NOT EXISTS (SELECT 1 FROM tidegate.source_position AS p
                    WHERE (p.pipeline, p.topic, p.topic_id, p.partition)
                        = (%(pipeline)s, r.topic, r.topic_id, r.partition)
                      AND p.topic = %(topic)s)
 ORDER BY r.topic, r.topic_id;

-- partition_histories: each partition, with the first offset that the batches to be replayed read in it, and their
-- number of messages.
SELECT p.partition, p.next_offset, coalesce(min(r.from_offset), p.next_offset) AS from_offset, p.added_late,
       coalesce(sum(r.messages), 0)::bigint AS messages
  FROM tidegate.source_position AS p
  LEFT JOIN (SELECT r.topic, r.topic_id, r.partition, r.from_offset, r.messages
               FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
              WHERE b.pipeline = %(pipeline)s AND b.replaced_by IS NULL AND b.batch_id >= %(from_batch)s
              UNION ALL
             SELECT topic, topic_id, partition, from_offset, messages FROM tidegate.pruned_range
              WHERE pipeline = %(pipeline)s AND last_batch >= %(from_batch)s) AS r
         ON (r.topic, r.topic_id, r.partition) = (p.topic, p.topic_id, p.partition)
 WHERE p.pipeline = %(pipeline)s AND p.topic = %(topic)s
 GROUP BY p.partition, p.next_offset, p.added_late ORDER BY p.partition;

-- shape_of: the columns, constraints and indexes of a table. If they change, its shadow table is built again.
SELECT concat_ws('; ',
         (SELECT string_agg(format('%%s %%s %%s', attname, format_type(atttypid, atttypmod), attnotnull), ', '
                            ORDER BY attnum)
            FROM pg_attribute WHERE attrelid = to_regclass(%(table)s) AND attnum > 0 AND NOT attisdropped),
         (SELECT string_agg(pg_get_constraintdef(oid), ', ' ORDER BY conname)
            FROM pg_constraint WHERE conrelid = to_regclass(%(table)s)),
         (SELECT string_agg(pg_get_indexdef(indexrelid), ', ' ORDER BY indexrelid)
            FROM pg_index WHERE indrelid = to_regclass(%(table)s))) AS shape;

-- foreign_keys_of: the constraints that CREATE TABLE ... LIKE omits. Rows that refer to the table itself refer to the
-- built one.
SELECT CASE confrelid WHEN conrelid
         THEN replace(pg_get_constraintdef(oid), format(' REFERENCES %%s(', confrelid::regclass),
                                                 format(' REFERENCES %%s(', to_regclass(%(built)s)))
         ELSE pg_get_constraintdef(oid) END
  FROM pg_constraint  -- for a key to a partitioned table, not the keys to its partitions
 WHERE conrelid = to_regclass(%(table)s) AND contype = 'f' AND conparentid = 0 ORDER BY conname;

-- referenced_by: another table, whose rows refer to this one's.
SELECT conrelid::regclass::text FROM pg_constraint
 WHERE confrelid = to_regclass(%(table)s) AND conrelid <> confrelid AND contype = 'f' LIMIT 1;

-- replay_of: the replay of a pipeline that is being built.
SELECT replay_id, fingerprint FROM tidegate.replay WHERE pipeline = %(pipeline)s AND executed_at IS NULL;

-- begin_replay: one at a time for each pipeline.
INSERT INTO tidegate.replay (pipeline, from_batch, fingerprint, decided_again)
VALUES (%(pipeline)s, %(from_batch)s, %(fingerprint)s, %(decided_again)s)
RETURNING replay_id;

-- forget_replay: deletes a replay that was never swapped in. Its batches never counted.
WITH gone AS (SELECT batch_id FROM tidegate.batch WHERE pipeline = %(beside)s),
     a AS (DELETE FROM tidegate.dead_letter WHERE pipeline = %(beside)s),
     b AS (DELETE FROM tidegate.batch_range WHERE batch_id IN (SELECT batch_id FROM gone)),
     c AS (DELETE FROM tidegate.check_result WHERE batch_id IN (SELECT batch_id FROM gone)),
     d AS (DELETE FROM tidegate.lineage_event WHERE batch_id IN (SELECT batch_id FROM gone)),
     f AS (DELETE FROM tidegate.batch_schema WHERE batch_id IN (SELECT batch_id FROM gone)),
     e AS (DELETE FROM tidegate.replay WHERE pipeline = %(pipeline)s AND executed_at IS NULL)
DELETE FROM tidegate.batch WHERE pipeline = %(beside)s;

-- forget_builder: deletes the building pipeline, when nothing else is left of it. Its remaining staging tables, which
-- are empty, become the live one's.
WITH a AS (DELETE FROM tidegate.output WHERE pipeline = %(beside)s),
     b AS (DELETE FROM tidegate.source_position WHERE pipeline = %(beside)s),
     c AS (DELETE FROM tidegate.schema_use WHERE pipeline = %(beside)s),
     d AS (UPDATE tidegate.staging_table SET pipeline = %(pipeline)s WHERE pipeline = %(beside)s)
DELETE FROM tidegate.pipeline WHERE name = %(beside)s;

-- messages_read: the messages that the building pipeline got from the broker, by partition.
SELECT r.partition, sum(r.messages)::bigint AS messages
  FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
 WHERE b.pipeline = %(beside)s GROUP BY r.partition;

-- apart: partitions in which the two pipelines are not at the same offset of the same log.
SELECT partition, l.next_offset AS live, b.next_offset AS built
  FROM (SELECT * FROM tidegate.source_position WHERE pipeline = %(pipeline)s AND topic = %(topic)s) AS l
  FULL JOIN (SELECT * FROM tidegate.source_position WHERE pipeline = %(beside)s AND topic = %(topic)s) AS b
       USING (partition)
 WHERE (l.next_offset, l.topic_id, l.cluster_id) IS DISTINCT FROM (b.next_offset, b.topic_id, b.cluster_id);

-- lock_builder: the building pipeline, when no session or task works on it any more.
SELECT 1 FROM tidegate.pipeline
 WHERE name = %(beside)s AND state = 'active' AND owner IS NULL AND pending IS NULL
   AND NOT EXISTS (SELECT 1 FROM tidegate.staging WHERE pipeline = %(beside)s) FOR UPDATE;

-- dead_letter_differences: the number of dead letters for the replayed offsets, live and built, and how many only in
-- one. Older versions recorded ManuallyDeadLettered as SetAside.
WITH live AS (SELECT partition, "offset", stage,
                     CASE error_class WHEN 'SetAside' THEN 'ManuallyDeadLettered' ELSE error_class END AS error_class
                FROM tidegate.dead_letter AS d
               WHERE pipeline = %(pipeline)s AND batch_id >= %(from_batch)s
                 AND NOT EXISTS (SELECT 1 FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
                                  WHERE b.pipeline = %(beside)s AND r.partition = d.partition
                                    AND r.gaps @> d."offset")),
     built AS (SELECT partition, "offset", stage, error_class FROM tidegate.dead_letter WHERE pipeline = %(beside)s)
SELECT (SELECT count(*) FROM live) AS live, (SELECT count(*) FROM built) AS rebuilt,
       (SELECT count(*) FROM (SELECT * FROM live EXCEPT SELECT * FROM built) AS x) AS only_live,
       (SELECT count(*) FROM (SELECT * FROM built EXCEPT SELECT * FROM live) AS x) AS only_rebuilt;

-- keep_dead_letter_status: keeps the users' decisions about a message that is a dead letter again.
UPDATE tidegate.dead_letter AS b SET status = l.status, status_by = l.status_by, status_at = l.status_at
  FROM tidegate.dead_letter AS l
 WHERE b.pipeline = %(beside)s AND l.pipeline = %(pipeline)s AND l.status <> 'open'
   AND (l.topic_id, l.partition, l."offset") = (b.topic_id, b.partition, b."offset");

-- take_dead_letters_away: deletes the replayed batches' dead letters, except for messages that compaction has removed
-- since.
DELETE FROM tidegate.dead_letter AS d
 WHERE d.pipeline = %(pipeline)s AND d.batch_id >= %(from_batch)s
   AND NOT EXISTS (SELECT 1 FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
                    WHERE b.pipeline = %(beside)s AND r.partition = d.partition AND r.gaps @> d."offset");

-- take_dead_letters_over: the rebuilt ones become the pipeline's own.
UPDATE tidegate.dead_letter SET pipeline = %(pipeline)s WHERE pipeline = %(beside)s;

-- name_live_table: check results and rejections of the building pipeline name the table that it built.
WITH checks AS (UPDATE tidegate.check_result SET table_name = %(live)s
                 WHERE table_name = %(built)s
                   AND batch_id IN (SELECT batch_id FROM tidegate.batch WHERE pipeline = %(beside)s))
UPDATE tidegate.dead_letter SET error_message = replace(error_message, %(built)s, %(live)s)
 WHERE pipeline = %(beside)s AND stage = 'publish';

-- replace_batches: marks batches whose rows no longer exist; the rebuilt ones' rows are counted instead.
WITH replaced AS (UPDATE tidegate.batch SET replaced_by = %(replay_id)s
                   WHERE pipeline = %(pipeline)s AND batch_id >= %(from_batch)s AND replaced_by IS NULL
                  RETURNING messages, rows)
UPDATE tidegate.pipeline AS l
   SET messages_total = l.messages_total + b.messages_total - (SELECT coalesce(sum(messages), 0) FROM replaced),
       rows_total = l.rows_total + b.rows_total - (SELECT coalesce(sum(rows), 0) FROM replaced)
  FROM tidegate.pipeline AS b WHERE l.name = %(pipeline)s AND b.name = %(beside)s;

-- take_batches_over: the rebuilt ones become the pipeline's own, with its current contract; its next run reports them
-- to Dagster, and sends their lineage events.
WITH events AS (UPDATE tidegate.lineage_event SET pipeline = %(pipeline)s WHERE pipeline = %(beside)s)
UPDATE tidegate.batch
   SET pipeline = %(pipeline)s,
       contract_digest = (SELECT contract_digest FROM tidegate.pipeline WHERE name = %(pipeline)s),
       contract_application = (SELECT max(number) FROM tidegate.contract_application WHERE pipeline = %(pipeline)s)
 WHERE pipeline = %(beside)s;

-- take_positions_over: the offsets stay the same; the batch that led to them is the rebuilt one.
UPDATE tidegate.source_position AS l
   SET batch_id = b.batch_id, leader_epoch = b.leader_epoch, updated_at = now()
  FROM tidegate.source_position AS b
 WHERE l.pipeline = %(pipeline)s AND b.pipeline = %(beside)s AND (l.topic, l.partition) = (b.topic, b.partition)
   AND b.batch_id IS NOT NULL;

-- renumber_pending: a pending batch has offsets after the replayed ones, so its id must be higher than theirs.
UPDATE tidegate.pipeline
   SET pending = jsonb_set(pending, '{batch_id}', to_jsonb(nextval('tidegate.batch_id'))), failed_checks = NULL
 WHERE name = %(pipeline)s AND pending IS NOT NULL;

-- end_replay: the replay is swapped in.
UPDATE tidegate.replay
   SET executed_at = now(), executed_by = %(executed_by)s, database_user = session_user,
       reason = %(reason)s, differences = %(differences)s
 WHERE replay_id = %(replay_id)s AND executed_at IS NULL;

-- replayed: true if a replay whose COMMIT was not answered is swapped in. Asked under the pipeline's row lock.
SELECT executed_at IS NOT NULL AS executed FROM tidegate.replay WHERE replay_id = %(replay_id)s;

-- replay_alone: excludes other sessions from replaying this pipeline for the rest of the transaction.
SELECT pg_try_advisory_xact_lock(hashtextextended('tidegate replay ' || %(pipeline)s, 0));

-- replace_now: while this transaction lasts, a run that waits for the pipeline's row knows about the replay and ends no
-- session.
SELECT pg_advisory_xact_lock(hashtextextended('tidegate replacement ' || %(pipeline)s, 0));

-- replacing: true if such a transaction is in progress.
SELECT NOT pg_try_advisory_xact_lock(hashtextextended('tidegate replacement ' || %(pipeline)s, 0));

-- plain_table: not partitioned, without child tables, so that a row's ctid identifies it.
SELECT relkind = 'r' AND NOT EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = c.oid)
  FROM pg_class AS c WHERE c.oid = to_regclass(%(table)s);

-- may_replace: true if this user has every right that swapping rows in requires.
SELECT has_table_privilege(to_regclass(%(table)s)::oid, 'INSERT')
   AND has_table_privilege(to_regclass(%(table)s)::oid, 'UPDATE')
   AND has_table_privilege(to_regclass(%(table)s)::oid, 'DELETE');

-- decided_batches: batches that fail blocking checks and that a user accepted or dead-lettered with tidegate resolve: the
-- decision, and what they read in the current log. A later decision about the same batch comes later. Without batches
-- whose decision a replay has dropped.
SELECT r.batch_id, s.actions -> 'checks_accepted' AS checks_accepted, s.actions ->> 'set_aside' AS set_aside,
       r.partition, r.from_offset, r.until_offset
  FROM tidegate.settlement AS s
  JOIN tidegate.batch_range AS r ON r.batch_id = (s.halt_detail ->> 'batch_id')::bigint
  JOIN tidegate.source_position AS p
    ON (p.pipeline, p.topic, p.topic_id, p.partition) = (s.pipeline, r.topic, r.topic_id, r.partition)
 WHERE s.pipeline = %(pipeline)s AND s.halt_code = 'blocking_check_failed'
   AND (s.actions ->> 'set_aside' IS NOT NULL OR s.actions -> 'checks_accepted' <> '[]')
   AND NOT EXISTS (SELECT FROM tidegate.replay AS again WHERE again.pipeline = s.pipeline
                      AND again.executed_at IS NOT NULL AND r.batch_id = ANY (again.decided_again))
 ORDER BY r.batch_id, s.settlement_id, r.partition, r.from_offset;

-- mark_pending: the building pipeline's pending batch gets the decision about the live one's.
UPDATE tidegate.pipeline SET pending = pending || %(marks)s
 WHERE name = %(pipeline)s AND epoch = %(epoch)s AND owner = %(owner)s AND (pending -> 'batch_id')::bigint = %(batch_id)s;

-- replaced_by: the replay that replaced this batch.
SELECT replaced_by FROM tidegate.batch
 WHERE pipeline = %(pipeline)s AND batch_id = %(batch_id)s AND replaced_by IS NOT NULL;

-- difference: the rows that are not the same on both sides, in pairs. First those that are the same but for added
-- columns, as many as there are of each; then the others of one message, or with one key, in order. `_same` is a hash,
-- since a join on all columns, which may be NULL, would compare every row with every other.
WITH live AS (SELECT {live} FROM {old} WHERE {scope}),
     rebuilt AS (SELECT {made} FROM {new}),
     only_live AS (TABLE live EXCEPT ALL TABLE rebuilt),
     only_rebuilt AS (TABLE rebuilt EXCEPT ALL TABLE live),
     l AS (SELECT *, row_number() OVER (PARTITION BY {place}, _same ORDER BY {values}) AS _nth
             FROM (SELECT *, row_number() OVER () AS _id, md5(ROW({stable})::text) AS _same FROM only_live) AS x),
     r AS (SELECT *, row_number() OVER (PARTITION BY {place}, _same ORDER BY {values}) AS _nth
             FROM (SELECT *, row_number() OVER () AS _id, md5(ROW({stable})::text) AS _same FROM only_rebuilt) AS x),
     same AS (SELECT l._id AS _l, r._id AS _r, {still_empty} AS _empty
                FROM l FULL JOIN r ON {same_place} AND (l._same, l._nth) = (r._same, r._nth)),
     other_l AS (SELECT l.*, row_number() OVER (PARTITION BY {place} ORDER BY {values}) AS _rank
                   FROM l JOIN same ON same._l = l._id WHERE same._r IS NULL),
     other_r AS (SELECT r.*, row_number() OVER (PARTITION BY {place} ORDER BY {values}) AS _rank
                   FROM r JOIN same ON same._r = r._id WHERE same._l IS NULL),
     pair AS (SELECT _l, _r, CASE WHEN _empty THEN 'new_columns' ELSE 'changed' END AS kind
                FROM same WHERE _l IS NOT NULL AND _r IS NOT NULL
               UNION ALL
              SELECT l._id, r._id, CASE WHEN r._id IS NULL THEN 'only_live' WHEN l._id IS NULL THEN 'only_rebuilt'
                                        ELSE 'changed' END
                FROM other_l AS l FULL JOIN other_r AS r ON {same_place} AND l._rank = r._rank),
     few AS (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY kind ORDER BY _l, _r) AS _nth FROM pair) AS x
              WHERE _nth <= {samples})
SELECT (SELECT count(*) FROM live), (SELECT count(*) FROM rebuilt),
       (SELECT coalesce(jsonb_object_agg(kind, n), '{{}}')
          FROM (SELECT kind, count(*) AS n FROM pair GROUP BY kind) AS x),
       (SELECT json_agg(json_build_object(
                 'kind', few.kind, 'differs', array_remove(ARRAY[{differs}], NULL),
                 'live', (SELECT row_to_json(v) FROM (SELECT {of_l} WHERE l._id IS NOT NULL) AS v),
                 'rebuilt', (SELECT row_to_json(v) FROM (SELECT {of_r} WHERE r._id IS NOT NULL) AS v))
               ORDER BY few.kind, few._nth)::text
          FROM few LEFT JOIN l ON l._id = few._l LEFT JOIN r ON r._id = few._r);

-- orphans: the keys that only the live table has, and whose message compaction removed before the replay read it.
SELECT count(*) FROM {old} AS o
 WHERE NOT EXISTS (SELECT 1 FROM {new} AS n WHERE n._key = o._key)
   AND EXISTS (SELECT 1 FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
                WHERE b.pipeline = %(built)s AND r.partition = o._partition AND r.gaps @> o._offset);
