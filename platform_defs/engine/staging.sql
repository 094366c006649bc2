-- next_staging_id: an id for a try, and for its staging table if it needs a new one.
SELECT nextval('tidegate.staging_id');

-- idle_staging: the pipeline's staging tables that no try uses, the newest first. One fits if it has exactly these
-- columns (name and type) in this order, since COPY stores the bits of any type; if it has its view; and if both are
-- this role's own, without triggers and rules, which would run with its rights: another owner may have added some.
SELECT t.table_id, ours, coalesce(own AND columns = %(columns)s::text[] AND viewed, false) AS fits
  FROM tidegate.staging_table AS t
  LEFT JOIN pg_class AS c ON c.oid = to_regclass('tidegate_staging.rows_' || t.table_id),
       LATERAL (SELECT coalesce(pg_has_role(c.relowner, 'USAGE'), true) AS ours,
                       pg_get_userbyid(c.relowner) = current_user AND c.relkind = 'r'
                         AND NOT c.relhastriggers AND NOT c.relhasrules AS own,
                       EXISTS (SELECT FROM pg_class AS v
                                WHERE v.oid = to_regclass('tidegate_staging.audited_' || t.table_id)
                                  AND pg_get_userbyid(v.relowner) = current_user) AS viewed,
                       (SELECT array_agg(attname || ' ' || format_type(atttypid, atttypmod) ORDER BY attnum)
                          FROM pg_attribute
                         WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped) AS columns) AS found
 WHERE pipeline = %(pipeline)s
   AND NOT EXISTS (SELECT FROM tidegate.staging AS s WHERE s.table_id = t.table_id)
 ORDER BY t.table_id DESC;

-- keep_staging: a staging table is the pipeline's.
INSERT INTO tidegate.staging_table (table_id, pipeline) VALUES (%(table_id)s, %(pipeline)s);

-- drop_staging: a staging table is gone.
DELETE FROM tidegate.staging_table WHERE table_id = %(table_id)s;

-- staging_tables: a pipeline's staging tables.
SELECT table_id FROM tidegate.staging_table WHERE pipeline = %(pipeline)s;

-- free_staging: a pipeline's staging tables that no try uses, and that this role may drop.
SELECT t.table_id FROM tidegate.staging_table AS t
  LEFT JOIN pg_class AS c ON c.oid = to_regclass('tidegate_staging.rows_' || t.table_id)
 WHERE pipeline = %(pipeline)s AND coalesce(pg_has_role(c.relowner, 'USAGE'), true)
   AND NOT EXISTS (SELECT FROM tidegate.staging AS s WHERE s.table_id = t.table_id);

-- staging_table: the table of a try.
SELECT table_id FROM tidegate.staging WHERE staging_id = %(staging_id)s;

-- staging_size: the bytes of a staging table, if it exists and is this role's own: its triggers run with the rights of
-- the role that empties it.
SELECT pg_table_size(oid) FROM pg_class
 WHERE oid = to_regclass('tidegate_staging.rows_' || %(table_id)s) AND pg_get_userbyid(relowner) = current_user;

-- note_winners: the attempts of a try whose results arrived, for its audit. A second audit has the same.
INSERT INTO tidegate_staging.winner (staging_id, attempt)
SELECT %(staging_id)s, unnest(%(attempts)s::uuid[]) ON CONFLICT DO NOTHING;
