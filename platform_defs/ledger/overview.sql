-- status: these pipelines for the sensor, `tidegate lag` and `tidegate plan`. A live run has one leased for as long as
-- its session is open. A back-off lasts an hour at most: a longer one comes from a clock that was set back, and does
-- not count.
SELECT p.name AS pipeline, p.state, p.halt_code, p.halt_detail, p.failed_checks, p.pending, p.retry_at, p.owner,
       p.run_id, p.epoch, p.row_local, coalesce(p.retry_at > now() AND p.retry_at <= now() + interval '1 hour', false) AS backed_off,
       p.owner IS NOT NULL
         AND hashtextextended('tidegate/' || left(p.name, 20) || '/' || replace(p.owner::text, '-', ''), 0)
             IN (SELECT key FROM tidegate.alive) AS held,
       CASE WHEN p.failed_tries > 0 THEN p.last_error END AS last_error, p.last_error_hides
  FROM tidegate.pipeline AS p WHERE p.name = ANY(%(pipelines)s);

-- seconds_since_commit: since the last commit of any of these pipelines; NULL before the first. Others are
-- not included: another kind of run commits several batches a second, which says nothing about these.
SELECT extract(epoch FROM now() - max(newest.committed_at))::float8 AS seconds
  FROM unnest(%(pipelines)s::text[]) AS p (name)
 CROSS JOIN LATERAL (SELECT committed_at FROM tidegate.batch
                      WHERE pipeline = p.name ORDER BY batch_id DESC LIMIT 1) AS newest;

-- held_by: the run whose live session has leased the pipeline; no row if there is none.
SELECT run_id FROM tidegate.pipeline
 WHERE name = %(pipeline)s
   AND hashtextextended('tidegate/' || left(name, 20) || '/' || replace(owner::text, '-', ''), 0)
       IN (SELECT key FROM tidegate.alive);
