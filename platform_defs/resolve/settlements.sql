-- progress: the position of each partition of a pipeline, and the batch that moved it there.
SELECT p.partition, p.next_offset, p.batch_id, b.committed_at, p.topic_id
  FROM tidegate.source_position AS p LEFT JOIN tidegate.batch AS b USING (batch_id)
 WHERE p.pipeline = %(pipeline)s AND p.topic = %(topic)s ORDER BY p.partition;

-- dead_letters_of: a pipeline's dead letters, newest batch first.
SELECT batch_id, partition, "offset", timestamp_ms, stage, error_class, error_message, field, status,
       octet_length(value) AS bytes
  FROM tidegate.dead_letter
 WHERE pipeline = %(pipeline)s AND (%(reason)s::text IS NULL OR error_class = %(reason)s)
 ORDER BY batch_id DESC, partition, "offset" LIMIT %(limit)s;

-- dead_letter_examples: for each reason and status, one dead letter of the newest batch that has one. The batch is found
-- without sorting all dead letters with their messages.
WITH newest AS (SELECT stage, error_class, status, max(batch_id) AS batch_id
                  FROM tidegate.dead_letter WHERE pipeline = %(pipeline)s GROUP BY stage, error_class, status)
SELECT DISTINCT ON (stage, error_class, status) batch_id, partition, "offset", timestamp_ms, stage, error_class,
       error_message, field, status, octet_length(value) AS bytes
  FROM newest JOIN tidegate.dead_letter AS d USING (batch_id, stage, error_class, status)
 WHERE d.pipeline = %(pipeline)s
 ORDER BY stage, error_class, status, partition, "offset" DESC;

-- dead_letter_totals: how many dead letters each pipeline has and had, by reason; pipelines without a contract too.
SELECT pipeline, stage, error_class, status, sum(messages)::bigint AS messages
  FROM (SELECT pipeline, stage, error_class, status, count(*) AS messages FROM tidegate.dead_letter
         GROUP BY pipeline, stage, error_class, status
         UNION ALL
        SELECT pipeline, stage, error_class, status, messages FROM tidegate.pruned_dead_letter) AS every
 WHERE (%(reason)s::text IS NULL OR error_class = %(reason)s) AND right(pipeline, 7) <> '~replay'
 GROUP BY pipeline, stage, error_class, status ORDER BY pipeline, sum(messages) DESC, error_class;

-- dead_letter_counts: the number of current and pruned dead letters, by reason.
SELECT stage, error_class, status, sum(messages)::bigint AS messages
  FROM (SELECT stage, error_class, status, count(*) AS messages FROM tidegate.dead_letter
         WHERE pipeline = %(pipeline)s GROUP BY stage, error_class, status
         UNION ALL
        SELECT stage, error_class, status, messages FROM tidegate.pruned_dead_letter
         WHERE pipeline = %(pipeline)s) AS every
 WHERE %(reason)s::text IS NULL OR error_class = %(reason)s
 GROUP BY stage, error_class, status ORDER BY sum(messages) DESC, error_class;

-- dead_letter_at: everything about one dead letter (if several logs have its name, the newest first).
SELECT topic, topic_id, batch_id, partition, "offset", timestamp_ms, key, value,
       stage, error_class, error_message, field, status, status_by, status_at,
       ARRAY(SELECT h.name FROM unnest(headers) AS h) AS header_names,
       ARRAY(SELECT h.value FROM unnest(headers) AS h) AS header_values
  FROM tidegate.dead_letter
 WHERE pipeline = %(pipeline)s AND partition = %(partition)s AND "offset" = %(offset)s ORDER BY batch_id DESC;

-- halted: the state that a settlement is about; no other session settles or runs the pipeline while its row is locked.
SELECT epoch, state, halt_code, halt_detail, failed_checks, pending
  FROM tidegate.pipeline WHERE name = %(pipeline)s FOR UPDATE;

-- started_positions: the first and the current position of each partition.
SELECT partition, topic, cluster_id, topic_id, start_offset, next_offset
  FROM tidegate.source_position WHERE pipeline = %(pipeline)s ORDER BY partition;

-- settled_positions: the same, locked before they are moved.
SELECT partition, topic, cluster_id, topic_id, start_offset, next_offset
  FROM tidegate.source_position WHERE pipeline = %(pipeline)s ORDER BY partition FOR UPDATE;

-- read_before: the end up to which batches of this pipeline have read each partition of a log, and no further than its
-- position when a settlement last left that log: what was truncated before is another message now.
SELECT r.partition, least(max(r.until_offset), (
         SELECT (step -> 'was' ->> 'next_offset')::bigint
           FROM tidegate.settlement AS s, jsonb_array_elements(s.actions -> 'steps') AS step
          WHERE s.pipeline = %(pipeline)s AND (step ->> 'partition')::int = r.partition
            AND step -> 'was' ->> 'topic_id' = %(topic_id)s
            AND step -> 'becomes' ->> 'topic_id' IS DISTINCT FROM %(topic_id)s
          ORDER BY s.settlement_id DESC LIMIT 1)) AS until_offset
  FROM (SELECT r.partition, r.until_offset FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
         WHERE b.pipeline = %(pipeline)s AND r.topic_id = %(topic_id)s
         UNION ALL
        SELECT partition, until_offset FROM tidegate.pruned_range
         WHERE pipeline = %(pipeline)s AND topic_id = %(topic_id)s) AS r GROUP BY r.partition;

