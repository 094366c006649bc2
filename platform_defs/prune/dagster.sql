-- dagster_other_ledgers: the ids of the other ledgers that have had a run in the last days.
SELECT DISTINCT t.value
  FROM dagster.run_tags AS t
  JOIN dagster.runs AS r USING (run_id)
 WHERE t.key = %(ledger_tag)s AND t.value <> %(ledger_id)s
   AND r.update_timestamp >= (now() AT TIME ZONE 'UTC') - make_interval(secs => %(seconds)s);

-- dagster_old_runs: runs after the `last` one that ended so long ago, except those of `other_ledgers`, and those with the
-- last materialization or observation of an asset or of one of its partitions, or a check's last evaluation: the UI
-- shows these. `snapshots`: of the job and its plan, of a run that selected assets; those of a whole job are the parents of others.
WITH latest AS MATERIALIZED (
  SELECT e.run_id
    FROM dagster.asset_keys AS a
   CROSS JOIN (VALUES ('ASSET_MATERIALIZATION'), ('ASSET_OBSERVATION'), ('ASSET_FAILED_TO_MATERIALIZE')) AS t (type)
   CROSS JOIN LATERAL (SELECT run_id FROM dagster.event_logs
                        WHERE asset_key = a.asset_key AND dagster_event_type = t.type ORDER BY id DESC LIMIT 1) AS e
   UNION
  SELECT run_id FROM dagster.event_logs
   WHERE id IN (SELECT max(id) FROM dagster.event_logs
                 WHERE asset_key IS NOT NULL AND partition IS NOT NULL
                   AND dagster_event_type IN ('ASSET_MATERIALIZATION', 'ASSET_OBSERVATION', 'ASSET_FAILED_TO_MATERIALIZE')
                 GROUP BY asset_key, dagster_event_type, partition)
   UNION
  SELECT run_id FROM dagster.asset_check_executions
   WHERE id IN (SELECT max(id) FROM dagster.asset_check_executions
                 GROUP BY asset_key, check_name, execution_status = 'PLANNED'))
SELECT id, run_id,
       CASE WHEN run_body ~ '"asset_selection": {'
            THEN ARRAY[snapshot_id, substring(run_body FROM '"execution_plan_snapshot_id": "(\w+)"')] END AS snapshots
  FROM dagster.runs AS r
 WHERE id > %(last)s AND status IN ('SUCCESS', 'FAILURE', 'CANCELED')
   AND update_timestamp < (now() AT TIME ZONE 'UTC') - make_interval(secs => %(seconds)s)
   AND NOT EXISTS (SELECT FROM latest WHERE latest.run_id = r.run_id)
   AND NOT EXISTS (SELECT FROM dagster.run_tags AS t
                    WHERE t.run_id = r.run_id AND t.key = %(ledger_tag)s AND t.value = ANY (%(other_ledgers)s::text[]))
 ORDER BY id LIMIT %(most)s;

-- dagster_forget_snapshots: deletes those of these snapshots that no other run refers to. Each selection of assets that
-- was ever requested together has its own.
WITH plans AS MATERIALIZED (
  SELECT substring(run_body FROM '"execution_plan_snapshot_id": "(\w+)"') AS snapshot_id FROM dagster.runs)
DELETE FROM dagster.snapshots AS s
 WHERE snapshot_id = ANY (%(snapshots)s::text[])
   AND NOT EXISTS (SELECT FROM dagster.runs AS r WHERE r.snapshot_id = s.snapshot_id)
   AND NOT EXISTS (SELECT FROM plans WHERE plans.snapshot_id = s.snapshot_id);

-- dagster_forget_checks: deletes at most so many old evaluations of checks, except those of runs of `other_ledgers`,
-- and the latest of each check; a run in progress may have planned one, which is not the latest.
DELETE FROM dagster.asset_check_executions WHERE id IN (
  SELECT id FROM dagster.asset_check_executions AS c
   WHERE coalesce(evaluation_event_timestamp, create_timestamp)
         < (now() AT TIME ZONE 'UTC') - make_interval(secs => %(seconds)s)
     AND id NOT IN (SELECT max(id) FROM dagster.asset_check_executions
                    GROUP BY asset_key, check_name, execution_status = 'PLANNED')
     AND NOT EXISTS (SELECT FROM dagster.run_tags AS t
                      WHERE t.run_id = c.run_id AND t.key = %(ledger_tag)s AND t.value = ANY (%(other_ledgers)s::text[]))
   ORDER BY id LIMIT %(most)s);

-- dagster_forget_events: deletes at most so many old events outside runs (sensors write them), except the latest of
-- each asset or partition and kind, and those of the latest evaluation of each check.
WITH old AS (
  SELECT id FROM dagster.event_logs AS e
   WHERE run_id = '' AND "timestamp" < (now() AT TIME ZONE 'UTC') - make_interval(secs => %(seconds)s)
     AND NOT EXISTS (SELECT FROM (SELECT id FROM dagster.event_logs AS later
                                   WHERE later.asset_key = e.asset_key
                                     AND later.dagster_event_type = e.dagster_event_type
                                     AND later.partition IS NOT DISTINCT FROM e.partition
                                   ORDER BY later.id DESC LIMIT 1) AS latest WHERE latest.id = e.id)
     AND NOT EXISTS (SELECT FROM dagster.asset_check_executions AS c
                      WHERE c.evaluation_event_storage_id = e.id
                        AND c.id IN (SELECT max(id) FROM dagster.asset_check_executions
                                     GROUP BY asset_key, check_name, execution_status = 'PLANNED'))
   ORDER BY id LIMIT %(most)s),
     tags AS (DELETE FROM dagster.asset_event_tags WHERE event_id IN (SELECT id FROM old))
DELETE FROM dagster.event_logs WHERE id IN (SELECT id FROM old);
