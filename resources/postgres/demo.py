"""What `tidegate demo` reports of its tables, from one snapshot."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal

from psycopg.rows import args_row

from resources.postgres.connection import connect, database_errors, queries


@dataclass(frozen=True)
class DemoTotals:
    """All that was ever read by bank_transfers, whichever run sent it."""

    messages: int
    postings: int
    dead_letters: int
    accounts: int
    balances_sum: Decimal | None  # None where there is no account
    messages_per_second: int | None  # in the last batch; None where there is none

    @property
    def exact(self) -> bool:
        """Whether every message is two postings or one dead letter, and the postings sum to 0."""
        return self.postings == 2 * (self.messages - self.dead_letters) and not self.balances_sum


def read_totals(url: str) -> tuple[DemoTotals, Mapping[str, int]]:
    """The totals, and the dead letters by reason, most first. Raises LedgerAway."""
    with database_errors(), closing(connect(url, "tidegate demo")) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        with connection.cursor(row_factory=args_row(DemoTotals)) as cursor:
            (totals,) = cursor.execute(queries()["demo_totals"]).fetchall()
        return totals, dict(connection.execute(queries()["demo_reasons"]).fetchall())
