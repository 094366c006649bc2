"""The table totals of `tidegate demo`, from one snapshot, and the tables of `tidegate demo delivery`."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from platform_defs.errors import BadInput
from platform_defs.postgres.connection import Connection, connect, database_errors, dict_rows, lock_timeout, queries

SCHEMA = "tidegate_demo"
_MADE = "made by tidegate demo delivery"  # the comment on it


def read_totals(url: str) -> dict[str, Any]:
    """Return the totals of all that bank_transfers has ever read, whichever run sent it, with the dead letters by
    reason, most first. `exact`: every message is two postings or one dead letter, and the postings sum to 0. Without an
    account, `balances_sum` is None; without a batch, `messages_per_second`. Raises LedgerAway.
    """
    with database_errors(), closing(connect(url, "tidegate demo")) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        (totals,) = dict_rows(connection, "demo_totals", {})
        reasons = dict(connection.execute(queries()["demo_reasons"]).fetchall())
    posted = 2 * (totals["messages"] - totals["dead_letters"])
    exact = totals["postings"] == posted and not totals["balances_sum"]
    return {**totals, "dead_letters_by_reason": reasons, "exact": exact}


@dataclass(frozen=True)
class DemoSchema:
    """The schema of `tidegate demo delivery`: postings, and the positions of the consumer that keeps its own."""

    connection: Connection

    def earlier_topic(self) -> str | None:
        """Return the id of the topic of a run that was kept or killed; None if there is none.

        Raises BadInput for a schema of that name that no such run has made.
        """
        if (found := self.connection.execute(queries()["demo_delivery_schema"]).fetchone()) is None:
            return None
        if found != (_MADE,):
            raise BadInput(
                f"the schema {SCHEMA} exists, but `tidegate demo delivery` did not create it: it lacks the comment "
                f"{_MADE!r}. Nothing was changed. Rename the schema (ALTER SCHEMA {SCHEMA} RENAME TO ...), or use "
                "another database for the demo (TIDEGATE_POSTGRES_URL)"
            )
        row = self.connection.execute(queries()["demo_delivery_topic"]).fetchone()
        return row[0] if row else None

    def make(self) -> None:
        """Create the schema, in place of an earlier run's. Raises BadInput if the user may not create schemas."""
        may, database, user = self.connection.execute(queries()["demo_delivery_right"]).fetchall()[0]
        if not may:
            raise BadInput(
                f"{user} may not create the schema {SCHEMA} in {database}. Ask the database's owner to grant the "
                f"right: GRANT CREATE ON DATABASE {database} TO {user}"
            )
        with self.connection.transaction():
            self.drop()
            self.connection.execute(queries()["demo_delivery_make"])

    def keep_topic(self, topic_id: str) -> None:
        """Record the topic, so that the next run deletes it if this one cannot."""
        self.connection.execute(queries()["demo_delivery_keep_topic"], {"topic_id": topic_id})

    def counts(self, semantics: str) -> tuple[int, int, Decimal]:
        """Return a consumer's transfers with both postings, its transfers with a posting that was written more than
        once, and the sum of the balances.
        """
        return self.connection.execute(queries()["demo_delivery_counts"], {"semantics": semantics}).fetchall()[0]

    def drop(self) -> None:
        """Drop the schema, if a run has made it. Raises LedgerAway if another program locks one of its tables."""
        with database_errors(), self.connection.transaction():
            self.connection.execute(lock_timeout("10s"))
            if self.connection.execute(queries()["demo_delivery_schema"]).fetchone() == (_MADE,):
                self.connection.execute(queries()["demo_delivery_drop"])


@contextmanager
def demo_schema(url: str) -> Generator[DemoSchema]:
    """Yield the schema, which need not exist yet. No other run uses this database's meanwhile.

    Raises BadInput if one does, LedgerAway.
    """
    with database_errors(), closing(connect(url, "tidegate demo delivery")) as connection:
        if connection.execute(queries()["demo_delivery_lock"]).fetchone() != (True,):
            raise BadInput("another `tidegate demo delivery` is running in this database. Wait until it ends")
        yield DemoSchema(connection)
