-- topics_cluster: the cluster of the first apply; no row before it.
SELECT cluster_id FROM tidegate.topics_cluster;

-- known_cluster: the cluster of the first apply; before it the given one if a pipeline has a position there, else any
-- with one.
SELECT coalesce((SELECT cluster_id FROM tidegate.topics_cluster),
                (SELECT cluster_id FROM tidegate.source_position WHERE cluster_id = %(cluster_id)s LIMIT 1),
                (SELECT cluster_id FROM tidegate.source_position LIMIT 1));

-- topic_readers: the pipelines that have a position in these topics, whatever contracts say, and how they write rows.
SELECT p.topic, p.pipeline, CASE WHEN o.upserts THEN 'upsert' ELSE 'append' END
  FROM (SELECT DISTINCT topic, pipeline FROM tidegate.source_position WHERE topic = ANY (%(topics)s)) AS p
  LEFT JOIN (SELECT pipeline, bool_or(disposition = 'upsert') AS upserts FROM tidegate.output GROUP BY pipeline) AS o
       USING (pipeline)
 ORDER BY p.topic, p.pipeline;

-- keep_topics_cluster: if two first applies run at once, one is the first.
INSERT INTO tidegate.topics_cluster (cluster_id, applied_by) VALUES (%(cluster_id)s, %(who)s) ON CONFLICT DO NOTHING;

-- replace_topics_cluster: a user has decided that this cluster replaces the other.
INSERT INTO tidegate.topics_cluster (cluster_id, applied_by) VALUES (%(cluster_id)s, %(who)s)
    ON CONFLICT (only_row) DO UPDATE
    SET cluster_id = excluded.cluster_id, applied_at = now(), applied_by = excluded.applied_by,
        database_user = session_user;

-- reassignment_of: the reassignment that was applied last to a cluster.
SELECT plan, throttle, state, changed_at FROM tidegate.reassignment WHERE cluster_id = %(cluster_id)s;

-- keep_reassignment: no row if another plan is in progress.
INSERT INTO tidegate.reassignment AS kept (cluster_id, plan, throttle, state, changed_by)
VALUES (%(cluster_id)s, %(plan)s, %(throttle)s, %(state)s, %(who)s)
    ON CONFLICT (cluster_id) DO UPDATE
    SET plan = excluded.plan, throttle = excluded.throttle, state = excluded.state, changed_at = now(),
        changed_by = excluded.changed_by, database_user = session_user
    WHERE kept.state <> 'under way' OR kept.plan::text = excluded.plan::text
    RETURNING changed_at;
