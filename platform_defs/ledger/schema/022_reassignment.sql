-- The reassignment of replicas that was applied last to a cluster: its throttles outlive the machine that began it. The
-- plan is json, not jsonb: it is compared as text, in the order of its topics.
CREATE TABLE tidegate.reassignment (
    cluster_id    text PRIMARY KEY,
    plan          json NOT NULL,
    throttle      bigint NOT NULL CHECK (throttle > 0),      -- bytes a second, from and to each broker
    state         text NOT NULL CHECK (state IN ('under way', 'done', 'cancelled')),
    changed_at    timestamptz NOT NULL DEFAULT now(),
    changed_by    text NOT NULL,
    database_user text NOT NULL DEFAULT session_user
);
