"""A replay's shadow tables: like the live ones, in their own schemas, with the pipeline in the ledger that fills them.
replacement.py swaps them in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import sql

from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.evolution.statements import Given, Statement
from platform_defs.contract.evolution.unattended import refuse_declassified
from platform_defs.contract.model.contract import Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.plan.replay_plan import SUFFIX, History
from platform_defs.engine.staging import staging_tables
from platform_defs.errors import BadInput
from platform_defs.ledger.contract_ledger import ContractLedger, run
from platform_defs.postgres.connection import (
    LOCK_WAIT,
    Connection,
    application_name,
    lock_timeout,
    queries,
    refused_by_owner,
)
from platform_defs.postgres.live_table import refuse_unidentified
from platform_defs.postgres.tables import check_target, identifier, unless_created_meanwhile

REPLACED = ("UPDATE", "DELETE")  # what a replay does to live rows of any table, even of an append


@dataclass(frozen=True)
class BuiltBeside:
    """The live pipeline and the one that builds, in the ledger and in the tables."""

    live: Pipeline
    built: Pipeline

    @property
    def key(self) -> dict[str, Any]:
        return {"pipeline": self.live.name, "beside": self.built.name, "topic": self.live.contract.topic}

    def shapes(self, connection: Connection) -> list[str]:
        """Return the current shape of each live table."""
        asked = [
            connection.execute(queries()["shape_of"], {"table": table.name}) for table in self.live.contract.tables
        ]
        return [shape for answer in asked for (shape,) in answer.fetchall()]

    def begin(
        self, connection: Connection, history: History, fingerprint: str, decided_again: Sequence[int] = ()
    ) -> int:
        """Record the replay, and create its tables like the live ones, with their constraints and the contract's
        current columns. Return its id.
        """
        self.forget(connection)
        self._refuse_uncreated(connection)
        for old in self.live.contract.tables:
            check_target(connection, self.live.name, old, columns=False)
            self._refuse_unfit(connection, old)
        self._refuse_partial_reshaping(connection, history)
        try:
            parameters = {"pipeline": self.live.name, "from_batch": history.from_batch, "fingerprint": fingerprint}
            replay = connection.execute(queries()["begin_replay"], {**parameters, "decided_again": [*decided_again]})
            (replay_id,) = replay.fetchone() or (0,)
            connection.execute(queries()["register_pipeline"], {"pipeline": self.built.name})
            self._create(connection)
        except psycopg.errors.InsufficientPrivilege as error:
            if refused_by_owner(error):
                raise
            raise BadInput(
                f"tables cannot be built next to the live ones: {str(error).strip()}. Run the replay as the owner "
                "of the tables, with CREATE on the database (GRANT CREATE ON DATABASE ... TO ...)",
                field=self.live.name,
            ) from error
        return replay_id

    def forget(self, connection: Connection) -> bool:
        """Drop what was built and not swapped in, ending the session that builds it. Return False if there is none."""
        connection.execute(lock_timeout(LOCK_WAIT))
        row = connection.execute(queries()["lock_pipeline"], {"pipeline": self.built.name}).fetchone()
        if row is not None and row[1] is not None:
            name = application_name(self.built.name, row[1])
            connection.execute(queries()["end_sessions"], {"application_name": name})
        everything = {"pipeline": self.built.name, "epoch": 2**62}
        for staging_id, _ in connection.execute(queries()["stale_staging"], everything).fetchall():
            connection.execute(queries()["forget_staging"], {"staging_id": staging_id})
        staging_tables.drop_all(connection, self.built.name)
        for statement in ("forget_replay", "forget_builder"):
            connection.execute(queries()[statement], self.key)
        return self.drop_tables(connection) or row is not None

    def drop_tables(self, connection: Connection) -> bool:
        """Drop the shadow schemas, with everything in them. Return False if there are none."""
        asked = "SELECT nspname FROM pg_namespace WHERE nspname = ANY(%s) AND obj_description(oid, 'pg_namespace') = %s"
        found = connection.execute(asked, [self._schemas, self.built.name]).fetchall()
        for (schema,) in sorted(found):
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
        return bool(found)

    def reshaping(self, connection: Connection) -> tuple[Statement, ...]:
        """Return the statements that change the empty live tables to match the contract."""
        ledger, contract = ContractLedger(connection, self.live.name), self.live.contract
        applied = ledger.applied()
        before = applied.contract(self.live.name) if applied else contract
        return plan(before, contract, ledger.shapes(contract), Given(emptied=True)).statements

    def refuse_declassified(self, connection: Connection) -> None:
        """Raise BadInput if the contract no longer classifies what the one in force does: differences show rows."""
        ledger, contract = ContractLedger(connection, self.live.name), self.live.contract
        if (applied := ledger.applied()) is not None:
            refuse_declassified(plan(applied.contract(self.live.name), contract, ledger.shapes(contract)))

    def _refuse_uncreated(self, connection: Connection) -> None:
        """Raise BadInput for an accumulate that is new in the contract and not created yet."""
        for table in self.live.contract.accumulates:
            asked = {"table": table.name, "pipeline": self.live.name}
            if connection.execute(queries()["output_owner"], asked).fetchone() is None:
                raise BadInput(
                    f"{table.name} is new in the contract and has not been created yet. Run tidegate contract "
                    f"apply {self.live.name} --yes",
                    field=table.name,
                )

    def _refuse_partial_reshaping(self, connection: Connection, history: History) -> None:
        """Raise BadInput if columns change and not every row would be rebuilt, or others refer to the rows."""
        for item in self.reshaping(connection):
            if not history.whole:
                raise BadInput(
                    f"{item.sql}: this requires rebuilding the rows of every batch: --from earliest", field=item.table
                )
            if found := connection.execute(queries()["referenced_by"], {"table": item.table}).fetchone():
                raise BadInput(
                    f"{item.sql}: this rebuilds every row, but {found[0]} refers to them. Drop that constraint, "
                    "and create it again once the replay is in place",
                    field=item.table,
                )

    def _refuse_unfit(self, connection: Connection, old: Table) -> None:
        if connection.execute(queries()["plain_table"], {"table": old.name}).fetchone() != (True,):
            raise BadInput(
                f"{old.name} is partitioned or has child tables; replay supports ordinary tables only",
                field=old.name,
            )
        if connection.execute(queries()["may_replace"], {"table": old.name}).fetchone() != (True,):
            raise BadInput(
                f"putting a replay in place requires INSERT, UPDATE and DELETE on {old.name}; replay as its owner, or "
                "grant them first",
                field=old.name,
            )
        refuse_unidentified(connection, old, REPLACED)

    def _create(self, connection: Connection) -> None:
        reshaping = self.reshaping(connection)
        for schema in self._schemas:
            self._refuse_existing(connection, schema)
            with unless_created_meanwhile(connection) as committed:
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
                connection.execute(
                    sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(schema), sql.Literal(self.built.name))
                )
            if not committed:
                self._refuse_existing(connection, schema)
        for old, new in zip(self.live.contract.tables, self.built.contract.tables, strict=True):
            table = identifier(new.name)
            connection.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(table, identifier(old.name)))
            # LIKE does not copy it, and a publication FOR ALL TABLES replicates the new table too.
            identity = connection.execute("SELECT relreplident FROM pg_class WHERE oid = to_regclass(%s)", [old.name])
            if identity.fetchone() != ("d",):
                connection.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(table))
            tables = {"table": old.name, "built": new.name}
            for (key,) in connection.execute(queries()["foreign_keys_of"], tables).fetchall():
                connection.execute(sql.SQL("ALTER TABLE {} ADD {}").format(table, sql.SQL(key)))
            for _ in run(connection, [replace(i, table=new.name) for i in reshaping if i.table == old.name]):
                pass

    def _refuse_existing(self, connection: Connection, schema: str) -> None:
        """Raise BadInput if the schema exists."""
        found = connection.execute(
            "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", [schema]
        ).fetchone()
        if found is not None:
            other = (found[0] or "").removesuffix(SUFFIX)
            raise BadInput(
                f"schema {schema} contains the replay of {other}: put that in place, or discard it: "
                f"tidegate replay {other} --discard"
                if found[0] and found[0].endswith(SUFFIX)
                else f"there is a schema {schema} that is not a replay's: rename it and try again",
                field=schema,
            )

    @property
    def _schemas(self) -> list[str]:
        return sorted({table.name.partition(".")[0] for table in self.built.contract.tables})
