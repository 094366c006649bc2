-- The sessions that are there, by a hash of their names: those that hold a lock of that key, which every role may see,
-- and those whose name this role may see. Sessions of versions before this one have no such lock.
CREATE VIEW tidegate.alive AS
SELECT classid::bigint << 32 | objid::bigint AS key FROM pg_locks
 WHERE locktype = 'advisory' AND objsubid = 1 AND granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION
SELECT hashtextextended(application_name, 0) FROM pg_stat_activity WHERE application_name IS NOT NULL;
