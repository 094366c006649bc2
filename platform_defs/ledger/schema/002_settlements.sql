-- What a person decided about a halted pipeline, and what that did to its positions.
CREATE TABLE tidegate.settlement (
    settlement_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline      text NOT NULL REFERENCES tidegate.pipeline (name),
    halt_code     text NOT NULL,
    halt_detail   jsonb NOT NULL,
    actions       jsonb NOT NULL,            -- as `tidegate ack` showed them: positions before and after, skips, ...
    epoch         bigint NOT NULL,           -- the fenced one; settling takes the next
    reason        text NOT NULL,
    settled_by    text NOT NULL,
    settled_at    timestamptz NOT NULL DEFAULT now()
);

-- Offsets that batches committed and whose messages no log holds any more: the topic was created again, the cluster
-- switched, or the log was truncated. The same offsets may come again with other messages, in batches after `until_batch`.
CREATE TABLE tidegate.lost_history (
    settlement_id bigint NOT NULL REFERENCES tidegate.settlement (settlement_id),
    pipeline      text NOT NULL REFERENCES tidegate.pipeline (name),
    partition     int NOT NULL,
    from_offset   bigint NOT NULL,
    until_offset  bigint NOT NULL CHECK (until_offset > from_offset),
    until_batch   bigint NOT NULL,           -- the last batch that committed any of them
    PRIMARY KEY (settlement_id, partition)
);
