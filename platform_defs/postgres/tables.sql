-- output_owner: the pipeline that owns a table; the pipeline's own row first.
SELECT pipeline, definition, batch_id,
       (SELECT max(batch_id) FROM tidegate.batch AS b WHERE b.pipeline = o.pipeline) AS newest_batch
  FROM tidegate.output AS o
 WHERE table_oid = to_regclass(%(table)s) OR (pipeline, table_name) = (%(pipeline)s, %(table)s)
 ORDER BY (pipeline, table_name) = (%(pipeline)s, %(table)s) DESC, pipeline = %(pipeline)s DESC;

-- schema_rights: our rights for a table's current or future place. to_regclass fails in a schema that we may not use.
SELECT current_user::text AS role, current_database()::text AS database, n.oid IS NOT NULL AS schema_there,
       EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = n.oid AND relname = %(name)s) AS table_there,
       coalesce(has_schema_privilege(n.oid, 'USAGE'), may_create_schemas) AS may_usage,
       coalesce(has_schema_privilege(n.oid, 'CREATE'), may_create_schemas) AS may_create
  FROM has_database_privilege(current_database(), 'CREATE') AS may_create_schemas
  LEFT JOIN pg_namespace AS n ON n.nspname = %(schema)s;

-- own_output: records the table as this pipeline's.
INSERT INTO tidegate.output (table_oid, table_name, pipeline, disposition, definition)
VALUES (to_regclass(%(table)s), %(table)s, %(pipeline)s, %(disposition)s, %(definition)s);

-- name_output: the contract's current name for the table, and how it is filled if no earlier version recorded that.
UPDATE tidegate.output SET table_name = %(table)s, definition = coalesce(definition, %(definition)s)
 WHERE table_oid = to_regclass(%(table)s) AND pipeline = %(pipeline)s
   AND (table_name <> %(table)s OR definition IS NULL);

-- live_table: a table's live definition, its partitions, and all that could keep a row from arriving as it was written.
WITH here AS (SELECT c.* FROM pg_class AS c WHERE c.oid = to_regclass(%(table)s)),
     parts AS (SELECT oid FROM here UNION SELECT relid FROM here, pg_partition_tree(here.oid)),
     roots AS (SELECT oid FROM here UNION SELECT relid FROM here, pg_partition_ancestors(here.oid) AS relid),
     keys AS (SELECT i.indexrelid::regclass::text AS name, array_agg(a.attname::text ORDER BY a.attname) AS columns,
                     CASE WHEN NOT (i.indisvalid AND i.indisready AND i.indislive) THEN 'invalid'
                          WHEN NOT i.indimmediate THEN 'deferrable'
                          WHEN i.indpred IS NOT NULL THEN 'partial' ELSE '' END AS unusable
                FROM here, pg_index AS i
                JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, nth) ON k.nth <= i.indnkeyatts
                JOIN pg_attribute AS a ON (a.attrelid, a.attnum) = (i.indrelid, k.attnum)
               WHERE i.indrelid = here.oid AND i.indisunique AND i.indexprs IS NULL
               GROUP BY i.indexrelid),
     not_null AS (SELECT DISTINCT attname FROM parts JOIN pg_attribute ON attrelid = oid WHERE attnum > 0 AND attnotnull),
     checks AS (SELECT pg_get_expr(conbin, conrelid) AS condition, format('%%I on %%s', conname, conrelid::regclass) AS name
                  FROM parts JOIN pg_constraint ON conrelid = parts.oid
                 WHERE contype = 'c' AND cardinality(conkey) = 1 AND coninhcount = 0)
