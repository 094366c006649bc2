"""What the engine is handed: it opens no connection itself.

`resources/` implements these for Kafka and Postgres. What travels to Spark's workers (Source, StagingArea) is
picklable and opens its connections there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import pyarrow as pa

from platform_defs.contract.model import CheckResult, Contract, Fault
from platform_defs.formats.block import Block
from platform_defs.offsets import OffsetRange, PendingBatch, Position, TopicView


class Source(Protocol):
    """Reads a topic inside a task."""

    def read(self, wanted: OffsetRange) -> Iterator[Block]:
        """Every message of `wanted` that the broker delivers; ends only when the range is proven read.

        Proof is a message at or past its last offset, or partition EOF at or past `until_offset`.
        Raises BrokerAway when the broker stops delivering, TidegateError when the offsets are not there (any more).
        """
        ...


class Broker(Protocol):
    """Describes a topic, in the driver."""

    def describe(self, topic: str) -> TopicView: ...


@dataclass(frozen=True)
class Coverage:
    """Proof that one attempt read the whole of a range, and what came out of it."""

    range: OffsetRange
    attempt: UUID
    messages: int
    rows: int
    dead_letters: int
    unknown_fields: int
    gaps: tuple[tuple[int, int], ...]  # [from, until) that the broker never delivered
    leader_epoch: int | None

    @property
    def outcome(self) -> tuple[Any, ...]:
        """What complete attempts of one range must agree in."""
        return (self.messages, self.rows, self.dead_letters, self.unknown_fields, self.gaps)


class Recorder(Protocol):
    """One transaction of one attempt: its dead letters, then its coverage. Nothing is kept without the coverage."""

    def dead_letters(self, block: Block, faults: Sequence[Fault]) -> None: ...
    def cover(self, coverage: Coverage) -> None: ...


class StagingArea(Protocol):
    """Where the tasks of one try at a batch leave what they made."""

    @property
    def staging_id(self) -> int: ...

    def recorder(self, partition: int, attempt: UUID) -> AbstractContextManager[Recorder]: ...

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """COPY `batches` into this try's table over a connection of its own; the number of rows, once committed."""
        ...


@dataclass(frozen=True)
class Staged:
    """A batch whose rows lie in staging: what publish needs, and nothing that it would have to trust."""

    pending: PendingBatch
    staging_id: int
    winners: Mapping[UUID, int]  # rows by the attempts whose results arrived
    coverage: tuple[Coverage, ...]  # one complete attempt a range

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
class Published:
    """A committed batch, as it is told to Dagster."""

    batch_id: int
    pipeline: str
    ranges: tuple[OffsetRange, ...]
    messages: int
    rows: int
    dead_letters: int
    unknown_fields: int
    checks: tuple[CheckResult, ...]
    timings: Mapping[str, float]  # seconds by step


class Publication(Protocol):
    """The one transaction that makes a batch real. See engine/publish.py for the order and why."""

    def lock_as_owner(self) -> None:
        """Lock the pipeline's row as its owner; whoever was fenced gets no further."""

    def check_tables(self) -> None:
        """Compare each table with the contract."""

    def prove_coverage(self) -> None:
        """Demand a complete attempt for each range."""

    def move_positions(self) -> None:
        """Move the positions of all ranges, each from where it was planned, or roll back."""

    def write_rows(self) -> None:
        """Write the rows of the attempts that won, and count them."""

    def write_dead_letters(self) -> None:
        """Write the dead letters, and count them."""

    def write_record(
        self, checks: Sequence[CheckResult], timings: Mapping[str, float], event: Mapping[str, Any]
    ) -> None:
        """Write the batch, its ranges with gaps, its check results and its lineage; the pending batch is done."""


class PipelineHold(Protocol):
    """One run's hold on a pipeline: every write is under its epoch and owner, or raises Fenced."""

    def positions(self) -> list[Position]: ...
    def pending(self) -> PendingBatch | None: ...
    def add_positions(self, added: Sequence[Position], every: Sequence[Position]) -> None: ...
    def fix(self, view: TopicView, ranges: Sequence[OffsetRange]) -> PendingBatch: ...
    def open_staging(self, pending: PendingBatch) -> StagingArea: ...
    def coverage(self, staging_id: int) -> list[Coverage]: ...
    def faults(self, staged: Staged) -> Mapping[tuple[str, str], tuple[int, list[dict[str, Any]]]]: ...
    def audit_view(self, staged: Staged) -> tuple[str, str, str] | None: ...
    def rehearse(self, staged: Staged) -> None:
        """Write the rows and take them back. Raises RowRefused where a table refuses one."""
        ...

    def publication(self, staged: Staged, *, recorded: bool = True) -> AbstractContextManager[Publication]:
        """One publishing transaction. `recorded`: the batch's own row is in it, and decides a COMMIT gone
        unanswered.
        """
        ...

    def refused_row(self, staged: Staged) -> tuple[int, int, str, str] | None: ...
    def fenced(self) -> bool: ...
    def gate_failed(self) -> None: ...
    def halt(self, code: str, detail: Mapping[str, Any]) -> None: ...
    def sweep(self) -> None: ...


class LineageEvents(Protocol):
    """Makes the OpenLineage event of a batch, to be stored with it."""

    def of_batch(self, contract: Contract, staged: Staged, checks: Sequence[CheckResult]) -> Mapping[str, Any]: ...
