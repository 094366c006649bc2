-- next_batch_ids: an id for each range of a plan that is published directly.
SELECT nextval('tidegate.batch_id') FROM generate_series(1, %(ranges)s);

-- range_state: whether a range's batch has committed, and whether the run that reads it is still the owner. Without a
-- lock.
SELECT EXISTS (SELECT FROM tidegate.batch WHERE batch_id = %(batch_id)s),
       EXISTS (SELECT FROM tidegate.pipeline
                WHERE name = %(pipeline)s AND epoch = %(epoch)s AND owner = %(owner)s AND state = 'active');

-- clear_range: a range of the plan has committed as its own batch, is not read again, and counts. Touches the
-- pipeline's row, or the range is no longer planned.
UPDATE tidegate.pipeline
   SET messages_total = messages_total + %(messages)s, rows_total = rows_total + %(rows)s,
       pending = CASE WHEN jsonb_array_length(pending -> 'ranges') > 1
                      THEN jsonb_set(pending, '{ranges}',
                             (SELECT jsonb_agg(r ORDER BY n)
                                FROM jsonb_array_elements(pending -> 'ranges') WITH ORDINALITY AS e (r, n)
                               WHERE NOT r @> %(range)s::jsonb)) END,
       failed_tries = 0, batch_failures = 0, retry_at = NULL, failed_checks = NULL, recent_messages = %(recent)s,
       updated_at = now()
 WHERE name = %(pipeline)s AND (pending ->> 'batch_id')::bigint = %(plan_id)s
   AND pending -> 'ranges' @> jsonb_build_array(%(range)s::jsonb);