SELECT current_user::text AS role, here.relkind::text AS kind,
       (SELECT o.table_oid IS NOT DISTINCT FROM here.oid FROM tidegate.output AS o
         WHERE (o.pipeline, o.table_name) = (%(pipeline)s, %(table)s)) AS bound,
       row_security_active(here.oid) AS row_security,
       has_table_privilege(here.oid, 'DELETE') AS may_delete,
       has_table_privilege(here.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') AS may_lock,  -- any of them
       ARRAY(SELECT c.oid::regclass::text FROM parts JOIN pg_class AS c USING (oid)
              WHERE c.relkind = 'f') AS foreign_parts,
       ARRAY(SELECT c.oid::regclass::text FROM parts JOIN pg_class AS c USING (oid)
              WHERE c.relpersistence <> 'p' AND c.relkind IN ('r', 'p')) AS not_logged,
       ARRAY(SELECT format('rule %%I on %%s', rulename, ev_class::regclass) FROM pg_rewrite
              WHERE ev_class = here.oid AND ev_type <> '1' AND ev_enabled <> 'D' ORDER BY 1) AS rules,
       ARRAY(SELECT format('trigger %%I on %%s', tgname, tgrelid::regclass)
               FROM pg_trigger JOIN parts ON tgrelid = parts.oid
              WHERE NOT tgisinternal AND tgtype & 3 = 3  -- for each row, before it is written
                AND tgenabled IN ('A', CASE current_setting('session_replication_role')
                                       WHEN 'replica' THEN 'R' ELSE 'O' END)
              ORDER BY tgparentid <> 0, 1) AS triggers,
       ARRAY(SELECT format('%%I on %%s', conname, conrelid::regclass)
               FROM pg_constraint JOIN parts ON conrelid = parts.oid
              WHERE contype = 'f' AND (confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'))
                AND confrelid IN (SELECT table_oid FROM tidegate.output)
              ORDER BY conparentid <> 0, 1) AS cascades,
       here.relkind = 'r' AND (
         EXISTS (SELECT FROM pg_publication WHERE puballtables)
         OR EXISTS (SELECT FROM pg_publication_rel JOIN roots ON prrelid = roots.oid)
         OR EXISTS (SELECT FROM pg_depend JOIN pg_class AS c ON refobjid = c.relnamespace JOIN roots ON roots.oid = c.oid
                     WHERE refclassid = 'pg_namespace'::regclass
                       AND classid = to_regclass('pg_catalog.pg_publication_namespace'))  -- missing in PostgreSQL 14
       ) AS published,
       (SELECT json_agg(to_json(keys) ORDER BY name) FROM keys) AS unique_keys,
       (SELECT json_agg(json_build_object(
                 'name', attname, 'type', format_type(atttypid, atttypmod),
                 'demanded', CASE
                   WHEN has_default THEN ''
                   WHEN attname IN (SELECT attname FROM not_null) THEN 'it is NOT NULL'
                   ELSE coalesce((SELECT 'the constraint ' || min(name) || ' rejects NULL' FROM checks
                                   WHERE condition = format('(%%I IS NOT NULL)', attname)), '') END,
                 'domain', CASE WHEN typtype = 'd' AND NOT has_default THEN typ.oid::bigint END,
                 'generated', attgenerated <> '', 'identity', attidentity = 'a',
                 'deterministic', NOT EXISTS (SELECT FROM pg_collation AS c
                                               WHERE c.oid = attcollation AND NOT collisdeterministic),
                 'own_collation', attcollation NOT IN (0, 'pg_catalog."default"'::regcollation),
                 'rights', ARRAY(SELECT p FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS p
                                  WHERE has_column_privilege(attrelid, attnum, p))) ORDER BY attnum)
          FROM pg_attribute AS a JOIN pg_type AS typ ON typ.oid = atttypid
          JOIN LATERAL (SELECT coalesce((SELECT pg_get_expr(adbin, adrelid) NOT LIKE 'NULL::%%' FROM pg_attrdef
                                          WHERE (adrelid, adnum) = (attrelid, attnum)),
                                        attidentity <> '' OR typdefault IS NOT NULL) AS has_default) AS d ON true
         WHERE attrelid = here.oid AND attnum > 0 AND NOT attisdropped) AS columns
  FROM here;

-- null_of_domain: fails as an INSERT without the column does: by the domain's NOT NULL, or by a CHECK. Casting would need
-- USAGE on the domain's schema, which an INSERT does not.
SELECT domain_in(NULL, %(domain)s::oid, -1) IS NULL;

-- take_output_over: the live table is now filled like the rebuilt one, up to the same batch.
UPDATE tidegate.output AS l SET definition = b.definition, batch_id = b.batch_id
  FROM tidegate.output AS b
 WHERE (l.pipeline, l.table_name) = (%(pipeline)s, %(live)s) AND (b.pipeline, b.table_name) = (%(beside)s, %(built)s);