-- epochs_read: the ends of the ranges read in a partition of a log, each with the epoch of a leader whose log reached
-- there, without those recorded as lost since.
SELECT r.until_offset, r.leader_epoch
  FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)
 WHERE b.pipeline = %(pipeline)s AND r.topic_id = %(topic_id)s AND r.partition = %(partition)s
   AND r.leader_epoch IS NOT NULL AND r.until_offset > %(low)s
   AND NOT EXISTS (SELECT 1 FROM tidegate.lost_history AS l
                    WHERE l.pipeline = b.pipeline AND l.partition = r.partition AND b.batch_id <= l.until_batch
                      AND r.until_offset > l.from_offset AND r.until_offset <= l.until_offset)
 ORDER BY r.until_offset;

-- settle_position: the position at which reading resumes. Compare-and-swap, as for a batch. In the same log, what an
-- upsert must read before partitions added later stays.
UPDATE tidegate.source_position
   SET next_offset = %(next_offset)s, start_offset = %(start_offset)s, topic = %(topic)s, cluster_id = %(cluster_id)s,
       topic_id = %(topic_id)s, leader_epoch = NULL, updated_at = now(),
       seen_end = CASE WHEN (cluster_id, topic_id) = (%(cluster_id)s, %(topic_id)s) THEN seen_end
                       ELSE %(read_first_to)s::bigint END
 WHERE pipeline = %(pipeline)s AND topic = %(was_topic)s AND partition = %(partition)s
   AND next_offset = %(was_next)s AND topic_id = %(was_topic_id)s AND cluster_id = %(was_cluster_id)s;

-- forget_position: deletes the position of a partition that the new log does not have. Never in its own log: there no
-- partition ever goes, and the next run would read it again from 0.
DELETE FROM tidegate.source_position
 WHERE pipeline = %(pipeline)s AND partition = %(partition)s AND next_offset = %(was_next)s
   AND (cluster_id, topic_id) <> (%(cluster_id)s, %(topic_id)s);

-- declare_skip: offsets that will not be read.
INSERT INTO tidegate.declared_skip (pipeline, topic_id, partition, from_offset, until_offset, reason, declared_by)
VALUES (%(pipeline)s, %(topic_id)s, %(partition)s, %(from_offset)s, %(until_offset)s, %(reason)s, %(settled_by)s);

-- declare_lost: committed offsets that no log has any more, up to the newest batch there is.
INSERT INTO tidegate.lost_history (settlement_id, pipeline, partition, from_offset, until_offset, until_batch)
SELECT %(settlement_id)s, %(pipeline)s, %(partition)s, %(from_offset)s, %(until_offset)s, coalesce(max(batch_id), 0)
  FROM tidegate.batch WHERE pipeline = %(pipeline)s;

-- set_aside: renames the log of dead letters and skips whose offsets come again with other messages, or are read after
-- all. For a skip that begins before them, only the rest.
WITH skips AS (UPDATE tidegate.declared_skip SET topic_id = topic_id || '~' || %(settlement_id)s::text
                WHERE pipeline = %(pipeline)s AND topic_id = %(topic_id)s AND partition = %(partition)s
                  AND from_offset >= %(from_offset)s AND from_offset < %(until_offset)s),
     cut AS (UPDATE tidegate.declared_skip AS s SET until_offset = %(from_offset)s
               FROM tidegate.declared_skip AS was
              WHERE s.pipeline = %(pipeline)s AND s.topic_id = %(topic_id)s AND s.partition = %(partition)s
                AND s.from_offset < %(from_offset)s AND s.until_offset > %(from_offset)s
                AND (was.pipeline, was.topic_id, was.partition, was.from_offset)
                  = (s.pipeline, s.topic_id, s.partition, s.from_offset)
             RETURNING was.*),
     rest AS (INSERT INTO tidegate.declared_skip
              SELECT pipeline, topic_id || '~' || %(settlement_id)s::text, partition, %(from_offset)s, until_offset,
                     reason, declared_by, declared_at, database_user FROM cut)
UPDATE tidegate.dead_letter SET topic_id = topic_id || '~' || %(settlement_id)s::text
 WHERE pipeline = %(pipeline)s AND topic_id = %(topic_id)s AND partition = %(partition)s
   AND "offset" >= %(from_offset)s AND "offset" < %(until_offset)s;

-- record_settlement: who decided what, and why.
INSERT INTO tidegate.settlement (pipeline, halt_code, halt_detail, actions, epoch, reason, settled_by)
VALUES (%(pipeline)s, %(code)s, %(detail)s, %(actions)s, %(epoch)s, %(reason)s, %(settled_by)s)
RETURNING settlement_id;

-- reactivate: the pipeline is active again, under an epoch that no run has yet.
UPDATE tidegate.pipeline
   SET state = 'active', halt_code = NULL, halt_detail = NULL, epoch = epoch + 1, owner = NULL, failed_tries = 0,
       batch_failures = 0, retry_at = NULL,
       pending = CASE WHEN %(keep_pending)s THEN pending || %(marks)s END, failed_checks = NULL,
       updated_at = now()
 WHERE name = %(pipeline)s AND epoch = %(epoch)s AND state = %(state)s;
