-- keep_unsent: a message that was not delivered. It exists already if a file is taken in a second time.
INSERT INTO tidegate.unsent (unsent_id, pipeline, topic, cluster_id, topic_id, end_offsets, partition, key, value,
                             header_names, header_values, timestamp_ms, tidegate_id, id_sent, error_code, error_name,
                             outcome, tries, failed_at)
VALUES (%(unsent_id)s, %(pipeline)s, %(topic)s, %(cluster_id)s, %(topic_id)s, %(end_offsets)s, %(partition)s,
        %(key)s, %(value)s, %(header_names)s, %(header_values)s, %(timestamp_ms)s, %(tidegate_id)s, %(id_sent)s,
        %(error_code)s, %(error_name)s, %(outcome)s, %(tries)s, %(failed_at)s)
ON CONFLICT (unsent_id) DO NOTHING;

-- unsent_counts: the number of a pipeline's undelivered messages, by status.
SELECT topic, outcome, error_name, status, sum(messages)::bigint AS messages
  FROM (SELECT topic, outcome, error_name, coalesce(settled_how, 'open') AS status, count(*) AS messages
          FROM tidegate.unsent WHERE pipeline = %(pipeline)s
         GROUP BY topic, outcome, error_name, coalesce(settled_how, 'open')
         UNION ALL
        SELECT topic, outcome, error_name, settled_how, messages FROM tidegate.pruned_unsent
         WHERE pipeline = %(pipeline)s) AS every
 WHERE (%(reason)s::text IS NULL OR error_name = %(reason)s) AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s)
 GROUP BY topic, outcome, error_name, status ORDER BY sum(messages) DESC, 1, 2, 3, 4;

-- unsent_of: the same, message by message: open before settled ones, the newest first.
SELECT unsent_id, topic, partition, error_code, error_name, outcome, tries, failed_at, octet_length(value) AS bytes,
       coalesce(settled_how, 'open') AS status, settled_at, settled_by, settled_reason, settled_partition,
       settled_offset
  FROM tidegate.unsent
 WHERE pipeline = %(pipeline)s AND (%(reason)s::text IS NULL OR error_name = %(reason)s)
   AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s)
 ORDER BY settled_at IS NOT NULL, number DESC LIMIT %(limit)s;

-- hold_unsent: one command at a time settles a pipeline's messages. The lock ends with the transaction, which stays
-- open.
SELECT pg_try_advisory_xact_lock(hashtext('tidegate unsent'), hashtext(%(pipeline)s));

-- unsent_under_way: the seconds for which an earlier command that did not end may still be sending.
SELECT extract(epoch FROM max(trying_until) - clock_timestamp())::float8 AS seconds
  FROM tidegate.unsent WHERE pipeline = %(pipeline)s AND settled_at IS NULL;

-- unsent_ids: the next open messages of these logs, without their content.
SELECT number, unsent_id, tidegate_id, topic, cluster_id, topic_id, end_offsets,
       outcome = 'unknown' AND NOT id_sent AS blind, extract(epoch FROM failed_at)::float8 AS failed_at,
       coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0) AS bytes
  FROM tidegate.unsent
 WHERE pipeline = %(pipeline)s AND settled_at IS NULL AND outcome = ANY (%(outcomes)s) AND number > %(after)s
 ORDER BY number LIMIT %(limit)s;

-- unsent_keys: the keys of some of them.
SELECT unsent_id, key FROM tidegate.unsent WHERE unsent_id = ANY (%(ids)s) AND key IS NOT NULL;

-- unsent_messages: some of them, whole.
SELECT unsent_id, pipeline, topic, cluster_id, topic_id, end_offsets, partition, key, value, header_names,
       header_values, timestamp_ms, tidegate_id, id_sent, error_code, error_name, outcome, tries, failed_at
  FROM tidegate.unsent WHERE unsent_id = ANY (%(ids)s) AND settled_at IS NULL ORDER BY number;

-- try_unsent: they are about to be sent, which takes at most so many seconds.
UPDATE tidegate.unsent SET trying_until = clock_timestamp() + make_interval(secs => %(seconds)s)
 WHERE unsent_id = ANY (%(ids)s) AND settled_at IS NULL;

-- settle_unsent: the message is in the log, found there or just sent.
UPDATE tidegate.unsent
   SET settled_at = now(), settled_how = %(how)s, settled_by = %(who)s, database_user = session_user,
       settled_partition = %(partition)s, settled_offset = %(offset)s, trying_until = NULL, tries = tries + %(tries)s
 WHERE unsent_id = %(unsent_id)s AND settled_at IS NULL;

-- fail_unsent: the message was sent again, with its id, and not delivered either.
UPDATE tidegate.unsent
   SET error_code = %(error_code)s, error_name = %(error_name)s, outcome = %(outcome)s, tries = tries + 1,
       failed_at = now(), id_sent = true, trying_until = NULL
 WHERE unsent_id = %(unsent_id)s AND settled_at IS NULL;

-- open_unsent: the open messages of these kinds, counted by kind, with a sum that changes if any of them does.
SELECT topic, outcome, error_name, count(*) AS messages,
       sum(hashtextextended(concat_ws(' ', unsent_id, outcome, error_name, tries), 0)::numeric) AS shown
  FROM tidegate.unsent
 WHERE pipeline = %(pipeline)s AND settled_at IS NULL
   AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s) AND (%(error)s::text IS NULL OR error_name = %(error)s)
   AND (%(unsent_id)s::uuid IS NULL OR unsent_id = %(unsent_id)s)
 GROUP BY topic, outcome, error_name ORDER BY count(*) DESC, 1, 2, 3;

-- discard_unsent: a user decides not to send them; returns their counts as open_unsent does.
WITH discarded AS (
    UPDATE tidegate.unsent
       SET settled_at = now(), settled_how = 'discarded', settled_by = %(who)s, database_user = session_user,
           settled_reason = %(reason)s
     WHERE pipeline = %(pipeline)s AND settled_at IS NULL
       AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s) AND (%(error)s::text IS NULL OR error_name = %(error)s)
       AND (%(unsent_id)s::uuid IS NULL OR unsent_id = %(unsent_id)s)
    RETURNING topic, outcome, error_name, unsent_id, tries)
SELECT topic, outcome, error_name, count(*) AS messages,
       sum(hashtextextended(concat_ws(' ', unsent_id, outcome, error_name, tries), 0)::numeric) AS shown
  FROM discarded GROUP BY topic, outcome, error_name ORDER BY count(*) DESC, 1, 2, 3;
