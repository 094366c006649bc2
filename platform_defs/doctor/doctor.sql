-- server_vitals: the settings that decide whether a commit is durable, and the number of sessions left.
SELECT current_setting('server_version') AS version,
       current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         - coalesce(current_setting('reserved_connections', true), '0')::int AS most_sessions,
       (SELECT sum(numbackends) FROM pg_stat_database)::int AS sessions,
       (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user) AS role_limit,
       (SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND backend_type = 'client backend')::int AS role_sessions,
       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS encrypted,
       coalesce(host(inet_server_addr()) IN ('127.0.0.1', '::1'), true) AS local,
       pg_database_size(current_database()) AS bytes,
       extract(epoch FROM clock_timestamp())::float8 AS clock,
       current_user::text AS role,
       current_database()::text AS database,
       has_database_privilege(current_database(), 'CREATE')
         OR coalesce(has_schema_privilege(to_regnamespace('tidegate'), 'CREATE')
                     AND has_schema_privilege(to_regnamespace('tidegate_staging'), 'CREATE'), false) AS may_create;

-- ledger_rights: the ledger's tables that this role may not read, those it may not write to, and whether it may create
-- staging tables.
SELECT coalesce(array_agg(c.relname::text ORDER BY c.relname) FILTER (WHERE NOT readable), '{}') AS unreadable,
       coalesce(array_agg(c.relname::text ORDER BY c.relname)
                  FILTER (WHERE NOT writable AND c.relname <> 'migration'), '{}') AS unwritable,
       coalesce(has_schema_privilege(to_regnamespace('tidegate_staging'), 'CREATE'), false) AS may_stage
  FROM (SELECT relname, has_table_privilege(oid, 'SELECT') AS readable, has_table_privilege(oid, 'INSERT') AS writable
          FROM pg_class WHERE relnamespace = to_regnamespace('tidegate') AND relkind IN ('r', 'p')) AS c;

-- may_read_heartbeats: true if this role may read Dagster's table; no row if there is none. Uses the catalogue:
-- to_regclass is an error if the schema may not be used.
SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AS readable
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = 'dagster' AND c.relname = 'daemon_heartbeats';

-- may_create_in: whether this role may create tables in a schema, or the schema if it does not exist.
SELECT current_user::text,
       coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege(n.oid, 'CREATE'),
                has_database_privilege(current_database(), 'CREATE'))
  FROM (SELECT) AS one LEFT JOIN pg_namespace AS n ON n.nspname = %(schema)s;

-- daemon_heartbeats: the seconds since the last heartbeat of each of Dagster's daemons.
SELECT daemon_type, extract(epoch FROM (now() AT TIME ZONE 'UTC') - "timestamp")::float8 AS seconds
  FROM dagster.daemon_heartbeats ORDER BY daemon_type;
