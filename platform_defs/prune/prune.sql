-- prune_lock: the pipeline's row, before any other, as a publication locks it; with the log in its positions.
SELECT (SELECT min(p.topic_id) FROM tidegate.source_position AS p WHERE p.pipeline = name) AS topic_id
  FROM tidegate.pipeline WHERE name = %(pipeline)s FOR UPDATE;

-- prune_log: the log that the pipeline reads; no row if it has read nothing.
SELECT min(topic) AS topic, min(topic_id) AS topic_id, min(cluster_id) AS cluster_id
  FROM tidegate.source_position WHERE pipeline = %(pipeline)s HAVING count(*) > 0;

-- lost_boundaries: batches up to each of these may have read a log that is gone: later ones may have read its offsets
-- again.
SELECT DISTINCT until_batch FROM tidegate.lost_history WHERE pipeline = %(pipeline)s ORDER BY until_batch;

-- old_batches: the next batches that are older than the retention, each with what keeps it; NULL: nothing does. A
-- batch without ranges in the current log is from a log that is gone.
WITH old AS (
  SELECT * FROM tidegate.batch
   WHERE pipeline = %(pipeline)s AND batch_id > %(after)s
     AND committed_at < now() - make_interval(secs => %(seconds)s) ORDER BY batch_id LIMIT %(most)s),
     newest AS (SELECT batch_id FROM tidegate.batch WHERE pipeline = %(pipeline)s
                 ORDER BY batch_id DESC OFFSET %(newest)s - 1 LIMIT 1),
     log AS (SELECT * FROM unnest(%(partitions)s::int[], %(lows)s::bigint[]) AS l (partition, low))
SELECT b.batch_id,
       CASE WHEN EXISTS (SELECT FROM tidegate.replay WHERE pipeline = %(pipeline)s AND executed_at IS NULL)
            THEN 'replay'
            WHEN b.reported_at IS NULL AND b.replaced_by IS NULL THEN 'unreported'
            WHEN b.batch_id >= coalesce((SELECT batch_id FROM newest), 0)
              OR EXISTS (SELECT FROM tidegate.source_position AS p
                          WHERE p.pipeline = b.pipeline AND p.batch_id = b.batch_id)
              OR EXISTS (SELECT FROM tidegate.schema_use AS u
                          WHERE u.pipeline = b.pipeline AND u.last_batch = b.batch_id)
            THEN 'newest'
            WHEN EXISTS (SELECT FROM tidegate.dead_letter AS d WHERE d.batch_id = b.batch_id) THEN 'dead_letters'
            WHEN EXISTS (
                   SELECT FROM tidegate.batch_range AS r LEFT JOIN log USING (partition)
                    WHERE r.batch_id = b.batch_id AND r.topic_id = %(topic_id)s
                      AND r.until_offset > coalesce(log.low, 0))
            THEN CASE WHEN %(known)s THEN 'held' ELSE 'unknown' END END AS kept_by
  FROM old AS b ORDER BY b.batch_id;

-- ranges_to_prune: the ranges that these batches read, as far as they count.
SELECT r.topic, r.topic_id, r.partition, r.from_offset, r.until_offset, r.messages,
       (SELECT count(*) FROM unnest(r.gaps)) AS spans, r.batch_id AS first_batch, r.batch_id AS last_batch,
       r.batch_id - 1 AS added_after
  FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
 WHERE r.batch_id = ANY(%(batches)s) AND b.replaced_by IS NULL ORDER BY r.batch_id, r.partition, r.from_offset;

-- newest_pruned: for each partition of each log, the last pruned range: the adjacent one can be added to it.
SELECT DISTINCT ON (topic, topic_id, partition)
       topic, topic_id, partition, from_offset, until_offset, messages,
       (SELECT count(*) FROM unnest(gaps)) AS spans, first_batch, last_batch, last_batch AS added_after
  FROM tidegate.pruned_range WHERE pipeline = %(pipeline)s
 ORDER BY topic, topic_id, partition, last_batch DESC, from_offset DESC;

-- write_pruned_range: the summary of batches, added to what there is, while they still exist.
INSERT INTO tidegate.pruned_range AS p (pipeline, topic, topic_id, partition, from_offset, until_offset, messages, gaps,
                                        first_batch, last_batch)
