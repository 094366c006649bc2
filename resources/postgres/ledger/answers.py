"""What the ledger answers: one frozen dataclass for each question of resources/postgres/ledger/ledger.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from platform_defs.errors import Halt
from platform_defs.formats.blocks.writer_schema import Part
from platform_defs.offsets import PendingBatch, Position

PipelineState = Literal["active", "halted"]


@dataclass(frozen=True)
class PipelineStatus:
    """One pipeline's row in the ledger; these defaults where it has none, since it has not run yet."""

    pipeline: str
    has_run: bool = False
    state: PipelineState = "active"
    halt_code: str | None = None  # a HaltCode; of another version of Tidegate, perhaps one that is unknown here
    halt_detail: Mapping[str, Any] | None = None
    red_gate: Mapping[str, Any] | None = None  # the blocking checks that the pending batch failed (halts.GateRed)
    pending: PendingBatch | None = None  # the batch whose offsets are fixed
    held: bool = False  # by a live run: its database session is there
    backed_off: bool = False  # a run failed, and it is not yet `retry_at`
    retry_at: datetime | None = None
    last_error: str | None = None  # of the last run, if nothing was planned or published since
    last_error_hides: Sequence[str] | None = None  # of what it quotes no value (engine/task/redaction.py)
    owner: UUID | None = None  # of the newest run that has not ended by itself; it may be dead (`held`)
    run_id: str | None = None
    epoch: int = 0
    row_local: str | None = None  # the key of the transform that was compared last (engine/job/row_local.py)

    @property
    def halt(self) -> Halt | None:
        """Why the pipeline is halted, if it is."""
        if self.state != "halted":
            return None
        return Halt.remembered(self.pipeline, self.halt_code or "", self.halt_detail)


def status_of(pipeline: str, row: Mapping[str, Any] | None) -> PipelineStatus:
    """The status that a row of the ledger says; of no row, that the pipeline has not run."""
    if row is None:
        return PipelineStatus(pipeline)
    fields = dict(row)
    fields["pending"] = PendingBatch.from_json(row["pending"]) if row["pending"] else None
    return PipelineStatus(**fields, has_run=True)


@dataclass(frozen=True)
class PipelineProgress:
    """Where a pipeline is in a partition, and the batch that moved it there."""

    partition: int
    next_offset: int
    batch_id: int | None
    committed_at: datetime | None
    topic_id: str


@dataclass(frozen=True)
class StartedPosition:
    """Where a pipeline started in a log, and where it is."""

    partition: int
    topic: str
    cluster_id: str
    topic_id: str
    start_offset: int
    next_offset: int


@dataclass(frozen=True)
class EpochRead:
    """The end of something that was read, and the epoch of a leader whose log reached there."""

    until_offset: int
    leader_epoch: int


@dataclass(frozen=True)
class StatusAndPositions:
    """A pipeline's status and positions, as of one moment."""

    status: PipelineStatus
    positions: list[Position]


@dataclass(frozen=True)
class UsedSchema:
    """A schema that messages of a pipeline name."""

    pipeline: str
    registry: str
    generation: int
    key: str
    part: Part  # of the messages that names it
    of_late: bool  # whether any did in the last seven days


@dataclass(frozen=True)
class DeadLetterCount:
    """How many dead letters there are of one reason."""

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
    bytes: int | None  # of the value; None for a tombstone


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
    """The lineage events of a pipeline that have not left."""

    pipeline: str
    waiting: int = 0
    given_up: int = 0  # the receiver refused them too often
    problem: str | None = None  # what it said last


@dataclass(frozen=True)
class LineageEvent:
    """An OpenLineage event that waits in the outbox."""

    sequence: int
    event: Mapping[str, Any]
