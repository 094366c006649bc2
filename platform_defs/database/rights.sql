-- rights_on_ledger: runs, sensors and commands work with the ledger, and some only read it. Only the owner migrates it.
GRANT USAGE ON SCHEMA tidegate TO {publisher}, {reader};
GRANT SELECT ON ALL TABLES IN SCHEMA tidegate TO {publisher}, {reader};
GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tidegate TO {publisher};
REVOKE INSERT, UPDATE, DELETE ON tidegate.migration FROM {publisher};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA tidegate TO {publisher};

-- rights_on_later_ledger: the same for what later migrations add.
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA tidegate GRANT SELECT ON TABLES TO {publisher}, {reader};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA tidegate GRANT INSERT, UPDATE, DELETE ON TABLES TO {publisher};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA tidegate GRANT USAGE ON SEQUENCES TO {publisher};

-- rights_on_staging: runs create tables for what is not published yet, and nobody else has to see it. Those of another
-- role are not the owner's to grant.
GRANT USAGE, CREATE ON SCHEMA tidegate_staging TO {publisher};
GRANT SELECT, INSERT, UPDATE, DELETE
   ON tidegate_staging.coverage, tidegate_staging.dead_letter, tidegate_staging.holder, tidegate_staging.winner
   TO {publisher};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA tidegate_staging
      GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {publisher};

-- rights_on_dagster: Dagster's storage. For tidegate doctor, when its daemon was last heard of.
GRANT USAGE ON SCHEMA dagster TO {publisher}, {reader};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dagster TO {publisher};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA dagster TO {publisher};
GRANT SELECT ON dagster.daemon_heartbeats TO {reader};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA dagster
      GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {publisher};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA dagster GRANT USAGE ON SEQUENCES TO {publisher};

-- rights_on_language: an upsert whose table has another unique index is written in PL/pgSQL, message by message. Every
-- role may use it unless that was revoked from PUBLIC. Then an administrator executes this:
-- GRANT USAGE ON LANGUAGE plpgsql TO {publisher};

-- rights_in_schema: the tables of a contract are found.
GRANT USAGE ON SCHEMA {schema} TO {publisher}, {reader};

-- rights_on_table: what publishing does with this kind of table, and reading.
GRANT {rights} ON {table} TO {publisher};
GRANT SELECT ON {table} TO {reader};
