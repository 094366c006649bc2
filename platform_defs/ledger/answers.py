"""The results of the ledger's queries: one frozen dataclass for each query of ledger/ledger.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from platform_defs.errors import Halt
from platform_defs.formats.blocks.writer_schema import Part
from platform_defs.offsets import PendingBatch, Position
from platform_defs.producer_options.partitioners import OF_TOPICS_THAT_EXIST

PipelineState = Literal["active", "halted"]


@dataclass(frozen=True)
class PipelineStatus:
    """One pipeline's row in the ledger; these defaults if it has no row, since it has not run yet."""

    pipeline: str
    has_run: bool = False
    state: PipelineState = "active"
    halt_code: str | None = None  # of errors/halts.py; one from another version of Tidegate may be unknown here
    halt_detail: Mapping[str, Any] | None = None
    failed_checks: Mapping[str, Any] | None = None  # of the pending batch: halts.BlockingCheckFailed as JSON
    pending: PendingBatch | None = None  # the batch whose offsets are fixed
    held: bool = False  # by a live run: its database session is open
    backed_off: bool = False  # a run failed, and `retry_at` is not reached
    retry_at: datetime | None = None
    last_error: str | None = None  # from the last run, if nothing was planned or published since
    last_error_hides: Sequence[str] | None = None  # fields whose values it does not quote (contract/redaction.py)
    owner: UUID | None = None  # the newest run that has not ended by itself; it may be dead (`held`)
    run_id: str | None = None
    epoch: int = 0
    row_local: str | None = None  # the key of the transform that was compared last (engine/job/row_local.py)

    @property
    def halt(self) -> Halt | None:
        """The reason why the pipeline is halted; None if it is not."""
        if self.state != "halted":
            return None
        return Halt.remembered(self.pipeline, self.halt_code or "", self.halt_detail)


def status_of(pipeline: str, row: Mapping[str, Any] | None) -> PipelineStatus:
    """Return the status from a row of the ledger; without a row, that of a pipeline that has not run."""
    if row is None:
        return PipelineStatus(pipeline)
    fields = dict(row)
    fields["pending"] = PendingBatch.from_json(row["pending"]) if row["pending"] else None
    return PipelineStatus(**fields, has_run=True)


@dataclass(frozen=True)
class PipelineProgress:
    """The position of a pipeline in a partition, and the batch that moved it there."""

    partition: int
    next_offset: int
    batch_id: int | None
    committed_at: datetime | None
    topic_id: str


@dataclass(frozen=True)
class StartedPosition:
    """The position at which a pipeline started in a log, and its position now."""

    partition: int
    topic: str
    cluster_id: str
    topic_id: str
    start_offset: int
    next_offset: int


@dataclass(frozen=True)
class EpochRead:
    """The end of a range that was read, and the epoch of a leader whose log reached there."""

    until_offset: int
    leader_epoch: int


@dataclass(frozen=True)
class StatusAndPositions:
    """A pipeline's status and positions, as of one moment."""

    status: PipelineStatus
    positions: list[Position]


@dataclass(frozen=True)
class UsedSchema:
    """A schema that a pipeline's messages name."""

    pipeline: str
    registry: str
    generation: int
    key: str
    part: Part  # the part of the messages that names it
    of_late: bool  # True if any did in the last seven days


@dataclass(frozen=True)
class DeadLetterCount:
    """The number of dead letters with one reason."""

    stage: str
    error_class: str
    status: str
    messages: int


@dataclass(frozen=True)
class DeadLetterLine:
    """A dead letter without its content."""

    batch_id: int
    partition: int
    offset: int
    timestamp_ms: int | None
    stage: str
    error_class: str
    error_message: str
    field: str | None
    status: str
    bytes: int | None  # size of the value; None for a tombstone


@dataclass(frozen=True)
class StoredDeadLetter:
    """A dead letter, with the message as it was in the topic."""

    topic: str
    topic_id: str
    batch_id: int
    partition: int
    offset: int
    timestamp_ms: int | None
    stage: str
    error_class: str
    error_message: str
    field: str | None
    status: str
    status_by: str | None
    status_at: datetime | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class LineageBacklog:
    """The unsent lineage events of a pipeline."""

    pipeline: str
    waiting: int = 0
    given_up: int = 0  # the receiver refused them too often
    problem: str | None = None  # the receiver's last message


@dataclass(frozen=True)
class LineageEvent:
    """An OpenLineage event that waits in the outbox."""

    sequence: int
    event: Mapping[str, Any]


@dataclass(frozen=True)
class Reader:
    """A pipeline that reads the topic."""

    pipeline: str
    disposition: Literal["append", "upsert"]
    seconds: float = 30.0  # after which a run starts for its oldest unread message
    partitioner: str = OF_TOPICS_THAT_EXIST  # of producers by its contract
