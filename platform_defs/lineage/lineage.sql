-- lineage_turn: excludes other runs from sending this pipeline's events for the rest of the transaction.
SELECT pg_try_advisory_xact_lock(hashtextextended('tidegate lineage ' || %(pipeline)s, 0)) AS ours;

-- waiting_lineage: the pipeline's next events, in the order in which they must be sent; none while the first one waits
-- for its next try. A wait of more than an hour comes from a clock that was set back.
WITH next AS (SELECT sequence, event, retry_at FROM tidegate.lineage_event
               WHERE pipeline = %(pipeline)s AND emitted_at IS NULL AND given_up_at IS NULL
               ORDER BY sequence LIMIT %(most)s)
SELECT sequence, event FROM next
 WHERE NOT (SELECT coalesce(retry_at > now() AND retry_at <= now() + interval '1 hour', false)
              FROM next ORDER BY sequence LIMIT 1)
 ORDER BY sequence;

-- lineage_sent: an event was sent.
UPDATE tidegate.lineage_event SET emitted_at = clock_timestamp(), problem = NULL WHERE sequence = %(sequence)s;

-- lineage_put_off: the receiver was away, which does not count as a try.
UPDATE tidegate.lineage_event
   SET retry_at = clock_timestamp() + make_interval(secs => %(seconds)s), problem = %(problem)s
 WHERE sequence = %(sequence)s;

-- lineage_refused: the receiver refused the event; after too many tries it is discarded, so that those after it can be
-- sent.
UPDATE tidegate.lineage_event
   SET tries = tries + 1, problem = %(problem)s,
       retry_at = clock_timestamp() + make_interval(secs => %(seconds)s * 2 ^ tries),
       given_up_at = CASE WHEN tries + 1 >= %(most)s THEN clock_timestamp() END
 WHERE sequence = %(sequence)s
RETURNING given_up_at IS NOT NULL AS given_up;

-- lineage_backlog: for each pipeline, the number of waiting and of discarded events, and the last problem.
SELECT pipeline, count(*) FILTER (WHERE given_up_at IS NULL) AS waiting, count(given_up_at) AS given_up,
       (array_agg(problem ORDER BY sequence DESC) FILTER (WHERE problem IS NOT NULL))[1] AS problem
  FROM tidegate.lineage_event
 WHERE emitted_at IS NULL AND pipeline = ANY(%(pipelines)s) GROUP BY pipeline;