VALUES (%(pipeline)s, %(topic)s, %(topic_id)s, %(partition)s, %(from_offset)s, %(until_offset)s, %(messages)s,
        (SELECT coalesce(range_agg(g), '{}') FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id),
                unnest(r.gaps) AS g
          WHERE r.batch_id = ANY(%(added)s) AND b.replaced_by IS NULL
            AND (r.topic, r.topic_id, r.partition) = (%(topic)s, %(topic_id)s, %(partition)s)
            AND r.from_offset >= %(from_offset)s AND r.until_offset <= %(until_offset)s),
        %(first_batch)s, %(last_batch)s)
    ON CONFLICT (pipeline, topic_id, partition, first_batch, from_offset) DO UPDATE
    SET until_offset = excluded.until_offset, messages = excluded.messages, gaps = p.gaps + excluded.gaps,
        last_batch = excluded.last_batch;

-- prune_schemas: the schemas that their messages name, summed up.
WITH gone AS (DELETE FROM tidegate.batch_schema WHERE batch_id = ANY(%(batches)s) RETURNING *)
INSERT INTO tidegate.pruned_schema AS p (pipeline, registry, generation, key, part, messages, first_batch, last_batch)
SELECT %(pipeline)s, g.registry, g.generation, g.key, g.part, sum(g.messages), min(g.batch_id), max(g.batch_id)
  FROM gone AS g JOIN tidegate.batch AS b USING (batch_id) WHERE b.replaced_by IS NULL
 GROUP BY g.registry, g.generation, g.key, g.part
    ON CONFLICT (pipeline, registry, generation, key, part) DO UPDATE
    SET messages = p.messages + excluded.messages, last_batch = excluded.last_batch;

-- prune_checks_of: their check results, summed up: only failed ones are left by now.
WITH gone AS (DELETE FROM tidegate.check_result WHERE batch_id = ANY(%(batches)s) RETURNING *)
INSERT INTO tidegate.pruned_check AS p (pipeline, table_name, check_name, severity, passed, failed)
SELECT %(pipeline)s, table_name, check_name, severity, count(*) FILTER (WHERE passed),
       count(*) FILTER (WHERE NOT passed) FROM gone GROUP BY table_name, check_name, severity
    ON CONFLICT (pipeline, table_name, check_name, severity) DO UPDATE
    SET passed = p.passed + excluded.passed, failed = p.failed + excluded.failed;

-- prune_batches: the batches themselves.
WITH ranges AS (DELETE FROM tidegate.batch_range WHERE batch_id = ANY(%(batches)s)),
     events AS (DELETE FROM tidegate.lineage_event WHERE batch_id = ANY(%(batches)s))
DELETE FROM tidegate.batch WHERE batch_id = ANY(%(batches)s);

-- passed_checks: for the next batches that are older than the retention, what is removed before them: checks that
-- passed, and lineage events, sent or not.
WITH page AS (
  SELECT batch_id, reported_at IS NOT NULL OR replaced_by IS NOT NULL AS reported FROM tidegate.batch
   WHERE pipeline = %(pipeline)s AND batch_id > %(after)s
     AND committed_at < now() - make_interval(secs => %(seconds)s) ORDER BY batch_id LIMIT %(most)s)
SELECT (SELECT max(batch_id) FROM page) AS until_batch,
       (SELECT count(*) FROM tidegate.check_result JOIN page USING (batch_id) WHERE passed AND reported) AS checks,
       (SELECT count(*) FROM tidegate.lineage_event JOIN page USING (batch_id)) AS events,
       (SELECT count(*) FROM tidegate.lineage_event JOIN page USING (batch_id) WHERE emitted_at IS NULL) AS never_sent;

-- checks_pruned_until: the last batch for which that was done.
SELECT checks_pruned_until FROM tidegate.pipeline WHERE name = %(pipeline)s;

-- prune_passed: removes them, except events that are being sent at this moment: the sender has locked those it has sent
-- so far, and neither must wait for the other. Those go with their batch.
WITH page AS (
  SELECT batch_id, reported_at IS NOT NULL OR replaced_by IS NOT NULL AS reported FROM tidegate.batch
   WHERE pipeline = %(pipeline)s AND batch_id > %(after)s AND batch_id <= %(until_batch)s
     AND committed_at < now() - make_interval(secs => %(seconds)s)),
     gone AS (DELETE FROM tidegate.check_result AS c USING page WHERE c.batch_id = page.batch_id AND passed AND reported
              RETURNING c.table_name, c.check_name, c.severity),
     free AS (SELECT e.sequence FROM tidegate.lineage_event AS e JOIN page USING (batch_id) FOR UPDATE OF e SKIP LOCKED),
     events AS (DELETE FROM tidegate.lineage_event WHERE sequence IN (SELECT sequence FROM free)),
     done AS (UPDATE tidegate.pipeline SET checks_pruned_until = greatest(checks_pruned_until, %(until_batch)s)
               WHERE name = %(pipeline)s)
