"""The statements of `tidegate prune` for one pipeline's ledger, page by page: prune/prune.sql.

Each page is one short transaction under the pipeline's row lock, which every publication, settlement and replay takes
first: so none sees half of it, and a prune that ends anywhere has done the pages before.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from platform_defs.ledger.migrations import require_current
from platform_defs.postgres.connection import Connection, database_errors, dict_rows, lock_timeout, queries

PAGE = 500  # batches, dead letters or messages in one transaction
NEWEST = 100  # batches of a pipeline that are kept at any age: its current behavior is evaluated by them
WAIT = "10s"  # for a publication that has locked the pipeline's row


@dataclass(frozen=True)
class SettledLetter:
    """A dead letter that was settled longer ago than the retention; `gone`: the log no longer has its message."""

    topic_id: str
    partition: int
    offset: int
    gone: bool


@dataclass(frozen=True)
class PruneLedger:
    """One pipeline's part of the ledger, over an autocommit connection to it. `seconds`: the retention. `lows`: by
    partition, the first offset that the log of `topic_id` still has; empty if unknown.

    Every method raises LedgerAway; those that remove something, LedgerTooNew if the ledger was upgraded meanwhile.
    """

    connection: Connection = field(repr=False)
    pipeline: str
    seconds: float
    topic_id: str | None = None
    lows: Mapping[int, int] = field(default_factory=dict[int, int])
    known: bool = False  # True if the lows are known

    # Reading

    def log(self) -> dict[str, Any] | None:
        """Return the log that the pipeline reads: topic, topic_id, cluster_id; None if it has read nothing."""
        return next(iter(self._rows("prune_log")), None)

    def batches(self, after: int) -> dict[int, str | None]:
        """Return the next batches that are older than the retention, at most PAGE, and by id what keeps each: replay,
        unreported, newest, dead_letters, held (the topic still has messages of it), unknown (the broker did not
        answer); None if nothing does.
        """
        return {row["batch_id"]: row["kept_by"] for row in self._rows("old_batches", after=after)}

    def pruned_until(self) -> int:
        """Return the last batch whose details are removed."""
        rows = self._rows("checks_pruned_until")
        return rows[0]["checks_pruned_until"] if rows else 0

    def details(self, after: int) -> dict[str, int] | None:
        """Return the details of the next batches that are older than the retention, which are removed before the
        batches: until_batch, and the numbers of passed checks, of lineage events, and of those never sent. None if
        there are none.
        """
        (row,) = self._rows("passed_checks", after=after)
        return row if row["until_batch"] else None

    def settled(self, after: SettledLetter | None) -> list[SettledLetter]:
        """Return the next settled dead letters, at most PAGE."""
        place = (after.topic_id, after.partition, after.offset) if after else ("", -1, -1)
        names = ("topic_after", "partition_after", "offset_after")
        rows = self._rows("settled_dead_letters", **dict(zip(names, place, strict=True)))
        return [SettledLetter(**row) for row in rows]

    def settled_unsent(self) -> int:
        """Return how many messages of producers were settled longer ago than the retention."""
        return self._rows("settled_unsent")[0]["messages"]

    def remove_unsent(self) -> int:
        """Remove at most PAGE of them; return their number. There is no row to lock: a producer needs no pipeline."""
        with database_errors():
            require_current(self.connection)
        return self._rows("prune_unsent")[0]["messages"]

    # Removing one page: under the lock, only what is removed is read again

    @contextmanager
    def page(self) -> Generator[bool]:
        """Open a transaction that has locked the pipeline's row; yield False if the pipeline reads another log by now.
        Raises LedgerAway if a publication keeps the row locked for longer than WAIT.
        """
        with database_errors():
            require_current(self.connection)
        with database_errors(), self.connection.transaction():
            self.connection.execute(lock_timeout(WAIT))
            row = self.connection.execute(queries()["prune_lock"], self._key()).fetchone()
            yield row == (self.topic_id,)

    def ranges(self, batches: Sequence[int]) -> list[dict[str, Any]]:
        """Return the ranges that these batches read, ordered by id, as prune.PrunedRange."""
        return self._rows("ranges_to_prune", batches=list(batches))

    def newest_ranges(self) -> list[dict[str, Any]]:
        """Return the last pruned range of each partition."""
        return self._rows("newest_pruned")

    def lost_after(self) -> list[int]:
        """Return the batches up to which history has been recorded as lost, ascending."""
        return [row["until_batch"] for row in self._rows("lost_boundaries")]

    def write_ranges(self, batches: Sequence[int], ranges: Sequence[Mapping[str, Any]]) -> None:
        """Record the summary of these batches, before they are removed."""
        added = [[one for one in batches if item["added_after"] < one <= item["last_batch"]] for item in ranges]
        given = [self._key(**item, added=new) for item, new in zip(ranges, added, strict=True)]
        with self.connection.cursor() as cursor:
            cursor.executemany(queries()["write_pruned_range"], given)

    def remove_batches(self, batches: Sequence[int]) -> None:
        """Remove the batches; what refers to them is summed up."""
        for statement in ("prune_schemas", "prune_checks_of", "prune_batches"):
            self.connection.execute(queries()[statement], self._key(batches=list(batches)))

    def remove_details(self, after: int, until_batch: int) -> None:
        """Remove the details of the batches after `after`, up to `until_batch`."""
        self.connection.execute(queries()["prune_passed"], self._key(after=after, until_batch=until_batch))

    def remove_letters(self, letters: Sequence[SettledLetter]) -> None:
        """Remove these dead letters; their places stay recorded."""
        given = {
            "topic_ids": [item.topic_id for item in letters],
            "at_partitions": [item.partition for item in letters],
            "offsets": [item.offset for item in letters],
        }
        self.connection.execute(queries()["prune_dead_letters"], self._key(**given))

    def _rows(self, query: str, **more: Any) -> list[dict[str, Any]]:
        with database_errors():
            return dict_rows(self.connection, query, self._key(**more))

    def _key(self, **more: Any) -> dict[str, Any]:
        """Return the parameters that every statement gets, and `more`."""
        return {
            "pipeline": self.pipeline,
            "seconds": self.seconds,
            "topic_id": self.topic_id,
            "partitions": list(self.lows),
            "lows": list(self.lows.values()),
            "known": self.known,
            "newest": NEWEST,
            "most": PAGE,
            **more,
        }
