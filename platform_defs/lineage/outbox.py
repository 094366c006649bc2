"""The outbox of lineage events, pipeline by pipeline: lineage/lineage.sql."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from platform_defs.ledger.answers import LineageEvent
from platform_defs.ledger.migrations import reading
from platform_defs.postgres.connection import Connection, connect, dict_rows, queries

TRIES = 5  # refusals after which an event is discarded
PAUSE = 5.0  # seconds after the first refusal; doubles each time


@dataclass(frozen=True)
class LineageOutbox:
    """The unsent events of one pipeline, in a session that has the pipeline's turn to send."""

    connection: Connection
    pipeline: str

    def waiting(self, most: int) -> list[LineageEvent]:
        """Return the next events, at most `most`; none while the first one waits for its next try."""
        rows = dict_rows(self.connection, "waiting_lineage", {"pipeline": self.pipeline, "most": most})
        return [LineageEvent(**row) for row in rows]

    def sent(self, sequence: int) -> None:
        """Delete the event, which was sent."""
        self._execute("lineage_sent", {"sequence": sequence})

    def put_off(self, sequence: int, problem: str, seconds: float) -> None:
        """Delay the event and those after it for `seconds`: the receiver was away."""
        self._execute("lineage_put_off", {"sequence": sequence, "problem": problem, "seconds": seconds})

    def refused(self, sequence: int, problem: str) -> bool:
        """Record that the receiver refused the event. Return True if it is discarded."""
        given = {"sequence": sequence, "problem": problem, "seconds": PAUSE, "most": TRIES}
        return self._execute("lineage_refused", given).fetchone() == (True,)

    def _execute(self, query: str, parameters: Mapping[str, Any]) -> Any:
        return self.connection.execute(queries()[query], parameters)


@contextmanager
def outbox(url: str, pipeline: str) -> Generator[LineageOutbox | None]:
    """Yield the pipeline's outbox, for this session alone; None if another session has it. What the block recorded is
    committed at its end, however it ends, or is lost with the session: then events are sent again.

    The lock belongs to a transaction, so it works behind a pooler too.
    """
    with reading(connect(url, "tidegate lineage")) as connection, connection.transaction():
        ours = connection.execute(queries()["lineage_turn"], {"pipeline": pipeline}).fetchone() == (True,)
        yield LineageOutbox(connection, pipeline) if ours else None
