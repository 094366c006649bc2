"""Which cluster the ledger's topics are in: that of the first `tidegate topics apply`."""

from contextlib import suppress
from dataclasses import dataclass, field

from platform_defs.errors import ChangedMeanwhile, LedgerMissing
from resources.current_user import current_user
from resources.postgres.connection import connect, database_errors, queries
from resources.postgres.migrations import migrate, reading


@dataclass(frozen=True)
class TopicsLedger:
    """The ledger at `url`. Raises LedgerAway, LedgerOutdated, LedgerTooNew, BadInput."""

    url: str = field(repr=False)  # it holds the password

    def first_cluster(self) -> str | None:
        """The cluster of the first apply; None before it, or where there is no ledger yet."""
        with suppress(LedgerMissing), reading(connect(self.url)) as connection:
            row = connection.execute(queries()["topics_cluster"]).fetchone()
            return row[0] if row else None
        return None

    def keep_cluster(self, cluster_id: str, *, instead: bool = False) -> None:
        """Keep the cluster, where none is kept yet, or `instead` of the one that is; the ledger is created if need
        be. Raises ChangedMeanwhile where another process has just kept another one.
        """
        query = "replace_topics_cluster" if instead else "keep_topics_cluster"
        migrate(self.url)
        with connect(self.url) as connection, database_errors():
            connection.execute(queries()[query], {"cluster_id": cluster_id, "who": current_user()})
            kept = connection.execute(queries()["topics_cluster"]).fetchone()
        if kept != (cluster_id,):
            raise ChangedMeanwhile(f"topics were applied to another cluster just now ({kept and kept[0]}); plan again")
