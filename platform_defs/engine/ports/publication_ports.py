"""A staged batch and the transaction that publishes it, in a run or, directly, in a task."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import pyarrow as pa

from platform_defs.contract.model.contract import CheckResult, Stage
from platform_defs.engine.ports.task_ports import Coverage
from platform_defs.ledger.published import RowChanges
from platform_defs.offsets import OffsetRange, PendingBatch


@dataclass(frozen=True)
class Staged:
    """A batch whose rows are in staging: the facts that publish uses and checks again."""

    pending: PendingBatch
    staging_id: int
    winners: Mapping[UUID, int]  # rows by the attempts whose results arrived
    coverage: tuple[Coverage, ...]  # one complete attempt a range
    registry: str = ""  # whose schemas the coverage counts
    messages_with_rows: int | None = None  # that the transform made into one row or more; None without a transform

    @property
    def filtered(self) -> int | None:
        """Messages that passed their checks and that the transform made no row from; None without a transform."""
        decoded = sum(item.rows for item in self.coverage)
        return None if self.messages_with_rows is None else decoded - self.messages_with_rows

    @property
    def rows(self) -> int:
        return sum(self.winners.values())

    @property
    def messages(self) -> int:
        return sum(item.messages for item in self.coverage)

    @property
    def dead_letters(self) -> int:
        return sum(item.dead_letters for item in self.coverage)

    @property
    def unknown_fields(self) -> int:
        return sum(item.unknown_fields for item in self.coverage)


@dataclass(frozen=True)
class FaultGroup:
    """The messages of a batch that are dead letters for one reason."""

    stage: Stage
    error_class: str
    count: int
    samples: tuple[Mapping[str, Any], ...]  # up to ten, by offset: partition, offset, field, message


class Publication(Protocol):
    """The one transaction that makes a batch real. engine/commit/publish.py has the order and why."""

    staged: Staged
    changes: RowChanges | None  # of an upsert, once its rows are written

    def lock_as_owner(self) -> None:
        """Raise Fenced unless this run still owns the pipeline, and it is active."""
        ...

    def check_tables(self) -> None:
        """Raise BadInput if a table differs from the contract."""
        ...

    def prove_coverage(self) -> None:
        """Raise StagingLost unless each planned range has a complete attempt in staging."""
        ...

    def move_positions(self) -> None:
        """Raise Fenced, with no position moved, unless each one is where the batch was planned from."""
        ...

    def write_record(
        self, checks: Sequence[CheckResult], timings: Mapping[str, float], event: Mapping[str, Any]
    ) -> None:
        """Write the batch, its ranges with gaps, its check results and its lineage event; clear the pending batch."""
        ...

    def write_dead_letters(self) -> None:
        """Raise StagingLost unless as many are written as coverage counted."""
        ...

    def write_rows(self) -> None:
        """Write the winners' rows and merge the accumulates. Raises StagingLost unless they are as many as reported."""
        ...


class CountsFaults(Protocol):
    """Counts the dead letters of a batch that is not published yet."""

    def faults(self, staged: Staged) -> list[FaultGroup]:
        """Return dead-letter counts by stage and error class."""
        ...


class DirectTransaction(Protocol):
    """One transaction of a task: the rows of a range, then the steps that make a batch of them."""

    @property
    def batch_id(self) -> int: ...

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """COPY `batches` into the row table, which is first locked against changes and compared with the contract.
        Return the number of rows. Raises RowRefused, BadInput, and what `batches` raises.
        """
        ...

    def staged(self, coverage: Coverage, rows: int, registry: str) -> Staged:
        """Return the range as a batch of its own, with `rows` that were COPYed."""
        ...

    def publication(self, staged: Staged) -> Publication:
        """Return the rest of this transaction. Its `staged` has the latest counts once the row is locked."""
        ...


class DirectSession(Protocol):
    """A session of a task that publishes ranges, one after the other."""

    def is_published(self, wanted: OffsetRange) -> bool:
        """Return True if the range has been published as the batch that it is in this try. Raises Fenced."""
        ...

    def faults(self, staged: Staged) -> list[FaultGroup]:
        """See PipelineLease."""
        ...

    def transaction(self, wanted: OffsetRange) -> AbstractContextManager[DirectTransaction]:
        """Open a transaction, which commits when the block ends without an error."""
        ...


class DirectArea(Protocol):
    """The area through which the tasks of one try publish ranges, each as a batch of its own."""

    def session(self) -> AbstractContextManager[DirectSession]:
        """Open a session under the name of the run that owns the pipeline, so that it ends with it."""
        ...
