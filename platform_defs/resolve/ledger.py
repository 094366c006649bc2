"""The statements of one settlement, each a method, inside the settlement's one open transaction."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from platform_defs.offsets import PendingBatch
from platform_defs.postgres.connection import LOCK_WAIT, dict_rows, lock_timeout, queries


@dataclass(frozen=True)
class LogPosition:
    """The reading position in a partition: its log, and the offset."""

    topic: str
    cluster_id: str
    topic_id: str
    start_offset: int
    next_offset: int

    def moved_to(self, offset: int) -> "LogPosition":
        """Return the position moved to `offset`. If that is before its start, it starts there."""
        return replace(self, start_offset=min(self.start_offset, offset), next_offset=offset)


@dataclass(frozen=True)
class PartitionChange:
    """A settlement's change to one partition. `was` is None if there is no position, `becomes` for one that is
    forgotten or stays without.
    """

    partition: int
    was: LogPosition | None
    becomes: LogPosition | None
    skip: tuple[int, int] | None = None  # offsets to skip
    lost: tuple[int, int] | None = None  # offsets whose rows no log can confirm any more
    read_first_to: int | None = None  # in a log that was read before: by an upsert, before partitions added since


@dataclass(frozen=True)
class LockedPipeline:
    """A pipeline's row and positions, locked for other sessions while this transaction lasts."""

    positions: tuple[tuple[int, LogPosition], ...]
    pending: PendingBatch | None
    state: str | None = None  # None if there is no such pipeline
    epoch: int = 0
    halt_code: str | None = None
    halt_detail: Mapping[str, Any] | None = None
    failed_checks: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class SettlementLedger:
    """One settlement of `pipeline`, under the `epoch` that it was decided on. Each change is a compare-and-swap.

    The methods that return a bool return False, with nothing changed, if the ledger has changed.
    """

    connection: psycopg.Connection[Any]
    pipeline: str
    epoch: int
    reason: str
    who: str

    def lock(self) -> LockedPipeline:
        """Lock the pipeline's row and positions, and read them."""
        self.connection.execute(lock_timeout(LOCK_WAIT))
        (row,) = dict_rows(self.connection, "halted", self._key) or [{}]
        found = dict_rows(self.connection, "settled_positions", self._key)
        positions = tuple((item.pop("partition"), LogPosition(**item)) for item in found)
        stored = row.pop("pending", None)
        return LockedPipeline(positions, PendingBatch.from_json(stored) if stored else None, **row)

    def record(self, code: str, detail: Mapping[str, Any], actions: Mapping[str, Any]) -> int:
        """Record who decided what, and why. Return the settlement's id."""
        parameters = {"code": code, "detail": Jsonb(detail), "actions": Jsonb(actions)}
        (settlement_id,) = self._execute("record_settlement", parameters).fetchone() or (0,)
        return settlement_id

    def skip(self, partition: int, topic_id: str, span: tuple[int, int]) -> None:
        """Record offsets that will not be read."""
        self._execute("declare_skip", _span(partition, topic_id, span))

    def lose(self, settlement_id: int, partition: int, topic_id: str, span: tuple[int, int]) -> None:
        """Record committed offsets that no log has any more."""
        self._execute("declare_lost", {"settlement_id": settlement_id, **_span(partition, topic_id, span)})

    def set_aside(self, settlement_id: int, partition: int, topic_id: str, span: tuple[int, int]) -> None:
        """Rename the log of dead letters and skips whose offsets come again with other messages."""
        self._execute("set_aside", {"settlement_id": settlement_id, **_span(partition, topic_id, span)})

    def move(self, partition: int, was: LogPosition, becomes: LogPosition, read_first_to: int | None) -> bool:
        """Move the position at which reading resumes."""
        log = {"was_topic": was.topic, "was_topic_id": was.topic_id, "was_cluster_id": was.cluster_id}
        before = {"was_next": was.next_offset, **log}
        there = {"partition": partition, **asdict(becomes), "read_first_to": read_first_to}
        return self._swap("settle_position", {**there, **before})

    def forget(self, partition: int, was: LogPosition, log: tuple[str, str]) -> bool:
        """Delete the position of a partition that another `log` (cluster id, topic id) does not have."""
        there = {"partition": partition, "was_next": was.next_offset, "cluster_id": log[0], "topic_id": log[1]}
        return self._swap("forget_position", there)

    def add(self, partition: int, becomes: LogPosition, read_first_to: int | None) -> bool:
        """Add the position of a partition that is new in the log. Its siblings must have been moved there before."""
        there = {"partition": partition, **asdict(becomes), "seen_end": read_first_to}
        return self._swap("add_position", {**there, "late": True})

    def open_generation(self, registry: str) -> None:
        """Record that from the positions on, messages name schemas of the registry's next generation."""
        self._execute("open_generation", {"registry": registry})

    def reactivate(self, state: str, marks: Mapping[str, Any], *, keep_pending: bool) -> bool:
        """Change the pipeline from `state` to active, under the next epoch: an earlier run changes nothing any more. A
        pending batch that is kept has `marks` from now on.
        """
        return self._swap("reactivate", {"state": state, "marks": Jsonb(marks), "keep_pending": keep_pending})

    @property
    def _key(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline, "epoch": self.epoch, "reason": self.reason, "settled_by": self.who}

    def _swap(self, name: str, parameters: Mapping[str, Any]) -> bool:
        return self._execute(name, parameters).rowcount == 1

    def _execute(self, name: str, parameters: Mapping[str, Any]) -> psycopg.Cursor[Any]:
        return self.connection.execute(queries()[name], {**self._key, **parameters})


def _span(partition: int, topic_id: str, span: tuple[int, int]) -> dict[str, Any]:
    return {"partition": partition, "topic_id": topic_id, "from_offset": span[0], "until_offset": span[1]}
