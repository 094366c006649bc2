-- Who decided it, as Postgres knows them: the user of the session, beside whom the operating system names. Rows from
-- before this migration have NULL.
LOCK TABLE tidegate.pipeline IN ACCESS EXCLUSIVE MODE;  -- as in 010: whoever settles has a row of it first

ALTER TABLE tidegate.settlement ADD COLUMN database_user text;
ALTER TABLE tidegate.declared_skip ADD COLUMN database_user text;
ALTER TABLE tidegate.replay ADD COLUMN database_user text;
ALTER TABLE tidegate.adoption ADD COLUMN database_user text;
ALTER TABLE tidegate.contract ADD COLUMN database_user text;
ALTER TABLE tidegate.unsent ADD COLUMN database_user text;
ALTER TABLE tidegate.topics_cluster ADD COLUMN database_user text;
ALTER TABLE tidegate.topics_cluster ADD COLUMN applied_by text;

-- Not as the column is added: it would name whoever migrates, in every row that is there.
ALTER TABLE tidegate.settlement ALTER COLUMN database_user SET DEFAULT session_user;
ALTER TABLE tidegate.declared_skip ALTER COLUMN database_user SET DEFAULT session_user;
ALTER TABLE tidegate.adoption ALTER COLUMN database_user SET DEFAULT session_user;
ALTER TABLE tidegate.contract ALTER COLUMN database_user SET DEFAULT session_user;
ALTER TABLE tidegate.topics_cluster ALTER COLUMN database_user SET DEFAULT session_user;