INSERT INTO tidegate.pruned_check AS p (pipeline, table_name, check_name, severity, passed, failed)
SELECT %(pipeline)s, table_name, check_name, severity, count(*), 0 FROM gone GROUP BY table_name, check_name, severity
    ON CONFLICT (pipeline, table_name, check_name, severity) DO UPDATE SET passed = p.passed + excluded.passed;

-- settled_dead_letters: those that a user settled longer ago than the retention, whose messages the log no longer has:
-- verify expects a dead letter for each message that it finds.
WITH log AS (SELECT * FROM unnest(%(partitions)s::int[], %(lows)s::bigint[]) AS l (partition, low))
SELECT topic_id, partition, "offset",
       topic_id IS DISTINCT FROM %(topic_id)s OR "offset" < coalesce(log.low, 0) AS gone
  FROM tidegate.dead_letter LEFT JOIN log USING (partition)
 WHERE pipeline = %(pipeline)s AND status <> 'open' AND status_at < now() - make_interval(secs => %(seconds)s)
   AND NOT EXISTS (SELECT FROM tidegate.replay WHERE pipeline = %(pipeline)s AND executed_at IS NULL)
   AND (topic_id, partition, "offset") > (%(topic_after)s, %(partition_after)s, %(offset_after)s)
 ORDER BY topic_id, partition, "offset" LIMIT %(most)s;

-- prune_dead_letters: deletes them, and keeps their places and number.
WITH gone AS (
  DELETE FROM tidegate.dead_letter AS d
   USING unnest(%(topic_ids)s::text[], %(at_partitions)s::int[], %(offsets)s::bigint[]) AS g (topic_id, partition, "offset")
   WHERE d.pipeline = %(pipeline)s AND d.status <> 'open'
     AND (d.topic_id, d.partition, d."offset") = (g.topic_id, g.partition, g."offset")
  RETURNING d.*)
INSERT INTO tidegate.pruned_dead_letter AS p (pipeline, topic_id, partition, stage, error_class, status, messages, offsets)
SELECT %(pipeline)s, topic_id, partition, stage, error_class, status, count(*),
       range_agg(int8range("offset", "offset" + 1))
  FROM gone GROUP BY topic_id, partition, stage, error_class, status
    ON CONFLICT (pipeline, topic_id, partition, stage, error_class, status) DO UPDATE
    SET messages = p.messages + excluded.messages, offsets = p.offsets + excluded.offsets;

-- settled_unsent: the number of producers' messages that were settled longer ago than the retention.
SELECT count(*) AS messages FROM tidegate.unsent
 WHERE pipeline = %(pipeline)s AND settled_at < now() - make_interval(secs => %(seconds)s);

-- prune_unsent: deletes and counts at most so many of them. In order, so that two at once wait for each other in
-- one direction: no pipeline's row keeps them apart, since a producer needs none.
WITH old AS (SELECT unsent_id FROM tidegate.unsent
              WHERE pipeline = %(pipeline)s AND settled_at < now() - make_interval(secs => %(seconds)s)
              ORDER BY settled_at LIMIT %(most)s FOR UPDATE SKIP LOCKED),
     gone AS (DELETE FROM tidegate.unsent WHERE unsent_id IN (SELECT unsent_id FROM old) RETURNING *),
     summed AS (
       INSERT INTO tidegate.pruned_unsent AS p (pipeline, topic, outcome, error_name, settled_how, messages)
       SELECT pipeline, topic, outcome, error_name, settled_how, count(*) FROM gone
        GROUP BY pipeline, topic, outcome, error_name, settled_how
        ORDER BY pipeline, topic, outcome, error_name, settled_how
           ON CONFLICT (pipeline, topic, outcome, error_name, settled_how) DO UPDATE
           SET messages = p.messages + excluded.messages)
SELECT count(*) AS messages FROM gone;
