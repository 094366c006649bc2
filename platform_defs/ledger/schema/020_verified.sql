-- Up to where the tables of a pipeline were compared with its topic and found exact: the next check begins there.
-- It refers to no pipeline row, since a check waits for no publication.
CREATE TABLE tidegate.verified (
    pipeline    text PRIMARY KEY,
    moves       bigint NOT NULL DEFAULT 0,   -- compare-and-swap: of two checks at once one moves it
    batch_id    bigint NOT NULL,             -- this batch and those before it; 0 where none is
    offsets     jsonb NOT NULL,              -- by partition: the first offset that was not compared
    sums        jsonb NOT NULL,              -- of the accumulates as of this batch (platform_defs/verify/compare/sums.py)
    basis       jsonb NOT NULL,              -- what it holds for; where one of these is another, it is void
    moved_at    timestamptz NOT NULL DEFAULT now(),
    checked_at  timestamptz,                 -- when a check of what is new ended last
    passed      boolean,                     -- whether it found everything exact
    explanation text                         -- what it said
);
