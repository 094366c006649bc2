"""The outbox of lineage events, pipeline by pipeline: sql/queries/lineage.sql."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg.rows import dict_row

from resources.postgres.ledger.answers import LineageEvent
from resources.postgres.ledger.migrations import reading
from resources.postgres.session.connection import Connection, connect, queries

TRIES = 5  # after which an event that the receiver refuses is given up
PAUSE = 5.0  # seconds after the first refusal, and then twice as long each time


@dataclass(frozen=True)
class LineageOutbox:
    """The events of one pipeline that have not left, in a session that holds the pipeline's turn to send."""

    connection: Connection
    pipeline: str

    def waiting(self, most: int) -> list[LineageEvent]:
        """The next ones, at most so many; none while the first one waits to be tried again."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(queries()["waiting_lineage"], {"pipeline": self.pipeline, "most": most}).fetchall()
        return [LineageEvent(**row) for row in rows]

    def sent(self, sequence: int) -> None:
        """It has left."""
        self._execute("lineage_sent", {"sequence": sequence})

    def put_off(self, sequence: int, problem: str, seconds: float) -> None:
        """It and those after it wait for so long: the receiver was away."""
        self._execute("lineage_put_off", {"sequence": sequence, "problem": problem, "seconds": seconds})

    def refused(self, sequence: int, problem: str) -> bool:
        """The receiver refused it. Whether it is given up."""
        given = {"sequence": sequence, "problem": problem, "seconds": PAUSE, "most": TRIES}
        return self._execute("lineage_refused", given).fetchone() == (True,)

    def _execute(self, query: str, parameters: Mapping[str, Any]) -> Any:
        return self.connection.execute(queries()[query], parameters)


@contextmanager
def outbox(url: str, pipeline: str) -> Generator[LineageOutbox | None]:
    """The pipeline's outbox, for this session alone while the block runs; None where another has it. What the block
    noted is committed at its end, however it ends, or is lost with the session: then events are sent once more.

    A transaction holds the lock, so it holds behind a pooler too.
    """
    with reading(connect(url, "tidegate lineage")) as connection, connection.transaction():
        ours = connection.execute(queries()["lineage_turn"], {"pipeline": pipeline}).fetchone() == (True,)
        yield LineageOutbox(connection, pipeline) if ours else None
