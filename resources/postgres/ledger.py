"""The ledger: what the schema `tidegate` remembers. `Ledger` asks; a run's writes are in hold.py."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from platform_defs.contract.model import CheckResult, Contract
from platform_defs.engine.ports import Published
from platform_defs.errors import BadInput
from platform_defs.offsets import OffsetRange, Position
from resources.postgres import tables
from resources.postgres.connection import SQL, application_name, connect, database_errors, queries
from resources.postgres.hold import PostgresHold, acquire, positions_of


@dataclass(frozen=True)
class Ledger:
    """The ledger in the database at `url` (a libpq URI)."""

    url: str

    def migrate(self) -> None:
        """Bring the schema up to date: the numbered files of sql/, each once, one process at a time.

        Raises BadInput, saying what to grant, where the database's user may not create it.
        """
        with connect(self.url) as connection, database_errors():
            try:
                with connection.transaction():
                    _migrate(connection)
            except psycopg.errors.InsufficientPrivilege as error:
                user, database = connection.info.user, connection.info.dbname
                raise BadInput(
                    f"{user} may not create the ledger in {database} ({str(error).strip()}). As an administrator: "
                    f'GRANT CREATE ON DATABASE "{database}" TO "{user}"',
                    field="TIDEGATE_POSTGRES_URL",
                ) from error

    def acquire(self, contract: Contract, run_id: str | None = None) -> PostgresHold:
        """Step 0 (resources/postgres/hold.py): become the pipeline's owner. Raises Halt, LedgerAway, BadInput."""
        return acquire(self.url, contract, run_id)

    def positions(self, pipeline: str, topic: str) -> list[Position]:
        with connect(self.url) as connection, database_errors():
            return positions_of(connection, pipeline, topic)

    def status(self, pipeline: str) -> Mapping[str, Any] | None:
        """state, halt_code, halt_detail, pending, waiting (a failed gate's back-off) and until when (retry_at), owner,
        run_id, epoch; None if unknown."""
        return next(iter(self._dicts("status", pipeline=pipeline)), None)

    def status_and_positions(self, contract: Contract) -> tuple[Mapping[str, Any] | None, list[Position]]:
        """Both as of one moment, whatever commits meanwhile."""
        with connect(self.url) as connection, database_errors(), connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            with connection.cursor(row_factory=dict_row) as cursor:
                status = cursor.execute(queries()["status"], {"pipeline": contract.pipeline}).fetchone()
            return status, positions_of(connection, contract.pipeline, contract.topic)

    def alive(self, pipeline: str, owner: UUID) -> bool:
        """Whether the run that took `owner` still has its database session: that is a run's life."""
        return self._dicts("sessions_of", application_name=application_name(pipeline, owner))[0]["count"] > 0

    def unreported(self, contract: Contract) -> list[Published]:
        """Committed batches that Dagster has not heard of, oldest first."""
        return [_published(self, contract, row) for row in self._dicts("unreported", pipeline=contract.pipeline)]

    def told(self, batch_id: int) -> None:
        """Dagster has heard of the batch."""
        self.execute("told", batch_id=batch_id)

    def execute(self, query: str, **parameters: Any) -> None:
        """Run one named statement in a transaction of its own."""
        with connect(self.url) as connection, database_errors():
            connection.execute(queries()[query], parameters)

    def rows(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of one named query, as dictionaries."""
        return self._dicts(query, **parameters)

    def _dicts(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        with connect(self.url) as connection, database_errors(), connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(queries()[query], parameters).fetchall()


def _migrate(connection: tables.Connection) -> None:
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('tidegate migrations'))")
    # Asked first: IF NOT EXISTS, too, needs the right to create.
    if connection.execute("SELECT to_regclass('tidegate.migration')").fetchone() == (None,):
        connection.execute("CREATE SCHEMA IF NOT EXISTS tidegate")
        # Where a ledger made before this table had its name keeps it.
        connection.execute("ALTER TABLE IF EXISTS public.tidegate_migration SET SCHEMA tidegate")
        connection.execute("ALTER TABLE IF EXISTS tidegate.tidegate_migration RENAME TO migration")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS tidegate.migration (name text PRIMARY KEY, at timestamptz DEFAULT now())"
        )
    done = {name for (name,) in connection.execute("SELECT name FROM tidegate.migration").fetchall()}
    for path in sorted(SQL.glob("[0-9]*.sql")):
        if path.name not in done:
            connection.execute(path.read_bytes())
            connection.execute("INSERT INTO tidegate.migration (name) VALUES (%s)", [path.name])


def _published(ledger: Ledger, contract: Contract, row: Mapping[str, Any]) -> Published:
    ranges = [OffsetRange(**item) for item in ledger.rows("ranges_of", batch_id=row["batch_id"])]
    checks = [
        CheckResult(c["check_name"], c["table_name"], c["severity"], c["passed"], c["observed"])
        for c in ledger.rows("checks_of", batch_id=row["batch_id"])
    ]
    return Published(
        row["batch_id"],
        contract.pipeline,
        tuple(ranges),
        row["messages"],
        row["rows"],
        row["dead_letters"],
        row["unknown_fields"],
        tuple(checks),
        row["timings"],
    )
