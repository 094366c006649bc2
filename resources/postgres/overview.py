"""All pipelines at a glance, as the sensor and a run ask every few seconds: two statements over a kept connection."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from psycopg.rows import dict_row

from platform_defs.errors import LedgerAway, LedgerMissing
from platform_defs.offsets import Position
from resources.postgres.answers import PipelineStatus, StatusAndPositions, status_of
from resources.postgres.connection import Connection, connect, database_errors, queries
from resources.postgres.migrations import require_current


@dataclass
class LedgerOverview:
    """Asks the ledger at `url` (a libpq URI) over one connection, opened at the first question and after a failure."""

    url: str
    _connection: Connection | None = None

    def read(self, pipelines: Sequence[str]) -> dict[str, StatusAndPositions]:
        """Each of `pipelines`, all as of one moment. Raises LedgerAway, LedgerOutdated and LedgerTooNew."""
        found: dict[str, StatusAndPositions] = {}
        with suppress(LedgerMissing):
            found = self._asked(pipelines)
        return {name: found.get(name) or StatusAndPositions(PipelineStatus(name), []) for name in pipelines}

    def sessions(self, prefix: str) -> set[str]:
        """The application names that begin with `prefix`, of all sessions. Asks the database: there may be no ledger
        yet.
        """
        rows = self._execute("run_sessions", prefix=prefix)
        return {row["application_name"] for row in rows}

    def close(self) -> None:
        """End the session; the next question opens another."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _asked(self, pipelines: Sequence[str]) -> dict[str, StatusAndPositions]:
        names = list(pipelines)
        with database_errors(), self._open().transaction():
            self._open().execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            require_current(self._open())
            rows = self._execute("status", pipelines=names)
            positions = self._positions(names)
        statuses = {row["pipeline"]: status_of(row["pipeline"], row) for row in rows}
        return {name: StatusAndPositions(status, positions.get(name, [])) for name, status in statuses.items()}

    def _positions(self, names: list[str]) -> Mapping[str, list[Position]]:
        found: dict[str, list[Position]] = defaultdict(list)
        for row in self._execute("all_positions", pipelines=names):
            found[row.pop("pipeline")].append(Position(**row))
        return found

    def _execute(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        try:
            with database_errors(), self._open().cursor(row_factory=dict_row) as cursor:
                return cursor.execute(queries()[query], parameters).fetchall()
        except LedgerAway:
            self.close()
            raise

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self.url, "tidegate/overview")
        return self._connection
