-- The cluster to which `tidegate topics apply` was first applied: one row. Another cluster is refused.
CREATE TABLE tidegate.topics_cluster (
    only_row   boolean NOT NULL PRIMARY KEY DEFAULT true CHECK (only_row),
    cluster_id text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
