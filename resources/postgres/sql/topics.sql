-- topics_cluster: the cluster of the first apply; no row before it.
SELECT cluster_id FROM tidegate.topics_cluster;

-- keep_topics_cluster: of two first applies at once, one is the first.
INSERT INTO tidegate.topics_cluster (cluster_id, applied_by) VALUES (%(cluster_id)s, %(who)s) ON CONFLICT DO NOTHING;

-- replace_topics_cluster: a person has said that this cluster takes the other's place.
INSERT INTO tidegate.topics_cluster (cluster_id, applied_by) VALUES (%(cluster_id)s, %(who)s)
    ON CONFLICT (only_row) DO UPDATE
    SET cluster_id = excluded.cluster_id, applied_at = now(), applied_by = excluded.applied_by,
        database_user = session_user;
