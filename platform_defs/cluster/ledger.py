"""The cluster of the ledger's topics, the pipelines that read them, and the reassignment of its replicas."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg.types.json import Json

from platform_defs.errors import ChangedMeanwhile, LedgerMissing
from platform_defs.ledger.answers import Reader
from platform_defs.ledger.migrations import migrate, reading
from platform_defs.postgres.connection import connect, database_errors, queries
from platform_defs.settings.current_user import current_user


@dataclass(frozen=True)
class TopicsLedger:
    """The ledger at `url`. Raises LedgerAway, LedgerOutdated, LedgerTooNew, BadInput."""

    url: str = field(repr=False)  # contains the password

    def cluster(self, present: str) -> str | None:
        """Return the id of the cluster of the first apply. Before it: `present` if a pipeline has a position in it,
        else one in which a pipeline has; None without any, or without a ledger.
        """
        with suppress(LedgerMissing), reading(connect(self.url)) as connection:
            row = connection.execute(queries()["known_cluster"], {"cluster_id": present}).fetchone()
            return row[0] if row else None
        return None

    def readers(self, topics: Collection[str]) -> Mapping[str, Sequence[Reader]]:
        """Return the pipelines that have a position in each of `topics`, also those without a contract."""
        found = defaultdict[str, list[Reader]](list)
        with suppress(LedgerMissing), reading(connect(self.url)) as connection:
            for topic, *reader in connection.execute(queries()["topic_readers"], {"topics": list(topics)}):
                found[topic].append(Reader(*reader))
        return found

    def keep_cluster(self, cluster_id: str, *, instead: bool = False) -> None:
        """Keep the cluster, if none is kept yet, or `instead` of the kept one; creates a missing ledger. Raises
        ChangedMeanwhile if another process has just kept another cluster.
        """
        query = "replace_topics_cluster" if instead else "keep_topics_cluster"
        migrate(self.url)
        with connect(self.url) as connection, database_errors():
            connection.execute(queries()[query], {"cluster_id": cluster_id, "who": current_user()})
            kept = connection.execute(queries()["topics_cluster"]).fetchone()
        if kept != (cluster_id,):
            raise ChangedMeanwhile(f"topics were just applied to another cluster ({kept and kept[0]}); make a new plan")

    def reassignment(self, cluster_id: str) -> tuple[Any, int, str, datetime] | None:
        """Return the last applied reassignment: plan, throttle (bytes a second), state and the time it was kept; None
        if there is none. Raises LedgerMissing.
        """
        with reading(connect(self.url)) as connection:
            return connection.execute(queries()["reassignment_of"], {"cluster_id": cluster_id}).fetchone()

    def keep_reassignment(self, cluster_id: str, plan: Mapping[str, Any], throttle: int, state: str) -> datetime | None:
        """Keep it in place of the one before; return the ledger's time. Return None, with nothing changed, if another
        plan is in progress. Raises LedgerMissing.
        """
        kept = {"cluster_id": cluster_id, "plan": Json(plan), "throttle": throttle, "state": state}
        with reading(connect(self.url)) as connection:
            row = connection.execute(queries()["keep_reassignment"], {**kept, "who": current_user()}).fetchone()
            return row[0] if row else None
