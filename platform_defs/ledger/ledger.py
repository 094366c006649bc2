"""The ledger, stored in the schema `tidegate`. `Ledger` reads it, with a method for each query.

A run's writes are in engine/lease/lease.py, which is imported only when a run opens: a command that reads does not
wait for Arrow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

from platform_defs.contract.model.contract import CheckResult, Contract
from platform_defs.errors import LedgerMissing
from platform_defs.ledger.answers import (
    DeadLetterCount,
    DeadLetterLine,
    EpochRead,
    LineageBacklog,
    PipelineProgress,
    PipelineStatus,
    StartedPosition,
    StatusAndPositions,
    StoredDeadLetter,
    UsedSchema,
    status_of,
)
from platform_defs.ledger.migrations import LedgerVersion, is_current, migrate, reading, version
from platform_defs.offsets import OffsetRange, Position
from platform_defs.postgres.connection import Connection, connect, database_errors, dict_rows, queries
from platform_defs.postgres.connection_cache import ConnectionCache

if TYPE_CHECKING:
    from platform_defs.ledger.published import Published, SchemaCount

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Ledger:
    """The ledger in the database at `url` (a libpq URI). Without a ledger, its answers are empty.

    Every query raises LedgerAway, and LedgerOutdated or LedgerTooNew for a ledger of another version. Each has its own
    connection, unless they are `kept`.
    """

    url: str = field(repr=False)  # contains the password
    kept: ConnectionCache | None = None

    def migrate(self) -> tuple[str, ...]:
        """Create the ledger or upgrade it (ledger/migrations.py): when a run opens, and by `tidegate
        migrate`. Return the file names of the applied migrations. Readers do not need it: without a ledger, its answers
        are empty.
        """
        with self._connection() as connection, database_errors():
            if is_current(connection):
                return ()
        return migrate(self.url)

    def version(self) -> LedgerVersion | None:
        """Return the migrations that the ledger has had; None if there is no ledger yet."""
        with self._connection() as connection, database_errors():
            return version(connection)

    def ledger_id(self) -> str | None:
        """Return the UUID that tells the Dagster runs of this ledger from those of another; None without a ledger."""
        return self._value("ledger_id")

    # A pipeline

    def status(self, pipeline: str) -> PipelineStatus:
        """Return the pipeline's status; `has_run` is False if it is not in the ledger."""
        return status_of(pipeline, self._row("status", pipelines=[pipeline]))

    def batch_failures(self, pipeline: str) -> int:
        """Return how often in a row the pending batch has failed although every system was available."""
        row = self._row("batch_failures", pipeline=pipeline)
        return row["batch_failures"] if row else 0

    def seconds_since_commit(self, pipelines: Sequence[str]) -> float:
        """Return the seconds since any of these last committed; infinite if none has, or the clock was set back."""
        row = self._row("seconds_since_commit", pipelines=list(pipelines))
        seconds = row["seconds"] if row else None
        return inf if seconds is None or seconds < 0 else seconds

    def positions(self, pipeline: str) -> list[Position]:
        """Return the position in each partition, by partition; empty if the pipeline has not run yet. All are from one
        topic: the one that was read, whatever the contract names by now.
        """
        with suppress(LedgerMissing), reading(self._connection()) as connection:
            return positions_of(connection, [pipeline]).get(pipeline, [])
        return []

    def overview(self, pipelines: Sequence[str]) -> dict[str, StatusAndPositions]:
        """Return the status and positions of each of `pipelines`, from one snapshot."""
        rows: list[dict[str, Any]] = []
        positions: Mapping[str, list[Position]] = {}
        with suppress(LedgerMissing), reading(self._connection()) as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            rows = dict_rows(connection, "status", {"pipelines": list(pipelines)})
            positions = positions_of(connection, pipelines)
        found = {row["pipeline"]: row for row in rows}
        return {
            name: StatusAndPositions(status_of(name, found.get(name)), positions.get(name, [])) for name in pipelines
        }

    def progress(self, pipeline: str, topic: str) -> dict[int, PipelineProgress]:
        """Return the pipeline's position and the batch that moved it there, by partition."""
        rows = self._rows("progress", pipeline=pipeline, topic=topic)
        return {row["partition"]: PipelineProgress(**row) for row in rows}

    def started_positions(self, pipeline: str) -> list[StartedPosition]:
        """Return the first and the current position of each partition, by partition."""
        return [StartedPosition(**row) for row in self._rows("started_positions", pipeline=pipeline)]

    def read_before(self, pipeline: str, topic_id: str) -> dict[int, int]:
        """Return the offset up to which the pipeline has read this log, by partition, when it last left it."""
        rows = self._rows("read_before", pipeline=pipeline, topic_id=topic_id)
        return {row["partition"]: row["until_offset"] for row in rows}

    def epochs_read(self, pipeline: str, topic_id: str, partition: int, low: int) -> list[EpochRead]:
        """Return the leader epochs that batches have recorded for a partition from `low` on, by end offset."""
        rows = self._rows("epochs_read", pipeline=pipeline, topic_id=topic_id, partition=partition, low=low)
        return [EpochRead(**row) for row in rows]

    def sessions_alive(self, names: Collection[str]) -> set[str]:
        """Return the `names` that have a live session (`connection.connect_alive`).

        Asks the database, not the ledger: the very first run has its session before there is a ledger.
        """
        with self._connection() as connection, database_errors():
            rows = connection.execute(queries()["runs_alive"], {"names": list(names)}).fetchall()
        return {name for (name,) in rows}

    # Batches

    def unreported(self, contract: Contract) -> list[Published]:
        """Return committed batches that are not reported to Dagster, oldest first."""
        return [self._published(contract, row) for row in self._rows("unreported", pipeline=contract.pipeline)]

    def unreported_runs(self, pipelines: Collection[str]) -> set[tuple[str, str | None]]:
        """Return pipeline and run of these pipelines' committed batches that are not reported to Dagster."""
        return {(row["pipeline"], row["run_id"]) for row in self._rows("unreported_runs", pipelines=list(pipelines))}

    def put_off_reports(self, batch_ids: Sequence[int]) -> None:
        """Postpone the next run that reports these batches, for longer each time."""
        self._execute("put_off_reports", batch_ids=list(batch_ids))

    def committed(self, contract: Contract, batch_ids: Sequence[int]) -> list[Published]:
        """Return these batches if they have committed, by id; asks over one connection."""
        with closing(ConnectionCache(self.url)) as kept:
            one = replace(self, kept=kept)
            return [one._published(contract, row) for row in one._rows("committed", batch_ids=list(batch_ids))]

    def mark_reported(self, batch_id: int) -> None:
        """Record that the batch is reported to Dagster."""
        self._execute("mark_reported", batch_id=batch_id)

    def newest_transform(self, pipeline: str) -> tuple[int, str] | None:
        """Return the id of the pipeline's newest batch and the digest of the transform that made its rows, empty
        without one; None if there is no batch, or its transform is unknown.
        """
        for row in self._rows("newest_transform", pipeline=pipeline):
            if row["transform_digest"] is not None:
                return row["batch_id"], row["transform_digest"]
        return None

    def rows_so_far(self, pipeline: str, batch_id: int) -> int:
        """Return how many rows the pipeline's batches have written to its row table, up to and including this batch."""
        return self._value("rows_so_far", pipeline=pipeline, batch_id=batch_id) or 0

    # Schemas that messages name

    def schemas_used(self, pipelines: Sequence[str]) -> list[UsedSchema]:
        """Return the schemas of all `pipelines`, in one query."""
        return [UsedSchema(**row) for row in self._rows("schemas_used", pipelines=list(pipelines))]

    def first_named(self, batch: Published) -> list[SchemaCount]:
        """Return the batch's schemas that no message of the pipeline named before it."""
        if not batch.schemas:
            return []
        keys = [item.key for item in batch.schemas]
        asked = {"pipeline": batch.pipeline, "registry": batch.registry, "keys": keys, "batch_id": batch.batch_id}
        found = {(row["generation"], row["key"], row["part"]) for row in self._rows("first_named_in", **asked)}
        return [item for item in batch.schemas if (item.generation, item.key, item.part) in found]

    # Dead letters

    def dead_letter_counts(self, pipeline: str, reason: str | None) -> list[DeadLetterCount]:
        """Return the number of dead letters by reason, highest first; `reason` selects one error class."""
        return [DeadLetterCount(**row) for row in self._rows("dead_letter_counts", pipeline=pipeline, reason=reason)]

    def dead_letters(self, pipeline: str, reason: str | None, limit: int) -> list[DeadLetterLine]:
        """Return at most `limit` dead letters, newest batch first."""
        rows = self._rows("dead_letters_of", pipeline=pipeline, reason=reason, limit=limit)
        return [DeadLetterLine(**row) for row in rows]

    def dead_letter_totals(self, reason: str | None) -> dict[str, list[DeadLetterCount]]:
        """Return the counts of every pipeline that has or had dead letters, by reason, most first."""
        found: dict[str, list[DeadLetterCount]] = {}
        for row in self._rows("dead_letter_totals", reason=reason):
            found.setdefault(row.pop("pipeline"), []).append(DeadLetterCount(**row))
        return found

    def dead_letter_examples(self, pipeline: str) -> list[DeadLetterLine]:
        """Return, for each stage, error class and status, one of the newest batch that has such a dead letter."""
        return [DeadLetterLine(**row) for row in self._rows("dead_letter_examples", pipeline=pipeline)]

    def dead_letter(self, pipeline: str, partition: int, offset: int) -> StoredDeadLetter | None:
        """Return the dead letter at this place; if several logs have this name, that of the newest log."""
        found = self._row("dead_letter_at", pipeline=pipeline, partition=partition, offset=offset)
        if not found:
            return None
        names: list[str] = found.pop("header_names") or []
        values: list[bytes | None] = found.pop("header_values") or []
        return StoredDeadLetter(**found, headers=tuple(zip(names, values, strict=True)))

    # The lineage outbox (lineage/events.py sends it)

    def lineage_backlog(self, pipelines: Sequence[str]) -> dict[str, LineageBacklog]:
        """Return the unsent events by pipeline, for pipelines that have some."""
        return {row["pipeline"]: LineageBacklog(**row) for row in self._rows("lineage_backlog", pipelines=[*pipelines])}

    # How a statement of sql/ is run

    def _rows(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        with suppress(LedgerMissing), reading(self._connection()) as connection:
            return dict_rows(connection, query, parameters)
        return []

    def _row(self, query: str, **parameters: Any) -> dict[str, Any] | None:
        return next(iter(self._rows(query, **parameters)), None)

    def _value(self, query: str, **parameters: Any) -> Any:
        return next(iter((self._row(query, **parameters) or {}).values()), None)

    def _execute(self, query: str, **parameters: Any) -> None:
        with reading(self._connection()) as connection:
            connection.execute(queries()[query], parameters)

    def _connection(self) -> AbstractContextManager[Connection]:
        return self.kept.one() if self.kept else connect(self.url)

    def _published(self, contract: Contract, row: Row) -> Published:
        from platform_defs.ledger.published import Published, SchemaCount

        ranges = [OffsetRange(**item) for item in self._rows("ranges_of", batch_id=row["batch_id"])]
        checks = [
            CheckResult(c["check_name"], c["table_name"], c["severity"], c["passed"], c["observed"])
            for c in self._rows("checks_of", batch_id=row["batch_id"])
        ]
        named = self._rows("schemas_of_batch", batch_id=row["batch_id"]) if contract.wire.framed else []
        return Published(
            batch_id=row["batch_id"],
            pipeline=contract.pipeline,
            ranges=tuple(ranges),
            messages=row["messages"],
            rows=row["rows"],
            dead_letters=row["dead_letters"],
            unknown_fields=row["unknown_fields"],
            checks=tuple(checks),
            timings=row["timings"],
            contract_version=row["contract_version"],
            contract_digest=row["contract_digest"],
            registry=named[0]["registry"] if named else "",
            schemas=tuple(SchemaCount(one["generation"], one["key"], one["messages"], one["part"]) for one in named),
            skipped_records=row["skipped_records"],
            run_id=row.get("run_id"),  # set if the batch is reported late
        )


def positions_of(connection: Connection, pipelines: Sequence[str]) -> Mapping[str, list[Position]]:
    """Return the position in each partition, in order, by pipeline. Each pipeline's are all from one topic."""
    found: dict[str, list[Position]] = defaultdict(list)
    for pipeline, *position in connection.execute(queries()["positions"], {"pipelines": list(pipelines)}):
        found[pipeline].append(Position(*position))
    return found
