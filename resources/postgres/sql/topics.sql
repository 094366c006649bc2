-- topics_cluster: the cluster of the first apply; no row before it.
SELECT cluster_id FROM tidegate.topics_cluster;

-- keep_topics_cluster: of two first applies at once, one is the first.
INSERT INTO tidegate.topics_cluster (cluster_id) VALUES (%(cluster_id)s) ON CONFLICT DO NOTHING;

-- replace_topics_cluster: a person has said that this cluster takes the other's place.
INSERT INTO tidegate.topics_cluster (cluster_id) VALUES (%(cluster_id)s)
    ON CONFLICT (only_row) DO UPDATE SET cluster_id = excluded.cluster_id, applied_at = now();
