"""The ledger: what the schema `tidegate` remembers. `Ledger` asks; a run's writes are in hold.py."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row

from platform_defs.contract.model import CheckResult, Contract
from platform_defs.engine.ports import Published
from platform_defs.errors import LedgerMissing
from platform_defs.offsets import OffsetRange, Position
from resources.postgres.connection import application_name, connect, database_errors, queries
from resources.postgres.hold import PostgresHold, acquire, positions_of
from resources.postgres.migrations import LedgerVersion, migrate, reading, version


@dataclass(frozen=True)
class Ledger:
    """The ledger in the database at `url` (a libpq URI)."""

    url: str

    def migrate(self) -> tuple[str, ...]:
        """Create the ledger or bring it up to date (resources/postgres/migrations.py): when a run opens, and by
        `tidegate migrate`; the migrations applied, by file name. What only reads does not need it: where there is no
        ledger yet, its answers are empty.
        """
        return migrate(self.url)

    def version(self) -> LedgerVersion | None:
        """Which migrations the ledger has had; None where there is none yet."""
        with connect(self.url) as connection, database_errors():
            return version(connection)

    def acquire(self, contract: Contract, run_id: str | None = None) -> PostgresHold:
        """Step 0 (resources/postgres/hold.py): become the pipeline's owner. Raises Halt, LedgerAway, BadInput."""
        return acquire(self.url, contract, run_id)

    def positions(self, pipeline: str, topic: str) -> list[Position]:
        with suppress(LedgerMissing), reading(self.url) as connection:
            return positions_of(connection, pipeline, topic)
        return []

    def status(self, pipeline: str) -> Mapping[str, Any] | None:
        """state, halt_code, halt_detail, pending, waiting (a failed gate's back-off) and until when (retry_at), owner,
        run_id, epoch; None if unknown."""
        return next(iter(self.rows("status", pipeline=pipeline)), None)

    def status_and_positions(self, contract: Contract) -> tuple[Mapping[str, Any] | None, list[Position]]:
        """Both as of one moment, whatever commits meanwhile."""
        with suppress(LedgerMissing), reading(self.url) as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            with connection.cursor(row_factory=dict_row) as cursor:
                status = cursor.execute(queries()["status"], {"pipeline": contract.pipeline}).fetchone()
            return status, positions_of(connection, contract.pipeline, contract.topic)
        return None, []

    def alive(self, pipeline: str, owner: UUID) -> bool:
        """Whether the run that took `owner` still has its database session: that is a run's life."""
        found = self.rows("sessions_of", application_name=application_name(pipeline, owner))
        return bool(found) and found[0]["count"] > 0

    def unreported(self, contract: Contract) -> list[Published]:
        """Committed batches that Dagster has not heard of, oldest first."""
        return [_published(self, contract, row) for row in self.rows("unreported", pipeline=contract.pipeline)]

    def told(self, batch_id: int) -> None:
        """Dagster has heard of the batch."""
        self.execute("told", batch_id=batch_id)

    def execute(self, query: str, **parameters: Any) -> None:
        """Run one named statement in a transaction of its own."""
        with reading(self.url) as connection:
            connection.execute(queries()[query], parameters)

    def rows(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of one named query, as dictionaries; none where there is no ledger yet."""
        with (
            suppress(LedgerMissing),
            reading(self.url) as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            return cursor.execute(queries()[query], parameters).fetchall()
        return []


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
